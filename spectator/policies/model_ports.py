"""What a model policy asks: an endpoint for an answer, and a fallback where there is none."""

from __future__ import annotations

from typing import Protocol

from spectator.llm.chat import ChatAnswer, ChatRequest, OnDelta
from spectator.observations import Observation
from spectator.policies.base import Decision


class FallbackPolicy(Protocol):
    """Who decides where the model does not, as far as the policy needs one."""

    def choose(self, observation: Observation) -> Decision:
        """See :meth:`ScriptedPolicy.choose`."""
        ...


class ChatEndpoint(Protocol):
    """A client, as far as the policy needs one."""

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: float,
        session: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> ChatAnswer:
        """See :meth:`spectator.llm.client.ChatClient.complete`."""
        ...

    async def aclose(self) -> None:
        """Let go of its connections."""
        ...
