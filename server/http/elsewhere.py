"""Controls of an episode wherever it is played: done here, or by the server that plays it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel
from ulid import ULID

from spectator.errors import EpisodeOver, EpisodeUnfinished, JournalError, LeaseLost
from spectator.journal.stores.commands import STOP, Command, Commands, Outcome

from ..security import faults
from ..security.faults import Refused
from ..services import Services
from .rights import problem_heard

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


async def carried_out(
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
        raise problem_heard(answer["problem"])
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
