"""The commands ``verify`` and ``claim``: check episodes and collider claims."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from spectator.cli.options import environment_options, journal_folder, recorded_journal, summary_of, world_at
from spectator.errors import InvalidRequest

if TYPE_CHECKING:
    from spectator.catalog import LoadWorld
    from spectator.events import RecordedEvent
    from spectator.journal.contract import Chain, Journal, Link


DIGEST_HELP: Final = "Expected last digest, from a source that you trust: 64 hexadecimal digits."


@click.command()
@click.argument("source", metavar="EPISODE_ID|FILE")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="data",
    help="Folder of the journal that has the episode.",
)
@click.option("--digest", metavar="HEX", help=DIGEST_HELP)
@click.option("--chain-only", is_flag=True, help="Check only the digests; do not replay the episode.")
@environment_options
def verify(
    source: str,
    data_dir: Path,
    digest: str | None,
    chain_only: bool,
    environment_url: str | None,
    environment_protocol: str,
) -> None:
    """Check that a recorded episode is complete and unchanged.

    Checks the chain of digests over all events, then replays the episode from its seed and decisions and
    compares every event. For an episode in a journal, also checks the recorded model calls and the sealed
    truth.

    The argument is an episode's id, or a file that `spectator export` wrote.

    \b
    Exit code: 0 the episode is as it was recorded
               1 it is not, or it cannot be checked

    \b
    Example: spectator verify ep-01K9ZQ3V5M0000000000000000
             spectator verify match.ndjson --digest 3b0c...
    """
    expected, load = _expected(digest), _world_loader(environment_url, environment_protocol)
    path = Path(source)
    if path.is_file():
        asyncio.run(_verify_file(path, expected, chain_only, load))
    elif path.suffix:
        raise click.BadParameter(f"there is no file {path}", param_hint="EPISODE_ID|FILE")
    else:
        asyncio.run(_verify_episode(source, data_dir, expected, chain_only, load))


def _world_loader(url: str | None, protocol: str) -> LoadWorld | None:
    """Return a loader that also finds the world at ``url``; ``None`` without a URL."""
    if url is None:
        return None
    from spectator.catalog import load_world

    remote = world_at(url, protocol)
    return lambda name: remote if name == remote.name else load_world(name)


def _expected(digest: str | None) -> bytes | None:
    if digest is None:
        return None
    try:
        expected = bytes.fromhex(digest)
    except ValueError:
        expected = b""
    if len(expected) != 32:
        raise click.BadParameter("must be 64 hexadecimal digits", param_hint="--digest")
    return expected


async def _verify_episode(
    episode_id: str, data_dir: Path, expected: bytes | None, chain_only: bool, load: LoadWorld | None
) -> None:
    from spectator.journal.contract import Chain

    async with recorded_journal(data_dir) as journal:
        summary = await summary_of(journal, episode_id)
        end = await journal.end(episode_id)
        head_seq, last_digest = (None, None) if end is None else end
        chain = Chain(head_seq=head_seq, digest=expected or last_digest)
        found = False
        async for links in journal.links(episode_id):
            found = _report(chain, links) or found
        _conclude(episode_id, chain, found)
        await _check_attachments(journal, episode_id)
        if not chain_only:
            await _replay(summary.episode_id, journal.stream(episode_id), load)


async def _check_attachments(journal: Journal, episode_id: str) -> None:
    from spectator.episodes.replayer import verify_attachments

    found = False
    async for discrepancy in verify_attachments(journal, episode_id):
        click.echo(f"event {discrepancy.seq}: {discrepancy.message}", err=True)
        found = True
    if found:
        raise click.ClickException(
            f"the model calls or the truth of {episode_id} were changed or are missing"
        )


async def _verify_file(path: Path, expected: bytes | None, chain_only: bool, load: LoadWorld | None) -> None:
    from spectator.journal.contract import Chain

    lines = await asyncio.to_thread(lambda: path.read_bytes().removesuffix(b"\n").split(b"\n"))
    episodes = [(name, list(links)) for name, links in groupby(_links(lines), lambda one: one[1].episode_id)]
    if expected is not None and len(episodes) > 1:
        raise click.BadParameter(
            f"the file has {len(episodes)} episodes; use a file with one", param_hint="--digest"
        )
    for episode_id, links in episodes:
        chain = Chain(digest=expected)
        _conclude(episode_id, chain, _report(chain, [link for link, _ in links]))
        if not chain_only:
            await _replay(episode_id, _stream(event for _, event in links), load)


def _links(lines: Sequence[bytes]) -> Iterator[tuple[Link, RecordedEvent]]:
    """Yield each line as a link of the chain, and as an event."""
    from spectator.events import decode
    from spectator.journal.contract import Link

    for number, line in enumerate(lines, 1):
        try:
            text = line.decode()
            event = decode(text)
        except ValueError as error:
            raise click.ClickException(f"line {number} is not an event: {str(error)[:200]}") from error
        yield Link(event.episode_id, event.event.seq, text, None), event


async def _stream(events: Iterator[RecordedEvent]) -> AsyncIterator[RecordedEvent]:
    for event in events:
        yield event


def _report(chain: Chain, links: Sequence[Link]) -> bool:
    """Print where the chain breaks; return whether it does."""
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
        raise click.ClickException(f"{episode_id} was changed after it was recorded")
    click.echo(f"{episode_id}: {chain.seq} events, digest {chain.digest.hex()}")


async def _replay(episode_id: str, recorded: AsyncIterator[RecordedEvent], load: LoadWorld | None) -> None:
    from spectator.episodes.replayer import verify as replay_and_compare

    try:
        found = await replay_and_compare(recorded, load=load)
    except InvalidRequest as error:
        raise click.ClickException(
            f"{episode_id} cannot be replayed here ({error}); use --chain-only to check its digests"
        ) from error
    for discrepancy in found:
        click.echo(f"event {discrepancy.seq}: {discrepancy.message}", err=True)
    if found:
        raise click.ClickException(f"{episode_id} differs from the replay of its seed and decisions")
    click.echo(f"{episode_id}: every event matches the replay of its seed and decisions")


def replayed(events: Sequence[RecordedEvent]) -> list[str]:
    """Play an episode again from its seed and decisions; return what differs, in words."""
    from spectator.episodes.replayer import verify as replay_and_compare

    try:
        found = asyncio.run(replay_and_compare(_stream(iter(events))))
    except (InvalidRequest, KeyError, TypeError, ValueError) as error:
        return [f"it cannot be replayed here: {error!r}"]
    return [f"event {one.seq}: {one.message}" for one in found]


@click.group()
def claim() -> None:
    """Export or check the claim of a collider episode."""


@claim.command("export")
@click.argument("episode_id")
@journal_folder
@click.option(
    "--out",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    default="-",
    help="Claim file to write; - = standard output.",
)
def export_file(episode_id: str, data_dir: Path, out: Path) -> None:
    """Write an episode's claim to a file that anyone can check.

    The file has the frozen selection, the spectra as pyhf workspaces, and the chain of digests.

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
@click.option("--digest", metavar="HEX", help=DIGEST_HELP)
def check(file: Path, digest: str | None) -> None:
    """Check a claim file: replay its campaign and recompute every number in it.

    Also checks that the selection was frozen before the unblinding, and the unblinding came before the claim.
    The replay needs the version of the world that played it.

    \b
    Example: spectator claim check claim.json
             spectator claim check claim.json --digest 3b0c...
    """
    from spectator.environments.collider.claims import check_claim, read_claim, stated_digest

    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file} is not a claim file: it is not UTF-8 text") from error
    report = check_claim(read_claim(text), replay=replayed, digest=stated_digest(digest))
    for one in report.checks:
        click.echo(f"{'ok  ' if one.ok else 'FAIL'} {one.name}: {one.message}")
    if not report.ok:
        raise click.ClickException("the claim is not confirmed; see the lines marked FAIL")
