"""Show a run of rollouts in the terminal: progress, rates, failures, and the slowest episodes."""

from __future__ import annotations

import sys
import threading
import time
from statistics import fmean
from typing import TYPE_CHECKING, Final, Self

import click

from spectator.journal.outline import OwnCount
from spectator.runs.run_plan import standard_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from spectator.rollouts.fleet import RunningFleet
    from spectator.rollouts.request import RolloutRequest
    from spectator.runs.interactor import InFlight, RunState

DRAWN_EVERY_S: Final = 1.0
"""Seconds between redraws: one takes 7 ms of processor time that the run needs, too."""

REPORT_EVERY_S: Final = 15.0
"""Seconds between progress lines without a terminal."""

SLOWEST: Final = 6
"""Slowest episodes that are shown."""

WIDE: Final = 100
"""Terminal columns from which the table has more columns."""

BETWEEN: Final = " · "
"""Separates the parts of a line."""


class FleetView:
    """Draws a run on standard error while it runs, or prints lines if that is not a terminal.

    It reads the run's state from a separate thread and does not slow the run.
    """

    def __init__(
        self,
        request: RolloutRequest,
        env_wait_s: float = 300.0,
        model_wait_s: float = 300.0,
        *,
        quiet: bool = False,
    ) -> None:
        self._quiet = quiet
        self._request = request
        self._env_wait_s = env_wait_s
        self._model_wait_s = model_wait_s
        self._running: RunningFleet | None = None
        self._draining = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, name="rollouts-view", daemon=True)

    def begin(self, running: RunningFleet) -> None:
        """Start to show ``running``."""
        self._running = running
        if self._draining:
            running.interactor.drain()

    def drain(self) -> None:
        """Finish the episodes in play and start no more."""
        self._draining = True
        if self._running is not None:
            self._running.interactor.drain()
        if not (self._quiet or sys.stderr.isatty()):
            click.echo(f"{DRAINING}; press Ctrl-C again to leave them for later", err=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _show(self) -> None:
        if self._quiet:
            return
        if sys.stderr.isatty():
            self._draw()
        else:
            self._report()

    def _report(self) -> None:
        while not self._ended.wait(REPORT_EVERY_S):
            if self._running is not None:
                for line in self.lines(self._running, time.monotonic()):
                    click.echo(line, err=True)

    def _draw(self) -> None:
        try:
            from rich.console import Console
            from rich.live import Live
        except ImportError:
            return self._report()
        console = Console(stderr=True)
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while not self._ended.wait(DRAWN_EVERY_S):
                if self._running is not None:
                    picture = self.picture(self._running, time.monotonic(), console.width)
                    live.update(picture, refresh=True)

    def lines(self, running: RunningFleet, now_s: float) -> list[str]:
        """Return the run's progress, without the individual episodes.

        Args:
            now_s: Now, by its clock.
        """
        state = running.state
        under_way = sum(flight.turns for flight in running.interactor.in_flight)
        lines = [_progress(state, now_s, under_way), *_sums(state), *_failed(state)]
        shortage, outage = state.shortage, running.outage
        if shortage is not None and running.interactor.in_flight:
            lines.append(f"no further environment now: {shortage.reason}")
        elif shortage is not None:
            missing, halts = in_words(now_s - shortage.since_s), in_words(self._env_wait_s)
            lines.append(f"no environment for {missing} (halts after {halts}): {shortage.reason}")
        if outage is not None and outage.since_s is not None:
            missing, halts = in_words(now_s - outage.since_s), in_words(self._model_wait_s)
            lines.append(f"no model for {missing} (halts after {halts}): {outage.reason}")
        lines += _at_the_model(running)
        if self._draining:
            lines.append(f"{DRAINING}; press Ctrl-C again to leave them for later")
        return lines

    def picture(self, running: RunningFleet, now_s: float, width: int) -> RenderableType:
        """Draw the run for a terminal of ``width`` columns."""
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        state, request = running.state, self._request
        head = f"{request.environment} · {request.model.model} · {running.interactor.workers} at once"
        parts: list[RenderableType] = [
            Text(head, style="bold", overflow="ellipsis", no_wrap=True),
            Padding(ProgressBar(total=max(1, state.total), completed=state.over, width=min(width, 60)), 0),
        ]
        parts += [Text(part) for line in self.lines(running, now_s) for part in _folded(line, width)]
        flights = running.interactor.in_flight
        if flights:
            parts.append(_table(flights, state, now_s, width))
        return Group(*parts)


DRAINING: Final = "finishing the running episodes"


def _progress(state: RunState, now_s: float, under_way: int) -> str:
    took = max(1e-3, now_s - state.began_s)
    left_s = state.left_s(now_s, under_way)
    eta = "" if left_s is None or state.over >= state.total else f" · about {in_words(left_s)} left"
    rates = f"{a_second(state.ended / took)} episodes/s · {a_second(state.turns / took)} turns/s"
    return f"{state.over} of {state.total} over · {rates}{eta}"


def _sums(state: RunState) -> list[str]:
    parts = []
    known = state.own or state.tokens_in  # other processes' decisions are unknown
    if state.rewards or (state.turns and known):
        own = OwnCount(state.turns, state.own) if known else OwnCount()
        parts.append(mean_words(state.rewards, own, state.penalised))
    if state.tokens_in or state.tokens_out:
        parts.append(f"{_many(state.tokens_in)} tokens in, {_many(state.tokens_out)} out")
    return [" · ".join(parts)] if parts else []


def mean_words(rewards: Sequence[float], own: OwnCount, penalised: int) -> str:
    """Format the mean reward with its standard error, own share and penalties.

    >>> mean_words([0.0, 1.0, 1.0, 0.0], OwnCount(40, 30, 12), 2)
    'mean reward 0.5 ± 0.2887 (standard error) of 4 · own share 75 % of 40 decisions · 2 penalised'
    >>> mean_words([], OwnCount(), 0)
    'no reward · own share unknown'
    """
    parts = ["no reward"]
    if rewards:
        error = standard_error(rewards)
        margin = "" if error is None else f" ± {error:.4g} (standard error)"
        parts = [f"mean reward {fmean(rewards):.4g}{margin} of {len(rewards)}"]
    share = "unknown" if own.share is None else f"{100 * own.share:.4g} % of {own.asked} decisions"
    parts.append(f"own share {share}")
    return BETWEEN.join([*parts, *([f"{penalised} penalised"] if penalised else [])])


def _failed(state: RunState) -> list[str]:
    if not state.failures:
        return []
    counts = sorted(state.failures.items(), key=lambda one: (-one[1], one[0]))
    again = f" · {state.again} tried again" if state.again else ""
    return ["failed: " + ", ".join(f"{count} {name}" for name, count in counts) + again]


def _at_the_model(running: RunningFleet) -> list[str]:
    waiting = [flight.waiting_for for flight in running.interactor.in_flight]
    asked, queued, again = (waiting.count(name) for name in ("model", "place", "retry"))
    if running.model_limit is None or not waiting:
        return []
    held = f" · {queued} wait for a place" if queued else ""
    held += f" · {again} to be sent again" if again else ""
    return [f"at the model: {asked} of at most {running.model_limit.places} requests{held}"]


def _folded(line: str, width: int) -> list[str]:
    """Break a line between its parts so that it fits the width, if possible."""
    folded: list[str] = []
    for part in line.split(BETWEEN):
        if folded and len(folded[-1]) + len(BETWEEN) + len(part) <= width:
            folded[-1] += BETWEEN + part
        else:
            folded.append(part)
    return folded


def _table(flights: Sequence[InFlight], state: RunState, now_s: float, width: int) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    usual_s = state.usual_turn_s
    slowest = sorted(flights, key=lambda flight: flight.moved_s)[:SLOWEST]
    wide = width >= WIDE
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    for name in ("slowest", *(("attempt", "played for") if wide else ()), "turn", "idle", ""):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    table.add_column("waits for")  # may wrap when space is short
    for flight in slowest:
        standing = flight.standing(now_s, usual_s, state.deadline_s)
        style = {"stalled": "red", "slow": "yellow", "playing": "green"}[standing]
        more = (str(flight.attempt), in_words(now_s - flight.began_s)) if wide else ()
        table.add_row(
            flight.episode_id, *more, str(flight.turns), in_words(now_s - flight.moved_s),
            Text(standing, style=style), Text(flight.reason(now_s)),
        )  # fmt: skip
    return table


def in_words(seconds: float) -> str:
    """Format a duration briefly.

    >>> [in_words(seconds) for seconds in (0.4, 59, 600, 36_000, 200_000)]
    ['0 s', '59 s', '10 min', '10.0 h', '2.3 d']
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} d"


def a_second(rate: float) -> str:
    """Format a rate with three significant digits, or as a whole number.

    >>> [a_second(rate) for rate in (0.004567, 2.0, 47.63, 1337.2)]
    ['0.00457', '2', '47.6', '1,337']
    """
    return f"{rate:.3g}" if rate < 999 else f"{rate:,.0f}"


def _many(count: int) -> str:
    for size, name in ((1_000_000, "M"), (10_000, "k")):
        if count >= size:
            return f"{count / (1000 if name == 'k' else size):.3g}{name}"
    return str(count)
