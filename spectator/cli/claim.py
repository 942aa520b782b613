"""The command ``spectator claim``: collider claims as files, and their check."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from spectator.cli.recordings import journal_folder, recorded_journal


@click.group()
def claim() -> None:
    """Export a claim of a collider episode as a file, or check such a file."""


@claim.command("export")
@click.argument("episode_id")
@journal_folder
@click.option(
    "--out",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    default="-",
    show_default=True,
    help="The claim file; - is stdout.",
)
def export_file(episode_id: str, data_dir: Path, out: Path) -> None:
    """Write the claim of an episode with its frozen selection, its spectra as pyhf workspaces, and its chain.

    \b
    Example: spectator claim export ep-01K9ZQ3V5M0000000000000000 --out claim.json
    """
    from spectator.environments.collider.claims import export_claim

    async def exported() -> str:
        async with recorded_journal(data_dir) as journal:
            return (await export_claim(journal, episode_id)).model_dump_json(indent=1)

    text = asyncio.run(exported())
    if str(out) == "-":
        click.echo(text)
    else:
        from spectator.journal.json_lines import whole_file

        with whole_file(out) as file:
            file.write(text + "\n")


@claim.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--digest", help="What the last digest has to be, as stated elsewhere: 64 hexadecimal digits.")
def check(file: Path, digest: str | None) -> None:
    """Recompute a claim file: freeze, unblinding and claim in this order, and every figure of the claim.

    \b
    Example: spectator claim check claim.json
    Example: spectator claim check claim.json --digest 3b0c...
    """
    from spectator.environments.collider.claims.check import check_claim, read_claim, stated_digest

    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file} is no claim file: it is not UTF-8") from error
    report = check_claim(read_claim(text), digest=stated_digest(digest))
    for one in report.checks:
        click.echo(f"{'ok  ' if one.ok else 'FAIL'} {one.name}: {one.message}")
    if not report.ok:
        raise click.ClickException("the claim does not hold")
