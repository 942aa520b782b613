"""Folders of recorded runs, for readers: which runs there are and what each holds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from spectator.clock import timestamp
from spectator.errors import ConfigurationError, RunNotFound
from spectator.text import clean_text

MANIFEST: Final = "rollouts.json"
JOURNAL: Final = "journal.db"

DESCRIPTION: Final = "watched.json"
"""Describes a run without a manifest: ``name`` and ``episodes``, if known."""

VERSION: Final = 1
"""Version of the manifest that this module reads; that of :data:`spectator.rollouts.request.FORMAT`."""

RUN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names that the folder of a run may have, so that they can be part of a URL."""

MAX_RUNS: Final = 500
"""Folders that are listed at most."""

MAX_BYTES: Final = 1_000_000
"""Bytes of a manifest that are read at most."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder with the record of a run.

    Args:
        environment: Name or address of the world; empty if unknown.
        model: The model that plays; empty if unknown.
        episodes: Episodes to play; ``None`` if unknown.
        group_size: Episodes of one task; 0 if unknown.
        attempts: Most attempts at an episode.
        began_at: When it began, RFC 3339; ``None`` if unknown.
        title: Its name as shown to people; empty to show the folder's name.
        grouped: Whether the player names the groups, so that a single episode can be a group, too.
        configuration: What is played, how the model is sampled and what its failures do, as far as the folder
            states it; see :func:`configuration_of`.
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
    configuration: Mapping[str, Any] = field(default_factory=dict)

    @property
    def journal(self) -> Path:
        """Its record."""
        return self.path / JOURNAL


def run_names(root: Path) -> list[str]:
    """List the folders in ``root`` that hold a run, newest change first; none on an error."""
    try:
        found = [one for one in root.iterdir() if RUN_NAME.fullmatch(one.name)]
        begun = [(_changed(one), one.name) for one in found if _changed(one)]
    except OSError:
        return []
    return [name for _, name in sorted(begun, reverse=True)[:MAX_RUNS]]


def read_run(root: Path, name: str) -> RunFolder:
    """Read the description of the run in the folder ``name`` in ``root``.

    Raises:
        RunNotFound: It is gone, does not hold a run, or holds one of another version; the message names it.
    """
    path = root / name
    if not RUN_NAME.fullmatch(name) or path.is_symlink() or not path.is_dir():
        raise RunNotFound(f"there is no run {clean_text(name, 64)} here; it may have been moved or removed")
    return read_folder(path)


def read_folder(path: Path) -> RunFolder:
    """Read the description of the run in a folder of any name.

    Raises:
        RunNotFound: It does not hold a run, or holds one of another version; the message names it.
    """
    name = path.name
    try:
        with (path / MANIFEST).open(encoding="utf-8") as file:
            kept = json.loads(file.read(MAX_BYTES))
    except FileNotFoundError:
        if not (path / JOURNAL).is_file():
            raise RunNotFound(
                f"{name} does not hold a run: it has neither {MANIFEST} nor {JOURNAL}"
            ) from None
        return _undescribed(name, path)
    except (OSError, ValueError) as error:
        raise RunNotFound(f"{MANIFEST} of {name} cannot be read: {error}") from error
    return described(name, path, kept)


def run_name(folder: Path) -> str:
    """Return the name under which a folder is shown that was not recorded by a fleet.

    Raises:
        ConfigurationError: The folder's name cannot be part of a URL, or it holds a run of rollouts.
    """
    name = folder.resolve().name
    if not RUN_NAME.fullmatch(name):
        raise ConfigurationError(
            f"{folder} cannot be shown: use letters, digits, '.', '_' and '-' in its name, at most 64"
        )
    if (folder / MANIFEST).exists():
        raise ConfigurationError(f"{folder} holds a run of rollouts; choose another folder")
    return name


def _undescribed(name: str, path: Path) -> RunFolder:
    """Describe a run without a manifest; an unreadable description is ignored."""
    try:
        with (path / DESCRIPTION).open(encoding="utf-8") as file:
            description = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError):
        description = None
    known: Mapping[str, Any] = description if isinstance(description, Mapping) else {}
    title, episodes = known.get("name"), known.get("episodes")
    return RunFolder(
        name,
        path,
        group_size=0,
        episodes=episodes if type(episodes) is int and episodes > 0 else None,
        title=clean_text(title, 100) if isinstance(title, str) else "",
        grouped=description is not None,
    )


def described(name: str, path: Path, kept: Any) -> RunFolder:
    """Describe a run by the content of its manifest.

    Args:
        kept: The manifest, parsed.

    Raises:
        RunNotFound: It is of another version, or does not describe a run.
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
            configuration=configuration_of(asked),
        )
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:
        raise RunNotFound(f"{MANIFEST} of {name} does not describe a run: {error!r}") from error


PLAYED: Final = (
    "environment", "opponent", "pack", "seed", "options", "max_turns", "message_cut", "attempts",
    "on_invalid", "invalid_retries", "invalid_reward",
)  # fmt: skip
"""Fields of a manifest's request that anyone may see."""

SAMPLED: Final = (
    "model", "style", "temperature", "max_tokens", "context_tokens", "history_tokens", "actions_per_answer",
    "tool_choice", "send_seed", "price_in", "price_out",
)  # fmt: skip
"""Fields of its model that anyone may see; the others say where the endpoint is and how it is reached."""


def configuration_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that viewers may see: what is played, and how its model is sampled.

    Of the further fields of the model's requests only numbers and booleans are shown, such as ``top_p``.

    >>> model = {"model": "m", "base_url": "http://10.0.0.1", "extra": {"top_p": 0.9, "user": "secret"}}
    >>> configuration_of({"environment": "counting", "model": model})
    {'environment': 'counting', 'sampling': {'model': 'm', 'top_p': 0.9}}
    """
    model = asked.get("model") or {}
    extra = {name: one for name, one in (model.get("extra") or {}).items() if isinstance(one, (int, float))}
    shown = {name: asked[name] for name in PLAYED if asked.get(name) not in (None, {}, "")}
    sampling = {name: model[name] for name in SAMPLED if model.get(name) not in (None, "")}
    return {**shown, "sampling": {**sampling, **extra}}


def _changed(path: Path) -> float:
    """Return when a folder's record last changed, Unix time in seconds; 0 without a run, or for a link."""
    if path.is_symlink():
        return 0.0
    changed = 0.0
    for name in (MANIFEST, JOURNAL, f"{JOURNAL}-wal"):
        try:
            changed = max(changed, (path / name).stat().st_mtime)
        except OSError:
            continue
    return changed
