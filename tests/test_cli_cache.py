"""`spectator cache build` and `play --record-decisions`: a model's match, played again without the model."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from spectator.cli import main
from tests.llm.brains import batsman, counter, obedient
from tests.llm.endpoints import endpoint, write_captains
from tests.llm.fake_server import Mode

CACHED = '\n[captains.cached]\nlabel = "Recorded"\ncache = "decisions.ndjson"\non_miss = "{on_miss}"\n'


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def play(world: str, captain: str, *more: str, opponent: str | None = None) -> Result:
    rival = () if opponent is None else ("--opponent", opponent)
    return run("play", world, "--captain", captain, *rival, *more)


def told(result: Result, kind: str) -> list[dict[str, object]]:
    events = [json.loads(line) for line in result.stdout.splitlines()]
    return [event["data"] for event in events if event["type"] == kind]


def actions(result: Result) -> list[object]:
    return [(one["actor"], one["action"]) for one in told(result, "decision.made")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(tmp_path / "captains.toml"))
    monkeypatch.setenv("SPECTATOR_LLM_LIVE", "llm:mine")
    return tmp_path


def describe(folder: Path, base_url: str, on_miss: str = "error") -> None:
    """The model at ``base_url``, and the cache of it."""
    path = write_captains(folder / "captains.toml", mine={"base_url": base_url, "retries": 0})
    path.write_text(path.read_text() + CACHED.format(on_miss=on_miss))


def test_a_match_of_a_model_is_played_again_from_its_cache(folder: Path) -> None:
    """Same seed, same rival: the same match, without an endpoint; a fallback of then is one again."""
    out = folder / "decisions.ndjson"
    with endpoint(batsman, [Mode.OK] * 5 + [Mode.BROKEN] + [Mode.OK]) as fake:
        describe(folder, fake.base_url)
        match = ("--seed", "9", "--option", "max_overs=1")
        first = play("cricket", "llm:mine", *match, "--data-dir", str(folder), "--record-decisions", str(out))
        assert first.exit_code == 0, first.output
        assert "decisions of mine-1" in first.stderr
    again = play("cricket", "llm_cached", *match)
    assert again.exit_code == 0, again.output
    assert actions(again) == actions(first)
    assert told(again, "episode.ended") == told(first, "episode.ended")
    sources = Counter(one["source"] for one in told(again, "decision.made") if one["actor"] == "home")
    assert sources["replay"] > 10 and sources["fallback"] == 1
    mirrored = play("cricket", "heuristic", *match, opponent="llm_cached")
    assert mirrored.exit_code == 1 and "was never asked this" in mirrored.stderr
    built = folder / "built.ndjson"
    episode_id = json.loads(first.stdout.splitlines()[0])["episode_id"]
    result = run("cache", "build", episode_id, "--out", str(built), "--data-dir", str(folder))
    assert result.exit_code == 0, result.output
    assert built.read_bytes() == out.read_bytes()


def test_a_miss_ends_the_episode_or_is_a_labelled_fallback(folder: Path) -> None:
    out = folder / "decisions.ndjson"
    with endpoint(counter) as fake:
        describe(folder, fake.base_url)
        assert (
            play("counting", "llm:mine", "--option", "turns=2", "--record-decisions", str(out)).exit_code == 0
        )
    missed = play("counting", "llm_cached", "--option", "turns=3")
    assert missed.exit_code == 1
    (end,) = told(missed, "episode.ended")
    assert end["reason"] == "policy_error" and "mine-1 was never asked this" in str(end["detail"])
    describe(folder, "http://127.0.0.1:9/v1", on_miss="fallback")
    helped = play("counting", "llm_cached", "--option", "turns=3")
    assert helped.exit_code == 0
    made = told(helped, "decision.made")
    assert [one["source"] for one in made] == ["fallback"] * 3
    assert str(made[0]["fallback_reason"]).startswith("miss: mine-1 was never asked this")


def test_a_cache_grows_by_episodes_of_the_same_model_only(folder: Path) -> None:
    out, where = folder / "decisions.ndjson", ("--data-dir", str(folder))
    with endpoint(counter) as fake, endpoint(obedient) as other:
        describe(folder, fake.base_url)
        played = [play("counting", "llm:mine", "--option", f"turns={turns}", *where) for turns in (2, 3)]
        ids = [json.loads(one.stdout.splitlines()[0])["episode_id"] for one in played]
        first = run("cache", "build", ids[0], "--out", str(out), *where)
        assert "2 decisions of mine-1: 2 new, 2 in" in first.stderr
        both = run("cache", "build", *ids, "--out", str(out), *where)
        assert "5 decisions of mine-1: 3 new, 5 in" in both.stderr
        held = out.read_bytes()
        write_captains(folder / "captains.toml", mine={"base_url": other.base_url, "model": "other-1"})
        wrong = run("cache", "build", ids[0], "--out", str(out), *where)
        assert wrong.exit_code == 1 and "holds decisions of mine-1 in the style tools" in wrong.stderr
        write_captains(folder / "captains.toml", mine={"base_url": fake.base_url, "style": "json"})
        changed = run("cache", "build", ids[0], "--out", str(folder / "new.ndjson"), *where)
        assert changed.exit_code == 1 and "asks otherwise here than it did then" in changed.stderr
    assert out.read_bytes() == held and not (folder / "new.ndjson").exists()


def test_what_no_model_decided_cannot_be_cached(folder: Path) -> None:
    describe(folder, "http://127.0.0.1:9/v1")
    played = play("counting", "heuristic", "--data-dir", str(folder))
    episode_id = json.loads(played.stdout.splitlines()[0])["episode_id"]
    result = run("cache", "build", episode_id, "--out", str(folder / "x"), "--data-dir", str(folder))
    assert result.exit_code == 1 and "no language model decided there" in result.stderr


def test_an_evaluation_of_a_model_is_repeated_from_a_cache_of_all_its_matches(folder: Path) -> None:
    """Paired seeds, both seats: the recorded captain wins and loses exactly what the model did."""

    def evaluate(captains: str, out: str) -> list[tuple[object, ...]]:
        pair = ("--captains", captains, "--matches", "2", "--overs", "1", "--jobs", "1")
        result = run("evaluate", *pair, "--out", str(folder / out))
        assert result.exit_code == 0, result.output
        results = json.loads((folder / out / "results.json").read_text(encoding="utf-8"))
        told = [(m["seed"], m["home"], m["away"], m["outcome"], m["result"]) for m in results["matches"]]
        assert all(match["reason"] == "finished" for match in results["matches"])
        return sorted(told)

    with endpoint(batsman) as fake:
        describe(folder, fake.base_url)
        first = evaluate("llm:mine,heuristic", "first")
    where = ("--data-dir", str(folder / "first"), "--out", str(folder / "decisions.ndjson"))
    built = run("cache", "build", "--all", *where)
    assert built.exit_code == 0, built.output
    again = evaluate("llm_cached,heuristic", "again")
    assert len(first) == 2 and str(first).replace("llm:mine", "llm_cached") == str(again)


def test_episodes_are_named_or_all_of_them(folder: Path) -> None:
    for arguments in ((), ("ep-1", "--all")):
        result = run("cache", "build", *arguments, "--out", str(folder / "x"), "--data-dir", str(folder))
        assert result.exit_code == 2 and "name episodes, or --all" in result.stderr
