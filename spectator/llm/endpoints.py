"""Model endpoints: addresses, API keys, and providers with their published prices.

A key is sent in one request header and masked everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from types import MappingProxyType
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

from spectator.errors import ConfigurationError
from spectator.llm.chat import Usage
from spectator.llm.constraint import ConstraintSetting
from spectator.text import encodable

MASK: Final = "[key]"

_USABLE: Final = re.compile(r"[\x21-\x7e]{1,4096}")
_BEARER: Final = re.compile(r"(?i)\bbearer\s+[^\s\"',;}]+")


class ApiKey:
    """A key that never appears in ``repr`` or ``str`` and cannot be pickled.

    Args:
        value: Printable ASCII without spaces, as HTTP headers require.

    Raises:
        ConfigurationError: The value is invalid; the message does not contain it.

    >>> key = ApiKey("sk-123456")
    >>> key, key.mask("refused: sk-123456")
    (ApiKey(...), 'refused: [key]')
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not _USABLE.fullmatch(value):
            raise ConfigurationError("a key must be printable ASCII without spaces")
        self._value = value

    def header(self) -> str:
        """Return the value of the ``Authorization`` header."""
        return f"Bearer {self._value}"

    def bare(self) -> str:
        """Return the key itself, for endpoints with another header for it."""
        return self._value

    def mask(self, text: str) -> str:
        """Return ``text`` with the key masked."""
        return text.replace(self._value, MASK) if len(self._value) > 4 else text

    def prefix_at_end(self, text: str) -> int:
        """Return the length of the key's beginning that ``text`` ends with.

        >>> ApiKey("sk-123456").prefix_at_end("it is sk-12")
        5
        """
        first = self._value[0]
        at = text.find(first, max(0, len(text) - len(self._value) + 1)) if len(self._value) > 4 else -1
        while at >= 0 and not self._value.startswith(text[at:]):
            at = text.find(first, at + 1)
        return len(text) - at if at >= 0 else 0

    def __repr__(self) -> str:
        return "ApiKey(...)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("an API key cannot be pickled")


def cleaner(key: ApiKey | None) -> Callable[[str], str]:
    """Return a function that masks ``key`` in a text and makes the text encodable.

    >>> cleaner(ApiKey("sk-123456"))("refused: sk-123456 \\ud800")
    'refused: [key] ?'
    """
    return encodable if key is None else lambda text: encodable(key.mask(text))


def mask(text: str, key: ApiKey | None) -> str:
    """Return ``text`` with ``key`` and everything like a bearer token masked."""
    return _BEARER.sub(f"Bearer {MASK}", text if key is None else key.mask(text))


_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")

_NAT64: Final = IPv6Network("64:ff9b::/96")


class Address(Protocol):
    """Address of an endpoint for chat completions."""

    @property
    def base_url(self) -> str:
        """Common beginning of all requests' URLs."""
        ...

    @property
    def by_session(self) -> bool:
        """Whether every request must name its session."""
        ...

    def url(self, session: str | None) -> str:
        """Return the full URL for a request of ``session``.

        Raises:
            ConfigurationError: A session is required and missing, or its name is invalid.
        """
        ...


@dataclass(frozen=True, slots=True)
class StaticAddress:
    """One URL for every request.

    Args:
        base_url: The URL before ``/chat/completions``, such as ``https://router.huggingface.co/v1``.
    """

    base_url: str

    def __post_init__(self) -> None:
        check_base_url(self.base_url)

    @property
    def by_session(self) -> bool:
        """Always false."""
        return False

    def url(self, session: str | None) -> str:
        """Return the URL, which is the same for every session."""
        return f"{self.base_url.rstrip('/')}/chat/completions"


@dataclass(frozen=True, slots=True)
class SessionAddress:
    """One URL per session, for endpoints that keep the tokens of each conversation.

    Args:
        base_url: The URL to which the session's name and ``/chat/completions`` are appended.

    >>> SessionAddress("http://localhost:8000/v1").url("match-7")
    'http://localhost:8000/v1/match-7/chat/completions'
    """

    base_url: str

    def __post_init__(self) -> None:
        check_base_url(self.base_url)

    @property
    def by_session(self) -> bool:
        """Always true."""
        return True

    def url(self, session: str | None) -> str:
        """Return the URL of ``session``; see :meth:`Address.url`."""
        if session is None:
            raise ConfigurationError("this endpoint routes by session; pass a session with each request")
        if not _SESSION.fullmatch(session):
            raise ConfigurationError(
                f"the session {session[:80]!r} cannot be part of a URL; use letters, digits and ._~-"
            )
        return f"{self.base_url.rstrip('/')}/{session}/chat/completions"


def check_base_url(base_url: str) -> str:
    """Return the base URL, if it is valid.

    Raises:
        ConfigurationError: It is not an http or https URL with a host, or it contains a password, a query,
            or the path of completions. The message does not repeat it, because it may contain a secret.
    """
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or re.search(r"[\s\x00-\x1f]", base_url):
        raise ConfigurationError("base_url must look like https://host/v1")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            "base_url must not contain a password; set api_key_env to the variable with the key"
        )
    if parts.path.rstrip("/").endswith("/chat/completions"):
        raise ConfigurationError("base_url must end before /chat/completions, which is appended to it")
    if parts.query or parts.fragment:
        raise ConfigurationError("base_url must not contain a query or a fragment")
    return base_url


def is_public_address(address: str) -> bool:
    """Return whether an IP address belongs to the public internet.

    An IPv6 address that contains an IPv4 address (mapped, NAT64, 6to4) is public if the IPv4 address is.

    Args:
        address: As the operating system writes it, such as ``203.0.113.7`` or ``fe80::1%eth0``.

    >>> [is_public_address(one) for one in ("1.1.1.1", "10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1")]
    [True, False, False, False]
    """
    found: IPv4Address | IPv6Address = ip_address(address)
    if isinstance(found, IPv6Address):
        if (carried := found.ipv4_mapped or found.sixtofour) is not None:
            return is_public_address(str(carried))
        if found in _NAT64:
            return is_public_address(str(IPv4Address(int(found) & 0xFFFF_FFFF)))
        if found.is_site_local:
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved


Form = Literal["openai", "anthropic", "gemini"]
"""API of an endpoint: chat completions, Anthropic's Messages, Gemini's generateContent."""

_DAY: Final = re.compile(r"-\d{4}-?\d{2}-?\d{2}")
"""Suffix of a dated version of a model, such as ``-2025-08-07`` or ``-20251001``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Token prices of a model, as published on one day; they may have changed since.

    Args:
        input: Price of ``per`` prompt tokens.
        output: Price of ``per`` tokens of the answer, thoughts included.
        cached_input: Price of ``per`` prompt tokens read from the provider's cache; ``input`` if ``None``.
        cache_write: Price of ``per`` prompt tokens written to its cache; ``input`` if ``None``.
        currency: ISO 4217.
        per: Number of tokens that the prices are for.
        as_of: The day on which they were published or last checked; ``None`` for prices set by the user.

    Raises:
        ValueError: A price is negative, or ``per`` is not at least 1.

    >>> Price(input=1.0, cached_input=0.1, output=5.0).cost(Usage(1_000, 200, cached_in=900))
    0.00119
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    currency: str = "USD"
    per: int = 1_000_000
    as_of: date | None = None

    def __post_init__(self) -> None:
        prices = (self.input, self.output, self.cached_input or 0.0, self.cache_write or 0.0)
        if not all(price >= 0 for price in prices) or self.per < 1:
            raise ValueError("prices must be 0 or more, and per at least 1")

    def cost(self, usage: Usage) -> float:
        """Return the cost of ``usage``, in ``currency``."""
        cached = min(usage.cached_in, usage.tokens_in)
        written = min(usage.cache_written, usage.tokens_in - cached)
        read_at = self.input if self.cached_input is None else self.cached_input
        written_at = self.input if self.cache_write is None else self.cache_write
        fresh = usage.tokens_in - cached - written
        taken = fresh * self.input + cached * read_at + written * written_at + usage.tokens_out * self.output
        return taken / self.per

    def __str__(self) -> str:
        cached = "" if self.cached_input is None else f" ({self.cached_input:g} cached)"
        published = "" if self.as_of is None else f", as published on {self.as_of.isoformat()}"
        tokens = "a million" if self.per == 1_000_000 else f"{self.per:,}"
        return (
            f"{self.input:g}{cached} in, {self.output:g} out, {self.currency} for {tokens} tokens{published}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Default settings of the captains of one provider.

    Args:
        label: Display name.
        form: API that it uses.
        key_env: Environment variable that usually holds its key; ``None`` if it needs no key.
        max_tokens_field: See :class:`spectator.llm.chat.ChatRequest`.
        stream: Whether to request answers as a stream.
        send_seed: Whether it accepts a seed.
        constraint: How captains constrain answers there unless they say otherwise. Providers that charge less
            for cached prompts have none by default: a schema changes with the legal actions, and with it the
            beginning of the prompt.
        local: Whether it is a program on the user's machine, which costs nothing.
        tools_need: How to enable tool calls there; empty if always enabled.
        context_needs: How to enable prompts of the usual length there; empty if always enabled.
        prices: Known prices, by model name.
    """

    label: str
    base_url: str
    form: Form = "openai"
    key_env: str | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream: bool = True
    send_seed: bool = True
    constraint: ConstraintSetting = "none"
    local: bool = False
    tools_need: str = ""
    context_needs: str = ""
    prices: Mapping[str, Price] = field(default_factory=dict)

    def price_of(self, model: str) -> Price | None:
        """Return the price of ``model``, or of the model that it is a dated version of.

        >>> PROVIDERS["anthropic"].price_of("claude-haiku-4-5-20251001").output
        5.0
        >>> PROVIDERS["openai"].price_of("gpt-5-mini-pro") is None
        True
        """
        for name, price in self.prices.items():
            if model == name or (model.startswith(name) and _DAY.fullmatch(model, len(name))):
                return price
        return None


_ANTHROPIC: Final = date(2026, 10, 10)
_OPENAI: Final = date(2025, 8, 7)
_GEMINI: Final = date(2025, 6, 17)

PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        "openai": Provider(
            label="OpenAI",
            base_url="https://api.openai.com/v1",
            key_env="OPENAI_API_KEY",
            max_tokens_field="max_completion_tokens",
            stream=False,  # unverified organizations may not stream its newer models
            prices={
                "gpt-5-mini": Price(input=0.25, cached_input=0.025, output=2.0, as_of=_OPENAI),
                "gpt-5-nano": Price(input=0.05, cached_input=0.005, output=0.4, as_of=_OPENAI),
                "gpt-5": Price(input=1.25, cached_input=0.125, output=10.0, as_of=_OPENAI),
            },
        ),
        "anthropic": Provider(
            label="Anthropic",
            base_url="https://api.anthropic.com/v1",
            form="anthropic",
            key_env="ANTHROPIC_API_KEY",
            send_seed=False,
            prices={
                "claude-haiku-4-5": Price(
                    input=1.0, cached_input=0.1, cache_write=1.25, output=5.0, as_of=_ANTHROPIC
                ),
                "claude-opus-4-5": Price(
                    input=5.0, cached_input=0.5, cache_write=6.25, output=25.0, as_of=_ANTHROPIC
                ),
            },
        ),
        "gemini": Provider(
            label="Gemini",
            base_url="https://generativelanguage.googleapis.com/v1beta",
            form="gemini",
            key_env="GEMINI_API_KEY",
            prices={"gemini-2.5-flash": Price(input=0.3, output=2.5, as_of=_GEMINI)},
        ),
        "openrouter": Provider(
            label="OpenRouter", base_url="https://openrouter.ai/api/v1", key_env="OPENROUTER_API_KEY"
        ),
        "huggingface": Provider(
            label="Hugging Face",
            base_url="https://router.huggingface.co/v1",
            key_env="HF_TOKEN",
            constraint="auto",
        ),
        "ollama": Provider(
            label="Ollama",
            base_url="http://127.0.0.1:11434/v1",
            constraint="auto",
            local=True,
            tools_need="choose a model that its library lists under tools",
            context_needs="set OLLAMA_CONTEXT_LENGTH for its server; else it cuts prompts at 4096 tokens",
        ),
        "vllm": Provider(
            label="vLLM",
            base_url="http://127.0.0.1:8001/v1",
            constraint="auto",
            local=True,
            tools_need="start it with --enable-auto-tool-choice and the model's --tool-call-parser",
            context_needs="start it with a larger --max-model-len",
        ),
        "sglang": Provider(
            label="SGLang",
            base_url="http://127.0.0.1:30000/v1",
            constraint="auto",
            local=True,
            tools_need="start it with the model's --tool-call-parser",
            context_needs="start it with a larger --context-length",
        ),
        "llama.cpp": Provider(
            label="llama.cpp",
            base_url="http://127.0.0.1:8080/v1",
            constraint="auto",
            local=True,
            tools_need="start llama-server with --jinja",
            context_needs="start llama-server with a larger --ctx-size",
        ),
    }
)
"""The known providers, by the name that captains use for them."""
