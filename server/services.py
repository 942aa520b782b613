"""The services that routes work with, and how a request finds them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from spectator.cast import Cast
from spectator.clock import Clock
from spectator.episodes.embargo import PublicReader
from spectator.episodes.reader import ViewReader
from spectator.episodes.recovery import SuspendedEpisodes
from spectator.episodes.supervisor import Supervisor
from spectator.evaluation.standings import Scorekeeper
from spectator.journal.commands import Commands
from spectator.journal.notes import NoteStore
from spectator.policies.spending import SpendLedger

from .background.child_processes import AlternativesProcess, ReadingProcess
from .background.exhibition import Exhibition
from .background.housekeeping import Deletions, Housekeeper, UnfinishedQuota
from .background.narration import Narration
from .background.recovery import Readiness, Takeover, UnplayedEpisodes
from .background.router_models import RouterModels
from .background.voting import Voting
from .journal import JoinedJournal
from .security.budget import Budget
from .security.masking import OperatorOrders
from .security.openid import SignIn, VisitorSessions
from .security.permissions import Guard, Offer, SeatKeys, StarterRegistry
from .security.slot_queue import SlotQueue
from .settings import Settings
from .telemetry import LoopLag, Timings
from .transport import TransportPorts
from .viewers.audience import Audience, EpisodeSignals
from .viewers.feed import FeedSources, FinalSnapshots
from .viewers.other_servers import RemoteEpisodes
from .viewers.run_boards import GroupBoards, RunBoards
from .viewers.wall import Wall


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that routes and WebSocket handlers work with.

    Args:
        journal: All recorded events, including those under embargo; routes read ``public_views`` instead.
        commands: Commands that servers on one journal exchange; ``None`` if this server is alone.
        takeover: Resumes episodes of servers that are gone; ``None`` if this server is alone.
        episode_views: Reads the journal with the patches and commentary that viewers see.
        public_views: Reads ``episode_views`` without what is under embargo.
        public_journal: Reads the journal itself without what is under embargo.
        sign_in: Signs visitors in with OpenID; ``None`` if not configured.
        starters: Who started which episode, kept across restarts; ``None`` unless the profile is public.
        remote_episodes: Episodes that other servers play; ``None`` if this server is alone.
    """

    settings: Settings
    clock: Clock
    journal: JoinedJournal
    reading_process: ReadingProcess
    alternatives_process: AlternativesProcess
    commands: Commands | None
    takeover: Takeover | None
    episode_views: ViewReader
    public_views: PublicReader
    public_journal: PublicReader
    bus: EpisodeSignals
    supervisor: Supervisor
    suspended_episodes: SuspendedEpisodes
    readiness: Readiness
    audience: Audience
    feeds: FeedSources
    transport: TransportPorts
    guard: Guard
    budget: Budget
    slot_queue: SlotQueue
    public_offer: Offer
    operator_orders: OperatorOrders
    seat_keys: SeatKeys
    visitor_sessions: VisitorSessions
    sign_in: SignIn | None
    router_models: RouterModels
    starters: StarterRegistry | None
    deletions: Deletions
    notes: NoteStore
    voting: Voting
    exhibition: Exhibition
    loop_lag: LoopLag
    unfinished_quota: UnfinishedQuota
    unplayed_episodes: UnplayedEpisodes
    snapshots: FinalSnapshots
    wall: Wall
    remote_episodes: RemoteEpisodes | None
    run_boards: RunBoards
    group_boards: GroupBoards
    cast: Cast
    model_ledger: SpendLedger
    narration: Narration
    scorekeeper: Scorekeeper
    housekeeper: Housekeeper
    timings: Timings

    async def leave(self, within_s: float) -> None:
        """Send viewers and episodes to the other servers, waiting at most ``within_s`` seconds."""
        self.slot_queue.close()
        work = [asyncio.create_task(self.audience.close_all(within_s))]
        if self.takeover is not None:
            work.append(asyncio.create_task(self.takeover.leave()))
        await asyncio.wait(work, timeout=within_s)


def services_of(connection: HTTPConnection) -> Services:
    """Return the services of the application that serves this request or socket."""
    return cast(Services, connection.app.state.services)


async def _provided(connection: HTTPConnection) -> Services:
    """Return the services to a route.

    It is a coroutine, since FastAPI runs plain functions on threads.
    """
    return services_of(connection)


ServicesDep = Annotated[Services, Depends(_provided)]
"""Type of a route's parameter that receives the services."""
