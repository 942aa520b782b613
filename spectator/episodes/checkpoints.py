"""Save where an episode stands between two steps, to resume it without its past.

A checkpoint is not part of the record and proves nothing: it is tied to the event that it follows by that
event's digest, everything after it is compared with what the world gives, and if it does not fit, the
record itself is replayed. It is plain JSON except for the snapshot, whose form the world chooses.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Protocol

from spectator import __version__
from spectator.clock import Clock
from spectator.environments.contract import Stepper
from spectator.environments.world import World
from spectator.episodes.driver import Past
from spectator.episodes.stream import EpisodeStream
from spectator.episodes.view import State
from spectator.errors import EnvironmentFault, EpisodeError, JournalError, typed_as
from spectator.events import decode_json, encode_json
from spectator.journal.contract import Checkpoint
from spectator.journal.encoding import compressed, expanded
from spectator.policies.policy import Policy, Remembers, Restorable, ScriptedPolicy

logger = logging.getLogger(__name__)

CHARACTERS: Final = 4_000_000
"""Characters of record after which another one is kept: what is played again after a death, at most."""

SECONDS: Final = 30.0
"""Seconds of play after which one is kept anyway, for worlds that say little and compute much."""


class UnfitCheckpoint(EpisodeError):
    """A checkpoint that cannot be gone on from here; the record can."""


class ViewOnlyCheckpoint(UnfitCheckpoint):
    """A checkpoint that was made for whoever reads the episode, and holds nothing to play on from."""


@dataclass(frozen=True, slots=True)
class EpisodeSnapshot:
    """Where an episode stands between two steps.

    Args:
        made_by: World, its version, and the version of this software; only the same go on from it.
        turn: Actions taken or refused.
        total: The sum of all rewards.
        refusals: Refused actions, by actor.
        memories: What each policy remembers, by actor; ``None`` for one that needs nothing.
        world: The environment's snapshot, in base64.
        state: What viewers saw last.
    """

    made_by: list[str]
    turn: int
    total: float
    refusals: Mapping[str, int]
    memories: Mapping[str, Any]
    world: str
    state: State

    @property
    def snapshot(self) -> bytes:
        """The environment's snapshot."""
        return base64.b64decode(self.world)

    def of_episode(self, world: World, episode_id: str) -> EpisodeSnapshot:
        """The same with the environment's snapshot as one of another episode.

        Raises:
            Exception: ``world`` cannot make that of it.
        """
        if world.snapshot_for is None:
            raise UnfitCheckpoint(f"snapshots of {world.name} are of one episode alone")
        snapshot = world.snapshot_for(self.snapshot, episode_id)
        return replace(self, world=base64.b64encode(snapshot).decode())

    def encoded(self) -> bytes:
        """As a checkpoint's body.

        Raises:
            Exception: A policy's memory is not JSON.
        """
        return compressed(encode_json({one.name: getattr(self, one.name) for one in fields(self)}).encode())


def episode_snapshot(body: bytes, world: World) -> EpisodeSnapshot:
    """What a checkpoint's body says.

    Raises:
        UnfitCheckpoint: It was made by another version, or is not what this one makes.
        ViewOnlyCheckpoint: It is complete and holds nothing but a view.
    """
    with typed_as(
        lambda error: UnfitCheckpoint(f"it cannot be read: {error}"), passing=(ViewOnlyCheckpoint,)
    ):
        told = decode_json(expanded(body).decode())
        if "view" in told:
            raise ViewOnlyCheckpoint("it holds what viewers see, and nothing else")
        stood = EpisodeSnapshot(**told)
    if stood.made_by != _made_by(world):
        raise UnfitCheckpoint(f"it was made by another version: {stood.made_by}")
    return stood


def _made_by(world: World) -> list[str]:
    return [world.name, world.version, __version__]


def memories(seats: Mapping[str, Policy]) -> dict[str, Any] | None:
    """What the policies remember, by actor; ``None`` where one remembers what cannot be kept.

    A policy that is neither scripted nor remembers, such as a person's, needs nothing of the past.
    """
    kept: dict[str, Any] = {}
    for actor, policy in seats.items():
        if isinstance(policy, Restorable):
            kept[actor] = policy.snapshot()
        elif isinstance(policy, ScriptedPolicy | Remembers):
            return None
        else:
            kept[actor] = None
    return kept


def restore_memories(
    seats: Mapping[str, Policy], kept: Mapping[str, Any], fresh: Collection[str] = ()
) -> None:
    """Give new policies the memories of others, but for the actors in ``fresh``.

    Raises:
        UnfitCheckpoint: They do not fit.
    """
    with typed_as(lambda error: UnfitCheckpoint(f"a policy does not take its memory back: {error!r}")):
        if kept.keys() != seats.keys():
            raise UnfitCheckpoint("it is of other seats")
        for actor, policy in seats.items():
            if actor in fresh:
                continue
            if isinstance(policy, Restorable):
                policy.restore(kept[actor])
            elif isinstance(policy, ScriptedPolicy | Remembers):
                raise UnfitCheckpoint(f"{actor} is a policy now that needs its past")


class CheckpointStore(Protocol):
    """As much of a journal as a checkpointer needs."""

    async def keep_checkpoint(self, checkpoint: Checkpoint) -> None:
        """See :meth:`spectator.journal.contract.Journal.keep_checkpoint`."""
        ...


class Checkpointer:
    """Keeps a checkpoint of one episode every so often; never fails, and stops where one cannot be made.

    Args:
        journal: Where they are kept.
        stream: The episode's events.
        world: Its world.
        clock: Measures.
        characters: After how many characters of record.
        seconds: After how many seconds anyway.
    """

    def __init__(
        self,
        journal: CheckpointStore,
        stream: EpisodeStream,
        world: World,
        clock: Clock,
        *,
        characters: int = CHARACTERS,
        seconds: float = SECONDS,
    ) -> None:
        self._journal = journal
        self._stream = stream
        self._world = world
        self._clock = clock
        self._characters = characters
        self._seconds = seconds
        self._next_characters: float = characters
        self._next_at = clock.monotonic() + seconds

    def due(self, recorded: int) -> bool:
        """Whether the next one is due.

        Args:
            recorded: Characters that this process has recorded of the episode.
        """
        return recorded >= self._next_characters or self._clock.monotonic() >= self._next_at

    async def take(self, recorded: int, past: Past, stepper: Stepper, *, limit_s: float) -> None:
        """Keep where the episode stands, all of it recorded and nothing under way.

        Not right after an action was refused: whoever is asked next is told so, and no snapshot holds that.
        The next step will do.

        Args:
            recorded: See :meth:`due`.
            past: Where its policies stand.
            stepper: Its environment.
            limit_s: Seconds that the environment may take for its snapshot.
        """
        if past.stepped.observation.refused is not None:
            return
        self._next_characters = recorded + self._characters
        self._next_at = self._clock.monotonic() + self._seconds
        seq, state = self._stream.head_seq, self._stream.state  # no await in between
        try:
            with typed_as(_cannot_be_made, passing=(EnvironmentFault, JournalError)):
                kept = memories(past.seats)
                if kept is None:
                    self._stop()
                    return
                world = base64.b64encode(await stepper.snapshot(limit_s=limit_s)).decode()
                made_by = _made_by(self._world)
                stood = EpisodeSnapshot(made_by, past.turn, past.total, past.refusals, kept, world, state)
                body = await asyncio.to_thread(stood.encoded)
                await self._journal.keep_checkpoint(Checkpoint(self._stream.episode_id, seq, body))
        except JournalError as error:
            logger.warning("episode %s goes on without a checkpoint: %s", self._stream.episode_id, error)
        except (EnvironmentFault, UnfitCheckpoint) as error:
            logger.info("episode %s has no checkpoints: %s", self._stream.episode_id, error)
            self._stop()

    def _stop(self) -> None:
        self._next_characters = self._next_at = math.inf


def _cannot_be_made(error: Exception) -> UnfitCheckpoint:
    return UnfitCheckpoint(f"{type(error).__name__}: {error}")
