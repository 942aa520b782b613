"""Routes of viewers who call along: the question, votes, each day's table, a viewer's card."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from spectator.environments.contract import FAINT, GRASS, GROUND, INK, WILLOW, text_svg, whole_svg
from spectator.errors import FieldError, InvalidRequest
from spectator.evaluation.votes import KEPT_DAYS, LEAST_CALLS, DayOfVoter

from ..background.voting import MatchVoting
from ..security import faults
from ..security.bodies import Body, body_of, documented_body
from ..security.budget import Held
from ..security.faults import Refused, documented
from ..security.requests import address_of
from ..services import Services, ServicesDep
from ..viewers.wire import CARDS, MAX_NAME, VoteMessage, wrong_in
from .control import ALWAYS
from .episodes import summary_of
from .pages import missing_page
from .previews import HEIGHT, WIDTH, CannotDraw, Cards, NoFont, PictureCache, draw, public_root
from .responses import MaskedRoute
from .templates import Page, Templates, static_path

WIDEST: Final = 1.1
"""Width of the widest letter of a name, in font sizes."""

VOTER: Final = r"^[0-9a-f]{16}$"
DAY: Final = "A day in UTC, such as 2026-11-28; today if omitted"

router = APIRouter(tags=["calling along"], route_class=MaskedRoute)


class CastVote(Body):
    """A viewer's call before a decision."""

    turn: int | None = Field(default=None, description="The question's turn; required")
    card: int | None = Field(default=None, description=f"The card, 0 to {CARDS - 1}; required")
    token: str | None = Field(
        default=None,
        description="A random secret of the viewer's own, 16 to 64 letters, digits, _ and -; required",
    )
    name: str = Field(
        default="", description=f"A name for the table, at most {MAX_NAME} characters; not verified"
    )


class OpenQuestion(BaseModel):
    """A question before a decision."""

    turn: int = Field(description="The turn of the decision")
    actor: str = Field(description="Who will decide")
    words: str = Field(description="The question")
    cards: list[str] = Field(description="Three calls in words")
    window_s: float = Field(description="About how long it is open, in seconds")
    votes: int = Field(description="Votes so far")


class Questions(BaseModel):
    """What viewers of an episode can call."""

    episode_id: str
    question: OpenQuestion | None = Field(description="The open question; null if none is")
    result: dict[str, Any] | None = Field(description="The newest result; see docs/calling-along.md")


class VoteReceipt(BaseModel):
    """A counted vote."""

    episode_id: str
    turn: int
    card: int
    voter: str = Field(description="The viewer's public id, in the table and in the address of its card")


class VoterDay(BaseModel):
    """A viewer's calls on one day."""

    voter: str
    name: str = Field(description="A name of the viewer's own choice; empty for none")
    calls: int
    best: int = Field(description="Calls of the best card")
    regret: float = Field(description="Mean loss against the best call, in hundredths of a win")
    brier: float = Field(description="Mean Brier score of its calls as forecasts of the best card")
    streak: int = Field(description="Best cards in a row up to now")
    longest: int = Field(description="The longest such row of the day")


class VoterPlace(VoterDay):
    """The same with its place."""

    place: int | None = Field(description=f"Its place in the table; null with fewer than {LEAST_CALLS} calls")


class DayTable(BaseModel):
    """The table of one day."""

    day: date = Field(description="In UTC")
    least_calls: int = Field(description="Calls from which on a viewer is ranked")
    viewers: list[VoterDay] = Field(description="Least mean regret first, at most 50")


_PROBLEMS: Final = documented(
    faults.INVALID, faults.NO_EPISODE, faults.NO_QUESTIONS, faults.OVER, faults.ELSEWHERE
)
_READ: Final = (faults.INVALID, faults.NO_JOURNAL, faults.TOO_MANY, faults.CROWDED)
_VOTE_PROBLEMS: Final = documented(
    *ALWAYS, faults.NO_EPISODE, faults.NO_QUESTIONS, faults.OVER, faults.ELSEWHERE, faults.VOTING_CLOSED,
    faults.VOTED,
)  # fmt: skip


@router.get("/api/episodes/{episode_id}/questions", responses=_PROBLEMS)
async def questions(episode_id: str, response: Response, services: ServicesDep) -> Questions:
    """Return the question that is open before the next decision, and the newest result.

    Soon after the end it waits for the result of the last question.
    """
    live = services.supervisor.live(episode_id)
    over = await services.voting.after_end(episode_id) if live is None or live.ended else None
    match = over or await _match(services, episode_id)
    ballot = match.ballot
    is_open = ballot is not None and ballot.open
    response.headers["Cache-Control"] = "no-store"
    return Questions(
        episode_id=episode_id,
        question=OpenQuestion(**ballot.shown()) if ballot is not None and is_open else None,
        result=None if match.result is None else dict(match.result),
    )


@router.post(
    "/api/episodes/{episode_id}/votes",
    status_code=201,
    responses=_VOTE_PROBLEMS,
    openapi_extra=documented_body(CastVote),
)
async def cast_vote(
    episode_id: str,
    sent: Annotated[CastVote, Depends(body_of(CastVote))],
    request: Request,
    services: ServicesDep,
) -> VoteReceipt:
    """Call one of the three cards; the first call of a viewer counts.

    The record does not change.
    """
    turn, card, token = sent.turn, sent.card, sent.token
    if turn is None or card is None or token is None:
        missing = [name for name in ("turn", "card", "token") if getattr(sent, name) is None]
        raise InvalidRequest([FieldError(name, "is required") for name in missing])
    vote = VoteMessage(turn, card, token, sent.name.strip())
    if wrong := wrong_in(vote):
        raise InvalidRequest(wrong)
    match = await _match(services, episode_id)
    voter = match.vote(address_of(request), vote)
    return VoteReceipt(episode_id=episode_id, turn=turn, card=card, voter=voter)


@router.get("/api/votes", responses=documented(*_READ))
async def day_table(
    services: ServicesDep, request: Request, day: Annotated[date | None, Query(description=DAY)] = None
) -> DayTable:
    """Return the table of a day: viewers by mean regret."""
    return await _table(services, request, day)


@router.get("/api/votes/{day}/{voter}", responses=documented(faults.NO_VOTER, *_READ))
async def voter_day(
    services: ServicesDep,
    request: Request,
    day: date,
    voter: Annotated[str, Path(pattern=VOTER, description="A viewer's public id")],
) -> VoterPlace:
    """Return one viewer's calls on a day."""
    return await _of_voter(services, request, day, voter)


async def _match(services: Services, episode_id: str) -> MatchVoting:
    live = services.supervisor.live(episode_id)
    if live is None:
        summary = await summary_of(services, episode_id)
        if summary.ended_at is not None:
            raise Refused(faults.OVER, "The episode has ended; call along in one that is live.")
        raise Refused(faults.ELSEWHERE, "Another server plays the episode; call along there.")
    match = services.voting.of(live)
    if match is None:
        if live.ended:
            raise Refused(faults.OVER, "The episode has ended; call along in one that is live.")
        raise Refused(faults.NO_QUESTIONS, f"{live.plan.world.title} offers no cards before decisions.")
    return match


async def _table(services: Services, request: Request, day: date | None) -> DayTable:
    day = day or services.clock.now().date()
    async with services.budget.hold(Held.READS, request):
        found = await asyncio.to_thread(services.voting.table.ranked, day)
    viewers = [VoterDay(**_fields(one)) for one in found]
    return DayTable(day=day, least_calls=LEAST_CALLS, viewers=viewers)


async def _of_voter(services: Services, request: Request, day: date, voter: str) -> VoterPlace:
    async with services.budget.hold(Held.READS, request):
        found = await asyncio.to_thread(services.voting.table.of, day, voter)
    if found is None:
        raise Refused(faults.NO_VOTER, f"{voter} made no calls on {day}, or they are no longer kept.")
    return VoterPlace(**_fields(found[0]), place=found[1])


def _fields(one: DayOfVoter) -> dict[str, Any]:
    return {
        "voter": one.voter,
        "name": one.name,
        "calls": one.calls,
        "best": one.best,
        "regret": round(one.mean.regret, 3),
        "brier": round(one.mean.brier, 4),
        "streak": one.streak,
        "longest": one.longest,
    }


@dataclass(frozen=True, slots=True)
class CallsPage(Page):
    """Context of ``calls.html``.

    Args:
        table: The table of a day; ``None`` on a viewer's page.
        viewer: The viewer of the page; ``None`` on the table's page.
        who: The viewer's name.
        card: Absolute URL of the viewer's card.
    """

    day: date
    table: DayTable | None = None
    viewer: VoterPlace | None = None
    who: str = ""
    card: str = ""

    @property
    def before(self) -> date:
        """The day before."""
        return self.day - timedelta(days=1)


def shown_name(one: VoterDay, mask: Callable[[str], str]) -> str:
    """Return a viewer's name without hidden names, or one made of its id."""
    return mask(one.name) or f"Viewer {one.voter[:4]}"


def calls_pages(templates: Templates) -> APIRouter:
    """Return the routes ``/calls``, ``/calls/{day}/{voter}`` and its picture."""
    pages = APIRouter(include_in_schema=False)
    cards = Cards()
    pictures: PictureCache[tuple[str, ...]] = PictureCache()

    @pages.get("/calls")
    async def table(request: Request, services: ServicesDep, day: str = "") -> Response:
        try:
            found = await _table(services, request, date.fromisoformat(day) if day else None)
        except ValueError:
            why = "A day is written as in calls?day=2026-11-28."
            return await missing_page(request, templates, "Day not found", why)
        mask = services.operator_orders.mask.text
        named = [one.model_copy(update={"name": shown_name(one, mask)}) for one in found.viewers]
        page = CallsPage(
            root="./",
            static=f"./{static_path(request)}",
            title="Viewers' calls · Spectator",
            day=found.day,
            table=found.model_copy(update={"viewers": named}),
        )
        return await run_in_threadpool(templates.render, "calls.html", page)

    @pages.get("/calls/{day}/{voter}.png")
    async def picture(request: Request, services: ServicesDep, day: date, voter: str) -> Response:
        found = await _of_voter(services, request, day, voter)
        svg = calls_card(shown_name(found, services.operator_orders.mask.text), found, day)
        async with services.budget.hold(Held.READS, request):
            try:
                await cards.require_font()
                drawn = await pictures.of((svg,), lambda: draw(svg))
            except (NoFont, CannotDraw) as error:
                raise HTTPException(404 if isinstance(error, NoFont) else 503, str(error)) from error
        return Response(drawn, media_type="image/png", headers={"Cache-Control": "public, max-age=30"})

    @pages.get("/calls/{day}/{voter}")
    async def viewer(request: Request, services: ServicesDep, day: str, voter: str) -> Response:
        try:
            found = await _of_voter(services, request, on := date.fromisoformat(day), voter)
        except (ValueError, Refused) as error:
            if isinstance(error, Refused) and error.kind is not faults.NO_VOTER:
                raise
            why = f"This viewer has no calls on this day, or they are over {KEPT_DAYS} days old."
            return await missing_page(request, templates, "Calls not found", why)
        who = shown_name(found, services.operator_orders.mask.text)
        page = CallsPage(
            root="../../",
            static=f"../../{static_path(request)}",
            title=f"{headline(who, found)} · Spectator",
            day=on,
            viewer=found,
            who=who,
            card=f"{public_root(request)}/calls/{on}/{voter}.png",
        )
        return await run_in_threadpool(templates.render, "calls.html", page)

    return pages


def headline(who: str, one: VoterDay) -> str:
    """Return a viewer's day in a line.

    >>> day = {"voter": "ab", "name": "", "calls": 8, "best": 5, "regret": 0.5, "brier": 0.4, "streak": 0}
    >>> headline("Ada", VoterDay(**day, longest=3)), headline("Ada", VoterDay(**day, longest=1))
    ('Ada: 3 best calls in a row', 'Ada: 5 of 8 best')
    """
    if one.longest > 1:
        return f"{who}: {one.longest} best calls in a row"
    return f"{who}: {one.best} of {one.calls} best"


def calls_card(who: str, one: VoterPlace, day: date) -> str:
    """Return a viewer's card as SVG."""
    left, right = 64, WIDTH - 64
    said = headline(who, one).removeprefix(f"{who}: ")
    figures = (
        (f"{one.best} of {one.calls}", "best of the three"),
        (f"{one.regret:.2f}", "points lost per call"),
        (f"{one.brier:.2f}", "Brier score"),
        ("–" if one.place is None else str(one.place), "place of the day"),
    )
    step = (right - left) / len(figures)
    columns = "".join(
        text_svg(left + number * step, 440, 64, figure, INK, weight=700)
        + text_svg(left + number * step, 488, 24, words, FAINT)
        for number, (figure, words) in enumerate(figures)
    )
    return whole_svg(
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{GROUND}"/>'
        f'<rect width="{WIDTH}" height="8" fill="{GRASS}"/>'
        + text_svg(left, 83, 26, "CALLED ALONG", WILLOW, weight=700)
        + text_svg(right, 83, 26, day.isoformat(), FAINT, anchor="end")
        + text_svg(left, 196, min(68.0, (right - left) / (WIDEST * len(who))), who, INK, weight=700)
        + text_svg(left, 284, 56, said, GRASS, weight=700)
        + columns
        + text_svg(left, 602, 24, "Spectator", INK, weight=700)
        + text_svg(right, 602, 24, "what would you call?", FAINT, anchor="end"),
        WIDTH,
        HEIGHT,
    )
