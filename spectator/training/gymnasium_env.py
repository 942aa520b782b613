"""Gymnasium environments, in text; once imported, ``gymnasium.make("spectator/counting-v1")`` makes one."""

from __future__ import annotations

import string
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import gymnasium
from gymnasium.vector import SyncVectorEnv

from spectator.catalog import world_names
from spectator.environments.world import MAX_SEED
from spectator.observations import Observation
from spectator.training.text_episode import TextEpisode

if TYPE_CHECKING:
    from spectator.training.recorded_run import RecordedRun

MAX_TEXT: Final = 262_144
"""Characters of an observation; a longer one is cut."""

MAX_ACTION: Final = 4_096
"""Characters of an action."""

CHARACTERS: Final = frozenset(string.printable) | {chr(code) for code in range(0xA0, 0x2100)}
"""Characters of observations and actions; any other one that a world shows becomes ``?``."""


class SpectatorEnv(gymnasium.Env[str, str]):
    """A world of the catalogue, its opponent playing within the same step.

    Observations are text: the brief and the whole situation at first, then the lines that changed. An action
    is text that names a tool, such as ``{"tool": "say", "arguments": {"text": "ACTION: 1"}}``; one that names
    none that is legal is refused and counted. The rewards add up to the score; a truncated episode ends with
    ``truncated`` and its worth so far in ``info["value"]``.

    ``info`` holds ``observation`` (whole), ``legal`` (names of the tools that are legal now), ``rubric`` and
    ``value``.

    Args:
        world: Name in the catalogue.
        opponent: Preset that takes every other seat.
        render_mode: ``ansi``, or ``None``.
        run: Where episodes are recorded while they are played, so that a server shows them.
        options: The world's options.

    Raises:
        InvalidRequest: There is no such world.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012  # as Gymnasium declares it
        "render_modes": ["ansi"],
        "render_fps": 1,
    }

    def __init__(
        self,
        world: str,
        opponent: str | None = None,
        render_mode: str | None = None,
        run: RecordedRun | None = None,
        **options: Any,
    ) -> None:
        self.render_mode = render_mode
        self._episode = TextEpisode(world, options, opponent=opponent, run=run)
        self.observation_space = gymnasium.spaces.Text(MAX_TEXT, min_length=0, charset=CHARACTERS)
        self.action_space = gymnasium.spaces.Text(MAX_ACTION, min_length=0, charset=CHARACTERS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Seeds the generator from which the seeds of this and later episodes are drawn.
            options: Further options of the world; ``seed`` among them is the seed of the episode itself.

        Raises:
            InvalidRequest: An option is wrong.
        """
        super().reset(seed=seed)
        asked = dict(options or {})
        drawn = asked.pop("seed", None)
        drawn = int(self.np_random.integers(MAX_SEED, endpoint=True)) if drawn is None else drawn
        text = self._episode.reset(drawn, asked)
        return _plain(text), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carry out an action and play on until the agent is asked again."""
        text = self._episode.answer(action)
        done, truncated = self._episode.done, self._episode.truncated
        reward = float(self._episode.observation.reward)
        return _plain(text), reward, done and not truncated, truncated, self._info()

    def render(self) -> str | None:
        """The last observation, with ``render_mode="ansi"``."""
        return _plain(self._episode.text) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Let go of everything."""
        self._episode.close()

    @property
    def observation(self) -> Observation:
        """The last observation, whole.

        Raises:
            NoEpisode: ``reset`` was not called.
        """
        return self._episode.observation

    def _info(self) -> dict[str, Any]:
        seen = self._episode.observation
        legal = self._episode.world.briefing.legal(seen)
        return {
            "observation": deepcopy(seen.to_json()),
            "legal": [one["tool"] for one in legal] if not seen.done else [],
            "rubric": self._episode.rubric,
            "value": self._episode.value,
        }


def _plain(text: str) -> str:
    """``text`` within the space of observations."""
    return "".join(one if one in CHARACTERS else "?" for one in text[:MAX_TEXT])


def vector_env(num_envs: int, world: str, **options: Any) -> SyncVectorEnv:
    """So many environments of one world, stepped one after the other in this process.

    Args:
        num_envs: How many.
        world: Name in the catalogue.
        options: As :class:`SpectatorEnv` takes them.
    """
    return SyncVectorEnv([partial(SpectatorEnv, world, **options) for _ in range(num_envs)])


def register_worlds() -> None:
    """Register every world that is here as ``spectator/NAME-v1``; importing this module does so."""
    for name in world_names():
        if f"spectator/{name}-v1" not in gymnasium.registry:
            gymnasium.register(
                f"spectator/{name}-v1",
                entry_point="spectator.training.gymnasium_env:SpectatorEnv",
                vector_entry_point="spectator.training.gymnasium_env:vector_env",
                kwargs={"world": name},
            )


register_worlds()
