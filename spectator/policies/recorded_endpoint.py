"""A recorded decision that replaces the endpoint, budget and fallback of a model policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar

from spectator.errors import EndpointRefused, EndpointResting
from spectator.llm.chat import ChatAnswer, ChatRequest
from spectator.llm.constraint import FAILED_STATUS, REJECTED_STATUSES
from spectator.llm.exchanges import answer_of, fingerprint
from spectator.llm.tool_calls import CallRejected
from spectator.observations import Observation
from spectator.policies.policy import Decision, ScriptedPolicy
from spectator.policies.spending import Spent

PATIENCE_S: Final = 3600.0
"""Deadline of a repeated decision, seconds; it never waits for an endpoint."""

UNUSABLE: Final = frozenset({"declined", "unparsable", "illegal_action", "truncated"})
"""Failure classes of an answer, as opposed to those of its endpoint."""

AS_RECORDED: Final = "as recorded"
"""Message of an error that represents a recorded one; the recorded reason replaces it."""

_T = TypeVar("_T")


class RecordedEndpoint:
    """Replays one recorded decision, as endpoint, budget and fallback; costs nothing.

    Args:
        decided: Data of its ``decision.made``.
        fallback: The policy's fallback; if it decided then, it decides again, to keep its state in step.
    """

    def __init__(self, decided: Mapping[str, Any], fallback: ScriptedPolicy) -> None:
        self.decided = decided
        self._fallback = fallback
        self._due = deque(decided.get("exchanges") or ())
        self._failed = decided.get("failure_class")
        self._differs = False
        self.made: Decision | None = None
        """The policy's decision this time."""
        self.fell_back_to: Decision | None = None
        """The fallback's decision this time, if the fallback had decided."""

    @property
    def same_requests(self) -> bool:
        """Whether all requests were those of the record, and none is missing."""
        return not self._differs and not self._due

    @property
    def same_decisions(self) -> bool:
        """Whether the decision equals the recorded one."""
        made, decided = self.made, self.decided
        return made is not None and (dict(made.action), made.source) == (decided["action"], decided["source"])

    def note(self, made: Decision) -> None:
        """Store the policy's decision of this time."""
        self.made = made

    async def complete(self, request: ChatRequest, **asked: Any) -> ChatAnswer:
        """Return the recorded answer, or fail if the recorded request failed."""
        if not self._due:
            if self._failed in UNUSABLE:
                raise CallRejected(AS_RECORDED)  # there was no time left for a second request
            self._differs |= self._failed != EndpointResting.failure_class
            raise EndpointResting(AS_RECORDED)
        exchange = self._due.popleft()
        self._differs |= exchange["request"] != fingerprint(request.messages, request.tools)
        if exchange["reply"] is not None:
            return answer_of(exchange["reply"])
        self._differs |= exchange["failure"] is None
        status = (exchange["failure"] or {}).get("status")
        if status in REJECTED_STATUSES or (status == FAILED_STATUS and self._due):
            raise EndpointRefused(AS_RECORDED, status=status)  # a constrained request is sent again
        raise EndpointResting(AS_RECORDED)

    async def hold(self, most: Spent, patience_s: float) -> str | None:
        """Return :data:`AS_RECORDED` if a cap was reached then, otherwise ``None``."""
        return AS_RECORDED if self._failed == "spent" else None

    def overdrawn(self, most: Spent) -> bool:
        """Return false: nothing is spent."""
        return False

    def release(self, most: Spent) -> None:
        """Do nothing: nothing is set aside."""

    def pay(self, spent: Spent) -> None:
        """Do nothing: the spending was counted then."""

    def choose(self, observation: Observation) -> Decision:
        """Return the recorded action and reason of the fallback."""
        decided = self.decided
        if decided["source"] == "fallback":
            self.fell_back_to = self._fallback.choose(observation)
        return Decision(
            decided["action"],
            "fallback",
            decided["reasoning"],
            fallback_reason=decided["fallback_reason"],
            failure_class=self._failed,
        )

    async def aclose(self) -> None:
        """Do nothing."""


class UnaskedEndpoint:
    """The client of a policy that only replays its record; every request fails."""

    async def complete(self, request: ChatRequest, **asked: Any) -> ChatAnswer:
        """Fail."""
        raise AssertionError("a policy that replays its record must not send requests")

    async def aclose(self) -> None:
        """Do nothing."""


def at_once(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never waits, without an event loop; return its result.

    Raises:
        RuntimeError: It waits for something.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} waits; only coroutines that never wait can run here")
