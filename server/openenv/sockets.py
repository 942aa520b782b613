"""OpenEnv and MCP over WebSockets: one private environment each, one answer per message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from spectator.episodes.single_agent import NoEpisode
from spectator.errors import EpisodeError, InvalidRequest, SpectatorError

from ..security.faults import Refused
from ..transport import protocol_of
from . import mcp, messages
from .messages import Code, WireError
from .session import Session
from .session_registry import SessionRegistry, SessionsFull
from .worlds import WireWorlds

NORMAL: Final = 1000
"""Close code if the last message gave the reason."""

TOO_BIG: Final = 1009
"""Close code for a message that is too long."""

LAST_MESSAGE_S: Final = 1.0
"""Seconds to wait for a client to read the last message, if the connection is not ours."""


class Silence:
    """Ends a block if its client was silent for too long.

    One timer checks the silence and is extended as needed, which costs a busy connection nothing; a timer per
    message would cost a tenth of a step.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._loop = asyncio.get_running_loop()
        self._scope = asyncio.timeout(None)
        self.since: float | None = None
        """Start of the current wait for the client, by the loop's time; ``None`` if there is none."""
        self._answered = False

    async def __aenter__(self) -> None:
        await self._scope.__aenter__()
        self._timer = self._loop.call_later(self._limit_s, self._look)

    async def __aexit__(self, *raised: Any) -> None:
        self._timer.cancel()
        await self._scope.__aexit__(*raised)

    def begin(self, *, answered: bool = False) -> None:
        """Begin to wait for a message, or for the client to read the answer."""
        self.since, self._answered = self._loop.time(), answered

    def ended(self) -> Ended:
        """Return the end of a conversation with a silent client."""
        if self._answered:
            return Ended(NORMAL)
        silence = f"no message for {self._limit_s:g} s; the environment was closed"
        return Ended(NORMAL, WireError(Code.SESSION_ERROR, silence).frame())

    def _look(self) -> None:
        now = self._loop.time()
        due = (now if self.since is None else self.since) + self._limit_s
        if self.since is not None and due <= now:
            self._scope.reschedule(now)
        else:
            self._timer = self._loop.call_at(due, self._look)


Answering = Callable[[str | None, Session], Awaitable[str | None]]
"""Answers one message; ``None`` means a binary message, or no answer."""


class Ended(Exception):
    """The conversation must end."""

    def __init__(self, code: int, text: str | None = None) -> None:
        self.code = code
        self.text = text
        super().__init__(code)


async def answer_frame(text: str | None, session: Session) -> str:
    """Answer an OpenEnv message."""
    try:
        match await session.read(text, messages.read_message):
            case messages.ResetMessage(data=request):
                return _frame("observation", (await session.reset(request)).text)
            case messages.StepMessage(data=action):
                return _frame("observation", (await session.step(action)).text)
            case messages.StateMessage():
                return _frame("state", await session.state())
            case messages.McpMessage(data=call):
                answer = await mcp.answer(call, session.wire, lambda: nullcontext(session))
                return _frame("mcp", answer or mcp.result_text(None, "{}"))
            case messages.CloseMessage():
                raise Ended(NORMAL)
    except WireError as error:
        await asyncio.sleep(0)  # let other tasks run during a flood of invalid messages
        return error.frame()
    except InvalidRequest as error:
        return messages.invalid(error).frame()
    except Refused as error:
        if session.account is not None:
            session.account.note_refused()
        return WireError(Code.CAPACITY_REACHED, error.detail).frame()
    except NoEpisode as error:
        before = session.left_before and f"{error}; {session.left_before}"
        return WireError(Code.EXECUTION_ERROR, before or str(error)).frame()
    except EpisodeError as error:
        return WireError(Code.EXECUTION_ERROR, str(error)).frame()


async def answer_call(text: str | None, session: Session) -> str | None:
    """Answer a JSON-RPC message."""
    try:
        value = await session.read(text, messages.read_json)
    except WireError as error:
        await asyncio.sleep(0)
        return mcp.error_text(None, mcp.RpcError(mcp.PARSE_ERROR, str(error)))
    return await mcp.answer(value, session.wire, lambda: nullcontext(session))


def _frame(kind: str, data: str) -> str:
    return f'{{"type":"{kind}","data":{data}}}'


async def serve(
    websocket: WebSocket, sessions: SessionRegistry, worlds: WireWorlds, name: str, answering: Answering
) -> None:
    """Serve a client until it leaves or falls silent, or the environment hangs.

    The conversation runs in a separate task, or each message would pass through all twenty layers of the
    application.

    Args:
        websocket: The client's connection, not accepted yet.
        answering: :func:`answer_frame` for OpenEnv, :func:`answer_call` for JSON-RPC.
    """
    await websocket.accept()
    try:
        session = await _open(websocket, sessions, worlds, name)
    except WireError as error:
        await _leave(websocket, Ended(NORMAL, error.frame()))
        return
    conversation = asyncio.create_task(_converse(websocket, sessions, session, answering))
    try:
        await conversation
    finally:
        conversation.cancel()
        sessions.close(session)


async def _converse(
    websocket: WebSocket, sessions: SessionRegistry, session: Session, answering: Answering
) -> None:
    silence, protocol = Silence(sessions.limits.idle_s), protocol_of(websocket)
    try:
        async with silence:
            while True:
                silence.begin()
                message = await websocket.receive()
                silence.since = None
                if message["type"] == "websocket.disconnect":
                    return
                text: str | None = message.get("text")
                if text is not None and len(text) > messages.MAX_MESSAGE_BYTES:
                    raise Ended(TOO_BIG)
                if session.account is not None:
                    await session.account.admit_message()
                answer = await answering(text, session)
                if session.given_up:
                    raise Ended(NORMAL, answer)
                if answer is not None and (protocol is None or not protocol.send_now(answer)):
                    silence.begin(answered=True)  # the client does not keep up
                    await websocket.send_text(answer)
    except TimeoutError:
        sessions.note_silence(session.address)
        sessions.close(session)
        await _leave(websocket, silence.ended())
    except Ended as ended:
        sessions.close(session)
        await _leave(websocket, ended)
    except WebSocketDisconnect:
        return


async def _open(websocket: WebSocket, sessions: SessionRegistry, worlds: WireWorlds, name: str) -> Session:
    if "session_id" in websocket.query_params:
        raise WireError(Code.SESSION_ERROR, "each socket has its own environment; omit session_id")
    try:
        session = await sessions.open(await worlds.get(name), websocket)
    except Refused as error:
        raise WireError(Code.CAPACITY_REACHED, error.detail) from error
    except SessionsFull as error:
        extra = {"active_sessions": error.active, "max_sessions": error.limit}
        raise WireError(Code.CAPACITY_REACHED, str(error), extra=extra) from error
    except SpectatorError as error:
        raise WireError(Code.FACTORY_ERROR, str(error), extra={"factory_name": name}) from error
    session.left_before = sessions.expired(session.address)
    session.publisher = sessions.publisher_for(websocket)
    return session


async def _leave(websocket: WebSocket, ended: Ended) -> None:
    """Send the last message, then close, even if the client does not read."""
    protocol = protocol_of(websocket)
    if protocol is not None and ended.text is not None:
        protocol.close_with_message(ended.text, ended.code, "")
        return
    try:
        async with asyncio.timeout(LAST_MESSAGE_S):
            if ended.text is not None:
                await websocket.send_text(ended.text)
            await websocket.close(ended.code)
    except (TimeoutError, WebSocketDisconnect):
        return
