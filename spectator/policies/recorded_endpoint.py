"""A recorded decision in place of the endpoint, the budget and the fallback of a model policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar

from spectator.errors import EndpointResting
from spectator.llm.chat import ChatAnswer, ChatRequest, OnDelta
from spectator.llm.exchanges import answer_of, fingerprint
from spectator.llm.tool_calls import CallRejected
from spectator.observations import Observation
from spectator.policies.policy import Decision, ScriptedPolicy
from spectator.policies.spending import Spent

PATIENCE_S: Final = 3600.0
"""Deadline of a decision that is made again; nobody waits for an endpoint."""

UNUSABLE: Final = frozenset({"declined", "unparsable", "illegal_action", "truncated"})
"""Classes of failure of an answer, as opposed to those of its endpoint."""

AS_RECORDED: Final = "as recorded"
"""Words of an error that stands for a recorded one; the recorded reason takes their place."""

_T = TypeVar("_T")


class RecordedEndpoint:
    """A decision of the record: its endpoint, its budget and its fallback at once. It costs nothing.

    Args:
        decided: Data of its ``decision.made``.
        fallback: Who decided where the model did not; asked again there, so that it keeps in step.
    """

    def __init__(self, decided: Mapping[str, Any], fallback: ScriptedPolicy) -> None:
        self.decided = decided
        self._fallback = fallback
        self._due = deque(decided.get("exchanges") or ())
        self._failed = decided.get("failure_class")
        self._differs = False
        self.made: Decision | None = None
        """What the policy decided this time."""
        self.fell_back_to: Decision | None = None
        """What the fallback itself decided this time, where it decided then."""

    @property
    def same_requests(self) -> bool:
        """Whether all questions were those of the record, and no other."""
        return not self._differs and not self._due

    @property
    def same_decisions(self) -> bool:
        """Whether they led to the decision of the record."""
        made, decided = self.made, self.decided
        return made is not None and (dict(made.action), made.source) == (decided["action"], decided["source"])

    def note(self, made: Decision) -> None:
        """Take note of what the policy decided this time."""
        self.made = made

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: float,
        session: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> ChatAnswer:
        """The recorded answer, or a failure in the place of the recorded one."""
        if not self._due:
            if self._failed in UNUSABLE:
                raise CallRejected(AS_RECORDED)  # there was no time left to ask once more
            self._differs |= self._failed != EndpointResting.failure_class
            raise EndpointResting(AS_RECORDED)
        exchange = self._due.popleft()
        self._differs |= exchange["request"] != fingerprint(request.messages, request.tools)
        if exchange["reply"] is not None:
            return answer_of(exchange["reply"])
        self._differs |= exchange["failure"] is None
        raise EndpointResting(AS_RECORDED)

    def refusal(self) -> str | None:
        """Whether a cap was reached then: :data:`AS_RECORDED`, or ``None``."""
        return AS_RECORDED if self._failed == "spent" else None

    async def reserve(self) -> str | None:
        """The same: nothing is to be had now that was not to be had then."""
        return self.refusal()

    def pay(self, spent: Spent) -> None:
        """Pay nothing: it was paid then."""

    def choose(self, observation: Observation) -> Decision:
        """What the fallback did then, and why it had to."""
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
        """Let go of nothing."""


class UnaskedEndpoint:
    """The client of a policy that only remembers."""

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: float,
        session: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> ChatAnswer:
        """Fail: a policy that remembers asks nothing."""
        raise AssertionError("a policy that remembers asks nothing")

    async def aclose(self) -> None:
        """Do nothing."""


def at_once(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """The result of a coroutine that waits for nothing, without an event loop.

    Raises:
        RuntimeError: It waits for something.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} waits for something")
