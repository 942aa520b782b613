"""Write docs/reports/evaluation-heuristics.md: two evaluations of cricket's heuristic styles, with plots.

spectator evaluate --captains STYLES --matches 400 --out RESULTS
spectator evaluate --captains STYLES --matches 20 --option forecast_futures=100 --out VALUES
python scripts/make_evaluation_doc.py RESULTS VALUES REVISION
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from spectator.catalog import load_world
from spectator.evaluation.figures import measures_of
from spectator.evaluation.report import certain, conclusions, labels_of, percent, plots_of
from spectator.evaluation.results import Estimate, Results

DOCS: Final = Path(__file__).resolve().parent.parent / "docs" / "reports"
PLOTS: Final = "evaluation-heuristics"
VALUES: Final = ("decision_value", "decision_value_batting", "decision_value_bowling")
FEW_SEEDS: Final = 10
"""With fewer seeds, intervals by resampling seeds are too narrow."""
SHOWN: Final = ("score", "tool_validity", "coherence", "specific_reasons", "phase_fit", "adaptation")


def main() -> None:
    """Write the page and its plots."""
    results, values = (
        Results.model_validate_json((Path(folder) / "results.json").read_text(encoding="utf-8"))
        for folder in sys.argv[1:3]
    )
    folder = DOCS / PLOTS
    folder.mkdir(exist_ok=True)
    plots = plots_of(results) | {
        name: svg for name, svg in plots_of(values).items() if name.startswith("decision-value")
    }
    wanted = ("ranking", "pairs", "coherence", "adaptation", "decision-value")
    for name in wanted:
        (folder / f"{name}.svg").write_text(plots[name], encoding="utf-8")
    (DOCS / "evaluation-heuristics.md").write_text(
        "\n".join(page(results, values, sys.argv[3])), encoding="utf-8"
    )


def page(results: Results, values: Results, revision: str) -> Iterator[str]:
    """Yield the lines of the page."""
    yield from head(results, values, revision)
    yield from ["## What came out", "", *(f"* {line}" for line in conclusions(results))]
    yield from [f"* {resolution(results)}", f"* {worth(values)}"]
    yield from ["", "## Ranking", "", image("ranking", "Ratings with intervals"), "", *ranking(results)]
    yield from ["", "## Pairs", "", image("pairs", "Share of matches of every pair"), "", *pairs(results)]
    yield from ["", "## Measures", "", *measures(results, SHOWN), ""]
    yield from [image("coherence", "Coherence"), "", image("adaptation", "Adaptation"), ""]
    yield from [
        "## Values of decisions",
        "",
        f"{len(values.matches)} matches on {values.seeds} seeds with 100 futures a ball. Hundredths of a "
        "win a match, against real sides' intent and the standard field, which are worth 0 by definition.",
        "",
        *measures(values, VALUES),
        "",
        image("decision-value", "Values of decisions"),
        "",
        "## What it cannot show",
        "* Five overs, one level of scoring, one fitted model of the ball: a style that pays in 20 overs may "
        "not pay here.",
        "* Only styles of one family meet. They choose batters alike and bowlers nearly so; only intent, "
        "field and plans differ.",
        "* The seeds are development seeds, not sealed ones: anyone who changes a style can look at them.",
        "* The figures belong to the rules, the ball model and the styles as they were when it was played. "
        "`spectator verify` says of each match whether today's still play it so.",
        "",
    ]


def head(results: Results, values: Results, revision: str) -> Iterator[str]:
    """Yield the introduction: what was played, and the commands."""
    names = ",".join(sorted(one.name for one in results.captains))
    matches = 2 * results.seeds
    yield from [
        "# The heuristic styles of cricket, measured",
        "",
        f"{len(results.captains)} styles, {matches} paired matches of each of {len(results.pairs)} pairs, "
        f"{len(results.matches)} in all: {results.seeds} seeds, each played from both seats. "
        f"{results.title} {results.environment_version}, {results.options['max_overs']} overs, pack "
        f"`{results.pack}`, at revision {revision} of this repository. "
        "How it is played and judged: [evaluation.md](../evaluation.md).",
        "",
        "```",
        f"spectator evaluate --captains {names} --matches {matches} --out styles",
        f"spectator evaluate --captains {names} --matches {2 * values.seeds} "
        "--option forecast_futures=100 --out values",
        "python scripts/make_evaluation_doc.py styles values $(git rev-parse --short HEAD)    # this page",
        "```",
        "",
    ]


def resolution(results: Results) -> str:
    """Return a sentence on the width of the intervals."""
    widths = [(one.share.high - one.share.low) / 2 for one in results.pairs if one.share is not None]
    independent = 1.96 * (0.25 / (2 * results.seeds)) ** 0.5
    reach = f"{100 * min(widths):.1f} to {100 * max(widths):.1f}"
    return (
        f"The intervals of the pairs reach {reach} points to each side; as many independent ones would give "
        f"{100 * independent:.1f}. Both matches on a seed often fall to the same squad, so a pair of matches "
        "says less about luck and more about the captains."
    )


def worth(values: Results) -> str:
    """Return a sentence on the values of decisions."""
    known = sorted(
        ((one.measures["decision_value"].value, one.label) for one in values.captains), reverse=True
    )
    order = ", ".join(f"{label} {value:+.1f}" for value, label in known)
    spread = known[0][0] - known[-1][0]
    few = values.seeds < FEW_SEEDS
    claim = (
        f"The values of decisions are of {values.seeds} seeds only, too few to trust their intervals."
        if few
        else "The values of decisions separate more captains."
    )
    return (
        f"{claim} In hundredths of a win a match: {order}. "
        f"From first to last that is {spread:.1f} points of win share; hold it against the intervals above."
    )


def ranking(results: Results) -> Iterator[str]:
    """Yield the table of ratings."""
    yield "| captain | rating | won | W-L-T | rank, 95 % | best of all |"
    yield "|---|---|---|---|---|---|"
    for one in results.captains:
        rating, share = one.rating, one.share
        if rating is None or share is None:
            continue
        yield (
            f"| {one.label} (`{one.name}`) "
            f"| {rating.value:+.0f} ({rating.low:+.0f} to {rating.high:+.0f}) "
            f"| {percent(share.value)} ({percent(share.low)} to {percent(share.high)}) "
            f"| {one.tally.wins}-{one.tally.losses}-{one.tally.ties} | {one.rank_low} to {one.rank_high} "
            f"| {percent(one.best)} |"
        )


def pairs(results: Results) -> Iterator[str]:
    """Yield the table of pairs."""
    label = labels_of(results)
    yield "| first | second | first won | W-L-T | separated |"
    yield "|---|---|---|---|---|"
    for one in results.pairs:
        share, tally = one.share, one.tally
        if share is not None:
            separated = "yes" if certain(share) else "no"
            yield (
                f"| {label[one.first]} | {label[one.second]} "
                f"| {percent(share.value)} ({percent(share.low)} to {percent(share.high)}) "
                f"| {tally.wins}-{tally.losses}-{tally.ties} | {separated} |"
            )


def measures(results: Results, names: Sequence[str]) -> Iterator[str]:
    """Yield the table of measures, one row per captain."""
    world = load_world(results.environment)
    known = {measure.name: measure for measure in measures_of(world, results.options)}
    yield "| captain | " + " | ".join(known[name].label for name in names) + " |"
    yield "|---|" + "---|" * len(names)
    for one in results.captains:
        cells = [figure(one.measures.get(name)) for name in names]
        yield f"| {one.label} | " + " | ".join(cells) + " |"


def figure(estimate: Estimate | None) -> str:
    """Format a mean with its interval."""
    if estimate is None:
        return "not measured"
    if estimate.high - estimate.low < 0.0005:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def image(name: str, text: str) -> str:
    """Return the Markdown of a plot."""
    return f"![{text}]({PLOTS}/{name}.svg)"


if __name__ == "__main__":
    main()
