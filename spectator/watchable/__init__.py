"""Make foreign code watchable: a training loop, an environment, a function.

``watchable`` is another name of ``watch``.
"""

from spectator.watchable.openenv_mixin import WAITING, EpisodePublisher, Spectator, Watchable
from spectator.watchable.watched_loop import WatchedEpisode, WatchedLoop, watch

watchable = watch

__all__ = [
    "WAITING", "EpisodePublisher", "Spectator", "Watchable", "WatchedEpisode", "WatchedLoop", "watch",
    "watchable",
]  # fmt: skip
