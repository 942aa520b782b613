"""Model calls read back from their rows: prompts put together again, every message checked by its digest."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, Row, select, tuple_

from spectator.events import CALLS_BEHIND, Event, decode
from spectator.journal.attachments import RecordedCall
from spectator.journal.packing import expanded, unpack
from spectator.journal.stores.call_rows import DIGEST_BYTES
from spectator.journal.stores.schema import calls, events, messages
from spectator.model_calls import ModelCall

READ_CALLS: Final = 32
"""Calls that are read at once, since each may be large."""

READ_MESSAGES: Final = 500
"""Messages that are asked for in one query."""

Message = Mapping[str, Any]


class CallReader:
    """Reads the calls of one episode in order, a batch at a time.

    It keeps the last prompt of each actor, for the next one is told by what it adds to it.

    Args:
        episode_id: Whose.
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
        """The next calls; none at the end.

        Raises:
            ValueError: What is kept is not what was recorded; those before it were given.
        """
        if self._failed is not None:
            raise self._failed
        rows = connection.execute(self._wanted()).all()
        added = {ref for row in rows for ref in (*_refs(row.messages), *_refs(row.tools or b""))}
        self._known |= self._fetched(connection, [ref for ref in added if ref not in self._known])
        found = list(self._until_one_fails(rows))
        used = {ref for refs in (*self._shown.values(), *self._tools.values()) for ref in refs}
        self._known = {ref: message for ref, message in self._known.items() if ref in used}
        return found

    def _until_one_fails(self, rows: Sequence[Row[Any]]) -> Iterator[RecordedCall]:
        first = True
        try:
            for call in self._calls(rows):
                yield call
                first = False
        except ValueError as error:
            if first:
                raise
            self._failed = error

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
            raise ValueError("the prompt before it is missing")
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
            raise ValueError("the tokens before it are missing")
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
        raise ValueError(f"its event is {event.type}, no decision")
    return event


def _refs(packed: bytes) -> list[bytes]:
    return [packed[at : at + DIGEST_BYTES] for at in range(0, len(packed), DIGEST_BYTES)]
