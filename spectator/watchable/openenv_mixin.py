"""A mixin that shows somebody's own OpenEnv environment on a Spectator server.

It needs only ``websockets``, and never slows the environment: a thread of its own tells the server what
happened, and when the server is away or too slow the episode is played on unseen.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

logger = logging.getLogger(__name__)

WAITING: Final = 1000
"""Messages that may wait to be sent; an episode beyond that is shown no further."""

PATIENCE_S: Final = 10.0
"""How long the server may take to open, and to take a message."""

CLOSE_S: Final = 2.0
"""How long ``close`` waits for what is still to be sent."""


@dataclass(frozen=True, slots=True)
class Spectator:
    """Where episodes are shown, and as what.

    Args:
        url: The server's address, such as ``http://localhost:8000``.
        token: Its operator's token; not needed on its own machine when none is set.
        environment: Short name of the environment, ``[a-z][a-z0-9_]*``; from the class's name when empty.
        title: Its name as shown to people; the class's name when empty.
        agent: Name shown for whoever decides.
    """

    url: str
    token: str | None = None
    environment: str = ""
    title: str = ""
    agent: str = "Agent"


class Watchable:
    """Put before OpenEnv's ``Environment`` among the bases, with ``spectator`` set on the class.

    Taps ``reset``, ``step`` and ``close``; the environment itself is not changed. Actions that carry
    ``metadata["reasoning"]`` or ``reasoning`` have it shown beside them.
    """

    spectator: Spectator
    _publisher: EpisodePublisher | None = None

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Begin an episode, shown to everybody."""
        observation = super().reset(*args, **kwargs)  # type: ignore[misc]
        if self._publisher is not None:
            self._publisher.close(wait=False)
        self._publisher = EpisodePublisher(
            self.spectator, type(self).__name__, kwargs.get("seed"), observation
        )
        return observation

    def step(self, action: Any, *args: Any, **kwargs: Any) -> Any:
        """Carry out an action, shown to everybody."""
        began = time.monotonic()
        observation = super().step(action, *args, **kwargs)  # type: ignore[misc]
        if self._publisher is not None:
            self._publisher.step(action, observation, time.monotonic() - began)
        return observation

    def close(self) -> None:
        """Let the environment go, and say so."""
        if self._publisher is not None:
            self._publisher.close(wait=True)
            self._publisher = None
        super().close()  # type: ignore[misc]


class EpisodePublisher:
    """Publishes one episode to a server, on a thread of its own.

    Args:
        place: Where.
        kind: Name of the environment's class.
        seed: Its seed, if it was given one.
        observation: What it showed first.
    """

    def __init__(self, place: Spectator, kind: str, seed: object, observation: Any) -> None:
        self._place = place
        self._waiting: queue.Queue[str | None] = queue.Queue(WAITING)
        self._gone = False
        self._shown_at = time.monotonic()
        self._send(
            {
                "begin": {
                    "environment": place.environment or _snake(kind),
                    "title": place.title or kind,
                    "agent": place.agent,
                    "seed": seed if isinstance(seed, int) and seed >= 0 else None,
                    "observation": _plain(observation),
                }
            }
        )
        self._thread = threading.Thread(target=self._publish, name="spectator", daemon=True)
        self._thread.start()

    def step(self, action: Any, observation: Any, took: float) -> None:
        """One action was carried out.

        Args:
            action: The action.
            observation: What came of it.
            took: Seconds that it took.
        """
        reward = getattr(observation, "reward", None)
        told = {
            "action": _plain(action),
            "reasoning": _reasoning(action),
            "observation": _plain(observation),
            "reward": float(reward) if isinstance(reward, int | float) else 0.0,
            "done": bool(getattr(observation, "done", False)),
            "latency_s": max(0.0, time.monotonic() - self._shown_at - took),
            "duration_s": took,
        }
        self._send({"step": told})
        self._shown_at = time.monotonic()

    def close(self, *, wait: bool) -> None:
        """Nothing more comes."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        if wait:
            self._thread.join(CLOSE_S)

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._gone:
            return
        try:
            self._waiting.put_nowait(json.dumps(message, default=str))
        except (queue.Full, TypeError, ValueError) as error:
            self._gone = True
            logger.warning("the episode is shown no further: %s", error or "the server is too slow")

    def _publish(self) -> None:
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        address = self._place.url.rstrip("/").replace("http", "ws", 1) + "/publish"
        headers = {"Authorization": f"Bearer {self._place.token}"} if self._place.token else {}
        try:
            with connect(
                address, additional_headers=headers, open_timeout=PATIENCE_S, close_timeout=CLOSE_S
            ) as socket:
                first = self._waiting.get()
                socket.send(first or "")
                answer = json.loads(socket.recv(timeout=PATIENCE_S))
                if "refused" in answer:
                    raise OSError(answer["refused"])
                logger.info("watch at %s%s", self._place.url.rstrip("/"), answer["watch_url"])
                while (message := self._waiting.get()) is not None and not self._gone:
                    socket.send(message)
        except (OSError, TimeoutError, ValueError, WebSocketException) as error:
            self._gone = True
            logger.warning("the episode is not shown at %s: %s", self._place.url, error)


def _plain(value: Any) -> Any:
    """A pydantic model or a mapping as JSON takes it."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return dict(value) if isinstance(value, Mapping) else {"value": str(value)}


def _reasoning(action: Any) -> str:
    plain = _plain(action)
    metadata = plain.get("metadata")
    said = plain.get("reasoning") or (metadata.get("reasoning") if isinstance(metadata, Mapping) else None)
    return said if isinstance(said, str) else ""


def _snake(name: str) -> str:
    parts = "".join(
        f"_{letter.lower()}" if letter.isupper() else letter for letter in name if letter.isalnum()
    )
    return parts.strip("_")[:64] or "environment"
