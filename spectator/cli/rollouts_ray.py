"""Workers of a run in a database that Ray places on a cluster: each is the command ``rollouts worker``."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any, Final

import click

from spectator.errors import SpectatorError

DEATHS: Final = 100
"""How often Ray starts a worker anew that died: its leases are over, and what it played is played on."""

LOOK_S: Final = 0.5
"""Seconds between two looks at whether the run is interrupted."""


def place_workers(address: str, count: int, url: str, run_name: str, concurrency: int) -> int:
    """Have workers play a run until nothing of it is owed; the worst of their exit codes.

    The first interrupt lets what they play come to its end, the second ends them at once, as SIGTERM does:
    what they played is then played on by others. They end with this process, however it ends.

    Args:
        address: Of the cluster: ``host:port``, or ``auto`` for the one of this machine.
        count: How many workers.
        url: The journal; it travels to the nodes as Ray's own messages do.
        run_name: The run.
        concurrency: Episodes at once in each.

    Raises:
        ConfigurationError: Ray is not installed, or there is no cluster at the address.
    """
    from spectator.rollouts.workers.ray_cluster import connect, one_for_each

    ray, began = connect(address, shows=True)
    try:
        place = one_for_each(ray, play_share, again=DEATHS)
        started = [place.remote(url, run_name, concurrency) for _ in range(count)]
        interrupted = _wait(ray, started)
        codes = [_outcome(ray, one) for one in started]
        return max([130] if interrupted else codes)
    finally:
        if began:
            ray.shutdown()


def play_share(url: str, run_name: str, concurrency: int) -> tuple[int, str]:
    """Be one worker, on whichever node; its exit code, and why it could not play where it could not."""
    from spectator.cli.rollouts_joint import play_joint

    try:
        return play_joint(url, concurrency, run_name), ""
    except SpectatorError as error:
        return 1, str(error)


def _wait(ray: Any, started: Sequence[Any]) -> int:
    """Wait until all have ended; how often they were interrupted."""
    interrupts = 0

    def interrupt(number: int, frame: object) -> None:
        nonlocal interrupts
        interrupts += 2 if number == signal.SIGTERM else 1
        for one in started:
            ray.cancel(one, force=interrupts > 1)
        if interrupts == 1:
            click.echo(
                "finishing what is being played; Ctrl-C again leaves it to be played on later", err=True
            )

    before = [(number, signal.signal(number, interrupt)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        while ray.wait(list(started), num_returns=len(started), timeout=LOOK_S)[1]:
            pass
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    return interrupts


def _outcome(ray: Any, started: Any) -> int:
    try:
        code, why = ray.get(started)
    except ray.exceptions.TaskCancelledError:
        return 130
    except ray.exceptions.RayError as error:
        code, why = 3, f"a worker went away for good: {type(error).__name__}"
    if why:
        click.echo(why, err=True)
    return int(code)
