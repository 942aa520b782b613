"""A mixin that shows a user's OpenEnv environment on a Spectator server.

It needs only ``websockets`` and does not slow the environment: a thread sends the steps to the server. If the
server is unavailable or too slow, the episode continues without being shown.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spectator.watchable.loop_values import attempted, encoded, finite, words_of

logger = logging.getLogger(__name__)

WAITING: Final = 1000
"""Maximum number of unsent messages; beyond it, the episode is no longer shown."""

PATIENCE_S: Final = 10.0
"""Timeout for connecting and for the server's answer, seconds."""

LONGEST: Final = 256 * 1024
"""Maximum size of a message, bytes: that of the server."""

CLOSE_S: Final = 2.0
"""How long ``close`` waits for unsent messages, seconds."""


@dataclass(frozen=True, slots=True)
class Spectator:
    """The server that shows the episodes, and their names.

    Args:
        url: The server's address, such as ``http://localhost:8000``.
        token: The server's operator token; not needed on the same machine if none is set.
        environment: Short name of the environment, ``[a-z][a-z0-9_]*``; default: from the class name.
        title: Display name of the environment; default: the class name.
        agent: Display name of the agent.
    """

    url: str
    token: str | None = None
    environment: str = ""
    title: str = ""
    agent: str = "Agent"


class Watchable:
    """Mixin to list before OpenEnv's ``Environment``; set ``spectator`` on the class.

    Reports ``reset``, ``step`` and ``close`` without changing them. An action's ``reasoning`` or
    ``metadata["reasoning"]`` is shown with it.
    """

    spectator: Spectator
    _publisher: EpisodePublisher | None = None

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Reset the environment and begin to publish an episode."""
        observation = super().reset(*args, **kwargs)  # type: ignore[misc]
        if self._publisher is not None:
            self._publisher.close(wait=False)
        self._publisher = EpisodePublisher(
            self.spectator, type(self).__name__, kwargs.get("seed"), observation
        )
        return observation

    def step(self, action: Any, *args: Any, **kwargs: Any) -> Any:
        """Step the environment and publish the step."""
        began = time.monotonic()
        observation = super().step(action, *args, **kwargs)  # type: ignore[misc]
        if self._publisher is not None:
            self._publisher.step(action, observation, time.monotonic() - began)
        return observation

    def close(self) -> None:
        """End the published episode and close the environment."""
        if self._publisher is not None:
            self._publisher.close(wait=True)
            self._publisher = None
        super().close()  # type: ignore[misc]


class EpisodePublisher:
    """Publishes one episode to a server, on a separate thread.

    Args:
        place: The server, and the episode's names.
        kind: Name of the environment's class.
        seed: Seed of the episode, if given.
        observation: The first observation.
    """

    def __init__(self, place: Spectator, kind: str, seed: object, observation: Any) -> None:
        self._place = place
        self._waiting: queue.Queue[str | None] = queue.Queue(WAITING)
        self._gone = False
        self._shown_at = time.monotonic()
        self._send(
            lambda: {
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
        self._give_up(attempted(self._thread.start)[1])

    def step(self, action: Any, observation: Any, took: float) -> None:
        """Publish a step.

        Args:
            action: The action.
            observation: The observation after it.
            took: Duration of the step, seconds.
        """
        latency = max(0.0, time.monotonic() - self._shown_at - took)
        self._send(
            lambda: {
                "step": {
                    "action": _plain(action),
                    "reasoning": _reasoning(action),
                    "observation": _plain(observation),
                    "reward": finite(getattr(observation, "reward", None)) or 0.0,
                    "done": bool(getattr(observation, "done", False)),
                    "latency_s": latency,
                    "duration_s": took,
                }
            }
        )
        self._shown_at = time.monotonic()

    def close(self, *, wait: bool) -> None:
        """End the episode; with ``wait``, wait until it is sent, at most :data:`CLOSE_S`."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        if wait and self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def _send(self, message: Callable[[], Mapping[str, Any]]) -> None:
        if not self._gone:
            self._give_up(
                attempted(lambda: self._waiting.put_nowait(encoded(message(), LONGEST).decode()))[1]
            )

    def _give_up(self, error: Exception | None) -> None:
        if error is not None:
            self._gone = True
            why = "the server is too slow" if isinstance(error, queue.Full) else words_of(error)
            attempted(logger.warning, "the rest of the episode is not shown: %s", why)

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
        except (OSError, TimeoutError, ValueError, KeyError, TypeError, WebSocketException) as error:
            self._gone = True
            logger.warning("the episode is not shown at %s: %s", self._place.url, words_of(error))


def _plain(value: Any) -> Any:
    """Return a pydantic model or a mapping as JSON."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return dict(value) if isinstance(value, Mapping) else {"value": str(value)}


def _reasoning(action: Any) -> str:
    plain = _plain(action)
    metadata = plain.get("metadata")
    text = plain.get("reasoning") or (metadata.get("reasoning") if isinstance(metadata, Mapping) else None)
    return text if isinstance(text, str) else ""


def _snake(name: str) -> str:
    parts = "".join(
        f"_{letter.lower()}" if letter.isupper() else letter for letter in name if letter.isalnum()
    )
    return parts.strip("_")[:64] or "environment"
