"""Shows what somebody else's code plays: a loop, an environment, a function."""

from spectator.watchable.openenv_mixin import WAITING, EpisodePublisher, Spectator, Watchable
from spectator.watchable.watched_episode import WatchedEpisode
from spectator.watchable.watched_loop import WatchedLoop
from spectator.watchable.wrapping import watch

__all__ = [
    "WAITING",
    "EpisodePublisher",
    "Spectator",
    "Watchable",
    "WatchedEpisode",
    "WatchedLoop",
    "watch",
]
