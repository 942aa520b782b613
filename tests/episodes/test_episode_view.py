"""What viewers need of an episode is a port of its own, apart from what drives it."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import server.viewers
from spectator.bus import Overflow
from spectator.episodes.episode_view import EpisodeView
from tests.episodes.harness import supervising


def asked_of_a_view() -> set[str]:
    return {name for name in vars(EpisodeView) if not name.startswith("_")}


def test_a_view_asks_for_nothing_that_only_its_player_has() -> None:
    assert not asked_of_a_view() & {"pause", "resume", "set_pace", "end", "policy", "plan", "tell", "breathe"}


async def test_an_episode_that_runs_here_is_one() -> None:
    async with supervising() as stage:
        view = await stage.start(options={"turns": 3})
        methods = [name for name in asked_of_a_view() if inspect.isfunction(getattr(EpisodeView, name))]
        assert methods and asked_of_a_view() <= set(dir(view))
        for name in methods:
            _, *parameters = inspect.signature(getattr(EpisodeView, name)).parameters.values()
            assert [*inspect.signature(getattr(view, name)).parameters.values()] == parameters, name
        await view.wait()


def test_viewers_know_nothing_of_what_drives_an_episode() -> None:
    for path in Path(server.viewers.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.module != "spectator.episodes.handle", path


async def test_state_and_subscription_belong_together() -> None:
    async with supervising() as stage:
        view: EpisodeView = await stage.start(options={"turns": 3})
        await view.open()
        head, subscription = view.head_seq, view.subscribe(Overflow.CLOSE)
        await view.wait()
        heard = [recorded.event.seq async for batch in subscription for recorded in batch]
        assert heard == list(range(head + 1, view.head_seq + 1))
