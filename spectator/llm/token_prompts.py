"""The prompts of one conversation as token ids, in which what was sampled stays as it was sampled.

Text that a model wrote is often other tokens when it is tokenised again. Here each prompt begins with the
tokens of the last prompt and its answer, and only what follows them is tokenised, by the endpoint.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from spectator.clock import Clock
from spectator.errors import EndpointRefused
from spectator.llm.chat import ChatAnswer, ChatRequest, Message
from spectator.llm.client import ChatClient

CLOSING_TOKENS: Final = 8
"""Most tokens that a chat template adds after the end mark of an answer."""


class TokenPrompts:
    """Sends the requests of one conversation with token ids.

    Args:
        client: The endpoint's client.
    """

    def __init__(self, client: ChatClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._messages: Sequence[Message] = ()
        self._answer: ChatAnswer | None = None
        self._ids: list[int] = []

    async def complete(self, request: ChatRequest, *, deadline: float, **more: Any) -> ChatAnswer:
        """Send a request; see :meth:`.ChatClient.complete`.

        Raises:
            EndpointRefused: The endpoint cannot tokenise a conversation, or gives no token ids.
            EndpointError: There is no answer.
        """
        until = self._clock.monotonic() + deadline
        ids = await self._prompt(request, until)
        sent = replace(request, prompt_ids=ids, token_ids=True)
        answer = await self._client.complete(sent, deadline=until - self._clock.monotonic(), **more)
        if answer.token_ids is None:
            raise _unfit("the endpoint gives no token ids for its answers")
        if answer.prompt_token_ids is not None and list(answer.prompt_token_ids) != ids:
            raise _unfit("the endpoint used another prompt than the token ids that were sent")
        answer.prompt_token_ids = array("q", ids)
        self._messages, self._answer = list(request.messages), answer
        self._ids = [*ids, *answer.token_ids]
        return answer

    async def _prompt(self, request: ChatRequest, until: float) -> list[int]:
        """Return the tokens so far and what follows them, or new ones if the conversation is another."""
        whole = await self._tokenized(request.model, request.messages, until)
        answer, known, messages = self._answer, len(self._messages), request.messages
        if answer is None or answer.finish_reason != "stop" or len(messages) <= known + 1:
            return whole
        said = messages[known]
        same = said["role"] == "assistant" and said["content"] == answer.text
        if not same or list(messages[:known]) != self._messages:
            return whole
        upto = await self._tokenized(request.model, messages[: known + 1], until, opens_answer=False)
        if whole[: len(upto)] != upto or self._ids[-1] not in upto[-CLOSING_TOKENS - 1 :]:
            return whole
        mark = len(upto) - 1 - upto[::-1].index(self._ids[-1])
        return [*self._ids, *upto[mark + 1 :], *whole[len(upto) :]]

    async def _tokenized(
        self, model: str, messages: Sequence[Message], until: float, *, opens_answer: bool = True
    ) -> list[int]:
        deadline = until - self._clock.monotonic()
        return await self._client.tokenize(model, messages, deadline=deadline, opens_answer=opens_answer)


def _unfit(why: str) -> EndpointRefused:
    """Make the error of an endpoint that every request would get."""
    return EndpointRefused(f"{why}, so token_in cannot be used; use vLLM, or turn token_in off", status=404)
