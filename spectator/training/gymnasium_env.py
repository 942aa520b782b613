"""Gymnasium environments with text observations and actions.

Importing this module registers them: ``gymnasium.make("spectator/counting-v1")``.
"""

from __future__ import annotations

import string
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import gymnasium
from gymnasium.vector import SyncVectorEnv

from spectator.catalog import world_names
from spectator.environments.world import MAX_SEED
from spectator.llm.chat import ChatAnswer
from spectator.observations import Observation
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.training.text_episode import TextEpisode

if TYPE_CHECKING:
    from spectator.training.recorded_run import RecordedRun

MAX_TEXT: Final = 262_144
"""Maximum characters of an observation; longer ones are cut."""

MAX_ACTION: Final = 4_096
"""Maximum characters of an action."""

CHARACTERS: Final = frozenset(string.printable) | {chr(code) for code in range(0xA0, 0x2100)}
"""Characters of observations and actions; others are replaced by ``?``."""


class SpectatorEnv(gymnasium.Env[str, str]):
    """A world of the catalogue; the opponent plays within the same step.

    Observations are text: the brief and the whole situation at first, then the lines that changed. An action
    is text that names a tool, such as ``{"tool": "say", "arguments": {"text": "ACTION: 1"}}``; illegal
    actions are rejected and counted, and end the episode if ``invalid`` says so. The rewards add up to the
    score. An episode that is cut short ends with ``truncated``, and its value so far is ``info["value"]``.

    ``info`` contains ``observation`` (complete), ``legal`` (names of the tools that are legal now),
    ``rubric``, ``value``, ``own_share``, ``refusals`` and ``penalised``.

    Args:
        world: Name in the catalogue.
        opponent: Preset for all other seats.
        render_mode: ``ansi``, or ``None``.
        run: Run that records the episodes, so that a server can show them.
        invalid: What an answer that is not an action does; see :class:`TextEpisode`.
        options: The world's options.

    Raises:
        InvalidRequest: The world is unknown.
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
        invalid: InvalidAnswers | None = None,
        **options: Any,
    ) -> None:
        self.render_mode = render_mode
        self._episode = TextEpisode(world, options, opponent=opponent, run=run, invalid=invalid)
        self.observation_space = gymnasium.spaces.Text(MAX_TEXT, min_length=0, charset=CHARACTERS)
        self.action_space = gymnasium.spaces.Text(MAX_ACTION, min_length=0, charset=CHARACTERS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Seed of the generator that draws the seeds of this and later episodes.
            options: Further options of the world; ``seed`` among them is the seed of this episode.

        Raises:
            InvalidRequest: An option is invalid.
        """
        super().reset(seed=seed)
        given = dict(options or {})
        episode_seed = given.pop("seed", None)
        if episode_seed is None:
            episode_seed = int(self.np_random.integers(MAX_SEED, endpoint=True))
        text = self._episode.reset(episode_seed, given)
        return _plain(text), self._info()

    def step(self, action: str | ChatAnswer) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carry out an action, and play until the agent's next turn.

        Args:
            action: The model's answer. ``env.unwrapped`` also takes a
                :class:`~spectator.llm.chat.ChatAnswer`, whose tokens are recorded in ``run``.
        """
        text = self._episode.answer(action)
        done, truncated = self._episode.done, self._episode.truncated and not self._episode.penalised
        reward = float(self._episode.observation.reward)
        return _plain(text), reward, done and not truncated, truncated, self._info()

    def render(self) -> str | None:
        """Return the last observation, with ``render_mode="ansi"``."""
        return _plain(self._episode.text) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Release all resources."""
        self._episode.close()

    @property
    def observation(self) -> Observation:
        """The complete last observation.

        Raises:
            NoEpisode: ``reset`` was not called.
        """
        return self._episode.observation

    def _info(self) -> dict[str, Any]:
        seen = self._episode.observation
        legal = self._episode.world.briefing.legal(seen)
        return {
            "observation": deepcopy(seen.to_json()),
            "legal": [one["tool"] for one in legal] if not self._episode.done else [],
            "rubric": self._episode.rubric,
            "value": self._episode.value,
            "own_share": self._episode.own.share,
            "refusals": self._episode.own.refused,
            "penalised": self._episode.penalised,
        }


def _plain(text: str) -> str:
    """Return ``text`` limited to the observation space."""
    return "".join(one if one in CHARACTERS else "?" for one in text[:MAX_TEXT])


def vector_env(num_envs: int, world: str, **options: Any) -> SyncVectorEnv:
    """Return ``num_envs`` environments, stepped one after the other in this process.

    Args:
        num_envs: Number of environments.
        world: Name in the catalogue.
        options: Arguments of :class:`SpectatorEnv`.
    """
    return SyncVectorEnv([partial(SpectatorEnv, world, **options) for _ in range(num_envs)])


def register_worlds() -> None:
    """Register every world as ``spectator/NAME-v1``; importing this module does this."""
    for name in world_names():
        if f"spectator/{name}-v1" not in gymnasium.registry:
            gymnasium.register(
                f"spectator/{name}-v1",
                entry_point="spectator.training.gymnasium_env:SpectatorEnv",
                vector_entry_point="spectator.training.gymnasium_env:vector_env",
                kwargs={"world": name},
            )


register_worlds()
