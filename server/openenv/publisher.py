"""Publish private OpenEnv episodes to viewers, for clients that ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from spectator.episodes.handle import ExternalDriver
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.stream import RecordedTurns
from spectator.episodes.supervisor import Supervisor
from spectator.errors import EpisodeError, FieldError, InvalidRequest, JournalError
from spectator.policies.policy import Policy, Preset
from spectator.text import clean_text

from ..security.budget import ClientAccount, Costly
from ..security.faults import Refused

MAX_LABEL = 64


class PublishedEpisode:
    """A private episode that everyone may watch.

    Args:
        episode_id: Its public id.
    """

    def __init__(self, episode_id: str, driver: ExternalDriver) -> None:
        self.episode_id = episode_id
        self._driver = driver

    async def publish(self, recorded: RecordedTurns) -> None:
        """Record and publish turns; ignored after the end."""
        for turn, facts, attached in recorded.turns():
            await self._driver.record(turn, facts, attached)
        if recorded.ended is not None:
            self._driver.finish(recorded.ended, recorded.truth)

    def leave(self, detail: str) -> None:
        """Stop publishing, since the episode was abandoned or becomes private."""
        self._driver.give_up("interrupted", detail)


class ClientPublisher:
    """Publishes the private episodes of one client.

    Args:
        limit: Episodes of all clients published at once.
    """

    def __init__(self, supervisor: Supervisor, account: ClientAccount, limit: int) -> None:
        self._supervisor = supervisor
        self._account = account
        self._limit = limit

    async def place(self, spent: AsyncExitStack) -> Mapping[str, Any]:
        """Return where the next episode can be watched, or why not.

        ``spent`` closes once the episode began.
        """
        if len(self._supervisor.external()) >= self._limit:
            return {"refused": f"{self._limit} episodes are published already; this one stays private"}
        try:
            await spent.enter_async_context(self._account.spend(Costly.PUBLISHES))
        except Refused as error:
            return {"refused": f"{error.detail} This one stays private."}
        except JournalError as error:
            return {"refused": f"cannot record it now: {error}. This one stays private."}
        episode_id = self._supervisor.new_id()
        return {"episode_id": episode_id, "watch_url": f"/watch/{episode_id}"}

    async def show(self, episode_id: str, plan: EpisodePlan, label: str | None) -> PublishedEpisode | None:
        """Publish an episode; return ``None`` if it cannot be recorded."""
        name = clean_text(label or "", MAX_LABEL) or "OpenEnv client"
        captain = Preset("remote", name, "Decides elsewhere.", "remote", _remote)
        try:
            driver = await self._supervisor.show(replace(plan, captain=captain, narration=False), episode_id)
        except EpisodeError:
            return None
        self._account.note_start(episode_id)
        return PublishedEpisode(episode_id, driver)


def not_allowed() -> InvalidRequest:
    """Return the error for a client that may not publish episodes."""
    rule = "needs a socket at /ws, and the operator's token in the header Authorization if one is set"
    return InvalidRequest([FieldError("publish", rule)])


def _remote(seed: int) -> Policy:
    raise NotImplementedError("a remote captain decides elsewhere")
