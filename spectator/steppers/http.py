"""Step an environment of a pooled rollout server over HTTP: ``get_task_prompt``, ``step``, ``done``."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from spectator.backoff import Backoff
from spectator.environments.contract import Stepped
from spectator.errors import EnvironmentFault, EnvironmentMalformed, EnvironmentUnavailable
from spectator.observations import Observation, Refusal
from spectator.policies.policy import Action
from spectator.steppers.remote import (
    AGENT,
    CLOSE_S,
    MAX_ANSWER_BYTES,
    RemoteStepper,
    checked_prompt,
    read_flag,
    read_json,
    read_object,
    read_reward,
)
from spectator.text import clean_text

if TYPE_CHECKING:
    import aiohttp

MAX_MESSAGE: Final = 300
"""Maximum characters of a server's message in an error."""

RETRIES: Final = 2
"""Maximum number of retries of a request."""

BUSY: Final = 429
"""Status of a request that was not processed and may be retried."""

NO_SUCH_ROUTE: Final = frozenset({404, 405, 501})
"""Statuses of a server that does not have an operation, such as ``reset`` or ``done``."""


@dataclass(frozen=True, slots=True)
class HttpEnvironment:
    """The address of one environment on a pooled rollout server, and the server's capabilities.

    Args:
        base_url: The server, such as ``http://host:36663``; operations are below ``/env_name/env_id/``.
        text_field: The action's field that is sent as the whole action; ``None`` sends the whole action.
        resets: Whether ``POST reset`` is tried first. An episode begins with the first prompt otherwise, and
            on servers that have no ``reset``.
        step_ids: Whether the server accepts a ``step_id`` and carries out each only once, even if it is
            resent. A server can also announce this by answering ``reset`` with ``"step_ids": true``.
        headers: Further headers, such as ``Authorization``.
    """

    base_url: str
    env_name: str
    env_id: str
    text_field: str | None = "text"
    resets: bool = True
    step_ids: bool = False
    headers: Mapping[str, str] | None = None

    def url(self, operation: str) -> str:
        """Return the URL of an operation.

        >>> HttpEnvironment("http://host:36663/", "qa", "7").url("step")
        'http://host:36663/qa/7/step'
        """
        return f"{self.base_url.rstrip('/')}/{self.env_name}/{self.env_id}/{operation}".rstrip("/")


class HttpStepper(RemoteStepper):
    """A :class:`~spectator.environments.contract.Stepper` of an environment on a pooled rollout server.

    ``GET get_task_prompt`` returns the agent's chat messages: an empty list ends the episode, anything but a
    list is a fault. ``POST step`` with ``{"action"}`` returns ``reward, terminated, truncated, info``.
    ``POST done`` releases the environment, or ``DELETE`` if the server has no ``done``. A server with only
    ``get_task_prompt`` and ``step`` is enough: then an episode begins with the first prompt of a new id.

    Requests for a prompt are retried after a failure, at most :data:`RETRIES` times and within the deadline.
    A step is retried only if it cannot have arrived (no connection, or 429) or the server accepts step ids.

    Args:
        backoff_s: Seconds before the first retry; doubled each time, with full jitter.
    """

    def __init__(
        self,
        where: HttpEnvironment,
        *,
        backoff_s: float = 0.5,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__()
        import aiohttp

        self._aiohttp = aiohttp
        self._where = where
        self._backoff = Backoff(backoff_s)
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._session: aiohttp.ClientSession | None = None
        self._episode_id = ""
        self._steps = 0
        self._step_ids = where.step_ids
        self.must_reset = False
        """Whether the environment was played before, so that only ``reset`` can begin an episode."""

    async def reset(
        self, *, seed: int, episode_id: str, options: Mapping[str, Any], limit_s: float | None
    ) -> Stepped:
        """See :meth:`Stepper.reset`; ``options`` are sent as ``env_param``."""
        self._episode_id, self._steps = episode_id, 0
        prompt = await self._within(limit_s, self._begin(seed, options))
        return self._began(_observation(prompt, 0.0, done=not prompt))

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.step`."""
        field = self._where.text_field
        if field is not None and not isinstance(action.get(field), str):
            rule = f"send the text of the action under {field!r}"
            return self._refused(Refusal("action.shape", rule))
        return await self._within(limit_s, self._step(action if field is None else action[field]))

    async def state(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.state`; only the id of the episode, as the server publishes no state."""
        return {"episode_id": self._episode_id}

    async def aclose(self) -> None:
        """See :meth:`Stepper.aclose`; releases the environment and waits at most two seconds."""
        began, self.given_up = bool(self._episode_id), True
        session = self._session
        if session is None:
            return
        with suppress(Exception):
            async with asyncio.timeout(CLOSE_S):
                if began:
                    await self._release()
        self._episode_id = ""  # not reached if cancelled: then the next call releases the environment
        self._session = None
        await session.close()

    async def _begin(self, seed: int, options: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        if self._where.resets:
            body = {"env_param": dict(options), "seed": seed}
            try:
                answer = await self._ask("POST", "reset", body, again="undelivered")
                self._step_ids = self._where.step_ids or _accepts_step_ids(answer)
            except _Refused as refused:
                if refused.status not in NO_SUCH_ROUTE or self.must_reset:
                    raise
        return await self._prompt()

    async def _release(self) -> None:
        try:
            await self._send("POST", "done", {})
        except _Refused as refused:
            if refused.status in NO_SUCH_ROUTE:
                await self._send("DELETE", "", None)

    async def _step(self, action: object) -> Stepped:
        self._steps += 1
        step_id = f"{self._episode_id}-{self._steps}"
        body = {"action": action, **({"step_id": step_id} if self._step_ids else {})}
        again: Literal["always", "undelivered"] = "always" if self._step_ids else "undelivered"
        answer = read_object(await self._ask("POST", "step", body, again=again))
        if "reward" not in answer:
            raise EnvironmentMalformed("its answer to a step has no reward")
        if answer.get("step_id", step_id) != step_id:
            other = str(answer["step_id"])[:80]
            raise EnvironmentMalformed(f"answered step {other!r} instead of {step_id!r}")
        reward = read_reward(answer.get("reward"))
        terminated = read_flag("terminated", answer.get("terminated"))
        truncated = read_flag("truncated", answer.get("truncated"))
        prompt: list[Mapping[str, Any]] = [] if terminated or truncated else await self._prompt()
        info = answer.get("info")
        metadata = {} if terminated or not truncated else {"truncated": "the environment cut the episode off"}
        seen = _observation(prompt, reward, done=not prompt, info=info, metadata=metadata)
        return self._went_on(seen, {"episode_id": self._episode_id} if seen.done else {})

    async def _prompt(self) -> list[Mapping[str, Any]]:
        prompt = read_json(await self._ask("GET", "get_task_prompt", None, again="always"))
        if isinstance(prompt, dict):
            prompt = prompt.get("prompt", prompt.get("messages"))
        return checked_prompt(prompt)

    async def _ask(
        self,
        method: str,
        operation: str,
        body: Mapping[str, Any] | None,
        *,
        again: Literal["always", "undelivered"],
    ) -> bytes:
        """Send a request, with retries that cannot carry it out twice; return the answer."""
        for tries in range(RETRIES + 1):
            try:
                return await self._send(method, operation, body)
            except _Failed as failed:
                if tries == RETRIES or not (failed.undelivered or again == "always"):
                    raise EnvironmentUnavailable(f"{operation}: {failed}") from failed
                wait_s = max(failed.wait_s, self._backoff.draw(tries, self._rng))
            await self._sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    async def _send(self, method: str, operation: str, body: Mapping[str, Any] | None) -> bytes:
        """Send a request once.

        Raises:
            _Failed: It was not carried out, or that is unknown.
            EnvironmentFault: The server rejected it.
        """
        errors = self._aiohttp
        if self._session is None:
            self._session = errors.ClientSession(cookie_jar=errors.DummyCookieJar())
        try:
            async with self._session.request(
                method,
                self._where.url(operation),
                json=body,
                allow_redirects=False,
                headers=self._where.headers,
                timeout=errors.ClientTimeout(total=None),
            ) as answer:
                text = await answer.content.read(MAX_ANSWER_BYTES + 1)
                while len(text) <= MAX_ANSWER_BYTES and (more := await answer.content.read(MAX_ANSWER_BYTES)):
                    text += more
        except errors.ClientConnectorError as error:
            raise _Failed(_in_words(error), undelivered=True) from error
        except (errors.ClientError, OSError) as error:
            raise _Failed(f"the connection was lost: {_in_words(error)}") from error
        if len(text) > MAX_ANSWER_BYTES:
            raise EnvironmentMalformed(f"{operation}: the answer exceeds {MAX_ANSWER_BYTES} bytes")
        if answer.status == BUSY or answer.status == 408 or answer.status >= 500:
            busy, wait_s = answer.status == BUSY, _retry_after(answer.headers.get("Retry-After"))
            raise _Failed(f"the server answers {answer.status}", undelivered=busy, wait_s=wait_s)
        if answer.status >= 300:
            message = clean_text(text.decode(errors="replace"), MAX_MESSAGE)
            raise _Refused(f"{operation}: the server answers {answer.status}: {message}", answer.status)
        return text


class _Refused(EnvironmentFault):
    """The server rejected a request."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class _Failed(Exception):
    """A request got no usable answer.

    Args:
        undelivered: Whether the server certainly did nothing.
        wait_s: Seconds that the server asks the client to wait.
    """

    def __init__(self, message: str, *, undelivered: bool = False, wait_s: float = 0.0) -> None:
        self.undelivered = undelivered
        self.wait_s = wait_s
        super().__init__(message)


def _accepts_step_ids(text: bytes) -> bool:
    """Return whether the answer to ``reset`` announces step ids; its other content is ignored."""
    try:
        answer = read_json(text)
    except EnvironmentMalformed:
        return False
    return isinstance(answer, dict) and answer.get("step_ids") is True


def _observation(
    prompt: list[Mapping[str, Any]],
    reward: float,
    *,
    done: bool,
    info: object = None,
    metadata: Mapping[str, Any] | None = None,
) -> Observation:
    content = {"prompt": prompt, **({"info": info} if isinstance(info, dict) else {})}
    return Observation(
        None if done else AGENT, (), content, reward=reward, done=done, metadata=metadata or {}
    )


def _retry_after(value: str | None) -> float:
    """Parse Retry-After in seconds, at most a minute; 0 if it is absent or a date."""
    try:
        return min(60.0, max(0.0, float(value or 0)))
    except ValueError:
        return 0.0


def _in_words(error: Exception) -> str:
    return clean_text(f"{type(error).__name__}: {error}", MAX_MESSAGE)
