"""A player of what is watched in a terminal: it stands still, goes back and on, hurries, by keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from spectator.watching import WatchedMoment

SPEEDS: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Speeds of the replay, those of the watch page."""

KEYS: Final[Mapping[str, str]] = {
    "space": "stand still, or play on",
    "left / right": "one turn back or on",
    ", / .": "to the end of an over, or whatever the world calls its chapters",
    "[ / ]": "to the big moment before or after",
    "home / end": "to the beginning or the newest",
    "- / +": "slower or faster, from 0.5 to 8",
    "L": "to what is live",
    "?": "show or hide this",
    "Q": "leave; the episode goes on (Ctrl+C too)",
}
"""The keys and what they do; those of the watch page where it has the same."""

KEYS_LINE: Final = "space still  ←→ turn  ,. over  [] moment  -+ speed  L live  ? keys  Q leave"
"""The same on one line of 80 characters."""


class TerminalPlayer:
    """Keeps the moments that came and knows which of them is shown.

    It follows the newest until a key takes it elsewhere; a record is played from its beginning.

    Args:
        turn_s: Seconds that a moment is shown while older ones are played, at speed 1.
        follow: Whether to show the newest from the first on, as with what is live.

    >>> player = TerminalPlayer(turn_s=0.5, follow=True)
    >>> for turn in (1, 2):
    ...     player.take(WatchedMoment({"episode": {"turn": turn}}, "connected"))
    >>> player.press("left")
    >>> player.shown().state, player.playing
    ({'episode': {'turn': 1}}, False)
    """

    def __init__(self, *, turn_s: float, follow: bool) -> None:
        self.playing = True
        self.helping = False
        self.left = False
        self._turn_s, self._follow = turn_s, follow
        self._moments: list[WatchedMoment] = []
        self._at = 0
        self._speed = SPEEDS.index(1.0)
        self._acts: Mapping[str, Callable[[], None]] = {
            " ": self._toggle,
            "left": lambda: self._stand(self._at - 1),
            "right": lambda: self._stand(self._at + 1),
            ",": lambda: self._stand(self._before(lambda moment: moment.chapter)),
            ".": lambda: self._stand(self._after(lambda moment: moment.chapter)),
            "[": lambda: self._stand(self._before(lambda moment: moment.great)),
            "]": lambda: self._stand(self._after(lambda moment: moment.great)),
            "home": lambda: self._stand(0),
            "end": self._newest,
            "l": self._newest,
            "-": lambda: self._hurry(-1),
            "+": lambda: self._hurry(1),
            "=": lambda: self._hurry(1),
            "?": self._help,
            "q": self._leave,
        }

    def take(self, moment: WatchedMoment) -> None:
        """Keep the next moment; one of the same turn takes the place of the last, if that does not stand."""
        last, following = self.newest, self.following
        stands = not self.playing and self._at == len(self._moments) - 1
        if last is not None and not stands and _turn(moment) == _turn(last):
            self._moments[-1] = replace(
                moment, chapter=moment.chapter or last.chapter, great=moment.great or last.great
            )
            return
        self._moments.append(moment)
        if following:
            self._at = len(self._moments) - 1

    def press(self, key: str) -> None:
        """Do what a key says; one that says nothing does nothing."""
        act = self._acts.get(key.lower())
        if act is not None:
            act()

    def play_on(self, steps: int = 1) -> None:
        """Show what follows, ``steps`` moments on."""
        self._at = min(self._at + steps, len(self._moments) - 1)

    def wait_s(self) -> float | None:
        """Seconds until the next moment is due; ``None`` where none is."""
        if not self.playing or self._at >= len(self._moments) - 1:
            return None
        return self._turn_s / SPEEDS[self._speed]

    def shown(self) -> WatchedMoment | None:
        """What is to be seen now, and how the connection is now; ``None`` before the first."""
        if not self._moments:
            return None
        return replace(self._moments[self._at], connection=self._moments[-1].connection)

    @property
    def following(self) -> bool:
        """Whether the newest is shown and what comes will be."""
        return self.playing and self._follow and self._at >= len(self._moments) - 1

    @property
    def newest(self) -> WatchedMoment | None:
        """The newest moment that came; ``None`` before the first."""
        return self._moments[-1] if self._moments else None

    def line(self) -> str:
        """Where it stands, in words."""
        count = len(self._moments)
        if self._at >= count - 1:
            how = "the end" if self._over() else "newest" if self.playing else "standing still"
        else:
            how = "playing" if self.playing else "standing still"
        return f"{how} · {self._at + 1 if count else 0} of {count} · {SPEEDS[self._speed]:g}×"

    def _over(self) -> bool:
        return bool(self._moments) and self._moments[-1].over

    def _toggle(self) -> None:
        self.playing = not self.playing
        if self.playing and self._over() and self._at == len(self._moments) - 1:
            self._at = 0

    def _stand(self, at: int) -> None:
        self.playing = False
        self._at = max(0, min(at, len(self._moments) - 1))

    def _newest(self) -> None:
        self._at = max(0, len(self._moments) - 1)
        self.playing = self._follow = True

    def _hurry(self, by: int) -> None:
        self._speed = max(0, min(self._speed + by, len(SPEEDS) - 1))

    def _help(self) -> None:
        self.helping = not self.helping

    def _leave(self) -> None:
        self.left = True

    def _before(self, wanted: Callable[[WatchedMoment], bool]) -> int:
        return next((at for at in range(self._at - 1, -1, -1) if wanted(self._moments[at])), 0)

    def _after(self, wanted: Callable[[WatchedMoment], bool]) -> int:
        last = len(self._moments)
        return next((at for at in range(self._at + 1, last) if wanted(self._moments[at])), last - 1)


def _turn(moment: WatchedMoment) -> tuple[object, object]:
    """Which turn of which episode a moment is of."""
    episode = moment.state.get("episode", {})
    return episode.get("id"), episode.get("turn")
