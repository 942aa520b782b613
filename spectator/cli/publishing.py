"""What `spectator evaluate --publish` adds: anchors, a phrase for the seeds, and the bundle at the end."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from spectator.errors import FieldError, InvalidRequest
from spectator.process_environment import private_variables

if TYPE_CHECKING:
    from spectator.catalog import LoadWorld
    from spectator.evaluation.schedule import EvaluationRequest, Schedule

PHRASE: Final = "sealed-phrase.txt"
"""File of an evaluation's folder that holds the phrase that was drawn for it."""


def request_of(folder: Path) -> dict[str, Any]:
    """What a finished evaluation was asked for, but for its seeds, to be published without asking again.

    Raises:
        UsageError: The folder holds no finished evaluation.
    """
    from spectator.evaluation.folder import RESULTS

    path = folder / RESULTS
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        captains = tuple(dict.fromkeys(match["home"] for match in kept["matches"]))
        matches_a_seed = len(captains) * (len(captains) - 1 if kept["head_to_head"] else 1)
        planned = kept.get("planned") or len(kept["matches"])
        return {
            "environment": kept["environment"], "captains": captains, "pack": kept["pack"],
            "matches": 2 * planned // matches_a_seed, "options": kept["options"],
            "failed_decisions": kept["failed_decisions"],
        }  # fmt: skip
    except FileNotFoundError as error:
        raise click.UsageError(
            "name the captains with --captains; without it --publish needs a finished evaluation in --out, "
            f"and {folder} holds none"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise click.UsageError(f"{path} cannot be read: {error!r:.200}") from error


def sealed_phrase(folder: Path, *, draw: bool) -> str | None:
    """The phrase that the evaluation in ``folder`` was begun with, or one that is drawn now; else ``None``.

    Args:
        folder: The evaluation's.
        draw: Whether one is drawn for a folder that holds nothing yet; :func:`tell_commitment` keeps it.
    """
    from spectator.evaluation.folder import MANIFEST

    path = folder / PHRASE
    if path.is_file():
        return path.read_text(encoding="utf-8").strip()
    return secrets.token_urlsafe(32) if draw and not (folder / MANIFEST).exists() else None


def _keep_phrase(folder: Path, phrase: str) -> None:
    """Keep a phrase that was drawn in the evaluation's folder, readable for its owner alone."""
    from spectator.evaluation.folder import write_text

    path = folder / PHRASE
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, phrase + "\n")
        path.chmod(0o600)
        click.echo(f"the phrase of the seeds was drawn now; keep it to yourself until then: {path}", err=True)


def with_anchors_told(request: EvaluationRequest, load: LoadWorld) -> EvaluationRequest:
    """``request`` with the world's anchors among its captains; says which are added."""
    from spectator.evaluation.bundles.manifest import anchors_of
    from spectator.evaluation.bundles.publishing import with_anchors

    try:
        anchored = with_anchors(request, anchors_of(load(request.environment)))
    except InvalidRequest as error:
        raise InvalidRequest([FieldError("environment", one.rule) for one in error.fields]) from error
    if added := anchored.captains[len(request.captains) :]:
        click.echo(
            f"{', '.join(added)} {'joins' if len(added) == 1 else 'join'} as in every bundle; all play "
            "them too: --estimate says what that takes",
            err=True,
        )
    return anchored


def tell_commitment(schedule: Schedule, phrase: str, keep_in: Path | None) -> None:
    """Say what may be published before a match is played, so that the phrase cannot be chosen afterwards.

    Args:
        schedule: What is going to be played.
        phrase: That of its seeds.
        keep_in: The evaluation's folder, for a phrase that was drawn; ``None`` where somebody brought it.
    """
    from spectator.evaluation.bundles.manifest import commitment

    if keep_in is not None:
        _keep_phrase(keep_in, phrase)
    stated = commitment(schedule.world.name, schedule.pack, phrase)
    click.echo(f"sealed seeds, commitment {stated}", err=True)


def publish_bundle(schedule: Schedule, request: EvaluationRequest, folder: Path, target: Path) -> None:
    """Write the bundle of the evaluation in ``folder``, which is whole."""
    from spectator.clock import SystemClock
    from spectator.evaluation.bundles.private_texts import private_texts
    from spectator.evaluation.bundles.publishing import publish
    from spectator.evaluation.folder import keep_manifest

    clock = SystemClock()
    kept = keep_manifest(folder, schedule, int(clock.now().timestamp() * 1000))
    private = private_texts(
        schedule.world, private_variables(), (Path.home(), Path.cwd(), folder, target.parent)
    )
    with click.progressbar(label="bundle", file=sys.stderr, length=1, show_pos=True) as bar:

        def report(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        published = asyncio.run(
            publish(schedule, request, folder, kept, target, private=private, clock=clock, report=report)
        )
    megabytes = published.bytes / 1e6
    click.echo(
        f"{published.folder}: {published.episodes} episodes, {megabytes:.1f} MB, digest {published.digest}"
    )
    click.echo(f"check it anywhere, without a key: spectator verify-bundle {published.folder}")
