"""The model of a collector: a function in this process, called in batches on a separate thread."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from spectator.errors import (
    EndpointError,
    EndpointTimeout,
    EndpointUnavailable,
    EnvironmentFault,
    StepTimeout,
    typed_as,
)
from spectator.llm.chat import ChatAnswer, ChatRequest, Message, Usage
from spectator.steppers.local import OwnThread

PromptFn = Callable[[Sequence[Message]], str]
"""Renders a conversation as the model's prompt, for example with a tokenizer's chat template."""


@dataclass(frozen=True, slots=True)
class Generated:
    """What a model wrote, and what else to record about it.

    Args:
        prompt_token_ids: Ids of the prompt's tokens, shape ``(p,)``.
        token_ids: Ids of the text's tokens, shape ``(n,)``.
        logprobs: Their log probabilities, in nats, shape ``(n,)``, all finite.
        finish_reason: ``stop``, or ``length`` if it was cut off.

    Raises:
        ValueError: Lengths differ, or a log probability is not finite.
    """

    text: str
    prompt_token_ids: Sequence[int] | None = None
    token_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    weight_version: str | None = None
    finish_reason: str = "stop"

    def __post_init__(self) -> None:
        if self.logprobs is None:
            return
        if self.token_ids is None or len(self.token_ids) != len(self.logprobs):
            raise ValueError(f"logprobs: {len(self.logprobs)} for {len(self.token_ids or ())} token_ids")
        if not all(map(math.isfinite, self.logprobs)):
            raise ValueError("logprobs: each must be finite")


GenerateFn = Callable[[str, Any], "str | Generated"]
"""Continues a text; called on a separate thread with the prompt and the config."""

GenerateBatchFn = Callable[[Sequence[str], Any], "Sequence[str | Generated]"]
"""Continues several texts; returns one answer for each, in order."""


Question = tuple[str, "asyncio.Future[Generated]"]
"""A prompt, and the future of its answer."""


def one_by_one(generate_fn: GenerateFn) -> GenerateBatchFn:
    """Make a batch function that calls ``generate_fn`` for each prompt."""
    return lambda prompts, config: [generate_fn(prompt, config) for prompt in prompts]


class ModelThread:
    """Calls the model on a separate thread; prompts that come meanwhile wait for the next call.

    If a call fails, each of its prompts is tried once more alone, so that one bad prompt does not fail the
    others. A call that misses its deadline cannot be stopped; its thread is abandoned, and the next call gets
    a new one.

    Args:
        generate: Continues several texts.
        config: Passed to it unchanged.
        answer_s: Seconds that a call may take, more than 0.
        largest: Most prompts of one call, at least 1.

    Raises:
        ValueError: A number is out of range.
    """

    def __init__(self, generate: GenerateBatchFn, config: Any, *, answer_s: float, largest: int = 1) -> None:
        if largest < 1 or not answer_s > 0:
            raise ValueError("largest must be at least 1, answer_s more than 0")
        self._generate = generate
        self._config = config
        self._answer_s = answer_s
        self._largest = largest
        self._thread = self._new_thread()
        self._waiting: deque[Question] = deque()
        self._working: asyncio.Task[None] | None = None

    async def ask(self, prompt: str) -> Generated:
        """Continue ``prompt``.

        Raises:
            EndpointTimeout: The call took too long.
            EndpointUnavailable: It failed twice.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Generated] = loop.create_future()
        self._waiting.append((prompt, answer))
        if self._working is None or self._working.done():
            self._working = loop.create_task(self._work())
        return await answer

    def close(self) -> None:
        """Let the thread end after its current call."""
        if self._working is not None:
            self._working.cancel()
        self._thread.close()

    async def _work(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # let tasks that are about to ask join this batch
            taken = [self._waiting.popleft() for _ in range(min(self._largest, len(self._waiting)))]
            if batch := [one for one in taken if not one[1].done()]:
                await self._answer(batch, last=False)

    async def _answer(self, batch: Sequence[Question], *, last: bool) -> None:
        prompts = [prompt for prompt, _ in batch]
        try:
            texts = await self._thread.call_within(self._answer_s, self._call, prompts)
        except StepTimeout:
            self._thread = self._new_thread()
            _fail(batch, EndpointTimeout(f"generate_fn did not answer within {self._answer_s:g} s"))
        except (EndpointUnavailable, EnvironmentFault) as error:
            if last:
                _fail(
                    batch, error if isinstance(error, EndpointUnavailable) else _failed("generate_fn", error)
                )
                return
            for one in batch:
                await self._answer([one], last=True)
        else:
            for (_, answer), text in zip(batch, texts, strict=True):
                if not answer.done():
                    answer.set_result(text)

    def _call(self, _: None, prompts: Sequence[str]) -> list[Generated]:
        with typed_as(partial(_failed, "generate_fn"), passing=()):
            texts = list(self._generate(prompts, self._config))
            if len(texts) != len(prompts):
                raise ValueError(f"{len(texts)} answers to {len(prompts)} prompts")
            return [_checked(text) for text in texts]

    def _new_thread(self) -> OwnThread[None]:
        return OwnThread(lambda: None, name="model")


def _fail(batch: Sequence[Question], error: EndpointError) -> None:
    for _, answer in batch:
        if not answer.done():
            answer.set_exception(error)


def _failed(function: str, error: Exception) -> EndpointUnavailable:
    return EndpointUnavailable(f"{function} failed: {type(error).__name__}: {error}")


def _checked(text: object) -> Generated:
    if isinstance(text, str):
        return Generated(text)
    if isinstance(text, Generated):
        return text
    raise TypeError(f"it must return str or Generated, not {type(text).__name__}")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One prompt to the model, and what it wrote, if anything."""

    prompt: str
    written: Generated | None


class GeneratingEndpoint:
    """An endpoint backed by a model in this process; keeps every exchange, in order.

    Args:
        prompt_fn: Renders the conversation.
        model: Continues it.
    """

    def __init__(self, prompt_fn: PromptFn, model: ModelThread) -> None:
        self._prompt_fn = prompt_fn
        self._model = model
        self.exchanges: list[Exchange] = []

    async def complete(self, request: ChatRequest, **asked: Any) -> ChatAnswer:
        """See :meth:`spectator.llm.client.ChatClient.complete`."""
        place = len(self.exchanges)
        self.exchanges.append(Exchange("", None))
        prompt = self._rendered(request)
        self.exchanges[place] = Exchange(prompt, None)
        written = await self._model.ask(prompt)
        self.exchanges[place] = Exchange(prompt, written)
        return _answer_of(written, request.model)

    async def aclose(self) -> None:
        """Do nothing; the caller owns the model."""

    def _rendered(self, request: ChatRequest) -> str:
        with typed_as(partial(_failed, "prompt_fn"), passing=()):
            prompt = self._prompt_fn(list(request.messages))
        if not isinstance(prompt, str):
            raise EndpointUnavailable(f"prompt_fn must return str, not {type(prompt).__name__}")
        return prompt


def _answer_of(written: Generated, model: str) -> ChatAnswer:
    shown, tokens, version = written.prompt_token_ids, written.token_ids, written.weight_version
    known = shown is not None and tokens is not None
    return ChatAnswer(
        text=written.text,
        finish_reason=written.finish_reason,
        model=model,
        weight_version=version,
        weight_versions=() if version is None else ((version, len(tokens or ())),),
        usage=Usage(len(shown or ()), len(tokens or ())) if known else None,
        prompt_token_ids=None if shown is None else array("q", shown),
        token_ids=None if tokens is None else array("q", tokens),
        logprobs=None if written.logprobs is None else array("d", written.logprobs),
    )
