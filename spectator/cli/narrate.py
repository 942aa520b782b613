"""The command ``spectator narrate``."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from spectator.cli.recordings import journal_folder, recorded_episode, summary_of
from spectator.ordinary_files import need_ordinary

if TYPE_CHECKING:
    from spectator.journal.base import Journal
    from spectator.narration.episode_audio import RecordedLine, SpokenLine
    from spectator.narration.speech import Speaker, Voice
    from spectator.narration.voices.selection import Chosen


def _mp3(_: click.Context, __: click.Parameter, out: Path) -> Path:
    if out.suffix.lower() != ".mp3":
        raise click.BadParameter(f"{out.name} must end in .mp3, the only kind that holds chapters here")
    return out


@click.command()
@click.argument("episode_id")
@journal_folder
@click.option(
    "--out",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=_mp3,
    required=True,
    help="The MP3 to write.",
)
@click.option(
    "--captions",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the words with their times too, as WebVTT.",
)
@click.option(
    "--voice",
    type=click.Choice(["auto", "neural", "espeak"]),
    default="auto",
    show_default=True,
    help="Who speaks: the neural voice (extra voice-neural) or espeak-ng; auto takes the first that is here.",
)
@click.option("--accent", default="en-gb", show_default=True, help="espeak-ng's name for its voice.")
@click.option(
    "--words-per-minute", type=click.IntRange(80, 450), default=170, show_default=True, help="How fast."
)
def narrate(
    episode_id: str,
    data_dir: Path,
    out: Path,
    captions: Path | None,
    voice: Literal["auto", "neural", "espeak"],
    accent: str,
    words_per_minute: int,
) -> None:
    """Speak the commentary of a recorded episode into one MP3, with a chapter for each place in the game.

    Where the world has a second commentator, his answers are spoken by another voice.

    \b
    Example: spectator narrate ep-01K9ZQ3V5M0000000000000000 --out match.mp3 --captions match.vtt
    """
    try:
        from spectator.narration.episode_audio import captions as as_captions
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; narrating needs: pip install 'openenv-spectator[voice]'"
        ) from error
    for path in (out, captions):
        if path is not None:
            need_ordinary(path)
            path.parent.mkdir(parents=True, exist_ok=True)
    said = asyncio.run(_narrate(episode_id, data_dir, out, _choice(voice, accent, words_per_minute)))
    if captions is not None:
        captions.write_text(as_captions(said), encoding="utf-8")
    heard = [one for one in said if one.why_not is None]
    for one in said:
        if one.why_not is not None:
            click.echo(f"event {one.line.seq} is not heard: {one.why_not}", err=True)
    if not heard:
        raise click.ClickException(f"{episode_id} has no line that could be spoken")
    click.echo(f"{out}: {len(heard)} lines, {said[-1].ends_s:.0f} s", err=True)
    if len(heard) < len(said):
        sys.exit(1)


def _choice(voice: Literal["auto", "neural", "espeak"], accent: str, words_per_minute: int) -> Chosen:
    """The voices that are asked for.

    Raises:
        ClickException: They are not installed.
    """
    from spectator.clock import SystemClock
    from spectator.narration.voices.espeak import espeak_voice
    from spectator.narration.voices.neural import NeuralProcess, NeuralVoice
    from spectator.narration.voices.neural_model import model_folder
    from spectator.narration.voices.selection import NO_PROGRAM, choose_voices

    process = NeuralProcess(SystemClock())
    chosen = choose_voices(
        voice,
        cartesia=None,
        neural=None if model_folder() is None else lambda speaker: NeuralVoice(process, speaker=speaker),
        espeak=partial(espeak_voice, accent=accent, words_per_minute=words_per_minute),
    )
    if chosen.missing is not None or not chosen.answering:
        raise click.ClickException(chosen.missing or NO_PROGRAM)
    return chosen


async def _narrate(episode_id: str, data_dir: Path, out: Path, chosen: Chosen) -> list[SpokenLine]:
    from spectator.catalog import load_world
    from spectator.narration.clips import ClipStore
    from spectator.narration.episode_audio import recite

    async with recorded_episode(episode_id, data_dir) as journal:
        world = load_world((await summary_of(journal, episode_id)).environment)
        lines = await _lines(journal, episode_id)
    voices: dict[Speaker, Voice] = {"lead": chosen.voices[0], "analyst": chosen.answering[0]}
    clips = ClipStore(data_dir / "clips")
    said = []
    try:
        with click.progressbar(length=len(lines), label="lines", file=sys.stderr) as progress:
            async for one in recite(lines, out, voices=voices, clips=clips, spoken=world.spoken):
                said.append(one)
                progress.update(1)
    finally:
        for voice in voices.values():
            await voice.aclose()
    return said


async def _lines(journal: Journal, episode_id: str) -> list[RecordedLine]:
    from spectator.episodes.record.reader import ViewReader
    from spectator.narration.base import aloud
    from spectator.narration.episode_audio import RecordedLine

    lines = []
    async for event in (recorded.event async for recorded in ViewReader(journal).stream(episode_id)):
        if event.type == "narration.line":
            data = event.data
            lines.append(RecordedLine(event.seq, aloud(data), data["at"], data["label"]))
            if data.get("reply"):
                lines.append(RecordedLine(event.seq, data["reply"], data["at"], None, "analyst"))
    return lines
