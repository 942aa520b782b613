"""The command ``spectator replay``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from spectator.cli.recordings import journal_folder, recorded_episode

REASON_LENGTH = 160


@click.command()
@click.argument("episode_id")
@click.option("--as-endpoint", is_flag=True, help="Serve the models' recorded replies as an endpoint.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the endpoint listens.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="0 takes a free one."
)
@journal_folder
def replay(episode_id: str, as_endpoint: bool, host: str, port: int, data_dir: Path) -> None:
    """Tell the decisions of a recorded episode, or answer its models' questions from the record.

    With --as-endpoint it serves chat completions: whoever asks what the episode's models were asked gets the
    reply that was recorded, without a model. A question that was never asked is answered 404, with the
    nearest one that was and how it differs. The address goes to standard output.

    \b
    Example: spectator replay ep-01K9ZQ3V5M0000000000000000
             spectator replay ep-01K9ZQ3V5M0000000000000000 --as-endpoint --port 8001
    """
    try:
        asyncio.run(
            _serve(episode_id, data_dir, host, port)
            if as_endpoint
            else _print_decisions(episode_id, data_dir)
        )
    except KeyboardInterrupt:
        sys.exit(130)


async def _print_decisions(episode_id: str, data_dir: Path) -> None:
    async with recorded_episode(episode_id, data_dir) as journal:
        async for recorded in journal.stream(episode_id):
            event = recorded.event
            if event.type == "decision.made":
                click.echo(_decision_line(event.turn, event.data))
            elif event.type == "action.refused":
                click.echo(f"{'':>5}  refused: {event.data['message']}")
            elif event.type == "episode.ended":
                score = "" if event.data["score"] is None else f", score {event.data['score']:.4f}"
                click.echo(
                    f"{event.data['reason']}: {event.data['result'] or event.data['detail'] or ''}{score}"
                )


def _decision_line(turn: int, decision: Mapping[str, Any]) -> str:
    action = decision["action"]
    named = isinstance(action.get("tool"), str)
    arguments = action.get("arguments") or {} if named else action
    told = " ".join(f"{name}={value}" for name, value in arguments.items())
    who = f"{decision['actor']} ({decision['source']}{', ' + decision['model'] if decision['model'] else ''})"
    why = decision["fallback_reason"] or decision["reasoning"].partition("\n")[0]
    line = f"{turn:>5}  {who}  {action['tool'] if named else ''} {told}".rstrip()
    return f"{line}  # {why[:REASON_LENGTH]}" if why else line


async def _serve(episode_id: str, data_dir: Path, host: str, port: int) -> None:
    from spectator.episodes.replay.recorded_calls import exchanges_of
    from spectator.llm.playback import Playback
    from spectator.llm.playback_server import serving_playback

    async with recorded_episode(episode_id, data_dir) as journal:
        exchanges = await exchanges_of(journal, episode_id)
    if not exchanges:
        raise click.ClickException(f"{episode_id} holds no exchange with a language model")
    try:
        async with serving_playback(Playback(exchanges), host, port) as base_url:
            click.echo(f"{len(exchanges)} recorded questions of {episode_id}; Ctrl-C ends it", err=True)
            click.echo(base_url)
            await asyncio.Event().wait()
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
