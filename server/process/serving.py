"""Serves an application: the listening socket, the connections, the orderly shutdown."""

from __future__ import annotations

import contextlib
import socket
from typing import Final

import uvicorn
from fastapi import FastAPI

from spectator.errors import ConfigurationError

from ..security.shield import BODY_BYTES
from ..settings import Settings
from ..transport import choose_protocols, stop_listening

try:
    import resource
except ImportError:  # there is no such limit on Windows
    resource = None  # type: ignore[assignment]

LOOPBACK: Final = "127.0.0.1"
"""The proxy that is trusted where none is named: one on the same machine."""

LEAVING_S: Final = 1.0
"""How long viewers may take to leave once the server must go."""

SPARE_CONNECTIONS: Final = 1000
"""Connections that are served beside those of viewers."""

UNREAD_MS: Final = 30_000
"""How long a peer may leave bytes unread before the kernel cuts the connection."""


class Server(uvicorn.Server):
    """Serves the application; before it goes it tells the viewers to come back."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End in order: viewers, requests, then episodes and the journal."""
        stop_listening(self)
        await self.config.app.state.services.send_away(LEAVING_S)  # type: ignore[union-attr]
        await super().shutdown(sockets)


def server_of(app: FastAPI, settings: Settings) -> Server:
    """A server for ``app``, not yet started."""
    protocols = choose_protocols()
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=protocols.http,
        ws=protocols.ws,
        ws_max_size=BODY_BYTES,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_s)),
        limit_concurrency=settings.max_viewers + SPARE_CONNECTIONS,
        proxy_headers=settings.trusted_hops == 0,
        forwarded_allow_ips=list(settings.trusted_proxies) or [LOOPBACK],
        access_log=False,
        log_config=None,
        server_header=False,
        workers=1,
    )
    return Server(config)


def listen(settings: Settings) -> socket.socket:
    """A listening socket whose connections do not outlive peers that never read.

    Raises:
        ConfigurationError: The address cannot be listened on.
    """
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


def raise_open_files() -> None:
    """Let the process hold as many connections as the system allows it to ask for."""
    if resource is not None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
