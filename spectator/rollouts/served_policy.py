"""The policy that the endpoint of a run serves now: its version, address and name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spectator.errors import FieldError, InvalidRequest
from spectator.llm.chat import ChatRequest
from spectator.llm.endpoints import Address, check_base_url


class ServedPolicy:
    """The policy that later requests of a run ask, which a trainer changes as it learns.

    Where the endpoint reports the version of its weights, what it reports is recorded instead.

    Example:
        >>> served = ServedPolicy()
        >>> served.update(3)
        >>> served.version()
        '3'
        >>> served.update(2)
        Traceback (most recent call last):
        spectator.errors.InvalidRequest: version: 2 is older than 3, which is in use; use 3 or more
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._model: str | None = None
        self.base_url: str | None = None
        """URL of the endpoint; ``None`` for the request's."""

    def version(self) -> str | None:
        """Return its version, as recorded; ``None`` if the trainer stated none."""
        return None if self._number is None else str(self._number)

    def update(self, version: int, *, base_url: str | None = None, model: str | None = None) -> None:
        """Mark what is sampled from now on.

        Args:
            version: Number of the weights, such as the training step; never less than the last one.
            base_url: URL of the endpoint that serves them; unchanged if omitted.
            model: Their name at the endpoint; unchanged if omitted.

        Raises:
            InvalidRequest: The version is older or not a whole number of at least 0.
            ConfigurationError: The URL is invalid.
        """
        if isinstance(version, bool) or not isinstance(version, int) or version < 0:
            raise _wrong(f"{version!r} is not a whole number of at least 0; use the training step")
        if self._number is not None and version < self._number:
            used = self._number
            raise _wrong(f"{version} is older than {used}, which is in use; use {used} or more")
        if model is not None and not model:
            raise InvalidRequest([FieldError("model", "the name is empty; omit it to keep the present one")])
        if base_url is not None:
            self.base_url = check_base_url(base_url)
        self._model = model or self._model
        self._number = version

    def addressed(self, request: ChatRequest) -> ChatRequest:
        """Return ``request`` with the present name of the model."""
        return request if self._model is None else replace(request, model=self._model)


class ServedAddress:
    """The address at which a policy is served now.

    Args:
        base_url: URL of the endpoint until the trainer names another.
        kind: Makes the address from a URL.
    """

    def __init__(self, served: ServedPolicy, base_url: str, kind: Callable[[str], Address]) -> None:
        self._served = served
        self._kind = kind
        self._last = kind(base_url)

    def _now(self) -> Address:
        if self._served.base_url not in (None, self._last.base_url):
            self._last = self._kind(str(self._served.base_url))
        return self._last

    @property
    def base_url(self) -> str:
        """See :class:`.Address`."""
        return self._now().base_url

    @property
    def by_session(self) -> bool:
        """See :class:`.Address`."""
        return self._last.by_session

    def url(self, session: str | None) -> str:
        """See :meth:`.Address.url`."""
        return self._now().url(session)


def _wrong(rule: str) -> InvalidRequest:
    return InvalidRequest([FieldError("version", rule)])
