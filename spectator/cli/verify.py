"""The commands ``verify`` and ``claim``: check episodes and collider claims."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spectator.cli.options import environment_options, journal_folder, recorded_journal, summary_of, world_at
from spectator.errors import InvalidRequest

if TYPE_CHECKING:
    from spectator.catalog import LoadWorld
    from spectator.events import RecordedEvent
    from spectator.journal.contract import Chain, Journal, Link


@click.command()
@click.argument("source", metavar="EPISODE_ID|FILE")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="data",
    show_default=True,
    help="Folder of the journal, for an episode's id.",
)
@click.option("--digest", help="What the last digest has to be, as stated elsewhere: 64 hexadecimal digits.")
@click.option("--chain-only", is_flag=True, help="Check the digests, and do not play it again.")
@environment_options
def verify(
    source: str,
    data_dir: Path,
    digest: str | None,
    chain_only: bool,
    environment_url: str | None,
    environment_protocol: str,
) -> None:
    """Check an episode's chain of digests, then play it again from its seed and decisions and compare.

    Model calls and the sealed truth, which a journal holds beside the events, are checked with the chain.

    SOURCE is an episode's id, or a file that `spectator export` wrote.

    \b
    Example: spectator verify ep-01K9ZQ3V5M0000000000000000
    Example: spectator verify match.ndjson --digest 3b0c...
    """
    stated, load = _stated(digest), _loading(environment_url, environment_protocol)
    path = Path(source)
    if path.is_file():
        asyncio.run(_verify_file(path, stated, chain_only, load))
    elif path.suffix:
        raise click.BadParameter(f"there is no file {path}", param_hint="EPISODE_ID|FILE")
    else:
        asyncio.run(_verify_episode(source, data_dir, stated, chain_only, load))


def _loading(url: str | None, protocol: str) -> LoadWorld | None:
    """Finds the world on another server beside those of the catalogue; ``None`` without one."""
    if url is None:
        return None
    from spectator.catalog import load_world

    remote = world_at(url, protocol)
    return lambda name: remote if name == remote.name else load_world(name)


def _stated(digest: str | None) -> bytes | None:
    if digest is None:
        return None
    try:
        stated = bytes.fromhex(digest)
    except ValueError:
        stated = b""
    if len(stated) != 32:
        raise click.BadParameter("is 64 hexadecimal digits", param_hint="--digest")
    return stated


async def _verify_episode(
    episode_id: str, data_dir: Path, stated: bytes | None, chain_only: bool, load: LoadWorld | None
) -> None:
    from spectator.journal.contract import Chain

    async with recorded_journal(data_dir) as journal:
        summary = await summary_of(journal, episode_id)
        end = await journal.end(episode_id)
        head_seq, noted = (None, None) if end is None else end
        chain = Chain(head_seq=head_seq, digest=stated or noted)
        found = False
        async for links in journal.links(episode_id):
            found = _report(chain, links) or found
        _conclude(episode_id, chain, found)
        await _attachments(journal, episode_id)
        if not chain_only:
            await _replay(summary.episode_id, journal.stream(episode_id), load)


async def _attachments(journal: Journal, episode_id: str) -> None:
    """Check the model calls and the sealed truth against the digests in the events."""
    from spectator.episodes.replayer import verify_attachments

    found = False
    async for discrepancy in verify_attachments(journal, episode_id):
        click.echo(f"event {discrepancy.seq}: {discrepancy.message}", err=True)
        found = True
    if found:
        raise click.ClickException(f"what belongs to {episode_id} is not as it was recorded")


async def _verify_file(path: Path, stated: bytes | None, chain_only: bool, load: LoadWorld | None) -> None:
    from spectator.events import decode
    from spectator.journal.contract import Chain

    lines = await asyncio.to_thread(lambda: path.read_bytes().removesuffix(b"\n").split(b"\n"))
    episodes = [(name, list(texts)) for name, texts in groupby(_texts(lines), key=lambda text: text[0])]
    if stated is not None and len(episodes) > 1:
        raise click.BadParameter(f"the file holds {len(episodes)} episodes", param_hint="--digest")
    for episode_id, texts in episodes:
        chain = Chain(digest=stated)
        _conclude(episode_id, chain, _report(chain, _links(texts)))
        if not chain_only:
            await _replay(episode_id, _aside(decode(text) for _, text in texts), load)


def _texts(lines: Sequence[bytes]) -> Iterator[tuple[str, str]]:
    """Each line with the episode that it belongs to."""
    from spectator.events import decode

    for number, line in enumerate(lines, 1):
        try:
            text = line.decode()
            yield decode(text).event.episode_id, text
        except ValueError as error:
            raise click.ClickException(f"line {number} is no event: {str(error)[:200]}") from error


def _links(texts: Sequence[tuple[str, str]]) -> Iterator[Link]:
    from spectator.events import decode
    from spectator.journal.contract import Link

    for episode_id, text in texts:
        yield Link(episode_id, decode(text).event.seq, text, None)


async def _aside(events: Iterator[RecordedEvent]) -> AsyncIterator[RecordedEvent]:
    for event in events:
        yield event


def _report(chain: Chain, links: Sequence[Link] | Iterator[Link]) -> bool:
    """Say where the chain breaks; whether it does."""
    found = False
    for broken in chain.check(links):
        click.echo(f"event {broken.seq}: {broken.message}", err=True)
        found = True
    return found


def _conclude(episode_id: str, chain: Chain, found: bool) -> None:
    for broken in chain.finish():
        click.echo(f"event {broken.seq}: {broken.message}", err=True)
        found = True
    if found:
        raise click.ClickException(f"{episode_id} is not as it was recorded")
    click.echo(f"{episode_id}: {chain.seq} events, digest {chain.digest.hex()}")


async def _replay(episode_id: str, recorded: AsyncIterator[RecordedEvent], load: LoadWorld | None) -> None:
    from spectator.episodes.replayer import verify as replay_and_compare

    try:
        found = await replay_and_compare(recorded, load=load)
    except InvalidRequest as error:
        raise click.ClickException(
            f"{episode_id} cannot be played again here ({error}); --chain-only checks its digests"
        ) from error
    for discrepancy in found:
        click.echo(f"event {discrepancy.seq}: {discrepancy.message}", err=True)
    if found:
        raise click.ClickException(f"{episode_id} is not what its seed and decisions give")
    click.echo(f"{episode_id}: every event is what its seed and decisions give")


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
        from spectator.journal.encoding import atomic_file

        with atomic_file(out) as file:
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
    from spectator.environments.collider.claims import check_claim, read_claim, stated_digest

    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file} is no claim file: it is not UTF-8") from error
    report = check_claim(read_claim(text), digest=stated_digest(digest))
    for one in report.checks:
        click.echo(f"{'ok  ' if one.ok else 'FAIL'} {one.name}: {one.message}")
    if not report.ok:
        raise click.ClickException("the claim does not hold")
