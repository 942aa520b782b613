"""Carry out the commands that other servers send for episodes that run here."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from spectator.errors import EpisodeOver, EpisodeUnfinished, JournalError, LeaseLost, SpectatorError, typed_as
from spectator.events import encode_json
from spectator.journal.commands import STOP, Command

from ..security import faults
from ..security.faults import Refused
from ..services import Services
from .commands import Handle, problem_to_json
from .control import handle_pace, handle_pause, handle_resume, handle_stop
from .seats import handle_act, handle_asked

logger = logging.getLogger(__name__)

COMMAND_HANDLERS: Final[dict[str, Handle[Any]]] = {
    STOP: handle_stop,
    "pause": handle_pause,
    "resume": handle_resume,
    "pace": handle_pace,
    "asked": handle_asked,
    "act": handle_act,
}
"""Handlers by name of the command."""


async def carry_out(command: Command, services: Services) -> str | None:
    """Carry out a command on an episode that this server may record.

    Returns:
        The answer as JSON: ``done``, or a ``problem``. ``None`` to leave it for later, or to another server:
        the episode does not run here, or cannot be recorded now.
    """
    handle = COMMAND_HANDLERS.get(command.name)
    if handle is None:
        return None  # of a later version; a server of that version may run the episode next
    try:
        if services.supervisor.live(command.episode_id) is None:
            if services.readiness.recovery.awaits_recovery(command.episode_id):
                return None
            if not await services.public_views.suspended(command.episode_id):
                return None
            if command.name != "resume":
                raise EpisodeOver(command.episode_id)
        with typed_as(SpectatorError, passing=(SpectatorError, Refused)):
            done = await handle(services, command.episode_id, json.loads(command.body))
    except (EpisodeUnfinished, LeaseLost, JournalError) as error:
        logger.warning("cannot %s %s yet; retrying: %s", command.name, command.episode_id, error)
        return None
    except (Refused, SpectatorError) as error:
        kind = error.kind if isinstance(error, Refused) else faults.kind_of(error)
        if kind in (faults.NO_JOURNAL, faults.RECOVERING):
            return None
        if kind is faults.INTERNAL:
            logger.exception("command %s of %s failed", command.name, command.episode_id)
        return encode_json({"problem": problem_to_json(error)})
    return encode_json({"done": done.model_dump(mode="json")})
