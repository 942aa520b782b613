"""Owns the folder of an evaluation: which evaluation it holds, so that a run in it can be resumed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from spectator import __version__
from spectator.errors import FieldError, InvalidRequest
from spectator.evaluation.schedule import Schedule

MANIFEST: Final = "evaluation.json"
JOURNAL: Final = "journal.db"
RESULTS: Final = "results.json"
REPORT: Final = "report.html"
PLOTS: Final = "plots"


def keep_manifest(folder: Path, schedule: Schedule, now_ms: int) -> int:
    """Write down what is evaluated in ``folder``, or check that it is still the same.

    Captains and matches may be added in a later run; what was played is not played again.

    Args:
        folder: Made when it is not there.
        schedule: What is to be played.
        now_ms: Unix time in milliseconds.

    Returns:
        When the evaluation began, Unix time in milliseconds.

    Raises:
        InvalidRequest: The folder holds an evaluation of something else; names what differs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asked = _identity(schedule)
    path = folder / MANIFEST
    if path.exists():
        kept = _read(path)
        differing = [name for name, value in asked.items() if kept.get(name) != value]
        if differing:
            shown = "; ".join(f"{name} {kept.get(name)!r}, now {asked[name]!r}" for name in differing)
            raise InvalidRequest(
                [FieldError("out", f"{folder} holds another evaluation ({shown}); choose another folder")]
            )
        return int(kept["began_ms"])
    if (folder / JOURNAL).exists():
        raise InvalidRequest(
            [FieldError("out", f"{folder} holds a journal that is no evaluation's; choose another folder")]
        )
    write_text(path, json.dumps({**asked, "began_ms": now_ms, "spectator_version": __version__}, indent=2))
    return now_ms


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    half = path.with_name(path.name + ".part")
    half.write_text(text, encoding="utf-8")
    os.replace(half, path)


def _identity(schedule: Schedule) -> Mapping[str, Any]:
    first = ",".join(str(match.seed) for match in schedule.matches[:1])
    return {
        "environment": schedule.world.name,
        "environment_version": schedule.world.version,
        "pack": schedule.pack.name,
        "pack_version": schedule.pack.version,
        "options": dict(schedule.options),
        "first_seed": hashlib.sha256(first.encode()).hexdigest()[:16],
    }


def _read(path: Path) -> Mapping[str, Any]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidRequest([FieldError("out", f"{path} cannot be read: {error}")]) from error
    if not isinstance(kept, dict) or "began_ms" not in kept:
        raise InvalidRequest([FieldError("out", f"{path} does not describe an evaluation")])
    return kept
