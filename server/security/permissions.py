"""Permissions: operator, origins, seat keys, starters, allowed options.

Seat keys and starters survive a restart; the starters' file holds digests and no addresses.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
import secrets
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from spectator.clock import Clock
from spectator.errors import FieldError, InvalidRequest, JournalError
from spectator.journal.commands import Commands

from ..setting_types import HOST, ORIGIN
from ..settings import Settings, is_address, is_loopback
from .faults import NOT_HERE, NOT_YOURS, UNAUTHENTICATED, Refused, too_many
from .rate_limits import RateLimit
from .requests import address_of


class Guard:
    """Decides who may do what."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        token = settings.operator_token
        self._token = None if token is None else token.get_secret_value().encode()
        self._on_loopback = settings.on_loopback
        self._public = settings.profile == "public"
        self._failures = RateLimit(10, 60.0, clock)

    def is_operator(self, connection: HTTPConnection) -> bool:
        """Whether the request carries the operator's token."""
        if self._token is None or _bearer(connection) is None:
            return False
        if self.holds_token(connection):
            return True
        if (wait_s := self._failures.take(address_of(connection))) > 0:
            raise too_many(wait_s, "wrong tokens")
        raise _unauthenticated("This is not the operator's token.", 'Bearer error="invalid_token"')

    def holds_token(self, connection: HTTPConnection) -> bool:
        """Whether the request carries the operator's token; wrong tokens are ignored."""
        sent = _bearer(connection)
        return self._token is not None and sent is not None and hmac.compare_digest(sent, self._token)

    def require_operator(self, connection: HTTPConnection) -> str:
        """Require a client that may control all episodes.

        Returns:
            ``operator`` or ``visitor``.

        Raises:
            Refused: A token is set and the request does not carry it.
        """
        if self.is_operator(connection):
            return "operator"
        if self._token is not None:
            raise _unauthenticated("Send the operator's token: Authorization: Bearer ...", "Bearer")
        return "visitor"

    def require_control(self, connection: HTTPConnection, starter: str | None) -> str:
        """Require a client that may control one episode.

        In the public profile these are the operator and the address that started it. In the open profile it
        is the operator, or everyone if no token is set.

        Args:
            starter: The address that started the episode, see :func:`address_of`; ``None`` if no longer
                known.

        Returns:
            ``operator`` or ``visitor``.

        Raises:
            Refused: The client may not control it.
        """
        if not self._public or self.is_operator(connection):
            return self.require_operator(connection)
        if starter == address_of(connection) or self._owns_machine(connection):
            return "visitor"
        raise Refused(
            NOT_YOURS,
            "Only the client that started this episode and the operator may control it. It was started from "
            "another address, or its starter is no longer known.",
        )

    def require_spender(self, connection: HTTPConnection) -> None:
        """Require a client that may spend money.

        Raises:
            Refused: A token is set and missing, or none is set and the request is not from the server's
                machine.
        """
        self._require_owner(
            connection,
            "Spending money needs SPECTATOR_OPERATOR_TOKEN, or a server that listens on loopback and a "
            "request from its own machine.",
        )

    def may_spend(self, connection: HTTPConnection) -> bool:
        """Whether :meth:`require_spender` would accept this client."""
        try:
            self.require_spender(connection)
        except Refused:
            return False
        return True

    def require_owner(self, connection: HTTPConnection) -> None:
        """Require a client that may read prompts; rejects as :meth:`require_spender` does."""
        self._require_owner(
            connection,
            "Reading prompts needs SPECTATOR_OPERATOR_TOKEN, or a server that listens on loopback and a "
            "request from its own machine. `spectator export` writes them too.",
        )

    def require_deleter(self, connection: HTTPConnection) -> None:
        """Require a client that may delete records and pause starts.

        Rejects as :meth:`require_spender` does.
        """
        self._require_owner(
            connection,
            "This needs SPECTATOR_OPERATOR_TOKEN, or a server that listens on loopback and a request from "
            "its own machine.",
        )

    def _require_owner(self, connection: HTTPConnection, otherwise: str) -> None:
        if self._token is not None:
            self.require_operator(connection)
        elif not self._owns_machine(connection):
            raise Refused(NOT_HERE, otherwise)

    def _owns_machine(self, connection: HTTPConnection) -> bool:
        """Whether no token is set and the request comes from the server's machine.

        Only that machine reaches a server on loopback.
        """
        return self._token is None and self._on_loopback and _is_local(connection)


RESERVED_NAMES: Final = (".localhost", ".local", ".internal")
"""Endings of names that no public name server resolves."""


class Hosts:
    """Decides at which host names clients may reach the server.

    A page of a foreign site can make its own name resolve to this server (DNS rebinding), and would then
    count as one of the server's own pages. Addresses and names without a dot cannot be rebound.
    """

    def __init__(self, settings: Settings) -> None:
        origins = (urlsplit(origin).hostname or "" for origin in settings.allowed_origins)
        self._names = frozenset((*settings.allowed_hosts, *origins, socket.gethostname().lower()))
        starred = (name[1:] for name in settings.allowed_hosts if name.startswith("*."))
        self._endings = (*RESERVED_NAMES, *starred)

    def allows(self, headers: Headers) -> bool:
        """Whether the request names exactly one host, and an allowed one."""
        named = headers.getlist("host")
        if len(named) != 1 or not HOST.fullmatch(named[0]):
            return False
        name = (urlsplit(f"//{named[0]}").hostname or "").removesuffix(".")
        if "*" in self._names or name in self._names or "." not in name:
            return True
        return name.endswith(self._endings) or is_address(name)


class Origins:
    """Decides which pages may send requests."""

    def __init__(self, settings: Settings) -> None:
        self._allowed = frozenset(settings.allowed_origins)
        self._on_loopback = settings.on_loopback

    def allows(self, headers: Mapping[str, str]) -> bool:
        """Whether a request comes from an allowed page, or from no page.

        A page is allowed if its origin is listed, or equals the requested host. On loopback that host must
        be loopback's own name, since any domain could resolve to it.
        """
        origin = headers.get("origin")
        if origin is None or origin.lower() in self._allowed:
            return True
        if not ORIGIN.fullmatch(origin):
            return False
        parts = urlsplit(origin.lower())
        if self._on_loopback and not is_loopback(parts.hostname or ""):
            return False
        return parts.netloc == headers.get("host", "").lower()


def _bearer(connection: HTTPConnection) -> bytes | None:
    scheme, _, sent = connection.headers.get("authorization", "").partition(" ")
    return sent.strip().encode() if scheme.lower() == "bearer" else None


def _unauthenticated(detail: str, challenge: str) -> Refused:
    return Refused(UNAUTHENTICATED, detail, headers={"WWW-Authenticate": challenge})


def _is_local(connection: HTTPConnection) -> bool:
    server = connection.scope.get("server")
    if server is None or not is_loopback(server[0]):
        return False
    return not any(name in connection.headers for name in ("forwarded", "x-forwarded-for", "x-real-ip"))


SEAT_KEYS_HEADER: Final = "X-Seat-Key"
"""Header with the keys of the client's seats, separated by commas."""

SEAT_KEYS_FILE: Final = "seat-keys.secret"
"""File in the data folder with the secret that all keys are derived from, so that they survive a restart."""

MAX_SEAT_KEYS_HEADER: Final = 1024
"""Characters of the header that are read."""


class SeatKeys:
    """Makes and verifies the keys of seats; no record holds them.

    Args:
        secret: The secret that several servers share; if ``None``, the one in the file.
    """

    def __init__(self, folder: Path, secret: bytes | None = None) -> None:
        self._file = folder / SEAT_KEYS_FILE
        self._secret = secret

    def key(self, episode_id: str, actor: str) -> str:
        """Return the key of one seat: its actor, and 256 unguessable bits.

        Raises:
            OSError: The file with the secret cannot be written.
        """
        return f"{actor}.{self.digest(episode_id, actor)}"

    def digest(self, episode_id: str, text: str) -> str:
        """Return a keyed digest of ``text`` in an episode; it does not reveal the text."""
        if self._secret is None:
            self._secret = _secret_in(self._file)
        digest = hmac.digest(self._secret, f"{episode_id}\n{text}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def offered(self) -> bytes:
        """Return a secret that all servers can share: the file's, or a new one."""
        return _held_in(self._file) or secrets.token_bytes(32)

    def seats(self, sent: str, episode_id: str, actors: Collection[str]) -> list[str]:
        """Return those of ``actors`` whose keys are in the header ``sent``."""
        keys = [key.strip().encode() for key in sent[:MAX_SEAT_KEYS_HEADER].split(",")]
        return [
            actor
            for actor in actors
            if any(hmac.compare_digest(self.key(episode_id, actor).encode(), key) for key in keys)
        ]


def _held_in(file: Path) -> bytes:
    """Return the secret in a file; empty if there is none."""
    try:
        held = file.read_bytes()
    except FileNotFoundError:
        return b""
    return held if len(held) >= 32 else b""


def _secret_in(file: Path) -> bytes:
    """Return the secret in a file; create it if missing.

    Only the server's user can read the file.
    """
    if held := _held_in(file):
        return held
    drawn = secrets.token_bytes(32)
    written = file.with_suffix(".new")
    with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(drawn)
        opened.flush()
        os.fsync(opened.fileno())
    written.replace(file)
    return drawn


logger = logging.getLogger(__name__)

STARTERS_FILE: Final = "starters.json"

MOST_STARTERS: Final = 1000
"""Episodes whose starters are kept; the newest ones."""


class StarterRegistry:
    """Recognizes the address that started an episode, also after a restart.

    It stores keyed digests of address and episode, which reveal neither an address nor which episodes share
    one. Several servers store them in their journal's database, a single server in a file.
    """

    def __init__(self, folder: Path, keys: SeatKeys, shared: Commands | None = None) -> None:
        self._path = folder / STARTERS_FILE
        self._keys = keys
        self._shared = shared
        self._digests = {} if shared is not None else _read_starters(self._path)
        self._writing = asyncio.Lock()

    async def note(self, episode_id: str, address: str) -> None:
        """Store who started an episode; if that fails, it is known until a restart."""
        try:
            digest = self._digest(episode_id, address)
            if self._shared is None:
                await self._keep(episode_id, digest)
            else:
                await self._shared.note_starter(episode_id, digest)
        except (OSError, JournalError) as error:
            logger.warning("cannot store who started %s; only this process knows it: %s", episode_id, error)

    def forget(self, episode_id: str) -> None:
        """Forget the starter of an ended episode; the file is updated with the next start."""
        self._digests.pop(episode_id, None)

    async def started(self, episode_id: str, address: str) -> bool:
        """Whether ``address`` is stored as the one that started an episode."""
        kept = self._digests.get(episode_id)
        if self._shared is not None:
            kept = await self._shared.starter(episode_id)
        return kept is not None and hmac.compare_digest(kept, self._digest(episode_id, address))

    async def _keep(self, episode_id: str, digest: str) -> None:
        self._digests[episode_id] = digest
        while len(self._digests) > MOST_STARTERS:
            del self._digests[next(iter(self._digests))]
        async with self._writing:
            await asyncio.to_thread(self._write, json.dumps(self._digests, indent=0))

    def _digest(self, episode_id: str, address: str) -> str:
        return self._keys.digest(episode_id, f"started from {address}")

    def _write(self, text: str) -> None:
        written = self._path.with_suffix(".new")
        written.write_text(text, encoding="utf-8")
        written.replace(self._path)


def _read_starters(path: Path) -> dict[str, str]:
    try:
        kept = json.loads(path.read_bytes())
        if isinstance(kept, dict) and all(isinstance(digest, str) for digest in kept.values()):
            return kept
        logger.warning("%s is unreadable; starting with an empty list", path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        logger.warning("%s is unreadable; starting with an empty list: %s", path, error)
    return {}


@dataclass(frozen=True, slots=True)
class Offer:
    """What clients without the operator's token may play.

    Args:
        worlds: Names of the worlds; empty for all.
        largest: Largest value by name of an option, in all worlds.

    >>> Offer(frozenset({"counting"}), {"turns": 500}).check("counting", {"turns": 501})
    Traceback (most recent call last):
        ...
    spectator.errors.InvalidRequest: options.turns: is at most 500 here (SPECTATOR_OPTION_LIMITS)
    """

    worlds: frozenset[str] = frozenset()
    largest: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Read the offer from ``settings``."""
        pairs = (limit.split("=") for limit in settings.option_limits)
        return cls(frozenset(settings.worlds), {name: float(most) for name, most in pairs})

    def check(self, world: str, options: Mapping[str, Any], *, prefix: str = "options.") -> None:
        """Check that a world with these options is offered.

        Args:
            prefix: Prefix of an option's name in the request.

        Raises:
            InvalidRequest: Names the world, or every option that is too large.
        """
        if self.worlds and world not in self.worlds:
            offered = ", ".join(sorted(self.worlds))
            raise InvalidRequest([FieldError("environment", f"is one of {offered} here (SPECTATOR_WORLDS)")])
        wrong = [
            FieldError(f"{prefix}{name}", f"is at most {most:g} here (SPECTATOR_OPTION_LIMITS)")
            for name, most in self.largest.items()
            if isinstance(value := options.get(name), int | float) and value > most
        ]
        if wrong:
            raise InvalidRequest(wrong)
