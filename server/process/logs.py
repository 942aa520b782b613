"""The log of the process: its lines, their form and their level."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

from spectator.clock import timestamp

from ..security.refusals import __name__ as REFUSALS
from ..settings import Settings

CONNECTIONS: Final = f"{__package__.rpartition('.')[0]}.transport.private_api"
"""Logger of the connections, whose comings and goings are figures and not log lines."""

REFUSALS_A_MINUTE: Final = 120
"""Lines about refused requests in a minute."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line."""
        line = {
            "at": timestamp(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class Reason(logging.Filter):
    """Leaves of a failed start what a person needs: the reason, where we gave one, without its trace."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten the record."""
        last = str(record.msg).strip().rpartition("\n")[2]
        if str(record.msg).startswith("Traceback") and last.startswith("spectator.errors."):
            record.msg, record.args = last.partition(": ")[2], ()
        return True


class FewLines(logging.Filter):
    """Lets so many lines a minute through, so that a flood of requests fills no disk with its refusals.

    Args:
        most: How many; the first one of a later minute says how many were left out.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._minute, self._lines = 0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Count the line."""
        minute = int(record.created // 60)
        left_out = max(0, self._lines - self._most)
        if minute != self._minute:
            self._minute, self._lines = minute, 0
            if left_out:
                record.msg = f"{record.getMessage()} ({left_out} such lines before it were left out)"
                record.args = ()
        self._lines += 1
        return self._lines <= self._most


def configure_logging(settings: Settings) -> None:
    """Send every log line to standard error, in the form that the settings ask for."""
    handler = logging.StreamHandler()
    text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s") if text else JsonFormatter()
    )
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").addFilter(Reason())
    logging.getLogger(REFUSALS).addFilter(FewLines(REFUSALS_A_MINUTE))
    for chatty in (
        "authlib",
        "httpcore",
        "httpcore2",
        "httpx",
        "httpx2",
        "uvicorn.access",
        "server.transport.private_api",
        "spectator.server.transport.private_api",
    ):
        logging.getLogger(chatty).setLevel(logging.WARNING)
