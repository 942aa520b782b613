"""A run of rollouts in the terminal: progress, rates, failures, and the oldest episodes under way."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Final, Self

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

    from spectator.rollouts.fleet import FleetState
    from spectator.rollouts.interactor import Interactor
    from spectator.rollouts.request import RolloutRequest
    from spectator.runs.owed import Attempt

TOLD_EVERY_S: Final = 15.0
"""Seconds between lines of progress where there is no terminal."""

SLOWEST: Final = 5
"""Episodes that are shown."""


class FleetView:
    """Draws a run on standard error while it goes on; a line from time to time where that is no terminal.

    It reads what the run keeps current, from a thread of its own, and costs the run nothing.

    Args:
        request: What is run.
    """

    def __init__(self, request: RolloutRequest) -> None:
        self._request = request
        self._state: FleetState | None = None
        self._interactor: Interactor[Attempt] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, name="rollouts-view", daemon=True)

    def begin(self, state: FleetState, interactor: Interactor[Attempt]) -> None:
        """Take what is to be shown."""
        self._state, self._interactor = state, interactor

    def drain(self) -> None:
        """Let what is being played come to its end."""
        if self._interactor is not None:
            self._interactor.drain()
        click.echo("\nfinishing what is being played; Ctrl-C again leaves it to be played on later", err=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _show(self) -> None:
        if sys.stderr.isatty():
            self._draw()
        else:
            self._report()

    def _report(self) -> None:
        while not self._ended.wait(TOLD_EVERY_S):
            if self._state is not None:
                click.echo(self._line(self._state), err=True)

    def _draw(self) -> None:
        try:
            from rich.console import Console
            from rich.live import Live
        except ImportError:
            return self._report()
        with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
            while not self._ended.wait(0.25):
                if self._state is not None:
                    live.update(self._picture(self._state))

    def _line(self, state: FleetState) -> str:
        failed = ", ".join(f"{count} {name}" for name, count in sorted(state.failures.items()))
        rates = f"{self._rate(state):.2f} episodes/s, {self._turns_a_second(state):.0f} turns/s"
        return f"{state.over} of {state.total} over, {rates}{', ' + failed if failed else ''}"

    def _rate(self, state: FleetState) -> float:
        return state.ended / max(1e-3, time.monotonic() - state.began_s)

    def _turns_a_second(self, state: FleetState) -> float:
        return state.turns / max(1e-3, time.monotonic() - state.began_s)

    def _picture(self, state: FleetState) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        rate = self._rate(state)
        left = (state.total - state.over) / rate if rate and state.ended else None
        eta = "" if left is None else f", about {left / 60:.0f} min left"
        mean = f", mean reward {sum(state.rewards) / len(state.rewards):.3f}" if state.rewards else ""
        parts: list[RenderableType] = [
            Text(f"{self._request.environment} · {self._request.model.model}", style="bold"),
            ProgressBar(total=max(1, state.total), completed=state.over, width=60),
            Text(self._line(state) + mean + eta),
        ]
        flights = [] if self._interactor is None else self._interactor.in_flight[:SLOWEST]
        if flights:
            table = Table("oldest", "for", box=None, padding=(0, 2))
            now = time.monotonic()
            for flight in flights:
                table.add_row(flight.episode_id, f"{now - flight.began_s:.0f} s")
            parts.append(table)
        return Group(*parts)
