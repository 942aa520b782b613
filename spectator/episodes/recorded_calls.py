"""Read the model calls recorded beside an episode, and what they cost."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from spectator.clock import timestamp
from spectator.core_events import UNDECIDED_IN
from spectator.errors import EpisodeDamaged, JournalError
from spectator.events import Event, RecordedEvent
from spectator.journal.contract import EpisodeFilter, EpisodeLog, EpisodeSummary, Journal, RecordedCall
from spectator.llm.exchanges import RecordedExchange
from spectator.model_calls import ModelCall
from spectator.policies.spending import Spent
from spectator.policies.visitor_models import is_visitor_model

Calls = Mapping[int, Sequence[ModelCall]]
"""The calls behind each decision, by turn; turns are the same in a record and in its derived view."""


async def calls_of(journal: EpisodeLog, episode_id: str, *, until: int | None = None) -> Calls:
    """Read the calls behind the decisions of an episode; empty if none were recorded.

    Omits calls behind decisions that failed.

    Args:
        until: Read only calls behind decisions up to this turn.

    Raises:
        JournalError: A call cannot be read or was changed.
    """
    calls: dict[int, list[ModelCall]] = {}
    async for one in journal.calls(episode_id):
        if until is not None and one.decided.turn > until:
            break
        if one.decided.type == "decision.made":
            calls.setdefault(one.decided.turn, []).append(one.call)
    return calls


async def exchanges_of(journal: EpisodeLog, episode_id: str) -> list[RecordedExchange]:
    """Return the requests to the models of an episode with their replies, in order.

    Omits requests behind decisions that failed.

    Raises:
        JournalError: A call cannot be read or was changed.
    """
    return [
        RecordedExchange(
            turn=one.decided.turn,
            actor=one.decided.data["actor"],
            request=one.exchange["request"],
            messages=one.call.messages,
            tools=one.call.tools,
            reply=one.call.reply,
            failure=one.exchange["failure"],
            call=one.call,
        )
        async for one in journal.calls(episode_id)
        if one.decided.type == "decision.made"
    ]


async def streamed_with_whole_replies(
    journal: EpisodeLog, episode_id: str, recorded: AsyncIterator[RecordedEvent]
) -> AsyncGenerator[RecordedEvent, None]:
    """Yield ``recorded`` with every reply in its event, even long ones, for policies that remember.

    Holds only one turn's calls at a time. The events' texts stay unchanged.

    Args:
        recorded: Its events, in order.

    Raises:
        JournalError: An event or a call cannot be read.
    """
    calls: CallsInOrder | None = None
    async for one in recorded:
        if not _lacking(one):
            yield one
            continue
        calls = calls or CallsInOrder(journal.calls(episode_id))
        yield with_replies(one, await calls.behind(one.event.turn))


class CallsInOrder:
    """Reads the calls behind one decision after the other.

    Args:
        calls: The calls of an episode, in order.
    """

    def __init__(self, calls: AsyncIterator[RecordedCall]) -> None:
        self._calls = calls
        self._ahead: RecordedCall | None = None

    async def behind(self, turn: int) -> list[ModelCall]:
        """Return the calls behind the decision of ``turn``; turns must be requested in order."""
        found: list[ModelCall] = []
        while (call := self._ahead or await anext(self._calls, None)) is not None:
            self._ahead = call if call.decided.turn > turn else None
            if self._ahead is not None:
                break
            if call.decided.turn == turn and call.decided.type == "decision.made":
                found.append(call.call)
        return found


def with_replies(one: RecordedEvent, calls: Sequence[ModelCall]) -> RecordedEvent:
    """Return a decision with its calls' replies filled in where they were too long for the event."""
    if not _lacking(one) or len(calls) != len(one.event.data["exchanges"]):
        return one
    filled = [
        {**exchange, "reply": call.reply} if _too_long(exchange) else exchange
        for exchange, call in zip(one.event.data["exchanges"], calls, strict=True)
    ]
    return RecordedEvent(replace(one.event, data={**one.event.data, "exchanges": filled}), one.text)


def _lacking(one: RecordedEvent) -> bool:
    exchanges = one.event.data.get("exchanges") if one.event.type == "decision.made" else None
    return any(_too_long(exchange) for exchange in exchanges or ())


def _too_long(exchange: Mapping[str, Any]) -> bool:
    return exchange["reply"] is None and exchange["failure"] is None


logger = logging.getLogger(__name__)

LOOK_BACK: Final = timedelta(days=2)
"""How long before a day an episode may begin and still spend on that day."""

PAGE: Final = 200


async def spent_on(journal: Journal, day: date | None, *, run_id: str | None = None) -> Spent:
    """Sum up what recorded episodes spent; reads every event of those that asked a model.

    Args:
        day: Count only spending on this day, UTC; ``None`` counts all.
        run_id: Count only episodes of this run.

    Raises:
        JournalError: The index cannot be read. An unreadable episode is logged and skipped.
    """
    earliest = None if day is None else datetime.combine(day, datetime.min.time(), UTC) - LOOK_BACK
    spent, before = Spent(), None
    while page := await journal.episodes(EpisodeFilter(run_id=run_id, before=before, limit=PAGE)):
        for summary in page:
            before = summary.episode_id
            if earliest is not None and summary.started_at < timestamp(earliest):
                return spent
            try:
                if await _asks_a_model(journal, summary):
                    spent += await _spent_by(journal, summary, day)
            except (JournalError, ValueError, LookupError, TypeError):
                logger.exception("cannot read the spending of episode %s", before)
    return spent


async def _asks_a_model(journal: Journal, summary: EpisodeSummary) -> bool:
    first = await journal.read(summary.episode_id, limit=1)
    if not first or first[0].event.type != "episode.started":
        raise EpisodeDamaged(f"the record of {summary.episode_id} does not begin with its start")
    seats = first[0].event.data["seats"].values()
    return any(seat["source"] == "model" and not is_visitor_model(seat["policy"]) for seat in seats)


async def _spent_by(journal: Journal, summary: EpisodeSummary, day: date | None) -> Spent:
    spent, borrowed, lent = Spent(), 0, frozenset[str]()
    async for recorded in journal.stream(summary.episode_id):
        event = recorded.event
        if event.type == "episode.started":
            borrowed = (event.data.get("parent") or {}).get("turn", 0)
            seats = event.data["seats"].items()
            lent = frozenset(actor for actor, seat in seats if is_visitor_model(seat["policy"]))
        elif event.type in UNDECIDED_IN or (event.type == "decision.made" and event.turn > borrowed):
            lent_it = event.data.get("undecided", event.data).get("actor") in lent
            if not lent_it and (day is None or event.at[:10] == day.isoformat()):
                spent += _spent_in(event)
    return spent


def spent_in(recorded: Sequence[RecordedEvent]) -> Spent:
    """Sum up what the models of one episode used, including a fork's share from its parent."""
    asked = [one.event for one in recorded if one.event.type in (*UNDECIDED_IN, "decision.made")]
    return sum(map(_spent_in, asked), Spent())


def _spent_in(event: Event) -> Spent:
    data = event.data.get("undecided", event.data)
    if data.get("model") is None:
        return Spent()
    tokens = (data["tokens_in"] or 0) + (data["tokens_out"] or 0)
    return Spent(tokens, data.get("cost") or 0.0, data["latency_s"])
