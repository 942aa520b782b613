"""Programs that draw, each picture by a process of its own, since the library would stop all our threads."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from spectator.errors import SpectatorError
from spectator.scenes import NOTHING_DRAWN

from ..recently_used import RecentlyUsed

KEPT: Final = 32
"""Pictures of one kind that are kept, of at most about 100 kB each."""

_Key = TypeVar("_Key")


class NoFont(SpectatorError):
    """This machine has no font to write with, so that no pictures are drawn."""


class CannotDraw(SpectatorError):
    """The program that draws failed."""


class NothingDrawn(SpectatorError):
    """There is nothing there that could be drawn."""


class KeptPictures(Generic[_Key]):
    """Draws pictures of one kind, one after the other, and keeps the last few."""

    def __init__(self) -> None:
        self._kept: RecentlyUsed[_Key, bytes] = RecentlyUsed(KEPT)
        self._turn = asyncio.Lock()

    async def of(self, key: _Key, draw: Callable[[], Awaitable[bytes]]) -> bytes:
        """The picture of ``key``, drawn if it is not kept; whoever asks for it meanwhile shares it."""
        if (kept := self._kept.get(key)) is not None:
            return kept
        async with self._turn:
            picture = self._kept.get(key)
            if picture is None:
                picture = await draw()
                self._kept.keep(key, picture)
            return picture


async def output_of(program: Path, given: bytes, longest_s: float) -> bytes:
    """What a program writes that is given ``given``; it is killed when nobody waits for it any more.

    Args:
        program: A Python file.
        given: Its standard input.
        longest_s: How long it may take, seconds.

    Raises:
        NothingDrawn: It said so.
        CannotDraw: It failed, or took too long.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", str(program), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    try:
        async with asyncio.timeout(longest_s):
            picture, _ = await process.communicate(given)
    except TimeoutError:
        raise CannotDraw(f"a picture took longer than {longest_s:g} s to draw") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == NOTHING_DRAWN:
        raise NothingDrawn("nothing that is drawn has happened there yet")
    if process.returncode:
        raise CannotDraw(f"the program that draws pictures ended with {process.returncode}")
    return picture
