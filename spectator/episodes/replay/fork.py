"""Forks an episode: its past is replayed up to an event, other captains play on from there.

The fork's record begins with the parent's own facts, recorded again under the fork's id, so that it can be
replayed, verified and recovered without the parent, which may be pruned or edited one day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from spectator.catalog import LoadWorld, load_world
from spectator.episodes.record.reader import ViewReader
from spectator.episodes.record.stream import TurnFacts
from spectator.episodes.replay.recorded_calls import Calls, attachments_of, calls_of, with_replies
from spectator.episodes.replay.replayer import FROM_OUTSIDE, Replay, ReplayDivergence
from spectator.episodes.replay.restore import within
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.plan import EpisodePlan, EpisodeRequest, plan_episode
from spectator.episodes.run.ports import Past
from spectator.errors import EpisodeNotFound, FieldError, InvalidRequest
from spectator.events import Fact, Parent, RecordedEvent, core_fact
from spectator.journal.attachments import Attachments
from spectator.journal.base import Journal
from spectator.steppers.base import Stepper
from spectator.steppers.opening import OpenStepper, on_a_thread

NOT_COPIED = FROM_OUTSIDE | {"episode.started", "narration.line", "episode.ended"}
"""Event types that are not taken over: they are the parent's own, or follow from the others."""

LONGEST_PAST: Final = 64_000_000
"""Characters of a parent's record that a fork may take over: it is replayed in memory."""


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """What somebody asks for.

    Args:
        episode_id: The parent.
        seq: Its last event that is to be kept, as viewers number them: the last of a step, before the
            world's end.
        captain: Preset for the agent's seat; ``None`` for the parent's.
        opponent: Preset for the other seats; ``None`` for the parent's.
        seed: Seed of the policies, 0 .. 2**53 - 1; ``None`` for the parent's. The world keeps its own: the
            same actions have the same consequences as in the parent.
        pace: How fast it is played.
    """

    episode_id: str
    seq: int
    captain: str | None = None
    opponent: str | None = None
    seed: int | None = None
    pace: Pace = Pace.BROADCAST


@dataclass(frozen=True, slots=True)
class Forked:
    """A fork that is ready to be played.

    Args:
        plan: What is played from there on.
        past: Where its policies stand.
        stepper: Its environment, which stands where the fork begins.
        opening: What its record begins with.
        attachments: The parent's model calls, to be recorded again beside the opening; ``None`` without any.
    """

    plan: EpisodePlan
    past: Past
    stepper: Stepper
    opening: Sequence[TurnFacts]
    attachments: Attachments | None


async def fork_off(
    journal: Journal,
    request: ForkRequest,
    episode_id: str,
    *,
    limit_s: float,
    load: LoadWorld | None = None,
    open_stepper: OpenStepper = on_a_thread,
    plan: EpisodePlan | None = None,
) -> Forked:
    """Replay the parent up to where the fork begins, in a new environment.

    Scripted captains think along from the beginning, so that they know what they would have noticed; the
    parent's own captains with the parent's own seed therefore play on exactly as they did. A language model
    that stays in its seat remembers what it decided there; others, and people, begin where the fork does.

    Args:
        journal: Where the parent is recorded.
        request: Which, from where, with whom.
        episode_id: Id of the fork.
        limit_s: Seconds that the replay may take.
        load: Finds the world; the catalogue's own function when left out.
        open_stepper: Makes the environment's stepper.
        plan: What :func:`plan_fork` made of ``request``; made here when left out.

    Raises:
        EpisodeNotFound: There is no such parent.
        InvalidRequest: Names every wrong field by its name in ``POST /custom/fork``.
        JournalError: The parent cannot be read.
        StepTimeout: It took longer.
    """
    recorded = await _past(journal, request, load)
    plan = _from_within(plan or await plan_fork(journal, request, load), request, recorded)
    calls: Calls = {}
    if any(one.event.data.get("exchanges") for one in recorded):
        calls = await calls_of(journal, request.episode_id, until=recorded[-1].event.turn)
    whole = [with_replies(one, calls.get(one.event.turn, ())) for one in recorded] if calls else recorded
    stepper = open_stepper(plan.world, episode_id)
    try:
        past = await within(limit_s, _replay(stepper, plan, whole, episode_id))
    except BaseException:
        await stepper.aclose()
        raise
    opening: list[TurnFacts] = [(0, [core_fact(plan.started())])]
    kept = (one.event for one in recorded if one.event.type not in NOT_COPIED)
    for turn, events in groupby(kept, key=lambda event: event.turn):
        opening.append((turn, [Fact(event.type, event.data) for event in events]))
    return Forked(plan, past, stepper, opening, attachments_of(recorded, calls) if calls else None)


async def _past(journal: Journal, request: ForkRequest, load: LoadWorld | None) -> list[RecordedEvent]:
    """The parent's events up to where the fork begins; what cannot be forked is refused before it is read."""
    records = ViewReader(journal, load)
    there = await journal.read(request.episode_id, after_seq=request.seq - 1, limit=1)
    if not there and not await records.derives(request.episode_id):
        summary = await journal.episode(request.episode_id)
        raise EpisodeNotFound(request.episode_id) if summary is None else _beyond(summary.head_seq)
    recorded: list[RecordedEvent] = []
    size = 0
    async for one in records.stream(request.episode_id):
        if one.seq > request.seq:
            break
        size += len(one.text)
        if size > LONGEST_PAST:
            much = f"{LONGEST_PAST / 1e6:g} MB"
            raise _wrong("seq", f"lies beyond the first {much} of the record; fork up to event {one.seq - 1}")
        recorded.append(one)
    if len(recorded) < request.seq:
        raise _beyond(len(recorded))
    return recorded


def _beyond(head_seq: int) -> InvalidRequest:
    return _wrong("seq", f"must be from 1 to {head_seq}: that is how much is recorded")


async def plan_fork(journal: Journal, request: ForkRequest, load: LoadWorld | None = None) -> EpisodePlan:
    """Who plays what from there on, before anything is replayed; from where is not looked at yet.

    Args:
        journal: Where the parent is recorded; its first event is read.
        request: Which parent, with whom.
        load: Finds the world; the catalogue's own function when left out.

    Raises:
        EpisodeNotFound: There is no such parent.
        InvalidRequest: See :func:`fork_off`.
        JournalError: The parent cannot be read.
    """
    first = await journal.read(request.episode_id, limit=1)
    if not first:
        raise EpisodeNotFound(request.episode_id)
    started = first[0].event.data
    world = (load or load_world)(started["environment"])
    if world.version != started["environment_version"]:
        raise _wrong(
            "episode_id",
            f"was played in version {started['environment_version']} of {world.name}, and here is "
            f"{world.version}; only an episode of the same version can be played on",
        )
    agent, seats = started["agent"], started["seats"]
    asked = EpisodeRequest(
        environment=world.name,
        captain=request.captain or seats[agent]["policy"],
        opponent=request.opponent,
        pack=started["pack"],
        seed=started["seed"],
        pace=request.pace,
        narration=started["narration"],
        options=started["options"],
        on_failure=started.get("on_failure", "fallback"),
        failed_decisions=started.get("failed_decisions", "fallback"),
        waits_for_rest=started.get("waits_for_rest", False),
    )
    plan = plan_episode(asked, draw_seed=lambda: 0, load=load)
    if request.opponent is None and plan.opponent is not None:
        plan = replace(plan, opponent=_same_opponent(plan, seats, agent))
    return plan


def _from_within(plan: EpisodePlan, request: ForkRequest, recorded: Sequence[RecordedEvent]) -> EpisodePlan:
    """``plan`` with the place in the parent from which it is played."""
    started = recorded[0].event.data
    before = Parent.model_validate(started["parent"]) if started.get("parent") else None
    inherited = started["seed"] if before is None else before.captains_seed
    own_since = {  # for models that stay in their seats
        actor: 0 if before is None else before.own_after(actor)
        for actor, seat in started["seats"].items()
        if seat["source"] in ("model", "replay") and plan.preset(actor).name == seat["policy"]
    }
    parent = Parent(
        episode_id=request.episode_id,
        seq=request.seq,
        turn=recorded[-1].event.turn,
        captains_seed=inherited if request.seed is None else request.seed,
        own_since=own_since or None,
    )
    return replace(plan, parent=parent)


def _same_opponent(plan: EpisodePlan, seats: Mapping[str, Mapping[str, Any]], agent: str) -> Any:
    world = plan.world
    name = next(seat["policy"] for actor, seat in seats.items() if actor != agent)
    preset = {**world.captains, **world.opponents}.get(name)
    if preset is None or preset.missing is not None:
        raise _wrong("opponent_choice", f"the parent's opponent {name!r} is not available here; choose one")
    return preset


async def _replay(
    stepper: Stepper, plan: EpisodePlan, recorded: Sequence[RecordedEvent], episode_id: str
) -> Past:
    seats = {actor: plan.policy(actor) for actor in plan.world.actors}
    last = recorded[-1].event
    replay = Replay(plan.world, stepper, seats, episode_id=episode_id, parent=plan.parent)
    for one in recorded:
        try:
            differences = await replay.compare(one.event)
        except ReplayDivergence as divergence:
            differences = [str(divergence)]
        if differences:
            raise _wrong(
                "episode_id",
                f"is not what its seed and decisions give: event {one.event.seq}: {differences[0]}",
            )
    if replay.due:
        before = max((one.event.seq for one in recorded if one.event.turn < last.turn), default=0)
        other = f"{before}, the one before it, or the last of it" if before else "the last of it"
        raise _wrong("seq", f"event {last.seq} is inside the step of turn {last.turn}; choose {other}")
    stepped = replay.stepped
    assert stepped is not None
    if stepped.observation.done:
        raise _wrong("seq", f"the game is over at event {last.seq}: there is nothing left to play")
    return Past(seats, replay.refusals, last.turn, replay.total, replace(stepped, facts=[]))


def _wrong(field: str, rule: str) -> InvalidRequest:
    return InvalidRequest([FieldError(field, rule)])
