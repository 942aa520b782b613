"""Define the errors that this library raises, and the failure classes it records.

A failure class is what ``decision.made`` and ``episode.ended`` carry in ``failure_class``.

::

    SpectatorError
    ├── ConfigurationError                a setting is unknown, missing or out of range
    ├── InvalidRequest                    the caller's fields are wrong; nothing was changed
    ├── RunNotFound                       there is no such run of rollouts, or it cannot be read
    ├── BundleError                       a folder or file is not a readable evaluation bundle
    ├── EpisodeError
    │   ├── EpisodeBusy                   every slot is taken; names the running episodes
    │   ├── Recovering                    episodes of an earlier process are still being recovered
    │   ├── EpisodeNotFound
    │   │   └── EpisodeUnfinished         left without an end; it can be played on
    │   ├── EpisodeElsewhere              it is played elsewhere and only shown here
    │   ├── NoDecisionPending                      someone decided when no decision was asked for
    │   ├── EpisodeOver                   it has ended and can no longer be changed
    │   ├── TruthSealed                   its truth is sealed until it has ended
    │   ├── PolicyError                   the policy that decides failed
    │   │   ├── DecisionTimeout
    │   │   └── EndpointError             a model's endpoint gave no usable answer; says if a retry helps
    │   │       ├── EndpointUnavailable   not reached, cut off, or failing on its side
    │   │       ├── EndpointTimeout       it did not answer in time
    │   │       ├── EndpointBusy          it asks the client to wait
    │   │       ├── EndpointRefused       it rejects this request; a retry does not help
    │   │       │   └── EndpointPrivate   its address is private, and only public ones are allowed
    │   │       ├── EndpointMalformed     its answer is not a completion
    │   │       └── EndpointResting       it failed so often that it is not asked for a while
    │   ├── EnvironmentFault              the world failed
    │   │   ├── EnvironmentUnavailable    its server was not reached, was lost, or has no room
    │   │   ├── EnvironmentMalformed      its answer breaks the contract
    │   │   └── StepTimeout
    │   └── JournalError                  the record could not be written or read
    │       ├── SequenceConflict          another writer already wrote this seq
    │       ├── LeaseLost                 another process owns the episode now
    │       ├── JournalUnavailable        it cannot be written now, but perhaps later
    │       ├── JournalDamaged            its file is not a journal, or is incomplete
    │       └── EpisodeDamaged            the record of one episode differs from what was recorded
    └── ProtocolError                     a peer broke the wire contract

Worlds and policies raise plain Python errors; :func:`typed_as` names the boundary that they crossed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from types import TracebackType
from typing import Any, ClassVar, Final, Literal

EndReason = Literal[
    "finished", "step_cap", "stopped", "policy_error", "environment_error", "timeout", "interrupted"
]
"""Why an episode ended; exactly one of them, always published."""

FailureClass = Literal[
    "model_infra",
    "model_resting",
    "model_rejected",
    "rate_limited",
    "declined",
    "unparsable",
    "illegal_action",
    "truncated",
    "timeout",
    "spent",
    "policy_fault",
    "env_infra",
    "env_verdict",
    "journal",
    "cancelled",
    "killed",
    "unknown",
]
"""What kind of failure kept somebody from deciding, or an episode from finishing; see :data:`FAILURES`."""

FAILURES: Final[Mapping[FailureClass, str]] = {
    "model_infra": "The endpoint was not reached, broke off, failed on its side, or sent no completion.",
    "model_resting": "The endpoint was not asked: it had failed so often that it is left alone for a while.",
    "model_rejected": "The endpoint will not serve the request: key, payment, model or a field is wrong.",
    "rate_limited": "The endpoint asked to wait, and no time was left to.",
    "declined": "The model would not answer, or a filter kept its answer back.",
    "unparsable": "The model answered, but named no action in the form asked for.",
    "illegal_action": "What was decided is not legal, by the schema or by the world's own rules.",
    "truncated": "A length was reached: of the answer, or the step cap of the episode.",
    "timeout": "Nobody decided in time, or the episode took longer than it may.",
    "spent": "A cap on tokens, money or time was reached, so that nobody was asked.",
    "policy_fault": "The policy raised an error, or made something that cannot be recorded as a decision.",
    "env_infra": "The environment raised an error, hung, could not be reached, or broke its contract.",
    "env_verdict": "The environment itself ended the episode as a failure; its reward counts.",
    "journal": "The record could not be written.",
    "cancelled": "Somebody asked for the end.",
    "killed": "The process that played it went away.",
    "unknown": "A fallback decided and did not say why.",
}
"""Every class of failure, in a sentence."""

EXTERNAL_FAILURES: Final = frozenset[FailureClass]({"cancelled", "killed"})
"""Failures that say nothing about the player."""

ENDPOINT_FAILURES: Final = frozenset[FailureClass](
    {"model_infra", "model_resting", "model_rejected", "rate_limited", "timeout"}
)
"""Failures of an endpoint, as opposed to those of what a model answers."""

RETRIED_FAILURES: Final = (EXTERNAL_FAILURES | ENDPOINT_FAILURES | frozenset[FailureClass]({"env_infra"})) - {
    "model_rejected"
}
"""Failures that say nothing about the model, after which an episode is played again from its beginning."""

RECORDING_FAILURES: Final = frozenset[FailureClass]({"journal"})
"""Failures in which nothing else can be played either."""

_CLASS_OF_END: Final[Mapping[EndReason, FailureClass | None]] = {
    "finished": None,
    "step_cap": "truncated",
    "stopped": "cancelled",
    "policy_error": "policy_fault",
    "environment_error": "env_infra",
    "timeout": "timeout",
    "interrupted": "killed",
}


def failure_of_end(data: Mapping[str, Any]) -> FailureClass | None:
    """The class of failure that kept an episode from finishing; ``None`` where it finished.

    Args:
        data: Data of an ``episode.ended``.

    >>> failure_of_end({"reason": "step_cap"})
    'truncated'
    """
    known: FailureClass | None = data.get("failure_class")
    return known or _CLASS_OF_END.get(data["reason"], "unknown")


def reward_of_end(data: Mapping[str, Any]) -> float | None:
    """The reward that an ended episode counts for; ``None`` where there is no verdict, which is not 0.

    One that was cut short in good order counts for what it earned until then, where its steps earn anything,
    else for what its trainer took it to be worth.

    Args:
        data: Data of an ``episode.ended``.

    >>> reward_of_end({"reason": "finished", "score": 0.75})
    0.75
    >>> reward_of_end({"reason": "step_cap", "score": None, "total_reward": 2.5})
    2.5
    >>> reward_of_end({"reason": "step_cap", "score": None, "value": 0.5})
    0.5
    >>> reward_of_end({"reason": "environment_error", "score": None, "total_reward": 2.5}) is None
    True
    """
    reward: float | None = data.get("score")
    if data["reason"] == "step_cap":
        reward = data.get("total_reward", data.get("value"))
    return reward


class SpectatorError(Exception):
    """Base of every error that this library raises on purpose."""


class ConfigurationError(SpectatorError):
    """A setting is unknown, missing or out of range."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field of a request.

    Args:
        field: Dotted path of the field as the caller spelt it, such as ``options.turns``.
        rule: The rule it broke, as a sentence that says what would be right.
    """

    field: str
    rule: str


class InvalidRequest(SpectatorError):
    """The caller's fields are wrong; every wrong one is named and nothing was changed."""

    def __init__(self, fields: Iterable[FieldError]) -> None:
        self.fields: tuple[FieldError, ...] = tuple(fields)
        super().__init__("; ".join(f"{wrong.field}: {wrong.rule}" for wrong in self.fields))


class RunNotFound(SpectatorError):
    """There is no such run of rollouts, or none that can be read; the message is a sentence for people."""


class BundleError(SpectatorError):
    """A folder or file is no bundle of an evaluation, or not all of one."""


class EpisodeError(SpectatorError):
    """Something went wrong with one episode; others are untouched."""


class EpisodeBusy(EpisodeError):
    """Every slot is taken.

    Args:
        running: Ids of the episodes that hold the slots; empty when the server is going away.
        slots: How many may run at once.
        beginning: How many slots are taken by episodes that are about to begin.
    """

    def __init__(self, running: Sequence[str], slots: int, beginning: int = 0) -> None:
        self.running = tuple(running)
        self.slots = slots
        about = [f"{beginning} about to begin"] if beginning else []
        super().__init__(
            f"all {slots} slot(s) are taken by {', '.join([*self.running, *about])}; "
            "stop one, wait for its end, or raise SPECTATOR_MAX_EPISODES"
            if self.running or beginning
            else "the server is going away; no episode can be started"
        )


class Recovering(EpisodeError):
    """Episodes that an earlier process left without an end are still looked at.

    Args:
        looked_at: How many were.
        found: How many there are.
    """

    def __init__(self, looked_at: int, found: int) -> None:
        self.looked_at = looked_at
        self.found = found
        super().__init__(
            f"the server is recovering what ran before it: {looked_at} of {found} episodes looked at"
        )


class EpisodeNotFound(EpisodeError):
    """No such episode."""

    def __init__(self, episode_id: str | None) -> None:
        self.episode_id = episode_id
        super().__init__("no episode is running" if episode_id is None else f"no episode {episode_id!r}")


class EpisodeUnfinished(EpisodeNotFound):
    """The episode was left without an end; it can be played on from where its record stops."""

    def __init__(self, episode_id: str) -> None:
        super().__init__(episode_id)
        self.args = (f"episode {episode_id!r} was suspended: it has no end yet and can be played on",)


class EpisodeElsewhere(EpisodeError):
    """The episode is played elsewhere; nobody here can stop or slow it."""

    def __init__(self, episode_id: str | None) -> None:
        self.episode_id = episode_id
        super().__init__(f"episode {episode_id!r} is played elsewhere and only shown here")


class EpisodeOver(EpisodeError):
    """The episode has ended; nothing can be done to it any more."""

    def __init__(self, episode_id: str) -> None:
        self.episode_id = episode_id
        super().__init__(f"episode {episode_id!r} has ended")


class TruthSealed(EpisodeError):
    """The truth of an episode is sealed until it has ended."""

    def __init__(self, episode_id: str) -> None:
        self.episode_id = episode_id
        super().__init__(f"the truth of {episode_id!r} is sealed until it has ended")


class PolicyError(EpisodeError):
    """The policy that had to decide failed.

    Args:
        message: What went wrong, in a sentence.
        failure_class: The kind of failure; that of the class of the error when left out.
    """

    failure_class: FailureClass = "policy_fault"
    """The kind of failure, for the record."""

    def __init__(self, message: str, *, failure_class: FailureClass | None = None) -> None:
        super().__init__(message)
        if failure_class is not None:
            self.failure_class = failure_class


class DecisionTimeout(PolicyError):
    """The policy did not decide before its deadline."""

    failure_class: FailureClass = "timeout"


class NoDecisionPending(EpisodeError):
    """Somebody decided where nothing was asked of them; the message says whose turn it is."""


class EndpointError(PolicyError):
    """A model's endpoint gave no usable answer.

    The message is for everyone: it names no host, no account and no key. What the endpoint itself said
    is in ``detail``, for the log.

    Args:
        message: What went wrong, in a sentence.
        status: The HTTP status, where there was one.
        retry_after_s: How long the endpoint asked to wait.
        detail: The endpoint's own words, cleaned of the key.
    """

    kind: ClassVar[str] = "endpoint"
    """Short stable name of what went wrong at the endpoint; recorded with the exchange."""

    failure_class: FailureClass = "model_infra"

    retryable: ClassVar[bool] = False
    """Whether sending the same request again can help."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        detail: str = "",
    ) -> None:
        self.status = status
        self.retry_after_s = retry_after_s
        self.detail = detail
        super().__init__(message)


class EndpointUnavailable(EndpointError):
    """The endpoint was not reached, broke off, or failed on its side."""

    kind = "unavailable"
    retryable = True


class EndpointTimeout(EndpointError):
    """The endpoint did not answer in time."""

    kind = "timeout"
    failure_class: FailureClass = "timeout"
    retryable = True


class EndpointBusy(EndpointError):
    """The endpoint asks to wait: a rate limit, or overload."""

    kind = "busy"
    failure_class: FailureClass = "rate_limited"
    retryable = True


class EndpointRefused(EndpointError):
    """The endpoint will not serve this request: a key, a payment, a name or a field is wrong."""

    kind = "refused"
    failure_class: FailureClass = "model_rejected"


class EndpointPrivate(EndpointRefused):
    """The endpoint's address is private, and the client may only connect to public ones."""

    def __init__(self, detail: str = "") -> None:
        super().__init__("the endpoint's address is private; use a public https address", detail=detail)


class EndpointMalformed(EndpointError):
    """The endpoint answered something that is not a completion."""

    kind = "malformed"
    retryable = True


class EndpointResting(EndpointError):
    """The endpoint failed so often that it is left alone until ``retry_after_s`` is over."""

    kind = "resting"
    failure_class: FailureClass = "model_resting"


class EnvironmentFault(EpisodeError):
    """The environment failed: an exception, or an answer that breaks its contract."""

    failure_class: ClassVar[FailureClass] = "env_infra"


class EnvironmentUnavailable(EnvironmentFault):
    """An environment's server was not reached, was lost, failed on its side, or has no environment left."""


class EnvironmentMalformed(EnvironmentFault):
    """The environment answered something that is not in its contract."""


class StepTimeout(EnvironmentFault):
    """The environment did not answer before its deadline."""


class JournalError(EpisodeError):
    """The record could not be written or read."""

    failure_class: ClassVar[FailureClass] = "journal"


class SequenceConflict(JournalError):
    """Another writer already recorded this ``(episode_id, seq)``: this one is fenced off."""


class LeaseLost(JournalError):
    """The episode is somebody else's by now: whoever held it may not record anything of it any more."""


class JournalUnavailable(JournalError):
    """The journal cannot be written now: a full disk, a lock, a protection; trying again later may help."""


class JournalDamaged(JournalError):
    """The journal's file is not a journal, or not all of one; nothing was changed."""


class EpisodeDamaged(JournalError):
    """The record of one episode is short, or not as it was recorded; all others are as they were."""


class ProtocolError(SpectatorError):
    """A peer broke the wire contract.

    Args:
        close_code: The WebSocket close code that answers it (docs/live-protocol.md).
    """

    def __init__(self, message: str, *, close_code: int) -> None:
        self.close_code = close_code
        super().__init__(message)


def field_errors(problems: Iterable[Any], *, prefix: Sequence[str | int] = ()) -> list[FieldError]:
    """Turn pydantic's ``ValidationError.errors()`` into field errors.

    Args:
        problems: The dictionaries of ``ValidationError.errors()``.
        prefix: Path of the validated object within the request.
    """
    return [
        FieldError(
            field=".".join(str(part) for part in (*prefix, *problem["loc"])) or "body",
            rule=str(problem["msg"]).removeprefix("Value error, "),
        )
        for problem in problems
    ]


@dataclass(slots=True)
class typed_as(AbstractContextManager[None]):
    """Around code that is not ours: whatever it raises leaves as the one typed error of that boundary.

    Args:
        error_of: Makes that error; the original is its cause.
        passing: What leaves as it is.

    >>> with typed_as(lambda error: EnvironmentFault(f"broke: {error}")):
    ...     {}["missing"]
    Traceback (most recent call last):
        ...
    spectator.errors.EnvironmentFault: broke: 'missing'
    """

    error_of: Callable[[Exception], SpectatorError]
    _: KW_ONLY
    passing: tuple[type[Exception], ...] = (SpectatorError,)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, self.passing):
            raise self.error_of(error) from error
