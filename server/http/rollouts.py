"""Routes of watched rollout runs and groups: ``/api/rollouts*``, ``/api/groups/*``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from spectator.errors import JournalError, RunNotFound
from spectator.events import encode_json
from spectator.runs.run_folder import RUN_NAME

from ..security import faults
from ..security.budget import Held
from ..security.faults import documented
from ..services import Services, ServicesDep, services_of
from ..transport import serve_viewer
from ..viewers.boards import BoardFeed, PolledBoard
from ..viewers.viewer import SendFrames, Viewer
from .responses import MaskedRoute

COUNTED: Final = 12
"""Most recently changed runs whose figures are listed."""

MOST_LISTED: Final = 200
"""Most runs in the list."""

EPISODES_OF_RUN: Final = ("groups", "slowest", "failed")
"""What `/api/rollouts/{run}/series` omits of a run."""


class RunEntry(BaseModel):
    """A run in the list."""

    name: str = Field(description="Name of its folder")
    environment: str | None = Field(default=None, description="Its world")
    model: str | None = Field(default=None, description="Its model")
    began_at: str | None = Field(default=None, description="RFC 3339")
    moved_at: str | None = Field(default=None, description="Time of the last record, RFC 3339")
    episodes: int | None = Field(default=None, description="Total episodes, if known")
    over: int | None = Field(default=None, description="Completed episodes")
    playing: int | None = Field(default=None, description="Unfinished episodes")
    verdicts: int | None = Field(default=None, description="Episodes with a reward")
    mean: float | None = Field(default=None, description="Mean reward")
    error: float | None = Field(default=None, description="Standard error of the mean, from 2 rewards on")
    own_share: float | None = Field(
        default=None, description="Share of its decisions that the model made itself, if known"
    )
    refusals: int | None = Field(default=None, description="The model's answers that were refused")
    penalised: int | None = Field(
        default=None, description="Episodes whose reward is the penalty of an answer that was not an action"
    )
    problem: str | None = Field(default=None, description="Why it cannot be shown, if so")


class RunList(BaseModel):
    """The watched runs."""

    runs: list[RunEntry]
    watched: bool = Field(description="Whether this server watches a folder of runs")


NAME: Final = Path(pattern=f"^{RUN_NAME.pattern}$", description="Name of the run's folder")
RunName = Annotated[str, NAME]

Shown = TypeVar("Shown", bound=PolledBoard)

router = APIRouter(prefix="/api", tags=["runs"], route_class=MaskedRoute)
live_router = APIRouter()


@router.get("/rollouts", responses=documented(faults.NO_JOURNAL, faults.TOO_MANY, faults.CROWDED))
async def list_runs(request: Request, services: ServicesDep) -> RunList:
    """List the rollout runs in the watched folder, most recently changed first."""
    async with services.budget.hold(Held.READS, request):
        names = (await services.run_boards.records.names())[:MOST_LISTED]
        entries = [await _entry(services, name) for name in names[:COUNTED]]
    entries += [RunEntry(name=name) for name in names[COUNTED:]]
    return RunList(runs=entries, watched=services.run_boards.records.watched)


@router.get(
    "/rollouts/{run}",
    response_class=Response,
    responses={
        200: {"description": "The run as on its page", "content": {"application/json": {}}},
        **documented(faults.NO_RUN, faults.INVALID, faults.NO_JOURNAL),
    },
)
async def get_run(run: RunName, services: ServicesDep) -> Response:
    """Return a run, for polling.

    It is the first frame of the WebSocket at `/live/rollouts/{run}`.
    """
    board = await services.run_boards.board(run, calls=True)
    return _json({"frame": "run", "version": board.version, "run": board.picture})


@router.get(
    "/rollouts/{run}/series",
    response_class=Response,
    responses={
        200: {"description": "Figures, configuration and series", "content": {"application/json": {}}},
        **documented(faults.NO_RUN, faults.INVALID, faults.NO_JOURNAL),
    },
)
async def get_series(run: RunName, services: ServicesDep) -> Response:
    """Return a run without its episodes and groups: what its charts show, to compare runs.

    `series.episodes` is by finished episodes, and `series.weight_version` by the version of the weights that
    wrote an episode's last reply, where versions are recorded. See docs/watch-runs.md for the fields.
    """
    picture = (await services.run_boards.board(run, calls=True)).picture
    return _json({name: value for name, value in picture.items() if name not in EPISODES_OF_RUN})


@router.get(
    "/groups/{group}",
    response_class=Response,
    responses={
        200: {
            "description": "The sibling episodes and their forks",
            "content": {"application/json": {}},
        },
        **documented(faults.NO_RUN, faults.INVALID, faults.NO_JOURNAL, faults.TOO_MANY, faults.CROWDED),
    },
)
async def get_group(
    request: Request,
    group: Annotated[str, Path(min_length=1, max_length=64, description="The group's name within its run")],
    services: ServicesDep,
    run: Annotated[
        str | None, Query(max_length=64, description="Its run; the newest with such a group if omitted")
    ] = None,
) -> Response:
    """Return the episodes of one prompt: their results, advantages and forks."""
    async with services.budget.hold(Held.READS, request):
        found = await services.group_boards.find(group, run)
        return _json(await found.state_json(services.journal))


async def _entry(services: Services, name: str) -> RunEntry:
    try:
        picture = (await services.run_boards.board(name)).picture
    except (RunNotFound, JournalError) as error:
        return RunEntry(name=name, problem=str(error))
    return RunEntry(**{field: picture.get(field) for field in RunEntry.model_fields})


def _json(shown: dict[str, Any]) -> Response:
    return Response(encode_json(shown), media_type="application/json", headers={"Cache-Control": "no-store"})


async def watch_run(websocket: WebSocket) -> None:
    """Show one run and every change, until the viewer or the server leaves."""
    services = services_of(websocket)
    await _watch(
        websocket,
        services.run_boards.board(websocket.path_params["run"], calls=True),
        services.run_boards.keep_up,
    )


async def watch_group(websocket: WebSocket) -> None:
    """Show one group and every change, until the viewer or the server leaves."""
    services, asked = services_of(websocket), websocket.query_params.get("run")
    board = services.group_boards.board(websocket.path_params["group"], asked)
    await _watch(websocket, board, services.group_boards.keep_up)


async def _watch(websocket: WebSocket, found: Awaitable[Shown], keep_up: Callable[[Shown], None]) -> None:
    try:
        board = await found
    except (RunNotFound, JournalError):
        await websocket.close()  # the page then requests it over HTTP, which reports why
        return

    def make(viewer: Viewer, send: SendFrames) -> BoardFeed:
        feed = BoardFeed(board, viewer, send)
        keep_up(board)
        return feed

    await serve_viewer(websocket, make, services_of(websocket).transport)


live_router.routes.append(WebSocketRoute("/live/rollouts/{run}", watch_run))
live_router.routes.append(WebSocketRoute("/live/groups/{group}", watch_group))
