"""The newest events of episodes as streams of Redis or Valkey: an entry an event, its number the entry's id.

Nothing but what a journal has committed is put there. So an entry is the very row of that number, whoever put
it there and however late: nobody can commit another one. What may happen is that entries are missing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

from spectator.errors import ConfigurationError, SpectatorError, typed_as
from spectator.events import RecordedEvent

KEPT_EVENTS: Final = 256
"""Newest events of an episode that are kept at least, if so many came; ``MAXLEN ~`` leaves a few more."""

KEPT_S: Final = 60
"""Seconds that a stream is kept after the last event was put into it."""

LARGEST: Final = 128 * 1024
"""Characters of an event that is put there; of a larger one only that it was committed."""

ANSWER_S: Final = 0.2
"""Seconds within which an answer must come, the making of a connection included."""

SCHEMES: Final[Mapping[str, str]] = {
    "redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss", "unix": "unix",
}  # fmt: skip
"""What a URL may begin with, and what redis-py calls it."""

RULE: Final = (
    "must be the URL of a Redis or Valkey, redis://user:password@host:6379/0 (rediss:// with TLS, unix:// "
    "for a socket), with signs such as @ and / in the password percent-encoded, and only ssl_* behind a ?"
)

INSTALL: Final = "pip install 'openenv-spectator[cache]'"

_VERSION: Final = 1  # of keys and entries: servers of versions that differ in these leave each other's alone
_PROOF: Final = f"spectator:{_VERSION}:proof"
_FIELD: Final = b"event"
_REFUSED: Final = "equal or smaller"  # what the server says of an id that is not above the last one


class CacheFailed(SpectatorError):
    """The cache did not do what it was asked."""


@dataclass(frozen=True, slots=True)
class WantedEvents:
    """What is wanted of an episode.

    Args:
        episode_id: Which.
        epoch: Identity of its numbering.
        after_seq: Only later ones.
        limit: At most so many.
    """

    episode_id: str
    epoch: str
    after_seq: int
    limit: int

    @property
    def key(self) -> str:
        """The name of the stream."""
        return key_of(self.episode_id, self.epoch)


def key_of(episode_id: str, epoch: str) -> str:
    """The name of an episode's stream."""
    return f"spectator:{_VERSION}:{episode_id}:{epoch}"


def is_redis(url: str) -> bool:
    """Whether a URL says where a Redis is, as :data:`RULE` has it.

    >>> is_redis("redis://:secret@cache:6379/0"), is_redis("unix:///run/redis.sock"), is_redis("cache:6379")
    (True, True, False)
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme not in SCHEMES or parts.fragment or re.search(r"[\s\x00-\x1f]", url):
        return False
    if any(not name.startswith("ssl_") for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        return False
    if parts.scheme == "unix":
        return not parts.hostname and len(parts.path) > 1
    return bool(parts.hostname) and port != 0 and re.fullmatch(r"/?|/\d{1,4}", parts.path) is not None


def shown(url: str) -> str:
    """A URL for people: where it leads, and nothing of who goes there.

    >>> shown("redis://me:secret@cache:6380/1")
    'redis://cache:6380/1'
    """
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return SplitResult(parts.scheme, place, parts.path, "", "").geturl()


class RedisStreams:
    """Streams of a Redis or Valkey, over connections that are made when they are first wanted.

    Every question fails with :class:`CacheFailed` where it is not answered within :data:`ANSWER_S`.

    Args:
        url: Where it is, with its password.

    Raises:
        ConfigurationError: redis-py is not installed, or does not take the URL.
    """

    def __init__(self, url: str) -> None:
        self._client = _client(url)

    async def prove(self) -> None:
        """Make sure that it can be written and read."""
        await self._answered([("XADD", _PROOF, "MAXLEN", 1, "*", "at", ""), ("EXPIRE", _PROOF, KEPT_S)])
        await self._answered([("XRANGE", _PROOF, "-", "+", "COUNT", 1)])

    async def put(self, events: Iterable[RecordedEvent]) -> None:
        """Add committed events, those of an episode in the order of their numbers.

        A stream that is not behind them holds what a journal has lost since, or is being asked the second
        time; it is begun anew.
        """
        streams: dict[str, list[RecordedEvent]] = {}
        for one in events:
            streams.setdefault(key_of(one.episode_id, one.event.epoch), []).append(one)
        refused = await self._put(streams)
        if refused:
            await self._answered([("DEL", *refused)])
            await self._put({key: streams[key] for key in refused})

    async def _put(self, streams: Mapping[str, Sequence[RecordedEvent]]) -> list[str]:
        commands: list[tuple[Any, ...]] = []
        for key, events in streams.items():
            limit = ("MAXLEN", "~", KEPT_EVENTS)
            texts = [(one.seq, one.text if len(one.text) <= LARGEST else "") for one in events]
            commands += [("XADD", key, *limit, f"{seq}-0", _FIELD, text) for seq, text in texts]
            commands.append(("EXPIRE", key, KEPT_S))
        answers = await self._answered(commands, passing=_REFUSED)
        wrong = [command[1] for command, one in zip(commands, answers, strict=True) if _is_error(one)]
        return list(dict.fromkeys(wrong))

    async def read(self, wanted: Sequence[WantedEvents]) -> list[list[tuple[int, str]]]:
        """Numbers and texts of the events that are there, for each of ``wanted``; no text of a large one."""
        answers = await self._answered(
            [("XRANGE", one.key, f"{one.after_seq + 1}-0", "+", "COUNT", one.limit) for one in wanted]
        )
        with typed_as(_failure):
            return [[_entry(*entry) for entry in entries] for entries in answers]

    async def aclose(self) -> None:
        """Let go of the connections; whatever that says is nobody's business any more."""
        try:
            with typed_as(_failure):
                async with asyncio.timeout(ANSWER_S):
                    await self._client.aclose()
        except CacheFailed:
            pass

    async def _answered(self, commands: Sequence[tuple[Any, ...]], passing: str = "") -> list[Any]:
        """The answers to commands that are sent at once; refusals that say ``passing`` are among them."""
        with typed_as(_failure):
            async with asyncio.timeout(ANSWER_S):
                pipeline = self._client.pipeline(transaction=False)
                for command in commands:
                    pipeline.execute_command(*command)
                answers: list[Any] = await pipeline.execute(raise_on_error=False)
            for one in answers:
                if _is_error(one) and not (passing and passing in str(one)):
                    raise one
        return answers


def _entry(number: bytes, fields: Any) -> tuple[int, str]:
    return int(number.partition(b"-")[0]), fields[_FIELD].decode()


def _is_error(answer: Any) -> bool:
    return isinstance(answer, Exception)


def _failure(error: Exception) -> SpectatorError:
    if isinstance(error, TimeoutError):
        return CacheFailed(f"no answer within {ANSWER_S:g} s")
    return CacheFailed(" ".join(str(error).split()) or type(error).__name__)


def _client(url: str) -> Any:
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError as error:
        raise ConfigurationError(f"SPECTATOR_CACHE_URL: a cache needs redis-py; {INSTALL}") from error
    scheme, _, rest = url.partition("://")
    options: dict[str, Any] = {"protocol": 2, "max_connections": 8, "retry": Retry(NoBackoff(), 0)}
    options |= dict.fromkeys(("socket_timeout", "socket_connect_timeout"))  # bounded by whoever asks
    try:
        return Redis.from_url(f"{SCHEMES[scheme]}://{rest}", **options)
    except (KeyError, ValueError, TypeError, OSError):  # which may have the password in what they say
        raise ConfigurationError(f"SPECTATOR_CACHE_URL: {RULE}") from None
