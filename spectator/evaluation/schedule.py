"""Plan the matches of an evaluation, and describe them in its folder."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from spectator import __version__
from spectator.catalog import LoadWorld, load_world, unknown_name
from spectator.core_events import FailedDecisions
from spectator.environments.world import SEALED_BIT, Pack, World, derive_seed, sealed_seeds
from spectator.episodes.plan import complete_options, failed_decisions_broken_by
from spectator.errors import FieldError, InvalidRequest
from spectator.evaluation.figures import EVALUATION
from spectator.evaluation.sequential import StoppingRule
from spectator.events import encode_json
from spectator.journal.encoding import atomic_file
from spectator.policies.captains import ASKED_BY
from spectator.policies.model_presets import ModelBuild
from spectator.runs.run_plan import Job, RunPlan


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """The arguments of an evaluation.

    Args:
        environment: Name of the world.
        captains: Presets that are compared, two or more.
        matches: Matches of each pair of captains; even, for each seed is played twice, seats swapped.
        options: The world's options as sent.
        seed: Seed from which the matches' own are derived, where the pack brings none.
        phrase: Secret from which sealed seeds are made instead; never written anywhere.
        failed_decisions: What counts where a captain did not decide: a legal action drawn at random, the
            decision of the world's scripted captain (``fallback``), or the loss of the match (``forfeit``).
        waits_for_rest: Whether decisions of models wait for an endpoint that is left alone after failing.
        until: Half the width of the intervals at which it stops, in shares of 1; ``None`` plays all matches.
    """

    environment: str
    captains: tuple[str, ...]
    pack: str = "default"
    matches: int = 40
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 1
    phrase: str | None = None
    failed_decisions: FailedDecisions = "random"
    waits_for_rest: bool = False
    until: float | None = None


@dataclass(frozen=True, slots=True)
class ScheduledMatch:
    """One planned episode.

    Args:
        pair: Number of the seed, from 0.
        home: Preset in the agent's seat.
        away: Preset in the other seats; ``None`` in worlds without opponents.
    """

    pair: int
    seed: int
    home: str
    away: str | None

    @property
    def captains(self) -> frozenset[str | None]:
        """Both captains, in any order; ``None`` for the other in worlds without opponents."""
        return frozenset((self.home, self.away))


@dataclass(frozen=True, slots=True)
class Schedule:
    """Every match of an evaluation.

    Args:
        captains: Presets that are compared.
        options: Complete options.
        matches: All matches, seed by seed, so that a run that is cut short has whole seeds.
        pairs: How many seeds.
        failed_decisions: What counts where a captain did not decide; see ``EpisodeStarted``.
        waits_for_rest: Whether decisions of models wait for an endpoint left alone; see ``EpisodeStarted``.
        rule: When the evaluation stops by itself; ``None`` if it plays all matches.
    """

    world: World
    captains: tuple[str, ...]
    pack: Pack
    options: Mapping[str, Any]
    matches: tuple[ScheduledMatch, ...]
    pairs: int
    failed_decisions: FailedDecisions = "fallback"
    waits_for_rest: bool = False
    rule: StoppingRule | None = None

    @property
    def compared(self) -> list[tuple[str, str]]:
        """The pairs of captains."""
        return list(itertools.combinations(self.captains, 2))

    @property
    def paid(self) -> list[str]:
        """Those of the captains who may cost money."""
        return [name for name in self.captains if self.world.captains[name].costs_money]

    @property
    def jobs(self) -> list[Job]:
        """The matches as jobs, in their order."""
        world, pack = self.world, self.pack
        return [
            Job(
                world.name,
                world.version,
                match.home,
                match.away,
                pack.name,
                pack.version,
                match.seed,
                self.options,
                failed_decisions=self.failed_decisions,
                waits_for_rest=self.waits_for_rest,
            )
            for match in self.matches
        ]

    def run(self, began_ms: int, run_id: str | None = None) -> RunPlan:
        """The matches as jobs, in their order; a match keeps its id in every process.

        Args:
            began_ms: When the evaluation began, Unix time in milliseconds; ids sort by it.
            run_id: The name of its run; ``None`` for none.
        """
        return RunPlan(self.jobs, began_ms, run_id)

    def only(self, numbers: Container[int]) -> Schedule:
        """The matches of these numbers alone, from 0."""
        matches = tuple(match for number, match in enumerate(self.matches) if number in numbers)
        return replace(self, matches=matches)

    def to_json(self) -> str:
        """All that another process needs in order to play its matches, as JSON."""
        return encode_json(
            {
                "environment": self.world.name, "environment_version": self.world.version,
                "captains": list(self.captains), "pack": self.pack.name, "pack_version": self.pack.version,
                "options": dict(self.options), "pairs": self.pairs,
                "matches": [[match.pair, match.seed, match.home, match.away] for match in self.matches],
                "failed_decisions": self.failed_decisions, "waits_for_rest": self.waits_for_rest,
            }
        )  # fmt: skip

    @classmethod
    def from_json(cls, text: str, load: LoadWorld) -> Schedule:
        """What :meth:`to_json` wrote, in a process that has the same world.

        Raises:
            InvalidRequest: Its world or pack is of another version.
        """
        kept = json.loads(text)
        world = load(kept["environment"])
        pack = world.packs[kept["pack"]]
        for what, then, now in (
            (world.name, kept["environment_version"], world.version),
            (f"pack {pack.name}", kept["pack_version"], pack.version),
        ):
            if then != now:
                rule = f"the evaluation began with {what} of version {then}, and here it is {now}"
                raise InvalidRequest([FieldError("environment", rule)])
        return cls(
            world, tuple(kept["captains"]), pack, kept["options"],
            tuple(ScheduledMatch(*match) for match in kept["matches"]), kept["pairs"],
            kept["failed_decisions"], kept["waits_for_rest"],
        )  # fmt: skip

    def whole(self, played: Container[ScheduledMatch]) -> Schedule:
        """The seeds whose matches are all among ``played``."""
        missing = {match.pair for match in self.matches if match not in played}
        return self._keeping(lambda match: match.pair not in missing)

    def part(self, seeds: Mapping[tuple[str, str], int]) -> Schedule:
        """The matches on the first seeds of each pair.

        Args:
            seeds: By pair, how many; in a world without opponents each captain plays the most of its pairs.
        """
        most: dict[frozenset[str | None], int] = {}
        for pair, count in seeds.items():
            for met in (
                [frozenset(pair)] if self.world.opponents else [frozenset({one, None}) for one in pair]
            ):
                most[met] = max(count, most.get(met, 0))
        return self._keeping(lambda match: match.pair < most.get(match.captains, 0))

    def _keeping(self, kept: Callable[[ScheduledMatch], bool]) -> Schedule:
        matches = tuple(match for match in self.matches if kept(match))
        return replace(self, matches=matches, pairs=len({match.pair for match in matches}))


def plan_evaluation(
    request: EvaluationRequest, *, load: LoadWorld = load_world, keyless: bool = False
) -> Schedule:
    """Check ``request`` against the catalogue.

    Args:
        request: The arguments.
        keyless: Whether models may lack what they need to be asked, such as a key: to estimate.

    Raises:
        InvalidRequest: Names every wrong field, as the command line spells it.
    """
    try:
        world = load(request.environment)
    except InvalidRequest as error:
        raise InvalidRequest([FieldError("environment", one.rule) for one in error.fields]) from error
    wrong: list[FieldError] = [*_check_captains(request.captains, world, keyless)]
    pack = world.packs.get(request.pack)
    if pack is None:
        wrong.append(unknown_name("pack", request.pack, world.packs))
    if request.matches < 2 or request.matches % 2:
        wrong.append(
            FieldError("matches", "must be even and at least 2: each seed is played from both seats")
        )
    if (rule := failed_decisions_broken_by(request.failed_decisions, world)) is not None:
        wrong.append(FieldError("failed-decisions", rule))
    usual = world.opponent_options.get(world.default_opponent, {})
    options = complete_options(world.options_type, request.options, usual, pack, wrong)
    seeds = () if pack is None else _seeds(request, world, pack, wrong)
    if wrong or pack is None:
        raise InvalidRequest(wrong)
    alone = [(captain, None) for captain in request.captains]
    of_each_seed = list(itertools.permutations(request.captains, 2)) if world.opponents else alone
    matches = tuple(
        ScheduledMatch(pair, seed, home, away)
        for pair, seed in enumerate(seeds)
        for home, away in of_each_seed
    )
    pairs = math.comb(len(request.captains), 2)
    return Schedule(
        world,
        request.captains,
        pack,
        options,
        matches,
        len(seeds),
        request.failed_decisions,
        request.waits_for_rest,
        None if request.until is None else StoppingRule(request.until, pairs, len(seeds)),
    )


def _check_captains(captains: Sequence[str], world: World, keyless: bool) -> Iterator[FieldError]:
    if len(captains) < 2:
        yield FieldError("captains", "name at least two, separated by commas")
    if twice := sorted({name for name in captains if captains.count(name) > 1}):
        yield FieldError("captains", f"{', '.join(twice)} is named twice")
    for name in dict.fromkeys(captains):
        preset = world.captains.get(name)
        if preset is None:
            yield unknown_name("captains", name, world.captains)
        elif preset.missing is not None and not (keyless and isinstance(preset.build, ModelBuild)):
            yield FieldError("captains", f"{name!r} is not available here: {preset.missing}")
        elif preset.source == "human":
            yield FieldError("captains", f"{name!r} needs a person, but evaluations run without one")
        elif world.opponents and name not in world.opponents:
            yield FieldError(
                "captains", f"{name!r} cannot take the other side's seat, so seats cannot be swapped"
            )


def _seeds(request: EvaluationRequest, world: World, pack: Pack, wrong: list[FieldError]) -> Sequence[int]:
    """One seed a pair; those of development lie below :data:`SEALED_BIT`, sealed ones above."""
    pairs = request.matches // 2
    if request.phrase is not None:
        try:
            return sealed_seeds(world.name, pack, request.phrase, pairs)
        except ValueError as error:
            wrong.append(FieldError("sealed", str(error)))
            return ()
    if not pack.seeds:
        return [derive_seed(request.seed, "evaluation", pair) % SEALED_BIT for pair in range(pairs)]
    if pairs > len(pack.seeds) and request.until is None:
        most = (
            f"the pack {pack.name!r} has {len(pack.seeds)} development seeds: at most {2 * len(pack.seeds)}"
        )
        wrong.append(FieldError("matches", f"{most}, or any number with --sealed"))
    return pack.seeds[:pairs]


MANIFEST: Final = "evaluation.json"
JOURNAL: Final = "journal.db"
RESULTS: Final = "results.json"
REPORT: Final = "report.html"
PLOTS: Final = "plots"


class Kept(NamedTuple):
    """When an evaluation began, and its run.

    Args:
        began_ms: When it began, Unix time in milliseconds.
    """

    began_ms: int
    run_id: str


def keep_manifest(folder: Path, schedule: Schedule, now_ms: int, run_id: str | None = None) -> Kept:
    """Describe the evaluation in ``folder``, or check that it is still the same.

    Captains and matches may be added in a later run; what was played is not played again. A model may move to
    another endpoint, key or price, but is asked as it was in the first run.

    Args:
        folder: Created if missing.
        now_ms: Unix time in milliseconds.
        run_id: The name of its run; derived where it is left out.

    Returns:
        When the evaluation began, and its run's name.

    Raises:
        InvalidRequest: The folder contains another evaluation; the message names the differences.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asked, models = identity(schedule), _models(schedule)
    if run_id is not None:
        asked["run_id"] = run_id
    path = folder / MANIFEST
    has_journal = (folder / JOURNAL).exists()  # looked for first: another command may begin both now
    if path.exists():
        kept = _read(path)
        differing = [name for name, value in asked.items() if kept.get(name) != value]
        if differing:
            shown = "; ".join(f"{name} {kept.get(name)!r}, now {asked[name]!r}" for name in differing)
            raise InvalidRequest(
                [FieldError("out", f"{folder} holds another evaluation ({shown}); choose another folder")]
            )
        known = kept.get("models", {})
        _need_same(known, models, folder)
        if models.keys() - known.keys():
            write_text(path, json.dumps({**kept, "models": {**models, **known}}, indent=2))
        return Kept(int(kept["began_ms"]), kept["run_id"])
    if has_journal:
        raise InvalidRequest(
            [FieldError("out", f"{folder} contains a journal without an evaluation; choose another folder")]
        )
    if run_id is None:
        run_id = EVALUATION + hashlib.sha256(json.dumps([asked, now_ms]).encode()).hexdigest()[:16]
    kept = {**asked, "models": models, "began_ms": now_ms, "run_id": run_id, "spectator_version": __version__}
    write_text(path, json.dumps(kept, indent=2))
    return Kept(now_ms, run_id)


def write_text(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    with atomic_file(path) as file:
        file.write(text)


def identity(schedule: Schedule) -> dict[str, Any]:
    """The part of an evaluation that later runs must not change."""
    first = ",".join(str(match.seed) for match in schedule.matches[:1])
    return {
        "environment": schedule.world.name,
        "environment_version": schedule.world.version,
        "pack": schedule.pack.name,
        "pack_version": schedule.pack.version,
        "options": dict(schedule.options),
        "failed_decisions": schedule.failed_decisions,
        "first_seed": hashlib.sha256(first.encode()).hexdigest()[:16],
    }


def _models(schedule: Schedule) -> dict[str, dict[str, Any]]:
    """By captain, how a model is asked, as far as its answers may depend on it."""
    found = {}
    for name in schedule.captains:
        build = schedule.world.captains[name].build
        if isinstance(build, ModelBuild):
            found[name] = build.captain.model_dump(mode="json", include=set(ASKED_BY))
    return found


def _need_same(known: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    changed = [
        f"{name}: {field} was {known[name].get(field)!r}, now {value!r}"
        for name, asked in models.items()
        if name in known
        for field, value in asked.items()
        if known[name].get(field) != value
    ]
    if changed:
        rule = f"{folder} contains matches with other settings ({'; '.join(changed)}); choose another folder"
        raise InvalidRequest([FieldError("out", rule)])


def _read(path: Path) -> Mapping[str, Any]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidRequest([FieldError("out", f"{path} cannot be read: {error}")]) from error
    if not isinstance(kept, dict) or not {"began_ms", "run_id"} <= kept.keys():
        raise InvalidRequest([FieldError("out", f"{path} does not describe an evaluation")])
    return kept
