"""The server process: its listening socket, its shutdown and its log."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import sys
from datetime import UTC, datetime
from typing import Final

import uvicorn
from fastapi import FastAPI

from spectator.clock import timestamp
from spectator.errors import ConfigurationError

from .security.middleware import BODY_BYTES
from .security.requests import __name__ as REFUSALS
from .settings import Settings
from .transport import Capacity, choose_protocols, open_files, stop_listening

logger = logging.getLogger(__name__)

REFUSALS_A_MINUTE: Final = 120
"""Most log lines about rejected requests per minute."""


class JsonFormatter(logging.Formatter):
    """Formats each record as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the record."""
        line = {
            "at": timestamp(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class ShortTraceback(logging.Filter):
    """Reduces the traceback of a failed start to its reason, if it is ours."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten the record."""
        last = str(record.msg).strip().rpartition("\n")[2]
        if str(record.msg).startswith("Traceback") and last.startswith("spectator.errors."):
            record.msg, record.args = last.partition(": ")[2], ()
        return True


class LineRateFilter(logging.Filter):
    """Limits log lines per minute, so that floods cannot fill the disk.

    Args:
        most: Lines per minute; the first line of a later minute reports how many were dropped.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._minute, self._lines = 0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Count the line, and drop it beyond the limit."""
        minute = int(record.created // 60)
        dropped = max(0, self._lines - self._most)
        if minute != self._minute:
            self._minute, self._lines = minute, 0
            if dropped:
                record.msg = f"{record.getMessage()} ({dropped} such lines before it were dropped)"
                record.args = ()
        self._lines += 1
        return self._lines <= self._most


def configure_logging(settings: Settings) -> None:
    """Send all log lines to standard error, in the format of the settings."""
    handler = logging.StreamHandler()
    text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s") if text else JsonFormatter()
    )
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").addFilter(ShortTraceback())
    logging.getLogger(REFUSALS).addFilter(LineRateFilter(REFUSALS_A_MINUTE))
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


try:
    import resource
except ImportError:  # not available on Windows
    resource = None  # type: ignore[assignment]

LOOPBACK: Final = "127.0.0.1"
"""The proxy that is trusted by default: one on the same machine."""

LEAVING_S: Final = 1.0
"""Seconds that viewers and episodes may take to leave during a shutdown."""

UNREAD_MS: Final = 30_000
"""Milliseconds that a peer may leave bytes unread before the kernel closes the connection."""


class Server(uvicorn.Server):
    """Serves the application; a shutdown asks viewers to reconnect."""

    announcement = ""
    """Written to standard error once the server listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the services, then listen."""
        await super().startup(sockets)
        sys.stderr.write(self.announcement)
        sys.stderr.flush()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down in order: viewers and shared episodes, requests, then the rest and the journal."""
        stop_listening(self)
        await self.config.app.state.services.leave(LEAVING_S)  # type: ignore[union-attr]
        await super().shutdown(sockets)


def server_of(app: FastAPI, settings: Settings) -> Server:
    """Return a server for ``app``, not yet started."""
    capacity = Capacity.of(settings, open_files())
    http, ws = choose_protocols(capacity)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=http,
        ws=ws,
        ws_max_size=BODY_BYTES,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_s)),
        limit_concurrency=capacity.total + 1,
        proxy_headers=settings.trusted_hops == 0,
        forwarded_allow_ips=list(settings.trusted_proxies) or [LOOPBACK],
        access_log=False,
        log_config=None,
        server_header=False,
        workers=1,
    )
    return Server(config)


def listen(settings: Settings) -> socket.socket:
    """Open a listening socket; its connections time out if peers do not read."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
        family, kind, _, _, address = min(found, key=lambda one: one[0] is not socket.AF_INET)
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.socket(family, kind))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
            listener.bind(address)
            stack.pop_all()
            return listener
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}"
        ) from error


def within_open_files(settings: Settings) -> Settings:
    """Raise the limit of open files to the system's maximum; return the settings with as many viewers."""
    if resource is not None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    files = open_files()
    viewers = Capacity.of(settings, files).viewers
    if viewers < settings.max_viewers:
        logger.warning(
            "%s open files leave room for %d viewers, not %d: raise the limit (ulimit -n)",
            files,
            viewers,
            settings.max_viewers,
        )
    return settings.model_copy(update={"max_viewers": viewers})
