"""Steps an environment of a pooled rollout server over HTTP: ``get_task_prompt``, ``step``, ``done``."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from spectator.backoff import Backoff
from spectator.environments.contract import Stepped
from spectator.errors import (
    EnvironmentFault,
    EnvironmentMalformed,
    EnvironmentUnavailable,
)
from spectator.observations import Observation, Refusal
from spectator.policies.policy import Action
from spectator.steppers.remote import (
    AGENT,
    CLOSE_S,
    MAX_ANSWER_BYTES,
    RemoteCalls,
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
"""Characters of a server's own words that an error keeps."""

BUSY: Final = 429
"""The status of a request that was not looked at: it may be sent again."""

NO_SUCH_ROUTE: Final = frozenset({404, 405, 501})
"""Statuses of a server that gives environments back by ``DELETE`` and not by ``POST done``."""


@dataclass(frozen=True, slots=True)
class HttpEnvironment:
    """Where one environment of a pooled rollout server is, and what the server can do.

    Args:
        base_url: The server, such as ``http://host:36663``; operations are below ``/env_name/env_id/``.
        env_name: The kind of environment.
        env_id: This one.
        text_field: The action's field that travels as the whole action; ``None`` sends the action as it is.
        resets: Whether ``POST reset`` begins an episode; else it begins with the first prompt.
        step_ids: Whether the server takes a ``step_id`` and carries out each once, however often it is sent;
            one that answers ``reset`` with ``"step_ids": true`` says so itself.
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
        """The address of an operation.

        >>> HttpEnvironment("http://host:36663/", "qa", "7").url("step")
        'http://host:36663/qa/7/step'
        """
        return f"{self.base_url.rstrip('/')}/{self.env_name}/{self.env_id}/{operation}".rstrip("/")


class HttpStepper:
    """A :class:`~spectator.environments.contract.Stepper` of an environment on a pooled rollout server.

    ``GET get_task_prompt`` gives the chat messages that the agent sees: an empty list ends the episode, what
    is no list is a fault. ``POST step`` with ``{"action"}`` gives ``reward, terminated, truncated, info``.
    ``POST done`` gives the environment back, or ``DELETE`` where the server knows no ``done``.

    A prompt is asked for again after a failure, at most ``retries`` times and within the deadline. A step is
    sent again only where it cannot have arrived (no connection, or 429), or where the server takes step ids.

    Args:
        where: The environment.
        retries: How often a request is sent again.
        backoff_s: Seconds before the first of them; doubled each time, with full jitter.
        sleep: Waits.
        rng: Draws the jitter.
        session: Connections to share; closed by whoever made them. Own ones when left out.
    """

    def __init__(
        self,
        where: HttpEnvironment,
        *,
        retries: int = 2,
        backoff_s: float = 0.5,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
        session: aiohttp.ClientSession | None = None,
    ) -> None:
        import aiohttp

        self._aiohttp = aiohttp
        self._where = where
        self._retries = retries
        self._backoff = Backoff(backoff_s)
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._session = session
        self._owns_session = session is None
        self._calls = RemoteCalls()
        self._episode_id = ""
        self._steps = 0
        self._step_ids = where.step_ids

    @property
    def given_up(self) -> bool:
        """See :attr:`Stepper.given_up`."""
        return self._calls.given_up

    async def reset(
        self, *, seed: int, episode_id: str, options: Mapping[str, Any], limit_s: float | None
    ) -> Stepped:
        """See :meth:`Stepper.reset`; ``options`` travel as ``env_param``."""
        self._episode_id, self._steps = episode_id, 0
        prompt = await self._calls.within(limit_s, self._begin(seed, options))
        return self._calls.began(_observation(prompt, 0.0, done=not prompt))

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.step`."""
        field = self._where.text_field
        if field is not None and not isinstance(action.get(field), str):
            rule = f"send the text of the action under {field!r}"
            return self._calls.refused(Refusal("action.shape", rule))
        return await self._calls.within(limit_s, self._step(action if field is None else action[field]))

    async def snapshot(self, *, limit_s: float | None) -> bytes:
        """See :meth:`Stepper.snapshot`; always fails."""
        raise EnvironmentFault("the server keeps no snapshots")

    async def restore(self, snapshot: bytes, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.restore`; always fails."""
        raise EnvironmentFault("the server keeps no snapshots")

    async def state(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.state`: the id of the episode; the server tells no more."""
        return {"episode_id": self._episode_id}

    async def truth(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.truth`; the server tells nothing of what it hides."""
        return {}

    async def aclose(self) -> None:
        """See :meth:`Stepper.aclose`; the environment is given back, for which the server has two seconds."""
        began, self._calls.given_up = bool(self._episode_id), True
        session = self._session
        if session is None:
            return
        with suppress(Exception):
            async with asyncio.timeout(CLOSE_S):
                if began:
                    await self._give_back()
        self._episode_id = ""  # unless it was cancelled: then it is given back by the next call
        if self._owns_session:
            self._session = None
            await session.close()

    async def _begin(self, seed: int, options: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        if self._where.resets:
            asked = {"env_param": dict(options), "seed": seed}
            said = await self._ask("POST", "reset", asked, again="undelivered")
            self._step_ids = self._where.step_ids or _takes_step_ids(said)
        return await self._prompt()

    async def _give_back(self) -> None:
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
            raise EnvironmentMalformed("answered a step without a reward")
        if answer.get("step_id", step_id) != step_id:
            other = str(answer["step_id"])[:80]
            raise EnvironmentMalformed(f"answered step {other!r} where {step_id!r} was sent")
        reward = read_reward(answer.get("reward"))
        terminated = read_flag("terminated", answer.get("terminated"))
        truncated = read_flag("truncated", answer.get("truncated"))
        prompt: list[Mapping[str, Any]] = [] if terminated or truncated else await self._prompt()
        info = answer.get("info")
        metadata = {} if terminated or not truncated else {"truncated": "the environment cut it short"}
        seen = _observation(prompt, reward, done=not prompt, info=info, metadata=metadata)
        return self._calls.went_on(seen, {"episode_id": self._episode_id} if seen.done else {})

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
        """The answer to a request, sent again after a failure where that cannot do it twice."""
        for tries in range(self._retries + 1):
            try:
                return await self._send(method, operation, body)
            except _Failed as failed:
                if tries == self._retries or not (failed.undelivered or again == "always"):
                    raise EnvironmentUnavailable(f"{operation}: {failed}") from failed
                wait_s = max(failed.wait_s, self._backoff.draw(tries, self._rng))
            await self._sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    async def _send(self, method: str, operation: str, body: Mapping[str, Any] | None) -> bytes:
        """Send one request once.

        Raises:
            _Failed: It was not carried out, or nobody knows.
            EnvironmentFault: The server answers that it will not.
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
            raise EnvironmentMalformed(f"{operation}: an answer of more than {MAX_ANSWER_BYTES} bytes")
        if answer.status == BUSY or answer.status == 408 or answer.status >= 500:
            busy, wait_s = answer.status == BUSY, _retry_after(answer.headers.get("Retry-After"))
            raise _Failed(f"the server answers {answer.status}", undelivered=busy, wait_s=wait_s)
        if answer.status >= 300:
            said = clean_text(text.decode(errors="replace"), MAX_MESSAGE)
            raise _Refused(f"{operation}: the server answers {answer.status}: {said}", answer.status)
        return text


class _Refused(EnvironmentFault):
    """The server answers that it will not.

    Args:
        message: Its words.
        status: The HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class _Failed(Exception):
    """A request had no answer that can be read.

    Args:
        message: Why.
        undelivered: Whether the server certainly did nothing.
        wait_s: Seconds that the server asks to wait.
    """

    def __init__(self, message: str, *, undelivered: bool = False, wait_s: float = 0.0) -> None:
        self.undelivered = undelivered
        self.wait_s = wait_s
        super().__init__(message)


def _takes_step_ids(said: bytes) -> bool:
    """Whether the answer to ``reset`` says so; what it says besides is the server's own affair."""
    try:
        answer = read_json(said)
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
    """Seconds that the server asks to wait, at most a minute; 0 where it names none, or a date."""
    try:
        return min(60.0, max(0.0, float(value or 0)))
    except ValueError:
        return 0.0


def _in_words(error: Exception) -> str:
    return clean_text(f"{type(error).__name__}: {error}", MAX_MESSAGE)
