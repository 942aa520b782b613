"""The live WebSocket of a real server, watched by real sockets."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from server.transport import keepalive
from tests.by_hand import masked
from tests.gate import Gate
from tests.server.watching import Watcher, open_by_hand, watch
from tests.serving import Serving, serve, test_settings, without_errors

LONG = {"pace": "broadcast", "options": {"turns": 1000}}
"""An episode that outlives any test."""


def recorded(serving: Serving, episode_id: str) -> list[str]:
    return serving.client.get(f"/api/episodes/{episode_id}/events").text.splitlines()


def played(serving: Serving, **body: Any) -> tuple[str, list[dict[str, Any]]]:
    """An episode that has ended, and its recorded events."""
    episode_id = serving.start(**body)
    serving.finish(episode_id)
    return episode_id, [json.loads(line) for line in recorded(serving, episode_id)]


def position(events: list[dict[str, Any]], seq: int) -> str:
    return f"epoch={events[0]['epoch']}&seq={seq}"


def test_a_viewer_sees_every_event_in_the_recorded_encoding(serving: Serving) -> None:
    episode_id = serving.start(pace="fast", options={"turns": 5})
    with watch(f"{serving.ws_url}/live/{episode_id}") as watcher:
        assert watcher.to_the_end()[0] == 1000
    lines = recorded(serving, episode_id)
    seen = [text for text in watcher.texts if text.startswith('{"frame":"event"')]
    assert seen == ['{"frame":"event",' + line[1:] for line in lines[-len(seen) :]]
    assert watcher.kinds()[:2] == ["hello", "snapshot"]
    assert watcher.frames[0] == {
        "frame": "hello",
        "protocol": 1,
        "episode_id": episode_id,
        "epoch": json.loads(lines[0])["epoch"],
        "head_seq": watcher.frames[0]["head_seq"],
        "viewers": 1,
    }
    assert watcher.frames[-1] == {"frame": "bye", "code": 1000, "reconnect": False, "reason": "ended"}
    assert watcher.state["episode"]["status"] == "ended"
    assert watcher.state["world"]["said"] == 5


def test_a_late_viewer_ends_with_the_same_state_as_an_early_one(serving: Serving) -> None:
    episode_id = serving.start(pace="fast", options={"turns": 8})
    with watch(f"{serving.ws_url}/live/{episode_id}") as early:
        for _ in range(12):
            early.until("event")
        with watch(f"{serving.ws_url}/live/{episode_id}") as late:
            late.to_the_end()
        early.to_the_end()
    assert late.frames[1]["frame"] == "snapshot" and late.frames[1]["seq"] >= 12
    assert late.state == early.state


def test_viewers_that_join_at_any_moment_end_with_the_recorded_state(serving: Serving) -> None:
    episode_id = serving.start(pace="fast", options={"turns": 6})
    watchers: list[Watcher] = []

    def join(delay: threading.Event, after: float) -> None:
        delay.wait(after)
        with watch(f"{serving.ws_url}/live/{episode_id}") as watcher:
            watcher.to_the_end()
        watchers.append(watcher)

    never = threading.Event()
    threads = [threading.Thread(target=join, args=(never, 0.03 * place)) for place in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(watchers) == 16
    assert all(watcher.state == watchers[0].state for watcher in watchers)
    assert watchers[0].seq == len(recorded(serving, episode_id))


@pytest.mark.parametrize("seq", [0, 1, 7, 33])
def test_resuming_gives_exactly_the_missing_events(serving: Serving, seq: int) -> None:
    episode_id, events = played(serving)
    with watch(f"{serving.ws_url}/live/{episode_id}?{position(events, seq)}") as watcher:
        watcher.seq = seq
        watcher.to_the_end()
    assert watcher.kinds() == ["hello", *["event"] * (len(events) - seq), "bye"]
    assert watcher.events() == list(range(seq + 1, len(events) + 1))


def test_resuming_at_the_head_gives_nothing_again(serving: Serving) -> None:
    episode_id, events = played(serving)
    with watch(f"{serving.ws_url}/live/{episode_id}?{position(events, len(events))}") as watcher:
        watcher.to_the_end()
    assert watcher.kinds() == ["hello", "bye"]


@pytest.mark.parametrize("query", ["epoch={epoch}&seq=99999", "epoch=other&seq=3", "epoch={epoch}&seq=-1"])
@pytest.mark.parametrize("live", [True, False], ids=["live", "recorded"])
def test_what_cannot_be_proved_gets_an_honest_snapshot(serving: Serving, query: str, live: bool) -> None:
    if live:
        episode_id = serving.start(**LONG)
        epoch = serving.client.get(f"/api/episodes/{episode_id}").json()["epoch"]
    else:
        episode_id, events = played(serving)
        epoch = events[0]["epoch"]
    with watch(f"{serving.ws_url}/live/{episode_id}?{query.format(epoch=epoch)}") as watcher:
        hello, snapshot = watcher.next(), watcher.next()
    assert hello["frame"] == "hello"
    assert snapshot["frame"] == "snapshot" and snapshot["seq"] == hello["head_seq"]


def test_an_absurd_seq_is_a_position_in_the_future(serving: Serving) -> None:
    episode_id, events = played(serving)
    with watch(f"{serving.ws_url}/live/{episode_id}?{position(events, 10**19)}") as watcher:
        watcher.to_the_end()
    assert watcher.kinds() == ["hello", "snapshot", "bye"]


@pytest.mark.parametrize(
    "query",
    ["seq=3", "epoch=ab", "epoch=ab&seq=x", "epoch=ab&seq=1.5", "epoch=&seq=1", f"epoch=a&seq={'9' * 21}"],
)
def test_a_malformed_position_is_refused(serving: Serving, query: str) -> None:
    with watch(f"{serving.ws_url}/live/{serving.start(**LONG)}?{query}") as watcher:
        code, bye = watcher.to_the_end()
    assert code == 4400
    assert bye["reconnect"] is False and "epoch" in bye["reason"]


def test_a_viewer_may_ask_to_resume_while_it_watches(serving: Serving) -> None:
    with watch(f"{serving.ws_url}/live/{serving.start(**LONG)}") as watcher:
        epoch = watcher.next()["epoch"]
        watcher.until("snapshot")
        serving.client.post("/custom/pause", json={})
        serving.client.post("/custom/resume", json={})
        while watcher.frames[-1].get("type") != "episode.resumed":
            watcher.until("event")
        watcher.say(frame="resume", epoch=epoch, seq=1)
        again = [watcher.until("event")["seq"] for _ in range(watcher.seq - 1)]
        assert again == list(range(2, watcher.seq + 1))
        serving.client.post("/custom/pause", json={})
        assert watcher.until("event")["seq"] == again[-1] + 1


def test_a_viewer_that_lost_its_epoch_gets_a_snapshot_while_it_watches(serving: Serving) -> None:
    with watch(f"{serving.ws_url}/live/{serving.start(**LONG)}") as watcher:
        watcher.until("snapshot")
        watcher.say(frame="resume", epoch="other", seq=1)
        assert watcher.until("snapshot")["seq"] == watcher.seq


@pytest.mark.parametrize(
    "name", ["nonsense", "ep-01ARZ3NDEKTSV4RRFFQ69G5FAV", "%00", "a" * 300, "..%2f..%2fetc"]
)
def test_an_unknown_episode_is_told_so(serving: Serving, name: str) -> None:
    try:
        with watch(f"{serving.ws_url}/live/{name}") as watcher:
            code, bye = watcher.to_the_end()
    except InvalidStatus as refused:
        assert refused.response.status_code in (403, 404)  # a path with a slash in it is no route of ours
        return
    assert code == 4001
    assert bye["code"] == 4001 and bye["reconnect"] is False


def test_live_follows_whatever_is_on(serving: Serving) -> None:
    with watch(f"{serving.ws_url}/live") as watcher:
        assert watcher.next() == {"frame": "waiting", "protocol": 1}
        first = serving.start(options={"turns": 3})
        assert watcher.until("hello")["episode_id"] == first
        serving.finish(first)
        assert watcher.until("waiting")
        assert watcher.state["episode"]["status"] == "ended"
        watcher.seq = 0
        second = serving.start(**LONG)
        assert watcher.until("hello")["episode_id"] == second
        assert watcher.until("snapshot")["state"]["episode"]["id"] == second


def test_live_shows_one_episode_after_another_without_a_gap(serving: Serving) -> None:
    with watch(f"{serving.ws_url}/live") as watcher:
        assert watcher.next()["frame"] == "waiting"
        for turns in (1, 4, 2, 3):
            name = serving.start(options={"turns": turns}, pace="fast")
            hello = watcher.until("hello")
            assert hello["episode_id"] == name
            watcher.seq, watcher.state = 0, None
            watcher.until("waiting")
            lines = recorded(serving, name)
            assert watcher.seq == len(lines)
            shown = [text for text in watcher.texts if f'"episode_id":"{name}"' in text][1:]
            assert shown == ['{"frame":"event",' + line[1:] for line in lines[-len(shown) :]]
            assert watcher.state["world"]["said"] == turns
        assert serving.client.get("/metrics").text.count("spectator_viewers 1.0\n") == 1


def test_a_viewer_that_says_goodbye_is_answered(serving: Serving) -> None:
    with watch(f"{serving.ws_url}/live/{serving.start(**LONG)}") as watcher:
        watcher.until("snapshot")
        watcher.socket.close(code=1001, reason="another page")
        assert watcher.socket.close_code == 1001


def test_one_who_does_not_answer_pings_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keepalive, "INTERVAL_S", 0.4)
    with serve(test_settings(tmp_path)) as serving:
        url = f"/live/{serving.start(**LONG)}"
        with watch(serving.ws_url + url) as lively, open_by_hand(serving.base_url, url) as silent:
            got = b""
            while chunk := silent.recv(65_536):
                got += chunk
            assert b'"code":1011,"reconnect":true,"reason":"no answer to a ping"' in got
            assert got.endswith(b"\x88\x15\x03\xf3no answer to a ping")
            serving.client.post("/custom/pause", json={})
            while lively.until("event")["type"] != "episode.paused":
                pass


def test_live_joins_what_is_on_already(serving: Serving) -> None:
    episode_id = serving.start(**LONG)
    with watch(f"{serving.ws_url}/live") as watcher:
        assert watcher.next()["episode_id"] == episode_id
        assert watcher.next()["frame"] == "snapshot"


def test_viewers_are_counted(serving: Serving) -> None:
    episode_id = serving.start(**LONG)
    with watch(f"{serving.ws_url}/live/{episode_id}") as first:
        assert first.until("viewers")["count"] == 1
        with watch(f"{serving.ws_url}/live/{episode_id}") as second:
            assert second.next()["viewers"] == 2
            assert first.until("viewers")["count"] == 2
            assert serving.client.get("/custom/status").json()["running"][0]["viewers"] == 2
        assert first.until("viewers")["count"] == 1


def test_there_is_room_for_so_many_viewers_and_no_more(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, max_viewers=2)) as serving:
        url = f"{serving.ws_url}/live/{serving.start(**LONG)}"
        with watch(url) as first, watch(url):
            with watch(url) as third:
                code, bye = third.to_the_end()
            assert (code, bye["code"], bye["reconnect"]) == (4029, 4029, True)
            assert serving.client.get(f"{url.replace('ws', 'http', 1)}/events").status_code == 503
            assert first.next()["frame"] == "hello"
        while "spectator_viewers 0" not in serving.client.get("/metrics").text:
            pass
        with watch(url) as fourth:
            assert fourth.next()["frame"] == "hello"


def test_one_address_may_take_so_many_places(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, max_viewers_per_address=1)) as serving:
        url = f"{serving.ws_url}/live/{serving.start(**LONG)}"
        with watch(url), watch(url) as second:
            assert second.to_the_end()[0] == 4029


def test_a_ping_is_answered(serving: Serving) -> None:
    with watch(f"{serving.ws_url}/live/{serving.start(**LONG)}") as watcher:
        watcher.say(frame="ping", t=12.5)
        assert watcher.until("pong") == {"frame": "pong", "t": 12.5}


GARBAGE = [
    "",
    "{",
    "null",
    "[]",
    '{"frame":"stop"}',
    '{"frame":"ping"}',
    '{"frame":"ping","t":1e999}',
    '{"frame":"ping","t":NaN}',
    '{"frame":"ping","t":true}',
    '{"frame":"ping","t":1,"u":2}',
    '{"frame":"ping","t":' + "9" * 5000 + "}",
    '{"frame":"resume","epoch":"a"}',
    '{"frame":"resume","epoch":"a","seq":"1"}',
    '{"frame":"resume","epoch":"\\ud800","seq":1}',
    "[" * 10_000,
    b"\x00\xff",
]


@pytest.mark.parametrize("message", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_ends_its_own_socket_and_nothing_else(serving: Serving, message: str | bytes) -> None:
    episode_id = serving.start(pace="fast", options={"turns": 300})
    with watch(f"{serving.ws_url}/live/{episode_id}") as other:
        with watch(f"{serving.ws_url}/live/{episode_id}") as watcher:
            watcher.socket.send(message)
            code, bye = watcher.to_the_end()
        assert (code, bye["code"], bye["reconnect"]) == (4400, 4400, False)
        before = other.seq
        while other.seq < before + 5:
            other.next()


def test_a_message_beyond_the_limit_is_too_big(serving: Serving) -> None:
    with watch(f"{serving.ws_url}/live/{serving.start(**LONG)}") as watcher:
        watcher.until("snapshot")
        with contextlib.suppress(ConnectionClosed):
            watcher.socket.send("x" * (16 * 1024 + 1))
        code, _ = watcher.to_the_end()
        assert code in (1009, 1006), "the close may be lost when we still send"


def test_a_message_in_countless_fragments_ends_its_socket(serving: Serving) -> None:
    with watch(f"{serving.ws_url}/live/{serving.start(**LONG)}") as watcher:
        watcher.until("snapshot")
        with contextlib.suppress(ConnectionClosed):
            watcher.socket.send("" for _ in range(1000))
        watcher.to_the_end()
        assert watcher.socket.close_code in (1009, 1006), "the close may be lost when we still send"


def test_a_flood_is_refused(serving: Serving) -> None:
    pings = b"".join(masked(b'{"frame":"ping","t":%d}' % t) for t in range(60))
    with watch(f"{serving.ws_url}/live/{serving.start(**LONG)}") as watcher:
        watcher.socket.socket.sendall(pings)  # at once: who still sends when it is closed may lose the reason
        code, bye = watcher.to_the_end()
    assert code == 4400 and "messages a second" in bye["reason"]


def test_a_page_of_another_site_may_not_watch(serving: Serving) -> None:
    episode_id = serving.start(**LONG)
    with (
        pytest.raises(InvalidStatus) as refused,
        watch(f"{serving.ws_url}/live/{episode_id}", origin="https://evil.example"),
    ):
        pass
    assert refused.value.response.status_code == 403
    assert refused.value.response.headers["content-type"] == "application/problem+json"


def test_a_viewer_that_does_not_read_is_left_behind_and_holds_up_nobody(tmp_path: Path) -> None:
    with without_errors(), serve(test_settings(tmp_path, viewer_backlog_bytes=2 * 1024 * 1024)) as serving:
        episode_id = serving.start(pace="fast", options={"turns": 2000, "payload_bytes": 65_536})
        url = f"{serving.ws_url}/live/{episode_id}"
        with watch(url) as quick, watch(url, max_queue=1) as stalled:
            quick.until("event")
            serving.client.post("/custom/pace", json={"pace": "max"})
            while serving.server.config.app.state.services.audience.closed.total() == 0:  # type: ignore[union-attr]
                quick.until("event")
            serving.client.post("/custom/stop_episode", json={})
            code, _ = quick.to_the_end()
            assert code == 1000 and quick.state["episode"]["status"] == "ended"
            code, bye = stalled.to_the_end()
            assert (code, bye["code"], bye["reconnect"]) == (4008, 4008, True)
            assert stalled.seq < quick.seq
        epoch = stalled.frames[0]["epoch"]
        with watch(f"{url}?epoch={epoch}&seq={stalled.seq}") as returned:
            returned.state, returned.seq = stalled.state, stalled.seq
            returned.to_the_end()
        assert returned.state == quick.state


def test_closing_a_server_is_not_held_up_by_a_viewer_that_does_not_read(
    tmp_path: Path, test_worlds: Gate
) -> None:
    with serve(test_settings(tmp_path)) as serving:
        url = f"{serving.ws_url}/live/{serving.start(environment='stuck')}"
        with watch(url, max_queue=1) as stalled:
            assert test_worlds.reached.wait(5)
            serving.server.should_exit = True
            code, bye = stalled.to_the_end()
    assert (code, bye["code"], bye["reconnect"]) == (1012, 1012, True)


def test_countless_pings_whose_answers_are_not_read_end_their_socket(serving: Serving) -> None:
    ping = b"\x89\xfd" + b"\x00" * 4 + b"x" * 125
    with (
        open_by_hand(serving.base_url, f"/live/{serving.start(**LONG)}") as peer,
        pytest.raises(OSError) as cut,
    ):
        for _ in range(2000):
            peer.sendall(ping * 200)
    assert isinstance(cut.value, ConnectionError), "it was cut, not merely left to wait"


def test_a_million_pings_end_their_socket_early_even_when_every_answer_is_read(serving: Serving) -> None:
    episode_id = serving.start(**LONG)
    ping = b"\x89\x80" + b"\x00" * 4
    answers = bytearray()

    def read(peer: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := peer.recv(65_536):
                answers.extend(chunk)

    with open_by_hand(serving.base_url, f"/live/{episode_id}") as peer:
        reading = threading.Thread(target=read, args=(peer,))
        reading.start()
        with pytest.raises(ConnectionError):
            for _ in range(10_000):
                peer.sendall(ping * 100)
        reading.join()
    assert answers.count(b"\x8a\x00") < 50_000, "more than one reading of the socket holds"
    with watch(f"{serving.ws_url}/live/{episode_id}") as other:
        assert other.next()["frame"] == "hello"


@pytest.mark.parametrize("count", [1, 4])
def test_messages_of_a_megabyte_end_their_socket_and_nothing_else(serving: Serving, count: int) -> None:
    episode_id = serving.start(pace="fast", options={"turns": 300})
    header = b"\x81\xff" + (2**20).to_bytes(8, "big") + b"\x00" * 4
    with watch(f"{serving.ws_url}/live/{episode_id}") as other:
        with (
            open_by_hand(serving.base_url, f"/live/{episode_id}") as peer,
            contextlib.suppress(ConnectionError),
        ):
            for _ in range(count):
                peer.sendall(header + b"x" * 2**20)
            while peer.recv(65_536):
                pass
        before = other.seq
        while other.seq < before + 3:
            other.next()


@pytest.mark.parametrize(
    "rude",
    [
        b"\x00" * 200,
        b"\xff" * 200,
        b"\x81\x05hello",
        b"\x81\xfe\xff\xff\x00\x00\x00\x00",
        b"\x81\xff" + b"\xff" * 12,
        b"\x88\x81\x00\x00\x00\x00\x01",
        b"\x81\x82\x00\x00\x00\x00\xff\xfe",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["reserved", "ones", "unmasked", "too long", "absurd length", "short close", "not utf-8", "http"],
)
def test_broken_framing_ends_its_socket_and_nothing_else(serving: Serving, rude: bytes) -> None:
    episode_id = serving.start(pace="fast", options={"turns": 300})
    with watch(f"{serving.ws_url}/live/{episode_id}") as other:
        with open_by_hand(serving.base_url, f"/live/{episode_id}") as peer:
            peer.sendall(rude)
            with contextlib.suppress(ConnectionError):
                while peer.recv(65536):
                    pass
        before = other.seq
        while other.seq < before + 3:
            other.next()


def test_a_viewer_that_vanishes_is_forgotten(serving: Serving) -> None:
    episode_id = serving.start(pace="fast", options={"turns": 300})
    with watch(f"{serving.ws_url}/live/{episode_id}") as other:
        peer = open_by_hand(serving.base_url, f"/live/{episode_id}")
        other.until("event")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        while serving.client.get("/custom/status").json()["running"][0]["viewers"] != 1:
            other.until("event")
