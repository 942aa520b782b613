"""Episode handlers: what they add, what they learn, and that their statistics survive."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spectator.errors import ConfigurationError
from spectator.rollouts.handlers import (
    ContextualUcbHandler,
    EpisodeContext,
    EpisodeHandler,
    EpisodeOutcome,
    Experience,
    NullHandler,
    TallyFile,
    TemplateHandler,
    UcbHandler,
    load_experiences,
)

PROMPT = [{"role": "system", "content": "You captain a side."}, {"role": "user", "content": "Over 3."}]
GOOD = Experience(id="good", text="Bowl at the stumps.", env_name="cricket")
BAD = Experience(id="bad", text="Bowl wide.", env_name="cricket")


def play(handler: EpisodeHandler, number: int, rewards: dict[str, float | None]) -> str:
    """One episode; the advice that its prompt carried."""
    context = EpisodeContext("cricket", f"ep-{number}")
    prompt = handler.handle(PROMPT, context)
    assert isinstance(prompt, Sequence)
    told = prompt[0]["content"].removeprefix("You captain a side.").strip()
    handler.on_episode_end(context, EpisodeOutcome(rewards.get(told)))
    return str(told)


def test_no_handler_changes_the_prompt_it_is_given(tmp_path: Path) -> None:
    before = json.dumps(PROMPT)
    for handler in (NullHandler(), UcbHandler([GOOD], TallyFile(tmp_path / "t.json"))):
        handler.handle(PROMPT, EpisodeContext("cricket", "ep"))
    assert json.dumps(PROMPT) == before


def test_an_episode_keeps_the_experience_of_its_first_step(tmp_path: Path) -> None:
    handler = UcbHandler([GOOD, BAD], TallyFile(tmp_path / "t.json"))
    context = EpisodeContext("cricket", "ep-1")
    first = handler.handle(PROMPT, context)
    play(handler, 2, {GOOD.text: 1.0, BAD.text: 0.0})
    assert handler.handle(PROMPT, EpisodeContext("cricket", "ep-1", step=2)) == first


def test_an_episode_that_is_played_on_after_a_death_keeps_its_experience(tmp_path: Path) -> None:
    """What the dead process had chosen was chosen again, by what others had learned meanwhile."""
    context, path = EpisodeContext("cricket", "ep-1"), tmp_path / "t.json"
    first = UcbHandler([GOOD, BAD], TallyFile(path)).handle(PROMPT, context)
    other = UcbHandler([GOOD, BAD], TallyFile(path))
    play(other, 2, {GOOD.text: 1.0, BAD.text: 0.0})
    assert other.handle(PROMPT, context) == first
    other.on_episode_end(context, EpisodeOutcome(0.5))
    assert TallyFile(path).chosen("ep-1") is None, "what has ended is not kept for ever"
    assert TallyFile(path).read()["good"].total == 1.5


def test_a_choice_that_cannot_be_kept_is_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: Path, *_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    handler = UcbHandler([GOOD], TallyFile(tmp_path / "t.json"))
    told = handler.handle(PROMPT, EpisodeContext("cricket", "ep-1"))
    assert GOOD.text in told[0]["content"]
    assert "No space left" in caplog.text


def test_what_was_learned_of_prompts_stays_while_another_handler_learns(tmp_path: Path) -> None:
    """UCB after contextual UCB failed at each end, and learned nothing."""
    tallies = TallyFile(tmp_path / "t.json")
    tallies.update("good", 1.0, [1.0, 0.0])
    before = tallies.read()["good"]
    assert play(UcbHandler([GOOD], tallies), 1, {GOOD.text: 0.5}) == GOOD.text
    after = tallies.read()["good"]
    assert (after.used, after.total) == (2, 1.5)
    assert (after.weights, after.precision) == (before.weights, before.precision)


def test_ucb_tries_each_and_then_mostly_the_better(tmp_path: Path) -> None:
    handler = UcbHandler([BAD, GOOD], TallyFile(tmp_path / "t.json"))
    told = [play(handler, number, {GOOD.text: 1.0, BAD.text: 0.0}) for number in range(60)]
    assert set(told[:2]) == {GOOD.text, BAD.text}
    assert told[2:].count(GOOD.text) > 40


def test_the_template_handler_takes_the_best_so_far(tmp_path: Path) -> None:
    tallies = TallyFile(tmp_path / "t.json")
    tallies.update("good", 1.0)
    tallies.update("bad", 0.2)
    assert play(TemplateHandler([BAD, GOOD], tallies), 1, {}) == GOOD.text


def test_the_contextual_handler_learns_what_fits_which_prompt(tmp_path: Path) -> None:
    spin, pace = Experience(id="spin", text="aaa"), Experience(id="pace", text="bbb")
    handler = ContextualUcbHandler([spin, pace], TallyFile(tmp_path / "t.json"))
    prompts = {"dry dusty turning pitch": "aaa", "green damp seaming morning": "bbb"}
    right = []
    for number in range(80):
        pitch, best = list(prompts.items())[number % 2]
        messages = [{"role": "user", "content": pitch}]
        context = EpisodeContext("cricket", f"ep-{number}")
        told = handler.handle(messages, context)[0]["content"]
        right.append(told == best)
        handler.on_episode_end(context, EpisodeOutcome(1.0 if told == best else 0.0))
    assert sum(right[40:]) >= 38


@pytest.mark.parametrize("reward", [None, float("nan"), float("inf")])
def test_an_episode_without_a_verdict_teaches_nothing(tmp_path: Path, reward: float | None) -> None:
    tallies = TallyFile(tmp_path / "t.json")
    handler = UcbHandler([GOOD], tallies)
    context = EpisodeContext("cricket", "ep")
    handler.handle(PROMPT, context)
    handler.on_episode_end(context, EpisodeOutcome(reward, failure_class="model_infra"))
    assert tallies.read() == {}


def test_experiences_of_other_environments_are_not_used(tmp_path: Path) -> None:
    handler = UcbHandler([GOOD], TallyFile(tmp_path / "t.json"))
    context = EpisodeContext("collider", "ep")
    assert handler.handle(PROMPT, context) == PROMPT
    handler.on_episode_end(context, EpisodeOutcome(1.0))


UPDATES = """
import sys
from pathlib import Path
from spectator.rollouts.handlers import TallyFile
for _ in range(20):
    TallyFile(Path(sys.argv[1])).update("good", 1.0, [1.0, 0.0])
"""


def test_processes_that_learn_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    running = [subprocess.Popen([sys.executable, "-c", UPDATES, str(path)]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    tally = TallyFile(path).read()["good"]
    assert (tally.used, tally.total) == (60, 60.0)
    assert tally.weights[0] == pytest.approx(60 / 61)


@pytest.mark.parametrize("damage", ["", "{", '{"version":1,"tallies":{"a":{"used":-1}}}', '{"version":7}'])
def test_damaged_statistics_are_refused_and_left_alone(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(damage)
    with pytest.raises(ConfigurationError, match=r"t\.json"):
        TallyFile(path).update("good", 1.0)
    assert path.read_text() == damage


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ({}, "a list"),
        ([], "at least one"),
        ([{"id": "a"}], "entry 1: text"),
        ([{"id": "a", "text": "x"}, {"id": "a", "text": "y"}], "entry 2: id"),
        ([{"id": "a", "text": "x", "more": 1}], "entry 1: more"),
    ],
)
def test_wrong_experiences_are_named(tmp_path: Path, entries: Any, named: str) -> None:
    path = tmp_path / "experiences.json"
    path.write_text(json.dumps(entries))
    with pytest.raises(ConfigurationError, match=named):
        load_experiences(path)
