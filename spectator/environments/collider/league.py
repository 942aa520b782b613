"""The league: sealed pseudo-experiments, intervals for the signal strength, and a board that scores them.

Each pseudo-experiment is a histogram of a signal on a smooth background. Its strength and its nuisance
parameters follow from a secret phrase; agents see the counts, the templates and a commitment to the truth.
They enter one interval for each experiment, which should contain the true strength in 68.27 % of them.

The score is the quantile score of the FAIR Universe HiggsML uncertainty challenge (Bhimji et al.,
arXiv:2410.02867; FAIR-Universe/HEP-Challenge, pages/evaluation.md): -ln((w + 0.001) f(c)), with the mean
width w and the coverage c. With s the binomial standard error of a coverage of 68.27 %, f is 1 within 2 s of
it, and grows with the distance d from this band: 1 + (d/s)^4 below it, 1 + (d/s)^3 above it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectator import __version__
from spectator.environments.collider.analysis.checks import Floats
from spectator.environments.collider.strength import StrengthModel, asymptotic, bayesian, by_toys
from spectator.errors import FieldError, InvalidRequest, field_errors
from spectator.events import encode_json

LEVEL: Final = 0.6827
"""Share of the experiments in which an interval should contain the truth."""

MU_RANGE: Final = (0.0, 3.0)
"""True strengths are uniform in this range."""

MOST_EXPERIMENTS: Final = 5000

MODEL: Final = (
    "expected[i] = mu * S * s[i] + B * b[i]; S = sum(signal) * exp(sum_k theta[k] * signal_rate[k]); "
    "s[i] = w[i] / sum(w), w[i] = signal[i] * exp(sum_k theta[k] * signal_shape[k][i]); B and b likewise "
    "from background; counts[i] ~ Poisson(expected[i]); theta[k] ~ Normal(0, 1); mu ~ Uniform(mu_range)"
)
"""The whole statistical model, as agents read it."""


class _Document(BaseModel):
    """Base of the parts of a league: frozen, without unknown fields, conversions and infinite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class LeagueNuisance(_Document):
    """A nuisance parameter: standard normal, so that 1 is one standard error."""

    name: str
    meaning: str
    signal_rate: float = Field(description="Logarithm of the factor on all signal events")
    background_rate: float
    signal_shape: list[float] = Field(description="Logarithm of the weight of each bin")
    background_shape: list[float]


class PseudoExperiment(_Document):
    """The counts of one pseudo-experiment."""

    id: str
    counts: list[int] = Field(description="Events of each bin")


class League(_Document):
    """What agents see."""

    format: Literal["spectator.collider.league/1"] = "spectator.collider.league/1"
    made: Literal["sealed", "development"] = Field(
        description="`development`: from a seed that anyone may try; `sealed`: from a secret phrase"
    )
    commitment: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the sealed truth")
    level: float = Field(description="Share of the experiments that the intervals should cover")
    mu_range: tuple[float, float] = Field(description="True strengths are uniform in it")
    axis: Literal["reconstructed mass"] = "reconstructed mass"
    unit: Literal["GeV"] = "GeV"
    edges: list[float] = Field(description="Bin edges in the unit")
    signal: list[float] = Field(description="Expected signal events of each bin at strength 1")
    background: list[float] = Field(description="Expected background events of each bin")
    nuisances: list[LeagueNuisance]
    model: str = Field(default=MODEL, description="The statistical model")
    experiments: list[PseudoExperiment] = Field(min_length=1, max_length=MOST_EXPERIMENTS)


class ExperimentTruth(_Document):
    """The truth of one pseudo-experiment."""

    id: str
    mu: float = Field(description="Signal strength")
    nuisances: dict[str, float] = Field(description="In units of their standard errors")


class LeagueTruth(_Document):
    """The sealed truth; its SHA-256 is the league's commitment."""

    format: Literal["spectator.collider.league-truth/1"] = "spectator.collider.league-truth/1"
    phrase: str = Field(description="The league follows from it")
    experiments: list[ExperimentTruth] = Field(min_length=1, max_length=MOST_EXPERIMENTS)


class StrengthInterval(_Document):
    """The interval of one experiment."""

    id: str
    low: float = Field(ge=-1e6, le=1e6)
    high: float = Field(ge=-1e6, le=1e6)


class LeagueEntry(_Document):
    """Intervals for every experiment of a league: the file that an agent hands in."""

    format: Literal["spectator.collider.league-entry/1"] = "spectator.collider.league-entry/1"
    league: str = Field(description="Commitment of the league")
    name: str = Field(min_length=1, max_length=100, description="Name on the board")
    intervals: list[StrengthInterval] = Field(max_length=MOST_EXPERIMENTS)


class LeagueFigure(_Document):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


class LeagueRow(_Document):
    """An entry on the board."""

    rank: int = Field(ge=1, description="1 + the entries whose score is better beyond both intervals")
    name: str
    digest: str = Field(description="SHA-256 of the entry")
    coverage: LeagueFigure = Field(description="Share of true strengths in the intervals; Clopper-Pearson")
    width: LeagueFigure = Field(description="Mean width; bootstrap over experiments")
    score: LeagueFigure = Field(description="Quantile score; bootstrap over experiments")


class LeagueBundle(_Document):
    """A scored league with all that is needed to compute it again."""

    format: Literal["spectator.collider.league-bundle/1"] = "spectator.collider.league-bundle/1"
    spectator_version: str
    league: League
    truth: LeagueTruth
    entries: list[LeagueEntry]
    board: list[LeagueRow]


Document = TypeVar("Document", bound=_Document)


def read_document(kind: type[Document], text: str | bytes, name: str) -> Document:
    """Read a league, a truth, an entry or a bundle from JSON.

    Args:
        kind: What it should be.
        text: The JSON.
        name: How errors call it, such as the name of its file.

    Raises:
        InvalidRequest: It is something else; names each field and its rule.
    """
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise _invalid(name, field_errors(error.errors(include_url=False))) from error


def _invalid(name: str, wrong: Sequence[FieldError]) -> InvalidRequest:
    return InvalidRequest([FieldError(f"{name}: {one.field}", one.rule) for one in wrong[:5]])


def digest_of(document: _Document) -> str:
    """Return the SHA-256 of a document in canonical JSON, as 64 hexadecimal digits."""
    return hashlib.sha256(encode_json(document.model_dump(mode="json")).encode()).hexdigest()


DEVELOPMENT: Final = "development seed "
"""How phrases of development leagues begin."""

EDGES: Final = [110.0 + step for step in range(31)]
MASS_GEV, RESOLUTION_GEV = 125.0, 1.8
SIGNAL_EVENTS, BACKGROUND_EVENTS = 40.0, 600.0
FALL: Final = 0.03
"""Logarithmic slope of the background for each GeV."""


def make_league(phrase: str, experiments: int = 100) -> tuple[League, LeagueTruth]:
    """Make a league and its sealed truth; the same phrase always gives the same.

    Args:
        phrase: Secret from which everything follows; :data:`DEVELOPMENT` and a number for a public league.
        experiments: Number of pseudo-experiments.

    Raises:
        InvalidRequest: The phrase is too short, or the number is out of range.

    >>> league, truth = make_league("development seed 1", 3)
    >>> [one.id for one in league.experiments], league.commitment == digest_of(truth)
    (['exp-0001', 'exp-0002', 'exp-0003'], True)
    """
    if len(phrase) < 8:
        raise InvalidRequest([FieldError("phrase", "must have at least 8 characters")])
    if not 1 <= experiments <= MOST_EXPERIMENTS:
        raise InvalidRequest([FieldError("experiments", f"must be from 1 to {MOST_EXPERIMENTS:,}")])
    tables = _tables()
    model, names = strength_model(**tables), [one.name for one in tables["nuisances"]]
    rng = _generator("truth", phrase)
    mu = np.round(rng.uniform(*MU_RANGE, experiments), 6)
    theta = np.round(rng.standard_normal((experiments, len(names))), 6)
    counts = rng.poisson(model.expected(mu, theta))
    ids = [f"exp-{number:04}" for number in range(1, experiments + 1)]
    truth = LeagueTruth(
        phrase=phrase,
        experiments=[
            ExperimentTruth(
                id=name, mu=float(strength), nuisances=dict(zip(names, row.tolist(), strict=True))
            )
            for name, strength, row in zip(ids, mu, theta, strict=True)
        ],
    )
    league = League(
        made="development" if phrase.startswith(DEVELOPMENT) else "sealed",
        commitment=digest_of(truth),
        level=LEVEL,
        mu_range=MU_RANGE,
        experiments=[
            PseudoExperiment(id=name, counts=row.tolist()) for name, row in zip(ids, counts, strict=True)
        ],
        **tables,
    )
    return league, truth


def _generator(*names: str) -> np.random.Generator:
    digest = hashlib.sha256("\x1f".join(("spectator collider league", *names)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def _tables() -> dict[str, Any]:
    """Return the templates of the analysis, and what each nuisance parameter changes."""
    centres = np.array(EDGES[:-1]) + 0.5
    pull, across = (centres - MASS_GEV) / RESOLUTION_GEV, (centres - 125.0) / 15.0
    signal, background = np.exp(-(pull**2) / 2.0), np.exp(-FALL * centres)
    flat, tilt = np.zeros(len(centres)), 0.6 / RESOLUTION_GEV * pull
    changes = [
        ("luminosity", "integrated luminosity, 2 %", 0.02, 0.02, flat, flat),
        ("efficiency", "efficiency of the signal, 8 %", 0.08, 0.0, flat, flat),
        ("background_rate", "normalisation of the background, 10 %", 0.0, 0.1, flat, flat),
        ("background_slope", "slope of the background, 15 % at the edges", 0.0, 0.0, flat, 0.15 * across),
        ("energy_scale", "energy scale, 0.6 GeV at the peak", 0.0, 0.0, tilt, flat),
        ("resolution", "mass resolution, 10 %", 0.0, 0.0, 0.1 * (pull**2 - 1.0), flat),
    ]
    nuisances = [
        LeagueNuisance(
            name=name,
            meaning=meaning,
            signal_rate=signal_rate,
            background_rate=background_rate,
            signal_shape=_rounded(np.clip(peak, -1.5, 1.5)),
            background_shape=_rounded(smooth),
        )
        for name, meaning, signal_rate, background_rate, peak, smooth in changes
    ]
    return {
        "edges": EDGES,
        "signal": _rounded(SIGNAL_EVENTS * signal / signal.sum()),
        "background": _rounded(BACKGROUND_EVENTS * background / background.sum()),
        "nuisances": nuisances,
    }


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def strength_model(
    signal: list[float], background: list[float], nuisances: Sequence[LeagueNuisance], **_: Any
) -> StrengthModel:
    """Return the tables of a league as arrays."""
    return StrengthModel(
        np.array(signal),
        np.array(background),
        *(
            np.array([getattr(one, name) for one in nuisances])
            for name in ("signal_rate", "background_rate", "signal_shape", "background_shape")
        ),
    )


def check_truth(league: League, truth: LeagueTruth) -> None:
    """Check that a truth is the one that a league committed to, and that the league follows from it.

    Raises:
        InvalidRequest: It is another truth, or a part of the league was changed.
    """
    if (found := digest_of(truth)) != league.commitment:
        rule = f"its SHA-256 is {found}, but the league's commitment is {league.commitment}"
        raise InvalidRequest([FieldError("truth", f"{rule}; use the truth file of this league")])
    again, same = make_league(truth.phrase, len(truth.experiments))
    wrong = [
        FieldError(f"league.{name}", "is not what the phrase of the truth gives; restore the original file")
        for name in League.model_fields
        if getattr(league, name) != getattr(again, name)
    ]
    if same != truth:
        wrong.append(FieldError("truth.experiments", "are not what the phrase of the truth gives"))
    if wrong:
        raise InvalidRequest(wrong)


Method = Callable[[League, PseudoExperiment], tuple[float, float]]
"""Returns the interval of one experiment, from what agents see."""


def enter(league: League, name: str, method: Method) -> LeagueEntry:
    """Apply a method to every experiment, one after another.

    Raises:
        InvalidRequest: An interval is invalid.

    >>> league, truth = make_league("development seed 1", 20)
    >>> entry = enter(league, "anything goes", lambda league, experiment: league.mu_range)
    >>> score_entries(league, truth, [entry])[0].coverage.value
    1.0
    """
    return _entry(league, name, [method(league, one) for one in league.experiments])


def _entry(league: League, name: str, intervals: Any) -> LeagueEntry:
    rows = [
        {"id": one.id, "low": round(float(low), 6), "high": round(float(high), 6)}
        for one, (low, high) in zip(league.experiments, intervals, strict=True)
    ]
    try:
        entry = LeagueEntry.model_validate({"league": league.commitment, "name": name, "intervals": rows})
    except ValidationError as error:
        raise _invalid(name, field_errors(error.errors(include_url=False))) from error
    check_entry(league, entry)
    return entry


BUILT_IN: Final = ("asymptotic", "toys", "bayesian")
"""Entries that ship; other entries may not have their names."""


def built_in_entry(league: League, name: str) -> LeagueEntry:
    """Return the entry of a built-in method; see :mod:`spectator.environments.collider.strength`."""
    model = strength_model(league.signal, league.background, league.nuisances)
    counts = np.array([one.counts for one in league.experiments], dtype=np.float64)
    largest, rng = league.mu_range[1], _generator(name, league.commitment)
    if name == "asymptotic":
        intervals = asymptotic(model, counts, largest)
    elif name == "toys":
        intervals = by_toys(model, counts, largest, league.level, rng)
    elif name == "bayesian":
        intervals = bayesian(model, counts, largest, league.level, rng)
    else:
        raise InvalidRequest([FieldError("entry", f"must be one of {', '.join(BUILT_IN)}, not {name!r}")])
    return _entry(league, name, intervals)


def check_entry(league: League, entry: LeagueEntry) -> None:
    """Check that an entry has one valid interval for every experiment of a league.

    Raises:
        InvalidRequest: It has not; names each field and its rule.
    """
    if entry.league != league.commitment:
        rule = f"must be {league.commitment}, the commitment of this league; the entry is for another one"
        raise InvalidRequest([FieldError(f"{entry.name}: league", rule)])
    if wrong := list(_wrong_intervals(league, entry)):
        raise _invalid(entry.name, wrong)


def _wrong_intervals(league: League, entry: LeagueEntry) -> Iterator[FieldError]:
    known, seen = {one.id for one in league.experiments}, set[str]()
    for place, one in enumerate(entry.intervals):
        where = f"intervals.{place}"
        if one.id not in known:
            yield FieldError(f"{where}.id", f"{one.id!r:.60} is not an experiment of this league")
        elif one.id in seen:
            yield FieldError(f"{where}.id", f"{one.id!r} occurs twice; give one interval for each experiment")
        elif one.low > one.high:
            yield FieldError(
                f"{where}.low", f"must be at most high, {one.high:g}, not {one.low:g} ({one.id})"
            )
        seen.add(one.id)
    if missing := [name for name in sorted(known) if name not in seen]:
        names = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        yield FieldError("intervals", f"must have one for each experiment; {len(missing)} missing: {names}")


NARROWEST: Final = 0.001
"""Added to the mean width, so that points have a score."""

DRAWS: Final = 4000
"""Bootstrap samples of the experiments; the same for every entry."""


def quantile_score(coverage: Floats | float, width: Floats | float, experiments: int) -> Floats:
    """Return the score; see the top of this module.

    >>> [round(float(quantile_score(coverage, 0.5, 100)), 2) for coverage in (0.5, 0.68, 0.9)]
    [-2.0, 0.69, -2.31]
    """
    error = math.sqrt(LEVEL * (1.0 - LEVEL) / experiments)
    away = (np.asarray(coverage) - LEVEL) / error
    below, above = np.maximum(-2.0 - away, 0.0), np.maximum(away - 2.0, 0.0)
    return np.asarray(-np.log((width + NARROWEST) * (1.0 + below**4 + above**3)))


def score_entries(league: League, truth: LeagueTruth, entries: Sequence[LeagueEntry]) -> list[LeagueRow]:
    """Score entries, best first.

    Raises:
        InvalidRequest: The truth or an entry does not belong to the league, an entry is invalid, or two
            have one name.
    """
    check_truth(league, truth)
    names = [one.name for one in entries]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InvalidRequest(
            [FieldError("name", f"two entries are called {name!r}") for name in sorted(twice)]
        )
    for entry in entries:
        check_entry(league, entry)
    number = len(league.experiments)
    picked = _generator("bootstrap", league.commitment).multinomial(number, [1.0 / number] * number, DRAWS)
    found = [_row(truth, entry, picked / number) for entry in entries]
    ranked = [
        one.model_copy(update={"rank": 1 + sum(other.score.low > one.score.high for other in found)})
        for one in found
    ]
    return sorted(ranked, key=lambda one: (-one.score.value, one.name))


def _row(truth: LeagueTruth, entry: LeagueEntry, weights: Floats) -> LeagueRow:
    from scipy.stats import binomtest

    ends = {one.id: (one.low, one.high) for one in entry.intervals}
    low, high = np.array([ends[one.id] for one in truth.experiments]).T
    mu = np.array([one.mu for one in truth.experiments])
    covered, number = (low <= mu) & (mu <= high), len(mu)
    share, width = float(covered.mean()), float((high - low).mean())
    exact = binomtest(int(covered.sum()), number).proportion_ci(0.95, "exact")
    widths = weights @ (high - low)
    scores = quantile_score(weights @ covered, widths, number)
    return LeagueRow(
        rank=1,
        name=entry.name,
        digest=digest_of(entry),
        coverage=LeagueFigure(value=share, low=float(exact.low), high=float(exact.high)),
        width=_figure(width, widths),
        score=_figure(float(quantile_score(share, width, number)), scores),
    )


def _figure(value: float, sampled: Floats) -> LeagueFigure:
    low, high = (float(one) for one in np.percentile(sampled, (2.5, 97.5)))
    return LeagueFigure(value=value, low=min(low, value), high=max(high, value))


def bundle_of(league: League, truth: LeagueTruth, entries: Sequence[LeagueEntry]) -> LeagueBundle:
    """Return a scored league as a bundle.

    Raises:
        InvalidRequest: As for :func:`score_entries`.
    """
    board = score_entries(league, truth, entries)
    return LeagueBundle(
        spectator_version=__version__, league=league, truth=truth, entries=list(entries), board=board
    )
