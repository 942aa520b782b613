"""Programs that draw: each picture by a process of its own, since the library would stop all our threads."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from spectator.errors import SpectatorError
from spectator.scenes import NOTHING_DRAWN


class NoFont(SpectatorError):
    """This machine has no font to write with, so that no pictures are drawn."""


class CannotDraw(SpectatorError):
    """The program that draws failed."""


class NothingDrawn(SpectatorError):
    """There is nothing there that could be drawn."""


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
