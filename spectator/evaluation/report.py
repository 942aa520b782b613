"""The report of an evaluation: conclusions, plots, and the page."""

from __future__ import annotations

import functools
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Final

from spectator.catalog import load_world
from spectator.core_events import FailedDecisions
from spectator.environments.contract import OUTCOME, Measure
from spectator.evaluation.figures import MOST_LOST, measures_of
from spectator.evaluation.forest_plot import NARROW, WIDE, Layout, Row, forest
from spectator.evaluation.results import CaptainResult, Estimate, PlayedMatch, Results
from spectator.events import encode_json
from spectator.text import clean_text

Verdict = tuple[str, str]
"""Winner and loser."""

INSTEAD: Final[Mapping[FailedDecisions, str]] = {
    "fallback": "the world's scripted captain decided instead",
    "random": "a random legal action was drawn instead",
    "forfeit": "each lost its match",
}
"""What counted in place of a failed decision."""

NAMED: Final = 5
"""Most matches that a sentence names; results.json has all."""


def conclusions(results: Results) -> Iterator[str]:
    """The findings, the most important first."""
    if results.ranked:
        first, won_share = results.ranked[0], results.ranked[0].share
        assert won_share is not None
        interval = f"95 % interval {percent(won_share.low)} to {percent(won_share.high)}"
        seeds = "1 seed" if results.seeds == 1 else f"{results.seeds} seeds"
        share = percent(won_share.value)
        if results.head_to_head:
            won = f"{first.label} won {share} of its matches"
            yield f"{won}, {interval}, over {seeds} played from both seats."
        else:
            yield f"{first.label} did better on {share} of the comparisons, {interval}, over {seeds}."
        yield from _until(results)
        yield _verdicts(results)
        yield from _by_value(results)
    else:
        yield (
            "No captain is ranked: fewer than two kept failures other than of their answers to "
            f"{percent(MOST_LOST)} of their decisions."
        )
    yield from _shortcomings(results)


def _until(results: Results) -> Iterator[str]:
    """How an evaluation with a stopping rule ended."""
    if (until := results.until) is None:
        return
    target = f"\u00b1{100 * until.half_width:g} points"
    played = ", ".join(f"{pair.replace('|', ' v ')} {seeds}" for pair, seeds in until.seeds.items())
    if until.reached and max(until.seeds.values()) < until.most:
        yield f"It stopped when the interval of every pair was within {target}. Seeds: {played}."
    else:
        yield f"It stopped before every interval was within {target}; they still hold. Seeds: {played}."


def _shortcomings(results: Results) -> Iterator[str]:
    """The limitations of the findings."""
    if results.cut_short is not None:
        yield (
            f"The evaluation stopped early: {results.cut_short}. {len(results.matches)} of {results.planned} "
            "matches count: those on seeds whose matches are all finished."
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
        yield f"In {unreached} matches no decision says anything about a captain; they are not counted."
    label = labels_of(results)
    for one in results.captains:
        if not one.asked.ranked(results.failed_decisions):
            lost = percent(one.asked.lost_share(results.failed_decisions))
            what = (
                "were made by a fallback"
                if results.failed_decisions == "fallback"
                else "failed for reasons other than its answers"
            )
            yield (
                f"{label[one.name]} is not ranked: {lost} of its decisions {what}; "
                f"the limit is {percent(MOST_LOST)}."
            )
        times = sum(one.asked.fallbacks.values())
        if one.source == "model" and times:
            reasons = ", ".join(f"{why} {count}" for why, count in one.asked.fallbacks.items())
            yield (
                f"{times} of the {one.asked.decisions} decisions of {label[one.name]} failed ({reasons}); "
                f"{INSTEAD[results.failed_decisions]}."
            )


def labels_of(results: Results) -> dict[str, str]:
    """Labels by name; captains with the same label are followed by their names."""
    labels = [one.label for one in results.captains]
    return {
        one.name: one.label if labels.count(one.label) == 1 else f"{one.label} ({one.name})"
        for one in results.captains
    }


def certain(share: Estimate) -> bool:
    """Whether the interval excludes one half; up to rounding."""
    return share.low > 0.5 + 1e-6 or share.high < 0.5 - 1e-6


def percent(share: float) -> str:
    """A share for people, such as ``52.4 %``."""
    return f"{100.0 * share:.1f} %"


def _by_value(results: Results) -> Iterator[str]:
    """Who decided better, by decision value, which shows sooner than match results."""
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
        pairs = "the interval contains" if len(met) == 1 else f"the intervals of all {len(met)} pairs contain"
        return f"No captain is shown to be better: {pairs} one half."
    if len(met) == 1:
        return f"{sure[0]}: the interval excludes one half."
    found = f"{len(sure)} of {len(met)} pairs differ by more than their interval: {', '.join(sure)}. "
    if results.until is not None:
        return f"{found}All {len(met)} intervals hold together with 95 %, whenever it stopped (Bonferroni)."
    return f"{found}Of so many pairs about {0.05 * len(met):.2g} would seem to differ by chance alone."


UNITS: Final = {"points": "hundredths of a win", "money": "money", "tokens": "tokens"}
"""Units of measures that are named."""

PLOTTED: Final = ("share", "points")
"""Units of measures that get a plot; the others are in the table."""


def plots_of(results: Results, layout: Layout = WIDE) -> dict[str, str]:
    """Every plot by the name of its file, without the ending."""
    draw = functools.partial(forest, layout=layout)
    found: dict[str, str] = {}
    if won := [Row(one.label, one.share) for one in results.captains if one.share is not None]:
        found["win-share"] = draw(
            "Matches won against the field", "% of matches, ties half", won, even=0.5, scale=100.0
        )
    rated = [Row(one.label, one.rating) for one in results.ranked if one.rating is not None]
    if rated:
        axis = "Elo points against the mean of the field"
        found["ranking"] = draw("Rating of each captain", axis, rated, even=0.0, digits=0)
    label = labels_of(results)
    met = [
        Row(f"{label[one.first]} v {label[one.second]}", one.share)
        for one in results.pairs
        if one.share is not None
    ]
    if met:
        found["pairs"] = draw(
            "Each captain against each other", "% won by the one named first", met, even=0.5, scale=100.0
        )
    for measure in _measures_of(results)[1]:
        rows = [
            Row(one.label, one.measures[measure.name])
            for one in results.captains
            if measure.name in one.measures
        ]
        differ = len({round(row.estimate.value, 6) for row in rows}) > 1
        if measure.unit in PLOTTED and differ:
            scale, unit = (100.0, "%") if measure.unit == "share" else (1.0, "hundredths of a win a match")
            found[measure.name.replace("_", "-")] = draw(measure.label, unit, rows, scale=scale)
    return found


def report_page(
    results: Results, command: Sequence[str], plots: Mapping[str, str], people: Sequence[str] = ()
) -> str:
    """The page.

    Args:
        results: What was found.
        command: The command that made it, for people who want to make it again.
        plots: What :func:`plots_of` makes of ``results``.
        people: How people did on the same seeds, in sentences.
    """
    names = ", ".join(one.label for one in results.captains)
    title = f"{results.title}: {names}"
    narrow = plots_of(results, NARROW)
    shown = {
        name: f"<figure><div class=broad>{svg}</div><div class=narrow>{narrow[name]}</div></figure>"
        for name, svg in plots.items()
    }
    stylesheet = files("spectator.evaluation").joinpath("report.css").read_text(encoding="utf-8")
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{stylesheet}</style></head><body><main>",
        f"<h1>{escape(results.title)}: what each captain is worth</h1>",
        *(f'<p class="lede">{escape(line)}</p>' for line in (*conclusions(results), *people)),
        "<h2>Ranking</h2>", shown.get("ranking", ""), _ranking(results), shown.get("win-share", ""),
        "<h2>Head to head</h2>", _matrix(results), shown.get("pairs", ""), _edges(results),
        "<h2>Measures</h2>", _measures(results), _asked(results),
        *(figure for name, figure in shown.items() if name not in ("ranking", "win-share", "pairs")),
        "<h2>How to read it</h2>", _glossary(results),
        "<h2>How it was made</h2>", _method(results, command),
        "<h2>Every match</h2>", *_matches(results),
        "</main></body></html>",
    ]  # fmt: skip
    return "\n".join(part for part in parts if part) + "\n"


def _ranking(results: Results) -> str:
    rows = [
        [
            "" if one.rank is None else f"{one.rank}",
            f"<th scope=row>{escape(one.label)} <small>{escape(one.name)}</small></th>",
            "not ranked" if (rating := one.rating) is None else
            f"{rating.value:+.0f} <small>{rating.low:+.0f} to {rating.high:+.0f}</small>",
            "" if one.share is None else _share(one.share),
            "" if one.rank is None else f"{one.tally.wins}-{one.tally.losses}-{one.tally.ties}",
            "" if one.rank is None else f"{one.rank_low} to {one.rank_high}",
            "" if one.rank is None else percent(one.best),
            "" if one.own_share is None else percent(one.own_share),
        ]
        for one in results.captains
    ]  # fmt: skip
    heads = ["Rank", "Captain", "Rating", "Won", "W-L-T", "Rank, 95 %", "Best of all", "Own decisions"]
    return _table("Intervals are 95 %, in small print.", heads, rows)


def _matrix(results: Results) -> str:
    known: dict[tuple[str, str], Estimate] = {}
    for pair in results.pairs:
        if (won := pair.share) is not None:
            lost = Estimate(value=1.0 - won.value, low=1.0 - won.high, high=1.0 - won.low, n=won.n)
            known |= {(pair.first, pair.second): won, (pair.second, pair.first): lost}
    rows = []
    for mine in results.captains:
        row = [f"<th scope=row>{escape(mine.label)}</th>"]
        row += [_cell(known, mine, other) for other in results.captains]
        rows.append(row)
    heads = ["Row", *(one.label for one in results.captains)]
    return _table("Share of matches that the row won against the column.", heads, rows)


def _edges(results: Results) -> str:
    """The pairs with what their decisions were worth; nothing where that is not measured."""
    label = labels_of(results)
    rows = [
        [
            f"<th scope=row>{escape(label[pair.first])} <small>v {escape(label[pair.second])}</small></th>",
            "none" if pair.share is None else _share(pair.share),
            f"{edge.value:+.1f} <small>{edge.low:+.1f} to {edge.high:+.1f}</small>",
            f"{edge.n}",
        ]
        for pair in results.pairs
        if (edge := pair.edge) is not None
    ]
    what = "Decision value: of the one named first beyond the other, hundredths of a win a match."
    return _table(what, ["Pair", "Won", "Decision value", "Seeds"], rows) if rows else ""


def _cell(known: Mapping[tuple[str, str], Estimate], mine: CaptainResult, other: CaptainResult) -> str:
    if mine.name == other.name:
        return "<td>·</td>"
    share = known.get((mine.name, other.name))
    if share is None:
        return "<td>none</td>"
    sure = certain(share)
    tone = "good" if share.value > 0.5 else "bad"
    depth = min(0.5, 2.0 * abs(share.value - 0.5))
    style = f' class=shade style="background: rgb(var(--{tone}) / {depth:.2f})"'
    figure = f"<b>{percent(share.value)}</b>" if sure else percent(share.value)
    return f"<td{style}>{figure}<br><small>{percent(share.low)} to {percent(share.high)}</small></td>"


def _measures(results: Results) -> str:
    known, shown = _measures_of(results)
    rows = []
    for measure in shown:
        unit = UNITS.get(measure.unit, "")
        row = [f"<th scope=row>{escape(measure.label)} <small>{unit}</small></th>"]
        row += [_measured(measure, one.measures.get(measure.name)) for one in results.captains]
        rows.append(row)
    heads = ["Mean a match", *(one.label for one in results.captains)]
    missing = [m.label for m in known if m not in shown and m.name != OUTCOME]
    note = f"Not measured here: {', '.join(missing)}." if missing else ""
    return _table("Means over seeds with 95 % intervals.", heads, rows) + (
        f'<p class="quiet">{escape(note)}</p>' if note else ""
    )


def _asked(results: Results) -> str:
    """What asking the models took in all; nothing where none was asked."""
    models = [one for one in results.captains if one.asked.tokens or one.source == "model"]
    if not models:
        return ""
    rows = [
        [
            f"<th scope=row>{escape(one.label)} <small>{escape(one.name)}</small></th>",
            f"{one.asked.decisions:,}", f"{one.asked.tokens:,}", f"{one.asked.cost:.4f}",
            escape(", ".join(f"{why} {times}" for why, times in one.asked.fallbacks.items()) or "none"),
        ]
        for one in models
    ]  # fmt: skip
    heads = ["All matches", "Decisions", "Tokens", "Cost", "Fallbacks"]
    certificates = [_certificate(one) for one in models if one.asked.settings is not None]
    return _table("What was asked of models, and what it took.", heads, rows) + "".join(certificates)


def _certificate(one: CaptainResult) -> str:
    """How a model was asked, and what its endpoint said of its replies."""
    settings = {name: value for name, value in (one.asked.settings or {}).items() if value not in (None, {})}
    shown = ", ".join(f"{name} {encode_json(value)}" for name, value in settings.items())
    lines = [f"{one.asked.replies.requests:,} requests", *one.asked.replies.lines(), f"settings: {shown}"]
    body = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<details><summary>How {escape(one.label)} was asked</summary><ul>{body}</ul></details>"


def _measured(measure: Measure, estimate: Estimate | None) -> str:
    if estimate is None:
        return '<td class="quiet">none</td>'
    low, high = (measure.shown(value) for value in (estimate.low, estimate.high))
    interval = "" if low == high else f"<br><small>{low} to {high}</small>"
    return f"<td>{measure.shown(estimate.value)}{interval}</td>"


def _glossary(results: Results) -> str:
    known, shown = _measures_of(results)
    items = [
        f"<dt><b>{escape(measure.label)}</b></dt><dd>{escape(measure.formula)} "
        f"<span class=quiet>It cannot show: {escape(measure.blind)}</span></dd>"
        for measure in known
        if measure.name == OUTCOME or measure in shown
    ]
    return f"<dl>{''.join(items)}</dl>"


def _method(results: Results, command: Sequence[str]) -> str:
    options = ", ".join(f"{name} {value}" for name, value in results.options.items())
    seeds = "sealed seeds, made from a secret phrase" if results.sealed else "development seeds"
    facts = [
        *_stopped(results),
        f"{results.title} {results.environment_version}, pack {results.pack} {results.pack_version}; "
        f"{options}.",
        f"{len(results.matches)} episodes on {results.seeds} {seeds}; every pair of captains plays the same "
        + ("ones, each twice with seats swapped." if results.head_to_head else "ones."),
        f"Intervals: percentile bootstrap, {results.draws} samples of whole seeds, 95 %; a share gets one "
        "pair won and one lost added before it is resampled, so that winning all is not taken for certainty.",
        "Rating: Bradley-Terry by maximum likelihood with one drawn game added a pair, ties half a win, "
        "in Elo points; resampled over the same seeds. Between two captains 100 points are 64 %.",
        f"Spectator {results.spectator_version}.",
    ]
    made = shlex.join(command)
    return (
        "".join(f"<p>{escape(fact)}</p>" for fact in facts)
        + f"<pre tabindex=0><code>{escape(made)}</code></pre>"
    )


def _stopped(results: Results) -> Iterator[str]:
    """How the intervals of an evaluation with a stopping rule are made."""
    if (until := results.until) is not None:
        yield (
            f"It played in batches until the intervals were narrow enough, so pairs played different numbers "
            "of seeds, always the first ones. Their intervals are hedged betting confidence sequences "
            f"(Waudby-Smith and Ramdas 2024) over seeds with alpha {until.alpha:.2g}, which hold whenever it "
            "stops; a captain's share is the mean over its opponents. The other intervals do not take into "
            "account that results decided when to stop."
        )


def _matches(results: Results) -> Iterator[str]:
    label = labels_of(results)
    yield (
        "<p>Each is in <code>journal.db</code> beside this page: "
        "<code>spectator watch ID --data-dir FOLDER</code> and "
        "<code>spectator verify ID --data-dir FOLDER</code>; "
        "all of them in a browser with <code>SPECTATOR_DATA_DIR=FOLDER spectator serve</code>.</p>"
    )
    by_seats: dict[tuple[str, str | None], list[PlayedMatch]] = {}
    for match in results.matches:
        by_seats.setdefault((match.home, match.away), []).append(match)
    for (home, away), matches in by_seats.items():
        seats = label[home] + ("" if away is None else f" in the first seat against {label[away]}")
        rows = []
        for one in matches:
            result = escape(clean_text(one.result or one.reason, 120))
            if away is not None and (
                won := {1.0: home, 0.0: away}.get(-1.0 if one.outcome is None else one.outcome)
            ):
                result += f" <small>({escape(label[won])} won)</small>"
            if one.unreached:
                result += f" <small>(no decision by {escape(', '.join(one.unreached))}: not counted)</small>"
            if one.capped:
                result += f" <small>(cap reached: {escape(', '.join(one.capped))})</small>"
            rows.append([f"<td><code>{escape(one.episode_id)}</code></td>", f"{one.seed}", result])
        table = _table("", ["Episode", "Seed", "Result"], rows)
        yield f"<details><summary>{escape(seats)}: {len(matches)}</summary>{table}</details>"


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th scope=col>{escape(one)}</th>" for one in heads)
    body = "".join(
        "<tr>" + "".join(cell if cell.startswith("<t") else f"<td>{cell}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    scrolls = f'<div class=wide tabindex=0 role=group aria-label="{escape(caption or ", ".join(heads))}">'
    return f"{scrolls}<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _measures_of(results: Results) -> tuple[Sequence[Measure], Sequence[Measure]]:
    """Every measure that such matches have, and those that at least one captain has."""
    known = measures_of(load_world(results.environment), results.options)
    return known, [one for one in known if any(one.name in captain.measures for captain in results.captains)]


def _share(share: Estimate) -> str:
    return f"{percent(share.value)} <small>{percent(share.low)} to {percent(share.high)}</small>"
