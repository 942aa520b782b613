"""Writes a bundle: everything about a finished evaluation that somebody else needs in order to check it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spectator import __version__
from spectator.clock import Clock, timestamp
from spectator.errors import ConfigurationError, FieldError, InvalidRequest
from spectator.evaluation.bundles.bundled_cast import how_asked
from spectator.evaluation.bundles.manifest import (
    JOURNAL,
    MANIFEST,
    SCHEMA,
    BundledCaptain,
    BundledEpisode,
    BundledFile,
    BundledPack,
    BundleManifest,
    SeedSource,
    anchors_of,
    commitment,
)
from spectator.evaluation.bundles.private_texts import PrivateText, need_none, need_nothing_private
from spectator.evaluation.bundles.redeciding import can_be_asked_again
from spectator.evaluation.figures import EpisodeFigures, figures_of
from spectator.evaluation.folder import JOURNAL as FOLDERS_JOURNAL
from spectator.evaluation.folder import Kept
from spectator.evaluation.results import results_of
from spectator.evaluation.schedule import EvaluationRequest, Schedule, ScheduledMatch
from spectator.journal.contract import EpisodeSummary, Journal
from spectator.journal.sql_journal import SqlJournal
from spectator.journal.transfer import copy_episodes
from spectator.runs.jobs import RunPlan
from spectator.runs.owed import progress

Report = Callable[[int, int], None]
"""Called with the episodes that are done and with all."""


@dataclass(frozen=True, slots=True)
class Published:
    """A bundle that was written.

    Args:
        folder: Where it is.
        digest: Its digest, 64 hexadecimal digits.
        episodes: How many episodes are in it.
        bytes: Its size.
    """

    folder: Path
    digest: str
    episodes: int
    bytes: int


def with_anchors(request: EvaluationRequest, anchors: Sequence[str]) -> EvaluationRequest:
    """``request`` with those of ``anchors`` among its captains that it lacks, at the end."""
    missing = tuple(name for name in anchors if name not in request.captains)
    return replace(request, captains=request.captains + missing)


async def publish(
    schedule: Schedule,
    request: EvaluationRequest,
    source: Path,
    kept: Kept,
    target: Path,
    *,
    private: Sequence[PrivateText],
    clock: Clock,
    report: Report = lambda done, total: None,
) -> Published:
    """Write the bundle of a finished evaluation.

    Args:
        schedule: All of it, the anchors among its captains.
        request: What it was planned from.
        source: The evaluation's folder.
        kept: What that folder says of it.
        target: The bundle's folder; one that holds another bundle of the same evaluation is replaced.
        private: What may not be in it.
        clock: Time.
        report: Hears of the progress.

    Raises:
        ConfigurationError: It is not finished, a captain's decisions cannot be made again, or something
            private is in it.
        InvalidRequest: The folder ``target`` holds something else.
        JournalError: The episodes cannot be read or copied.
    """
    _need_checkable(schedule)
    await asyncio.to_thread(_need_room, target)
    journal = await SqlJournal.open(f"sqlite:///{source / FOLDERS_JOURNAL}", writable=False)
    try:
        run = schedule.run(kept.began_ms, kept.run_id)
        ids = await _attempts(journal, run)
        found, episodes = await _read(journal, schedule, ids, private, report)
    finally:
        await journal.aclose()
    manifest = _manifest(schedule, request, kept, found, episodes, timestamp(clock.now()))
    return await asyncio.to_thread(_write, manifest, source / FOLDERS_JOURNAL, target, private)


def _need_checkable(schedule: Schedule) -> None:
    for name in schedule.captains:
        if not can_be_asked_again(schedule.world, name):
            raise ConfigurationError(
                f"the decisions of {name} cannot be made again from the record, so nobody could check them; "
                "publish without it"
            )
    if missing := [name for name in anchors_of(schedule.world) if name not in schedule.captains]:
        raise ConfigurationError(
            f"a bundle of {schedule.world.name} has the anchors {', '.join(missing)} too: "
            f"add them with --captains {','.join((*schedule.captains, *missing))}"
        )


def _need_room(target: Path) -> None:
    if target.suffix == ".zip":
        rule = "a bundle is written as a folder; zip it afterwards"
    elif target.is_symlink() or (target.exists() and not target.is_dir()):
        rule = f"{target} is no folder"
    elif target.exists() and any(target.iterdir()) and not (target / MANIFEST).is_file():
        rule = f"{target} holds something that is no bundle; choose another folder"
    else:
        return
    raise InvalidRequest([FieldError("publish", rule)])


async def _attempts(journal: Journal, run: RunPlan) -> list[list[str]]:
    """For each match its episodes, the one that counts last."""
    due = await progress(journal, run)
    if due.owed:
        raise ConfigurationError(
            f"{len(due.over)} of {len(run.jobs)} matches are played; a bundle holds a whole evaluation: "
            "the same command plays the rest"
        )
    found = []
    for number, last in sorted(due.over.items()):
        ids = [run.episode_id(run.jobs[number], 1)]
        while ids[-1] != last:
            ids.append(run.episode_id(run.jobs[number], len(ids) + 1))
        found.append(ids)
    return found


async def _read(
    journal: Journal,
    schedule: Schedule,
    ids: Sequence[Sequence[str]],
    private: Sequence[PrivateText],
    report: Report,
) -> tuple[dict[ScheduledMatch, EpisodeFigures], list[BundledEpisode]]:
    """The figures of every match, and what the manifest says of every episode."""
    found: dict[ScheduledMatch, EpisodeFigures] = {}
    episodes: list[BundledEpisode] = []
    total = sum(map(len, ids))
    for match, attempts in zip(schedule.matches, ids, strict=True):
        for episode_id in attempts:
            recorded = await journal.read(episode_id)
            await need_nothing_private(journal, episode_id, recorded, private)
            summary = await journal.episode(episode_id)
            episodes.append(_stated(summary, episode_id))
            figures = figures_of(recorded)
            if figures is not None:
                found[match] = figures
            report(len(episodes), total)
    return found, episodes


def _stated(summary: EpisodeSummary | None, episode_id: str) -> BundledEpisode:
    if summary is None or summary.digest is None:
        raise ConfigurationError(f"{episode_id} has no digest, so it cannot be published")
    return BundledEpisode(id=episode_id, events=summary.head_seq, digest=summary.digest)


def _manifest(
    schedule: Schedule,
    request: EvaluationRequest,
    kept: Kept,
    found: Mapping[ScheduledMatch, EpisodeFigures],
    episodes: Sequence[BundledEpisode],
    now: str,
) -> BundleManifest:
    return BundleManifest(
        schema_version=SCHEMA,
        spectator_version=__version__,
        environment=schedule.world.name,
        environment_version=schedule.world.version,
        pack=BundledPack(name=schedule.pack.name, version=schedule.pack.version),
        options=dict(schedule.options),
        failed_decisions=schedule.failed_decisions,
        matches=request.matches,
        seeds=_seeds(schedule, request),
        captains=[_captain(schedule, name, found) for name in schedule.captains],
        began_ms=kept.began_ms,
        run_id=kept.run_id,
        published_at=now,
        results=results_of(schedule, found),
        episodes=list(episodes),
        files={},
    )


def _seeds(schedule: Schedule, request: EvaluationRequest) -> SeedSource:
    if request.phrase is not None:
        stated = commitment(schedule.world.name, schedule.pack, request.phrase)
        return SeedSource(made="sealed", count=schedule.pairs, phrase=request.phrase, commitment=stated)
    if schedule.pack.seeds:
        return SeedSource(made="pack", count=schedule.pairs)
    return SeedSource(made="derived", count=schedule.pairs, seed=request.seed)


def _captain(schedule: Schedule, name: str, found: Mapping[ScheduledMatch, EpisodeFigures]) -> BundledCaptain:
    preset = schedule.world.captains[name]
    entrants, models = entrants_of(name, found.values())
    return BundledCaptain(
        name=name,
        label=preset.label,
        source=preset.source,
        anchor=name in anchors_of(schedule.world),
        fingerprint=preset.fingerprint,
        entrants=entrants,
        models=models,
        asked=how_asked(preset),
    )


def entrants_of(captain: str, figures: Iterable[EpisodeFigures]) -> tuple[list[str], list[str]]:
    """The fingerprints under which the leaderboard knows a captain, and the models that answered as it."""
    seats = [seat for one in figures for seat in one.seats if seat.captain == captain]
    entrants = sorted({seat.fingerprint for seat in seats if seat.fingerprint})
    return entrants, sorted({model for seat in seats for model in seat.models})


def _write(
    manifest: BundleManifest, journal: Path, target: Path, private: Sequence[PrivateText]
) -> Published:
    """Write all of a bundle beside its place, then put it there."""
    half = target.with_name(target.name + ".part")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    try:
        copy_episodes(journal, half / JOURNAL, [one.id for one in manifest.episodes])
        for left in half.glob(f"{JOURNAL}?*"):
            left.unlink()
        whole = manifest.model_copy(update={"files": {JOURNAL: _file(half / JOURNAL)}})
        text = whole.model_dump_json(indent=1)
        need_none(text, private, f"the bundle's {MANIFEST}")
        (half / MANIFEST).write_text(text, encoding="utf-8")
        _put(half, target)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    size = len(text.encode()) + whole.files[JOURNAL].bytes
    return Published(target, hashlib.sha256(text.encode()).hexdigest(), len(manifest.episodes), size)


def _put(half: Path, target: Path) -> None:
    """Put a whole bundle in its place; files of others there stay."""
    target.mkdir(parents=True, exist_ok=True)
    (target / MANIFEST).unlink(missing_ok=True)  # never a manifest beside another's journal
    for name in (JOURNAL, MANIFEST):
        os.replace(half / name, target / name)


def _file(path: Path) -> BundledFile:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return BundledFile(sha256=digest, bytes=path.stat().st_size)
