"""Run a command on an episode, here or at the server that runs it.

``Rights`` are what the caller may do: determined where the request arrived, and sent to the other server.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, TypeVar

from pydantic import BaseModel
from starlette.requests import HTTPConnection
from ulid import ULID

from spectator.episodes.plan import EpisodePlan
from spectator.errors import (
    EpisodeOver,
    EpisodeUnfinished,
    FieldError,
    InvalidRequest,
    JournalError,
    LeaseLost,
    SpectatorError,
)
from spectator.journal.commands import STOP, Command, Commands, Outcome
from spectator.policies.visitor_models import costs_operator

from ..security import faults
from ..security.faults import Kind, Refused
from ..security.requests import address_of
from ..security.slot_queue import OPERATOR
from ..services import Services


def problem_to_json(error: Refused | SpectatorError) -> dict[str, Any]:
    """Encode a rejection as JSON for another server."""
    kind = error.kind if isinstance(error, Refused) else faults.kind_of(error)
    detail = error.detail if isinstance(error, Refused) else str(error)
    if kind is faults.INTERNAL:
        detail = "The server failed; the log has details."
    fields = error.fields if isinstance(error, InvalidRequest) else ()
    return {
        "kind": [kind.name, kind.status, kind.title],
        "detail": detail,
        "headers": error.headers if isinstance(error, Refused) else {},
        "errors": [[wrong.field, wrong.rule] for wrong in fields],
    }


def problem_from_json(sent: Mapping[str, Any]) -> Refused | InvalidRequest:
    """Decode a rejection of another server.

    >>> problem_from_json(problem_to_json(Refused(faults.NOT_HERE, "not this"))).detail
    'not this'
    """
    if sent["errors"]:
        return InvalidRequest([FieldError(field, rule) for field, rule in sent["errors"]])
    return Refused(Kind(*sent["kind"]), sent["detail"], headers=sent["headers"])


@dataclass(frozen=True, slots=True)
class Rights:
    """What a client may do.

    Args:
        whose: The client's address, or the operator.
        spend: Raises if the client may not spend money.
    """

    whose: str
    spend: Callable[[], object]

    @classmethod
    def of(cls, connection: HTTPConnection, services: Services) -> Self:
        """Return the rights of a request's sender.

        Raises:
            Refused: It carries a wrong token.
        """
        guard = services.guard
        whose = OPERATOR if guard.is_operator(connection) else address_of(connection)
        return cls(whose, partial(guard.require_spender, connection))

    @classmethod
    def from_json(cls, sent: Mapping[str, Any]) -> Self:
        """Decode the rights that another server sent."""

        def spend() -> None:
            if sent["spending"] is not None:
                raise problem_from_json(sent["spending"])

        return cls(sent["whose"], spend)

    def to_json(self) -> dict[str, Any]:
        """Encode the rights as JSON."""
        try:
            self.spend()
        except Refused as refused:
            return {"whose": self.whose, "spending": problem_to_json(refused)}
        return {"whose": self.whose, "spending": None}

    async def need(self, plan: EpisodePlan, services: Services) -> None:
        """Check that the client may play this world with these options and captains.

        Raises:
            Refused: It may not, or today's model budget is spent.
            JournalError: See :meth:`.budget.Budget.require_model_budget`.
        """
        if self.whose != OPERATOR:
            services.public_offer.check(plan.world.name, plan.options)
        if costs_operator(plan.captain) or costs_operator(plan.opponent):
            self.spend()
            await services.budget.require_model_budget()


LOOK_S: Final = 0.1
"""Seconds between two polls for the answer."""

WAIT_S: Final = 20.0
"""Seconds to wait for an answer; usually enough for a takeover from a dead server."""

ASK_S: Final = 5.0
"""The same for a query that changes nothing."""

LATE_LOOKS: Final = 10
"""Polls of an ended episode after which an unanswered command counts as too late."""

_Answer = TypeVar("_Answer", bound=BaseModel)

Handle = Callable[[Services, str | None, Mapping[str, Any]], Awaitable[_Answer]]
"""Runs a command with its JSON arguments on an episode that runs here."""


async def run_command(
    name: str,
    handle: Handle[_Answer],
    services: Services,
    episode_id: str | None,
    sent: Mapping[str, Any],
    answer: type[_Answer],
    *,
    wait_s: float | None = None,
) -> _Answer:
    """Run a command on an episode, here or at the server that runs it.

    Args:
        episode_id: The episode; ``None`` for the newest one that runs here.
        wait_s: Seconds to wait for another server; :data:`WAIT_S` if omitted.

    Raises:
        Refused: The other server rejected it, or did not answer in time.
    """
    others = services.commands
    if others is None or episode_id is None:
        return await handle(services, episode_id, sent)
    played_here = services.supervisor.live(episode_id) is not None
    if played_here or not await others.played_elsewhere(episode_id):
        try:
            return await handle(services, episode_id, sent)
        except (EpisodeUnfinished, LeaseLost):  # this server has just lost it
            if not await others.played_elsewhere(episode_id):
                raise
    command = Command(f"command-{ULID()}", episode_id, name, json.dumps(sent))
    await others.give(command)
    found = await _answer(others, command, services, WAIT_S if wait_s is None else wait_s)
    return answer.model_validate(found)


async def _answer(others: Commands, command: Command, services: Services, wait_s: float) -> dict[str, Any]:
    """Wait for the answer of the server that runs the episode."""
    deadline, late = services.clock.monotonic() + wait_s, 0
    while services.clock.monotonic() < deadline:
        try:
            outcome = await others.outcome(command.id)
            if (found := _found(command, outcome)) is not None:
                await others.forget(command.id)
                return found
        except JournalError:  # the command is stored, and may run meanwhile
            outcome = Outcome(None, False)
        late += outcome.ended
        if late > LATE_LOOKS:
            raise EpisodeOver(command.episode_id)
        await services.clock.sleep(LOOK_S)
    raise await _unanswered(others, command, wait_s)


def _found(command: Command, outcome: Outcome) -> dict[str, Any] | None:
    """Return the answer, if there is one; that of a stop is the recorded end."""
    if command.name == STOP and outcome.reason is not None:
        return {"episode_id": command.episode_id, "reason": outcome.reason, "turns": outcome.turns or 0}
    if outcome.answer is None:
        return None
    answer: dict[str, Any] = json.loads(outcome.answer)
    if "problem" in answer:
        raise problem_from_json(answer["problem"])
    done: dict[str, Any] = answer["done"]
    return done


async def _unanswered(others: Commands, command: Command, wait_s: float) -> Refused:
    """Return the rejection after the wait, which says what happens to the command."""
    silent = f"The server that runs this episode has not answered within {wait_s:g} s"
    if command.name == STOP:
        what = "the stop is stored, and the next server that runs the episode ends it."
    else:
        try:
            withdrawn = await others.withdraw(command.id)
        except JournalError:
            withdrawn = False
        what = "nothing was changed." if withdrawn else "it may still carry out the command."
    return Refused(faults.NO_PLAYER, f"{silent}; {what}", headers={"Retry-After": "5"})
