"""What is shown to everybody by whoever uses the official package; runs where that is.

    peer_publish.py BASE_URL

Plays one published episode through the official client, then one in an environment of its own.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from openenv.core import GenericEnvClient
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from spectator.watchable import Spectator, Watchable


class Guess(Action):  # type: ignore[misc]
    number: int


class Hint(Observation):  # type: ignore[misc]
    hint: str


class GuessEnvironment(Environment[Guess, Hint, State]):  # type: ignore[misc]
    """Guess the number."""

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Hint:
        self._steps = 0
        return Hint(hint="from 1 to 100", done=False, reward=0.0)

    def step(self, action: Guess, timeout_s: float | None = None, **kwargs: Any) -> Hint:
        self._steps += 1
        found = action.number == 37
        hint = "yes" if found else "higher" if action.number < 37 else "lower"
        return Hint(hint=hint, done=found, reward=1.0 if found else 0.0)

    @property
    def state(self) -> State:
        return State(step_count=self._steps)


class PublishedEpisode(Watchable, GuessEnvironment):
    """The same, for everybody to see."""

    spectator = Spectator(sys.argv[1], environment="guess", title="Guess the number", agent="Bisection")


def through_the_client(base_url: str) -> dict[str, Any]:
    with GenericEnvClient(base_url=base_url).sync() as env:
        result = env.reset(seed=1, turns=4, publish=True, publish_as="official client")
        place = result.observation["metadata"]["published"]
        while not result.done:
            said = f"ACTION: {result.observation['next']}"
            result = env.step({"text": said, "metadata": {"reasoning": "it is next"}})
    return {**place, "done": result.done}


def in_an_environment_of_ones_own() -> int:
    env = PublishedEpisode()
    low, high, steps = 1, 100, 0
    env.reset(seed=1)
    while True:
        number, steps = (low + high) // 2, steps + 1
        hint = env.step(Guess(number=number, metadata={"reasoning": f"halfway from {low} to {high}"})).hint
        if hint == "yes":
            break
        low, high = (number + 1, high) if hint == "higher" else (low, number - 1)
    env.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "spectator"]
    return steps


print(json.dumps({"client": through_the_client(sys.argv[1]), "steps": in_an_environment_of_ones_own()}))
