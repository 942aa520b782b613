"""The player of the terminal goes where its keys say, and what is live goes on meanwhile."""

from __future__ import annotations

import pytest
from rich.console import Console

from spectator.cli.watch import keys_of
from spectator.terminal import KEY_HELP, KEYS_LINE, SPEEDS, TerminalPlayer, WatchedMoment
from spectator.terminal_drawing import draw


def moment(turn: int, *, chapter: bool = False, great: bool = False, over: bool = False) -> WatchedMoment:
    state = {"episode": {"id": "ep-1", "turn": turn}}
    return WatchedMoment(state, "connected", over=over, chapter=chapter, great=great)


def filled(*, follow: bool, turns: int = 12) -> TerminalPlayer:
    """A player of as many turns: an over ends with the 4th and the 8th, something big is the 6th."""
    player = TerminalPlayer(turn_s=0.5, follow=follow)
    for turn in range(turns):
        player.take(moment(turn, chapter=turn in (4, 8), great=turn == 6, over=turn == 11))
    return player


def turn_of(player: TerminalPlayer) -> int:
    shown = player.shown()
    assert shown is not None
    turn: int = shown.state["episode"]["turn"]
    return turn


def test_a_record_begins_at_its_beginning_and_is_played_to_its_end() -> None:
    player = filled(follow=False)
    assert (turn_of(player), player.wait_s()) == (0, 0.5)
    for _ in range(20):
        player.play_on()
    assert (turn_of(player), player.wait_s()) == (11, None)
    assert player.line() == "the end · 12 of 12 · 1×"
    player.press(" ")
    assert (turn_of(player), player.wait_s()) == (0, 0.5), "played again from the beginning"


def test_keys_go_by_turns_overs_and_big_moments() -> None:
    player = filled(follow=False)
    where: list[int] = []
    for key in ("right", ".", ".", ".", ",", "[", "]", "left", "home", "left", "END"):
        player.press(key)
        where.append(turn_of(player))
    assert where == [1, 4, 8, 11, 8, 6, 11, 10, 0, 0, 11]


def test_what_is_live_is_followed_left_and_found_again() -> None:
    player = filled(follow=True, turns=5)
    assert turn_of(player) == 4 and player.following
    player.press(" ")
    player.take(moment(5))
    assert turn_of(player) == 4 and not player.following
    assert player.line() == "paused · 5 of 6 · 1×"
    player.press("left")
    player.press(" ")
    assert (turn_of(player), player.wait_s()) == (3, 0.5)
    player.play_on(2)
    assert player.following
    player.press("left")
    player.press("L")
    player.take(moment(6))
    assert turn_of(player) == 6 and player.line() == "newest · 7 of 7 · 1×"


def test_events_of_one_turn_are_one_step_and_what_stands_is_left_alone() -> None:
    player = filled(follow=True, turns=3)
    player.take(moment(3, great=True))
    player.take(moment(3))
    assert player.line().endswith("4 of 4 · 1×")
    player.press("home")
    player.press("]")
    assert turn_of(player) == 3
    player.take(moment(3))
    assert player.line().startswith("paused · 4 of 5")


def test_the_speed_has_its_bounds() -> None:
    player = filled(follow=False)
    for _ in range(9):
        player.press("+")
    assert player.wait_s() == 0.5 / SPEEDS[-1]
    for _ in range(9):
        player.press("-")
    assert player.wait_s() == 0.5 / SPEEDS[0]


@pytest.mark.parametrize("key", ["x", "", "é", "\x00", "up"])
def test_other_keys_do_nothing_and_an_empty_player_bears_all(key: str) -> None:
    player = TerminalPlayer(turn_s=0.5, follow=True)
    for press in (key, *"[],.lq? -+", "left", "right", "home", "end"):
        player.press(press)
    assert player.shown() is None and player.left and player.helping
    assert player.line().startswith("newest · 0 of 0") or player.line().startswith("paused · 0 of 0")


@pytest.mark.parametrize(
    ("text", "keys", "rest"),
    [
        ("\x1b[C\x1bOD\x1b[1~", ["right", "left", "home"], ""),
        ("a\x1b", ["a"], "\x1b"),
        ("\x1b[1", [], "\x1b[1"),
        ("\x1b[200;5~q", ["q"], ""),
        ("\x1bq", ["q"], ""),
        ("\x1b[" + "1" * 40, [], ""),
    ],
)
def test_keys_are_found_in_what_a_terminal_sends(text: str, keys: list[str], rest: str) -> None:
    assert keys_of(text) == (keys, rest)


def test_the_keys_are_listed_in_the_place_of_the_commentary_and_fit_a_line() -> None:
    assert len(KEYS_LINE) <= 80
    console = Console(width=80, height=24, record=True, quiet=True)
    picture = draw({"world": {"headline": "Lions 45/2"}}, "connected", console, ("the end",), KEY_HELP)
    with console.capture() as captured:
        console.quiet = False
        console.print(picture)
    shown = captured.get()
    assert all(key in shown for key in KEY_HELP) and "live" in shown and "the end" in shown
    assert len(shown.splitlines()) <= 24
