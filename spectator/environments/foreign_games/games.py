"""Games of OpenSpiel, PettingZoo and TextArena behind one interface."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Final

import numpy as np

from spectator.errors import ConfigurationError, typed_as

MOST_NUMBERS: Final = 2048
"""Largest observation, in numbers, that is printed; larger ones need a ``describe``."""


@dataclass(frozen=True, slots=True)
class GameView:
    """Where a game is.

    Args:
        actor: Who must move; ``None`` once the game is over.
        text: What that actor sees; at the end, what is left to see.
        rewards: Sums of the rewards so far, by seat.
        legal: The package's actions by the name of the move; empty if moves are free text.
        truncated: Why the game itself cut the episode short; ``None`` if it did not.
    """

    actor: str | None
    text: str
    rewards: Mapping[str, float]
    legal: Mapping[int | str, Any]
    truncated: str | None = None


class ForeignGame(ABC):
    """A game in which the seats move in turn; ``begin`` may be called again."""

    package: ClassVar[str]
    """Name of its package in the registry."""

    free_text: ClassVar[bool] = False
    """Whether moves are free text, which the game itself judges."""

    seats: tuple[str, ...]
    """Names of the players, the agent's first."""

    hidden: bool
    """Whether seats see what others may not; viewers then see the moves only."""

    @abstractmethod
    def begin(self, seed: int) -> GameView:
        """Deal the game; its only chance is ``seed``, ``random`` and ``numpy.random``."""

    @abstractmethod
    def play(self, action: Any) -> GameView:
        """Carry out one of the package's legal actions, or a text."""


def _import(module: str, install: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigurationError(f"{module} cannot be imported ({error}); pip install {install}") from error


def _made(package: str, make: Callable[[str], Any], name: str) -> Any:
    def unknown(error: Exception) -> ConfigurationError:
        reason = str(error).partition(" Available ")[0]
        return ConfigurationError(f"{package} cannot make {name!r}: {reason}")

    with typed_as(unknown, passing=()):
        return make(name)


def _seats(names: Sequence[str], players: int) -> tuple[str, ...]:
    seats = tuple(names) or tuple(f"player_{number}" for number in range(players))
    if len(set(seats)) != len(seats) or len(seats) != players:
        raise ConfigurationError(f"seats must have {players} different names, one for each player")
    return seats


class OpenSpielGame(ForeignGame):
    """A sequential game of OpenSpiel.

    Args:
        name: Its name, with parameters if any, such as ``kuhn_poker(players=3)``.
        seats: Names of the players, the agent's first; ``player_0`` and so on if omitted.

    Raises:
        ConfigurationError: The package or the game is missing, or the game cannot be a world.
    """

    package = "open_spiel"

    def __init__(self, name: str, *, seats: Sequence[str] = ()) -> None:
        pyspiel = _import("pyspiel", "open_spiel")
        self._game = _made("OpenSpiel", pyspiel.load_game, name)
        kind = self._game.get_type()
        if kind.dynamics != kind.Dynamics.SEQUENTIAL:
            raise ConfigurationError(
                f"the players of {name} move at the same time, but a world asks one after the other; use "
                f"turn_based_simultaneous_game(game={name}), which hides the moves of a round until its end"
            )
        if kind.chance_mode == kind.ChanceMode.SAMPLED_STOCHASTIC:
            raise ConfigurationError(
                f"{name} samples its own chance, so it cannot be replayed from a seed; use a game with "
                "deterministic or explicit chance"
            )
        self.hidden = kind.information != kind.Information.PERFECT_INFORMATION
        self._has_past = kind.provides_information_state_string
        self.seats = _seats(seats, self._game.num_players())

    def begin(self, seed: int) -> GameView:
        """Deal the game; see :meth:`ForeignGame.begin`."""
        self._chance, self._state = random.Random(seed), self._game.new_initial_state()
        return self._position()

    def play(self, action: Any) -> GameView:
        """Apply an action; see :meth:`ForeignGame.play`."""
        self._state.apply_action(action)
        return self._position()

    def _position(self) -> GameView:
        state = self._state
        while state.is_chance_node():
            outcomes, weights = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(self._chance.choices(outcomes, weights)[0])
        rewards = dict(zip(self.seats, map(float, state.returns()), strict=True))
        if state.is_terminal():
            return GameView(None, str(state), rewards, {})
        player, text = state.current_player(), str(state)
        if self.hidden:
            seen = state.information_state_string if self._has_past else state.observation_string
            text = seen(player)
        moves = [(state.action_to_string(player, action), action) for action in state.legal_actions()]
        if len(dict(moves)) < len(moves):
            moves = [(f"{move} #{action}", action) for move, action in moves]
        return GameView(self.seats[player], text, rewards, dict(moves))


class PettingZooGame(ForeignGame):
    """An AEC environment of PettingZoo with discrete actions; the first possible agent is the agent's seat.

    Args:
        env: The environment, or its id for ``pettingzoo.make``, such as ``classic/tictactoe-v3``.
        hidden: Whether agents see what others may not.
        describe: Returns what an agent sees as text, from the environment and the agent's name; ``None``
            prints the numbers of its observation.
        moves: Names of the actions, by number; numbers if omitted.

    Raises:
        ConfigurationError: A package is missing, or the environment cannot be a world.
    """

    package = "pettingzoo"

    def __init__(
        self,
        env: Any,
        *,
        hidden: bool,
        describe: Callable[[Any, str], str] | None = None,
        moves: Sequence[str] = (),
    ) -> None:
        pettingzoo = _import("pettingzoo", "'pettingzoo[classic]'")
        if isinstance(env, str):
            env = _made("PettingZoo", lambda name: pettingzoo.make("aec", name), env)
        if not isinstance(env, pettingzoo.AECEnv):
            raise ConfigurationError(
                f"{type(env).__name__} is not an AEC environment; agents that move at the same time can be "
                "asked one after the other with pettingzoo.utils.parallel_to_aec"
            )
        self.hidden, self._env, self._describe, self._moves = hidden, env, describe, moves
        self.seats = tuple(map(str, env.possible_agents))
        for space in map(env.action_space, env.possible_agents):
            if not {"n", "start"} <= vars(space).keys() or isinstance(space.n, np.ndarray):
                raise ConfigurationError(f"the actions must be Discrete, not {space}; wrap the environment")
            if moves and len(moves) != space.n:
                raise ConfigurationError(f"moves must have {space.n} names, one for each action")

    def begin(self, seed: int) -> GameView:
        """Reset the environment; see :meth:`ForeignGame.begin`."""
        self._rewards = dict.fromkeys(self.seats, 0.0)
        self._env.reset(seed=seed)
        return self._position()

    def play(self, action: Any) -> GameView:
        """Step the environment; see :meth:`ForeignGame.play`."""
        self._env.step(action)
        return self._position()

    def _position(self) -> GameView:
        """Go to the next agent that must act, as ``agent_iter`` does: others take an empty step."""
        text, terminated, truncated = "", False, False
        while self._env.agents:
            agent = self._env.agent_selection
            observation, reward, over, cut, info = self._env.last()
            self._rewards[str(agent)] += float(reward)
            text = self._text(agent, observation)
            if not over and not cut:
                legal = self._legal(agent, observation, info)
                return GameView(str(agent), text, dict(self._rewards), legal)
            terminated, truncated = terminated or over, truncated or cut
            self._env.step(None)
        limit = "the game reached its own limit" if truncated and not terminated else None
        return GameView(None, text, dict(self._rewards), {}, limit)

    def _legal(self, agent: Any, observation: Any, info: Mapping[str, Any]) -> dict[int | str, Any]:
        space, mask = self._env.action_space(agent), info.get("action_mask")
        if mask is None and isinstance(observation, Mapping):
            mask = observation.get("action_mask")
        allowed = range(int(space.n)) if mask is None else np.flatnonzero(mask).tolist()
        first = int(space.start)
        return {self._moves[index] if self._moves else first + index: first + index for index in allowed}

    def _text(self, agent: Any, observation: Any) -> str:
        if self._describe is not None:
            return self._describe(self._env, agent)
        numbers = observation["observation"] if isinstance(observation, Mapping) else observation
        if np.size(numbers) > MOST_NUMBERS:
            raise ConfigurationError(
                f"the observation of {agent} has {np.size(numbers)} numbers; pass describe=, which says in "
                "text what it sees"
            )
        return np.array2string(np.asarray(numbers), threshold=MOST_NUMBERS + 1)


class TextArenaGame(ForeignGame):
    """A game of TextArena.

    Args:
        name: Its name, such as ``Nim-v0``.
        hidden: Whether players see what others may not.
        players: Number of players.
        seats: Names of the players, the agent's first; ``player_0`` and so on if omitted.

    Raises:
        ConfigurationError: The package or the game is missing.
    """

    package = "textarena"
    free_text = True

    def __init__(self, name: str, *, hidden: bool, players: int = 2, seats: Sequence[str] = ()) -> None:
        textarena = _import("textarena", "textarena")
        self._make: Callable[[], Any] = partial(_made, "TextArena", textarena.make, name)
        self.hidden, self.seats = hidden, _seats(seats, players)

    def begin(self, seed: int) -> GameView:
        """Reset a new environment, as wrappers keep what was said; see :meth:`ForeignGame.begin`."""
        self._env = self._make()
        try:
            self._env.reset(num_players=len(self.seats), seed=seed)
        except AssertionError as error:
            raise ConfigurationError(f"the game cannot be played by {len(self.seats)}: {error}") from error
        return self._position(done=False)

    def play(self, action: Any) -> GameView:
        """Step the environment; see :meth:`ForeignGame.play`."""
        done, _ = self._env.step(action=action)
        return self._position(done=done)

    def _position(self, *, done: bool) -> GameView:
        player, seen = self._env.get_observation()
        text = seen if isinstance(seen, str) else "\n".join(str(message[1]) for message in seen or ())
        earned: Mapping[int, float] = (self._env.close()[0] or {}) if done else {}
        rewards = {seat: float(earned.get(number, 0)) for number, seat in enumerate(self.seats)}
        return GameView(None if done else self.seats[player], text.strip("\n"), rewards, {})
