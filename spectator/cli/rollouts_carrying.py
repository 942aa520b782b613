"""Carries a run of rollouts through in the terminal: what is shown and logged, and how it is interrupted."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from spectator.cli.rollouts_view import FleetView
    from spectator.cli.run_log import RunLog
    from spectator.rollouts.fleet import FleetReport, OnBegin, Underway

HALTED = 3
"""Exit code of a run that was halted."""


async def carry_out(
    play: Callable[[OnBegin], Awaitable[FleetReport]], view: FleetView, log: RunLog | None
) -> tuple[FleetReport, bool]:
    """Play a run to its end, or until it is interrupted; what it came to, and whether it was.

    The first interrupt lets what is being played come to its end, the second leaves it, as SIGTERM does.

    Args:
        play: Plays it.
        view: Shows it.
        log: Takes warnings; they go where they go without one.
    """
    interrupted = False
    task, code = asyncio.current_task(), 130
    assert task is not None

    def begin(underway: Underway) -> None:
        if log is not None:
            log.begin()
        view.begin(underway)

    def terminate() -> None:
        nonlocal code
        code = 143
        task.cancel()

    def interrupt() -> None:
        nonlocal interrupted
        if interrupted:
            task.cancel()
            return
        interrupted = True
        view.drain()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        with view:
            report = await play(begin)
    except asyncio.CancelledError:
        click.echo("interrupted; what was under way is played on by the same command", err=True)
        sys.exit(code)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)
        if log is not None:
            log.end()
            if log.taken:
                click.echo(f"{log.taken} warnings are in {log.baseFilename}", err=True)
    return report, interrupted


def conclude(report: FleetReport, where: str) -> None:
    """Say what a run came to.

    Args:
        report: What was played.
        where: Where its record is.
    """
    played = report.report.last
    over = [one for one in played if one.end_reason is not None]
    failed = Counter(report.failed_before)
    failed += Counter(one.failure_class or "unknown" for one in over if one.total_reward is None)
    left = Counter(one.failure_class or "unknown" for one in played if one.end_reason is None)
    rewards = [one.total_reward for one in over if one.total_reward is not None]
    now = "" if len(rewards) == report.over else f" of {len(rewards)} played now"
    mean = f", mean reward {sum(rewards) / len(rewards):.4f}{now}" if rewards else ""
    click.echo(f"{report.over} of {report.total} episodes are over{mean}; the record is in {where}")
    for name, count in failed.most_common():
        click.echo(f"  {count} without a verdict: {name}")
    for name, count in left.most_common():
        click.echo(f"  {count} left to be played on: {name}")
    decisions, own = sum(one.decisions for one in over), sum(one.own for one in over)
    if own < decisions:
        click.echo(f"  {100 * own / decisions:.4g} % of decisions the model's own; the others a fallback's")


def exit_code(report: FleetReport, interrupted: bool, succeeded: bool) -> int:
    """How the command ends; says why, where it was not to its end.

    Args:
        report: What was played.
        interrupted: Whether it was interrupted.
        succeeded: Whether every episode came to a verdict.
    """
    if interrupted:
        if report.over < report.total:
            click.echo("interrupted; the same command plays the rest", err=True)
        return 130
    if report.halted is not None:
        click.echo(f"halted: {report.halted}; the same command plays on, once that is put right", err=True)
        return HALTED
    return 0 if succeeded else 1
