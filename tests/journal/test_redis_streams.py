"""Events as streams of a real Redis: what is put is read, in order, and nothing waits for it for long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from spectator.events import RecordedEvent
from spectator.journal.stores import redis_streams
from spectator.journal.stores.redis_streams import (
    ANSWER_S,
    KEPT_EVENTS,
    KEPT_S,
    CacheFailed,
    RedisStreams,
    WantedEvents,
    is_redis,
    key_of,
    shown,
)
from tests.journal.records import said, started
from tests.redis_server import PASSWORD, RedisServer
from tests.serving import PATIENCE_S

_Result = TypeVar("_Result")

EPOCH = "e1"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long an answer takes is a matter of the machine, but where a test asks for just that."""
    monkeypatch.setattr(redis_streams, "ANSWER_S", PATIENCE_S)


def asked(url: str, work: Callable[[RedisStreams], Awaitable[_Result]]) -> _Result:
    async def ask() -> _Result:
        streams = RedisStreams(url)
        try:
            return await work(streams)
        finally:
            await streams.aclose()

    return asyncio.run(ask())


def events(*numbers: int, episode_id: str = "ep-1") -> list[RecordedEvent]:
    return [started(episode_id) if number == 1 else said(episode_id, number) for number in numbers]


def wanted(after_seq: int, episode_id: str = "ep-1", limit: int = 200) -> WantedEvents:
    return WantedEvents(episode_id, EPOCH, after_seq, limit)


def texts(found: Sequence[RecordedEvent]) -> list[tuple[int, str]]:
    return [(one.seq, one.text) for one in found]


def test_what_is_put_is_read_after_any_number(redis_server: RedisServer) -> None:
    async def work(streams: RedisStreams) -> None:
        await streams.prove()
        await streams.put([*events(1, 2, 3), *events(1, episode_id="ep-2")])
        await streams.put(events(4))
        whole, later, none, other, unknown, few = await streams.read(
            [wanted(0), wanted(2), wanted(4), wanted(0, "ep-2"), wanted(0, "ep-3"), wanted(0, limit=2)]
        )
        assert whole == texts(events(1, 2, 3, 4))
        assert later == texts(events(3, 4))
        assert none == unknown == []
        assert other == texts(events(1, episode_id="ep-2"))
        assert few == texts(events(1, 2))

    asked(redis_server.url(), work)


def test_the_same_numbers_of_another_epoch_are_apart(redis_server: RedisServer) -> None:
    async def work(streams: RedisStreams) -> None:
        await streams.put(events(1, 2))
        assert await streams.read([WantedEvents("ep-1", "e2", 0, 200)]) == [[]]

    asked(redis_server.url(), work)


def test_a_stream_that_is_not_behind_is_begun_anew(redis_server: RedisServer) -> None:
    """As after a database has lost what it had acknowledged, or when an answer was lost."""

    async def work(streams: RedisStreams) -> None:
        await streams.put([*events(1, 2, 3, 4, 5), *events(1, episode_id="ep-2")])
        await streams.put([*events(4), *events(2, episode_id="ep-2")])
        assert await streams.read([wanted(0), wanted(0, "ep-2")]) == [
            texts(events(4)),
            texts(events(1, 2, episode_id="ep-2")),
        ]

    asked(redis_server.url(), work)


def test_only_the_newest_are_kept_and_not_for_long(redis_server: RedisServer) -> None:
    last = 3 * KEPT_EVENTS
    asked(redis_server.url(), lambda streams: streams.put(events(*range(1, last + 1))))
    (kept,) = redis_server.streams().values()
    assert [number for number, _ in kept] == list(range(last + 1 - len(kept), last + 1))
    assert KEPT_EVENTS <= len(kept) <= KEPT_EVENTS + 100
    assert 0 < redis_server.execute("TTL", key_of("ep-1", EPOCH)) <= KEPT_S


def test_of_an_event_that_is_too_large_only_its_number_is_kept(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = events(2, 10)
    assert len(large.text) > len(small.text)
    monkeypatch.setattr(redis_streams, "LARGEST", len(small.text))

    async def work(streams: RedisStreams) -> list[list[tuple[int, str]]]:
        await streams.put([small, large])
        return await streams.read([wanted(0)])

    assert asked(redis_server.url(), work) == [[*texts([small]), (10, "")]]


def test_whoever_does_not_answer_is_waited_for_no_longer_than_that(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(streams: RedisStreams) -> None:
        await streams.prove()
        redis_server.freeze()
        monkeypatch.setattr(redis_streams, "ANSWER_S", ANSWER_S)
        try:
            questions = [
                lambda: streams.put(events(1)),
                lambda: streams.read([wanted(0)]),
                streams.prove,
            ]
            for question in questions:
                began = time.monotonic()
                with pytest.raises(CacheFailed, match=r"^no answer within 0\.2 s$"):
                    await question()
                assert time.monotonic() - began < 5
        finally:
            monkeypatch.setattr(redis_streams, "ANSWER_S", PATIENCE_S)
            redis_server.thaw()
        await streams.put(events(2))  # nothing that was left unread is taken for an answer to this
        assert await streams.read([wanted(1)]) == [texts(events(2))]

    asked(redis_server.url(), work)


def test_a_server_that_was_killed_fails_and_works_once_it_is_back(redis_server: RedisServer) -> None:
    async def work(streams: RedisStreams) -> None:
        await streams.put(events(1))
        redis_server.stop()
        with pytest.raises(CacheFailed):
            await streams.put(events(2))
        with pytest.raises(CacheFailed, match="connect"):
            await streams.prove()
        redis_server.start()
        await streams.prove()
        await streams.put(events(3))
        assert await streams.read([wanted(0)]) == [texts(events(3))]

    asked(redis_server.url(), work)


@pytest.mark.parametrize(
    ("command", "undo", "said_of_it"),
    [
        (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"), "maxmemory"),
        (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"), "read only"),
    ],
)
def test_one_that_takes_nothing_is_proved_useless(
    redis_server: RedisServer, command: tuple[str, ...], undo: tuple[str, ...], said_of_it: str
) -> None:
    redis_server.execute(*command)
    try:
        with pytest.raises(CacheFailed, match=said_of_it):
            asked(redis_server.url(), lambda streams: streams.prove())
    finally:
        redis_server.execute(*undo)


def test_another_kind_of_value_under_our_name_is_a_failure(redis_server: RedisServer) -> None:
    redis_server.execute("SET", key_of("ep-1", EPOCH), "somebody else's")
    for work in (
        lambda streams: streams.put(events(1)),
        lambda streams: streams.read([wanted(0)]),
    ):
        with pytest.raises(CacheFailed, match="wrong kind of value"):
            asked(redis_server.url(), work)
    redis_server.execute("DEL", key_of("ep-1", EPOCH))
    redis_server.execute("XADD", key_of("ep-1", EPOCH), "1-0", "other", "field")
    with pytest.raises(CacheFailed):
        asked(redis_server.url(), lambda streams: streams.read([wanted(0)]))


def test_a_wrong_password_is_told_without_it(redis_server: RedisServer) -> None:
    url = redis_server.url().replace(PASSWORD, "s3cret-but-wrong")
    with pytest.raises(CacheFailed) as failed:
        asked(url, lambda streams: streams.prove())
    assert "invalid" in str(failed.value)
    assert "s3cret" not in str(failed.value)
    assert shown(url) == f"redis://127.0.0.1:{redis_server.port}/0"


@pytest.mark.parametrize(
    ("url", "fits"),
    [
        ("redis://cache", True),
        ("redis://cache:6379", True),
        ("redis://me:s3cret%2F@cache:6379/15", True),
        ("rediss://cache:6380/0?ssl_ca_certs=/etc/ca.pem", True),
        ("valkey://cache:6379/0", True),
        ("valkeys://[::1]:6379/0", True),
        ("unix:///run/redis.sock", True),
        ("", False),
        ("cache:6379", False),
        ("redis://", False),
        ("redis://:s3/cret@cache:6379/0", False),
        ("redis://cache:0/0", False),
        ("redis://cache:99999/0", False),
        ("redis://cache/zero", False),
        ("redis://cache/0/1", False),
        ("redis://cache/0?socket_timeout=90", False),
        ("redis://cache/0#1", False),
        ("redis://ca che/0", False),
        ("redis://cache/0\n", False),
        ("http://cache:6379/0", False),
        ("unix://", False),
        ("redis://[::1/0", False),
    ],
)
def test_what_is_a_url_of_a_cache(url: str, fits: bool) -> None:
    assert is_redis(url) is fits
    if fits:
        asked(url, _nothing)
    assert "s3cret" not in (shown(url) if fits else "")


async def _nothing(streams: RedisStreams) -> None:
    """Ask nothing."""
