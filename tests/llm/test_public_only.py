"""A transport for endpoints that visitors name connects to public addresses only."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterable

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from spectator.clock import SystemClock
from spectator.errors import EndpointPrivate, EndpointRefused
from spectator.llm.chat import ChatRequest
from spectator.llm.endpoints import is_public_address
from spectator.llm.transport import HttpTransport
from spectator.policies.captains import ModelCaptain
from spectator.policies.model_presets import captain_client

PRIVATE = (
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "192.168.1.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::1",
    "fc00::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
)

READ_BY_AIOHTTP = ("127.0.0.1", "0x7f.1", "[::1]", "[::ffff:7f00:1]", "localhost")
"""Spellings that aiohttp resolves; it rejects the others as invalid."""


class Names(AbstractResolver):
    """Resolves every name to the next of some addresses, and to the last one again and again."""

    def __init__(self, addresses: Iterable[str]) -> None:
        self._addresses = list(addresses)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The next address."""
        address = self._addresses.pop(0) if len(self._addresses) > 1 else self._addresses[0]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        found = ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
        return [found]

    async def close(self) -> None:
        """Nothing is open."""


async def status_of(url: str, transport: HttpTransport) -> int:
    try:
        async with transport.post(url, b"{}", {}) as reply:
            return reply.status
    finally:
        await transport.aclose()


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public_address(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1"]
)
def test_public_addresses(address: str) -> None:
    assert is_public_address(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_a_name_of_a_private_address_is_refused(address: str) -> None:
    resolved = Names([address.partition("%")[0]])
    with pytest.raises(
        EndpointPrivate, match="the endpoint's address is private; use a public https address"
    ):
        asyncio.run(status_of("https://a.example/v1", HttpTransport(public_only=True, resolver=resolved)))


@pytest.mark.parametrize("host", [*READ_BY_AIOHTTP, "2130706433", "0177.0.0.1", "127.1", "0"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_every_spelling_of_a_private_address_is_refused(host: str, scheme: str) -> None:
    refusal = EndpointPrivate if host in READ_BY_AIOHTTP else EndpointRefused
    with pytest.raises(refusal, match=r"address is (private|not a valid URL)"):
        asyncio.run(status_of(f"{scheme}://{host}:1/v1", HttpTransport(public_only=True)))


async def test_without_the_option_the_same_name_is_reached() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport = HttpTransport(resolver=Names(["127.0.0.1"]))
        assert await status_of(f"http://a.example:{port}/v1", transport) == 204


async def test_a_name_that_becomes_private_later_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the address of the socket, not that of an earlier look at the name."""
    checked: list[str] = []

    def look(address: str) -> bool:
        checked.append(address)
        return is_public_address(address)

    monkeypatch.setattr("spectator.llm.transport.is_public_address", look)
    resolved = Names(["127.0.0.2", "127.0.0.3"])

    for _ in range(2):
        transport = HttpTransport(public_only=True, resolver=resolved)
        with pytest.raises(EndpointPrivate):
            await status_of("http://a.example:1/v1", transport)
    assert checked == ["127.0.0.2", "127.0.0.3"]


async def test_the_client_of_a_captain_passes_it_on_and_does_not_try_again() -> None:
    captain = ModelCaptain(label="Mine", base_url="http://127.0.0.1:1/v1", model="m")
    waits: list[float] = []

    class Clock(SystemClock):
        async def sleep(self, seconds: float) -> None:
            waits.append(seconds)

    client = captain_client(captain, None, clock=Clock(), rng=random.Random(1), public_only=True)
    request = ChatRequest(model="m", messages=[{"role": "user", "content": "Well?"}])
    try:
        with pytest.raises(EndpointPrivate):
            await client.complete(request, deadline=10)
    finally:
        await client.aclose()
    assert waits == []
