"""Tokens and cost that models used, by the record: of one episode, and of all episodes of a day."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

from spectator.clock import timestamp
from spectator.errors import EpisodeDamaged, JournalError
from spectator.events import UNDECIDED_IN, Event, RecordedEvent
from spectator.journal.base import EpisodeFilter, EpisodeSummary, Journal
from spectator.policies.lent_models import is_lent
from spectator.policies.spending import Spent

logger = logging.getLogger(__name__)

LOOK_BACK: Final = timedelta(days=2)
"""How long before a day an episode may have begun that still spends in it."""

PAGE: Final = 200


async def spent_on(journal: Journal, day: date | None, *, run_id: str | None = None) -> Spent:
    """What all recorded episodes spent; reads every event of those that asked a model.

    Args:
        journal: Where they are.
        day: Count only what was spent on this day, UTC; ``None`` counts all.
        run_id: Count only episodes of this run.

    Raises:
        JournalError: The index cannot be read; an episode that cannot is logged and left out.
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
                logger.exception("what episode %s spent cannot be read", before)
    return spent


async def _asks_a_model(journal: Journal, summary: EpisodeSummary) -> bool:
    first = await journal.read(summary.episode_id, limit=1)
    if not first or first[0].event.type != "episode.started":
        raise EpisodeDamaged(f"the record of {summary.episode_id} does not begin with its start")
    seats = first[0].event.data["seats"].values()
    return any(seat["source"] == "model" and not is_lent(seat["policy"]) for seat in seats)


async def _spent_by(journal: Journal, summary: EpisodeSummary, day: date | None) -> Spent:
    spent, borrowed, lent = Spent(), 0, frozenset[str]()
    async for recorded in journal.stream(summary.episode_id):
        event = recorded.event
        if event.type == "episode.started":
            borrowed = (event.data.get("parent") or {}).get("turn", 0)
            seats = event.data["seats"].items()
            lent = frozenset(actor for actor, seat in seats if is_lent(seat["policy"]))
        elif event.type in UNDECIDED_IN or (event.type == "decision.made" and event.turn > borrowed):
            lent_it = event.data.get("undecided", event.data).get("actor") in lent
            if not lent_it and (day is None or event.at[:10] == day.isoformat()):
                spent += _spent_in(event)
    return spent


def spent_in(recorded: Sequence[RecordedEvent]) -> Spent:
    """What the models of one episode took, by its record; what a fork has from its parent included."""
    asked = [one.event for one in recorded if one.event.type in (*UNDECIDED_IN, "decision.made")]
    return sum(map(_spent_in, asked), Spent())


def _spent_in(event: Event) -> Spent:
    data = event.data.get("undecided", event.data)
    if data.get("model") is None:
        return Spent()
    tokens = (data["tokens_in"] or 0) + (data["tokens_out"] or 0)
    return Spent(tokens, data.get("cost") or 0.0, data["latency_s"])
