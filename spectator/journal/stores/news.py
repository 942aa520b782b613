"""What came into a journal since somebody looked: how far each episode is by now, and what came last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, select, text

from spectator.journal.stores.schema import episodes

LOOKED_THROUGH: Final = 50_000
"""Events that are looked through at once."""

NAMED: Final = 500
"""Episodes that one query names."""

HEAD_CHARACTERS: Final = 400
"""Characters of an event that are read: they hold its number, its time, its turn and its type."""

_LAST: Final = "CASE WHEN substr(text, 1, :most) LIKE :end THEN text ELSE substr(text, 1, :most) END"
_SINCE: Final = text(
    f"SELECT episode_id, max(seq) AS seq, {_LAST} AS text FROM main.events "
    "WHERE rowid > :row AND rowid <= :until GROUP BY episode_id"
)
_NEWEST: Final = text("SELECT coalesce(max(rowid), 0) FROM main.events")
_HEAD: Final = text(
    f"SELECT seq, {_LAST} AS text FROM events WHERE episode_id = :episode ORDER BY seq DESC LIMIT 1"
)
_READ: Final = {"most": HEAD_CHARACTERS, "end": '%"type":"episode.ended"%'}

_COLUMNS: Final = (
    "episode_id", "environment", "title", "seed", "started_at", "ended_at", "reason", "score", "result",
    "turns", "detail", "parent", "run_id", "group_id", "attempt",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EpisodeNews:
    """An episode of which something is new.

    Args:
        row: Its line of the index, by column.
        head_seq: Number of its last event; 0 where nobody looked, since it has finished.
        head: The beginning of that event, or the whole of it where it is the end.
    """

    row: dict[str, Any]
    head_seq: int
    head: str


@dataclass(frozen=True, slots=True)
class News:
    """What is new.

    Args:
        mark: Where to look from the next time.
        episodes: The episodes of which something is new, each once.
        whole: Whether that was all of the journal.
        more: Whether there is more already.
    """

    mark: int
    episodes: Sequence[EpisodeNews]
    whole: bool = False
    more: bool = False


_COMMITTED: Final = text("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
_SINCE_COMMIT: Final = text(
    f"SELECT DISTINCT ON (episode_id) episode_id, seq, {_LAST} AS text FROM events "
    "WHERE txid >= :row AND txid < :until ORDER BY episode_id, seq DESC"
)
_UNTIL_COMMIT: Final = text(
    "SELECT txid FROM events WHERE txid >= :row AND txid < :until ORDER BY txid OFFSET :most LIMIT 1"
)


def news(connection: Connection, mark: int | None, run_id: str | None = None) -> News:
    """What came since ``mark``; everything where there is none, or where the journal was made anew since.

    In PostgreSQL a mark is a transaction's number: all before it are over, so what was committed out of turn
    is not passed over.

    Args:
        connection: To the journal.
        mark: That of the :class:`News` before.
        run_id: Only of episodes of this run.
    """
    server = connection.dialect.name == "postgresql"
    newest = int(connection.scalar(_COMMITTED if server else _NEWEST) or 0)
    if mark is None or newest < mark:
        return News(newest, list(_everything(connection, run_id)), whole=True)
    if newest == mark:
        return News(mark, [])
    if server:
        row = {"row": mark, "until": newest, "most": LOOKED_THROUGH}
        until = max(mark + 1, connection.scalar(_UNTIL_COMMIT, row) or newest)
    else:
        until = min(newest, mark + LOOKED_THROUGH)
    since = _SINCE_COMMIT if server else _SINCE
    found = connection.execute(since, {**_READ, "row": mark, "until": until}).all()
    heads = {one.episode_id: one for one in found}
    rows = _rows(connection, list(heads), run_id)
    told = [EpisodeNews(row, heads[row["episode_id"]].seq, heads[row["episode_id"]].text) for row in rows]
    return News(until, told, more=until < newest)


def _everything(connection: Connection, run_id: str | None) -> Iterator[EpisodeNews]:
    wanted = select(*(episodes.c[name] for name in _COLUMNS)).order_by(episodes.c.ended_at)
    if run_id is not None:
        wanted = wanted.where(episodes.c.run_id == run_id)
    for row in [dict(one) for one in connection.execute(wanted).mappings()]:
        if row["reason"] == "finished":
            yield EpisodeNews(row, 0, "")
            continue
        head = connection.execute(_HEAD, {**_READ, "episode": row["episode_id"]}).first()
        if head is not None:
            yield EpisodeNews(row, head.seq, head.text)


def _rows(connection: Connection, episode_ids: Sequence[str], run_id: str | None) -> Iterator[dict[str, Any]]:
    columns = [episodes.c[name] for name in _COLUMNS]
    for first in range(0, len(episode_ids), NAMED):
        wanted = select(*columns).where(episodes.c.episode_id.in_(episode_ids[first : first + NAMED]))
        if run_id is not None:
            wanted = wanted.where(episodes.c.run_id == run_id)
        for one in connection.execute(wanted).mappings():
            yield dict(one)
