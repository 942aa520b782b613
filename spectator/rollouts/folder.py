"""The folder of a run of rollouts: which run it holds, so that the same command goes on with it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from spectator import __version__
from spectator.errors import FieldError, InvalidRequest
from spectator.journal.sql_journal import SqlJournal
from spectator.rollouts.request import FORMAT, RolloutRequest

MANIFEST: Final = "rollouts.json"
JOURNAL: Final = "journal.db"


def keep_request(folder: Path, request: RolloutRequest, now_ms: int) -> int:
    """Write down what runs in a new ``folder``, or check that it is still the same.

    Args:
        folder: Made when it is not there.
        request: What is to be played.
        now_ms: Unix time in milliseconds.

    Returns:
        When the run began, Unix time in milliseconds.

    Raises:
        InvalidRequest: The folder holds something else, which is named, or cannot be written.
    """
    path = folder / MANIFEST
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _kept(folder, path, request, now_ms)
    except (FileExistsError, NotADirectoryError) as error:
        raise _wrong(f"{folder} is no folder") from error
    except OSError as error:
        raise _wrong(f"{folder} cannot be written: {error}") from error


def _kept(folder: Path, path: Path, request: RolloutRequest, now_ms: int) -> int:
    if not path.exists():
        if (folder / JOURNAL).exists():
            raise _wrong(f"{folder} holds a journal that is no run's; choose another folder")
        _write(path, request, now_ms)
        return now_ms
    kept, began_ms = read_request(folder)
    if shown := kept.differences(request):
        raise _wrong(f"{folder} holds another run ({shown}); choose another folder")
    if request.episodes < kept.episodes:
        rule = f"{folder} holds a run of {kept.episodes} episodes, which can be made longer but not shorter"
        raise InvalidRequest([FieldError("episodes", rule)])
    return began_ms


def keep_changes(folder: Path, request: RolloutRequest) -> None:
    """Write down what of the run in ``folder`` is otherwise now, such as that it is longer.

    Args:
        folder: Where :func:`keep_request` found the same run; nobody else may play it meanwhile.
        request: What is to be played.

    Raises:
        InvalidRequest: It cannot be written.
    """
    kept, began_ms = read_request(folder)
    longer = request.model_copy(update={"episodes": max(request.episodes, kept.episodes)})
    if longer != kept:
        try:
            _write(folder / MANIFEST, longer, began_ms)
        except OSError as error:
            raise _wrong(f"{folder} cannot be written: {error}") from error


@asynccontextmanager
async def open_record(folder: Path) -> AsyncIterator[tuple[RolloutRequest, SqlJournal]]:
    """What runs in ``folder``, and its journal to read from; safe while it runs.

    Raises:
        InvalidRequest: There is no run, or it is of another version.
        JournalError: Its journal cannot be read.
    """
    request, _ = read_request(folder)
    journal = await SqlJournal.open(f"sqlite:///{folder / JOURNAL}", writable=False)
    try:
        yield request, journal
    finally:
        await journal.aclose()


def read_request(folder: Path) -> tuple[RolloutRequest, int]:
    """What runs in ``folder``, and when it began, Unix time in milliseconds.

    Raises:
        InvalidRequest: There is no run, or it is of another version.
    """
    path = folder / MANIFEST
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _wrong(f"{folder} holds no run of rollouts") from None
    except (OSError, ValueError) as error:
        raise _wrong(f"{path} cannot be read: {error}") from error
    if not isinstance(kept, dict) or not isinstance(kept.get("request"), dict):
        raise _wrong(f"{path} does not describe a run of rollouts")
    version: Any = kept["request"].get("format")
    if version != FORMAT:
        raise _wrong(f"{path} is of version {version!r}; this program reads {FORMAT}")
    try:
        return RolloutRequest.model_validate(kept["request"]), int(kept["began_ms"])
    except (ValidationError, KeyError, ValueError, TypeError) as error:
        raise _wrong(f"{path} does not describe a run of rollouts: {error}") from error


def _write(path: Path, request: RolloutRequest, began_ms: int) -> None:
    kept = {
        "request": request.model_dump(mode="json"),
        "began_ms": began_ms,
        "spectator_version": __version__,
    }
    half = path.with_name(path.name + ".part")
    half.write_text(json.dumps(kept, indent=2), encoding="utf-8")
    os.replace(half, path)


def _wrong(rule: str) -> InvalidRequest:
    return InvalidRequest([FieldError("out", rule)])
