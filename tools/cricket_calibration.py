"""Compare what captains and graders are shown with what happens, in every kind of match.

``python -m tools.cricket_calibration --out docs/reports/cricket-calibration.md`` plays whole matches
between two usual captains at every scoring level, profile and length. It reads the projection of the
observation, and the chance of the rubric (the analyst's, in a chase), at several balls of both innings. It
exits with 1 if the means differ by more than :data:`SURE` standard errors and :data:`SMALL`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.captaincy.observation import equation
from spectator.environments.cricket.grading import rubric
from spectator.environments.cricket.match.captain_state import CaptainState
from spectator.environments.cricket.match.engine import Match, load_model
from spectator.environments.cricket.simulation import open_match, play_out
from spectator.environments.world import derive_seed

PROFILES: Final = ("men", "women", "associates")
LEVELS: Final = (145.0, 190.0, 210.0)
HIGHEST: Final = {"associates": 206.0}
"""Highest scoring level of a profile that does not reach 210."""
MATCHES: Final = {5: 200, 10: 120, 20: 80, 50: 30}
"""Matches of each kind, by overs."""
PARTS: Final = (0.0, 0.25, 0.5, 0.75, 0.9)
"""Parts of each innings after which the figures are read."""
BINS: Final = 10
SURE: Final = 3.0
SMALL: Final = 0.02
"""Error of a mean chance, and of a mean projection as a share of it, that does not matter."""


class ShownFigure(NamedTuple):
    """What was shown at one ball, and what came of it.

    Args:
        match: Number of the match.
        chance: Chance of the batting side, as shown.
        won: 1, 0.5 or 0 for the batting side.
        projected: Total of a first innings, as shown; not a number in a chase.
        total: What the innings made.
    """

    match: int
    chance: float
    won: float
    projected: float
    total: float


def readings(profile: str, level: float, overs: int, matches: int, seed: int) -> Iterator[ShownFigure]:
    """Play matches of a kind and yield their readings."""
    model, options = load_model(profile, level), {"profile": profile}
    for number in range(matches):
        match = open_match(
            overs, derive_seed(seed, f"{profile} {level} {overs}", number), model=model, options=options
        )
        shown = list(_shown(match))
        assert match.result is not None
        for innings, side, chance, projected in shown:
            won = 0.5 if match.result.winner is None else float(match.result.winner == side)
            total = match.innings[innings].runs
            yield ShownFigure(number, chance, won, projected, total)


def _played(asked: tuple[str, float, int, int, int]) -> list[ShownFigure]:
    return list(readings(*asked))


def _shown(match: Match) -> Iterator[tuple[int, str, float, float]]:
    """Play a match to its end, and yield innings, batting side, chance and projection where they are read."""
    due = {(innings, round(part * match.format.balls)) for innings in (1, 2) for part in PARTS}
    for _ in _states(match):
        innings = match.current
        if (match.number, innings.balls) in due and not innings.closed:
            due.remove((match.number, innings.balls))
            side = match.batting_side
            parts = rubric(match, CaptainState(), side, reward="result")
            yield match.number - 1, side, parts["result"], equation(match).get("projected", float("nan"))


def _states(match: Match) -> Iterator[None]:
    yield
    for _ in play_out(match):
        yield


class KindOfMatch(NamedTuple):
    """One kind of match: mean errors, with standard errors over matches.

    Args:
        brier: Mean squared error of the chance.
        constant: The same of the mean share of wins, as a constant chance.
        runs: What innings made more than projected.
    """

    name: str
    matches: int
    chance: float
    won: float
    won_error: float
    brier: float
    constant: float
    projected: float
    runs: float
    runs_error: float

    @property
    def wrong(self) -> bool:
        """Whether a mean differs by more than chance explains, and by more than matters."""
        far = abs(self.won - self.chance) > max(SMALL, SURE * self.won_error)
        return far or abs(self.runs) > max(SMALL * self.projected, SURE * self.runs_error)


def kind(name: str, found: Sequence[ShownFigure]) -> KindOfMatch:
    """Summarise the readings of a kind of match."""
    chance, won = (np.array([getattr(one, part) for one in found]) for part in ("chance", "won"))
    projected = np.array([one.projected for one in found])
    first = ~np.isnan(projected)
    match, total = np.array([one.match for one in found]), np.array([one.total for one in found])
    _, won_error = _by_match(match, won - chance)
    runs, runs_error = _by_match(match[first], (total - projected)[first])
    return KindOfMatch(
        name, len(set(match)), float(chance.mean()), float(won.mean()), won_error,
        float(((won - chance) ** 2).mean()), float(((won - won.mean()) ** 2).mean()),
        float(projected[first].mean()), runs, runs_error,
    )  # fmt: skip


def _by_match(match: NDArray[np.int64], values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean, and its standard error, of values that belong together by match."""
    sums, counts = np.bincount(match, values), np.bincount(match)
    sums, counts = sums[counts > 0], counts[counts > 0]
    mean = float(values.mean())
    return mean, float(np.sqrt(((sums - mean * counts) ** 2).sum()) / counts.sum())


def bins(found: Sequence[ShownFigure]) -> list[tuple[int, float, float, float]]:
    """Return number, mean chance, share won and its standard error by tenths of the chance."""
    rows = []
    for at in range(BINS):
        here = [one for one in found if min(BINS - 1, int(BINS * one.chance)) == at]
        if here:
            chance, won = (np.array([getattr(one, part) for one in here]) for part in ("chance", "won"))
            _, error = _by_match(np.array([one.match for one in here]), won - chance)
            rows.append((len(here), float(chance.mean()), float(won.mean()), error))
    return rows


def report(kinds: Sequence[KindOfMatch], found: Sequence[ShownFigure], command: str) -> str:
    """Return the report as Markdown."""
    lines = [
        "# What is shown and what happens: cricket by level, profile and length",
        "",
        "Whole matches between two captains who play as real sides do, from drawn squads, pitches and",
        f"evenings. At {len(PARTS)} balls of each innings the chance that the rubric and the analyst show is",
        "compared with the result, and the projection of the observation with the total. Both come from the",
        "outlook of average sides (`forecast/outlook.py`): it does not know the squads, and both captains",
        "count as equally good. Errors are standard errors over matches; `wrong` marks a mean that differs",
        f"by more than {SURE:g} of them and by more than {100 * SMALL:g} hundredths.",
        "",
        f"Command: `{command}`.",
        "",
        "| match | matches | chance shown | won | Brier | constant | projected | made more | |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {one.name} | {one.matches} | {one.chance:.3f} | {one.won:.3f} ± {one.won_error:.3f} "
            f"| {one.brier:.3f} | {one.constant:.3f} | {one.projected:.1f} "
            f"| {one.runs:+.1f} ± {one.runs_error:.1f} | {'wrong' if one.wrong else ''} |"
            for one in kinds
        ),
        "",
        "## By tenths of the chance, all matches",
        "",
        "| readings | chance shown | won |",
        "|---|---|---|",
        *(
            f"| {count} | {chance:.3f} | {won:.3f} ± {error:.3f} |"
            for count, chance, won, error in bins(found)
        ),
        "",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the matches and write the report; returns 1 if a mean is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--overs", type=int, nargs="+", default=list(MATCHES))
    parser.add_argument("--share", type=float, default=1.0, help="share of the matches to play")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="file of the report; by default it is printed")
    given = parser.parse_args(arguments)
    asked = [
        (profile, min(level, HIGHEST.get(profile, level)), overs,
         max(2, round(given.share * MATCHES.get(overs, 100))), given.seed)
        for overs in given.overs for profile in PROFILES for level in LEVELS
    ]  # fmt: skip
    kinds, every = [], list[ShownFigure]()
    with ProcessPoolExecutor(given.jobs) as pool:
        for (profile, level, overs, *_), found in zip(asked, pool.map(_played, asked), strict=True):
            kinds.append(kind(f"{profile}, level {level:g}, {overs} overs", found))
            every += [one._replace(match=one.match + len(kinds) * 10_000) for one in found]
    out = "" if given.out is None else f" --out {given.out}"
    share = "" if given.share == 1.0 else f" --share {given.share:g}"
    text = report(kinds, every, f"python -m tools.cricket_calibration --seed {given.seed}{share}{out}")
    if given.out is None:
        print(text)
    else:
        given.out.write_text(text, encoding="utf-8")
    return int(any(one.wrong for one in kinds))


if __name__ == "__main__":
    sys.exit(main())
