"""The commands ``watch`` (in the terminal) and ``narrate`` (commentary as audio)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from spectator.cli.options import journal_folder, recorded_episode, summary_of
from spectator.text import clean_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from spectator.journal.contract import Journal
    from spectator.narration.commentary import Speaker, Voice
    from spectator.narration.episode_audio import RecordedLine, SpokenLine
    from spectator.narration.voices import Chosen
    from spectator.terminal import TerminalPlayer, WatchedMoment


SEQUENCES: Final = {
    "\x1b[C": "right", "\x1bOC": "right", "\x1b[D": "left", "\x1bOD": "left",
    "\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home", "\x1b[7~": "home",
    "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end", "\x1b[8~": "end",
}  # fmt: skip
"""Escape sequences that terminals send for keys without a character."""

LONGEST: Final = 12
"""The longest escape sequence, in characters; longer input is dropped."""


def keys_of(text: str) -> tuple[list[str], str]:
    """Split terminal input into keys and an incomplete escape sequence.

    >>> keys_of("q\\x1b[D \\x1b[")
    (['q', 'left', ' '], '\\x1b[')
    """
    keys: list[str] = []
    while text:
        if text[0] != "\x1b":
            keys.append(text[0])
            text = text[1:]
            continue
        end = _sequence_end(text)
        if end == 0:
            return (keys, text) if len(text) < LONGEST else (keys, "")
        if (key := SEQUENCES.get(text[:end])) is not None:
            keys.append(key)
        text = text[end:]
    return keys, ""


def _sequence_end(text: str) -> int:
    """Return the length of the escape sequence at the start; 0 if it is incomplete."""
    if len(text) < 2:
        return 0
    if text[1] == "O":
        return 3 if len(text) > 2 else 0
    if text[1] != "[":
        return 1
    return next((at + 1 for at in range(2, len(text)) if "\x40" <= text[at] <= "\x7e"), 0)


def has_keyboard() -> bool:
    """Whether standard input is a terminal that delivers single keys."""
    try:
        import termios  # noqa: F401 - not on Windows
    except ModuleNotFoundError:
        return False
    return sys.stdin.isatty()


@contextmanager
def pressed(take: Callable[[str], None]) -> Iterator[None]:
    """Pass every pressed key to ``take``; restore the terminal at the end.

    Args:
        take: Called in the running event loop. Ctrl+C still interrupts.
    """
    import termios
    import tty

    loop, handle = asyncio.get_running_loop(), sys.stdin.fileno()
    before, rest = termios.tcgetattr(handle), ""

    def read() -> None:
        nonlocal rest
        text = os.read(handle, 1024).decode("utf-8", "replace")
        if not text:  # the terminal is gone
            loop.remove_reader(handle)
            return
        keys, rest = keys_of(rest + text)
        for key in keys:
            take(key)

    try:
        tty.setcbreak(handle)
        loop.add_reader(handle, read)
        yield
    finally:
        loop.remove_reader(handle)
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


REDRAW_S: Final = 0.1
"""Minimum time between two redraws, so that a fast match does not flood a slow connection."""

MAX_STEPS: Final = 1_000_000
"""Moments to advance at once if there is no delay between them."""


@click.command()
@click.argument("source")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="data",
    help="Folder of the journal, for a recorded episode.",
)
@click.option(
    "--turn-seconds",
    type=click.FloatRange(min=0),
    default=0.5,
    help="Seconds per turn of a recorded episode; 0 = no pauses.",
)
def watch(source: str, data_dir: Path, turn_seconds: float) -> None:
    """Watch a live or recorded episode in the terminal.

    SOURCE is a server's address (shows its newest live episode), the address of a page that shows an episode,
    or the id of a recorded episode.

    \b
    Keys: Space         pause or resume
          Left, Right   previous or next turn
          , .           previous or next over
          [ ]           previous or next big moment
          - +           slower or faster
          L             go live
          ?             list all keys
          Q, Ctrl+C     quit; the episode continues

    \b
    Example: spectator watch http://localhost:8000
             spectator watch ep-01K9ZQ3V5M0000000000000000 --turn-seconds 0.2
    """
    try:
        from rich.console import Console

        from spectator import terminal
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; watching needs: pip install 'openenv-spectator[watch]'"
        ) from error

    async def show(moments: AsyncIterator[terminal.WatchedMoment], *, live: bool) -> None:
        console = Console()
        redraws = console.is_terminal and not console.is_dumb_terminal
        last = await (_show(moments, console, turn_seconds, live) if redraws else _print_news(moments))
        if last is not None and last.failed:
            raise click.ClickException(clean_text(last.connection, 200))

    async def recorded() -> None:
        async with recorded_episode(source, data_dir) as journal:
            wait_s = 0.0 if has_keyboard() else turn_seconds
            await show(terminal.watch_recorded(journal, source, wait_s=wait_s), live=False)

    try:
        if "://" in source:
            asyncio.run(show(terminal.watch_live(terminal.live_url(source), rng=random.Random()), live=True))
        else:
            asyncio.run(recorded())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    except KeyboardInterrupt:
        sys.exit(130)


async def _show(
    moments: AsyncIterator[WatchedMoment], console: Console, turn_s: float, live: bool
) -> WatchedMoment | None:
    """Draw the moments in place, controlled by the keys; return the last moment."""
    from rich.live import Live

    from spectator.terminal import TerminalPlayer

    keyboard = has_keyboard()
    player = TerminalPlayer(turn_s=turn_s, follow=live or not keyboard)
    changed = asyncio.Event()

    def resize() -> None:
        console.clear()  # lines that the terminal has wrapped would stay
        changed.set()

    def press(key: str) -> None:
        player.press(key)
        changed.set()

    async def follow() -> None:
        async for moment in moments:
            player.take(moment)
            changed.set()
            await asyncio.sleep(0)

    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
        following = asyncio.create_task(follow())
        following.add_done_callback(lambda _: changed.set())
        if keyboard:
            asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, resize)
        try:
            with pressed(press) if keyboard else nullcontext():
                await _redraw(player, changed, screen, keyboard, following)
        finally:
            following.cancel()
            await asyncio.wait({following})
            _draw(player, screen, keyboard)
    if not following.cancelled():
        following.result()
    return player.newest


async def _redraw(
    player: TerminalPlayer,
    changed: asyncio.Event,
    screen: Live,
    keyboard: bool,
    following: asyncio.Task[None],
) -> None:
    """Redraw on changes and when a turn is due, until the user quits.

    Without a keyboard, ends when the episode has ended.
    """
    clock, due = asyncio.get_running_loop().time, None
    while not (player.left or (following.done() and (not keyboard or _failed(player, following)))):
        wait = player.wait_s()
        due = None if wait is None else clock() + wait if due is None else due
        try:
            await asyncio.wait_for(changed.wait(), None if due is None else max(0.0, due - clock()))
        except TimeoutError:
            player.play_on(max(1, round(REDRAW_S / wait)) if wait else MAX_STEPS)
            due = None
        changed.clear()
        _draw(player, screen, keyboard)
        await asyncio.sleep(REDRAW_S)


def _failed(player: TerminalPlayer, following: asyncio.Task[None]) -> bool:
    return (
        following.cancelled()
        or following.exception() is not None
        or bool(player.newest and player.newest.failed)
    )


def _draw(player: TerminalPlayer, screen: Live, keyboard: bool) -> None:
    from spectator.terminal import KEY_HELP, KEYS_LINE
    from spectator.terminal_drawing import KEYS, draw

    shown = player.shown()
    if shown is None:
        return
    below = (player.line(), KEYS_LINE) if keyboard else (KEYS,)
    keys = KEY_HELP if keyboard and player.helping else None
    screen.update(draw(shown.state, shown.connection, screen.console, below, keys), refresh=True)


async def _print_news(moments: AsyncIterator[WatchedMoment]) -> WatchedMoment | None:
    from spectator.terminal_drawing import NewsLines

    lines, last = NewsLines(), None
    async for last in moments:
        for line in lines.news(last.state, last.connection):
            click.echo(line)
    return last


def _mp3(_: click.Context, __: click.Parameter, out: Path) -> Path:
    if out.suffix.lower() != ".mp3":
        raise click.BadParameter(f"{out.name} must end in .mp3, the only supported format")
    return out


@click.command()
@click.argument("episode_id")
@journal_folder
@click.option(
    "--out",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=_mp3,
    required=True,
    help="MP3 file to write.",
)
@click.option(
    "--captions",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write captions to this WebVTT file.",
)
@click.option(
    "--voice",
    type=click.Choice(["auto", "neural", "espeak"]),
    default="auto",
    help="neural (needs the extra voice-neural) or espeak (needs espeak-ng); auto = the first installed one.",
)
@click.option("--accent", default="en-gb", help="With espeak: name of its voice.")
@click.option(
    "--words-per-minute", type=click.IntRange(80, 450), default=170, help="With espeak: speed of speech."
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
    """Write a recorded episode's spoken commentary as an MP3.

    The MP3 has chapters, for example one per ball. The answers of a second commentator use a second voice.

    \b
    Exit code: 0 every line was spoken
               1 some lines could not be spoken, or nothing was written

    \b
    Example: spectator narrate ep-01K9ZQ3V5M0000000000000000 --out match.mp3 --captions match.vtt
    """
    try:
        from spectator.narration.episode_audio import captions as as_captions
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; narrating needs: pip install 'openenv-spectator[voice]'"
        ) from error
    from spectator.journal.encoding import check_replaceable

    for path in (out, captions):
        if path is not None:
            check_replaceable(path)
            path.parent.mkdir(parents=True, exist_ok=True)
    lines = asyncio.run(_narrate(episode_id, data_dir, out, _voices(voice, accent, words_per_minute)))
    if captions is not None:
        captions.write_text(as_captions(lines), encoding="utf-8")
    spoken = [one for one in lines if one.failure_reason is None]
    for one in lines:
        if one.failure_reason is not None:
            click.echo(f"event {one.line.seq} was not spoken: {one.failure_reason}", err=True)
    if not spoken:
        raise click.ClickException(f"{episode_id} has no line that could be spoken")
    click.echo(f"{out}: {len(spoken)} lines, {lines[-1].ends_s:.0f} s", err=True)
    if len(spoken) < len(lines):
        sys.exit(1)


def _voices(voice: Literal["auto", "neural", "espeak"], accent: str, words_per_minute: int) -> Chosen:
    from spectator.clock import SystemClock
    from spectator.narration.neural import NeuralProcess, NeuralVoice, model_folder
    from spectator.narration.voices import NO_PROGRAM, choose_voices, espeak_voice

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
    from spectator.narration.clip_store import ClipStore
    from spectator.narration.episode_audio import recite

    async with recorded_episode(episode_id, data_dir) as journal:
        world = load_world((await summary_of(journal, episode_id)).environment)
        lines = await _lines(journal, episode_id)
    voices: dict[Speaker, Voice] = {"lead": chosen.voices[0], "analyst": chosen.answering[0]}
    clips = ClipStore(data_dir / "clips")
    spoken = []
    try:
        with click.progressbar(length=len(lines), label="lines", file=sys.stderr) as progress:
            async for one in recite(lines, out, voices=voices, clips=clips, spoken=world.spoken):
                spoken.append(one)
                progress.update(1)
    finally:
        for voice in voices.values():
            await voice.aclose()
    return spoken


async def _lines(journal: Journal, episode_id: str) -> list[RecordedLine]:
    from spectator.episodes.reader import ViewReader
    from spectator.narration.commentary import aloud
    from spectator.narration.episode_audio import RecordedLine

    lines = []
    async for event in (recorded.event async for recorded in ViewReader(journal).stream(episode_id)):
        if event.type == "narration.line":
            data = event.data
            lines.append(RecordedLine(event.seq, aloud(data), data["at"], data["label"]))
            if data.get("reply"):
                lines.append(RecordedLine(event.seq, data["reply"], data["at"], None, "analyst"))
    return lines
