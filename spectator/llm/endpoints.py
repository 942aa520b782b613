"""Model endpoints: addresses, API keys, and providers with their published prices.

A key goes into one request header and is masked everywhere else.
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
from spectator.text import encodable

MASK: Final = "[key]"

_USABLE: Final = re.compile(r"[\x21-\x7e]{1,4096}")
_BEARER: Final = re.compile(r"(?i)\bbearer\s+[^\s\"',;}]+")


class ApiKey:
    """A key that never shows itself: not in ``repr``, not in ``str``, not when pickled.

    Args:
        value: Printable ASCII without spaces, as an HTTP header takes it.

    Raises:
        ConfigurationError: It is not; the message does not repeat it.

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
        """The value of the ``Authorization`` header."""
        return f"Bearer {self._value}"

    def bare(self) -> str:
        """The key itself, for endpoints with a header of their own for it."""
        return self._value

    def mask(self, text: str) -> str:
        """``text`` without the key, should the endpoint have repeated it."""
        return text.replace(self._value, MASK) if len(self._value) > 4 else text

    def opened_run(self, text: str) -> int:
        """Characters at the end of ``text`` that may be the beginning of the key.

        >>> ApiKey("sk-123456").opened_run("it is sk-12")
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
        raise TypeError("a key is not pickled")


def cleaner(key: ApiKey | None) -> Callable[[str], str]:
    """What makes a text of an endpoint fit to be kept: without ``key``, and encodable.

    >>> cleaner(ApiKey("sk-123456"))("refused: sk-123456 \\ud800")
    'refused: [key] ?'
    """
    return encodable if key is None else lambda text: encodable(key.mask(text))


def mask(text: str, key: ApiKey | None) -> str:
    """``text`` without ``key`` and without anything else that looks like a bearer token."""
    return _BEARER.sub(f"Bearer {MASK}", text if key is None else key.mask(text))


_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")

_NAT64: Final = IPv6Network("64:ff9b::/96")


class Address(Protocol):
    """Where chat completions are asked for."""

    @property
    def base_url(self) -> str:
        """What all requests' URLs begin with."""
        ...

    @property
    def by_session(self) -> bool:
        """Whether every request must name its session."""
        ...

    def url(self, session: str | None) -> str:
        """The full URL for a request of ``session``.

        Raises:
            ConfigurationError: A session is needed and missing, or is not a plain name.
        """
        ...


@dataclass(frozen=True, slots=True)
class StaticAddress:
    """One URL for every request.

    Args:
        base_url: Up to and without ``/chat/completions``, such as ``https://router.huggingface.co/v1``.
    """

    base_url: str

    def __post_init__(self) -> None:
        check_base_url(self.base_url)

    @property
    def by_session(self) -> bool:
        """No request needs a session."""
        return False

    def url(self, session: str | None) -> str:
        """The URL; a session makes no difference."""
        return f"{self.base_url.rstrip('/')}/chat/completions"


@dataclass(frozen=True, slots=True)
class SessionAddress:
    """A URL for each session, for endpoints that keep the tokens of a conversation together.

    Args:
        base_url: The session's name and ``/chat/completions`` are appended to it.

    >>> SessionAddress("http://localhost:8000/v1").url("match-7")
    'http://localhost:8000/v1/match-7/chat/completions'
    """

    base_url: str

    def __post_init__(self) -> None:
        check_base_url(self.base_url)

    @property
    def by_session(self) -> bool:
        """Every request must name its session."""
        return True

    def url(self, session: str | None) -> str:
        """The URL of ``session``; see :meth:`Address.url`."""
        if session is None:
            raise ConfigurationError("this endpoint routes by session; the request names none")
        if not _SESSION.fullmatch(session):
            raise ConfigurationError(
                f"{session[:80]!r} cannot be part of a URL: use letters, digits and ._~-"
            )
        return f"{self.base_url.rstrip('/')}/{session}/chat/completions"


def check_base_url(base_url: str) -> str:
    """The base URL, if requests can be sent to it.

    Raises:
        ConfigurationError: It is not an http or https URL with a host, or it carries a password, a query, or
            the path of completions. The message does not repeat it, because it may hold a secret.
    """
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or re.search(r"[\s\x00-\x1f]", base_url):
        raise ConfigurationError("base_url must look like https://host/v1")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("base_url must not carry a password; name the key's variable in api_key_env")
    if parts.path.rstrip("/").endswith("/chat/completions"):
        raise ConfigurationError("base_url must end before /chat/completions, which is appended to it")
    if parts.query or parts.fragment:
        raise ConfigurationError("base_url must not carry a query or a fragment")
    return base_url


def is_public_address(address: str) -> bool:
    """Return whether an IP address belongs to the public internet.

    An IPv6 address that carries an IPv4 address (mapped, NAT64, 6to4) is public if that one is.

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
"""How requests and answers are written: chat completions, Anthropic's Messages, Gemini's generateContent."""


_DAY: Final = re.compile(r"-\d{4}-?\d{2}-?\d{2}")
"""What follows a model's name in the name of its version of a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What tokens cost at one provider, as published on a day; it may have changed since.

    Args:
        input: Price of ``per`` prompt tokens.
        output: Price of ``per`` tokens of the answer, thoughts included.
        cached_input: Price of ``per`` prompt tokens that the provider had at hand; as ``input`` if ``None``.
        cache_write: Price of ``per`` prompt tokens that it put into its cache; as ``input`` if ``None``.
        currency: ISO 4217.
        per: Tokens that the prices are for.
        as_of: The day on which they were published or last read; ``None`` for prices of the user's own.

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
            raise ValueError("prices are 0 or more, for at least one token")

    def cost(self, usage: Usage) -> float:
        """What ``usage`` costs, in ``currency``."""
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
    """What a captain of one provider need not say itself.

    Args:
        label: Its name, for people.
        base_url: Where it is asked.
        form: In which form.
        key_env: Variable that usually holds its key; ``None`` where it needs none.
        max_tokens_field: See :class:`spectator.llm.chat.ChatRequest`.
        stream: Whether answers are asked for while they form.
        send_seed: Whether it takes a seed.
        local: Whether it is a program on one's own machine, for which nobody is paid.
        tools_need: What must be done there before models can call tools; empty where nothing.
        context_needs: What must be done there for prompts of usual length; empty where nothing.
        prices: Of its models, by the beginning of their names; only those that were certain on their day.
    """

    label: str
    base_url: str
    form: Form = "openai"
    key_env: str | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream: bool = True
    send_seed: bool = True
    local: bool = False
    tools_need: str = ""
    context_needs: str = ""
    prices: Mapping[str, Price] = field(default_factory=dict)

    def price_of(self, model: str) -> Price | None:
        """The price of ``model``, or of that which it is a dated version of; ``None`` where it is not known.

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
            stream=False,  # organisations that are not verified may not stream its newer models
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
            label="Hugging Face", base_url="https://router.huggingface.co/v1", key_env="HF_TOKEN"
        ),
        "ollama": Provider(
            label="Ollama",
            base_url="http://127.0.0.1:11434/v1",
            local=True,
            tools_need="choose a model that its library lists under tools",
            context_needs="set OLLAMA_CONTEXT_LENGTH for its server; else it cuts prompts at 4096 tokens",
        ),
        "vllm": Provider(
            label="vLLM",
            base_url="http://127.0.0.1:8001/v1",
            local=True,
            tools_need="start it with --enable-auto-tool-choice and the model's --tool-call-parser",
            context_needs="start it with a larger --max-model-len",
        ),
        "sglang": Provider(
            label="SGLang",
            base_url="http://127.0.0.1:30000/v1",
            local=True,
            tools_need="start it with the model's --tool-call-parser",
            context_needs="start it with a larger --context-length",
        ),
        "llama.cpp": Provider(
            label="llama.cpp",
            base_url="http://127.0.0.1:8080/v1",
            local=True,
            tools_need="start llama-server with --jinja",
            context_needs="start llama-server with a larger --ctx-size",
        ),
    }
)
"""The providers that captains can name, by what they call them."""
