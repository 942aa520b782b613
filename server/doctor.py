"""Checks of a deployment, from inside and outside: ``spectator doctor``.

Inside: settings, data folder, journal and programs. Outside: what any client sees. Checks leave no
permanent changes.
"""

from __future__ import annotations

import asyncio
import ipaddress
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, Literal

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from spectator.errors import SpectatorError
from spectator.evaluation.figures import EXHIBITION, LEAGUE
from spectator.journal.contract import EpisodeFilter
from spectator.journal.ownership import INTERVAL_S, living, unowned_episodes
from spectator.journal.replicas import lagging, replicas
from spectator.journal.sql_journal import SqlJournal
from spectator.narration.voices import espeak_program
from spectator.policies.captains import load_captains, unpriced_captains

from .background.housekeeping import LITTLE_FREE
from .settings import Settings, is_loopback, read_environment, welcome

Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Args:
        verdict: ``ok``, ``warning`` if it works but should be changed, or ``failed``.

    >>> print(Finding("warning", "HTTPS", "the address is plain HTTP; put a proxy with TLS in front"))
    warning  HTTPS: the address is plain HTTP; put a proxy with TLS in front
    """

    verdict: Verdict
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.verdict:8} {self.name}: {self.detail}"


SAMPLE: Final = 3
"""Newest ended episodes whose chains are verified."""

PAGE: Final = 500
"""Events read at once."""

LEAST_FREE: Final = 100_000_000
"""Bytes of free disk below which a check fails; below :data:`LITTLE_FREE` it warns."""

HEARTBEATS_S: Final = 2.5 * INTERVAL_S
"""Seconds in which every living server sends a heartbeat."""

NAMED: Final = 20
"""Most episodes that a check looks at and names."""

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


async def inside_checks() -> AsyncIterator[Finding]:
    """Check the environment and this machine."""
    try:
        settings = read_environment()
    except SpectatorError as error:
        yield Finding("failed", "settings", str(error))
        return
    lines = welcome(settings, settings.host, settings.port).partition("\n")[2]
    yield Finding("ok", "settings", f"profile {settings.profile}; {lines}")
    if settings.operator_token is None and not settings.on_loopback:
        yield Finding("warning", "token", "everyone may stop and slow matches; set SPECTATOR_OPERATOR_TOKEN")
    yield _caps(settings)
    for finding in _folder(settings):
        yield finding
    async for finding in _journal(settings):
        yield finding
    for finding in _programs(settings):
        yield finding


def _caps(settings: Settings) -> Finding:
    try:
        unpriced = unpriced_captains(load_captains(settings.captains_file), settings.variables)
    except SpectatorError as error:
        return Finding("failed", "models", str(error))
    if (wrong := settings.cannot_bind(unpriced)) is not None:
        sentence, required = wrong
        return Finding("failed" if required else "warning", "models", sentence)
    return Finding("ok", "models", "the caps limit every model that can be called")


def _folder(settings: Settings) -> Iterator[Finding]:
    folder = settings.data_dir
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"x")
    except OSError as error:
        rule = "give the server's user write access, or set SPECTATOR_DATA_DIR"
        yield Finding("failed", "data folder", f"{there} is not writable: {error.strerror}; {rule}")
        return
    yield Finding(
        "ok", "data folder", f"{folder} is writable" if there == folder else f"{folder} can be created"
    )
    free = shutil.disk_usage(there).free
    wanted = max(LITTLE_FREE, settings.keep_mb * 1e6)
    amount = f"{free / 1e6:,.0f} MB free"
    if free < LEAST_FREE:
        yield Finding("failed", "disk", f"{amount}; matches pause once it is full: free some space")
    elif free < wanted:
        yield Finding("warning", "disk", f"{amount}, less than {wanted / 1e6:,.0f} MB: set SPECTATOR_KEEP_MB")
    else:
        yield Finding("ok", "disk", amount)


async def _journal(settings: Settings) -> AsyncIterator[Finding]:
    path: Path = settings.data_dir / "journal.db"
    url = f"sqlite:///{path}" if settings.journal_url is None else settings.journal_url.get_secret_value()
    if settings.journal_url is None and not await asyncio.to_thread(path.exists):
        yield Finding("ok", "journal", "none yet; the first start creates it")
        return
    try:
        journal = await SqlJournal.open(url, writable=False)
    except SpectatorError as error:
        yield Finding("failed", "journal", f"{error}; a start sets a damaged journal aside")
        return
    checks = (_sampled, _unplayed, _replicas) if settings.journal_url else (_sampled,)
    try:
        for check in checks:
            yield await check(journal)
    except SpectatorError as error:
        yield Finding(
            "failed", "journal", f"{error}; run spectator verify for details, other episodes are served"
        )
    finally:
        await journal.aclose()


async def _sampled(journal: SqlJournal) -> Finding:
    events = 0
    ended = await journal.episodes(EpisodeFilter(ended=True, limit=SAMPLE))
    for summary in ended:
        seq = 0
        while texts := await journal.texts(summary.episode_id, after_seq=seq, limit=PAGE):
            seq += len(texts)
        events += seq
    figures = await journal.figures()
    amount = f"{figures.episodes} episodes, {figures.bytes / 1e6:,.1f} MB"
    return Finding(
        "ok", "journal", f"{amount}; the newest {len(ended)} ended episodes are intact ({events} events)"
    )


async def _unplayed(journal: SqlJournal) -> Finding:
    """Find unended episodes that no living server has."""
    before = await journal.look(living)
    held = await journal.leases()
    if held:
        await asyncio.sleep(HEARTBEATS_S)
    beats = await journal.look(living)
    alive = {name for name, beat in beats.items() if beat != before.get(name)}
    found = [f"{one.episode_id} (leased by a dead server)" for one in held if one.owner not in alive]
    for episode_id in await journal.look(lambda connection: unowned_episodes(connection, NAMED)):
        summary = await journal.episode(episode_id)
        last = [] if summary is None else await journal.read(episode_id, after_seq=summary.head_seq - 1)
        if last and last[-1].type not in ("episode.suspended", "episode.ended"):
            found.append(episode_id)
    return _played(found)


def _played(found: Sequence[str]) -> Finding:
    if not found:
        return Finding("ok", "episodes", "every episode without an end is played or suspended")
    rule = "if they are still here in a minute, see docs/runbook.md#episodes-unplayed"
    return Finding("failed", "episodes", f"no server plays {', '.join(found[:NAMED])}; {rule}")


async def _replicas(journal: SqlJournal) -> Finding:
    found = await journal.look(replicas)
    if wrong := lagging(found):
        rule = "see docs/runbook.md#replica-lags"
        return Finding("failed", "replicas", f"{'; '.join(wrong)}; {rule}")
    if any(one.name is None for one in found):
        rule = "GRANT pg_monitor to the journal's user"
        return Finding("warning", "replicas", f"this user may not see how far standbys are behind; {rule}")
    if found and not any(one.synchronous for one in found):
        rule = "set synchronous_standby_names"
        return Finding("warning", "replicas", f"a failover may lose the newest commits; {rule}")
    return Finding("ok", "replicas", f"{len(found)} standbys, none behind")


def _programs(settings: Settings) -> Iterator[Finding]:
    program = espeak_program()
    if program is not None:
        yield Finding("ok", "espeak-ng", program)
    elif settings.voice == "espeak":
        yield Finding(
            "failed", "espeak-ng", "not found, but SPECTATOR_VOICE=espeak needs it: install espeak-ng"
        )
    else:
        yield Finding("warning", "espeak-ng", "not found, so browsers speak: install espeak-ng for clips")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    yield Finding("ok", "chromium", browser or "not found; only tests of the pages need it")


FORGED: Final = "192.0.2.66"
"""A documentation address (RFC 5737)."""

UNKNOWN_EPISODE: Final = "ep-00000000000000000000000000"
"""An id that no episode has."""

PATIENCE_S: Final = 10.0
SLOW_S: Final = 2.0
CLOCK_S: Final = 5.0
CLOCK_WRONG_S: Final = 60.0


class OutsideChecks:
    """Checks one server from outside.

    Args:
        transport: Transport of requests; the network if omitted.
    """

    def __init__(
        self, url: str, token: str | None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._url = httpx.URL(url if url.endswith("/") else f"{url}/")
        self._token = token
        self._local = is_loopback(self._url.host)
        self._client = httpx.AsyncClient(base_url=self._url, timeout=PATIENCE_S, transport=transport)

    async def findings(self) -> AsyncIterator[Finding]:
        """Run every check; stop if the server is unreachable."""
        async with self._client:
            began = time.monotonic()
            try:
                health = await self._client.get("health")
            except httpx.HTTPError as error:
                rule = "is it running, and does the name resolve to it?"
                yield Finding("failed", "reachable", f"{self._url}: {error or type(error).__name__}; {rule}")
                return
            for finding in self._of_health(health, time.monotonic() - began):
                yield finding
            for check in (
                self._ready,
                self._episodes,
                self._compression,
                self._address,
                self._control,
                self._figures,
            ):
                try:
                    yield await check()
                except (httpx.HTTPError, ValueError, KeyError) as error:
                    yield Finding("failed", check.__name__.strip("_"), f"{type(error).__name__}: {error}")
            yield await self._socket()

    def _of_health(self, health: httpx.Response, took_s: float) -> Iterator[Finding]:
        if health.status_code != 200 or "healthy" not in health.text:
            yield Finding(
                "failed", "reachable", f"/health answered {health.status_code}: is this a Spectator?"
            )
        elif took_s > SLOW_S:
            yield Finding(
                "warning", "reachable", f"/health took {took_s:.1f} s; see the loop's lag at /operator"
            )
        else:
            yield Finding("ok", "reachable", f"/health answered in {1000 * took_s:.0f} ms")
        if self._url.scheme == "https":
            yield Finding("ok", "HTTPS", "the address is HTTPS")
        elif self._local:
            yield Finding("ok", "HTTPS", "not needed on this machine")
        else:
            yield Finding("warning", "HTTPS", "tokens travel in the clear; put a proxy with TLS in front")
        yield self._clock(health)

    def _clock(self, health: httpx.Response) -> Finding:
        try:
            theirs = parsedate_to_datetime(health.headers["date"])
        except (KeyError, ValueError):
            return Finding("warning", "clock", "the server sends no time")
        off = (theirs - datetime.now(UTC)).total_seconds()
        amount = f"{abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} this machine's"
        if abs(off) <= CLOCK_S:
            return Finding("ok", "clock", "agrees with this machine's")
        verdict: Verdict = "warning" if abs(off) <= CLOCK_WRONG_S else "failed"
        return Finding(verdict, "clock", f"{amount}; synchronize both by NTP")

    async def _ready(self) -> Finding:
        answer = await self._client.get("readyz")
        if answer.status_code == 200:
            return Finding("ok", "ready", "episodes can be recorded now")
        detail = answer.json().get("detail", answer.text[:200])
        return Finding("failed", "ready", f"{answer.status_code}: {detail} See the server's log")

    async def _episodes(self) -> Finding:
        listed = await self._client.get("api/episodes", params={"ended": "false", "limit": "200"})
        status = (await self._client.get("custom/status")).json()
        played = {one["episode_id"] for one in (*status["running"], *status["shown"])}
        found: list[str] = []
        for one in listed.json()["episodes"]:
            episode_id = one["episode_id"]
            if episode_id in played or one["run_id"] not in (None, EXHIBITION, LEAGUE) or len(found) == NAMED:
                continue  # workers play the episodes of runs
            entry = (await self._client.get(f"api/episodes/{episode_id}")).json()
            only_last = {"after_seq": entry.get("head_seq", 1) - 1, "limit": 1}
            last = await self._client.get(f"api/episodes/{episode_id}/events", params=only_last)
            if entry.get("ended_at") is None and '"type":"episode.suspended"' not in last.text:
                found.append(episode_id)
        return _played(found)

    async def _compression(self) -> Finding:
        answer = await self._client.get("", headers={"Accept-Encoding": "gzip"})
        if answer.headers.get("content-encoding"):
            return Finding("ok", "compression", answer.headers["content-encoding"])
        return Finding(
            "warning", "compression", "pages are not compressed; make the proxy forward Accept-Encoding"
        )

    async def _address(self) -> Finding:
        plain, *forged = [
            (await self._client.get("api/address", headers=headers)).json()["address"]
            for headers in ({}, {"X-Forwarded-For": FORGED}, {"X-Forwarded-For": f"{FORGED}, {FORGED}"})
        ]
        name, amount = "proxies", f"this client is counted as {plain}"
        if any(one != plain for one in forged):
            if self._local:
                return Finding("ok", name, f"{amount}, and a proxy on this machine is trusted")
            rule = "set SPECTATOR_TRUSTED_HOPS to the number of proxies that append to X-Forwarded-For"
            return Finding("failed", name, f"a forged X-Forwarded-For is trusted ({forged[0]}): {rule}")
        if not self._local and _is_private(plain):
            rule = "all clients may count as one: set SPECTATOR_TRUSTED_HOPS to the number of proxies"
            return Finding("warning", name, f"{amount}, which is a proxy's address; {rule}")
        return Finding("ok", name, f"{amount}, regardless of its X-Forwarded-For")

    async def _control(self) -> Finding:
        answer = await self._client.post("custom/stop_episode", json={"episode_id": UNKNOWN_EPISODE})
        if answer.status_code in (401, 403):
            return Finding("ok", "control", "clients without the token may not stop or slow matches")
        if self._local:
            return Finding("ok", "control", "open to this machine")
        return Finding(
            "warning", "control", "everyone may stop and slow matches; set SPECTATOR_OPERATOR_TOKEN"
        )

    async def _figures(self) -> Finding:
        without = await self._client.get("operator/status")
        if without.status_code == 200 and not self._local:
            return Finding(
                "failed", "token", "/operator is open to this client without it; set SPECTATOR_OPERATOR_TOKEN"
            )
        if self._token is None:
            return Finding("ok", "token", "not sent; set SPECTATOR_OPERATOR_TOKEN here to check it too")
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = await self._client.get("metrics", headers=headers)
        if answer.status_code == 200:
            return Finding("ok", "token", "the token is the operator's")
        return Finding(
            "failed", "token", f"{answer.status_code}: SPECTATOR_OPERATOR_TOKEN here is not the server's"
        )

    async def _socket(self) -> Finding:
        scheme = "wss" if self._url.scheme == "https" else "ws"
        address = str(self._url.copy_with(scheme=scheme).join("live"))
        try:
            async with connect(address, open_timeout=PATIENCE_S, close_timeout=1) as socket:
                first = await socket.recv()
        except (OSError, WebSocketException, TimeoutError) as error:
            rule = "make the proxy forward Upgrade and Connection, and keep sockets open"
            return Finding("failed", "WebSocket", f"{error or type(error).__name__}; {rule}")
        return Finding("ok", "WebSocket", f"open, and the first message arrived ({len(first)} characters)")


def _is_private(address: str) -> bool:
    try:
        return ipaddress.ip_network(address, strict=False).is_private
    except ValueError:
        return False
