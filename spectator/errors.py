"""Errors that this library raises, and failure classes that it records.

``decision.made`` and ``episode.ended`` carry a failure class in ``failure_class``.

::

    SpectatorError
    ├── ConfigurationError                a setting is unknown, missing or out of range
    ├── InvalidRequest                    the caller's fields are wrong; nothing was changed
    ├── RunNotFound                       no such run of rollouts, or it cannot be read
    ├── RunHalted                         a run stopped before all of its episodes were over
    ├── BundleError                       a folder or file is not a readable evaluation bundle
    ├── EpisodeError
    │   ├── EpisodeBusy                   every slot is taken; names the running episodes
    │   ├── Recovering                    still recovering the episodes of an earlier process
    │   ├── EpisodeNotFound
    │   │   └── EpisodeUnfinished         left without an end; it can be resumed
    │   ├── EpisodeElsewhere              played in another process and only shown here
    │   ├── NoDecisionPending             a decision came when none was requested
    │   ├── EpisodeOver                   it has ended and can no longer be changed
    │   ├── TruthSealed                   its truth is sealed until it has ended
    │   ├── PolicyError                   the policy that decides failed
    │   │   ├── DecisionTimeout
    │   │   └── EndpointError             a model's endpoint gave no usable answer
    │   │       ├── EndpointUnavailable   not reached, cut off, or failing on its side
    │   │       ├── EndpointTimeout       it did not answer in time
    │   │       ├── EndpointBusy          it asks the client to wait
    │   │       ├── EndpointRefused       it rejects this request; a retry does not help
    │   │       │   ├── EndpointPrivate   its address is private, and only public ones are allowed
    │   │       │   └── EndpointOverflow  the prompt does not fit the model's context
    │   │       ├── EndpointMalformed     its answer is not a completion
    │   │       └── EndpointResting       it failed so often that requests to it are paused
    │   ├── EnvironmentFault              the environment failed
    │   │   ├── EnvironmentUnavailable    its server was not reached, was lost, or has no room
    │   │   ├── EnvironmentMalformed      its answer breaks the contract
    │   │   └── StepTimeout
    │   └── JournalError                  the record could not be written or read
    │       ├── SequenceConflict          another writer already wrote this seq
    │       ├── LeaseLost                 another process owns the episode now
    │       ├── JournalUnavailable        not writable now; a later retry may help
    │       ├── JournalDamaged            its file is not a journal, or is incomplete
    │       └── EpisodeDamaged            one episode's record is incomplete or was changed
    └── ProtocolError                     a peer broke the wire contract

Worlds and policies raise plain Python errors; :func:`typed_as` turns them into these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Final, Literal, get_args

EndReason = Literal[
    "finished", "step_cap", "stopped", "policy_error", "environment_error", "timeout", "interrupted"
]
"""Why an episode ended; exactly one of them, always published."""

FailureClass = Literal[
    "model_infra", "model_resting", "model_rejected", "context_exceeded", "rate_limited", "declined",
    "unparsable", "illegal_action", "truncated", "timeout", "spent", "policy_fault", "env_infra",
    "env_verdict", "journal", "cancelled", "killed", "unknown",
]  # fmt: skip
"""Why a decision was not made or an episode did not finish; see :data:`FAILURES`."""

FAILURES: Final[Mapping[FailureClass, str]] = {
    "model_infra": "The endpoint was unreachable, closed the connection, failed, or sent no completion.",
    "model_resting": "No request was sent: the endpoint failed so often that requests to it are paused.",
    "model_rejected": "The endpoint rejected the request: key, payment, model or a field is wrong.",
    "context_exceeded": "The prompt and the longest answer do not fit the model's context.",
    "rate_limited": "The endpoint asked the client to wait longer than the decision's deadline allowed.",
    "declined": "The model refused to answer, or a filter withheld its answer.",
    "unparsable": "The model answered, but its answer contains no action in the requested form.",
    "illegal_action": "The action is illegal by its schema or by the world's rules.",
    "truncated": "A limit was reached: the length of the answer, or the step cap of the episode.",
    "timeout": "The decision or the episode exceeded its time limit.",
    "spent": "A cap on tokens, money or time was reached, so no model was asked.",
    "policy_fault": "The policy raised an error, or its decision cannot be recorded.",
    "env_infra": "The environment raised an error, hung, was unreachable, or broke its contract.",
    "env_verdict": "The environment itself ended the episode as a failure; its reward counts.",
    "journal": "The record could not be written.",
    "cancelled": "A user or an operator stopped it.",
    "killed": "The process that played it ended.",
    "unknown": "A fallback decided without stating a reason.",
}
"""What each failure class means, in one sentence."""

EXTERNAL_FAILURES: Final = frozenset[FailureClass]({"cancelled", "killed"})
"""Failures that say nothing about the player."""

ENDPOINT_FAILURES: Final = frozenset[FailureClass](
    {"model_infra", "model_resting", "model_rejected", "context_exceeded", "rate_limited", "timeout"}
)
"""Failures of an endpoint, as opposed to those of what a model answers."""

INVALID_ANSWERS: Final = frozenset[FailureClass]({"declined", "unparsable", "illegal_action", "truncated"})
"""Failures of what a model answers: it was not an action that could be carried out."""

OnInvalid = Literal["penalize", "mask", "end", "fallback"]
"""What happens once the model was asked again as often as it may be.

``penalize``: the episode ends and counts for the stated reward, and the answer may be trained on. ``mask``:
it ends and counts for what it had earned, where its world rewards steps; the answer is not trained on.
``end``: it ends without a verdict. ``fallback``: the world's scripted captain decides, which is never the
model's own.
"""

ON_INVALID: Final[tuple[OnInvalid, ...]] = get_args(OnInvalid)
"""Every rule, the default first."""

RETRIED_FAILURES: Final = (EXTERNAL_FAILURES | ENDPOINT_FAILURES | frozenset[FailureClass]({"env_infra"})) - {
    "model_rejected",
    "context_exceeded",
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
    """Return why an episode did not finish; ``None`` if it finished.

    Args:
        data: Data of an ``episode.ended`` event.

    >>> failure_of_end({"reason": "step_cap"})
    'truncated'
    """
    known: FailureClass | None = data.get("failure_class")
    return known or _CLASS_OF_END.get(data["reason"], "unknown")


def reward_of_end(data: Mapping[str, Any]) -> float | None:
    """Return the reward of an ended episode; ``None`` if it has no verdict, which is not 0.

    An episode that was cut off at its step cap counts for the rewards of its steps if steps are rewarded,
    else for the value that its trainer gave it. One that ended at an answer that was not an action counts for
    its penalty, if it has one. One in which only a fallback decided has no verdict.

    Args:
        data: Data of an ``episode.ended`` event.

    >>> reward_of_end({"reason": "finished", "score": 0.75})
    0.75
    >>> reward_of_end({"reason": "step_cap", "score": None, "total_reward": 2.5})
    2.5
    >>> reward_of_end({"reason": "step_cap", "score": None, "value": 0.5})
    0.5
    >>> reward_of_end({"reason": "policy_error", "score": None, "total_reward": 2.5, "penalty": 0.0})
    0.0
    >>> only_a_fallback = {"asked": 4, "own": 0, "refused": 8}
    >>> reward_of_end({"reason": "finished", "score": 0.75, "own_decisions": only_a_fallback}) is None
    True
    >>> reward_of_end({"reason": "environment_error", "score": None, "total_reward": 2.5}) is None
    True
    """
    if data.get("penalty") is not None:
        return float(data["penalty"])
    own = data.get("own_decisions")
    if own and own["asked"] and not own["own"]:
        return None
    reward: float | None = data.get("score")
    if data["reason"] == "step_cap" or data.get("masked"):
        reward = data.get("total_reward", data.get("value"))
    return reward


class SpectatorError(Exception):
    """Base class of the errors that this library raises deliberately."""


class ConfigurationError(SpectatorError):
    """A setting is unknown, missing or out of range."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field of a request.

    Args:
        field: Dotted path of the field as the caller spelt it, such as ``options.turns``.
        rule: The rule that the field broke: says what would be valid.
    """

    field: str
    rule: str


class InvalidRequest(SpectatorError):
    """The caller's fields are invalid; names all of them, and nothing was changed."""

    def __init__(self, fields: Iterable[FieldError]) -> None:
        self.fields: tuple[FieldError, ...] = tuple(fields)
        super().__init__("; ".join(f"{wrong.field}: {wrong.rule}" for wrong in self.fields))


class RunNotFound(SpectatorError):
    """No such run of rollouts, or it cannot be read; the message is for people."""


class RunHalted(SpectatorError):
    """A run stopped before all of its episodes were over; the message says why, and how to resume it."""


class BundleError(SpectatorError):
    """A folder or file is not an evaluation bundle, or is incomplete."""


class EpisodeError(SpectatorError):
    """Something went wrong with one episode; others are unaffected."""


class EpisodeBusy(EpisodeError):
    """Every slot is taken.

    Args:
        running: Ids of the running episodes; empty while the server shuts down.
        beginning: Slots reserved for episodes that are about to begin.
    """

    def __init__(self, running: Sequence[str], slots: int, beginning: int = 0) -> None:
        self.running = tuple(running)
        about = [f"{beginning} about to begin"] if beginning else []
        super().__init__(
            f"all {slots} slot(s) are taken by {', '.join([*self.running, *about])}; "
            "stop one, wait for its end, or raise SPECTATOR_MAX_EPISODES"
            if self.running or beginning
            else "the server is shutting down; no episode can be started"
        )


class Recovering(EpisodeError):
    """The server is still recovering episodes that an earlier process left unfinished."""

    def __init__(self, looked_at: int, found: int) -> None:
        done = f"{looked_at} of {found} done"
        super().__init__(f"the server is recovering unfinished episodes: {done}; retry later")


class EpisodeNotFound(EpisodeError):
    """There is no such episode."""

    def __init__(self, episode_id: str | None) -> None:
        self.episode_id = episode_id
        super().__init__("no episode is running" if episode_id is None else f"no episode {episode_id!r}")


class EpisodeUnfinished(EpisodeNotFound):
    """The episode was left without an end; it can be resumed from the end of its record."""

    def __init__(self, episode_id: str) -> None:
        super().__init__(episode_id)
        self.args = (f"episode {episode_id!r} was suspended: it has no end yet and can be resumed",)


class EpisodeElsewhere(EpisodeError):
    """The episode is played in another process; this one cannot control it."""

    def __init__(self, episode_id: str | None) -> None:
        super().__init__(f"episode {episode_id!r} is played elsewhere and only shown here; control it there")


class EpisodeOver(EpisodeError):
    """The episode has ended and can no longer be changed."""

    def __init__(self, episode_id: str) -> None:
        self.episode_id = episode_id
        super().__init__(f"episode {episode_id!r} has ended")


class TruthSealed(EpisodeError):
    """The truth of an episode is sealed until it has ended."""

    def __init__(self, episode_id: str) -> None:
        super().__init__(f"the truth of {episode_id!r} is sealed until it has ended")


class PolicyError(EpisodeError):
    """The policy that had to decide failed.

    Args:
        message: What went wrong, in a sentence.
        failure_class: The failure class; that of the error's class if omitted.
    """

    failure_class: FailureClass = "policy_fault"
    """The failure class, for the record."""

    def __init__(self, message: str, *, failure_class: FailureClass | None = None) -> None:
        super().__init__(message)
        if failure_class is not None:
            self.failure_class = failure_class


class DecisionTimeout(PolicyError):
    """The policy did not decide before its deadline."""

    failure_class: FailureClass = "timeout"


class NoDecisionPending(EpisodeError):
    """A decision came when none was requested; the message says whose turn it is."""


class EndpointError(PolicyError):
    """A model's endpoint gave no usable answer.

    The message is public: it names no host, account or key. ``detail`` holds the endpoint's own message,
    for the log.

    Args:
        message: What went wrong, in a sentence.
        status: The HTTP status, if there was one.
        retry_after_s: Seconds that the endpoint asked the client to wait.
        detail: The endpoint's own message, with the key removed.
    """

    kind: ClassVar[str] = "endpoint"
    """Short, stable name of the problem; recorded with the exchange."""

    failure_class: FailureClass = "model_infra"

    retryable: ClassVar[bool] = False
    """Whether sending the same request again can help."""

    def __init__(
        self, message: str, *, status: int | None = None, retry_after_s: float | None = None, detail: str = ""
    ) -> None:
        self.status = status
        self.retry_after_s = retry_after_s
        self.detail = detail
        super().__init__(message)


class EndpointUnavailable(EndpointError):
    """The endpoint was unreachable, closed the connection, or failed."""

    kind = "unavailable"
    retryable = True


class EndpointTimeout(EndpointError):
    """The endpoint did not answer in time."""

    kind = "timeout"
    failure_class: FailureClass = "timeout"
    retryable = True


class EndpointBusy(EndpointError):
    """The endpoint asks the client to wait: a rate limit or overload."""

    kind = "busy"
    failure_class: FailureClass = "rate_limited"
    retryable = True


class EndpointRefused(EndpointError):
    """The endpoint rejected the request: a key, a payment, a name or a field is wrong."""

    kind = "refused"
    failure_class: FailureClass = "model_rejected"


class EndpointPrivate(EndpointRefused):
    """The endpoint's address is private, and the client may only connect to public ones."""

    def __init__(self, detail: str = "") -> None:
        super().__init__("the endpoint's address is private; use a public https address", detail=detail)


class EndpointOverflow(EndpointRefused):
    """The prompt and the longest answer do not fit the model's context."""

    kind = "overflow"
    failure_class: FailureClass = "context_exceeded"


class EndpointMalformed(EndpointError):
    """The endpoint's answer is not a completion."""

    kind = "malformed"
    retryable = True


class EndpointResting(EndpointError):
    """The endpoint failed so often that requests to it are paused for ``retry_after_s``."""

    kind = "resting"
    failure_class: FailureClass = "model_resting"


class EnvironmentFault(EpisodeError):
    """The environment failed: an exception, or an answer that breaks its contract."""

    failure_class: ClassVar[FailureClass] = "env_infra"


class EnvironmentUnavailable(EnvironmentFault):
    """An environment's server was unreachable, disconnected, failed, or has no free environment."""


class EnvironmentMalformed(EnvironmentFault):
    """The environment's answer breaks its contract."""


class StepTimeout(EnvironmentFault):
    """The environment did not answer before its deadline."""


class JournalError(EpisodeError):
    """The record could not be written or read."""

    failure_class: ClassVar[FailureClass] = "journal"


class SequenceConflict(JournalError):
    """Another writer already recorded this ``(episode_id, seq)``; this writer must stop."""


class LeaseLost(JournalError):
    """Another process owns the episode; this one may no longer write to it."""


class JournalUnavailable(JournalError):
    """The journal cannot be written now (full disk, lock, write protection); a later retry may help."""


class JournalDamaged(JournalError):
    """The journal's file is not a journal, or is incomplete; nothing was changed."""


class EpisodeDamaged(JournalError):
    """One episode's record is incomplete or was changed; all others are intact."""


class ProtocolError(SpectatorError):
    """A peer broke the wire contract.

    Args:
        close_code: The WebSocket close code that answers it (docs/live-protocol.md).
    """

    def __init__(self, message: str, *, close_code: int) -> None:
        self.close_code = close_code
        super().__init__(message)


def field_errors(problems: Iterable[Any], *, prefix: Sequence[str | int] = ()) -> list[FieldError]:
    """Convert pydantic's ``ValidationError.errors()`` to field errors.

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
    """A context for foreign code that turns every exception into one typed error.

    Args:
        error_of: Class of the typed error, or a function that makes it; the original becomes its cause.
        passing: Exceptions to let through unchanged.

    >>> with typed_as(lambda error: EnvironmentFault(f"broke: {error}")):
    ...     {}["missing"]
    Traceback (most recent call last):
        ...
    spectator.errors.EnvironmentFault: broke: 'missing'
    """

    error_of: type[SpectatorError] | Callable[[Exception], SpectatorError]
    _: KW_ONLY
    passing: tuple[type[Exception], ...] = (SpectatorError,)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, self.passing):
            if isinstance(self.error_of, type):
                raise self.error_of(f"{type(error).__name__}: {error}") from error
            raise self.error_of(error) from error
