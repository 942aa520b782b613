"""Check every claim of a bundle, without a key or a network."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from spectator import __version__
from spectator.catalog import LoadWorld, load_world
from spectator.clock import Clock
from spectator.environments.world import World
from spectator.errors import InvalidRequest, SpectatorError
from spectator.evaluation.bundles.bundle import (
    JOURNAL,
    BundledEpisode,
    BundleManifest,
    OpenedBundle,
    anchors_of,
    commitment,
)
from spectator.evaluation.bundles.episode_check import CheckedEpisode, Misstatement, check_episode
from spectator.evaluation.bundles.publication import bundled_cast, entrants_of
from spectator.evaluation.figures import EpisodeFigures
from spectator.evaluation.results import results_of
from spectator.evaluation.schedule import EvaluationRequest, Schedule, ScheduledMatch, plan_evaluation
from spectator.journal.contract import Journal
from spectator.journal.sql_journal import SqlJournal
from spectator.runs.run_plan import RunPlan, newest_first, progress

TOLERANCE: Final = 1e-9
"""Relative difference up to which figures of two machines are equal."""

Report = Callable[[int, int], None]
"""Called with the number of checked episodes and the total."""


@dataclass(slots=True)
class Verdict:
    """The result of checking a bundle.

    Args:
        digest: The bundle's digest.
        wrong: Wrong claims.
        notes: Further notes for readers.
        replayed: Episodes that were replayed.
        episodes: Episodes in the bundle.
    """

    digest: str
    wrong: list[Misstatement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    replayed: int = 0
    episodes: int = 0

    @property
    def verified(self) -> bool:
        """Whether every checked claim is correct."""
        return not self.wrong

    @property
    def whole(self) -> bool:
        """Whether every episode was replayed, so that everything was checked."""
        return self.replayed == self.episodes


@dataclass(frozen=True, slots=True)
class Sample:
    """A random sample of the episodes, for a quick check.

    Args:
        size: Number of episodes to replay.
        rng: Draws them; the bundle's author must not be able to predict it.
    """

    size: int
    rng: random.Random


async def verify_bundle(
    bundle: OpenedBundle,
    *,
    clock: Clock,
    load: LoadWorld = load_world,
    sample: Sample | None = None,
    report: Report = lambda done, total: None,
) -> Verdict:
    """Check every claim of a bundle.

    This checks the seeds, the schedule, every event chain, the model calls, every world and decision, and the
    results with their intervals; :func:`~spectator.evaluation.bundles.bundle.opened` has already checked the
    file digests. Whether a model really gave the recorded answers cannot be checked: docs/evaluation.md
    explains what a bundle proves.

    Args:
        sample: Episodes to replay; ``None`` replays all. Records, seeds, schedule and results are always
            checked.

    Raises:
        BundleError: The manifest describes an invalid model.
    """
    verdict = Verdict(bundle.digest, episodes=len(bundle.manifest.episodes))
    if bundle.unlisted:
        verdict.notes.append(f"not listed in the manifest, and not read: {', '.join(bundle.unlisted)[:300]}")
    manifest = bundle.manifest
    schedule = _schedule(manifest, bundled_cast(manifest.captains, load, clock), verdict)
    if schedule is None:
        return verdict
    try:
        journal = await SqlJournal.open(f"sqlite:///{bundle.folder / JOURNAL}", writable=False)
    except SpectatorError as error:
        verdict.wrong.append(Misstatement(f"{JOURNAL} cannot be opened: {_without_folder(error, bundle)}"))
        return verdict
    try:
        await _check_journal(journal, schedule, manifest, verdict, sample, report)
    except SpectatorError as error:
        verdict.wrong.append(Misstatement(f"{JOURNAL} is unreadable: {_without_folder(error, bundle)}"))
    finally:
        await journal.aclose()
    return verdict


def _without_folder(error: SpectatorError, bundle: OpenedBundle) -> str:
    return str(error).replace(str(bundle.folder), "").replace("sqlite:////", "")[:300]


def _schedule(manifest: BundleManifest, load: LoadWorld, verdict: Verdict) -> Schedule | None:
    """Plan the matches from the manifest; ``None`` if that fails here."""
    wrong = verdict.wrong
    until = manifest.results.until
    longest = 0 if until is None else max((0, *until.seeds.values()))
    request = EvaluationRequest(
        environment=manifest.environment,
        captains=tuple(one.name for one in manifest.captains),
        pack=manifest.pack.name,
        matches=manifest.matches if until is None else min(manifest.matches, 2 * max(1, longest)),
        until=None if until is None else until.half_width,
        options=manifest.options,
        seed=manifest.seeds.seed or 0,
        phrase=manifest.seeds.phrase,
        failed_decisions=manifest.failed_decisions,
    )
    try:
        world = load(manifest.environment)
        if world.version != manifest.environment_version:
            wrong.append(
                Misstatement(
                    f"environment_version: it was played in version {manifest.environment_version[:40]} of "
                    f"{world.name}, but version {world.version} is installed; check it with Spectator "
                    f"{manifest.spectator_version[:40]} (this is {__version__})"
                )
            )
            return None
        if (due := _matches(manifest, world)) > 10 * len(manifest.episodes) + 1000:
            rule = f"the schedule has {due} matches, but the bundle only {len(manifest.episodes)} episodes"
            wrong.append(Misstatement(f"matches: {rule}"))
            return None
        schedule = plan_evaluation(request, load=load)
        if until is not None and schedule.rule is not None:
            seeds = {pair: until.seeds.get("|".join(pair), 0) for pair in schedule.compared}
            schedule = replace(schedule, rule=replace(schedule.rule, most=until.most)).part(seeds)
    except InvalidRequest as error:
        rules = "; ".join(f"{one.field}: {one.rule}" for one in error.fields)
        wrong.append(Misstatement(f"the manifest's evaluation cannot be played here: {rules[:500]}"))
        return None
    wrong += [Misstatement(rule) for rule in (*_seeds(manifest, schedule), *_captains(manifest, schedule))]
    return schedule


def _matches(manifest: BundleManifest, world: World) -> int:
    """The number of matches, computed before they are planned."""
    captains, until = len(manifest.captains), manifest.results.until
    if until is not None:
        return 2 * sum(until.seeds.values())
    return manifest.matches // 2 * (captains * (captains - 1) if world.opponents else captains)


def _seeds(manifest: BundleManifest, schedule: Schedule) -> Iterator[str]:
    """What is wrong with the manifest's pack and seeds."""
    seeds, pack = manifest.seeds, schedule.pack
    if manifest.pack.version != pack.version:
        yield f"pack.version: is {manifest.pack.version[:40]}, but {pack.version} is installed"
    if manifest.options != dict(schedule.options):
        yield "options: the manifest does not state every option of the world"
    made = "sealed" if seeds.phrase is not None else "pack" if pack.seeds else "derived"
    if seeds.made != made:
        yield f"seeds.made: is claimed to be {seeds.made}, but the manifest makes them {made}"
    if seeds.count != schedule.pairs:
        yield f"seeds.count: is claimed to be {seeds.count}, but the schedule has {schedule.pairs}"
    if seeds.phrase is not None and seeds.commitment != commitment(schedule.world.name, pack, seeds.phrase):
        yield "seeds.commitment: is not the digest of the phrase in the bundle"


def _captains(manifest: BundleManifest, schedule: Schedule) -> Iterator[str]:
    anchors = anchors_of(schedule.world)
    for stated in manifest.captains:
        preset = schedule.world.captains[stated.name]
        for name, here in (
            ("label", preset.label),
            ("source", preset.source),
            ("fingerprint", preset.fingerprint),
            ("anchor", stated.name in anchors),
        ):
            if (claimed := getattr(stated, name)) != here:
                yield f"captains.{stated.name}.{name}: is claimed to be {claimed!r}, but is {here!r}"
    for name in anchors:
        if name not in schedule.captains:
            yield f"captains: the anchor {name!r} is missing"


async def _check_journal(
    journal: SqlJournal,
    schedule: Schedule,
    manifest: BundleManifest,
    verdict: Verdict,
    sample: Sample | None,
    report: Report,
) -> None:
    """Check every episode of the journal."""
    run = schedule.run(manifest.began_ms, manifest.run_id)
    due = await progress(journal, run)
    verdict.wrong += list(_missing(schedule, {one.number: one.episode_id for one in due.remaining}))
    attempts = _attempts(run, due.over)
    stated = {one.id: one for one in manifest.episodes}
    verdict.wrong += [one async for one in _foreign(journal, attempts, stated)]
    checked = await _episodes(journal, schedule, run, attempts, stated, verdict, sample, report)
    found = {
        schedule.matches[number]: figures
        for number, episode_id in due.over.items()
        if (figures := checked.get(episode_id)) is not None
    }
    _conclude(manifest, schedule, found, verdict)
    again = len(attempts) - len(due.over)
    if again:
        verdict.notes.append(f"{again} interrupted matches were repeated; the bundle contains both attempts")
    if broken := sum(not one.finished for one in found.values()):
        verdict.notes.append(f"{broken} matches did not finish; their pairs are not counted")
    if manifest.spectator_version != __version__:
        verdict.notes.append(f"made by Spectator {manifest.spectator_version[:40]}, checked by {__version__}")


def _missing(schedule: Schedule, missing: Mapping[int, str]) -> Iterator[Misstatement]:
    for number, episode_id in missing.items():
        match = schedule.matches[number]
        who = match.home if match.away is None else f"{match.home} against {match.away}"
        yield Misstatement(f"the match of {who} on seed {match.seed} is missing, or has no end", episode_id)


def _attempts(run: RunPlan, over: Mapping[int, str]) -> dict[str, tuple[int, int]]:
    """By episode id: the number of its match, and of the attempt."""
    found = {}
    for number, last in over.items():
        attempt, episode_id = 0, ""
        while episode_id != last:
            attempt += 1
            episode_id = run.episode_id(run.jobs[number], attempt)
            found[episode_id] = (number, attempt)
    return found


async def _foreign(journal: Journal, attempts: Mapping[str, object], stated: Mapping[str, object]) -> Any:
    """Episodes that the journal, the manifest or the schedule lacks."""
    there = {summary.episode_id async for summary in newest_first(journal)}
    for episode_id in sorted(there | stated.keys()):
        if episode_id not in there:
            yield Misstatement("the manifest lists it, but the journal does not contain it", episode_id)
        elif episode_id not in stated:
            yield Misstatement("the journal contains it, but the manifest does not list it", episode_id)
        elif episode_id not in attempts:
            yield Misstatement(
                "it is not a match of the schedule: its seed, a captain or an option differs", episode_id
            )


async def _episodes(
    journal: SqlJournal,
    schedule: Schedule,
    run: RunPlan,
    attempts: Mapping[str, tuple[int, int]],
    stated: Mapping[str, BundledEpisode],
    verdict: Verdict,
    sample: Sample | None,
    report: Report,
) -> dict[str, EpisodeFigures | None]:
    """Check every episode; return the figures of each."""
    known = [episode_id for episode_id in attempts if episode_id in stated]
    size = len(known) if sample is None else min(sample.size, len(known))
    again = set(known if sample is None else sample.rng.sample(known, size))
    found: dict[str, EpisodeFigures | None] = {}
    claims: dict[str, None] = {}
    report(0, len(known))
    for done, episode_id in enumerate(known, 1):
        number, attempt = attempts[episode_id]
        plan = run.plan(run.jobs[number], attempt, schedule.world)
        checked: CheckedEpisode = await check_episode(
            journal, stated[episode_id], plan, replay=episode_id in again
        )
        verdict.wrong += checked.found
        claims |= checked.claims
        verdict.replayed += episode_id in again
        found[episode_id] = checked.figures
        report(done, len(known))
        await asyncio.sleep(0)
    verdict.wrong[:0] = [Misstatement(one) for one in claims]
    return found


def _conclude(
    manifest: BundleManifest,
    schedule: Schedule,
    found: Mapping[ScheduledMatch, EpisodeFigures],
    verdict: Verdict,
) -> None:
    """Compare the claimed results with those of the matches."""
    if len(found) < len(schedule.matches):
        verdict.wrong.append(
            Misstatement("results: cannot be computed, because a match is missing or unreadable")
        )
        return
    for captain in manifest.captains:
        for name, here in zip(("entrants", "models"), entrants_of(captain.name, found.values()), strict=True):
            if (claimed_here := getattr(captain, name)) != here:
                rule = f"captains.{captain.name}.{name}: is claimed to be {claimed_here}, but is {here}"
                verdict.wrong.append(Misstatement(rule[:400]))
    computed = results_of(schedule, found).model_dump(mode="json", exclude={"spectator_version"})
    claimed = manifest.results.model_dump(mode="json", exclude={"spectator_version"})
    verdict.wrong += [Misstatement(one) for one in differences(claimed, computed, "results")]


def differences(claimed: Any, computed: Any, where: str) -> Iterator[str]:
    """Compare two JSON values; yield a sentence per difference beyond rounding.

    >>> list(differences({"share": 0.5, "n": 3}, {"share": 0.5000000000001, "n": 4}, "results"))
    ['results.n: is claimed to be 3, but is 4']
    """
    if isinstance(claimed, Mapping) and isinstance(computed, Mapping):
        for name in {**claimed, **computed}:
            yield from differences(claimed.get(name), computed.get(name), f"{where}.{name}")
    elif isinstance(claimed, Sequence) and isinstance(computed, Sequence) and not isinstance(claimed, str):
        if len(claimed) != len(computed):
            yield f"{where}: is claimed to have {len(claimed)} entries, but has {len(computed)}"
        for place, (one, other) in enumerate(zip(claimed, computed, strict=False)):
            yield from differences(one, other, f"{where}.{_name(other, place)}")
    elif not _same(claimed, computed):
        yield f"{where}: is claimed to be {claimed!r:.100}, but is {computed!r:.100}"


def _name(entry: Any, place: int) -> str:
    """The name of a list entry in a sentence."""
    if isinstance(entry, Mapping):
        for name in ("name", "episode_id", "id"):
            if name in entry:
                return str(entry[name])
        if "first" in entry:
            return f"{entry['first']}-{entry['second']}"
    return str(place)


def _same(claimed: Any, computed: Any) -> bool:
    if (
        isinstance(claimed, float | int)
        and isinstance(computed, float | int)
        and bool not in (type(claimed), type(computed))
    ):
        return math.isclose(claimed, computed, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(claimed == computed)
