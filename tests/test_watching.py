"""The terminal shows what every viewer sees, live and recorded, and nothing a stranger wrote can escape."""

from __future__ import annotations

import asyncio
import io
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console
from websockets.asyncio.server import ServerConnection, serve

from spectator.cli import main
from spectator.terminal import draw
from spectator.watching import Sight, live_url, watch_live
from tests.serving import serve as serve_app
from tests.serving import test_settings


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
    with pytest.raises(ValueError, match="not an address"):
        live_url(address)


async def follow(url: str) -> list[Sight]:
    return [sight async for sight in watch_live(url, rng=random.Random(1))]


def test_a_live_episode_is_followed_to_its_end(tmp_path: Path) -> None:
    with serve_app(test_settings(tmp_path)) as serving:
        episode_id = serving.start(environment="counting", pace="fast", options={"turns": 5})
        sights = asyncio.run(follow(live_url(f"{serving.base_url}/watch/{episode_id}")))
    assert sights[-1].over
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


def test_a_recorded_episode_is_shown_by_the_command(tmp_path: Path) -> None:
    played = CliRunner().invoke(main, ["play", "counting", "--data-dir", str(tmp_path)])
    episode_id = json.loads(played.stdout.splitlines()[0])["episode_id"]
    shown = CliRunner().invoke(
        main, ["watch", episode_id, "--data-dir", str(tmp_path), "--turn-seconds", "0"]
    )
    assert shown.exit_code == 0
    assert "10 of 10 right" in shown.stdout


@pytest.mark.parametrize("source", ["ep-unknown", "ftp://nowhere"])
def test_a_source_that_is_nothing_is_refused(source: str, tmp_path: Path) -> None:
    CliRunner().invoke(main, ["play", "counting", "--data-dir", str(tmp_path)])
    shown = CliRunner().invoke(main, ["watch", source, "--data-dir", str(tmp_path)])
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

    async def scenario() -> list[Sight]:
        async with serve(channel, "127.0.0.1", 0) as listener:
            port = next(iter(listener.sockets)).getsockname()[1]
            return await follow(f"ws://127.0.0.1:{port}/live")

    sights = asyncio.run(scenario())
    assert asked == ["/live", "/live?epoch=e&seq=2", "/live"]
    turns = [sight.state["episode"]["turn"] for sight in sights if sight.connection == "connected"]
    assert turns == sorted(turns)
    assert sights[-1] == Sight({"episode": {"turn": 9}}, "ended", over=True)


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
