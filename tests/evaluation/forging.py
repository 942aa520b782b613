"""A forger of bundles: changes what it likes, and puts every digest right that anybody can compute."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from spectator.journal.contract import GENESIS, extend


@contextmanager
def manifest_of(bundle: Path) -> Iterator[dict[str, Any]]:
    """The manifest, written back as it is left; the journal's digest in it is put right."""
    path = bundle / "manifest.json"
    manifest = json.loads(path.read_text())
    yield manifest
    text = (bundle / "journal.db").read_bytes()
    if manifest["files"].keys() == {"journal.db"}:
        manifest["files"]["journal.db"] = {"sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text)}
    path.write_text(json.dumps(manifest))


@contextmanager
def database_of(bundle: Path) -> Iterator[sqlite3.Connection]:
    """The journal's tables, and all digests of the bundle put right afterwards."""
    with closing(sqlite3.connect(bundle / "journal.db")) as database:
        yield database
        database.commit()
    with manifest_of(bundle):
        pass


def events_of(database: sqlite3.Connection, episode_id: str) -> list[dict[str, Any]]:
    rows = database.execute("SELECT text FROM events WHERE episode_id = ? ORDER BY seq", (episode_id,))
    return [json.loads(text) for (text,) in rows]


def rewrite(bundle: Path, episode_id: str, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the events of an episode, and update every digest of them."""
    with database_of(bundle) as database:
        events = events_of(database, episode_id)
        change(events)
        database.execute("DELETE FROM events WHERE episode_id = ?", (episode_id,))
        digest = GENESIS
        for event in events:
            text = json.dumps(event, separators=(",", ":"), ensure_ascii=False)
            digest = extend(digest, text)
            row = (episode_id, event["seq"], text, digest)
            database.execute("INSERT INTO events (episode_id, seq, text, digest) VALUES (?, ?, ?, ?)", row)
        database.execute(
            "UPDATE episodes SET end_seq = ?, end_digest = ? WHERE episode_id = ?",
            (events[-1]["seq"], digest, episode_id),
        )
    with manifest_of(bundle) as manifest:
        for stated in manifest["episodes"]:
            if stated["id"] == episode_id:
                stated |= {"events": events[-1]["seq"], "digest": digest.hex()}


def of_type(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The first event of that type."""
    return next(event for event in events if event["type"] == kind)
