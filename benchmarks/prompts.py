"""Measure the tokens that a model reads in a match, and how many of them can be cached.

``python -m benchmarks.prompts`` plays whole matches of each world with scripted captains in the models' place
and prints a table; it calls no model. Tokens are counted as characters x 0.34 (`TOKENS_A_CHARACTER` of
`spectator.evaluation.estimate`). ``--show 1,40,75`` prints those prompts whole.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from spectator.catalog import load_world
from spectator.evaluation.estimate import TOKENS_A_CHARACTER, Rehearsal, prompt_text, rehearse
from spectator.policies.model_settings import ModelSettings, Style

MATCHES: Final[tuple[tuple[str, str, Mapping[str, Any], str], ...]] = (
    ("cricket, 5 overs, by the ball", "cricket", {"max_overs": 5}, "tactician"),
    ("cricket, 5 overs, by the over", "cricket", {"max_overs": 5, "decisions": "over"}, "heuristic"),
    ("cricket, 20 overs, by the over", "cricket", {"max_overs": 20, "decisions": "over"}, "heuristic"),
    ("collider", "collider", {}, "heuristic"),
    ("counting", "counting", {}, "heuristic"),
)
"""Matches: name, world, options, and the captain that decides in the model's place."""

CACHED_SHARE: Final = 0.1
"""Price of a cached token over that of an uncached one, at most providers."""


def rows(seed: int) -> Iterator[tuple[str, Style, Rehearsal]]:
    """Yield one seat of each match and style."""
    for name, world, options, captain in MATCHES:
        loaded = load_world(world)
        for style in get_args(Style):
            settings = ModelSettings(model="m", style=style)
            played = rehearse(loaded, settings, options, seed, captain=captain)
            yield name, style, played[loaded.actors[0]].rehearsal


def row(name: str, style: Style, asked: Rehearsal) -> str:
    """Return a row of the table."""
    uncached = asked.tokens_in - asked.cached_in
    paid = uncached + CACHED_SHARE * asked.cached_in
    longest = asked.longest * TOKENS_A_CHARACTER
    alike = asked.alike / max(1, asked.calls - 1)
    return (
        f"| {name} | {style} | {asked.calls} | {asked.tokens_in:,} | {uncached:,} | {paid:,.0f} "
        f"| {longest:,.0f} | {asked.known_share:.1%} | {alike:.0%} |"
    )


def main() -> None:
    """Print the table, or whole prompts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--show", default="", help="numbers of prompts of the first match, from 1")
    asked = parser.parse_args()
    if asked.show:
        name, world, options, captain = MATCHES[0]
        settings = ModelSettings(model="m", style="json")
        played = rehearse(load_world(world), settings, options, asked.seed, captain=captain)["home"]
        for number in map(int, asked.show.split(",")):
            request = played.requests[number - 1]
            print(f"===== prompt {number} of {name}\n{prompt_text(request.messages, request.tools)}\n")
        return
    print(
        "| match | style | calls | tokens read | uncached | cached at a tenth | longest prompt "
        "| known | calls with 90 % known |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, style, rehearsal in rows(asked.seed):
        print(row(name, style, rehearsal), flush=True)


if __name__ == "__main__":
    main()
