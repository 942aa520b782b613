"""The conclusions of an evaluation in plain sentences, never more than its intervals allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from spectator.evaluation.measures import RANKED_SHARE
from spectator.evaluation.result_types import Estimate, Results

Verdict = tuple[str, str]
"""Winner and loser."""


NAMED: Final = 5
"""Matches that are named in a sentence; results.json names all."""


def conclusions(results: Results) -> Iterator[str]:
    """The findings, the most important first."""
    if results.ranked:
        first = results.ranked[0]
        interval = f"95 % interval {percent(first.share.low)} to {percent(first.share.high)}"
        seeds = "1 seed" if results.seeds == 1 else f"{results.seeds} seeds"
        share = percent(first.share.value)
        if results.head_to_head:
            won = f"{first.label} won {share} of its matches"
            yield f"{won}, {interval}, over {seeds} played from both seats."
        else:
            yield f"{first.label} did better on {share} of the comparisons, {interval}, over {seeds}."
        yield _verdicts(results)
        yield from _by_value(results)
    else:
        needed = percent(RANKED_SHARE)
        yield f"Nobody is ranked: fewer than two captains made {needed} of their decisions themselves."
    yield from _shortcomings(results)


def _shortcomings(results: Results) -> Iterator[str]:
    """What keeps the findings from saying all they should."""
    if results.cut_short is not None:
        yield (
            f"It was cut short: {results.cut_short}. {len(results.matches)} of {results.planned} matches are "
            "judged: those of seeds on which all were played."
        )
    if forfeits := Counter(match.forfeited for match in results.matches if match.forfeited is not None):
        lost = ", ".join(f"{name} {times}" for name, times in sorted(forfeits.items()))
        yield f"Matches forfeited by a decision that failed, and so lost: {lost}."
    broken = sum(match.reason != "finished" and match.forfeited is None for match in results.matches)
    if broken:
        matches = len(results.matches)
        yield f"{broken} of {matches} matches did not finish; their pairs are left out of the shares."
    capped = [match.episode_id for match in results.matches if match.capped]
    if capped:
        yield (
            f"In {len(capped)} matches the cap of an episode was reached; a fallback decided from there on: "
            f"{', '.join(capped[:NAMED])}{', ...' if len(capped) > NAMED else ''}."
        )
    unreached = sum(bool(match.unreached) for match in results.matches)
    if unreached:
        yield f"In {unreached} matches a captain made no decision of its own; they count for nobody."
    label = labels_of(results)
    for one in results.captains:
        if not one.asked.ranked:
            own = f"{percent(one.own_share or 0.0)} of its decisions are its own"
            yield f"{label[one.name]} is not ranked: {own}, and {percent(RANKED_SHARE)} are needed."
        times = sum(one.asked.fallbacks.values())
        if one.source == "model" and times:
            reasons = ", ".join(f"{why} {count}" for why, count in one.asked.fallbacks.items())
            whose = "the fallback's, not its own" if times == one.asked.decisions else "partly the fallback's"
            yield (
                f"A fallback made {times} of the {one.asked.decisions} decisions of {label[one.name]} "
                f"({reasons}); its figures are {whose}."
            )


def labels_of(results: Results) -> dict[str, str]:
    """Labels by name; two captains of one label are told apart by their names."""
    labels = [one.label for one in results.captains]
    return {
        one.name: one.label if labels.count(one.label) == 1 else f"{one.label} ({one.name})"
        for one in results.captains
    }


def certain(share: Estimate) -> bool:
    """Whether the interval leaves out one half; one that ends there, give or take rounding, does not."""
    return share.low > 0.5 + 1e-6 or share.high < 0.5 - 1e-6


def percent(share: float) -> str:
    """A share for people, such as ``52.4 %``."""
    return f"{100.0 * share:.1f} %"


def _by_value(results: Results) -> Iterator[str]:
    """Who decided better, by what decisions are worth: that shows sooner than what came of them."""
    label, ranked = labels_of(results), {one.name for one in results.ranked}
    for pair in results.pairs:
        edge = pair.edge
        if edge is None or edge.low <= 0.0 <= edge.high or not {pair.first, pair.second} <= ranked:
            continue
        better, worse = (pair.first, pair.second) if edge.value > 0 else (pair.second, pair.first)
        low, high = sorted((abs(edge.low), abs(edge.high)))
        yield (
            f"{label[better]} decided better than {label[worse]}: its decisions were worth "
            f"{abs(edge.value):.1f} hundredths of a win more a match, 95 % interval {low:.1f} to {high:.1f}."
        )


def _verdicts(results: Results) -> str:
    label = labels_of(results)
    ranked = {one.name for one in results.ranked}
    met = [
        (one, one.share)
        for one in results.pairs
        if one.share is not None and {one.first, one.second} <= ranked
    ]
    sure = [
        f"{label[pair.first]} over {label[pair.second]}"
        if share.value > 0.5
        else f"{label[pair.second]} over {label[pair.first]}"
        for pair, share in met
        if certain(share)
    ]
    if not sure:
        pairs = "the interval holds" if len(met) == 1 else f"the intervals of all {len(met)} pairs hold"
        return f"Nobody is shown to be better: {pairs} one half."
    if len(met) == 1:
        return f"{sure[0]}: the interval leaves out one half."
    return (
        f"{len(sure)} of {len(met)} pairs differ by more than their interval: {', '.join(sure)}. "
        f"Of so many pairs about {0.05 * len(met):.2g} would seem to differ by chance alone."
    )
