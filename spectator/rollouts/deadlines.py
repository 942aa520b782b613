"""How long anything in a run of rollouts may take."""

from __future__ import annotations

from dataclasses import dataclass

from spectator.episodes.controls import EpisodeLimits
from spectator.episodes.plan import SPARE_S
from spectator.rollouts.model_seat import STARTUP_JITTER_S
from spectator.runs.actors import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds; the model's own deadline for a decision is part of the request (``timeout_s``).

    Args:
        episode_s: For one episode; looked at between turns, so that its last decision may end later.
        env_s: For one step of its environment, or another question to it.
        env_start_s: For its beginning, which may load data.
        env_wait_s: How long a server of environments may be gone, or have no room, while none of them is
            being played in; then the run is halted.
        model_wait_s: How long the model's endpoint may be gone; then the run is halted.
        startup_jitter_s: The first requests to the model are spread over this time.

    Raises:
        ValueError: One of the deadlines is not greater than 0, or one of the others is less.
    """

    episode_s: float = 6 * 3600.0
    env_s: float = 30.0
    env_start_s: float = 60.0
    env_wait_s: float = PATIENCE_S
    model_wait_s: float = PATIENCE_S
    startup_jitter_s: float = STARTUP_JITTER_S

    def __post_init__(self) -> None:
        if not (self.episode_s > 0 and self.env_s > 0 and self.env_start_s > 0):
            raise ValueError("episode_s, env_s and env_start_s are greater than 0")
        if not (self.env_wait_s >= 0 and self.model_wait_s >= 0 and self.startup_jitter_s >= 0):
            raise ValueError("env_wait_s, model_wait_s and startup_jitter_s are at least 0")

    def limits(self, call_s: float) -> EpisodeLimits:
        """The limits of an episode whose model has ``call_s`` seconds for a decision."""
        return EpisodeLimits(
            decision_s=min(call_s + self.model_wait_s + SPARE_S, self.episode_s),
            step_s=self.env_s,
            reset_s=self.env_start_s,
            episode_s=self.episode_s,
        )
