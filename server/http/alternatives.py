"""The route that says what else could have been decided: ``/api/episodes/{id}/alternatives``."""

from __future__ import annotations

from bisect import bisect_left
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request

from spectator.catalog import world_names
from spectator.episodes.replay.alternatives import CannotFollow, DecisionsMade, Wanted
from spectator.errors import FieldError, InvalidRequest
from spectator.journal.base import EpisodeSummary

from ..background.alternatives_process import Key
from ..identifiers import MAX_SEQ
from ..security import faults
from ..security.budget import Held
from ..security.faults import Refused, documented
from ..services import Services, ServicesDep
from .archive import summary_of
from .decisions_made import DecisionReader
from .downloads import reading
from .masked_route import MaskedRoute

NEAR: Final = 2
"""Decisions on either side that are named to whoever asks for an event that is none."""

PROBLEMS: Final = documented(
    faults.NO_EPISODE, faults.NOT_FOUND, faults.UNENDED, faults.INVALID, faults.TOO_MANY, faults.CROWDED,
    faults.TIMED_OUT, faults.NO_JOURNAL, faults.DAMAGED,
)  # fmt: skip


class AlternativeCall(BaseModel):
    """One call at a decision."""

    action: dict[str, Any] = Field(description="The call, as it is sent")
    words: str = Field(description="The same in a few plain words")
    chance: float = Field(
        ge=0, le=1, description="Chance that the side of whoever decides wins after it, as simulated"
    )
    error: float = Field(ge=0, description="Its standard error")
    gain: float = Field(description="`chance` less that after what was decided")
    gain_error: float = Field(
        ge=0, description="Standard error of that; both are played with the same random numbers"
    )
    played: bool = Field(description="Whether it is what was decided")
    place: int = Field(ge=1, description="Its place among all that were weighed, 1 the best")


class AlternativesAnswer(BaseModel):
    """What else could have been decided at one decision."""

    episode_id: str
    seq: int = Field(description="Number of the decision's event")
    actor: str = Field(description="Who decided, and whose side's chances are told")
    best: list[AlternativeCall] = Field(
        description="Best first, what was decided among them; empty where nothing can be simulated"
    )
    weighed: int = Field(description="How many calls were weighed")
    futures: int = Field(description="How many futures were played for that")
    how: str = Field(description="What is simulated; why nothing is, where ``best`` is empty")


def alternatives_router() -> APIRouter:
    """The route ``/api/episodes/{id}/alternatives``."""
    router = APIRouter(prefix="/api/episodes", tags=["history"], route_class=MaskedRoute)
    reader = DecisionReader()

    @router.get("/{episode_id}/alternatives", responses=PROBLEMS)
    async def get_alternatives(
        episode_id: str,
        request: Request,
        services: ServicesDep,
        seq: Annotated[int, Query(ge=1, le=MAX_SEQ, description="Number of a decision's event")],
    ) -> AlternativesAnswer:
        """What else could have been decided at a decision of an ended episode, best first.

        The same for whoever asks, as the chances are drawn from the episode's seed.
        """
        async with reading(services, request):
            summary = await summary_of(services, episode_id)
            _need_analyst(services, summary)
            if summary.ended_at is None:  # what is hidden until then may show in what would have been better
                raise Refused(faults.UNENDED, "What else could have been decided is told once it has ended.")
            made = await reader.of(services, summary)
        place = _place_of(seq, made, summary)
        key = summary.episode_id, summary.epoch, seq
        told = await _weighed(services, request, Wanted.of(episode_id, made, place), key)
        return AlternativesAnswer(episode_id=episode_id, seq=seq, actor=made.decisions[place].actor, **told)

    return router


async def _weighed(services: Services, request: Request, wanted: Wanted, key: Key) -> dict[str, Any]:
    """What else there was at a decision: kept, or weighed now on the account of whoever asks."""
    if (known := services.alternatives.known(key)) is not None:
        return known
    services.budget.need_weighing(request)
    async with services.budget.hold(Held.ALTERNATIVES, request):
        try:
            found = await services.alternatives.weigh(wanted, key)
        except CannotFollow as error:
            raise InvalidRequest([FieldError("seq", f"cannot be weighed: {error}")]) from error
    services.budget.note_weighed(request, found.seconds)
    return found.told


def _need_analyst(services: Services, summary: EpisodeSummary) -> None:
    """Raise where the world of an episode is not here, or weighs nothing."""
    name = summary.environment
    world = services.cast.load(name) if name in world_names() else None
    if world is None or world.analyst is None:
        raise HTTPException(404, f"{summary.title} has nobody who weighs decisions")


def _place_of(seq: int, made: DecisionsMade, summary: EpisodeSummary) -> int:
    """Place of the decision of an event among all of its episode.

    Raises:
        InvalidRequest: The event is not there, or is none.
    """
    if seq > summary.head_seq:
        raise InvalidRequest(
            [FieldError("seq", f"must be from 1 to {summary.head_seq}: so long is the record")]
        )
    numbers = [one.seq for one in made.decisions]
    place = bisect_left(numbers, seq)
    if place == len(numbers) or numbers[place] != seq:
        near = (
            ", ".join(str(one) for one in numbers[max(0, place - NEAR) : place + NEAR]) or "none is recorded"
        )
        raise InvalidRequest([FieldError("seq", f"must be the event of a decision; those near it: {near}")])
    return place
