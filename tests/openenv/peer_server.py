"""An environment behind the official OpenEnv server; runs where the ``openenv`` package is.

    peer_server.py

Prints the port that it listens on, and serves until its standard input is closed. The environment echoes a
message, rewards short ones and penalises long ones, and raises when it is told to.
"""

from __future__ import annotations

import socket
import sys
import threading
from typing import Any

import uvicorn
from openenv.core.env_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Say(Action):  # type: ignore[misc]
    message: str


class Echo(Observation):  # type: ignore[misc]
    echoed: str
    left: int


class EchoEnvironment(Environment[Say, Echo, State]):  # type: ignore[misc]
    """Says back what it is told, ``messages`` times."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Echo:
        self._state = State(episode_id=episode_id, step_count=0)
        self._left = int(kwargs.get("messages", 3))
        return Echo(echoed=f"seed {seed}", left=self._left, done=False, reward=None)

    def step(self, action: Say, timeout_s: float | None = None, **kwargs: Any) -> Echo:
        if action.message == "raise":
            raise KeyError("as it was told")
        self._state.step_count += 1
        self._left -= 1
        reward = 0.5 if len(action.message) < 10 else -0.25
        return Echo(echoed=action.message, left=self._left, done=self._left == 0, reward=reward)

    @property
    def state(self) -> State:
        return self._state


def main() -> None:
    """Serve."""
    app = create_fastapi_app(EchoEnvironment, Say, Echo, max_concurrent_envs=4)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))

    def stop() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=stop, daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
