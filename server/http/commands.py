"""Carry out a command on an episode, here or at the server that plays it.

``Rights`` are what the caller may do: found where the request arrived, and passed on to the other
server.
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
    """A refusal as JSON, for another server to answer with."""
    kind = error.kind if isinstance(error, Refused) else faults.kind_of(error)
    detail = error.detail if isinstance(error, Refused) else str(error)
    if kind is faults.INTERNAL:
        detail = "Something broke; it has been logged."
    fields = error.fields if isinstance(error, InvalidRequest) else ()
    return {
        "kind": [kind.name, kind.status, kind.title],
        "detail": detail,
        "headers": error.headers if isinstance(error, Refused) else {},
        "errors": [[wrong.field, wrong.rule] for wrong in fields],
    }


def problem_from_json(told: Mapping[str, Any]) -> Refused | InvalidRequest:
    """The refusal that another server told.

    >>> problem_from_json(problem_to_json(Refused(faults.NOT_HERE, "not this"))).detail
    'not this'
    """
    if told["errors"]:
        return InvalidRequest([FieldError(field, rule) for field, rule in told["errors"]])
    return Refused(Kind(*told["kind"]), told["detail"], headers=told["headers"])


@dataclass(frozen=True, slots=True)
class Rights:
    """What somebody may do.

    Args:
        whose: The address that asks, or the operator.
        spend: Refuses whoever may not start what costs money.
    """

    whose: str
    spend: Callable[[], object]

    @classmethod
    def of(cls, connection: HTTPConnection, services: Services) -> Self:
        """Those of whoever sent a request.

        Raises:
            Refused: It carries a wrong token.
        """
        guard = services.guard
        whose = OPERATOR if guard.is_operator(connection) else address_of(connection)
        return cls(whose, partial(guard.require_spender, connection))

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Self:
        """Those that another server told."""
        return cls(told["whose"], partial(_raise_reported, told["spending"]))

    def told(self) -> dict[str, Any]:
        """The same as JSON."""
        return {"whose": self.whose, "spending": _refusal(self.spend)}

    async def need(self, plan: EpisodePlan, services: Services) -> None:
        """Let whoever may have this world, with these options and captains, through.

        Raises:
            Refused: They may not, or what models may use up today is spent.
            JournalError: See :meth:`.budget.Budget.require_model_budget`.
        """
        if self.whose != OPERATOR:
            services.public_offer.check(plan.world.name, plan.options)
        if costs_operator(plan.captain) or costs_operator(plan.opponent):
            self.spend()
            await services.budget.require_model_budget()


def _refusal(need: Callable[[], object]) -> dict[str, Any] | None:
    """How somebody is refused, for another server; ``None`` where they are not."""
    try:
        need()
    except Refused as refused:
        return problem_to_json(refused)
    return None


def _raise_reported(told: Mapping[str, Any] | None) -> None:
    """Refuse as another server told."""
    if told is not None:
        raise problem_from_json(told)


LOOK_S: Final = 0.1
"""Seconds between two looks for the answer."""

WAIT_S: Final = 20.0
"""Seconds that an answer is waited for: as a rule another server plays on by then what a dead one left."""

ASK_S: Final = 5.0
"""The same of a question that changes nothing."""

LATE_LOOKS: Final = 10
"""Looks at an ended episode after which a command that is not answered yet counts as come too late."""

_Answer = TypeVar("_Answer", bound=BaseModel)

Handle = Callable[[Services, str | None, Mapping[str, Any]], Awaitable[_Answer]]
"""Does something with an episode that is played here, by what was sent."""


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
    """Do something with an episode, here or where it is played.

    Args:
        name: What is to be done, as servers call it among themselves.
        handle: Does it here.
        services: Of this server.
        episode_id: The episode; the newest one that runs here where there is none.
        sent: What ``handle`` is given; JSON.
        answer: What comes of it.
        wait_s: Seconds that another server is waited for; :data:`WAIT_S` when left out.

    Raises:
        Refused: It was refused where it is played, or nobody answered in time.
        SpectatorError: As ``handle`` raises it.
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
    """What the server that plays the episode answers.

    Raises:
        EpisodeOver: It had ended before.
        Refused: That server refuses, or nothing was heard in time.
    """
    deadline, late = services.clock.monotonic() + wait_s, 0
    while services.clock.monotonic() < deadline:
        try:
            outcome = await others.outcome(command.id)
            if (found := _found(command, outcome)) is not None:
                await others.forget(command.id)
                return found
        except JournalError:  # the command is kept there, and may be carried out meanwhile
            outcome = Outcome(None, False)
        late += outcome.ended
        if late > LATE_LOOKS:
            raise EpisodeOver(command.episode_id)
        await services.clock.sleep(LOOK_S)
    raise await _unanswered(others, command, wait_s)


def _found(command: Command, outcome: Outcome) -> dict[str, Any] | None:
    """The answer, where there is one: that of a stop is the recorded end itself."""
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
    """The refusal of whoever waited in vain; it says what becomes of the command."""
    silent = f"The server that plays this episode has not answered within {wait_s:g} s"
    if command.name == STOP:
        what = "the stop is kept, and whoever plays the episode next ends it."
    else:
        try:
            withdrawn = await others.withdraw(command.id)
        except JournalError:
            withdrawn = False
        what = "nothing was changed." if withdrawn else "it may still do what it was asked to."
    return Refused(faults.NO_PLAYER, f"{silent}; {what}", headers={"Retry-After": "5"})
