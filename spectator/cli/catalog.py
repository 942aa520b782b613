"""The command ``spectator catalog``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from spectator.process_environment import read_cast

if TYPE_CHECKING:
    from spectator.policies.base import Preset


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def catalog(as_json: bool) -> None:
    """List the worlds, and who and what can be chosen in each.

    \b
    Example: spectator catalog --json | jq '.[].name'
    """
    from spectator.catalog import world_names

    cast = read_cast()
    worlds = [cast.load(name) for name in world_names()]
    if as_json:
        listing = [
            {
                "name": world.name,
                "version": world.version,
                "title": world.title,
                "summary": world.summary,
                "captains": sorted(world.captains),
                "opponents": sorted(world.opponents),
                "missing": _missing({**world.captains, **world.opponents}),
                "packs": sorted(world.packs),
                "options": world.options_type.model_json_schema(),
            }
            for world in worlds
        ]
        click.echo(json.dumps(listing, indent=2))
        return
    for world in worlds:
        click.secho(f"{world.name} {world.version}", bold=True)
        click.echo(f"  {world.summary}")
        for kind, names in (
            ("captains", world.captains),
            ("opponents", world.opponents),
            ("packs", world.packs),
        ):
            if names:
                click.echo(f"  {kind}: {', '.join(names)}")
        for name, what in _missing({**world.captains, **world.opponents}).items():
            click.echo(f"  {name} {what}")


def _missing(presets: Mapping[str, Preset]) -> dict[str, str]:
    """What each preset that cannot be used here lacks."""
    return {name: preset.missing for name, preset in presets.items() if preset.missing is not None}
