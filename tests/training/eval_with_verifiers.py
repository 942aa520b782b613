"""`vf-eval` and `vf.load_environment` on worlds, against a stand-in endpoint; `make training` runs it.

The name keeps it out of ``make test``, which collects ``test_*.py``: verifiers is large.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.commands import spectator
from tests.training.test_pages import run
from tests.training.test_recorded_run import recorded

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(300)
PAGE = (ROOT / "docs" / "training" / "verifiers.md").read_text()


def block(language: str) -> str:
    """The block of the page in that language, for the stand-in's model."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].replace("\\\n", "").replace("MODEL", "first")


@pytest.fixture(scope="module")
def verifiers_python() -> str:
    python = ROOT / ".venv-verifiers" / "bin" / "python"
    assert python.exists(), "verifiers is not here; install it with: make verifiers-venv"
    return str(python)


@pytest.fixture(scope="module")
def told(verifiers_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("verifiers")
    script = str(ROOT / "tests" / "training" / "peer_verifiers.py")
    done = subprocess.run(
        [verifiers_python, script, str(folder), block("sh"), block("toml")],
        capture_output=True, text=True, timeout=280, check=False, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return {"folder": folder, **json.loads(done.stdout.splitlines()[-1])}


def test_the_command_finds_the_environment_and_groups_share_their_seed(told: Any) -> None:
    traces = told["evaluated"]
    assert sorted(one["task"]["data"]["seed"] for one in traces) == [0, 0, 1, 1]
    assert len({one["task"]["key"] for one in traces}) == 2
    for one in traces:
        assert one["ok"] and one["stop_condition"] == "agent_completed"
        assert one["rewards"] == {"value": {"score": 1.0, "weight": 1.0}}
        assert one["info"]["spectator"]["rewards"] == [0.0, 1.0]
        assert one["tools"][0]["name"] == "say"


def test_the_command_and_the_table_of_the_page_play_matches(told: Any) -> None:
    for name, rollouts in (("page", 2), ("table", 8)):
        traces = told[name]
        assert len(traces) == rollouts
        for one in traces:
            data, end = one["task"]["data"], one["info"]["spectator"]
            assert (data["world"], data["seed"]) == ("cricket", 0)
            assert data["options"] == {"max_overs": 1, "decisions": "over"}
            assert one["ok"] and one["rewards"]["value"]["score"] == end["value"] > 0
            assert one["metrics"]["clean_calls"] == end["rubric"]["clean_calls"]
            assert len(end["rewards"]) == len(end["values"]) <= 60
        # the same seed and the same answers are the same match
        assert len({json.dumps(one["info"]["spectator"]) for one in traces}) == 1


def test_every_answer_has_its_reward(told: Any) -> None:
    rote, twice = told["rollouts"]["rote"], told["rollouts"]["twice"]
    assert rote["told"]["rewards"] == [0.0, 0.0, 1.0]
    assert [round(value, 3) for value in rote["told"]["values"]] == [0.333, 0.667, 1.0]
    assert (rote["roles"], twice["roles"]) == ("uatata", "uatta")
    assert twice["told"]["rewards"] == [0.0, 1.0]
    for one in (rote, twice):
        assert one["rewards"] == {"value": 1.0}
        assert (one["metrics"]["finished"], one["metrics"]["refused"]) == (1.0, 0.0)
        assert (one["tools"], one["system"], one["prompt"]) == (["say"], [], True)


def test_without_tools_the_form_of_an_answer_is_told(told: Any) -> None:
    text = told["rollouts"]["text"]
    assert text["tools"] == []
    assert '"tool": "..."' in text["system"][0]
    assert (text["rewards"], text["roles"]) == ({"value": 1.0}, "suauaua")
    # where tools are offered, an action that is written down counts as well
    assert told["rollouts"]["json"]["rewards"] == {"value": 1.0}


@pytest.mark.parametrize("model", ["torn", "silent"])
def test_what_names_no_action_is_refused_once_and_then_penalised(told: Any, model: str) -> None:
    one = told["rollouts"][model]
    assert (one["ok"], one["stop"], one["rewards"]) == (True, "agent_completed", {"value": 0.0})
    assert (one["metrics"]["refused"], one["metrics"]["finished"]) == (2.0, 0.0)
    assert (one["metrics"]["own_share"], one["metrics"]["penalised"]) == (0.0, 1.0)


def test_the_worlds_cap_on_steps_ends_an_episode(told: Any) -> None:
    one = told["rollouts"]["capped"]
    assert (one["stop"], one["told"]["truncated"], one["told"]["finished"]) == (
        "agent_completed",
        True,
        False,
    )


def test_a_conversation_that_no_longer_fits_is_credited_with_what_it_came_to(told: Any) -> None:
    one = told["rollouts"]["small"]
    assert (one["ok"], one["stop"], one["errors"]) == (True, "context_overflow", [])
    assert one["rewards"]["value"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(("what", "error"), [("breaks", "ProviderError"), ("world", "HarnessError")])
def test_a_failure_has_no_reward(told: Any, what: str, error: str) -> None:
    one = told["rollouts"][what]
    assert not one["ok"]
    assert one["errors"] == [error]
    assert one["rewards"] == {}
    assert one["metrics"] == {}


def test_a_wrong_configuration_is_refused_by_its_field(told: Any) -> None:
    named = (
        "world:",
        "options.turnz:",
        "opponent:",
        "pack:",
        "seeds:",
        "seeds",
        "seeds",
        "num_tasks:",
        "seed",
    )
    assert len(told["refused"]) == len(named)
    for said, field in zip(told["refused"], named, strict=True):
        assert field in said


def test_the_traces_are_shown_as_a_run_of_groups(told: Any, tmp_path: Path) -> None:
    traces, run = told["folder"] / "page" / "traces.jsonl", tmp_path / "page"
    imported = spectator("import", traces, "--into", run)
    assert imported.exit_code == 0, imported.output
    exported = spectator("export", "--all", "--data-dir", run, "--format", "groups")
    (group,) = map(json.loads, exported.stdout.splitlines())
    assert group["rewards"] == [one["rewards"]["value"]["score"] for one in told["page"]]
    assert len(group["rewards"]) == 2


def test_the_page_runs(verifiers_python: str) -> None:
    assert run(verifiers_python, "verifiers.md").startswith("cricket#3 3 ")


def test_a_run_can_be_watched_while_it_is_played(told: Any) -> None:
    found = asyncio.run(recorded(told["folder"] / "seen"))
    assert [(one.reason, one.score, one.run_id) for one in found] == [("finished", 1.0, "seen")] * 4
    assert sorted(one.seed for one in found) == [0, 0, 1, 1]
    assert len({one.group_id for one in found}) == len({(one.group_id, one.seed) for one in found}) == 2


def test_a_watched_run_keeps_every_word(told: Any) -> None:
    exported = spectator("export", "--all", "--data-dir", told["folder"] / "watched", "--format", "messages")
    rows = list(map(json.loads, exported.stdout.splitlines()))
    by_episode = {
        one["episode_id"]: [row for row in rows if row["episode_id"] == one["episode_id"]] for one in rows
    }
    rote, silent, broken, again = by_episode.values()
    assert [one["reply"]["tool_calls"][0]["name"] for one in rote] == ["say"] * 3
    assert [[one["role"] for one in row["messages"]] for row in rote[:2]] == [
        ["user"], ["user", "assistant", "tool"],
    ]  # fmt: skip
    assert {one["reply"]["model"] for one in rote} == {"rote"}
    assert [one["reply"]["content"] for one in silent] == [""] * 2
    assert len(broken) == 1 and len(again) == 3


def test_in_a_run_silence_is_penalised_and_a_failure_has_no_verdict(told: Any) -> None:
    found = asyncio.run(recorded(told["folder"] / "watched"))
    assert [(one.reason, one.score) for one in found] == [
        ("finished", 1.0),
        ("policy_error", None),
        ("environment_error", None),
        ("finished", 1.0),
    ]
    assert "the model broke down" in (found[2].detail or "")
    groups = [one.group_id for one in found]
    assert groups[0] == groups[1] != groups[2] == groups[3]


def test_the_command_offers_no_tools_where_the_page_says_so(told: Any) -> None:
    assert [one["ok"] for one in told["text"]] == [True] * 4
    assert all(not one["tools"] for one in told["text"])
