"""Folders of recorded runs, for readers: which runs there are and what each holds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from spectator.clock import timestamp
from spectator.errors import ConfigurationError, RunNotFound
from spectator.text import clean_text

MANIFEST: Final = "rollouts.json"
JOURNAL: Final = "journal.db"

DESCRIPTION: Final = "watched.json"
"""What a run that has no manifest says of itself: ``name`` and ``episodes``, where it knows them."""

VERSION: Final = 1
"""Version of the manifest that is read here; that of :data:`spectator.rollouts.request.FORMAT`."""

RUN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What the folder of a run is called, so that it fits an address."""

MAX_RUNS: Final = 500
"""Folders that are looked at."""

MAX_BYTES: Final = 1_000_000
"""Bytes of a manifest that are read."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder with the record of a run.

    Args:
        name: What the folder is called.
        path: Where it is.
        environment: Name or address of the world; empty where nothing says so.
        model: The model that plays; empty where nothing says so.
        episodes: Episodes that are to be played; ``None`` where nothing says so.
        group_size: Episodes of one task; 0 where nothing says so.
        attempts: Most attempts at an episode.
        began_at: When it began, RFC 3339; ``None`` where nothing says so.
        title: Its name as shown to people; empty where it has none but the folder's.
        grouped: Whether whoever plays names the groups, so that one of a single episode is one, too.
    """

    name: str
    path: Path
    environment: str = ""
    model: str = ""
    episodes: int | None = None
    group_size: int = 1
    attempts: int = 1
    began_at: str | None = None
    title: str = ""
    grouped: bool = False

    @property
    def journal(self) -> Path:
        """Its record."""
        return self.path / JOURNAL


def run_names(root: Path) -> list[str]:
    """The folders in ``root`` that hold a run, those that changed last first; none if it cannot be read."""
    try:
        found = [one for one in root.iterdir() if RUN_NAME.fullmatch(one.name)]
        begun = [(_changed(one), one.name) for one in found if _changed(one)]
    except OSError:
        return []
    return [name for _, name in sorted(begun, reverse=True)[:MAX_RUNS]]


def read_run(root: Path, name: str) -> RunFolder:
    """What the folder ``name`` in ``root`` says that it holds.

    Raises:
        RunNotFound: It is gone, holds no run, or one of another version; the sentence names it.
    """
    path = root / name
    if not RUN_NAME.fullmatch(name) or path.is_symlink() or not path.is_dir():
        raise RunNotFound(f"there is no run {clean_text(name, 64)} here; it may have been moved or removed")
    try:
        with (path / MANIFEST).open(encoding="utf-8") as file:
            kept = json.loads(file.read(MAX_BYTES))
    except FileNotFoundError:
        if not (path / JOURNAL).is_file():
            raise RunNotFound(f"{name} holds no run: it has neither {MANIFEST} nor {JOURNAL}") from None
        return _undescribed(name, path)
    except (OSError, ValueError) as error:
        raise RunNotFound(f"{MANIFEST} of {name} cannot be read: {error}") from error
    return described(name, path, kept)


def run_name(folder: Path) -> str:
    """The name of the run that a folder is shown as, which somebody else than a fleet records.

    Raises:
        ConfigurationError: The folder has no name that fits an address, or holds something else.
    """
    name = folder.resolve().name
    if not RUN_NAME.fullmatch(name):
        raise ConfigurationError(
            f"{folder} cannot be shown: its name must be of letters, digits, '.', '_' and '-', 64 at most"
        )
    if (folder / MANIFEST).exists():
        raise ConfigurationError(f"{folder} holds a run that was played; choose another folder")
    return name


def _undescribed(name: str, path: Path) -> RunFolder:
    """A run without a manifest; a description of it that cannot be read counts for nothing."""
    try:
        with (path / DESCRIPTION).open(encoding="utf-8") as file:
            told = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError):
        told = None
    known: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    title, episodes = known.get("name"), known.get("episodes")
    return RunFolder(
        name,
        path,
        group_size=0,
        episodes=episodes if type(episodes) is int and episodes > 0 else None,
        title=clean_text(title, 100) if isinstance(title, str) else "",
        grouped=told is not None,
    )


def described(name: str, path: Path, kept: Any) -> RunFolder:
    """What is kept of a run says that it is.

    Args:
        name: What it is called.
        path: Where it is.
        kept: What stands in its manifest.

    Raises:
        RunNotFound: It is of another version, or describes no run.
    """
    asked = kept.get("request") if isinstance(kept, Mapping) else None
    if not isinstance(asked, Mapping):
        raise RunNotFound(f"{MANIFEST} of {name} does not describe a run")
    if asked.get("format") != VERSION:
        version = clean_text(repr(asked.get("format")), 40)
        raise RunNotFound(f"{name} is a run of version {version}, and this server reads version {VERSION}")
    try:
        began = datetime.fromtimestamp(int(kept["began_ms"]) / 1000, UTC)
        return RunFolder(
            name=name,
            path=path,
            environment=clean_text(str(asked["environment"]), 120),
            model=clean_text(str(asked["model"]["model"]), 120),
            episodes=int(asked["episodes"]),
            group_size=max(1, int(asked.get("group_size", 1))),
            attempts=max(1, int(asked.get("attempts", 1))),
            began_at=timestamp(began),
        )
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:
        raise RunNotFound(f"{MANIFEST} of {name} does not describe a run: {error!r}") from error


def _changed(path: Path) -> float:
    """When a folder's record changed last, Unix time in seconds; 0 where it holds no run, or elsewhere."""
    if path.is_symlink():
        return 0.0
    changed = 0.0
    for name in (MANIFEST, JOURNAL, f"{JOURNAL}-wal"):
        try:
            changed = max(changed, (path / name).stat().st_mtime)
        except OSError:
            continue
    return changed
