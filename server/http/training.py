"""Routes of the training record: a world's truth once it is unsealed, and, for the operator, model calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse

from spectator.exports.calls import row_of_call
from spectator.journal.base import EpisodeSummary, Journal
from spectator.journal.outline import outline_of
from spectator.journal.packing import json_bytes

from ..identifiers import MAX_SEQ
from ..security import faults
from ..security.faults import Refused, documented
from ..security.masking import NDJSON
from ..services import ServicesDep
from .archive import summary_of
from .downloads import Download, download, reading
from .masked_route import MaskedRoute

PRIVATE: Final = "no-store, private"


class EpisodeTruth(BaseModel):
    """What the world of an ended episode hid."""

    episode_id: str
    truth: dict[str, Any] = Field(description="In the world's own terms")


router = APIRouter(prefix="/api/episodes", tags=["history"], route_class=MaskedRoute)


@router.get(
    "/{episode_id}/truth",
    response_model=EpisodeTruth,
    responses=documented(
        faults.NO_EPISODE, faults.NO_TRUTH, faults.SEALED, faults.INVALID, faults.NO_JOURNAL
    ),
)
async def get_truth(episode_id: str, services: ServicesDep) -> Response:
    """What the world hid; 409 until the episode has ended, 404 where nothing was recorded."""
    await summary_of(services, episode_id)
    truth = await services.journal.truth(episode_id)
    if truth is None:
        raise Refused(faults.NO_TRUTH, f"nothing that was hidden is recorded of {episode_id}")
    whole = f'{{"episode_id":"{episode_id}","truth":{truth}}}'
    return Response(whole, media_type="application/json", headers={"Cache-Control": "no-cache"})


@router.get(
    "/{episode_id}/calls",
    response_class=StreamingResponse,
    responses={
        **documented(
            faults.UNAUTHENTICATED, faults.NOT_HERE, faults.NO_EPISODE, faults.INVALID, faults.TOO_MANY,
            faults.NO_JOURNAL, faults.CROWDED,
        ),
        200: {
            "description": "One call a line, as `spectator export --format messages` writes it",
            "content": {NDJSON: {"schema": {"type": "string"}}},
        },
    },
)  # fmt: skip
async def get_calls(
    episode_id: str,
    request: Request,
    services: ServicesDep,
    after_seq: Annotated[int, Query(ge=0, le=MAX_SEQ, description="Only of later decisions")] = 0,
    until_seq: Annotated[int, Query(ge=0, le=MAX_SEQ, description="Only of decisions up to this")] = MAX_SEQ,
    turn: Annotated[
        int | None,
        Query(ge=0, le=MAX_SEQ, description="Only of this turn, which is the same in record and view"),
    ] = None,
) -> Download:
    """The calls to models with their prompts, for the operator alone: a prompt holds what its seat sees.

    The operator may play a seat, too: while an episode is under way, calls are told once viewers may see the
    decision that they led to.
    """
    services.guard.require_owner(request)
    async with reading(services, request) as held:
        summary = await summary_of(services, episode_id)
        last = await services.recorded.last_seen(episode_id)
        last = until_seq if last is None else min(last, until_seq)
        lines = _lines(services.journal, summary, after_seq, last, turn)
        return await download(held, lines, {"Cache-Control": PRIVATE})


async def _lines(
    journal: Journal, summary: EpisodeSummary, after_seq: int, last: int, turn: int | None
) -> AsyncIterator[bytes]:
    outline = await outline_of(journal, summary)
    async for one in journal.calls(summary.episode_id):
        if one.decided.seq > last:
            return
        asked = outline.asked(one.decided.seq)
        if asked is not None and after_seq < one.decided.seq and turn in (None, asked.turn):
            yield json_bytes(row_of_call(outline, one)) + b"\n"
