"""The folder of an evaluation: which evaluation it holds, so that a run in it can be resumed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from spectator import __version__
from spectator.errors import FieldError, InvalidRequest
from spectator.evaluation.figures import EVALUATION
from spectator.evaluation.schedule import Schedule
from spectator.journal.encoding import check_replaceable
from spectator.policies.captains import ASKED_BY
from spectator.policies.model_presets import ModelBuild

MANIFEST: Final = "evaluation.json"
JOURNAL: Final = "journal.db"
RESULTS: Final = "results.json"
REPORT: Final = "report.html"
PLOTS: Final = "plots"


class Kept(NamedTuple):
    """What a folder says of its evaluation.

    Args:
        began_ms: When it began, Unix time in milliseconds.
        run_id: The name of its run.
    """

    began_ms: int
    run_id: str


def keep_manifest(folder: Path, schedule: Schedule, now_ms: int, run_id: str | None = None) -> Kept:
    """Write down what is evaluated in ``folder``, or check that it is still the same.

    Captains and matches may be added in a later run; what was played is not played again. A model may move to
    another endpoint, key or price, but is asked as it was in the first run.

    Args:
        folder: Made when it is not there.
        schedule: What is to be played.
        now_ms: Unix time in milliseconds.
        run_id: The name of its run; derived where it is left out.

    Returns:
        When the evaluation began, and its run's name.

    Raises:
        InvalidRequest: The folder holds an evaluation of something else; names what differs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asked, models = identity(schedule), _models(schedule)
    if run_id is not None:
        asked["run_id"] = run_id
    path = folder / MANIFEST
    if path.exists():
        kept = _read(path)
        differing = [name for name, value in asked.items() if kept.get(name) != value]
        if differing:
            shown = "; ".join(f"{name} {kept.get(name)!r}, now {asked[name]!r}" for name in differing)
            raise InvalidRequest(
                [FieldError("out", f"{folder} holds another evaluation ({shown}); choose another folder")]
            )
        known = kept.get("models", {})
        _need_same(known, models, folder)
        if models.keys() - known.keys():
            write_text(path, json.dumps({**kept, "models": {**models, **known}}, indent=2))
        return Kept(int(kept["began_ms"]), kept["run_id"])
    if (folder / JOURNAL).exists():
        raise InvalidRequest(
            [FieldError("out", f"{folder} holds a journal that is no evaluation's; choose another folder")]
        )
    if run_id is None:
        run_id = EVALUATION + hashlib.sha256(json.dumps([asked, now_ms]).encode()).hexdigest()[:16]
    kept = {
        **asked,
        "models": models,
        "began_ms": now_ms,
        "run_id": run_id,
        "spectator_version": __version__,
    }
    write_text(path, json.dumps(kept, indent=2))
    return Kept(now_ms, run_id)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    check_replaceable(path)
    half = path.with_name(path.name + ".part")
    half.write_text(text, encoding="utf-8")
    os.replace(half, path)


def identity(schedule: Schedule) -> dict[str, Any]:
    """What stays the same however often an evaluation is run."""
    first = ",".join(str(match.seed) for match in schedule.matches[:1])
    return {
        "environment": schedule.world.name,
        "environment_version": schedule.world.version,
        "pack": schedule.pack.name,
        "pack_version": schedule.pack.version,
        "options": dict(schedule.options),
        "failed_decisions": schedule.failed_decisions,
        "first_seed": hashlib.sha256(first.encode()).hexdigest()[:16],
    }


def _models(schedule: Schedule) -> dict[str, dict[str, Any]]:
    """By captain, how a model is asked, as far as its answers may depend on it."""
    found = {}
    for name in schedule.captains:
        build = schedule.world.captains[name].build
        if isinstance(build, ModelBuild):
            found[name] = build.captain.model_dump(mode="json", include=set(ASKED_BY))
    return found


def _need_same(known: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    changed = [
        f"{name}: {field} was {known[name].get(field)!r}, now {value!r}"
        for name, asked in models.items()
        if name in known
        for field, value in asked.items()
        if known[name].get(field) != value
    ]
    if changed:
        rule = f"{folder} holds matches of other settings ({'; '.join(changed)}); choose another folder"
        raise InvalidRequest([FieldError("out", rule)])


def _read(path: Path) -> Mapping[str, Any]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidRequest([FieldError("out", f"{path} cannot be read: {error}")]) from error
    if not isinstance(kept, dict) or not {"began_ms", "run_id"} <= kept.keys():
        raise InvalidRequest([FieldError("out", f"{path} does not describe an evaluation")])
    return kept
