"""Whatever happens, an episode has exactly one end, told last, and everything is let go."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from spectator.environments.contract import Environment
from spectator.environments.counting.world import CountingEnvironment
from spectator.environments.world import World
from spectator.episodes import decisions
from spectator.episodes.controls import EndRequest, EpisodeLimits, Pace
from spectator.errors import JournalError
from spectator.events import Fact
from spectator.observations import Observation, Refusal
from spectator.policies.policy import Decision, Preset
from spectator.steppers.local import OpenStepper, ThreadStepper, inline, on_a_thread
from tests.episodes.harness import Played, drive, no_environment_threads, types
from tests.fakes import (
    FakePolicy,
    HeldEnvironment,
    LyingEnvironment,
    ManualClock,
    RecordingJournal,
    counted,
    failing,
    forever,
    until,
    world_with,
)

pytestmark = pytest.mark.usefixtures("nothing_blocks")
STOP = EndRequest("stopped", "stopped by a test")


def decides(answer: Callable[..., Any], closing: Callable[..., Any] = lambda: None) -> tuple[Any, FakePolicy]:
    """A world whose captain answers so, and the captain."""
    policy = FakePolicy(answer, closing)
    return world_with(policy=lambda seed: policy), policy


def play(*arguments: Any, **named: Any) -> Played:
    async def scenario() -> Played:
        played = await drive(*arguments, **named)
        await no_environment_threads()
        return played

    return asyncio.run(scenario())


def test_a_whole_episode() -> None:
    world, policy = decides(counted)
    played = play(world, turns=3)
    assert played.end == {
        "reason": "finished",
        "score": 1.0,
        "result": "3 of 3 right",
        "turns": 3,
        "detail": None,
        "terminated": True,
        "truncated": False,
    }
    step = ["decision.made", "counting.number_said", "step.taken"]
    last = [*step[:2], "counting.finished", "narration.line", "step.taken", "episode.ended"]
    assert played.types == [*step, *step, *last]
    assert [recorded.event.turn for recorded in played.events] == [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3]
    rewards = [one.event.data["reward"] for one in played.events if one.event.type == "step.taken"]
    assert rewards == [0.0, 0.0, 1.0]
    assert (policy.asked, policy.closed) == (3, 1)


def test_the_events_of_a_step_are_appended_together() -> None:
    world, _ = decides(counted)
    played = play(world, turns=2)
    assert [len({one.event.turn for one in append}) for append in played.journal.appends] == [1, 1, 1, 1]
    assert [len(append) for append in played.journal.appends] == [1, 3, 5, 1]


def test_the_step_cap() -> None:
    world, policy = decides(lambda observation: Decision({"text": "?"}, "heuristic"))
    played = play(dataclasses.replace(world, step_cap=lambda options: options["turns"] + 2), turns=5)
    assert (played.end["reason"], played.end["turns"]) == ("step_cap", 7)
    assert played.end["detail"] == "cut short after 7 turns"
    assert (policy.asked, policy.closed) == (7, 1)


def test_refused_actions_are_counted_and_change_nothing() -> None:
    texts = iter(["?", "ACTION: 1", "!", "ACTION: 2"])
    world, _ = decides(lambda observation: Decision({"text": next(texts)}, "random"))
    played = play(world, turns=2)
    assert played.end["reason"] == "finished"
    refused = [one.event for one in played.events if one.event.type == "action.refused"]
    assert [(one.turn, one.data["refusals"], one.data["rule"]) for one in refused] == [
        (1, 1, "action.text"),
        (3, 2, "action.text"),
    ]


# who decides fails

NESTED: Any = {"x": None}
for _ in range(100):
    NESTED = {"x": NESTED}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (failing(ValueError("no idea")), "ValueError: no idea"),
        (failing(TimeoutError("upstream")), "TimeoutError: upstream"),
        (failing(asyncio.CancelledError()), "was cancelled"),
        (failing(ExceptionGroup("many", [OSError("x")])), "ExceptionGroup"),
        (lambda seen: Decision({"text": math.nan}, "model"), "not JSON compliant"),
        (lambda seen: Decision({"text": "\ud800"}, "model"), "surrogates not allowed"),
        (lambda seen: Decision({"text": {1, 2}}, "model"), "set is not JSON serializable"),
        (lambda seen: Decision({"text": "x" * 70_000}, "model"), "the limit is 65536"),
        (lambda seen: Decision(NESTED, "model"), "nested deeper than 64"),
        (lambda seen: Decision(None, "model"), "cannot be recorded"),  # type: ignore[arg-type]
        (lambda seen: Decision({"text": "1"}, "somebody"), "source"),  # type: ignore[arg-type]
        (lambda seen: Decision({"text": "1"}, "model", None), "cannot be recorded"),  # type: ignore[arg-type]
        (lambda seen: Decision({"text": "1"}, "model", tokens_in=-1), "tokens_in"),
        (lambda seen: Decision({"text": "1"}, "model", latency_s=math.inf), "latency_s"),
        (lambda seen: Decision({"text": "1"}, "model", latency_s=math.nan), "latency_s"),
        (lambda seen: Decision({"text": "1"}, "model", cost=-1.0), "cost"),
        (lambda seen: Decision({"text": "1"}, "model", model=0), "model"),  # type: ignore[arg-type]
        (lambda seen: Decision({"text": "1"}, "model", prompt="two"), "prompt"),  # type: ignore[arg-type]
        (lambda seen: Decision({"text": "1"}, "model", parse="so"), "parse"),  # type: ignore[arg-type]
        (lambda seen: Decision({"text": "1"}, "model", exchanges=[{}]), "request"),
    ],
)
def test_a_policy_that_fails(answer: Callable[..., Any], said: str) -> None:
    async def decide(observation: Observation) -> Decision:
        decision: Decision = answer(observation)
        return decision

    world, policy = decides(lambda observation: decide(observation))
    played = play(world, turns=2)
    assert played.end["reason"] == "policy_error"
    assert said in played.end["detail"]
    assert played.types == ["episode.ended"], "a failed decision leaves no trace but the end"
    assert policy.closed == 1


def test_a_policy_that_answers_something_else() -> None:
    async def answer(observation: Observation) -> Any:
        return {"text": "ACTION: 1"}

    world, _ = decides(answer)
    assert play(world).end["reason"] == "policy_error"


def test_an_error_whose_text_cannot_be_had_is_an_end_all_the_same() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("do not look at me")

    world, policy = decides(failing(Unspeakable()))
    assert play(world).end["reason"] in ("policy_error", "environment_error")
    assert policy.closed == 1


def test_a_policy_that_cannot_be_built_and_one_that_was_before_it() -> None:
    built = FakePolicy(counted)
    world = world_with(policy=lambda seed: built, actors=("counter", "other"))
    broken = Preset("heuristic", "x", "x", "heuristic", failing(LookupError("no such model")))
    played = play(dataclasses.replace(world, opponents={"heuristic": broken}))
    assert played.end["reason"] == "policy_error"
    assert "no such model" in played.end["detail"]
    assert built.closed == 1, "the one that was built is let go"


def test_a_policy_that_fails_to_close_hides_no_end() -> None:
    world, policy = decides(counted, closing=failing(OSError("socket")))
    assert play(world, turns=1).end["reason"] == "finished"
    assert policy.closed == 1


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "LET_GO_S", 0.05)


@pytest.mark.usefixtures("impatient")
def test_a_policy_that_hangs_in_closing_hides_no_end() -> None:
    world, policy = decides(counted, closing=forever)
    assert play(world, turns=1).end["reason"] == "finished"
    assert policy.closed == 1


@pytest.mark.usefixtures("impatient")
async def test_a_policy_that_ignores_its_cancellation_is_given_up() -> None:
    release: list[int] = []

    async def stubborn(observation: Observation) -> Decision:
        while not release:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        raise OSError("too late to matter")

    world, policy = decides(stubborn)
    played = await drive(world, limits=EpisodeLimits(decision_s=0.03))
    assert played.end["reason"] == "timeout"
    assert policy.closed == 1
    release.append(1)
    await asyncio.sleep(0.05)


# the world fails


class BreaksIn(CountingEnvironment):
    """Raises in one of its methods.

    Args:
        method: Which.
        error: What it raises.
    """

    def __init__(self, method: str, error: BaseException) -> None:
        super().__init__()
        self._method, self._error = method, error

    def _break(self, method: str) -> None:
        if method == self._method:
            raise self._error

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        self._break("reset")
        return super().reset(seed=seed, episode_id=episode_id, options=options)

    def step(self, action: Any) -> Observation:
        self._break("step")
        return super().step(action)

    def facts(self) -> Any:
        self._break("facts")
        return super().facts()

    @property
    def state(self) -> Mapping[str, Any]:
        self._break("state")
        return super().state


@pytest.mark.parametrize("method", ["reset", "step", "facts", "state"])
@pytest.mark.parametrize(
    "error", [ValueError("bug"), TimeoutError("mine"), StopIteration(), SystemExit(1), KeyboardInterrupt()]
)
def test_an_environment_that_raises(method: str, error: BaseException) -> None:
    policy = FakePolicy(counted)
    world = world_with(policy=lambda seed: policy, environment=lambda: BreaksIn(method, error))
    played = play(world, turns=1)
    assert played.end["reason"] == "environment_error"
    assert type(error).__name__ in played.end["detail"]
    assert policy.closed == 1


def test_an_environment_that_cannot_be_built() -> None:
    played = play(world_with(environment=failing(OSError("no data file"))))
    assert (played.end["reason"], played.end["detail"]) == ("environment_error", "OSError: no data file")


def changed(**changes: Any) -> Callable[[Observation], Observation]:
    return lambda observation: dataclasses.replace(observation, **changes)


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (lambda observation: None, "NoneType"),
        (changed(actor="nobody"), "'nobody', which is not one of counter"),
        (changed(actor=None), "None, which is not one of counter"),
        (changed(legal_actions=()), "no legal action"),
        (changed(reward=math.nan), "the reward nan is not a finite number"),
        (changed(reward=1.5), "not from 0 to 1"),
        (changed(reward=0.5), "before the end"),
        (changed(reward=None), "the reward None is not a finite number"),
        (changed(refused=Refusal("r", "m")), "refused an action by r but returned facts or ended"),
        (changed(metadata={"rubric": {"x": "much"}}), "rubric"),
        (changed(done=True, reward=-1.0), "not from 0 to 1"),
    ],
)
def test_an_environment_that_breaks_its_contract(lie: Callable[..., Any], said: str) -> None:
    played = play(world_with(environment=lambda: LyingEnvironment(lie)), turns=3)
    assert played.end["reason"] == "environment_error"
    assert said in played.end["detail"]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ([Fact("episode.ended", {"reason": "finished"})], "undeclared event types: episode.ended"),
        ([Fact("counting.number_said", {"number": math.nan})], "could not be shown"),
        ([Fact("counting.number_said", {"number": 1})], "could not be shown"),
        (
            [Fact("counting.number_said", {"expected": 1, "correct": 1, "number": "\ud800"})],
            "could not be shown",
        ),
        (["text"], "AttributeError"),
        (None, "TypeError"),
    ],
)
def test_an_environment_that_tells_nonsense(facts: Any, said: str) -> None:
    played = play(world_with(environment=lambda: LyingEnvironment(facts=lambda _: facts)), turns=3)
    assert played.end["reason"] == "environment_error"
    assert said in played.end["detail"]


@pytest.mark.parametrize("broken", ["projection", "commentator"])
@pytest.mark.parametrize("error", [KeyError("x"), RuntimeError("x"), AssertionError(), RecursionError()])
@pytest.mark.parametrize("when", ["counting.number_said", "episode.ended"])
def test_a_view_of_the_world_that_fails_cannot_hide_the_end(broken: str, error: Exception, when: str) -> None:
    def fail(first: Any, second: Any) -> Any:
        event = second if broken == "projection" else first
        if event.type in (when, "episode.ended"):
            raise error
        return {} if broken == "projection" else ()

    played = play(dataclasses.replace(world_with(), **{broken: fail}), turns=2)  # type: ignore[arg-type]
    assert played.end["reason"] == ("finished" if when == "episode.ended" else "environment_error")


def test_what_a_world_changes_later_does_not_change_what_was_told() -> None:
    kept: list[dict[str, Any]] = []

    def shared(facts: Any) -> Any:
        for old in kept:
            old.clear()
        kept.extend(fact.data for fact in facts)
        return facts

    played = play(world_with(environment=lambda: LyingEnvironment(facts=shared)), turns=3)
    said = [one.event.data for one in played.events if one.event.type == "counting.number_said"]
    assert [one["number"] for one in said] == [1, 2, 3]


def test_an_action_that_the_world_changes_is_recorded_as_it_was_decided() -> None:
    class Greedy(CountingEnvironment):
        def step(self, action: Any) -> Observation:
            answer = super().step(dict(action))
            action.clear()
            return answer

    played = play(world_with(environment=Greedy), turns=1)
    (decision,) = (one.event.data for one in played.events if one.event.type == "decision.made")
    assert decision["action"] == {"text": "ACTION: 1"}


# nobody waits for ever


def test_a_decision_that_never_comes() -> None:
    world, policy = decides(forever)
    played = play(world, limits=EpisodeLimits(decision_s=0.03))
    assert (played.end["reason"], played.end["detail"]) == ("timeout", "counter did not decide within 0.03 s")
    assert policy.closed == 1


@pytest.mark.parametrize(("held_from", "limits"), [(1, {"step_s": 0.05}), (0, {"reset_s": 0.05})])
async def test_a_world_that_never_answers(held_from: int, limits: dict[str, float]) -> None:
    gate = threading.Event()

    policy = FakePolicy(counted)
    world = world_with(
        policy=lambda seed: policy, environment=lambda: HeldEnvironment(gate, held_from=held_from)
    )
    played = await drive(world, limits=EpisodeLimits(**limits))
    assert played.end["reason"] == "timeout"
    assert "did not answer within 0.05 s" in played.end["detail"]
    assert policy.closed == 1
    gate.set()
    await no_environment_threads()


def test_an_episode_that_lasts_too_long() -> None:
    clock = ManualClock()

    def slow(observation: Observation) -> Decision:
        clock.advance(400)
        return counted(observation)

    world, _ = decides(slow)
    played = play(world, clock=clock, limits=EpisodeLimits(episode_s=1000), turns=9)
    assert (played.end["reason"], played.end["turns"]) == ("timeout", 3)
    assert played.end["detail"] == "longer than 1000 s of play"


def test_a_pause_is_not_play() -> None:
    clock = ManualClock()

    async def pause_long(played: Played) -> None:
        played.control.pause()
        await until(lambda: bool(played.journal.appends))
        clock.advance(5000)
        played.control.resume()

    world, _ = decides(counted)
    assert (
        play(world, pause_long, clock=clock, limits=EpisodeLimits(episode_s=1000)).end["reason"] == "finished"
    )


# asked to end


async def stop_at_once(played: Played) -> None:
    played.control.request_end(STOP)


def test_stopped_before_the_first_step() -> None:
    world, policy = decides(counted)
    played = play(world, stop_at_once)
    assert (played.end["reason"], played.end["turns"]) == ("stopped", 0)
    assert played.end["detail"] == "stopped by a test"
    assert (policy.asked, policy.closed) == (0, 1)


def test_stopped_during_a_decision_that_hangs() -> None:
    world, policy = decides(forever)

    async def stop(played: Played) -> None:
        await until(lambda: policy.asked == 1)
        played.control.request_end(STOP)

    assert play(world, stop).end["reason"] == "stopped"
    assert policy.closed == 1


@pytest.mark.parametrize("held_from", [0, 1, 2])
def test_stopped_during_a_step_that_hangs(held_from: int) -> None:
    gate = threading.Event()
    held: list[HeldEnvironment] = []

    def build() -> HeldEnvironment:
        held.append(HeldEnvironment(gate, held_from=held_from))
        return held[0]

    async def stop(played: Played) -> None:
        await until(lambda: bool(held) and held[0].waiting.is_set())
        played.control.request_end(STOP)

    async def scenario() -> None:
        played = await drive(world_with(environment=build), stop)
        assert (played.end["reason"], played.end["turns"]) == ("stopped", max(0, held_from - 1))
        gate.set()
        await no_environment_threads()

    asyncio.run(scenario())


def test_stopped_during_a_pause() -> None:
    async def stop(played: Played) -> None:
        played.control.pause()
        await asyncio.sleep(0.02)
        assert not played.driver.turn
        played.control.request_end(STOP)

    assert play(world_with(), stop).end["reason"] == "stopped"


def test_stopped_during_a_wait_for_the_pace() -> None:
    clock = ManualClock()

    async def stop(played: Played) -> None:
        await until(lambda: clock.sleepers == 1)
        played.control.request_end(STOP)

    played = play(world_with(), stop, clock=clock, pace=Pace.BROADCAST)
    assert played.end["reason"] == "stopped"
    assert clock.sleepers == 0


def test_asked_to_end_twice_the_first_reason_holds() -> None:
    async def stop(played: Played) -> None:
        played.control.request_end(EndRequest("interrupted", "going away"))
        played.control.request_end(STOP)

    assert play(world_with(), stop).end["reason"] == "interrupted"


def test_asked_to_end_in_the_moment_when_a_deadline_passes() -> None:
    """The deadline has struck and its owner has not yet run: asking then must not raise."""

    async def stop(played: Played) -> None:
        scope = None
        while scope is None or not scope.expired():
            await asyncio.sleep(0)
            scope = played.control.wait or scope
        played.control.request_end(STOP)

    world, _ = decides(forever)
    assert play(world, stop, limits=EpisodeLimits(decision_s=0.02)).end["reason"] in ("stopped", "timeout")


# cancelled from outside


@pytest.mark.parametrize("where", ["decision", "pause", "pace", "journal"])
def test_cancelled(where: str) -> None:
    clock, hold = ManualClock(), asyncio.Event()
    policy = FakePolicy(forever if where == "decision" else counted)
    journal = RecordingJournal(hold=hold, hold_from=3 if where == "journal" else 10_000)

    async def reach(played: Played) -> None:
        if where == "pause":
            played.control.pause()
            await asyncio.sleep(0.02)
        elif where == "pace":
            await until(lambda: clock.sleepers == 1)
        elif where == "journal":
            await until(lambda: journal.waiting)
            asyncio.get_running_loop().call_later(0.03, hold.set)
        else:
            await until(lambda: policy.asked == 1)

    async def scenario() -> None:
        played = await drive(
            world_with(policy=lambda seed: policy),
            reach,
            clock=clock,
            journal=journal,
            pace=Pace.FAST if where == "pace" else Pace.MAX,
            cancel=True,
        )
        assert played.ended is None
        assert played.driver.ended is not None
        assert played.driver.ended.reason == "interrupted"
        assert played.end["reason"] == "interrupted"
        assert policy.closed == 1
        await no_environment_threads()

    asyncio.run(scenario())


async def test_cancelled_while_the_end_is_told_the_end_is_told_once() -> None:
    hold = asyncio.Event()
    journal = RecordingJournal(hold=hold, hold_from=4)

    async def reach(played: Played) -> None:
        await until(lambda: played.driver.ended is not None and journal.waiting)
        asyncio.get_running_loop().call_later(0.03, hold.set)

    assert (await drive(world_with(), reach, journal=journal, cancel=True, turns=2)).end[
        "reason"
    ] == "finished"


class ClosesSlowly(ThreadStepper[Environment]):
    """Its environment is let go once that is allowed."""

    def __init__(self, world: World, journal: RecordingJournal, allowed: asyncio.Event) -> None:
        super().__init__(world.environment)
        self._journal, self._allowed = journal, allowed
        self.recorded: list[list[str]] = []

    async def aclose(self) -> None:
        self.recorded.append(types(self._journal.events))
        await self._allowed.wait()
        await super().aclose()


@pytest.mark.parametrize("cancel", [False, True])
async def test_the_environment_is_let_go_before_the_end_is_recorded(cancel: bool) -> None:
    """Else it is nobody's where the process dies in between: what has ended is not played on."""
    allowed, journal, world = asyncio.Event(), RecordingJournal(), world_with()
    stepper = ClosesSlowly(world, journal, allowed)

    async def reach(played: Played) -> None:
        await until(lambda: bool(stepper.recorded))
        asyncio.get_running_loop().call_later(0.03, allowed.set)

    assert (
        await drive(world, reach, journal=journal, cancel=cancel, open_stepper=lambda *_: stepper, turns=2)
    ).end["reason"] == "finished", "though it was cancelled meanwhile"
    assert stepper.recorded[0].count("step.taken") == 2
    assert "episode.ended" not in stepper.recorded[0]


# the journal fails


@pytest.mark.parametrize("fail_at", [2, 3])
def test_a_journal_that_fails_in_the_middle(fail_at: int) -> None:
    journal = RecordingJournal(fail_at=fail_at, failure=JournalError("disk full"))
    world, policy = decides(counted)
    played = play(world, journal=journal, turns=4)
    assert played.end["reason"] == "interrupted"
    assert played.end["detail"] == "the journal failed: disk full"
    assert policy.closed == 1


@pytest.mark.parametrize("failure", [JournalError("disk full"), RuntimeError("bug")])
def test_an_end_that_cannot_be_recorded_is_still_an_end(failure: Exception) -> None:
    journal = RecordingJournal(fail_at=4, failure=failure)
    world, policy = decides(counted)
    played = play(world, journal=journal, turns=2)
    assert played.ended is not None
    assert played.ended.reason == "finished"
    assert "episode.ended" not in played.types
    assert policy.closed == 1


# pauses


def test_no_step_is_told_between_a_pause_and_its_end_not_even_one_in_flight() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow(observation: Observation) -> Decision:
        asked.set()
        await answer.wait()
        return counted(observation)

    async def pause(played: Played) -> None:
        await asked.wait()
        played.control.pause()
        before = len(played.events)
        answer.set()
        await asyncio.sleep(0.05)
        assert len(played.events) == before
        assert played.driver.turn == 0
        played.control.resume()

    world, _ = decides(slow)
    assert play(world, pause, turns=2).end["reason"] == "finished"


# how the environment is stepped


class Seeing(FakePolicy):
    """A policy that is shown the world itself."""

    def see(self, snapshot: bytes) -> None:
        assert snapshot


@pytest.mark.parametrize("open_stepper", [inline, on_a_thread])
def test_the_record_does_not_tell_how_the_environment_was_stepped(open_stepper: OpenStepper) -> None:
    def without_times(played: Played) -> list[dict[str, Any]]:
        return [
            {**one.event.data, "duration_s": 0, "latency_s": 0, "patch": len(one.event.patch)}
            for one in played.events
        ]

    world, _ = decides(counted)
    played = play(world, turns=5, open_stepper=open_stepper)
    assert played.end["score"] == 1.0
    assert without_times(played) == without_times(play(world, turns=5))


@pytest.mark.parametrize("open_stepper", [inline, on_a_thread])
def test_a_snapshot_that_cannot_be_taken_is_the_environments_fault(open_stepper: OpenStepper) -> None:
    class Unkept(CountingEnvironment):
        def snapshot(self) -> bytes:
            raise OSError("no snapshot")

    world = world_with(policy=lambda seed: Seeing(counted), environment=Unkept)
    played = play(world, turns=3, open_stepper=open_stepper)
    assert (played.end["reason"], played.end["detail"]) == ("environment_error", "OSError: no snapshot")


@pytest.mark.parametrize("open_stepper", [inline, on_a_thread])
def test_who_sees_the_truth_plays_to_the_end(open_stepper: OpenStepper) -> None:
    policy = Seeing(counted)
    assert play(world_with(policy=lambda seed: policy), turns=3, open_stepper=open_stepper).end["score"] == 1
