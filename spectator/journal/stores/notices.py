"""Notices between processes that share a PostgreSQL, by NOTIFY and LISTEN; each may be lost.

PostgreSQL lets one transaction with a notice commit at a time, over all its databases. So notices have
connections of their own and are sent after the commits that they tell of, never within them: a transaction of
nothing but notices writes no table and waits for no disk.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from spectator.backoff import Backoff
from spectator.clock import Clock
from spectator.errors import JournalError
from spectator.journal.stores.postgres import CONNECT_ARGS, location_of, sentence, shown

if TYPE_CHECKING:
    from psycopg import AsyncConnection

logger = logging.getLogger(__name__)

LARGEST: Final = 7_500
"""Bytes of a notice at most; PostgreSQL takes less than 8,000."""

SEND_S: Final = 5.0
"""Seconds that sending may take."""

PROOF_S: Final = 5.0
"""Seconds within which a notice to oneself must come, or listening does not work there."""

PAUSES: Final = Backoff(0.5, 30.0)
"""The pauses between two attempts to listen."""

_SEND: Final = "SELECT count(pg_notify(%s, one)) FROM unnest(%s::text[]) AS one"


async def _connect(url: str) -> AsyncConnection[Any]:
    from psycopg import AsyncConnection

    location = location_of(url)
    _, given = location.get_dialect()().create_connect_args(location)
    return await AsyncConnection.connect(**{**CONNECT_ARGS, **given}, autocommit=True)


class NoticeSender:
    """Sends notices, on one connection that is made when it is first wanted. A pooler may be in between.

    Args:
        url: Of the database.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: AsyncConnection[Any] | None = None
        self._turn = asyncio.Lock()

    async def send(self, channel: str, notices: Sequence[str]) -> None:
        """Send ``notices``, each of at most :data:`LARGEST` bytes and without zero characters.

        Raises:
            JournalError: They could not be sent.
        """
        from psycopg import Error

        async with self._turn:
            try:
                async with asyncio.timeout(SEND_S):
                    if self._connection is None:
                        self._connection = await _connect(self._url)
                    await self._connection.execute(_SEND, (channel, list(notices)))
            except (Error, OSError) as error:  # a TimeoutError is an OSError
                await self._close()
                raise JournalError(f"notices cannot be sent: {sentence(error)}") from error

    async def aclose(self) -> None:
        """Let go of the connection. Safe to call twice."""
        async with self._turn:
            await self._close()

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


class NoticeListener:
    """Listens for notices, on a connection of its own to the server itself.

    Behind a pooler that gives its connections out by the transaction LISTEN is answered, and nothing comes.
    So whoever listens sends itself a notice first, over another connection.

    Args:
        url: Of the database, with no such pooler in between.
        channel: What to listen to.
        take: Takes every notice; returns at once.
        sender: Sends the notice to oneself.
        clock: Waits.
        instead: What is done where no notices come, for people.
        changed: Is told whether notices come, whenever that changes; returns at once.
    """

    def __init__(
        self,
        url: str,
        channel: str,
        take: Callable[[str], None],
        sender: NoticeSender,
        clock: Clock,
        instead: str,
        changed: Callable[[bool], None] = lambda heard: None,
    ) -> None:
        self.heard = False
        """Whether notices come now."""
        self._url = url
        self._channel = channel
        self._take = take
        self._sender = sender
        self._clock = clock
        self._instead = instead
        self._changed = changed
        self._why: str | None = None  # notices do not come, as the log has it

    async def run(self) -> None:
        """Listen until cancelled; a connection that ends is made anew."""
        from psycopg import Error

        failures = 0
        while True:
            try:
                await self._listen()
                why = "the connection ended"
            except TimeoutError:
                why = "LISTEN is answered and no notice comes, as behind a pooler in transaction mode"
            except (Error, OSError, JournalError) as error:
                why = sentence(error)
            failures = 0 if self.heard else failures + 1
            self._missed(why)
            await self._clock.sleep(PAUSES.limit(failures))

    async def _listen(self) -> None:
        connection = await _connect(self._url)
        try:
            await connection.execute(f"LISTEN {self._channel}")
            mine = f"? {secrets.token_hex(8)}"
            await self._sender.send(self._channel, [mine])
            async with asyncio.timeout(PROOF_S) as limit:
                async for notice in connection.notifies():
                    if notice.payload == mine:
                        limit.reschedule(None)
                        self._proved()
                    elif not notice.payload.startswith("? "):
                        self._take(notice.payload)
        finally:
            await connection.close()

    def _proved(self) -> None:
        if self._why is not None:
            logger.info("notices of other servers come again over %s", self._channel)
        self._why, self.heard = None, True
        self._changed(True)

    def _missed(self, why: str) -> None:
        if self.heard:
            self.heard = False
            self._changed(False)
        if self._why != why:
            self._why = why
            where = shown(location_of(self._url))
            told = "no notices of other servers over %s from %s: %s; %s"
            logger.warning(told, self._channel, where, why, self._instead)
