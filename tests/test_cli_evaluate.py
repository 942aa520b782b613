"""`spectator evaluate` on the command line."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.commands import spectator
from tests.episodes.harness import environment_threads
from tests.llm.brains import Said, batsman, counter, obedient
from tests.llm.endpoints import endpoint, write_captains
from tests.llm.fake_server import FakeModelServer, Mode

ROOT = Path(__file__).resolve().parent.parent


def evaluate(*arguments: str) -> tuple[int, str, str]:
    done = spectator("evaluate", *arguments)
    return done.exit_code, done.stdout, done.stderr


def test_it_writes_a_report_results_and_plots_and_says_what_it_found(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    code, output, progress = evaluate(
        "counting", "--captains", "heuristic, random", "--matches", "4", "--jobs", "1", "--out", str(out)
    )
    assert code == 0, progress
    assert " 1  heuristic" in output and "report.html" in output
    assert "4 of 4 matches" in progress
    results = json.loads((out / "results.json").read_text())
    assert [one["name"] for one in results["captains"]] == ["heuristic", "random"]
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    assert (out / "plots" / "ranking.svg").exists()
    code, output, progress = evaluate(
        "counting", "--captains", "heuristic,random", "--matches", "4", "--out", str(out)
    )
    assert code == 0 and "4 of 4 matches are already finished" in progress


def test_wrong_names_are_told_with_the_nearest_and_nothing_is_made(tmp_path: Path) -> None:
    out = tmp_path / "none"
    code, _, errors = evaluate("--captains", "herustic,anchor", "--out", str(out))
    assert code == 1 and "did you mean 'heuristic'" in errors and not out.exists()
    code, _, errors = evaluate("--captains", "anchor,llm:openai", "--out", str(out))
    assert code == 1 and "OPENAI_API_KEY" in errors and not out.exists()


def test_the_phrase_of_a_sealed_evaluation_comes_from_a_file_and_is_written_nowhere(tmp_path: Path) -> None:
    phrase, out = tmp_path / "phrase", tmp_path / "sealed"
    phrase.write_text("known to no one at all\n")
    code, _, errors = evaluate(
        "counting", "--captains", "heuristic,random", "--matches", "2", "--jobs", "1",
        "--sealed", str(phrase), "--out", str(out),
    )  # fmt: skip
    assert code == 0, errors
    assert json.loads((out / "results.json").read_text())["sealed"] is True
    for path in out.rglob("*"):
        assert path.is_dir() or b"known to no one" not in path.read_bytes(), path


def test_the_help_says_which_seeds_are_used() -> None:
    code, output, _ = evaluate("--help")
    assert code == 0 and "development seeds" in output and "--sealed" in output and "Example:" in output


def test_a_model_is_compared_with_a_scripted_captain_and_its_tokens_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a real socket: the fake endpoint counts as asked, or falls back where it answers nonsense."""
    with endpoint(counter) as fake:
        captains = write_captains(tmp_path / "captains.toml", fake={"base_url": fake.base_url})
        monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(captains))
        out = tmp_path / "models"
        code, _, progress = evaluate(
            "counting", "--captains", "heuristic,llm:fake", "--matches", "4", "--option", "turns=3",
            "--jobs", "2", "--out", str(out),
        )  # fmt: skip
    assert code == 0, progress
    assert "llm:fake calls its endpoint in 2 matches, which may cost money" in progress
    results = json.loads((out / "results.json").read_text())
    model = next(one for one in results["captains"] if one["name"] == "llm:fake")
    assert model["source"] == "model" and model["measures"]["tokens"]["value"] > 0
    assert (
        model["measures"]["fallbacks"]["value"] == 0.0 and model["measures"]["clean_answers"]["value"] == 1.0
    )
    assert results["pairs"][0]["tally"]["ties"] == 2 and "Model fake" in (out / "report.html").read_text()


CANARY = "sk-canary-0815-of-the-evaluation"
PRICES = {"price_in": 2.0, "price_out": 8.0}


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes the captains file that the command reads; ``FAKE_KEY`` holds the canary."""

    def offer(**endpoints: FakeModelServer) -> None:
        tables = {
            name: {"base_url": fake.base_url, "api_key_env": "FAKE_KEY", "retries": 0, **PRICES}
            for name, fake in endpoints.items()
        }
        write_captains(tmp_path / "captains.toml", **tables)

    monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(tmp_path / "captains.toml"))
    monkeypatch.setenv("FAKE_KEY", CANARY)
    return offer


def compare(out: Path, *more: str) -> tuple[int, str, str]:
    """Two models of cricket against each other, on one seed unless ``more`` says otherwise."""
    pair = ("--captains", "llm:home,llm:away", "--matches", "2", "--overs", "1", "--jobs", "2")
    return evaluate(*pair, "--out", str(out), *more)


def wait_for_threads() -> None:
    """Wait until every environment's thread has ended; a leaked one never would."""
    deadline = time.monotonic() + 20
    while left := environment_threads():
        assert time.monotonic() < deadline, left
        time.sleep(0.005)


def outcomes(out: Path) -> list[tuple[object, ...]]:
    """The outcome of every match."""
    results = json.loads((out / "results.json").read_text())
    return [(one["seed"], one["home"], one["outcome"], one["result"]) for one in results["matches"]]


def test_two_models_are_compared_and_a_finished_match_is_never_asked_for_again(
    tmp_path: Path, offered: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["spectator.cli.evaluate"], "REPORT_EVERY_S", 0.02)
    out = tmp_path / "two"
    with endpoint(batsman) as home, endpoint(obedient) as away:
        offered(home=home, away=away)
        code, said, progress = compare(out)
        assert code == 0, progress
        assert re.search(r"0 of 2 matches; [\d,]+ tokens, US\$[\d.]+ so far", progress)
        results = json.loads((out / "results.json").read_text())
        asked = {one["name"]: one["asked"] for one in results["captains"]}
        for name, fake in (("llm:home", home), ("llm:away", away)):
            assert asked[name]["decisions"] == len(fake.received) > 20 and asked[name]["fallbacks"] == {}
            assert asked[name]["tokens"] > 1000 and asked[name]["cost"] > 0
            assert f"{name} made {len(fake.received)} decisions: {asked[name]['tokens']:,} tokens" in said
        seats = [(one["seed"], one["home"], one["away"]) for one in results["matches"]]
        assert seats == [(seats[0][0], "llm:home", "llm:away"), (seats[0][0], "llm:away", "llm:home")]
        page = (out / "report.html").read_text()
        assert f"{asked['llm:home']['tokens']:,}" in page and "Time to decide" in page
        before = len(home.received) + len(away.received)
        code, _, progress = compare(out)
        assert code == 0 and "2 of 2 matches are already finished" in progress
        assert len(home.received) + len(away.received) == before
    kept = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert CANARY not in said + progress and not any(CANARY.encode() in text for text in kept)


def test_a_model_that_is_asked_otherwise_now_does_not_play_on_in_the_same_folder(
    tmp_path: Path, offered: Callable[..., None]
) -> None:
    out, pair = tmp_path / "other", ("counting", "--matches", "2", "--option", "turns=2")
    captains = tmp_path / "captains.toml"
    with endpoint(counter) as fake:
        offered(home=fake)
        code, _, progress = evaluate(*pair, "--captains", "heuristic,random", "--out", str(out))
        assert code == 0, progress
        code, _, progress = evaluate(*pair, "--captains", "heuristic,llm:home", "--out", str(out))
        assert code == 0, progress
        before = captains.read_text()
        captains.write_text(before + "\ntemperature = 0.9\nmax_tokens = 99")
        code, _, progress = evaluate(*pair, "--captains", "heuristic,llm:home", "--out", str(out))
        assert code == 1 and "llm:home: " in progress and "temperature was None, now 0.9" in progress
        assert "max_tokens was 1024, now 99" in progress and "choose another folder" in progress
        captains.write_text(before + "\nstream = false")
        code, _, progress = evaluate(*pair, "--captains", "heuristic,llm:home", "--out", str(out))
        assert code == 0 and "2 of 2 matches are already finished" in progress


@pytest.mark.parametrize(
    ("modes", "why"),
    [
        ([Mode.UNAUTHORIZED], "does not accept the key"),
        ([Mode.NO_QUOTA], "requires payment"),
        ([Mode.OK] * 6 + [Mode.UNKNOWN], "does not know this address or model"),
        ([Mode.GARBAGE], "contains no completion"),
        ([Mode.ABORTED], "broke off its answer"),
        ([Mode.BUSY], "asks to wait, with so many episodes at once"),
    ],
)
def test_an_endpoint_that_cannot_be_asked_is_told_at_once_and_the_same_command_plays_on(
    tmp_path: Path, offered: Callable[..., None], modes: list[Mode], why: str
) -> None:
    out = tmp_path / "broken"
    with endpoint(batsman, modes) as home, endpoint(obedient) as away:
        offered(home=home, away=away)
        code, said, progress = compare(out)
        assert code == 1 and not (out / "report.html").exists() and said == ""
        assert "llm:home cannot be asked" in progress and why in progress
        assert "run the same command again to continue" in progress and "Traceback" not in progress
        assert CANARY not in progress and len(home.received) <= 14
        answered = 6 * (Mode.OK in modes)
        for _ in range(4 * bool(answered)):
            assert compare(out)[0] == 1, "every retry fails too"
            wait_for_threads()
    with endpoint(batsman) as home, endpoint(obedient) as away:
        offered(home=home, away=away)
        code, _, progress = compare(out)
        assert code == 0, progress
        paid = len(home.received)
    asked = {one["name"]: one["asked"] for one in json.loads((out / "results.json").read_text())["captains"]}
    decided = asked["llm:home"]["decisions"] - sum(asked["llm:home"]["fallbacks"].values())
    assert 0 <= paid + answered - decided <= 1, "at most what was answered at the moment of the halt is lost"
    # The fifth in a row of one match is never made; of two matches at once the endpoint's rest comes first.
    infra = {"model_infra": 4}
    borne = {Mode.GARBAGE: infra, Mode.ABORTED: infra, Mode.BUSY: {"rate_limited": 4}}.get(modes[0], {})
    fallbacks = asked["llm:home"]["fallbacks"]
    assert fallbacks.keys() == borne.keys() and asked["llm:away"]["fallbacks"] == {}
    assert all(borne[kind] <= times <= 2 * borne[kind] for kind, times in fallbacks.items())


def test_what_an_evaluation_may_spend_stops_it_and_it_plays_on_with_more_as_if_never_stopped(
    tmp_path: Path, offered: Callable[..., None]
) -> None:
    with endpoint(batsman) as home, endpoint(obedient) as away:
        offered(home=home, away=away)
        assert compare(tmp_path / "whole")[0] == 0
        asked = {fake.base_url: [one.raw for one in fake.received] for fake in (home, away)}
        needed = len(home.received) + len(away.received)
        out = tmp_path / "limited"
        code, _, progress = compare(out, "--max-tokens", "60000")
        assert code == 1 and "the cap of 60,000 tokens for all of it is reached" in progress
        assert needed < len(home.received) + len(away.received) < 2 * needed
        code, _, progress = compare(out, "--max-cost", "0.01")
        assert code == 1 and "the cap of US$0.01 for all of it is reached" in progress
        code, said, progress = compare(out)
        assert code == 0, progress
        for fake in (home, away):
            since = [one.raw for one in fake.received][len(asked[fake.base_url]) :]
            assert set(since) == set(asked[fake.base_url])
            assert len(since) - len(set(since)) <= 2, "what was under way is asked once more, nothing else"
    assert outcomes(out) == outcomes(tmp_path / "whole") and "fallback" not in said


def test_the_report_names_the_matches_that_the_cap_of_an_episode_touched(
    tmp_path: Path, offered: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTATOR_MODEL_EPISODE_TOKENS", "20000")
    out = tmp_path / "capped"
    with endpoint(batsman) as home, endpoint(obedient) as away:
        offered(home=home, away=away)
        code, said, progress = compare(out)
    assert code == 0, progress
    results = json.loads((out / "results.json").read_text())
    assert all(set(match["capped"]) == {"llm:home", "llm:away"} for match in results["matches"])
    assert "In 2 matches the cap of an episode was reached" in said
    assert all(one["asked"]["fallbacks"].keys() == {"spent"} for one in results["captains"])
    assert "(cap reached: llm:home, llm:away)" in (out / "report.html").read_text()


def test_the_day_is_spent_by_all_matches_of_the_folder(
    tmp_path: Path, offered: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTATOR_MODEL_DAY_COST", "0.02")
    with endpoint(batsman) as home, endpoint(obedient) as away:
        offered(home=home, away=away)
        for _ in range(2):
            code, _, progress = compare(tmp_path / "day")
            assert code == 1 and "the day's cap of US$0.02 is reached" in progress
            asked = len(home.received) + len(away.received)
        compare(tmp_path / "day")
        assert len(home.received) + len(away.received) == asked


def test_interrupted_from_the_keyboard_it_says_how_to_go_on_and_does(
    tmp_path: Path, offered: Callable[..., None]
) -> None:
    """A real SIGINT in the middle of two matches: what was decided is not asked for again."""
    out = tmp_path / "interrupted"
    command = [
        sys.executable, "-m", "spectator.cli", "evaluate", "--captains", "llm:home,llm:away",
        "--matches", "2", "--overs", "1", "--jobs", "2", "--out", str(out),
    ]  # fmt: skip
    with endpoint(batsman, chunk=100) as home, endpoint(obedient, chunk=100) as away:
        offered(home=home, away=away)
        assert compare(tmp_path / "whole")[0] == 0
        needed = len(home.received) + len(away.received)
        needed_of = {fake.base_url: len(fake.received) for fake in (home, away)}
        slow = Mode.SLOW
        home.mode = away.mode = lambda number: slow
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as running:
            deadline = time.monotonic() + 60
            while len(home.received) + len(away.received) < needed + 12:
                assert time.monotonic() < deadline and running.poll() is None
                time.sleep(0.01)
            running.send_signal(signal.SIGINT)
            _, progress = running.communicate(timeout=60)
        assert running.returncode != 0 and "Traceback" not in progress
        assert "interrupted: 0 of 2 matches are finished" in progress
        home.mode = away.mode = lambda number: Mode.OK
        code, _, progress = compare(out)
        assert code == 0, progress
        for fake in (home, away):
            bodies = [one.raw for one in fake.received]
            assert len(set(bodies)) == needed_of[fake.base_url] and len(bodies) <= 2 * len(set(bodies)) + 2
    assert outcomes(out) == outcomes(tmp_path / "whole")


def wordy(body: Mapping[str, Any]) -> Said:
    """A brain that never names an action."""
    return Said("I would rather talk about the weather.")


@pytest.mark.parametrize("rule", ["random", "fallback", "forfeit"])
def test_it_states_what_a_failed_decision_is_and_does_that(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint(wordy) as fake:
        captains = write_captains(tmp_path / "captains.toml", fake={"base_url": fake.base_url})
        monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(captains))
        out = tmp_path / "failing"
        code, output, progress = evaluate(
            "counting", "--captains", "heuristic,llm:fake", "--matches", "4", "--option", "turns=4",
            "--jobs", "1", "--out", str(out), *(() if rule == "random" else ("--failed-decisions", rule)),
        )  # fmt: skip
    assert code == 0, progress
    results = json.loads((out / "results.json").read_text())
    assert results["failed_decisions"] == rule
    model = next(one for one in results["captains"] if one["name"] == "llm:fake")
    if rule == "forfeit":
        assert {match["forfeited"] for match in results["matches"]} == {None, "llm:fake"}
        assert (model["rank"], model["tally"]["losses"], model["own_share"]) == (2, 2, None)
        assert "Matches forfeited by a decision that failed, and so lost: llm:fake 2." in output
    else:
        assert (model["rank"], model["own_share"]) == (2 if rule == "random" else None, 0.0)
        assert ("is not ranked" in output, "a random legal action was drawn" in output) == (
            (False, True) if rule == "random" else (True, False)
        )
        drawn = "drawn at random" in subprocess.run(
            [sys.executable, "-m", "spectator.cli", "export", "--data-dir", str(out), "--all"],
            capture_output=True, text=True, check=True, cwd=ROOT,
        ).stdout  # fmt: skip
        assert drawn is (rule == "random")
    code, _, progress = evaluate(
        "counting", "--captains", "heuristic,llm:fake", "--matches", "4", "--option", "turns=4",
        "--out", str(out), "--failed-decisions", "fallback" if rule != "fallback" else "forfeit",
    )  # fmt: skip
    assert code == 2 or code == 1
    assert "failed_decisions" in progress and "choose another folder" in progress
