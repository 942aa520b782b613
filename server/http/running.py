"""Episodes that run here: how they are found, and how answers describe them."""

from __future__ import annotations

from pydantic import BaseModel, Field

from spectator.clock import timestamp
from spectator.episodes.host.handle import EpisodeHandle
from spectator.errors import EpisodeNotFound, EpisodeOver
from spectator.evaluation.figures import EXHIBITION
from spectator.events import EndReason
from spectator.journal.base import EpisodeSummary

from ..services import Services
from .starting import PaceName
from .usage import SeatUsage, usage_in


class RunningEpisode(BaseModel):
    """An episode that runs."""

    episode_id: str
    environment: str
    captain_preset: str
    captain_label: str = Field(description="The captain's name for people")
    opponent_choice: str | None = Field(description="null in worlds without opponents")
    started_at: str = Field(description="RFC 3339")
    turn: int | None = Field(
        ge=0,
        description="Actions taken or refused so far; null of one that another server plays and nobody "
        "watches here, as is `pace`",
    )
    pace: PaceName | None
    paused: bool
    trouble: str | None = Field(
        description="What keeps its record from being written; play stands still meanwhile. null as a rule"
    )
    viewers: int = Field(ge=0, description="How many watch it, over all servers")
    usage: dict[str, SeatUsage] = Field(description="What models took so far, by actor")
    exhibition: bool = Field(
        default=False, description="Whether it is an exhibition match, which makes room for any other"
    )


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
        captain_label=live.plan.captain.label,
        opponent_choice=None if opponent is None else opponent.name,
        started_at=timestamp(live.started_at),
        turn=live.turn,
        pace=live.pace.value,
        paused=live.paused,
        trouble=None if live.trouble is None else live.trouble.message,
        viewers=services.audience.total(live.episode_id),
        usage=usage_in(live.usage),
        exhibition=live.plan.run_id == EXHIBITION,
    )


def described_elsewhere(summary: EpisodeSummary, services: Services) -> RunningEpisode:
    """The same of one that another server plays, as far as it is known here without asking."""
    view = None if services.elsewhere is None else services.elsewhere.view(summary.episode_id)
    shown = {} if view is None else view.state["episode"]
    trouble = None if view is None else view.trouble
    return RunningEpisode(
        episode_id=summary.episode_id,
        environment=summary.environment,
        captain_preset=summary.captain,
        captain_label=summary.captain_label,
        opponent_choice=summary.opponent or None,
        started_at=summary.started_at,
        turn=None if view is None else view.turn,
        pace=shown.get("pace"),
        paused=shown.get("status") == "paused",
        trouble=None if trouble is None else trouble.message,
        viewers=services.audience.total(summary.episode_id),
        usage={} if view is None else usage_in(view.state.get("usage", {})),
    )
