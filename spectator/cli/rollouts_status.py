"""The commands ``spectator rollouts status`` and ``failures``: how far a run is, and what failed."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import click

from spectator.cli.options import RUN_FOLDER, journal_options, recorded_run, run_place
from spectator.errors import FailureClass
from spectator.runs.run_folder import JOURNAL, MANIFEST

if TYPE_CHECKING:
    from spectator.rollouts.status import RunStatus


SHOWN: Final = 6
"""Unfinished episodes that are shown."""

QUIET_S: Final = 60.0
"""Seconds without an event after which the status warns that no process may be playing."""


@click.command()
@RUN_FOLDER
@journal_options
def status(folder: Path | None, journal: str | None, run_name: str | None) -> None:
    """Show a run's progress (safe while it runs).

    \b
    Exit code: 0 every episode has a verdict, 1 all are over but some have none, or the model made no decision
    itself, 3 some episodes remain.
    \b
    Example: spectator rollouts status runs/first
    Example: spectator rollouts status --journal postgresql://... --run first

    A run of a trainer, which states no number of episodes, has a line for each version of the weights.
    """
    if folder is not None and (folder / JOURNAL).is_file() and not (folder / MANIFEST).exists():
        shown = asyncio.run(_read_trained(folder))
        for line in _trained_lines(shown):
            click.echo(line)
        sys.exit(3 if shown["playing"] else 0)
    found = _read(folder, journal, run_name)
    for line in _status_lines(found):
        click.echo(line)
    if found.over < found.request.episodes:
        sys.exit(3)
    sys.exit(0 if found.verdicts == found.request.episodes and not found.own.share == 0.0 else 1)


@click.command()
@RUN_FOLDER
@journal_options
@click.option(
    "--class", "wanted", type=click.Choice(get_args(FailureClass)), metavar="CLASS",
    help="Show only this class of failure, such as env_infra.",
)  # fmt: skip
def failures(folder: Path | None, journal: str | None, run_name: str | None, wanted: str | None) -> None:
    """List the attempts without a verdict: class, what follows, episode, attempt, what happened.

    \b
    Example: spectator rollouts failures runs/first --class env_infra
    """
    failed = [one for one in _read(folder, journal, run_name).failed if wanted in (None, one.failure_class)]
    for one in failed:
        follows = "tried again" if one.again else "kept"
        summary = one.summary
        what = summary.detail or summary.reason or ""
        click.echo(
            f"{one.failure_class:14} {follows:11} {summary.episode_id} attempt {summary.attempt or 1}: {what}"
        )
    if not failed:
        click.echo("no attempt failed" if wanted is None else f"no attempt failed as {wanted}")


def _read(folder: Path | None, journal: str | None, run_name: str | None) -> RunStatus:
    from spectator.clock import SystemClock
    from spectator.journal import JOURNAL_FILE
    from spectator.rollouts.request import read_request
    from spectator.rollouts.status import read_status, status_of

    async def read_joint() -> RunStatus:
        async with recorded_run(journal, run_name) as (request, opened):
            return await status_of(request, opened, SystemClock().now(), run_name)

    if (folder := run_place(folder, journal, run_name)) is None:
        return asyncio.run(read_joint())
    read_request(folder)
    if not (folder / JOURNAL_FILE).exists():
        raise click.ClickException(f"nothing was played yet in {folder}")
    return asyncio.run(read_status(folder, SystemClock().now()))


async def _read_trained(folder: Path) -> dict[str, Any]:
    """Read what the page of a trainer's run shows."""
    from spectator.runs.run_folder import read_folder
    from spectator.runs.run_records import RunTail
    from spectator.runs.run_summary import summarize_run

    tail = await RunTail.open(read_folder(folder))
    try:
        await tail.look()
        while await tail.count():
            pass
        return summarize_run(tail.folder, list(tail.episodes.values()), tail.played_with)
    finally:
        await tail.aclose()


def _trained_lines(found: Mapping[str, Any]) -> list[str]:
    lines = [f"{found['environment']} · {found['model']}", f"{found['over']} of {found['begun']} over"]
    if found["over"]:
        lines.append(_point_words(found))
    lines += [f"{count:8} {reason}" for reason, count in found["ends"].items()]
    for point in found["series"].get("weight_version", {"points": {}})["points"].values():
        versions = dict.fromkeys([point["first"], point["last"]])
        lines.append(f"{' to '.join(versions)}  {_point_words(point)}")
    return lines


def _point_words(point: Mapping[str, Any]) -> str:
    """Format the figures of some episodes, as a run's page has them."""
    words = ["no reward" if point.get("mean") is None else f"mean reward {point['mean']:.4g}"]
    if point.get("error") is not None:
        words[0] += f" ± {point['error']:.4g} (standard error)"
    words[0] += f" of {point['verdicts']}"
    if point.get("own_share") is not None:
        words.append(f"own share {100 * point['own_share']:.4g} % of {point['decisions']} decisions")
    if point.get("entropy") is not None:
        words.append(f"entropy {point['entropy']:.4g}")
    if point.get("tokens_mean") is not None:
        words.append(f"{point['tokens_mean']:.0f} tokens per episode")
    return " · ".join(words)


def _status_lines(found: RunStatus) -> list[str]:
    from spectator.cli.rollouts_view import a_second, in_words, mean_words

    request = found.request
    lines = [f"{request.environment} · {request.model.model}"]
    rate = "" if not found.a_second else f" · {a_second(found.a_second)} episodes/s"
    quiet = found.idle_s is not None and found.idle_s > QUIET_S
    eta = "" if found.left_s is None or quiet else f" · about {in_words(found.left_s)} left"
    lines.append(f"{found.over} of {request.episodes} over{rate}{eta}")
    if found.over:
        lines.append(mean_words(found.rewards, found.own, found.penalised))
    lines += [f"{count:8} {reason}" for reason, count in sorted(found.ends.items(), key=lambda one: -one[1])]
    classes = Counter(one.failure_class for one in found.failed)
    if classes:
        again = sum(one.again for one in found.failed)
        counts = ", ".join(f"{count} {name}" for name, count in classes.most_common())
        lines.append(f"failed: {counts}" + (f" · {again} tried again" if again else ""))
    if request.group_size > 1 and found.groups:
        groups = Counter(group.state for group in found.groups.values())
        lines.append("groups: " + ", ".join(f"{count} {name}" for name, count in groups.most_common()))
    if found.unended:
        lines += _unended(found, quiet)
    return lines


def _unended(found: RunStatus, quiet: bool) -> list[str]:
    from spectator.cli.rollouts_view import in_words

    lines = []
    if quiet and found.idle_s is not None:
        lines.append(
            f"nothing was recorded for {in_words(found.idle_s)}: if no process plays it, repeat the command "
            "to resume"
        )
    by = Counter(one.worker for one in found.unended if one.worker is not None)
    if by:
        lines.append("played by " + ", ".join(f"{name} ({count})" for name, count in sorted(by.items())))
    lines.append(f"{'longest without a step':30} turn  idle{'      worker' if by else ''}")
    return lines + [
        f"{one.summary.episode_id:30} {one.turn:4}  {in_words(one.idle_s):9} {one.worker or ''}".rstrip()
        for one in found.unended[:SHOWN]
    ]
