"""Checks a bundle without a key and without a network: what of its claims does not come out as claimed."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
"""Relative difference of two figures that are the same, added up on another machine."""

Report = Callable[[int, int], None]
"""Called with the episodes that are checked and with all."""


@dataclass(slots=True)
class Verdict:
    """What came of checking a bundle.

    Args:
        digest: The bundle's.
        wrong: What is not as claimed; empty where all is.
        notes: What a reader should know beside that.
        replayed: Episodes whose world and decisions were played again.
        episodes: Episodes in the bundle.
    """

    digest: str
    wrong: list[Misstatement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    replayed: int = 0
    episodes: int = 0

    @property
    def verified(self) -> bool:
        """Whether every claim that was checked is as claimed."""
        return not self.wrong

    @property
    def whole(self) -> bool:
        """Whether every episode was played again, so that nothing was left unchecked."""
        return self.replayed == self.episodes


@dataclass(frozen=True, slots=True)
class Sample:
    """A part of the episodes, for a quick look.

    Args:
        size: How many are played again.
        rng: Draws them; whoever made the bundle must not know how.
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
    """Check everything that a bundle claims.

    The digests of its files are checked already, see :func:`~spectator.evaluation.bundles.bundle.opened`.
    Checked here are the seeds, the schedule, every chain of events, the model calls, every world and every
    decision, and the results with their intervals. What nobody can check is whether a model really answered
    what is recorded: docs/evaluation.md says what a bundle shows and what it cannot.

    Args:
        bundle: The bundle.
        clock: Time.
        load: Finds its world.
        sample: Which episodes are played again; all when left out. Records, seeds, schedule and results are
            checked in any case.
        report: Hears of the progress.

    Raises:
        BundleError: It describes what cannot be.
    """
    verdict = Verdict(bundle.digest, episodes=len(bundle.manifest.episodes))
    if bundle.beside:
        verdict.notes.append(f"not part of it, and not looked at: {', '.join(bundle.beside)[:300]}")
    manifest = bundle.manifest
    schedule = _schedule(manifest, bundled_cast(manifest.captains, load, clock), verdict)
    if schedule is None:
        return verdict
    try:
        journal = await SqlJournal.open(f"sqlite:///{bundle.folder / JOURNAL}", writable=False)
    except SpectatorError as error:
        verdict.wrong.append(Misstatement(f"{JOURNAL} cannot be opened: {_without(error, bundle)}"))
        return verdict
    try:
        await _check_journal(journal, schedule, manifest, verdict, sample, report)
    except SpectatorError as error:
        verdict.wrong.append(Misstatement(f"{JOURNAL} cannot be read: {_without(error, bundle)}"))
    finally:
        await journal.aclose()
    return verdict


def _without(error: SpectatorError, bundle: OpenedBundle) -> str:
    return str(error).replace(str(bundle.folder), "").replace("sqlite:////", "")[:300]


def _schedule(manifest: BundleManifest, load: LoadWorld, verdict: Verdict) -> Schedule | None:
    """What must have been played, by the manifest; ``None`` where that cannot be checked here."""
    wrong = verdict.wrong
    request = EvaluationRequest(
        environment=manifest.environment,
        captains=tuple(one.name for one in manifest.captains),
        pack=manifest.pack.name,
        matches=manifest.matches,
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
                    f"{world.name}, and here is {world.version}; check it with Spectator "
                    f"{manifest.spectator_version[:40]}, here is {__version__}"
                )
            )
            return None
        if (due := _matches(manifest, world)) > 10 * len(manifest.episodes) + 1000:
            told = f"{due} matches are due, and only {len(manifest.episodes)} episodes are in it"
            wrong.append(Misstatement(f"matches: {told}"))
            return None
        schedule = plan_evaluation(request, load=load)
    except InvalidRequest as error:
        told = "; ".join(f"{one.field}: {one.rule}" for one in error.fields)
        wrong.append(Misstatement(f"what the manifest says cannot be played here: {told[:500]}"))
        return None
    wrong += [Misstatement(told) for told in (*_seeds(manifest, schedule), *_captains(manifest, schedule))]
    return schedule


def _matches(manifest: BundleManifest, world: World) -> int:
    """How many matches the manifest's schedule has, known before it is made."""
    captains = len(manifest.captains)
    return manifest.matches // 2 * (captains * (captains - 1) if world.opponents else captains)


def _seeds(manifest: BundleManifest, schedule: Schedule) -> Iterator[str]:
    """What is wrong with what the manifest says of pack and seeds."""
    seeds, pack = manifest.seeds, schedule.pack
    if manifest.pack.version != pack.version:
        yield f"pack.version: {manifest.pack.version[:40]} was played, and here is {pack.version}"
    if manifest.options != dict(schedule.options):
        yield "options: the manifest does not state every option as the world completes them"
    made = "sealed" if seeds.phrase is not None else "pack" if pack.seeds else "derived"
    if seeds.made != made:
        yield f"seeds.made: is claimed to be {seeds.made}, and what the manifest says makes them {made}"
    if seeds.count != schedule.pairs:
        yield f"seeds.count: is claimed to be {seeds.count}, and {schedule.pairs} are due"
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
                yield f"captains.{stated.name}.{name}: is claimed to be {claimed!r}, and is {here!r}"
    for name in anchors:
        if name not in schedule.captains:
            yield f"captains: the anchor {name!r} is left out"


async def _check_journal(
    journal: SqlJournal,
    schedule: Schedule,
    manifest: BundleManifest,
    verdict: Verdict,
    sample: Sample | None,
    report: Report,
) -> None:
    """Check all that the journal holds."""
    run = schedule.run(manifest.began_ms, manifest.run_id)
    due = await progress(journal, run)
    verdict.wrong += list(_left_out(schedule, {one.number: one.episode_id for one in due.remaining}))
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
        verdict.notes.append(
            f"{again} matches were stopped from outside and played once more; both are in it"
        )
    if broken := sum(not one.finished for one in found.values()):
        verdict.notes.append(f"{broken} matches broke down, by their record; their pairs count for nobody")
    if manifest.spectator_version != __version__:
        verdict.notes.append(f"made by Spectator {manifest.spectator_version[:40]}, checked by {__version__}")


def _left_out(schedule: Schedule, owed: Mapping[int, str]) -> Iterator[Misstatement]:
    for number, episode_id in owed.items():
        match = schedule.matches[number]
        who = match.home if match.away is None else f"{match.home} against {match.away}"
        yield Misstatement(f"the match of {who} on seed {match.seed} was left out, or has no end", episode_id)


def _attempts(run: RunPlan, over: Mapping[int, str]) -> dict[str, tuple[int, int]]:
    """By episode, which match it is and which attempt at it."""
    found = {}
    for number, last in over.items():
        attempt, episode_id = 0, ""
        while episode_id != last:
            attempt += 1
            episode_id = run.episode_id(run.jobs[number], attempt)
            found[episode_id] = (number, attempt)
    return found


async def _foreign(journal: Journal, attempts: Mapping[str, object], stated: Mapping[str, object]) -> Any:
    """Episodes that are in the journal or in the manifest alone, or that no match of the schedule is."""
    there = {summary.episode_id async for summary in newest_first(journal)}
    for episode_id in sorted(there | stated.keys()):
        if episode_id not in there:
            yield Misstatement("the manifest states it, and the journal does not hold it", episode_id)
        elif episode_id not in stated:
            yield Misstatement("the journal holds it, and the manifest does not state it", episode_id)
        elif episode_id not in attempts:
            yield Misstatement(
                "it is no match of the schedule: a seed, a captain or an option is another", episode_id
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
    """Check every episode, and give the figures of each."""
    known = [episode_id for episode_id in attempts if episode_id in stated]
    size = len(known) if sample is None else min(sample.size, len(known))
    again = set(known if sample is None else sample.rng.sample(known, size))
    found: dict[str, EpisodeFigures | None] = {}
    report(0, len(known))
    for done, episode_id in enumerate(known, 1):
        number, attempt = attempts[episode_id]
        plan = run.plan(run.jobs[number], attempt, schedule.world)
        checked: CheckedEpisode = await check_episode(
            journal, stated[episode_id], plan, replay=episode_id in again
        )
        verdict.wrong += checked.found
        verdict.replayed += episode_id in again
        found[episode_id] = checked.figures
        report(done, len(known))
        await asyncio.sleep(0)
    return found


def _conclude(
    manifest: BundleManifest,
    schedule: Schedule,
    found: Mapping[ScheduledMatch, EpisodeFigures],
    verdict: Verdict,
) -> None:
    """Compare what is claimed with what comes of the matches."""
    if len(found) < len(schedule.matches):
        verdict.wrong.append(
            Misstatement("results: cannot be computed, because a match is missing or cannot be read")
        )
        return
    for captain in manifest.captains:
        for name, here in zip(("entrants", "models"), entrants_of(captain.name, found.values()), strict=True):
            if (claimed_here := getattr(captain, name)) != here:
                told = f"captains.{captain.name}.{name}: is claimed to be {claimed_here}, and is {here}"
                verdict.wrong.append(Misstatement(told[:400]))
    computed = results_of(schedule, found).model_dump(mode="json", exclude={"spectator_version"})
    claimed = manifest.results.model_dump(mode="json", exclude={"spectator_version"})
    verdict.wrong += [Misstatement(told) for told in differences(claimed, computed, "results")]


def differences(claimed: Any, computed: Any, where: str) -> Iterator[str]:
    """Where two values of plain JSON differ, a sentence each; figures may differ by rounding.

    >>> list(differences({"share": 0.5, "n": 3}, {"share": 0.5000000000001, "n": 4}, "results"))
    ['results.n: is claimed to be 3, and comes out as 4']
    """
    if isinstance(claimed, Mapping) and isinstance(computed, Mapping):
        for name in {**claimed, **computed}:
            yield from differences(claimed.get(name), computed.get(name), f"{where}.{name}")
    elif isinstance(claimed, Sequence) and isinstance(computed, Sequence) and not isinstance(claimed, str):
        if len(claimed) != len(computed):
            yield f"{where}: has {len(claimed)} entries, and {len(computed)} come out"
        for place, (one, other) in enumerate(zip(claimed, computed, strict=False)):
            yield from differences(one, other, f"{where}.{_name(other, place)}")
    elif not _same(claimed, computed):
        yield f"{where}: is claimed to be {claimed!r:.100}, and comes out as {computed!r:.100}"


def _name(entry: Any, place: int) -> str:
    """What an entry of a list is called in a sentence."""
    if isinstance(entry, Mapping):
        for name in ("name", "episode_id"):
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
