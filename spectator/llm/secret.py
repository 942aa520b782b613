"""An API key that goes into one header and is masked everywhere else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from spectator.errors import ConfigurationError
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

    def begun_in(self, text: str) -> int:
        """Characters at the end of ``text`` that may be the beginning of the key.

        >>> ApiKey("sk-123456").begun_in("it is sk-12")
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
