"""Write the report of a trained captain from the card of its weights.

``python -m tools.captain_report`` writes ``docs/reports/trained-captain.md`` with its curve; ``--folder DIR``
reads the weights that ``spectator train cricket-captain --folder DIR`` made, and writes beside them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spectator.environments.cricket.trained.captain import CARD, FOLDER
from tools.collider_validation.drawing import Chart, Layer, draw

REPORTS: Final = Path(__file__).resolve().parent.parent / "docs" / "reports"
NAME: Final = "trained-captain"

Card = Mapping[str, Any]


def chart_of(curve: Sequence[Card]) -> str:
    """Return what decisions were worth during self-play as SVG, in hundredths of a win."""

    def points(key: str) -> list[tuple[float, float]]:
        return [(float(step["step"]), float(step[key])) for step in curve]

    errors = [1.96 * float(step["worth_se"]) for step in curve]
    layers = [
        Layer("batting", points("worth_bat"), "points", errors=errors),
        Layer("bowling", points("worth_bowl"), "points", "#c77700", errors=errors),
    ]
    title = "Self-play: value of a decision beyond the usual one"
    return draw(Chart(title, "step", "hundredths of a win", layers))


def page_of(card: Card) -> str:
    """Return the report as Markdown."""
    training, curve = card["training"], card.get("curve", [])
    tuned = training.get("tuned")
    lines = [
        f"# `{card['name']}`, a captain that was trained here",
        "",
        f"{card['parameters']:,} parameters, {card['size']:,} bytes, for cricket {card['world']}.",
        "",
        f"* Supervised: {training['supervised_steps']:,} steps over {training['examples']:,} decisions,",
        f"  {training['supervised_s']:,} s.",
        f"* Self-play: {training['self_play_steps']:,} steps, {training['self_play_decisions']:,} decisions,",
        f"  {training['self_play_s']:,} s. Machine: {training['machine']}.",
    ]
    if tuned:
        lines += [
            f"* Tuned for {tuned['world']} from `{tuned['from']}`: {tuned['steps']:,} steps over",
            f"  {tuned['seen']:,} decisions, {tuned['supervised_s']:,} s. Machine: {tuned['machine']}.",
        ]
    lines += [
        "",
        "## Results",
        "Seeds that it did not learn from, both seats, 95 % intervals by seed. *Value* is how its decisions",
        "changed its chance of winning, in hundredths of a match. [How it is trained, and what the rows",
        "mean](../trained-captain.md).",
        "",
        "| captain/rival | matches | wins | value |",
        "|---|---|---|---|",
        *_rows(card["figures"]),
    ]
    if curve:
        lines += [
            "",
            "## Self-play",
            f"![Value of a decision by step]({NAME}.svg)",
            "",
            "| step | decisions | batting | bowling | standard error | entropy | KL from the start |",
            "|---|---|---|---|---|---|---|",
            *(
                f"| {one['step']} | {one['decisions']:,.0f} | {one['worth_bat']:.2f} "
                f"| {one['worth_bowl']:.2f} | {one['worth_se']:.3f} "
                f"| {one['entropy']:.2f} | {one['kl_start']:.3f} |"
                for one in curve
            ),
        ]
    return "\n".join([*lines, "", "Written by `python -m tools.captain_report`.", ""])


def _rows(figures: Card, of: str = "") -> Iterator[str]:
    for name, found in figures.items():
        label = f"{name} ({of})" if of else name
        if "matches" in found:
            wins, half = found["wins"]
            value = "{:+.1f} ± {:.1f}".format(*found["value"]) if "value" in found else ""
            sign = "+" if " less " in name else ""
            share = f"{100 * wins:{sign}.1f} ± {100 * half:.1f} %"
            yield f"| {label} | {found['matches']:,} | {share} | {value} |"
        elif "agrees" in found:
            agrees = f"agrees with the planner in {100 * found['agrees']:.0f} % of the choices that act"
            yield f"| {label} | | {agrees} | |"
        else:
            yield from _rows(found, name)


def main() -> None:
    """Write the report and its curve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder with the card")
    folder: Path = parser.parse_args().folder
    card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    target = REPORTS if folder == FOLDER else folder
    (target / f"{NAME}.md").write_text(page_of(card), encoding="utf-8")
    if card.get("curve"):
        (target / f"{NAME}.svg").write_text(chart_of(card["curve"]), encoding="utf-8")


if __name__ == "__main__":
    main()
