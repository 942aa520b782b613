"""What other servers were asked to do with an episode, done here where it is played."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from spectator.errors import EpisodeOver, EpisodeUnfinished, JournalError, LeaseLost, SpectatorError, typed_as
from spectator.events import encode_json
from spectator.journal.stores.commands import STOP, Command

from ..security import faults
from ..security.faults import Refused
from ..services import Services
from .control import paced, paused, resumed, stopped
from .elsewhere import Handle
from .rights import problem_told
from .seats import acted, seats_here

logger = logging.getLogger(__name__)

HANDLES: Final[dict[str, Handle[Any]]] = {
    STOP: stopped,
    "pause": paused,
    "resume": resumed,
    "pace": paced,
    "asked": seats_here,
    "act": acted,
}
"""By the names of commands."""


async def carry_out(command: Command, services: Services) -> str | None:
    """Do what a command says with an episode that this server may record.

    Returns:
        The answer as JSON: ``done``, or a ``problem``. ``None`` where it is left for later, or for another
        server: the episode is not played here yet or any more, or cannot be recorded now.
    """
    handle = HANDLES.get(command.name)
    if handle is None:
        return None  # of a later version: a server of that one may play the episode next
    try:
        if services.supervisor.live(command.episode_id) is None:
            if services.readiness.recovery.has_to_look_at(command.episode_id):
                return None
            if not await services.records.suspended(command.episode_id):
                return None
            if command.name != "resume":
                raise EpisodeOver(command.episode_id)
        with typed_as(_broke, passing=(SpectatorError, Refused)):
            done = await handle(services, command.episode_id, json.loads(command.body))
    except (EpisodeUnfinished, LeaseLost, JournalError) as error:
        logger.warning("%s of %s is left for later: %s", command.name, command.episode_id, error)
        return None
    except (Refused, SpectatorError) as error:
        kind = error.kind if isinstance(error, Refused) else faults.kind_of(error)
        if kind in (faults.NO_JOURNAL, faults.RECOVERING):
            return None
        if kind is faults.INTERNAL:
            logger.exception("%s of %s failed", command.name, command.episode_id)
        return encode_json({"problem": problem_told(error)})
    return encode_json({"done": done.model_dump(mode="json")})


def _broke(error: Exception) -> SpectatorError:
    return SpectatorError(f"{type(error).__name__}: {error}")
