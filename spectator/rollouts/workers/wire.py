"""What a worker and the desk of its run tell each other, and how it travels: frames of pickled messages.

Both ends are this program, started by the same person: over a pair of sockets that nobody else can reach, or
over TCP once both have shown that they know the key of the run (:mod:`.door`).
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from spectator.failures import FailureClass
from spectator.llm.secret import ApiKey
from spectator.policies.spending import Caps, Spent
from spectator.rollouts.deadlines import Deadlines
from spectator.rollouts.handlers.base import EpisodeHandler
from spectator.rollouts.in_flight import WaitingFor
from spectator.rollouts.request import RolloutRequest
from spectator.rollouts.workers.calls import SentAttachments
from spectator.runs.owed import Attempt
from spectator.runs.workers import MakeWorlds
from spectator.steppers.opening import OpenStepper

HEAD: Final = struct.Struct(">I")
"""Length of what follows, in bytes."""

LONGEST: Final = 1 << 30
"""Most bytes of a frame."""

BEAT_S: Final = 0.25
"""A worker that has nothing to say says so after so many seconds."""

_UNREADABLE: Final = (
    pickle.UnpicklingError, AttributeError, EOFError, ImportError, IndexError, TypeError, ValueError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What a worker needs to begin; everything in it can be pickled, functions by their names.

    Args:
        request: What is played.
        began_ms: When the run began, Unix time in milliseconds.
        concurrency: Episodes at once in this worker.
        worlds: Makes what finds worlds.
        key: Reads the endpoint's key, where it needs one.
        handler: Makes what adds to prompts.
        open_stepper: Makes the stepper of each episode.
        deadlines: How long anything may take.
        caps: Of a day, of an episode, and of the whole.
        today: What all workers spent today, so far.
        whole: What they spent in all.
        answered: Whether the model answered any of them, so that it is waited for should it be gone.
    """

    request: RolloutRequest
    began_ms: int
    concurrency: int
    worlds: MakeWorlds
    key: Callable[[], ApiKey | None]
    handler: Callable[[], EpisodeHandler]
    open_stepper: OpenStepper
    deadlines: Deadlines
    caps: tuple[Caps, Caps, Caps]
    today: Spent = field(default_factory=Spent)
    whole: Spent = field(default_factory=Spent)
    answered: bool = False


@dataclass(frozen=True, slots=True)
class Want:
    """Worker: one more episode can be played here."""


@dataclass(frozen=True, slots=True)
class Append:
    """Worker: these events are to be recorded.

    Args:
        number: Of the question.
        fence: Number of the lease.
        texts: The events, in order, of one episode.
        attachments: What belongs to them.
    """

    number: int
    fence: int
    texts: Sequence[str]
    attachments: SentAttachments | None


@dataclass(frozen=True, slots=True)
class Read:
    """Worker: what is recorded of an episode is wanted.

    Args:
        number: Of the question.
        episode_id: The episode.
        what: Its events, as texts, or its calls to models.
        after_seq: Only events after this one.
        limit: At most so many events.
    """

    number: int
    episode_id: str
    what: Literal["events", "calls"]
    after_seq: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class AttemptOver:
    """Worker: nothing more comes of an attempt, whether it ended or not.

    Args:
        fence: Number of its lease.
        failure_class: Why it has no end, where it has none.
        detail: The same in words.
    """

    fence: int
    failure_class: FailureClass | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Paid:
    """Worker: asking took this much. Desk: asking took this much elsewhere."""

    spent: Spent


@dataclass(frozen=True, slots=True)
class HaltRun:
    """Worker: the run must not go on."""

    reason: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """Worker: something is to be written down where the run writes its warnings.

    Args:
        level: How grave, as :mod:`logging` has it.
        name: Name of the logger.
        text: What is written, with the trace where there is one.
    """

    level: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class NoEnvironment:
    """Worker: no environment can be made for what it was given, or (``None``) one could again.

    Args:
        reason: What its server said, or what became of the attempt.
    """

    reason: str | None


@dataclass(frozen=True, slots=True)
class Beat:
    """Worker: it lives.

    Args:
        stood_still_s: Seconds since its event loop last turned; large where an environment computes in it.
    """

    stood_still_s: float


@dataclass(frozen=True, slots=True)
class FlightsWaiting:
    """Worker: what its episodes wait for.

    Args:
        flights: By episode, what it waits for, for how many seconds yet, and why; see
            :meth:`~spectator.rollouts.in_flight.InFlight.waits`.
    """

    flights: Mapping[str, tuple[WaitingFor, float | None, str]]


@dataclass(frozen=True, slots=True)
class Granted:
    """Desk: an attempt to play, under a lease."""

    attempt: Attempt
    fence: int


@dataclass(frozen=True, slots=True)
class DeskAnswer:
    """Desk: the answer to a question.

    Args:
        number: Of the question.
        value: What was asked for.
        error: Name of the error and its message, where it failed.
    """

    number: int
    value: Any = None
    error: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class NoMore:
    """Desk: finish what is being played; there will be nothing else."""


def frame(messages: Sequence[object]) -> bytes:
    """``messages`` as they travel."""
    body = pickle.dumps(messages, protocol=pickle.HIGHEST_PROTOCOL)
    return HEAD.pack(len(body)) + body


class Frames:
    """Takes bytes as they come, and gives messages.

    >>> frames, whole = Frames(), frame([Want(), NoMore()])
    >>> frames.take(whole[:5]), frames.take(whole[5:])
    ([], [Want(), NoMore()])
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def take(self, data: bytes) -> list[object]:
        """The messages that ``data`` completes.

        Raises:
            ValueError: The bytes are no frames.
        """
        buffer = self._buffer
        buffer += data
        messages: list[object] = []
        while len(buffer) >= HEAD.size:
            (length,) = HEAD.unpack_from(buffer)
            if length > LONGEST:
                raise ValueError(f"a frame of {length} bytes")
            end = HEAD.size + length
            if len(buffer) < end:
                break
            messages += _messages(bytes(memoryview(buffer)[HEAD.size : end]))
            del buffer[:end]
        return messages


def _messages(body: bytes) -> list[object]:
    try:
        messages = pickle.loads(body)
    except _UNREADABLE as error:
        raise ValueError(f"a frame that cannot be read: {type(error).__name__}: {error}") from error
    if not isinstance(messages, list):
        raise ValueError("a frame that holds no messages")
    return messages
