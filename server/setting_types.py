"""Types of settings with their own parsing and checks."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationInfo

from spectator.errors import ConfigurationError
from spectator.journal.postgres import is_server
from spectator.llm.endpoints import check_base_url

PREFIX: Final = "SPECTATOR_"
"""Prefix of our environment variables."""

HOST: Final = re.compile(r"[A-Za-z0-9.\-_]+(?::\d{1,5})?|\[[0-9A-Fa-f:.]+\](?::\d{1,5})?")
"""A host, optionally with a port."""

HOST_PATTERN: Final = re.compile(r"\*|(\*\.)?[a-z0-9\-_]+(\.[a-z0-9\-_]+)*")

ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9.\-]+(:\d{1,5})?|https?://\[[0-9A-Fa-f:]+\](:\d{1,5})?")
FRAME_SOURCE: Final = re.compile(
    r"'self'|'none'|https?://(\*|(\*\.)?[A-Za-z0-9\-]+(\.[A-Za-z0-9\-]+)*)(:\d{1,5})?"
)


def _split(value: object) -> object:
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _none_if_empty(value: object) -> object:
    return None if value == "" else value


def _check_token(token: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[\x21-\x7e]{16,512}", token.get_secret_value()):
        raise ValueError("must be 16 to 512 printable ASCII characters without spaces")
    return token


def _check_journal_url(url: SecretStr | None) -> SecretStr | None:
    if url is not None and not is_server(url.get_secret_value()):
        raise ValueError("must be the URL of a PostgreSQL database: postgresql://user:password@host/database")
    return url


def _check_listen_url(url: SecretStr | None, others: ValidationInfo) -> SecretStr | None:
    if url is not None and others.data.get("journal_url") is None:
        raise ValueError(f"needs {PREFIX}JOURNAL_URL too, of the same database")
    return url


def _origin(url: str | None) -> str | None:
    if url is not None and not ORIGIN.fullmatch(url := url.rstrip("/").lower()):
        raise ValueError("must be an address without a path, such as https://example.org")
    return url


def _check_router_url(url: str) -> str:
    try:
        return check_base_url(url)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None


def _origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    for origin in origins:
        if not ORIGIN.fullmatch(origin):
            raise ValueError(f"{origin!r} is not an origin such as https://example.org")
    return tuple(origin.lower() for origin in origins)


def _hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    for host in hosts:
        if not HOST_PATTERN.fullmatch(host.lower()):
            raise ValueError(f"{host!r} is not a host name without a port, such as spectator.example.org")
    return tuple(host.lower() for host in hosts)


def _frame_sources(sources: tuple[str, ...]) -> tuple[str, ...]:
    for source in sources:
        if not FRAME_SOURCE.fullmatch(source):
            raise ValueError(f"{source!r} is not 'self', 'none' or a host such as https://*.example.org")
    if "'none'" in sources and len(sources) > 1:
        raise ValueError("'none' must be the only source; browsers ignore it next to others")
    return sources


def _networks(proxies: tuple[str, ...], others: ValidationInfo) -> tuple[str, ...]:
    if proxies and others.data.get("trusted_hops"):
        raise ValueError("contradicts SPECTATOR_TRUSTED_HOPS; set one of them")
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError as error:
            raise ValueError(f"{proxy!r} is not an address or a network such as 10.0.0.0/8") from error
    return proxies


def _option_limits(limits: tuple[str, ...]) -> tuple[str, ...]:
    for limit in limits:
        if not re.fullmatch(r"[a-z][a-z0-9_]*=\d+(\.\d+)?", limit):
            raise ValueError(f"{limit!r} is not an option and its largest value, such as max_overs=20")
    return limits


LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)]
"""Least severe level of log lines, in either case."""

Folder = Annotated[Path | None, BeforeValidator(_none_if_empty)]
"""A folder, or none."""

WordList = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""Words separated by commas or spaces."""

OperatorToken = Annotated[SecretStr, AfterValidator(_check_token)]
"""A bearer token of sufficient length."""

ClipsUrl = Annotated[str | None, BeforeValidator(_none_if_empty)]
"""Where clips are shared, or none."""

JournalUrl = Annotated[SecretStr | None, BeforeValidator(_none_if_empty), AfterValidator(_check_journal_url)]
"""The URL of a journal on a database server, with its password, or none."""

ListenUrl = Annotated[JournalUrl, AfterValidator(_check_listen_url)]
"""Another address of the same database, or none."""

Origins = Annotated[WordList, AfterValidator(_origins)]
"""Origins of pages, in lower case."""

HostNames = Annotated[WordList, AfterValidator(_hosts)]
"""Host names in lower case; ``*.`` stands for any subdomain, ``*`` alone for any host."""

FrameSources = Annotated[WordList, AfterValidator(_frame_sources)]
"""Sources of the CSP directive ``frame-ancestors``."""

TrustedProxies = Annotated[WordList, AfterValidator(_networks)]
"""Addresses and networks of proxies; none if ``trusted_hops`` is set."""

PublicUrl = Annotated[str | None, BeforeValidator(_none_if_empty), AfterValidator(_origin)]
"""The origin of a server, without a trailing slash, or none."""

BaseUrl = Annotated[str, AfterValidator(_check_router_url)]
"""Base URL of an endpoint for chat completions."""

OptionLimits = Annotated[WordList, AfterValidator(_option_limits)]
"""Options and their largest values."""
