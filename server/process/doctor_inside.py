"""Checks of a deployment from inside: its settings, its data folder, its journal and its programs."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from spectator.errors import SpectatorError
from spectator.journal.base import EpisodeFilter
from spectator.journal.stores.sqlite import SqlJournal
from spectator.narration.voices.espeak import espeak_program
from spectator.policies.captains import load_captains, unpriced_captains

from ..settings import Settings, read_environment
from .finding import Finding
from .welcome import welcome

SAMPLE: Final = 3
"""Newest ended episodes whose chains are followed."""

PAGE: Final = 500
"""Events that are read at once."""

LEAST_FREE: Final = 100_000_000
LITTLE_FREE: Final = 1_000_000_000
"""Bytes of free disk below which a check fails, or warns."""

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


async def look_inside() -> AsyncIterator[Finding]:
    """Check what the environment and this machine hold, changing nothing that lasts."""
    try:
        settings = read_environment()
    except SpectatorError as error:
        yield Finding("failed", "settings", str(error))
        return
    said = welcome(settings, settings.host, settings.port).partition("\n")[2]
    yield Finding("ok", "settings", f"profile {settings.profile}; {said}")
    if settings.operator_token is None and not settings.on_loopback:
        yield Finding("warning", "token", "everybody may stop and slow matches; set SPECTATOR_OPERATOR_TOKEN")
    yield _caps(settings)
    for finding in _folder(settings):
        yield finding
    yield await _journal(settings)
    for finding in _programs(settings):
        yield finding


def _caps(settings: Settings) -> Finding:
    """Whether the caps of money limit every model that can be asked here."""
    try:
        unpriced = unpriced_captains(load_captains(settings.captains_file), settings.variables)
    except SpectatorError as error:
        return Finding("failed", "models", str(error))
    if (wrong := settings.cannot_bind(unpriced)) is not None:
        sentence, asked_for = wrong
        return Finding("failed" if asked_for else "warning", "models", sentence)
    return Finding("ok", "models", "the caps limit every model that can be asked here")


def _folder(settings: Settings) -> Iterator[Finding]:
    folder = settings.data_dir
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"x")
    except OSError as error:
        rule = "let the server's user write it, or set SPECTATOR_DATA_DIR"
        yield Finding("failed", "data folder", f"{there} cannot be written: {error.strerror}; {rule}")
        return
    yield Finding(
        "ok", "data folder", f"{folder} can be written" if there == folder else f"{folder} can be made"
    )
    free = shutil.disk_usage(there).free
    wanted = max(LITTLE_FREE, settings.keep_mb * 1e6)
    told = f"{free / 1e6:,.0f} MB free"
    if free < LEAST_FREE:
        yield Finding("failed", "disk", f"{told}; matches stand still once it is full: make room")
    elif free < wanted:
        yield Finding("warning", "disk", f"{told}, less than {wanted / 1e6:,.0f} MB: set SPECTATOR_KEEP_MB")
    else:
        yield Finding("ok", "disk", told)


async def _journal(settings: Settings) -> Finding:
    path: Path = settings.data_dir / "journal.db"
    url = f"sqlite:///{path}" if settings.journal_url is None else settings.journal_url.get_secret_value()
    if settings.journal_url is None and not await asyncio.to_thread(path.exists):
        return Finding("ok", "journal", "none yet; the first start makes one")
    try:
        journal = await SqlJournal.open(url, writable=False)
    except SpectatorError as error:
        return Finding("failed", "journal", f"{error}; a start sets a damaged one aside")
    try:
        return await _sampled(journal)
    except SpectatorError as error:
        return Finding("failed", "journal", f"{error}; spectator verify says more, other episodes are served")
    finally:
        await journal.aclose()


async def _sampled(journal: SqlJournal) -> Finding:
    events = 0
    ended = await journal.episodes(EpisodeFilter(ended=True, limit=SAMPLE))
    for summary in ended:
        seq = 0
        while texts := await journal.texts(summary.episode_id, after_seq=seq, limit=PAGE):
            seq += len(texts)
        events += seq
    figures = await journal.figures()
    told = f"{figures.episodes} episodes, {figures.bytes / 1e6:,.1f} MB"
    return Finding("ok", "journal", f"{told}; the newest {len(ended)} that ended are whole ({events} events)")


def _programs(settings: Settings) -> Iterator[Finding]:
    speaks = espeak_program()
    if speaks is not None:
        yield Finding("ok", "espeak-ng", speaks)
    elif settings.voice == "espeak":
        yield Finding(
            "failed", "espeak-ng", "not found, and SPECTATOR_VOICE=espeak needs it: install espeak-ng"
        )
    else:
        yield Finding(
            "warning", "espeak-ng", "not found; browsers speak for themselves: install espeak-ng for clips"
        )
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    yield Finding("ok", "chromium", browser or "not found; only the tests of the pages need it")
