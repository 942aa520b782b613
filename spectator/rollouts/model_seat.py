"""The model in the agent's seat of a rollout.

Its client, waiting for an unreachable endpoint, and trimming of long conversations.
"""

from __future__ import annotations

import asyncio
import random
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from spectator.backoff import Backoff
from spectator.clock import Clock, first_of
from spectator.environments.world import World, derive_seed
from spectator.errors import (
    ConfigurationError,
    EndpointBusy,
    EndpointError,
    EndpointMalformed,
    EndpointRefused,
    EndpointResting,
    EndpointUnavailable,
    PolicyError,
)
from spectator.llm.chat import ChatAnswer, ChatRequest, Message
from spectator.llm.client import ChatClient, ClientLimits, wire_form
from spectator.llm.endpoints import ApiKey, SessionAddress, StaticAddress
from spectator.llm.rate_limits import AdaptiveLimit
from spectator.llm.retry import PERMANENT_STATUSES, CircuitBreaker, RetryPolicy
from spectator.observations import Observation
from spectator.policies.captains import ModelCaptain
from spectator.policies.model import ModelPolicy
from spectator.policies.model_settings import ModelSettings
from spectator.policies.policy import Policy, Preset, ScriptedPolicy
from spectator.rollouts.handlers import EpisodeContext, EpisodeHandler, NullHandler, info_of, within
from spectator.rollouts.request import ACTOR
from spectator.rollouts.served_policy import ServedAddress, ServedPolicy
from spectator.runs.interactor import InFlight
from spectator.text import clean_text

AnyMessage = Mapping[str, Any]


def trim(messages: Sequence[AnyMessage], message_cut: int, *, keep_task: bool = True) -> list[AnyMessage]:
    """Keep the system message, the task, and the newest ``2 * message_cut - 1`` messages.

    The answer to a tool call is never sent without the call, and what is kept never begins with an answer to
    something that was dropped. The list is new; ``messages`` is left as it is.

    Args:
        messages: The whole conversation, oldest first.
        message_cut: Newest exchanges to keep; 0 or less keeps everything.
        keep_task: Whether the first message of the user, which states the task, is always kept.

    Example:
        >>> talk = [{"role": "system", "content": "s"}] + [
        ...     {"role": role, "content": f"{role} {n}"} for n in range(4) for role in ("user", "assistant")
        ... ][:-1]
        >>> [message["content"] for message in trim(talk, 1)]
        ['s', 'user 0', 'user 3']
        >>> len(trim(talk, 0)) == len(talk)
        True
    """
    if message_cut <= 0:
        return list(messages)
    first = 1 if messages and messages[0]["role"] == "system" else 0
    start = max(first, len(messages) - (2 * message_cut - 1))
    start = _with_its_call(messages, start, first)
    head = list(messages[:first])
    if keep_task:
        head += [message for message in messages[first:start] if message["role"] == "user"][:1]
    if len(head) == first:  # without a user's message, do not begin with an assistant's
        while (
            start < len(messages) - 1
            and messages[start]["role"] == "assistant"
            and not _calls(messages[start])
        ):
            start += 1
    return head + list(messages[start:])


def _with_its_call(messages: Sequence[AnyMessage], start: int, first: int) -> int:
    """``start``, or the place of the call that the tool's answer there belongs to."""
    while start > first and start < len(messages) and messages[start]["role"] == "tool":
        start -= 1
    return start


def _calls(message: AnyMessage) -> bool:
    return bool(message.get("tool_calls"))


ENDPOINT_PAUSES: Final = Backoff(1.0, 10.0)
"""The pauses between attempts, unless the endpoint asks for a longer one."""

REFUSED_S: Final = 60.0
"""Seconds for which requests may be refused before the first answer; then the command is wrong."""

PASSING: Final = (EndpointUnavailable, EndpointMalformed, EndpointBusy, EndpointResting)
"""Failures during an endpoint's restart; a timeout is not among them, but a slow answer."""


class ModelOutage:
    """Tracks whether the endpoint of a run is unreachable, and how long to wait for it.

    One that has not answered in this run yet may be a mistake in the command: the run waits only until it
    is paused (:class:`~spectator.llm.retry.CircuitBreaker`), or has refused every request for
    :data:`REFUSED_S` seconds, so that the run halts soon and costs no attempt. It does not wait
    either for a request that fails while others are answered.

    Args:
        patience_s: Seconds that it may be unreachable.
    """

    def __init__(self, clock: Clock, rng: random.Random, patience_s: float) -> None:
        self._clock = clock
        self._rng = rng
        self._patience_s = patience_s
        self._given_up = asyncio.Event()
        self.answers = 0
        """Answers in this run so far; 1 stands for all of earlier commands."""
        self.since_s: float | None = None
        """When the first failure since the last answer occurred, by the clock."""
        self.reason = ""
        """How the last one failed."""

    def answered(self) -> None:
        """Note an answer."""
        self.answers += 1
        self.since_s = None

    def pause_after(self, error: EndpointError, answers: int, failures: int) -> float | None:
        """Return the seconds to wait before a retry; ``None`` if waiting cannot help.

        Args:
            answers: How many answers there were when it failed first.
            failures: How often it failed before, in a row.

        Raises:
            EndpointResting: The endpoint has been unreachable for longer than the patience.
        """
        if isinstance(error, EndpointRefused) and error.status in PERMANENT_STATUSES:
            self._given_up.set()
        refused = isinstance(error, EndpointRefused) and not self.answers
        passing = refused or isinstance(error, PASSING)
        if not passing or self._given_up.is_set() or self.answers != answers:
            return None
        if not self.answers and isinstance(error, EndpointResting):
            return None
        now = self._clock.monotonic()
        since = self.since_s = now if self.since_s is None else self.since_s
        self.reason = str(error)
        patience_s = min(self._patience_s, REFUSED_S) if refused else self._patience_s
        if now - since >= patience_s:
            what = "refused every request" if refused else "been gone"
            said = f" ({clean_text(error.detail, 200)})" if refused and error.detail else ""
            gone = f"the endpoint has {what} for {now - since:.0f} s: {error}{said}"
            raise EndpointResting(gone, detail=error.detail) from error
        pause = max(error.retry_after_s or 0.0, ENDPOINT_PAUSES.draw(failures, self._rng))
        return min(pause, since + patience_s - now)

    async def wait(self, seconds: float) -> None:
        """Wait for ``seconds``, or until waiting cannot help any more."""
        await first_of(self._clock.sleep(seconds), self._given_up.wait())


FAILURES: Final = 20
"""Failures in a row, over all episodes, after which requests pause for a while."""

REST_S: Final = 5.0
"""Seconds of the first pause; at most four times as long later."""

STARTUP_JITTER_S: Final = 2.0
"""Seconds over which the first requests of a run are spread."""


def fleet_client(
    model: ModelCaptain,
    key: ApiKey | None,
    concurrency: int,
    *,
    clock: Clock,
    rng: random.Random,
    startup_jitter_s: float = STARTUP_JITTER_S,
    served: ServedPolicy | None = None,
) -> ChatClient:
    """A client for all episodes of a run.

    Args:
        key: The endpoint's key, where it needs one.
        concurrency: Episodes at once; it may ask less at once where the endpoint refuses for load.
        startup_jitter_s: The first requests are spread over this time.
        served: The policy whose address the trainer changes; that of ``model`` for all time if omitted.
    """
    limits = replace(
        ClientLimits.for_fleet(concurrency, by_session=model.by_session),
        request_s=max(1.0, model.timeout_s),
        startup_jitter_s=startup_jitter_s,
    )
    kind = SessionAddress if model.by_session else StaticAddress
    address = kind(model.base_url) if served is None else ServedAddress(served, model.base_url, kind)
    return ChatClient(
        limits.transport(),
        address,
        clock=clock,
        rng=rng,
        key=key,
        limits=limits,
        retry=RetryPolicy(busy=max(6, model.retries), unavailable=max(3, model.retries), longest_s=30.0),
        breaker=CircuitBreaker(clock, failures=FAILURES, rest_s=REST_S, longest_rest_s=4 * REST_S),
        adaptive=AdaptiveLimit(
            clock, start=min(concurrency, 64), highest=max(concurrency, 64), slow_start=True
        ),
        form=wire_form(model.form),
    )


@dataclass(frozen=True, slots=True)
class FleetSeat:
    """Makes the policies of a run.

    Args:
        client: Asks it, for all episodes.
        message_cut: Newest exchanges that are sent; 0 sends them all.
        outage: Waits for an unreachable endpoint; no waiting if omitted.
        retries: Retries after an answer that is not an action.
        served: The policy that the endpoint serves now.
        token_in: Whether prompts are sent as token ids.
    """

    model: ModelCaptain
    client: ChatClient
    clock: Clock
    handler: EpisodeHandler
    message_cut: int = 0
    outage: ModelOutage | None = None
    retries: int = 1
    served: ServedPolicy | None = None
    token_in: bool = False
    _asked: ModelSettings = field(init=False, repr=False)

    def __post_init__(self) -> None:
        settings = self.model.settings()  # with turns cut away, each prompt must be complete
        settings = replace(settings, whole_situations=True) if self.message_cut else settings
        object.__setattr__(self, "_asked", settings)

    def preset(
        self,
        world: World,
        context: EpisodeContext | None = None,
        flight: InFlight | None = None,
        *,
        session: str | None = None,
    ) -> Preset:
        """Make the preset for the agent's seat of any episode, or of the one in ``context``.

        Args:
            flight: Notes what the model's request waits for.
            session: Name of the conversation, for endpoints that route by session; the episode's id if
                omitted.

        Raises:
            ConfigurationError: The world's default captain is not scripted, and cannot stand in.
        """
        return Preset(
            name=ACTOR,
            label=self.model.label,
            summary=self.model.summary,
            source="model",
            build=partial(self._policy, world, context, flight, session),
            costs_money=True,
        )

    def _policy(
        self,
        world: World,
        context: EpisodeContext | None,
        flight: InFlight | None,
        session: str | None,
        seed: int,
    ) -> Policy:
        fallback = world.captains[world.default_captain].build(seed)
        if not isinstance(fallback, ScriptedPolicy):
            raise ConfigurationError("the fallback of a model must be a scripted policy")
        member = 0 if context is None else context.member  # samples of one task are drawn apart
        return ModelPolicy(
            self._client(flight),
            self._asked,
            world.briefing,
            fallback=fallback,
            seed=derive_seed(seed, "member", member) if member else seed,
            clock=self.clock,
            session=None if context is None or not self.model.by_session else session or context.env_id,
            closes_client=False,
            edit=_Edit(self.handler, self.message_cut, context, self.model.timeout_s),
            retries=self.retries,
        )

    def _client(self, flight: InFlight | None) -> ChatClient | _FlightClient:
        if flight is None:
            return self.client
        client = TokenPrompts(self.client, self.clock) if self.token_in else self.client
        return _FlightClient(client, flight, self.clock, self.outage, self.served)


CLOSING_TOKENS: Final = 8
"""Most tokens that a chat template adds after the end mark of an answer."""


class TokenPrompts:
    """Sends the requests of one conversation as token ids, in which what was sampled stays as it was sampled.

    Text that a model wrote is often other tokens when it is tokenised again. Here each prompt begins with the
    tokens of the last prompt and its answer, and only what follows them is tokenised, by the endpoint.

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


class _FlightClient:
    """The client of one episode, which notes what its requests wait for and waits out outages."""

    def __init__(
        self,
        client: ChatClient | TokenPrompts,
        flight: InFlight,
        clock: Clock,
        outage: ModelOutage | None,
        served: ServedPolicy | None,
    ) -> None:
        self._client = client
        self._flight = flight
        self._clock = clock
        self._outage = outage
        self._served = served

    async def complete(self, request: ChatRequest, **asked: Any) -> ChatAnswer:
        """See :meth:`ChatClient.complete`; ``deadline`` is that of each attempt after an outage."""
        flight, outage, served = self._flight, self._outage, self._served
        answers, failures = 0 if outage is None else outage.answers, 0
        try:
            while True:
                try:
                    answer = await self._client.complete(
                        request if served is None else served.addressed(request),
                        on_wait=flight.waits, served=None if served is None else served.version, **asked,
                    )  # fmt: skip
                except EndpointError as error:
                    if outage is None:
                        raise
                    answers = answers if failures else outage.answers
                    pause = outage.pause_after(error, answers, failures)
                    if pause is None:
                        raise
                    failures += 1
                    flight.waits("retry", self._clock.monotonic() + pause, error.kind)
                    await outage.wait(pause)
                    continue
                if outage is not None:
                    outage.answered()
                return answer
        finally:
            flight.waits("journal")

    async def aclose(self) -> None:
        """Do nothing; all episodes share the client."""


class _Edit:
    """Lets the handler change the conversation, then trims it, before it is sent and recorded."""

    def __init__(
        self, handler: EpisodeHandler, message_cut: int, context: EpisodeContext | None, limit_s: float
    ) -> None:
        self._handler = handler
        self._message_cut = message_cut
        self._context = context
        self._limit_s = limit_s

    async def __call__(
        self, messages: Sequence[Message], observation: Observation, step: int
    ) -> Sequence[Message]:
        """See :data:`~spectator.policies.model.EditPrompt`.

        Raises:
            PolicyError: The handler took too long, or returned something else than messages.
        """
        if self._context is not None and type(self._handler) is not NullHandler:
            context = replace(self._context, step=step, info=info_of(observation))
            handled = await within(self._handler.handle(messages, context), self._limit_s)
            if not isinstance(handled, Sequence) or isinstance(handled, str):
                raise PolicyError(f"the handler returned {type(handled).__name__}, not a list of messages")
            messages = handled
        return trim(messages, self._message_cut) if self._message_cut else messages
