"""The chat models listed by Hugging Face's router."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from spectator.clock import Clock
from spectator.text import clean_text

logger = logging.getLogger(__name__)

FRESH_S: Final = 600.0
"""Seconds that a list is cached."""

AGAIN_S: Final = 20.0
"""Seconds until a failed request is retried."""

TIMEOUT_S: Final = 10.0
MAX_BYTES: Final = 8 * 1024 * 1024
MOST_MODELS: Final = 2000
MOST_NAME: Final = 120


@dataclass(frozen=True, slots=True)
class RouterModel:
    """A model of the router.

    Args:
        context: Largest context in tokens among its providers; 0 if unknown.
    """

    id: str
    tools: bool
    context: int


class RouterModels:
    """Lists the router's chat models, without a token."""

    def __init__(self, router_url: str, clock: Clock) -> None:
        self._url = f"{router_url.rstrip('/')}/models"
        self._clock = clock
        self._models: tuple[RouterModel, ...] = ()
        self._until = 0.0
        self._reading = asyncio.Lock()

    async def listed(self) -> tuple[RouterModel, ...]:
        """Return the models by name; the last known list if the router fails."""
        async with self._reading:
            now = self._clock.monotonic()
            if now < self._until:
                return self._models
            try:
                self._models, self._until = await self._read(), now + FRESH_S
            except ValueError as error:
                self._until = now + AGAIN_S
                logger.warning("cannot read the router's list of models: %s", error)
            return self._models

    async def model(self, name: str) -> RouterModel | None:
        """Return the model of this name, which may end with a colon and a provider."""
        plain = name.partition(":")[0]
        return next((one for one in await self.listed() if one.id == plain), None)

    async def _read(self) -> tuple[RouterModel, ...]:
        """Request the list."""
        httpx = await asyncio.to_thread(import_module, "httpx")
        body = bytearray()
        try:
            async with (
                httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client,
                asyncio.timeout(TIMEOUT_S),
                client.stream("GET", self._url) as answer,
            ):
                if answer.status_code != 200:
                    raise ValueError(f"status {answer.status_code}")
                async for piece in answer.aiter_bytes():
                    body += piece
                    if len(body) > MAX_BYTES:
                        raise ValueError(f"it has more than {MAX_BYTES} bytes")
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise ValueError(type(error).__name__) from None
        return await asyncio.to_thread(models_in, bytes(body))


def models_in(body: bytes) -> tuple[RouterModel, ...]:
    """Return the chat models in a router's list, by name; other members are skipped.

    >>> models_in(b'{"data": [{"id": "b/two"}, {"id": "a/one", "providers": [{"supports_tools": true}]}, 7]}')
    (RouterModel(id='a/one', tools=True, context=0), RouterModel(id='b/two', tools=False, context=0))
    """
    import orjson

    said: Any = orjson.loads(body)
    data = said.get("data") if isinstance(said, dict) else None
    if not isinstance(data, list):
        raise ValueError("the list `data` is missing")
    found = {one.id: one for item in data if (one := _model_in(item)) is not None}
    return tuple(found[name] for name in sorted(found, key=str.lower)[:MOST_MODELS])


def _model_in(item: Any) -> RouterModel | None:
    name = item.get("id") if isinstance(item, dict) else None
    if not isinstance(name, str) or not name or clean_text(name, MOST_NAME) != name or " " in name:
        return None
    outputs = item.get("architecture")
    outputs = outputs.get("output_modalities") if isinstance(outputs, dict) else None
    if isinstance(outputs, list) and "text" not in outputs:
        return None
    sent = item.get("providers")
    providers = [one for one in sent if isinstance(one, dict)] if isinstance(sent, list) else []
    lengths = [one.get("context_length") for one in providers]
    return RouterModel(
        name,
        tools=any(one.get("supports_tools") is True for one in providers),
        context=max((length for length in lengths if isinstance(length, int) and length > 0), default=0),
    )
