"""Step an environment of any OpenEnv server through its WebSocket: one socket per episode."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from spectator.environments.contract import Stepped
from spectator.errors import (
    ConfigurationError,
    EnvironmentFault,
    EnvironmentMalformed,
    EnvironmentUnavailable,
)
from spectator.events import encode_json
from spectator.observations import Observation, Refusal
from spectator.policies.policy import Action
from spectator.steppers.remote import (
    AGENT,
    CLOSE_S,
    MAX_ANSWER_BYTES,
    RemoteStepper,
    read_flag,
    read_legal,
    read_object,
    read_reward,
)
from spectator.text import clean_text

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

MAX_MESSAGE: Final = 300
"""Maximum characters of a server's message in an error."""

LAST_STATE_S: Final = 5.0
"""Seconds that a server has to return the state after the end; many do not."""

NO_ROOM: Final = frozenset({"CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR"})
"""Error codes that end the session; others leave it unchanged."""


class OpenEnvStepper(RemoteStepper):
    """A :class:`Stepper` of an environment on any OpenEnv server.

    ``reset`` opens the socket, and it is never reopened during an episode, because the server ends a session
    with its socket. No message is retried. An action that the server rejects as malformed was not carried
    out and is refused. Snapshots are not supported.

    Args:
        url: The server, or one of its environments: ``http://host:8000/envs/counting``, ``wss://.../ws``.
        headers: Further headers of the handshake, such as ``Authorization``.

    Raises:
        ConfigurationError: ``websockets`` is not installed.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__()
        try:
            import websockets.asyncio.client  # noqa: F401 - check that it is installed
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                "websockets is not installed; remote environments need: pip install "
                "'openenv-spectator[remote]'"
            ) from error
        self._url = socket_url(url)
        self._headers = dict(headers or {})
        self._socket: ClientConnection | None = None

    async def reset(
        self, *, seed: int, episode_id: str, options: Mapping[str, Any], limit_s: float | None
    ) -> Stepped:
        """See :meth:`Stepper.reset`; ``options`` are sent beside the seed, as in OpenEnv."""
        data = {**options, "seed": seed, "episode_id": episode_id}
        answer = await self._within(limit_s, self._begin(data))
        return self._began(_observation(answer))

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.step`."""
        try:
            answer = await self._within(limit_s, self._ask("step", dict(action)))
        except _Invalid as invalid:
            return self._refused(Refusal("action.shape", str(invalid)))
        observation = _observation(answer)
        state = await self._last_state(limit_s) if observation.done else {}
        return self._went_on(observation, state)

    async def state(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.state`."""
        return await self._within(limit_s, self._ask("state"))

    async def aclose(self) -> None:
        """See :meth:`Stepper.aclose`; notifies the server and waits at most two seconds."""
        self.given_up = True
        socket, self._socket = self._socket, None
        if socket is None:
            return
        with suppress(Exception):
            async with asyncio.timeout(CLOSE_S):
                await socket.send('{"type":"close"}')
                await socket.close()
        socket.transport.abort()

    async def _begin(self, data: Mapping[str, Any]) -> dict[str, Any]:
        if self._socket is None:
            self._socket = await self._connect()
        try:
            return await self._ask("reset", data)
        except _Invalid as invalid:
            raise EnvironmentFault(f"the server rejects these options: {invalid}") from invalid

    async def _connect(self) -> ClientConnection:
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException

        try:
            return await connect(
                self._url,
                additional_headers=self._headers,
                max_size=MAX_ANSWER_BYTES,
                open_timeout=None,
                close_timeout=CLOSE_S,
            )
        except (OSError, WebSocketException) as error:
            raise EnvironmentUnavailable(f"the environment cannot be reached: {_in_words(error)}") from error

    async def _ask(self, kind: str, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send one message and return the data of its answer.

        Raises:
            _Invalid: The server rejects the message as malformed; nothing was done.
            EnvironmentFault: The environment failed, the socket was closed, or the answer is invalid.
        """
        from websockets.exceptions import WebSocketException

        if self._socket is None:
            raise EnvironmentFault("there is no episode; call reset first")
        message = {"type": kind} if data is None else {"type": kind, "data": data}
        try:
            await _check_no_message(self._socket)
            await self._socket.send(encode_json(message))
            text = await self._socket.recv()
        except (OSError, WebSocketException) as error:
            raise EnvironmentUnavailable(f"the connection was lost: {_in_words(error)}") from error
        except (TypeError, ValueError) as error:
            raise EnvironmentFault(f"the message is not JSON: {error}") from error
        return _data(kind, read_object(text))

    async def _last_state(self, limit_s: float | None) -> Mapping[str, Any]:
        """Return the state after the end; empty if the server no longer returns it."""
        try:
            return await self.state(limit_s=LAST_STATE_S if limit_s is None else min(limit_s, LAST_STATE_S))
        except EnvironmentFault:
            return {}


def socket_url(url: str) -> str:
    """Return the WebSocket URL of an OpenEnv server.

    Raises:
        ConfigurationError: ``url`` is not an ``http``, ``https``, ``ws`` or ``wss`` address.

    >>> socket_url("https://example.org/envs/counting/")
    'wss://example.org/envs/counting/ws'
    >>> socket_url("ws://localhost:8000/ws")
    'ws://localhost:8000/ws'
    """
    schemes = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    scheme, found, rest = url.partition("://")
    if scheme not in schemes or not found or not rest.strip("/"):
        raise ConfigurationError(
            f"{url[:200]!r} is not a URL of a server; use one such as http://localhost:8000"
        )
    path = rest.rstrip("/")
    return f"{schemes[scheme]}://{path}" + ("" if path.endswith("/ws") else "/ws")


async def _check_no_message(socket: ClientConnection) -> None:
    """Reject an unsolicited message: messages have no ids, so it would be taken for the next answer.

    Raises:
        EnvironmentUnavailable: The server has no room, or ended the session.
        EnvironmentMalformed: Another message came.
        WebSocketException: The connection is lost.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(0):
            unasked = read_object(await socket.recv())
        if unasked.get("type") == "error" and _code(unasked) in NO_ROOM:
            _data("reset", unasked)
        raise EnvironmentMalformed("sent an unsolicited message, such as a second answer")


class _Invalid(EnvironmentFault):
    """The server rejects a message as malformed; nothing was done."""


def _code(frame: Mapping[str, Any]) -> str | None:
    data = frame.get("data")
    return str(data.get("code")) if isinstance(data, dict) else None


def _data(kind: str, frame: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of an answer to a message of this ``kind``."""
    data = frame.get("data")
    if not isinstance(data, dict):
        raise EnvironmentMalformed("its answer has no data")
    if frame.get("type") == "error":
        code, message = str(data.get("code")), clean_text(str(data.get("message", "")), MAX_MESSAGE)
        if code == "VALIDATION_ERROR":
            raise _Invalid(message or "the message is malformed")
        if code in NO_ROOM:
            raise EnvironmentUnavailable(f"the server has no free environment: {code}: {message}")
        raise EnvironmentFault(f"the environment failed: {code}: {message}")
    expected = "state" if kind == "state" else "observation"
    if frame.get("type") != expected:
        raise EnvironmentMalformed(f"answered {str(frame.get('type'))[:80]!r} instead of {expected!r}")
    return data


def _observation(data: Mapping[str, Any]) -> Observation:
    """Parse an observation from the data of an answer."""
    shown = data.get("observation")
    if not isinstance(shown, dict):
        raise EnvironmentMalformed("its answer has no observation")
    done = read_flag("done", data.get("done"))
    metadata = data.get("metadata") or shown.get("metadata") or {}
    refused = shown.get("refused")
    known = ("metadata", "refused", "legal_actions", "actor")
    return Observation(
        actor=None if done else AGENT,
        legal_actions=() if done or not shown.get("legal_actions") else read_legal(shown["legal_actions"]),
        content={name: value for name, value in shown.items() if name not in known},
        reward=read_reward(data.get("reward")),
        done=done,
        # An episode that ends with a refused action still ends.
        refused=_refusal(refused) if isinstance(refused, dict) and not done else None,
        metadata=_metadata(metadata) if isinstance(metadata, dict) else {},
    )


def _refusal(refused: Mapping[str, Any]) -> Refusal:
    rule, message = refused.get("rule", "action.refused"), refused.get("message", "refused")
    return Refusal(clean_text(str(rule), 100), clean_text(str(message), MAX_MESSAGE))


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the metadata that this library uses: the score's parts, and why an episode was cut off."""
    kept = {name: metadata[name] for name in ("truncated",) if metadata.get(name)}
    rubric = metadata.get("rubric")
    if isinstance(rubric, dict):
        kept["rubric"] = {str(name): read_reward(value) for name, value in rubric.items()}
    return kept


def _in_words(error: Exception) -> str:
    return clean_text(f"{type(error).__name__}: {error}", MAX_MESSAGE)
