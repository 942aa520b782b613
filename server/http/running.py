"""Episodes that run here: how they are found, and how answers describe them."""

from __future__ import annotations

from pydantic import BaseModel, Field

from spectator.clock import timestamp
from spectator.episodes.host.handle import EpisodeHandle
from spectator.errors import EpisodeNotFound, EpisodeOver
from spectator.events import EndReason

from ..services import Services
from .starting import PaceName
from .usage import SeatUsage, usage_in


class RunningEpisode(BaseModel):
    """An episode that runs."""

    episode_id: str
    environment: str
    captain_preset: str
    opponent_choice: str | None = Field(description="null in worlds without opponents")
    started_at: str = Field(description="RFC 3339")
    turn: int = Field(ge=0, description="Actions taken or refused so far")
    pace: PaceName
    paused: bool
    trouble: str | None = Field(
        description="What keeps its record from being written; play stands still meanwhile. null as a rule"
    )
    viewers: int = Field(ge=0, description="How many watch it on the server that plays it")
    usage: dict[str, SeatUsage] = Field(description="What models took so far, by actor")


class StoppedEpisode(BaseModel):
    """An episode that was ended."""

    episode_id: str
    reason: EndReason
    turns: int = Field(ge=0)


async def find_live(services: Services, episode_id: str | None) -> EpisodeHandle:
    """The episode if it runs here; one that is only recorded is over.

    Raises:
        EpisodeNotFound: There is none.
        EpisodeOver: It has ended.
        Recovering: It is being recovered.
    """
    try:
        return services.supervisor.find(episode_id)
    except EpisodeNotFound:
        services.readiness.need_of(episode_id)
        if episode_id is None or await services.journal.episode(episode_id) is None:
            raise
        raise EpisodeOver(episode_id) from None


def described(live: EpisodeHandle, services: Services) -> RunningEpisode:
    """How answers describe an episode."""
    opponent = live.plan.opponent
    return RunningEpisode(
        episode_id=live.episode_id,
        environment=live.plan.world.name,
        captain_preset=live.plan.captain.name,
        opponent_choice=None if opponent is None else opponent.name,
        started_at=timestamp(live.started_at),
        turn=live.turn,
        pace=live.pace.value,
        paused=live.paused,
        trouble=None if live.trouble is None else live.trouble.message,
        viewers=services.audience.total(live.episode_id),
        usage=usage_in(live.usage),
    )
