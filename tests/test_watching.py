"""The terminal shows what every viewer sees, live and recorded, and nothing a stranger wrote can escape."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import json
import os
import pty
import random
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from websockets.asyncio.server import ServerConnection, serve

from spectator.terminal import WatchedMoment, live_url, watch_live
from spectator.terminal_drawing import draw
from tests.commands import spectator
from tests.serving import PATIENCE_S, test_settings
from tests.serving import serve as serve_app


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("http://h:8000", "ws://h:8000/live"),
        ("https://h/", "wss://h/live"),
        ("http://h/watch/ep-1?seq=3", "ws://h/live/ep-1"),
        ("http://h/replay/ep-1", "ws://h/live/ep-1"),
        ("ws://h/live/ep-1", "ws://h/live/ep-1"),
    ],
)
def test_any_address_that_a_person_would_copy_will_do(address: str, url: str) -> None:
    assert live_url(address) == url


@pytest.mark.parametrize("address", ["ftp://h", "http://", "ep-1://"])
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match="not a URL of a server"):
        live_url(address)


async def follow(url: str) -> list[WatchedMoment]:
    return [sight async for sight in watch_live(url, rng=random.Random(1))]


def test_a_live_episode_is_followed_to_its_end(tmp_path: Path) -> None:
    with serve_app(test_settings(tmp_path)) as serving:
        episode_id = serving.start(environment="counting", pace="fast", options={"turns": 5})
        sights = asyncio.run(follow(live_url(f"{serving.base_url}/watch/{episode_id}")))
        again = asyncio.run(follow(live_url(f"{serving.base_url}/watch/{episode_id}")))
    assert sights[-1].over
    assert {one.state["episode"]["turn"] for one in again if one.state} == set(range(6)), "from its record"
    assert again[-1] == sights[-1]
    assert sights[-1].state["world"] == {
        "turns": 5,
        "said": 5,
        "correct": 5,
        "last": 5,
        "result": "right",
        "headline": "5 counted, right",
        "glance": {"step": 5, "progress": 1.0, "value": 5, "unit": "right"},
    }
    assert sights[-1].state["episode"]["status"] == "ended"


def test_where_nothing_can_be_drawn_twice_it_is_told_line_by_line(tmp_path: Path) -> None:
    with serve_app(test_settings(tmp_path)) as serving:
        episode_id = serving.start(environment="counting", pace="fast", options={"turns": 5})
        shown = spectator("watch", f"{serving.base_url}/watch/{episode_id}")
    lines = shown.stdout.splitlines()
    assert shown.exit_code == 0
    assert lines[0].startswith("connecting to 127.0.0.1")
    assert lines[1] == "connected" and lines[2].startswith("Counting  Careful counter")
    assert [line for line in lines if "5 of 5 right" in line] == ["end 5 of 5 right.", "5 of 5 right"]
    assert "\x1b" not in shown.stdout


def test_a_terminal_is_redrawn_and_left_as_it_was(tmp_path: Path) -> None:
    terminal, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with serve_app(test_settings(tmp_path)) as serving:
        serving.start(environment="counting", pace="fast", options={"turns": 1000})
        process = subprocess.Popen(
            [sys.executable, "-m", "spectator.cli", "watch", serving.base_url],
            env={**os.environ, "TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        screen = b""
        try:
            while screen.count(b"Careful counter") < 3:
                screen += os.read(terminal, 65_536)
            os.write(terminal, b" ")
            while b"paused" not in screen:
                screen += os.read(terminal, 65_536)
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(OSError):  # the terminal ends with its process
                while more := os.read(terminal, 65_536):
                    screen += more
            assert process.wait(PATIENCE_S) == 130
        finally:
            process.kill()
            process.wait()
            os.close(terminal)
    assert screen.rstrip().endswith(b"\x1b[?25h"), "the cursor is shown again"
    assert b"Traceback" not in screen


def test_what_can_never_be_shown_ends_with_the_reason(tmp_path: Path) -> None:
    with serve_app(test_settings(tmp_path)) as serving:
        shown = spectator("watch", f"{serving.base_url}/watch/ep-01K9ZQ3V5M0000000000000000")
        (*_, last) = asyncio.run(follow(f"{serving.ws_url}/nowhere"))
    assert shown.exit_code == 1 and "Error: no such episode" in shown.stderr
    assert last.over and last.failed and "there is no live channel" in last.connection


def test_a_server_of_another_kind_is_no_live_channel() -> None:
    async def scenario(text: str) -> WatchedMoment:
        async def channel(connection: ServerConnection) -> None:
            await connection.send(text)

        async with serve(channel, "127.0.0.1", 0) as listener:
            port = next(iter(listener.sockets)).getsockname()[1]
            return (await follow(f"ws://127.0.0.1:{port}/live"))[-1]

    for text in ("hello", "[]", "7", '{"frame":"snapshot"}', '{"frame":"hello"}'):
        last = asyncio.run(scenario(text))
        assert last.failed and "does not speak the live protocol" in last.connection


def test_what_stands_still_or_has_not_begun_says_so() -> None:
    frames = [
        {"frame": "waiting", "protocol": 1},
        {"frame": "hello", "epoch": "e", "episode_id": "ep-1"},
        {"frame": "snapshot", "epoch": "e", "seq": 1, "state": {"n": 1}},
        {"frame": "trouble", "message": "the journal cannot be written: full", "since": "now"},
        {"frame": "trouble", "message": None, "since": None},
        {"frame": "hello", "epoch": "f", "episode_id": "ep-2"},
        {"frame": "bye", "code": 1000, "reconnect": False, "reason": "ended"},
    ]

    async def channel(connection: ServerConnection) -> None:
        for frame in frames:
            await connection.send(json.dumps(frame))

    async def scenario() -> list[WatchedMoment]:
        async with serve(channel, "127.0.0.1", 0) as listener:
            port = next(iter(listener.sockets)).getsockname()[1]
            return (await follow(f"ws://127.0.0.1:{port}/live"))[1:]

    sights = asyncio.run(scenario())
    assert [sight.connection.partition(";")[0] for sight in sights] == [
        "no live episode",
        "connected",
        "connected",
        "play is paused: the journal cannot be written: full",
        "connected",
        "connected",
        "ended",
    ]
    assert [sight.state for sight in sights] == [{}, {}, {"n": 1}, {"n": 1}, {"n": 1}, {}, {}]


def test_a_recorded_episode_is_shown_by_the_command(tmp_path: Path) -> None:
    played = spectator("play", "counting", "--data-dir", tmp_path)
    episode_id = json.loads(played.stdout.splitlines()[0])["episode_id"]
    shown = spectator("watch", episode_id, "--data-dir", tmp_path, "--turn-seconds", "0")
    assert shown.exit_code == 0
    assert "10 of 10 right" in shown.stdout


def test_a_record_is_gone_through_by_keys_and_left(tmp_path: Path) -> None:
    """It stands still until keys say otherwise, lists them, and leaves the terminal as it was."""
    played = spectator("play", "counting", "--data-dir", tmp_path)
    episode_id = json.loads(played.stdout.splitlines()[0])["episode_id"]
    terminal, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    before = termios.tcgetattr(slave)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "spectator.cli", "watch", episode_id),
            *("--data-dir", str(tmp_path), "--turn-seconds", "3600"),
        ],
        env={**os.environ, "TERM": "xterm"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    screen = b""
    try:
        for keys, told in (
            (b"", "playing · 1 of "),
            (b"\x1b[F", "10 of 10 right"),
            (b"\x1b[D", "paused"),
            (b"++", "4×"),
            (b"?", "previous or next big moment"),
            (b"?", "paused"),
            (b"", "\x1b[2J"),
        ):
            os.write(terminal, keys)
            if not keys and screen:  # the window is made smaller: all is drawn again
                fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
                process.send_signal(signal.SIGWINCH)
            screen = b""
            while told.encode() not in screen:
                screen += os.read(terminal, 65_536)
        os.write(terminal, b"q")
        with contextlib.suppress(OSError):  # there may be nothing more
            while b"\x1b[?25h" not in screen:
                screen += os.read(terminal, 65_536)
        assert process.wait(PATIENCE_S) == 0
        assert termios.tcgetattr(slave) == before
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(terminal)


@pytest.mark.parametrize("source", ["ep-unknown", "ftp://nowhere"])
def test_a_source_that_is_nothing_is_refused(source: str, tmp_path: Path) -> None:
    spectator("play", "counting", "--data-dir", tmp_path)
    shown = spectator("watch", source, "--data-dir", tmp_path)
    assert shown.exit_code != 0
    assert "Traceback" not in shown.output


def event(seq: int, epoch: str = "e") -> str:
    patch = {"episode": {"turn": seq}}
    return json.dumps({"frame": "event", "epoch": epoch, "seq": seq, "patch": patch})


def test_a_cut_connection_resumes_and_a_gap_asks_for_a_snapshot() -> None:
    asked: list[str] = []
    snapshot = json.dumps({"frame": "snapshot", "epoch": "e", "seq": 1, "state": {"episode": {"turn": 1}}})
    again = json.dumps({"frame": "snapshot", "epoch": "e", "seq": 9, "state": {"episode": {"turn": 9}}})
    bye = json.dumps({"frame": "bye", "code": 1000, "reconnect": False, "reason": "ended"})
    scripts = [[snapshot, event(2)], [event(3), event(3), event(7)], [again, bye]]

    async def channel(connection: ServerConnection) -> None:
        assert connection.request is not None
        asked.append(connection.request.path)
        for text in scripts[len(asked) - 1]:
            await connection.send(text)

    async def scenario() -> list[WatchedMoment]:
        async with serve(channel, "127.0.0.1", 0) as listener:
            port = next(iter(listener.sockets)).getsockname()[1]
            return await follow(f"ws://127.0.0.1:{port}/live")

    sights = asyncio.run(scenario())
    assert asked == ["/live", "/live?epoch=e&seq=2", "/live"]
    turns = [sight.state["episode"]["turn"] for sight in sights if sight.connection == "connected"]
    assert turns == sorted(turns)
    assert sights[-1] == WatchedMoment({"episode": {"turn": 9}}, "ended", over=True)


def rendered(state: Mapping[str, Any]) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    console.print(draw(state, "connected"))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO above
    return text


def test_text_from_models_cannot_command_the_terminal() -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J[red]x[/red]\u202egnol\r\nlast"
    decision = {"source": "model", "action": {"tool": hostile}, "reasoning": hostile}
    line = {"text": hostile, "priority": 0, "label": hostile, "at": hostile}
    episode = {"title": hostile, "seats": {}, "seed": 1, "turn": 1, "status": "live", "result": hostile}
    text = rendered(
        {
            "episode": episode,
            "decisions": {hostile: decision},
            "feed": {"1": line},
            "world": {"headline": hostile},
        }
    )
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
    assert "[red]x[/red]" in text


def test_an_empty_state_says_how_the_connection_is() -> None:
    assert "connected" in rendered({})


TEAMS = {"home": {"name": "Lions"}, "away": {"name": "Bears"}}
BATTER = {"runs": 23, "balls": 17, "fours": 2, "sixes": 1}
CRICKET: dict[str, Any] = {
    "episode": {
        "environment": "cricket", "title": "T20 cricket", "seed": 1, "turn": 9, "status": "live",
        "agent": "home", "seats": {"away": {"label": "Marlin"}, "home": {"label": "Kestrel"}},
    },
    "decisions": {
        "home": {
            "source": "fallback", "failure_class": "timeout", "action": {"tool": "play_delivery"},
        }
    },
    "world": {
        "headline": "Lions 45/2", "teams": TEAMS, "batting": "home",
        "score": {"home": {"runs": 45, "wickets": 2, "balls": 39, "overs": "6.3"}},
        "equation": {"need": 75, "balls": 81, "required": 5.56, "current": 6.9},
        "batters": {"striker": {"name": "A Batter", **BATTER}, "non_striker": {"name": "B Batter", **BATTER}},
        "bowler": {"name": "C Bowler", "overs": "1.3", "maidens": 0, "runs": 7, "wickets": 0, "left": 2},
        "over": {"number": 7, "marks": ["1", "4", "W"]}, "partnership": {"runs": 12, "balls": 9},
        "forecast": {"home": 0.64}, "chances": {"1": {"06.3": {"home": 0.64}}},
    },
    "feed": {f"{n:010}": {"text": f"{n} " + "long " * 40, "priority": 3, "at": "6.3"} for n in range(60)},
}  # fmt: skip


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 50)])
def test_a_terminal_shows_the_match_both_minds_and_uses_its_height(width: int, height: int) -> None:
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(draw(CRICKET, "connected", console))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO above
    for told in (
        "Lions 45/2 (6.3), need 75 off 81, 5.6 an over", "*A Batter 23 (17)", "stand 12 off 9",
        "C Bowler 1.3-0-7-0, 2 left", "Over 7  1 4 W", "Lions 64 %", "36 % Bears", "fallback: timeout",
        "has not decided yet", "Ctrl+C quits", " K  Lions Kestrel 64 %", " M  Bears Marlin 36 %",
        "Marlin (Bears) v Kestrel (Lions)",
    ):  # fmt: skip
        assert told in text, told
    assert height - 2 <= len(text.splitlines()) <= height
    assert text.index("play_delivery") < text.index("has not decided yet")


def test_a_state_of_another_version_falls_back_to_its_headline() -> None:
    strange = {**CRICKET, "world": {"headline": "Lions 45/2", "teams": {}, "batting": "home"}}
    assert "Lions 45/2" in rendered(strange)
