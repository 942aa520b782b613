"""The command ``spectator train``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click


@click.command()
@click.argument("recipe", type=click.Choice(["cricket-captain"]))
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The run's folder; an existing run continues.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Processes that play matches."
)
@click.option(
    "--examples",
    "examples_s",
    type=click.FloatRange(min=0),
    default=170.0,
    show_default=True,
    help="Seconds of making examples.",
)
@click.option(
    "--supervised",
    "supervised_s",
    type=click.FloatRange(min=1),
    default=220.0,
    show_default=True,
    help="Seconds of supervised learning.",
)
@click.option(
    "--self-play",
    "self_play_s",
    type=click.FloatRange(min=0),
    default=280.0,
    show_default=True,
    help="Seconds of self-play; 0 for none.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=0),
    default=400,
    show_default=True,
    help="Held-out seeds of each evaluation; 0 for none.",
)
@click.option(
    "--width",
    type=click.IntRange(min=16),
    default=256,
    show_default=True,
    help="Width of the network; a multiple of 32.",
)
@click.option(
    "--layers", type=click.IntRange(min=1), default=8, show_default=True, help="Layers of the network."
)
@click.option(
    "--decisions",
    type=click.IntRange(min=8),
    default=8_000,
    show_default=True,
    help="Decisions of a step of self-play.",
)
@click.option(
    "--matches",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Matches that each worker plays at once.",
)
@click.option(
    "--vocabulary",
    "words",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    help="Matches from which the vocabulary is taken.",
)
def train(
    recipe: str,
    folder: Path,
    workers: int,
    examples_s: float,
    supervised_s: float,
    self_play_s: float,
    seeds: int,
    width: int,
    layers: int,
    decisions: int,
    matches: int,
    words: int,
) -> None:
    """Train a captain from nothing: examples, supervised learning, self-play, evaluation.

    The folder holds the log, the results with the learning curve, and the captain's weights. The defaults are
    for one GPU with 16 cores, in about 12 minutes; a run that was stopped continues.

    \b
    Example: spectator train cricket-captain --folder captain --workers 15
    """
    if find_spec("torch") is None:
        raise click.ClickException("training needs torch: pip install 'openenv-spectator[train]'")
    if width % 32:
        raise click.BadParameter(f"{width} is not a multiple of 32", param_hint="--width")
    from spectator.environments.cricket.recipe.recipe import Recipe, run

    run(
        Recipe(
            folder=folder,
            workers=workers,
            examples_s=examples_s,
            supervised_s=supervised_s,
            self_play_s=self_play_s,
            seeds=seeds,
            width=width,
            layers=layers,
            heads=width // 32,
            decisions=decisions,
            minibatch=max(8, decisions // 4),
            matches=matches,
            words=words,
        ),
        click.echo,
    )
