"""`spectator play` with models: within their caps, and with an account of what they took."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from spectator.policies.spending import UNCOVERED
from tests.commands import spectator
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint, write_captains
from tests.llm.fake_server import FakeModelServer, Mode

TOKENS = f"the episode's cap of 900 tokens is reached{UNCOVERED}"
CANARY = "sk-canary-2342-of-the-command-line"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(tmp_path / "captains.toml"))
    monkeypatch.setenv("FAKE_KEY", CANARY)
    return tmp_path


def describe(folder: Path, fake: FakeModelServer, **table: object) -> None:
    fields = {"base_url": fake.base_url, "api_key_env": "FAKE_KEY", "price_in": 2.0, "price_out": 8.0}
    fields |= {"max_tokens": 16}
    write_captains(folder / "captains.toml", mine={**fields, **table})


def play(*arguments: str) -> Result:
    return spectator("play", "counting", "--captain", "llm:mine", "--seed", "4", *arguments)


def decisions(played: Result) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in played.stdout.splitlines()]
    return [event["data"] for event in events if event["type"] == "decision.made"]


@pytest.mark.parametrize(
    ("arguments", "variables", "reached"),
    [
        (["--max-tokens", "900"], {}, TOKENS),
        (["--max-cost", "0.002"], {}, f"the episode's cap of US$0.002 is reached{UNCOVERED}"),
        ([], {"SPECTATOR_MODEL_EPISODE_TOKENS": "900"}, TOKENS),
        ([], {"SPECTATOR_MODEL_DAY_TOKENS": "900"}, TOKENS.replace("episode", "day")),
        ([], {"SPECTATOR_MODEL_EPISODE_S": "0.001"}, "the episode's cap of 0.001 s of asking is reached"),
    ],
)
def test_beyond_a_cap_the_fallback_decides_and_it_is_told_once(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    variables: dict[str, str],
    reached: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with endpoint(counter) as fake:
        describe(folder, fake)
        played = play(*arguments)
        asked = len(fake.received)
    assert played.exit_code == 0, played.output
    assert played.stderr.count(f"{reached}: its fallback decides for llm:mine from here on") == 1
    made = decisions(played)
    assert [one["source"] for one in made] == ["model"] * asked + ["fallback"] * (len(made) - asked)
    assert 0 < asked < len(made)
    assert {one["fallback_reason"] for one in made[asked:]} == {f"spent: {reached}"}
    assert f"{len(made)} decisions, {len(made) - asked} of them by its fallback" in played.stderr


def test_the_day_is_counted_over_the_episodes_of_the_journal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTATOR_MODEL_DAY_TOKENS", "900")
    with endpoint(counter) as fake:
        describe(folder, fake)
        played = play("--data-dir", str(folder))
        assert played.exit_code == 0
        asked = len(fake.received)
        again = play("--data-dir", str(folder))
        assert again.exit_code == 3 and len(fake.received) == asked, "the rest covers no request"
        used = sum((one["tokens_in"] or 0) + (one["tokens_out"] or 0) for one in decisions(played))
        monkeypatch.setenv("SPECTATOR_MODEL_DAY_TOKENS", str(used))
        refused = play("--data-dir", str(folder))
        assert refused.exit_code == 1 and refused.stdout == "" and len(fake.received) == asked
    assert f"no model can be asked today: the day's cap of {used} tokens is reached" in refused.stderr
    assert spectator("play", "counting", "--data-dir", folder).exit_code == 0


def test_a_wrong_key_is_told_with_how_often_it_mattered_and_never_shown(folder: Path) -> None:
    with endpoint(counter, [Mode.UNAUTHORIZED]) as fake:
        describe(folder, fake)
        played = play()
    assert played.exit_code == 3
    assert "llm:mine made no decision of its own; its fallback played" in played.stderr
    assert {one["failure_class"] for one in decisions(played)} == {"model_rejected", "model_resting"}
    assert "llm:mine (counter): 10 decisions, 10 of them by its fallback, 0 tokens" in played.stderr
    assert "1 times refused: the endpoint does not accept the key" in played.stderr
    assert CANARY not in played.output


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (["--max-cost", "nan"], {}, "nan is not a finite number"),
        (["--max-cost", "-1"], {}, "-1.0 is not in the range"),
        (["--max-tokens", "many"], {}, "'many' is not a valid integer"),
        ([], {"SPECTATOR_MODEL_DAY_COTS": "3"}, "did you mean SPECTATOR_MODEL_DAY_COST?"),
        (
            [],
            {"SPECTATOR_MODEL_DAY_COST": "much"},
            "SPECTATOR_MODEL_DAY_COST: Input should be a valid number",
        ),
    ],
)
def test_a_cap_that_is_none_is_refused_by_name_and_nothing_is_played(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], variables: dict[str, str], said: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with endpoint(counter) as fake:
        describe(folder, fake)
        refused = play(*arguments)
        assert refused.exit_code != 0 and said in refused.stderr and not fake.received
    assert refused.stdout == ""


def test_a_cap_of_money_that_could_limit_nothing_is_refused(folder: Path) -> None:
    with endpoint(counter) as fake:
        describe(folder, fake, price_in=0, price_out=0)
        refused = play("--max-cost", "1")
        assert "cannot limit the cost of llm:mine: the price is unknown" in refused.stderr
        assert refused.exit_code != 0 and not fake.received


def refusing(folder: Path) -> None:
    """A captain whose endpoint refuses every connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    write_captains(
        folder / "captains.toml",
        mine={"base_url": f"http://127.0.0.1:{port}/v1", "retries": 0, "timeout_s": 5},
    )


def test_a_model_that_was_never_reached_does_not_look_like_a_success(folder: Path) -> None:
    refusing(folder)
    played = play("--data-dir", str(folder))
    assert played.exit_code == 3, played.output
    assert "finished: 10 of 10 right" in played.stderr
    assert "llm:mine made no decision of its own" in played.stderr
    assert {one["source"] for one in decisions(played)} == {"fallback"}
    assert {one["failure_class"] for one in decisions(played)} == {"model_infra", "model_resting"}


def test_a_model_that_decided_once_made_the_episode_its_own(folder: Path) -> None:
    with endpoint(counter, [Mode.OK, Mode.UNAUTHORIZED]) as fake:
        describe(folder, fake)
        played = play()
    assert played.exit_code == 0, played.output
    assert [one["source"] for one in decisions(played)].count("model") == 1


def test_on_failure_end_ends_it_by_name(folder: Path) -> None:
    refusing(folder)
    played = play("--on-failure", "end")
    assert played.exit_code == 1 and decisions(played) == []
    assert "policy_error: counter could not decide" in played.stderr and "[model_infra]" in played.stderr
    last = json.loads(played.stdout.splitlines()[-1])
    assert (last["type"], last["data"]["failure_class"]) == ("episode.ended", "model_infra")


def test_on_failure_suspend_leaves_it_to_be_played_on(folder: Path) -> None:
    refusing(folder)
    played = play("--on-failure", "suspend", "--data-dir", str(folder))
    assert played.exit_code == 1
    assert "was suspended: it has no end yet" in played.stderr
    assert json.loads(played.stdout.splitlines()[-1])["type"] == "episode.suspended"


def test_suspending_what_is_not_kept_is_refused(folder: Path) -> None:
    refusing(folder)
    played = play("--on-failure", "suspend")
    assert played.exit_code == 2 and "needs --data-dir" in played.stderr and played.stdout == ""
