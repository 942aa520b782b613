"""What the routes work with: one dataclass, and how a request finds it."""

from __future__ import annotations

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
from spectator.journal.contract import Journal
from spectator.journal.notes import NoteStore
from spectator.policies.spending import SpendLedger

from .background.child_processes import AlternativesProcess, ReadingProcess
from .background.exhibition import Exhibition
from .background.housekeeping import Deletions, Housekeeper, UnfinishedQuota
from .background.narration import Narration
from .background.recovery import Readiness, Takeover
from .background.router_models import RouterModels
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
    """What the routes work with.

    Args:
        settings: How the server is set.
        clock: Time.
        journal: The record, of which routes give away nothing that is under embargo.
        reading: Reads long records in a process beside this one.
        alternatives: Weighs decisions of recorded episodes in another.
        commands: What other servers on this journal are to do with episodes; ``None`` where there are none.
        takeover: Plays on what they leave, and has them play what there is no room for; likewise.
        views: The record with the patches and the commentary that viewers see.
        records: The same as far as viewers may see it.
        recorded: The record itself as far as they may see it.
        signals: The bus, with the starts and ends of episodes.
        supervisor: Runs the episodes.
        suspended: Plays on those that are suspended.
        readiness: Does what must be done before anything is started.
        audience: Their viewers.
        feeds: Where viewers' feeds find episodes.
        transport: What viewers' transports need.
        guard: Who may do what.
        budget: What costly things may take.
        queue: Who waits for a slot.
        offer: What they may have played.
        orders: The operator's orders.
        seat_keys: Keys of the seats that people play.
        visitors: Visitors who sign in.
        sign_in: Where they do; ``None`` where they cannot.
        router_models: The models that they can bring.
        starters: Who started which episodes, across restarts; ``None`` where that does not matter.
        deletions: Deletes single episodes.
        notes: What people noted on episodes.
        exhibition: Plays while nobody else does.
        loop_lag: How late the event loop is.
        unended: Keeps what has not ended within its room.
        finals: Snapshots of recorded episodes.
        wall: What runs, as tiles.
        elsewhere: What other servers play; ``None`` where there are none.
        runs: The runs of rollouts that are watched here.
        groups: The groups of siblings that are watched here.
        cast: The worlds, with everybody who can play in them here.
        ledger: What asking models may cost.
        narration: Speaks.
        scorekeeper: Keeps the standings.
        housekeeper: Keeps the record within its limits.
        timings: Histograms of how long things take.
    """

    settings: Settings
    clock: Clock
    journal: Journal
    reading: ReadingProcess
    alternatives: AlternativesProcess
    commands: Commands | None
    takeover: Takeover | None
    views: ViewReader
    records: PublicReader
    recorded: PublicReader
    signals: EpisodeSignals
    supervisor: Supervisor
    suspended: SuspendedEpisodes
    readiness: Readiness
    audience: Audience
    feeds: FeedSources
    transport: TransportPorts
    guard: Guard
    budget: Budget
    queue: SlotQueue
    offer: Offer
    orders: OperatorOrders
    seat_keys: SeatKeys
    visitors: VisitorSessions
    sign_in: SignIn | None
    router_models: RouterModels
    starters: StarterRegistry | None
    deletions: Deletions
    notes: NoteStore
    exhibition: Exhibition
    loop_lag: LoopLag
    unended: UnfinishedQuota
    finals: FinalSnapshots
    wall: Wall
    elsewhere: RemoteEpisodes | None
    runs: RunBoards
    groups: GroupBoards
    cast: Cast
    ledger: SpendLedger
    narration: Narration
    scorekeeper: Scorekeeper
    housekeeper: Housekeeper
    timings: Timings

    async def close_viewers(self, within_s: float) -> None:
        """Let nobody wait for a slot, tell all viewers to come back later, and wait at most ``within_s`` for
        them to go."""
        self.queue.close()
        await self.audience.close_all(within_s)


def services_of(connection: HTTPConnection) -> Services:
    """The services of the application that answers this request or socket."""
    return cast(Services, connection.app.state.services)


async def _provided(connection: HTTPConnection) -> Services:
    """The same for routes: what is no coroutine function, FastAPI calls on a thread."""
    return cast(Services, connection.app.state.services)


ServicesDep = Annotated[Services, Depends(_provided)]
"""A route's parameter that is given them."""
