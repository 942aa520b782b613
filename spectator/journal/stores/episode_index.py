"""The index of episodes: the row of each, made from its first and its last event."""

from __future__ import annotations

from typing import Any

from spectator.events import Event


def row_of_start(started: Event) -> dict[str, Any]:
    """The row of an episode that begins with ``started``."""
    data = started.data
    agent = data["seats"][data["agent"]]
    others = [seat["policy"] for actor, seat in data["seats"].items() if actor != data["agent"]]
    return {
        "episode_id": started.episode_id,
        "epoch": started.epoch,
        "environment": data["environment"],
        "title": data["title"],
        "captain": agent["policy"],
        "captain_label": agent["label"],
        "opponent": others[0] if others else "",
        "pack": data["pack"],
        "seed": str(data["seed"]),
        "started_at": started.at,
        "parent": (data.get("parent") or {}).get("episode_id"),
        "run_id": data.get("run_id"),
        "group_id": data.get("group_id"),
        "attempt": data.get("attempt"),
    }


def row_of_end(ended: Event, seq: int, digest: bytes) -> dict[str, Any]:
    """What notes the end of ``episode`` in its row, with the number and the digest of its last event."""
    data = ended.data
    return {
        "episode": ended.episode_id,
        "ended_at": ended.at,
        "reason": data["reason"],
        "score": data["score"],
        "result": data["result"],
        "turns": data["turns"],
        "detail": data.get("detail"),
        "end_seq": seq,
        "end_digest": digest,
    }
