"""Write a bundle: everything needed to check an evaluation, and nothing private."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from spectator import __version__
from spectator.catalog import LoadWorld
from spectator.clock import Clock, timestamp
from spectator.environments.world import World
from spectator.errors import BundleError, ConfigurationError, FieldError, InvalidRequest, field_errors
from spectator.evaluation.bundles.bundle import (
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
from spectator.evaluation.bundles.episode_check import can_be_repeated
from spectator.evaluation.figures import EpisodeFigures, recorded_figures
from spectator.evaluation.results import how_asked, results_of
from spectator.evaluation.schedule import JOURNAL as FOLDERS_JOURNAL
from spectator.evaluation.schedule import EvaluationRequest, Kept, Schedule, ScheduledMatch
from spectator.events import RecordedEvent, encode_json
from spectator.journal.contract import EpisodeSummary, Journal
from spectator.journal.sql_journal import SqlJournal
from spectator.journal.transfer import copy_episodes
from spectator.policies.captains import NOT_SENT, SECRET_ENDINGS, ModelCaptain, TrainedCaptain
from spectator.policies.model_presets import ModelBuild, ModelSeat, model_presets
from spectator.policies.policy import Policy, Preset
from spectator.runs.run_plan import RunPlan, progress

SHORTEST_SECRET: Final = 6
"""Shorter texts are not keys, and would match by chance."""

_OF_KEYS: Final = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
"""Endings of the names of environment variables with keys."""


@dataclass(frozen=True, slots=True)
class PrivateText:
    """A text that must not be published.

    Args:
        what: Description that does not reveal it.
    """

    what: str
    text: str


def private_texts(
    world: World, variables: Mapping[str, str], folders: Iterable[Path]
) -> tuple[PrivateText, ...]:
    """Collect the texts that must not be in a bundle from this machine.

    Args:
        world: The world; its captains' keys and extra request fields are private.
        variables: Environment variables; captains' keys, and values named like a key, are private.
        folders: Folders whose paths are private; short ones such as ``/root`` are skipped, because a text may
            contain them by chance.
    """
    return tuple(dict.fromkeys((*_keys(world, variables), *_paths(folders))))


def _keys(world: World, variables: Mapping[str, str]) -> Iterator[PrivateText]:
    presets: Iterable[Preset] = (*world.captains.values(), *world.opponents.values())
    models = [preset.build.captain for preset in presets if isinstance(preset.build, ModelBuild)]
    named = {captain.api_key_env for captain in models if captain.api_key_env is not None}
    for name, value in variables.items():
        if (name in named or name.upper().endswith(_OF_KEYS)) and len(value) >= SHORTEST_SECRET:
            yield PrivateText(f"the value of the variable {name}", value)
    for captain in models:
        for path, value in _texts(captain.extra):
            if path.upper().endswith(SECRET_ENDINGS):
                yield PrivateText(f"the extra field {path!r} of {captain.label}", value)


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str) and len(value) >= SHORTEST_SECRET:
        yield path, value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield from _texts(member, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member, path)


def _paths(folders: Iterable[Path]) -> Iterator[PrivateText]:
    for folder in folders:
        path = folder.absolute()
        if len(path.parts) > 2:
            yield PrivateText("a path of this machine", str(path))


async def need_nothing_private(
    journal: Journal, episode_id: str, recorded: Iterable[RecordedEvent], private: Sequence[PrivateText]
) -> None:
    """Check that neither the events, calls nor truth of an episode contain a private text.

    Raises:
        ConfigurationError: One does; the message says which and where, without repeating it. A record cannot
            be changed, so the match must be played again without it.
        JournalError: The episode cannot be read.
    """
    for one in recorded:
        need_none(one.text, private, f"event {one.seq} of {episode_id}")
    async for call in journal.calls(episode_id):
        where = f"call {call.place} of event {call.decided.seq} of {episode_id}"
        whole = [call.call.messages, call.call.tools, call.call.reply, call.call.about]
        for part in whole:
            need_none(_json(part), private, where)
    truth = await journal.truth(episode_id)
    need_none(truth or "", private, f"the truth of {episode_id}")


def need_none(text: str, private: Sequence[PrivateText], where: str) -> None:
    """Check that a text contains nothing private.

    Args:
        private: Texts that it must not contain.
        where: Description of the text, for the error message.

    Raises:
        ConfigurationError: It contains a private text.
    """
    for one in private:
        if one.text in text or _json(one.text)[1:-1] in text:
            raise ConfigurationError(
                f"{where} contains {one.what}; nothing was published. A record cannot be changed: play the "
                "match again without it in another folder"
            )


def _json(value: Any) -> str:
    try:
        return encode_json(value)
    except ValueError:  # half a surrogate pair
        return repr(value)


_NO_FOLDER: Final = Path("not-in-the-bundle")

NOWHERE: Final = "http://bundle.invalid/v1"
"""Placeholder for the endpoint of a model in a bundle; it is never called."""


def bundled_cast(captains: list[BundledCaptain], load: LoadWorld, clock: Clock) -> LoadWorld:
    """Return a loader of worlds that adds the models of a bundle, without their endpoints or weights.

    Args:
        captains: The captains of the manifest.
        load: Loads the world itself.

    Raises:
        BundleError: The manifest describes an invalid model.
    """
    tables = {one.name: _table(one) for one in captains if one.asked is not None}
    stated = {one.name: one for one in captains}

    def with_models(name: str) -> World:
        world = load(name)
        own = _own_weights(captains, world)
        models = own | _models(tables, stated, world, world.captains[world.default_captain].build, clock)
        seated = replace(world, captains={**world.captains, **models})
        if not world.opponents:
            return seated
        rivals = own | _models(tables, stated, world, world.opponents[world.default_opponent].build, clock)
        return replace(seated, opponents={**world.opponents, **rivals})

    return with_models


def _own_weights(captains: list[BundledCaptain], world: World) -> dict[str, Preset]:
    """Captains that were trained elsewhere; their recorded replies are read, so no weights are needed."""
    if world.own_captain is None:
        return {}
    return {
        one.name: replace(
            world.own_captain(
                one.name, TrainedCaptain(label=one.label, world=world.name, weights=_NO_FOLDER)
            ),
            fingerprint=one.fingerprint,
            missing=None,
        )
        for one in captains
        if one.source == "model" and one.asked is None and one.name not in world.captains
    }


def _table(captain: BundledCaptain) -> ModelCaptain:
    asked = captain.asked or {}
    if foreign := sorted(asked.keys() & NOT_SENT):
        raise BundleError(
            f"{captain.name}: the manifest must not state {', '.join(foreign)[:200]} of a model"
        )
    try:
        return ModelCaptain.model_validate({**asked, "label": captain.label, "base_url": NOWHERE})
    except ValidationError as error:
        rules = "; ".join(f"{one.field} {one.rule}" for one in field_errors(error.errors()))
        raise BundleError(f"{captain.name}: its settings are invalid: {rules[:300]}") from error


def _models(
    tables: Mapping[str, ModelCaptain],
    stated: Mapping[str, BundledCaptain],
    world: World,
    fallback: Callable[[int], Policy],
    clock: Clock,
) -> dict[str, Preset]:
    seat = ModelSeat(world.briefing, fallback)
    presets = model_presets(tables, seat, variables={}, clock=clock, rng=random.Random(0))
    return {name: replace(preset, fingerprint=stated[name].fingerprint) for name, preset in presets.items()}


Report = Callable[[int, int], None]
"""Called with the number of finished episodes and the total."""


@dataclass(frozen=True, slots=True)
class Published:
    """A written bundle.

    Args:
        digest: Its digest, 64 hexadecimal digits.
        episodes: Number of episodes.
        bytes: Its size.
    """

    folder: Path
    digest: str
    episodes: int
    bytes: int


def with_anchors(request: EvaluationRequest, anchors: Sequence[str]) -> EvaluationRequest:
    """Append the missing ``anchors`` to the captains of ``request``."""
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
        schedule: All matches, including those of the anchors.
        request: The request that it was planned from.
        source: The evaluation's folder.
        kept: When the evaluation began, and its run.
        target: Folder of the bundle; an older bundle in it is replaced.
        private: Texts that must not be in the bundle.

    Raises:
        ConfigurationError: The evaluation is not finished, a captain's decisions cannot be repeated, or a
            private text would be published.
        InvalidRequest: The folder ``target`` contains something else.
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
        if not can_be_repeated(schedule.world, name):
            raise ConfigurationError(
                f"the decisions of {name} cannot be repeated from the record, so they could not be checked; "
                "publish without it"
            )
    if missing := [name for name in anchors_of(schedule.world) if name not in schedule.captains]:
        raise ConfigurationError(
            f"a bundle of {schedule.world.name} must include the anchors {', '.join(missing)}: "
            f"add them with --captains {','.join((*schedule.captains, *missing))}"
        )


def _need_room(target: Path) -> None:
    if target.suffix == ".zip":
        rule = "must be a folder; zip it afterwards"
    elif target.is_symlink() or (target.exists() and not target.is_dir()):
        rule = f"{target} is not a folder"
    elif target.exists() and any(target.iterdir()) and not (target / MANIFEST).is_file():
        rule = f"{target} contains files that are not a bundle; choose another folder"
    else:
        return
    raise InvalidRequest([FieldError("publish", rule)])


async def _attempts(journal: Journal, run: RunPlan) -> list[list[str]]:
    """The episode ids of each match; the last one counts."""
    due = await progress(journal, run)
    if due.remaining:
        raise ConfigurationError(
            f"{len(due.over)} of {len(run.jobs)} matches are finished; a bundle needs all of them: "
            "run the same command again to play the rest"
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
    """The figures of every match, and the manifest's entry of every episode."""
    found: dict[ScheduledMatch, EpisodeFigures] = {}
    episodes: list[BundledEpisode] = []
    total = sum(map(len, ids))
    for match, attempts in zip(schedule.matches, ids, strict=True):
        for episode_id in attempts:
            recorded = await journal.read(episode_id)
            await need_nothing_private(journal, episode_id, recorded, private)
            summary = await journal.episode(episode_id)
            episodes.append(_stated(summary, episode_id))
            figures = await recorded_figures(journal, episode_id)
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
    """A captain's fingerprints on the leaderboard, and the models that answered for it."""
    seats = [seat for one in figures for seat in one.seats if seat.captain == captain]
    entrants = sorted({seat.fingerprint for seat in seats if seat.fingerprint})
    return entrants, sorted({model for seat in seats for model in seat.models})


def _write(
    manifest: BundleManifest, journal: Path, target: Path, private: Sequence[PrivateText]
) -> Published:
    """Write a bundle next to its target, then move it there."""
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
    """Move a complete bundle to its target; other files there stay."""
    target.mkdir(parents=True, exist_ok=True)
    (target / MANIFEST).unlink(missing_ok=True)  # never a manifest next to another bundle's journal
    for name in (JOURNAL, MANIFEST):
        os.replace(half / name, target / name)


def _file(path: Path) -> BundledFile:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return BundledFile(sha256=digest, bytes=path.stat().st_size)
