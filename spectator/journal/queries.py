"""Query the journal: events, model calls, checkpoints, summaries, news.

Each event is checked against the chain of digests, each message of a prompt against its own digest, and each
checkpoint against the event that it follows.
"""

from __future__ import annotations

import json
import logging
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, insert, or_, select, text, tuple_

from spectator.core_events import CALLS_BEHIND
from spectator.errors import EpisodeDamaged
from spectator.events import Event, decode
from spectator.journal.contract import (
    GENESIS,
    Checkpoint,
    EpisodeFilter,
    EpisodeSummary,
    Link,
    RecordedCall,
    extend,
)
from spectator.journal.coordination import leases, not_of_a_fleet
from spectator.journal.encoding import expanded, unpack
from spectator.journal.inserts import DIGEST_BYTES
from spectator.journal.schema import calls, checkpoints, episodes, events, messages
from spectator.model_calls import ModelCall

READ_BATCH: Final = 500
"""Maximum events that a stream reads at once."""

READ_FIRST: Final = 8
"""Events of a stream's first batch; later batches grow at most fourfold, depending on the events' size."""

READ_CHARACTERS: Final = 2_000_000
"""Characters that a stream reads at once, estimated from the last batch; limits its memory."""

_HEAD_SEQ: Final = select(func.max(events.c.seq)).where(events.c.episode_id == bindparam("episode"))
ENDS: Final = select(episodes.c.end_seq, _HEAD_SEQ.scalar_subquery().label("head_seq")).where(
    episodes.c.episode_id == bindparam("episode")
)
"""The number of an episode's end, and of its last event by the table's index."""


def texts_after(
    connection: Connection, episode_id: str, after_seq: int, limit: int | None, *, checked: bool = True
) -> list[str]:
    """Read the texts of the events after ``after_seq``; if ``checked``, compare them with the chain.

    Raises:
        EpisodeDamaged: An event is missing or does not match its digest.
    """
    known = connection.execute(ENDS, {"episode": episode_id}).first()  # first, as events may be added
    wanted = (
        select(events.c.seq, events.c.text, events.c.digest)
        .where(events.c.episode_id == episode_id, events.c.seq >= after_seq)
        .order_by(events.c.seq)
        .limit(None if limit is None else limit + (after_seq > 0))
    )
    rows = connection.execute(wanted).all()
    if rows and rows[0].seq == after_seq:
        digest, rows = rows[0].digest, rows[1:]
    else:
        digest = GENESIS if after_seq <= 0 else None
    seq, wrong = _followed(rows, max(after_seq, 0), digest)
    if checked and known is not None:  # else it is being removed
        head = max(known.end_seq or 0, known.head_seq or 0)
        if not wrong and seq < head and (limit is None or len(rows) < limit):
            wrong = f"events {seq + 1} to {head} are missing from the record"
        if wrong:
            raise EpisodeDamaged(f"{episode_id}: {wrong}")
    return [text for _, text, _ in rows]


def _followed(rows: Iterable[Any], seq: int, digest: bytes | None) -> tuple[int, str]:
    """Return the number of the last valid row, and what is wrong with the next one."""
    for number, event_text, noted in rows:
        if number != seq + 1:
            return seq, f"event {seq + 1} is missing from the record"
        whole = isinstance(event_text, str)
        if whole and digest is not None and noted is not None:
            whole = noted == extend(digest, event_text)
        if not whole:
            return seq, f"event {number} was changed after it was recorded"
        seq, digest = number, noted
    return seq, ""


def links_after(connection: Connection, episode_id: str, after_seq: int) -> list[Link]:
    """Read the next batch of rows after ``after_seq``, unchecked."""
    wanted = (
        select(events.c.episode_id, events.c.seq, events.c.text, events.c.digest)
        .where(events.c.episode_id == episode_id, events.c.seq > after_seq)
        .order_by(events.c.seq)
        .limit(READ_BATCH)
    )
    return [Link(*row) for row in connection.execute(wanted)]


READ_CALLS: Final = 32
"""Calls read at once; each may be large."""

READ_MESSAGES: Final = 500
"""Messages read in one query."""

Message = Mapping[str, Any]


class CallReader:
    """Reads the calls of one episode in order, in batches.

    It keeps each actor's last prompt, because the next one is stored as the difference from it.
    """

    def __init__(self, episode_id: str) -> None:
        self._episode_id = episode_id
        self._after = (0, -1)
        self._shown: dict[str, list[bytes]] = {}
        self._tools: dict[str, list[bytes]] = {}
        self._tokens: dict[str, array[int]] = {}
        self._known: dict[bytes, Message] = {}
        self._failed: ValueError | None = None

    def read(self, connection: Connection) -> list[RecordedCall]:
        """Read the next calls; empty at the end.

        Raises:
            ValueError: The stored data was changed; the calls before it were returned.
        """
        if self._failed is not None:
            raise self._failed
        rows = connection.execute(self._wanted()).all()
        added = {ref for row in rows for ref in (*_refs(row.messages), *_refs(row.tools or b""))}
        self._known |= self._fetched(connection, [ref for ref in added if ref not in self._known])
        found: list[RecordedCall] = []
        try:
            found.extend(self._calls(rows))
        except ValueError as error:
            if not found:
                raise
            self._failed = error
        used = {ref for refs in (*self._shown.values(), *self._tools.values()) for ref in refs}
        self._known = {ref: message for ref, message in self._known.items() if ref in used}
        return found

    def _wanted(self) -> Any:
        event = (events.c.episode_id == calls.c.episode_id) & (events.c.seq == calls.c.seq)
        return (
            select(calls, events.c.text)
            .join(events, event, isouter=True)
            .where(calls.c.episode_id == self._episode_id, tuple_(calls.c.seq, calls.c.place) > self._after)
            .order_by(calls.c.seq, calls.c.place)
            .limit(READ_CALLS)
        )

    def _fetched(self, connection: Connection, refs: Sequence[bytes]) -> dict[bytes, Message]:
        fetched: dict[bytes, Message] = {}
        for first in range(0, len(refs), READ_MESSAGES):
            wanted = select(messages.c.digest, messages.c.body).where(
                messages.c.episode_id == self._episode_id,
                messages.c.digest.in_(refs[first : first + READ_MESSAGES]),
            )
            for digest, body in connection.execute(wanted):
                text = expanded(body)
                if sha256(text).digest() != digest:
                    raise ValueError(f"message {digest.hex()} was changed after it was recorded")
                fetched[digest] = json.loads(text)
        return fetched

    def _calls(self, rows: Sequence[Row[Any]]) -> Iterator[RecordedCall]:
        for row in rows:
            self._after = (row.seq, row.place)
            where = f"call {row.place} of event {row.seq}"
            try:
                decided = _decided(row)
                yield RecordedCall(decided, row.place, self._call(decided, row))
            except (LookupError, TypeError, ValueError) as error:
                raise ValueError(f"{where}: {error}") from error

    def _call(self, decided: Event, row: Row[Any]) -> ModelCall:
        stated = decided.data.get("undecided", decided.data)
        actor, exchange = stated["actor"], stated["exchanges"][row.place]
        before = self._shown.get(actor, [])
        if row.kept > len(before):
            raise ValueError("the previous prompt is missing")
        shown = self._shown[actor] = [*before[: row.kept], *_refs(row.messages)]
        if row.tools is not None:
            self._tools[actor] = _refs(row.tools)
        token_ids = None if row.token_ids is None else unpack(row.token_ids)
        beside = json.loads(row.beside)
        return ModelCall(
            messages=self._found(shown),
            tools=self._found(self._tools[actor]),
            reply=exchange["reply"] if row.reply is None else json.loads(expanded(row.reply)),
            prompt_token_ids=self._prompt_tokens(actor, row, token_ids),
            token_ids=token_ids,
            logprobs=None if row.logprobs is None else unpack(row.logprobs),
            weight_versions=[(version, tokens) for version, tokens in beside["weight_versions"]],
            about=beside["about"],
            measured=beside["measured"],
        )

    def _prompt_tokens(self, actor: str, row: Row[Any], token_ids: array[int] | None) -> array[int] | None:
        if row.prompt_token_ids is None:
            return None
        before = self._tokens.get(actor, array("q"))
        if row.prompt_kept > len(before):
            raise ValueError("the previous tokens are missing")
        prompt: array[int] = before[: row.prompt_kept] + unpack(row.prompt_token_ids)
        self._tokens[actor] = prompt + (token_ids or array("q"))
        return prompt

    def _found(self, refs: Iterable[bytes]) -> list[Message]:
        try:
            return [self._known[ref] for ref in refs]
        except KeyError as error:
            raise ValueError(f"message {error.args[0].hex()} is missing") from error


def _decided(row: Row[Any]) -> Event:
    if row.text is None:
        raise ValueError("its event is missing")
    event = decode(row.text).event
    if event.type not in CALLS_BEHIND:
        raise ValueError(f"its event is {event.type}, not a decision")
    return event


def _refs(packed: bytes) -> list[bytes]:
    return [packed[at : at + DIGEST_BYTES] for at in range(0, len(packed), DIGEST_BYTES)]


logger = logging.getLogger(__name__)

KEPT: Final = 2
"""Newest checkpoints kept per episode: the second in case the first is damaged."""


def keep(connection: Connection, checkpoint: Checkpoint) -> None:
    """Store a checkpoint, and drop all but the previous one.

    Raises:
        ValueError: The event that it follows is not recorded.
    """
    episode_id, seq = checkpoint.episode_id, checkpoint.seq
    digest = _digest_of(connection, episode_id, seq)
    if digest is None:
        raise ValueError(f"the checkpoint follows event {seq} of {episode_id}, which is not recorded")
    mine = checkpoints.c.episode_id == episode_id
    connection.execute(delete(checkpoints).where(mine, checkpoints.c.seq >= seq))
    row = {"episode_id": episode_id, "seq": seq, "digest": _digest(digest, checkpoint.body)}
    connection.execute(insert(checkpoints).values(**row, body=checkpoint.body))
    newest = select(checkpoints.c.seq).where(mine).order_by(checkpoints.c.seq.desc())
    old = connection.scalars(newest.offset(KEPT)).all()
    if old:
        connection.execute(delete(checkpoints).where(mine, checkpoints.c.seq <= old[0]))


def kept(connection: Connection, episode_id: str) -> list[Checkpoint]:
    """Return an episode's checkpoints that match its record, newest first; warns about others."""
    wanted = (
        select(checkpoints.c.seq, checkpoints.c.digest, checkpoints.c.body)
        .where(checkpoints.c.episode_id == episode_id)
        .order_by(checkpoints.c.seq.desc())
    )
    fitting = []
    for seq, digest, body in connection.execute(wanted).all():
        event = _digest_of(connection, episode_id, seq)
        if event is None or not isinstance(body, bytes) or digest != _digest(event, body):
            logger.warning("episode %s: the checkpoint after event %s is damaged: ignored", episode_id, seq)
            continue
        fitting.append(Checkpoint(episode_id, seq, body))
    return fitting


def forget_older_of_ended(connection: Connection) -> None:
    """Delete all but the newest checkpoint of ended episodes, which is only needed for its view."""
    unended = select(episodes.c.episode_id).where(episodes.c.ended_at.is_(None))
    others = checkpoints.alias()
    newest = select(func.max(others.c.seq)).where(others.c.episode_id == checkpoints.c.episode_id)
    older = checkpoints.c.seq < newest.scalar_subquery()
    connection.execute(delete(checkpoints).where(checkpoints.c.episode_id.not_in(unended), older))


def _digest_of(connection: Connection, episode_id: str, seq: int) -> bytes | None:
    """Return the chain's digest up to an event; ``None`` if it or its digest is missing."""
    wanted = select(events.c.digest).where(events.c.episode_id == episode_id, events.c.seq == seq)
    digest: bytes | None = connection.scalar(wanted)
    return digest


def _digest(event: bytes, body: bytes) -> bytes:
    """Return the digest that ties a checkpoint to its event, and so to everything before it."""
    return sha256(event + body).digest()


SEARCHED: Final = (
    "result", "title", "environment", "captain", "captain_label", "opponent", "pack", "seed", "reason",
    "episode_id",
)  # fmt: skip
"""Columns of the text search."""

FILTERED: Final = (
    "environment", "captain", "opponent", "pack", "reason", "parent", "run_id", "group_id", "attempt",
)  # fmt: skip
"""Columns with an exact filter."""

_OWN: Final = events.c.episode_id == episodes.c.episode_id

_LAST_SEQ: Final = select(func.max(events.c.seq)).where(_OWN).scalar_subquery()
_LAST_DIGEST: Final = select(events.c.digest).where(_OWN).order_by(events.c.seq.desc()).limit(1)

_SUMMARIES: Final = select(
    *episodes.c,
    func.coalesce(episodes.c.end_seq, _LAST_SEQ).label("head_seq"),
    _LAST_DIGEST.scalar_subquery().label("digest"),
)
"""Every episode, with the number and the digest of its last event."""

SUMMARY_FIELDS: Final = tuple(field.name for field in fields(EpisodeSummary))


def summary(connection: Connection, episode_id: str) -> EpisodeSummary | None:
    """Return the summary of one episode; ``None`` if there is no such episode."""
    wanted = _SUMMARIES.where(episodes.c.episode_id == episode_id)
    found = connection.execute(wanted).mappings().first()
    return None if found is None else _summary(found)


def summaries(connection: Connection, wanted: EpisodeFilter) -> list[EpisodeSummary]:
    """List the summaries that match ``wanted``, newest first."""
    asked = {name: value for name in FILTERED if (value := getattr(wanted, name)) is not None}
    rules = [episodes.c[name] == value for name, value in asked.items()]
    if wanted.parents:
        rules.append(episodes.c.parent.in_(wanted.parents))
    if wanted.seed is not None:
        rules.append(episodes.c.seed == str(wanted.seed))
    if wanted.text is not None:
        rules.append(or_(*(episodes.c[name].icontains(wanted.text, autoescape=True) for name in SEARCHED)))
    if wanted.ended is not None:
        rules.append(episodes.c.ended_at.is_not(None) if wanted.ended else episodes.c.ended_at.is_(None))
    if wanted.before is not None:
        rules.append(episodes.c.episode_id < wanted.before)
    query = _SUMMARIES.where(*rules).order_by(episodes.c.episode_id.desc()).limit(wanted.limit)
    return [_summary(row) for row in connection.execute(query).mappings()]


def held_by_others(connection: Connection, owner: str) -> list[EpisodeSummary]:
    """List unended episodes leased by others than ``owner``, oldest first.

    Omits episodes of fleets, which are shown with their run.
    """
    held = select(leases.c.episode_id).where(leases.c.owner != owner)
    wanted = _SUMMARIES.where(
        episodes.c.ended_at.is_(None), episodes.c.episode_id.in_(held), not_of_a_fleet()
    )
    rows = connection.execute(wanted.order_by(episodes.c.episode_id)).mappings()
    return [_summary(row) for row in rows]


def heads(connection: Connection, episode_ids: Collection[str]) -> dict[str, tuple[int, str]]:
    """Return the number and epoch of the last event of each existing episode in ``episode_ids``."""
    wanted = select(episodes.c.episode_id, _LAST_SEQ.label("head"), episodes.c.epoch)
    found = connection.execute(wanted.where(episodes.c.episode_id.in_(episode_ids)))
    return {row.episode_id: (row.head, row.epoch) for row in found}


def _summary(row: Any) -> EpisodeSummary:
    values = {name: row[name] for name in SUMMARY_FIELDS}
    digest = None if row["digest"] is None else row["digest"].hex()
    return EpisodeSummary(**{**values, "seed": int(row["seed"]), "digest": digest})


LOOKED_THROUGH: Final = 50_000
"""Maximum new events examined at once."""

NAMED: Final = 500
"""Episodes named in one query."""

HEAD_CHARACTERS: Final = 400
"""Characters read of an event: enough for its number, time, turn and type."""

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
    """An episode with something new.

    Args:
        head: The beginning of that event, or all of it if it is the end.
    """

    row: dict[str, Any]
    head_seq: int
    head: str


@dataclass(frozen=True, slots=True)
class News:
    """What is new in the journal.

    Args:
        mark: Mark for the next call.
        episodes: The episodes with something new, each once.
        whole: Whether it is everything in the journal.
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
    """Return what is new since ``mark``; everything without a mark or if the journal was recreated.

    In PostgreSQL a mark is a transaction id before which all transactions have ended, so that commits out of
    order are not missed.

    Args:
        mark: Mark of the previous :class:`News`.
        run_id: Only episodes of this run.
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
    fresh = [EpisodeNews(row, heads[row["episode_id"]].seq, heads[row["episode_id"]].text) for row in rows]
    return News(until, fresh, more=until < newest)


def _everything(connection: Connection, run_id: str | None) -> Iterator[EpisodeNews]:
    end = _OWN & (events.c.seq == episodes.c.end_seq)
    wanted = _columns(run_id, events.c.seq, events.c.text)
    wanted = wanted.select_from(episodes.outerjoin(events, end)).order_by(episodes.c.ended_at)
    for row in [dict(one) for one in connection.execute(wanted).mappings()]:
        if (seq := row.pop("seq")) is not None:
            yield EpisodeNews(row, seq, row.pop("text"))
            continue
        head = connection.execute(_HEAD, {**_READ, "episode": row["episode_id"]}).first()
        if head is not None:
            yield EpisodeNews(row, head.seq, head.text)


def _rows(connection: Connection, episode_ids: Sequence[str], run_id: str | None) -> Iterator[dict[str, Any]]:
    for first in range(0, len(episode_ids), NAMED):
        named = episodes.c.episode_id.in_(episode_ids[first : first + NAMED])
        for one in connection.execute(_columns(run_id).where(named)).mappings():
            yield dict(one)


def _columns(run_id: str | None, *more: Any) -> Select[Any]:
    wanted = select(*(episodes.c[name] for name in _COLUMNS), *more)
    return wanted if run_id is None else wanted.where(episodes.c.run_id == run_id)
