"""Publish private OpenEnv episodes to viewers, for clients that ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from starlette.requests import HTTPConnection

from spectator.episodes.handle import ExternalDriver
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.stream import RecordedTurns
from spectator.episodes.supervisor import Supervisor
from spectator.errors import EpisodeError, FieldError, InvalidRequest, JournalError
from spectator.policies.policy import Policy, Preset
from spectator.text import clean_text

from ..security.budget import Budget, ClientAccount, Costly
from ..security.faults import Refused
from ..security.permissions import Guard

MAX_LABEL = 64


class PublishedEpisode:
    """A private episode that everybody may watch.

    Args:
        episode_id: The id under which they do.
        driver: Takes what happens.
    """

    def __init__(self, episode_id: str, driver: ExternalDriver) -> None:
        self.episode_id = episode_id
        self._driver = driver

    async def publish(self, told: RecordedTurns) -> None:
        """Publish what happened, and record what belongs to it; after the end, nothing more is."""
        for turn, facts, attached in told.turns():
            await self._driver.record(turn, facts, attached)
        if told.ended is not None:
            self._driver.finish(told.ended, told.truth)

    def leave(self, detail: str) -> None:
        """It is played no further, or not where anybody would publish it."""
        self._driver.give_up("interrupted", detail)


class Publisher:
    """Shows private episodes, as many as may be at once.

    Args:
        limit: How many that is.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._supervisor: Supervisor | None = None
        self._guard: Guard | None = None
        self._budget: Budget | None = None

    def attach(self, supervisor: Supervisor, guard: Guard, budget: Budget) -> None:
        """From here on, show them through ``supervisor``, for those whom ``guard`` and ``budget`` let."""
        self._supervisor = supervisor
        self._guard = guard
        self._budget = budget

    def for_client(self, connection: HTTPConnection) -> ClientPublisher | None:
        """What shows the episodes of the client behind ``connection``; ``None`` where it may not ask."""
        if self._guard is None or self._supervisor is None or self._budget is None:
            return None
        try:
            self._guard.require_operator(connection)
        except Refused:
            return None
        return ClientPublisher(self._supervisor, self._budget.account(connection), self._limit)


class ClientPublisher:
    """Shows the private episodes of one client.

    Args:
        supervisor: Through which they are shown.
        account: Counts them.
        limit: How many episodes of all clients may be shown at once.
    """

    def __init__(self, supervisor: Supervisor, account: ClientAccount, limit: int) -> None:
        self._supervisor = supervisor
        self._account = account
        self._limit = limit

    async def place(self, spent: AsyncExitStack) -> Mapping[str, Any]:
        """Where the next episode can be watched, or why it cannot be; ``spent`` ends once it has begun."""
        if len(self._supervisor.external()) >= self._limit:
            return {"refused": f"{self._limit} such episodes are shown already; this one stays private"}
        try:
            await spent.enter_async_context(self._account.spend(Costly.PUBLISHES))
        except Refused as error:
            return {"refused": f"{error.detail} This one stays private."}
        except JournalError as error:
            return {"refused": f"it cannot be recorded now: {error}. This one stays private."}
        episode_id = self._supervisor.new_id()
        return {"episode_id": episode_id, "watch_url": f"/watch/{episode_id}"}

    async def show(self, episode_id: str, plan: EpisodePlan, label: str | None) -> PublishedEpisode | None:
        """Begin to show an episode; ``None`` when it cannot be recorded."""
        name = clean_text(label or "", MAX_LABEL) or "OpenEnv client"
        captain = Preset("remote", name, "Decides elsewhere.", "remote", _nobody)
        try:
            driver = await self._supervisor.show(replace(plan, captain=captain, narration=False), episode_id)
        except EpisodeError:
            return None
        self._account.note_start(episode_id)
        return PublishedEpisode(episode_id, driver)


def not_allowed() -> InvalidRequest:
    """The answer to a client that may not have its episodes shown."""
    rule = "is for sockets at /ws, with the operator's token in the header Authorization where one is set"
    return InvalidRequest([FieldError("publish", rule)])


def _nobody(seed: int) -> Policy:
    raise NotImplementedError("it decides elsewhere")
