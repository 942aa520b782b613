"""Forks an episode: a world is brought to where an event left it, other captains play on from there.

The fork's record begins with the parent's own facts, recorded again under the fork's id, so that it can be
replayed, verified and recovered without the parent, which may be pruned or edited one day.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from spectator.catalog import LoadWorld, load_world
from spectator.episodes.record.derived import is_derived
from spectator.episodes.record.reader import ViewReader
from spectator.episodes.replay.fork_start import ParentRecord, beyond, bring, too_far, wrong
from spectator.episodes.replay.restore import within
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.plan import EpisodePlan, EpisodeRequest, plan_episode
from spectator.episodes.run.ports import Past
from spectator.errors import EpisodeNotFound
from spectator.events import Parent
from spectator.journal.base import Journal
from spectator.steppers.base import Stepper
from spectator.steppers.opening import OpenStepper, on_a_thread

LONG_EVENT: Final = 100_000
"""Characters that few events take: where all that a fork takes over were so long and fitted, it fits."""

ANY_TURN: Final = 2**53 - 1
"""Stands for the turn at which a fork begins while that is not known."""


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
    """A fork that is ready to be played, once its past is recorded.

    Args:
        plan: What is played from there on.
        past: Where its policies stand.
        stepper: Its environment, which stands where the fork begins.
        parent: What its record begins with, to be copied.
    """

    plan: EpisodePlan
    past: Past
    stepper: Stepper
    parent: ParentRecord


async def fork_off(
    journal: Journal,
    request: ForkRequest,
    episode_id: str,
    *,
    limit_s: float,
    characters: float = math.inf,
    load: LoadWorld | None = None,
    open_stepper: OpenStepper = on_a_thread,
    plan: EpisodePlan | None = None,
) -> Forked:
    """Bring a new environment to where the fork begins, from the parent's checkpoint or from its beginning.

    Scripted captains think along, and a language model that stays in its seat remembers what it decided;
    others, and people, begin where the fork does.

    Args:
        journal: Where the parent is recorded.
        request: Which, from where, with whom.
        episode_id: Id of the fork.
        limit_s: Seconds that it may take.
        characters: Characters of the parent's record that may be copied.
        load: Finds the world; the catalogue's own function when left out.
        open_stepper: Makes the environment's stepper.
        plan: What :func:`plan_fork` made of ``request``; made here when left out.

    Raises:
        EpisodeNotFound: There is no such parent.
        InvalidRequest: Names every wrong field by its name in ``POST /custom/fork``.
        JournalError: The parent cannot be read.
        StepTimeout: It took longer.
    """
    plan = plan or await plan_fork(journal, request, load)
    name, seq = request.episode_id, request.seq
    begun = await journal.read(name, limit=1)
    if not begun:
        raise EpisodeNotFound(name)
    first = begun[0].event
    derived = is_derived(first)
    if not derived and not await journal.read(name, after_seq=seq - 1, limit=1):
        summary = await journal.episode(name)
        raise beyond(0 if summary is None else summary.head_seq)
    if not derived and seq * LONG_EVENT > characters:
        last = await journal.last_within(name, int(characters), until=seq)
        if last < seq:
            raise too_far(characters, last)

    records = ViewReader(journal, load) if derived else journal
    parent = ParentRecord(journal, records, first.data, derived, name, seq, characters)
    brought = await within(limit_s, bring(parent, plan, episode_id, open_stepper))
    assert plan.parent is not None, "the plan is a fork's"
    origin = plan.parent.model_copy(update={"turn": brought.past.turn})
    return Forked(replace(plan, parent=origin), brought.past, brought.stepper, parent)


async def plan_fork(journal: Journal, request: ForkRequest, load: LoadWorld | None = None) -> EpisodePlan:
    """Who plays what from there on, before anything is replayed; from which turn is not known yet.

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
        raise wrong(
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
    before = Parent.model_validate(started["parent"]) if started.get("parent") else None
    seed = request.seed
    if seed is None:
        seed = started["seed"] if before is None else before.captains_seed
    own_since = {  # for models that stay in their seats
        actor: 0 if before is None else before.own_after(actor)
        for actor, seat in seats.items()
        if seat["source"] == "model" and plan.preset(actor).name == seat["policy"]
    }
    origin = Parent(
        episode_id=request.episode_id, seq=request.seq, turn=ANY_TURN, captains_seed=seed,
        own_since=own_since or None,
    )  # fmt: skip
    return replace(plan, parent=origin)


def _same_opponent(plan: EpisodePlan, seats: Mapping[str, Mapping[str, Any]], agent: str) -> Any:
    world = plan.world
    name = next(seat["policy"] for actor, seat in seats.items() if actor != agent)
    preset = {**world.captains, **world.opponents}.get(name)
    if preset is None or preset.missing is not None:
        raise wrong("opponent_choice", f"the parent's opponent {name!r} is not available here; choose one")
    return preset
