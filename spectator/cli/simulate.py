"""The command ``spectator simulate``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any

import click

from spectator.cli.options import overs_option, world_options


@click.command()
@click.argument("environment", default="cricket")
@click.option(
    "--matches", type=click.IntRange(min=1), default=1, show_default=True, help="How many episodes."
)
@overs_option
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@world_options
@click.option(
    "--out", type=click.File("w", encoding="utf-8", lazy=True), default="-", help="File; - is stdout."
)
def simulate(
    environment: str, matches: int, overs: int | None, seed: int, options: dict[str, Any], out: IO[str]
) -> None:
    """Play many episodes as fast as possible and write what happened, one JSON object a line.

    \b
    Example: spectator simulate cricket --matches 800 --overs 20 --seed 1 --out balls.jsonl
    """
    from pydantic import ValidationError

    from spectator.catalog import load_world
    from spectator.errors import InvalidRequest, field_errors
    from spectator.events import encode_json

    world = load_world(environment)
    if world.simulate is None:
        raise click.UsageError(
            f"{environment} has no simulation of its own; use `spectator play {environment}`"
        )
    if overs is not None:
        options = {**options, "max_overs": overs}
    try:
        complete = world.options_type.model_validate(options).model_dump(mode="json")
    except ValidationError as error:
        raise InvalidRequest(field_errors(error.errors(), prefix=["options"])) from error
    with click.progressbar(length=matches, label="matches", file=sys.stderr) as progress:
        for first, row in _marking_matches(world.simulate(matches, seed, complete)):
            out.write(encode_json(row) + "\n")
            progress.update(first)


def _marking_matches(rows: Iterator[Mapping[str, Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Each row, with 1 beside the first of a match and 0 beside the others."""
    match_id: object = None
    for row in rows:
        yield int(row.get("match_id") != match_id), row
        match_id = row.get("match_id")
