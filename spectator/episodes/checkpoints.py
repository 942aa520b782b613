"""Checkpoints: the state of an episode between two steps, to resume it without a full replay.

A checkpoint is not part of the record and proves nothing. The digest of the event that it follows ties it to
the record, everything after it is compared with the world's answers, and if it does not fit, the whole record
is replayed. It is plain JSON except for the snapshot, whose format the world chooses.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from spectator import __version__
from spectator.clock import Clock
from spectator.environments.contract import Stepper
from spectator.environments.world import World
from spectator.episodes.driver import Past
from spectator.episodes.stream import EpisodeStream
from spectator.episodes.view import State
from spectator.errors import EnvironmentFault, EpisodeError, JournalError, typed_as
from spectator.events import decode_json, encode_json
from spectator.journal.contract import Checkpoint, Journal
from spectator.journal.encoding import compressed, expanded
from spectator.policies.policy import Policy, Remembers, Restorable, ScriptedPolicy

logger = logging.getLogger(__name__)

CHARACTERS: Final = 4_000_000
"""Characters of record between checkpoints: the most that is replayed after a crash."""

SECONDS: Final = 30.0
"""Seconds of play after which a checkpoint is kept anyway, for worlds with few but slow steps."""


class UnfitCheckpoint(EpisodeError):
    """A checkpoint that cannot be resumed here, although the record can."""


def unfit(error: Exception) -> UnfitCheckpoint:
    """Return the error for a checkpoint that an exception keeps from being resumed."""
    return UnfitCheckpoint(f"it cannot be resumed: {type(error).__name__}: {error}")


class ViewOnlyCheckpoint(UnfitCheckpoint):
    """A checkpoint for readers of the episode, with nothing to resume play from."""


@dataclass(frozen=True, slots=True)
class EpisodeSnapshot:
    """The state of an episode between two steps.

    Args:
        made_by: World, its version, and the version of this software; others cannot resume from it.
        turn: Actions taken or refused.
        refusals: Number of refused actions, by actor.
        memories: Memory of each policy, by actor; ``None`` for one that needs none.
        world: The environment's snapshot, in base64.
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
        """Return this snapshot converted to one of another episode.

        Raises:
            UnfitCheckpoint: The world cannot convert snapshots.
            Exception: The conversion failed.
        """
        if world.snapshot_for is None:
            raise UnfitCheckpoint(f"a snapshot of {world.name} cannot be used in another episode")
        snapshot = world.snapshot_for(self.snapshot, episode_id)
        return replace(self, world=base64.b64encode(snapshot).decode())

    def encoded(self) -> bytes:
        """Encode it as a checkpoint's body.

        Raises:
            Exception: A policy's memory is not JSON.
        """
        return compressed(encode_json({one.name: getattr(self, one.name) for one in fields(self)}).encode())


def episode_snapshot(body: bytes, world: World) -> EpisodeSnapshot:
    """Decode a checkpoint's body.

    Raises:
        UnfitCheckpoint: It was made by another version, or is malformed.
        ViewOnlyCheckpoint: It is valid and contains only a view.
    """
    with typed_as(
        lambda error: UnfitCheckpoint(f"it cannot be read: {error}"), passing=(ViewOnlyCheckpoint,)
    ):
        fields_read = decode_json(expanded(body).decode())
        if "view" in fields_read:
            raise ViewOnlyCheckpoint("it contains only the viewers' state")
        snapshot = EpisodeSnapshot(**fields_read)
    if snapshot.made_by != _made_by(world):
        raise UnfitCheckpoint(f"it was made by another version: {snapshot.made_by}")
    return snapshot


def _made_by(world: World) -> list[str]:
    return [world.name, world.version, __version__]


def memories(seats: Mapping[str, Policy]) -> dict[str, Any] | None:
    """Return the policies' memories, by actor; ``None`` if one cannot be saved.

    A policy that is neither scripted nor remembers, such as a person's, needs no memory.
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
    """Restore saved memories into new policies, except for the actors in ``fresh``.

    Raises:
        UnfitCheckpoint: They do not fit.
    """
    with typed_as(lambda error: UnfitCheckpoint(f"a policy cannot restore its memory: {error!r}")):
        if kept.keys() != seats.keys():
            raise UnfitCheckpoint("its actors differ")
        for actor, policy in seats.items():
            if actor in fresh:
                continue
            if isinstance(policy, Restorable):
                policy.restore(kept[actor])
            elif isinstance(policy, ScriptedPolicy | Remembers):
                raise UnfitCheckpoint(f"the policy of {actor} needs a memory, and none was saved")


class Checkpointer:
    """Keeps checkpoints of one episode; never raises, and stops if one cannot be made.

    Args:
        characters: Characters of record between checkpoints.
    """

    def __init__(
        self,
        journal: Journal,
        stream: EpisodeStream,
        world: World,
        clock: Clock,
        *,
        characters: int = CHARACTERS,
    ) -> None:
        self._journal = journal
        self._stream = stream
        self._world = world
        self._clock = clock
        self._characters = characters
        self._next_characters: float = characters
        self._next_at = clock.monotonic() + SECONDS

    def due(self, recorded: int) -> bool:
        """Return whether the next checkpoint is due.

        Args:
            recorded: Characters of the episode recorded by this process.
        """
        return recorded >= self._next_characters or self._clock.monotonic() >= self._next_at

    async def take(self, recorded: int, past: Past, stepper: Stepper, *, limit_s: float) -> None:
        """Keep a checkpoint, while everything is recorded and nothing is in progress.

        Does nothing right after a refused action, because the next actor is shown the refusal and a snapshot
        does not contain it. The next step will do.

        Args:
            recorded: See :meth:`due`.
            limit_s: Seconds that the environment may take for its snapshot.
        """
        if past.stepped.observation.refused is not None:
            return
        self._next_characters = recorded + self._characters
        self._next_at = self._clock.monotonic() + SECONDS
        seq, state = self._stream.head_seq, self._stream.state  # no await in between
        try:
            with typed_as(UnfitCheckpoint, passing=(EnvironmentFault, JournalError)):
                kept = memories(past.seats)
                if kept is None:
                    self._stop()
                    return
                world = base64.b64encode(await stepper.snapshot(limit_s=limit_s)).decode()
                made_by = _made_by(self._world)
                snapshot = EpisodeSnapshot(made_by, past.turn, past.total, past.refusals, kept, world, state)
                body = await asyncio.to_thread(snapshot.encoded)
                await self._journal.keep_checkpoint(Checkpoint(self._stream.episode_id, seq, body))
        except JournalError as error:
            logger.warning("episode %s continues without a checkpoint: %s", self._stream.episode_id, error)
        except (EnvironmentFault, UnfitCheckpoint) as error:
            logger.info("episode %s has no checkpoints: %s", self._stream.episode_id, error)
            self._stop()

    def _stop(self) -> None:
        self._next_characters = self._next_at = math.inf
