"""Find standbys of the journal's database that are behind: a failover to them loses events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True)
class Replica:
    """A standby of the database, or a replication slot that no standby uses.

    Args:
        name: Its name; ``None`` if this user may not see it.
        lag_bytes: What it has not replayed yet.
        lag_s: How far it is behind, in seconds; 0 if it is up to date or nothing is known.
        synchronous: Whether commits wait for it.
        connected: Whether it is there.
    """

    name: str | None
    lag_bytes: int
    lag_s: float
    synchronous: bool
    connected: bool


LAG_BYTES: Final = 16_777_216
LAG_S: Final = 10.0
"""How far a standby may be behind; the bytes are one segment of PostgreSQL's log."""

_REPLICAS: Final = text(
    "WITH log AS (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
    "ELSE pg_current_wal_lsn() END AS at) "
    "SELECT application_name, pg_wal_lsn_diff(at, replay_lsn), extract(epoch FROM replay_lag), "
    "sync_state IN ('sync', 'quorum'), true FROM pg_stat_replication, log "
    "WHERE state IS DISTINCT FROM 'backup' UNION ALL "
    "SELECT slot_name, pg_wal_lsn_diff(at, restart_lsn), NULL, false, false "
    "FROM pg_replication_slots, log WHERE NOT active"
)


def replicas(connection: Connection) -> list[Replica]:
    """List the standbys of the database, and the replication slots that none uses."""
    return [
        Replica(name, int(size or 0), float(lag_s or 0.0), bool(synchronous), connected)
        for name, size, lag_s, synchronous, connected in connection.execute(_REPLICAS)
    ]


def lagging(found: Iterable[Replica]) -> list[str]:
    """Describe the standbys that are behind or gone.

    >>> lagging([Replica("b", 20_000_000, 61.0, False, True), Replica("c", 0, 0.0, False, True)])
    ['standby b is 61 s and 20.0 MB behind']
    >>> lagging([Replica("old", 4_000_000, 0.0, False, False)])
    ['no standby uses the replication slot old, which keeps 4.0 MB of the log']
    """
    behind = [
        f"standby {one.name} is {one.lag_s:.0f} s and {one.lag_bytes / 1e6:.1f} MB behind"
        for one in found
        if one.connected and (one.lag_bytes > LAG_BYTES or one.lag_s > LAG_S)
    ]
    unused = "no standby uses the replication slot {0.name}, which keeps {1:.1f} MB of the log"
    return behind + [unused.format(one, one.lag_bytes / 1e6) for one in found if not one.connected]
