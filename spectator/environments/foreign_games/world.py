"""Make a world of a game of another package.

Positions of these games can often not be copied, so a snapshot is the seed and the moves, which are played
again.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectator.environments.contract import OUTCOME, ObservationModel, OptionsModel, StateModel
from spectator.environments.foreign_games.games import ForeignGame, GameView
from spectator.environments.world import MAX_ANSWER, Pack, World
from spectator.events import Event, EventData, Fact
from spectator.narration.commentary import Line
from spectator.observations import LegalAction, Observation, Profile, Refusal
from spectator.policies.policy import (
    Action,
    Decision,
    Preset,
    ScriptedPolicy,
    generator_snapshot,
    restore_generator,
)
from spectator.policies.prompts import Rendering

EDITION: Final = 1
"""Part of the version of every world made here; increase it when the event or the projection changes."""

MAX_PACKAGE_SEED: Final = 2**31 - 1
"""Largest seed that every package accepts; seeds up to it reach the package unchanged."""

LISTED: Final = 40
"""Maximum number of legal moves that a refusal lists."""

IN_BRACKETS: Final = re.compile(r"(?!\[(?:GAME|Player \d+)\])\[[^\[\]\n]{1,40}\]")
"""A move as the games of TextArena write it, such as ``[4]``, but not the name of a speaker."""

_PROCESS_GENERATORS: Final = threading.RLock()
"""Held while a game's states are those of the generators that the whole process shares."""


class Move(BaseModel):
    """A move by its name or number."""

    model_config = ConfigDict(extra="forbid", strict=True)
    move: int | str = Field(description="One of the legal moves")


class TextMove(BaseModel):
    """A move in free text."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str = Field(min_length=1, max_length=MAX_ANSWER, description="The move, as the game asks for it")


class GameObservation(ObservationModel):
    """What the actor who must decide sees."""

    text: str = Field(description="The game as this actor sees it")


class GamePosition(EventData):
    """The game was dealt, or a seat moved."""

    number: int = Field(ge=0, description="Moves so far")
    text: str = Field(description="The board; empty if seats see what others may not")
    rewards: dict[str, float] = Field(description="Sums of the rewards so far, by seat")
    result: str | None = Field(default=None, description="The result in words, once the game is over")
    actor: str | None = Field(default=None, description="Who moved; null at the beginning")
    move: int | str | None = Field(default=None, description="The move")


class GameState(StateModel):
    """The public state of a game."""

    number: int = Field(ge=0)
    text: str
    rewards: dict[str, float]


def leaders(rewards: Mapping[str, float]) -> list[str]:
    """Return the seats with the highest reward."""
    best = max(rewards.values())
    return [seat for seat, reward in rewards.items() if reward == best]


def result_of(rewards: Mapping[str, float]) -> str:
    """Return the result of a game in words.

    >>> result_of({"x": 1, "o": -1}), result_of({"x": 0, "o": 0}), result_of({"a": 2.5})
    ('x won', 'drawn', 'a earned 2.5')
    """
    first, best = leaders(rewards), max(rewards.values())
    if len(first) < len(rewards):
        return f"{' and '.join(first)} won"
    return f"{' and '.join(first)} earned {best:g}" if best or len(first) == 1 else "drawn"


class GameEnvironment:
    """Plays one game.

    While the game is at work, the states of ``random`` and ``numpy.random`` are its own, from its seed: some
    games draw from them, and games that are played side by side must not disturb each other.

    Args:
        name: Name of the world.
        start: Makes the game.
    """

    def __init__(self, name: str, start: Callable[[], ForeignGame]) -> None:
        self._type, self._start = f"{name}.position", start
        self._game: ForeignGame | None = None
        self._view = GameView(None, "", {}, {})

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        """Deal the game."""
        self._game = self._game or self._start()
        self._episode_id, self._seed, self._reward = episode_id, seed, 0.0
        self._actions: list[Action] = []
        self._seen: dict[str, str] = {}
        seed %= MAX_PACKAGE_SEED + 1
        self._python: Any = random.Random(seed).getstate()
        self._numpy: Any = np.random.RandomState(seed).get_state()
        with self._own_randomness():
            self._take(self._game.begin(seed))
        self._facts = [Fact(self._type, GamePosition(**self._public).model_dump())]
        return self._observe()

    def step(self, action: Action) -> Observation:
        """Carry out a legal move, or refuse it."""
        game, before = self._game, self._view
        if game is None or before.actor is None:
            return self._observe(Refusal("episode.over", "The game is over; reset to play again."))
        kind, field = (TextMove, "text") if game.free_text else (Move, "move")
        try:
            move = getattr(kind.model_validate(action), field)
        except ValidationError as error:
            message = f"Send {{'{field}': ...}}: {error.errors()[0]['msg']}."
            return self._observe(Refusal("action.shape", message))
        if not game.free_text and move not in before.legal:
            listed = ", ".join(map(str, list(before.legal)[:LISTED])) + ", ..." * (len(before.legal) > LISTED)
            return self._observe(Refusal("move.illegal", f"{move!r:.100} is not legal; legal are {listed}."))
        with self._own_randomness():
            self._take(game.play(move if game.free_text else before.legal[move]))
        self._actions.append(dict(action))
        agent = game.seats[0]
        self._reward = self._view.rewards[agent] - before.rewards[agent]
        self._facts.append(
            Fact(self._type, GamePosition(**self._public, actor=before.actor, move=move).model_dump())
        )
        return self._observe(reward=self._reward)

    @property
    def state(self) -> Mapping[str, Any]:
        """The public state."""
        return {"episode_id": self._episode_id, **self._public}

    def snapshot(self) -> bytes:
        """Return the seed and the moves."""
        return json.dumps([self._episode_id, self._seed, self._actions]).encode()

    def restore(self, snapshot: bytes) -> Observation:
        """Play the moves of ``snapshot`` again."""
        episode_id, seed, actions = json.loads(snapshot)
        self.reset(seed=seed, episode_id=episode_id, options={})
        for action in actions:
            self.step(action)
        self._facts = []
        return self._observe(reward=self._reward if self._view.actor is None else 0.0)

    def facts(self) -> Sequence[Fact]:
        """Return what happened since the last call."""
        facts, self._facts = self._facts, []
        return facts

    def truth(self) -> Mapping[str, Any]:
        """Return what each seat saw last, if others could not see it."""
        return {"seen": dict(self._seen)} if self._hidden and self._view.actor is None else {}

    @property
    def _hidden(self) -> bool:
        return self._game is not None and self._game.hidden

    @property
    def _public(self) -> dict[str, Any]:
        at, over = self._view, self._view.actor is None
        return {
            "number": len(self._actions),
            "text": "" if self._hidden else at.text,
            "rewards": dict(at.rewards),
            "result": (at.truncated or result_of(at.rewards)) if over else None,
        }

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        with _PROCESS_GENERATORS:
            python, numpy = random.getstate(), np.random.get_state()
            random.setstate(self._python)
            np.random.set_state(self._numpy)
            try:
                yield
            finally:
                self._python, self._numpy = random.getstate(), np.random.get_state()
                random.setstate(python)
                np.random.set_state(numpy)

    def _take(self, view: GameView) -> None:
        self._view = view
        if view.actor is not None:
            self._seen[view.actor] = view.text

    def _observe(self, refused: Refusal | None = None, *, reward: float = 0.0) -> Observation:
        at = self._view
        cut = {} if at.truncated is None else {"truncated": at.truncated}
        moves = {"type": "object", "properties": {"move": {"enum": list(at.legal)}}}
        arguments = {**moves, "required": ["move"], "additionalProperties": False}
        legal: list[LegalAction] = [{"tool": "play", "arguments": arguments}] if at.legal else []
        return Observation(
            actor=at.actor,
            legal_actions=legal,
            content={"text": "" if self._hidden and at.actor is None else at.text},
            reward=reward,
            done=at.actor is None,
            refused=refused,
            metadata={"rubric": dict(at.rewards), **cut},
        )


class RandomPlayer(ScriptedPolicy):
    """Draws a legal move; in games of free text, one of the moves in brackets that it last read.

    Args:
        seed: Seed of its random generator.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, observation: Observation) -> Decision:
        """Draw a move."""
        if observation.legal_actions:
            moves = observation.legal_actions[0]["arguments"]["properties"]["move"]["enum"]
            return Decision({"move": self._random.choice(moves)}, "random", "drawn at random")
        before, _, newest = observation.content["text"][-2000:].rpartition("\n[")
        read = IN_BRACKETS.findall(f"[{newest}") or IN_BRACKETS.findall(before) or ["[0]"]
        return Decision({"text": self._random.choice(read)}, "random", "drawn at random")

    def snapshot(self) -> Any:
        """Return the state of its random generator."""
        return generator_snapshot(self._random)

    def restore(self, snapshot: Any) -> None:
        """Restore the state of its random generator."""
        restore_generator(self._random, snapshot)


class GameMeter:
    """Measures who won: the seats with the highest reward share one point."""

    def __init__(self) -> None:
        self._rewards: Mapping[str, float] = {}

    def take(self, event: Event) -> None:
        """Read the rewards of a finished game."""
        if event.type.endswith(".position") and event.data["result"] is not None:
            self._rewards = event.data["rewards"]

    def figures(self) -> Mapping[str, Mapping[str, float]]:
        """Return the outcome of each seat."""
        first = leaders(self._rewards) if self._rewards else []
        return {seat: {OUTCOME: 1 / len(first) if seat in first else 0.0} for seat in self._rewards}


def project(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """Show the board, the last move and the rewards."""
    if not event.type.endswith(".position"):
        return {}
    data, over = event.data, event.data["result"] is not None
    return {
        "text": data["text"],
        "rewards": data["rewards"],
        "headline": data["result"] or _words(data),
        "glance": {"step": data["number"], **({"progress": 1} if over else {})},
    }


def comment(event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
    """Make a line for each move, and one for the end."""
    if not event.type.endswith(".position"):
        return ()
    lines = [Line(_words(event.data), at=str(event.data["number"]))] if event.data["actor"] else []
    ended = event.data["result"]
    return [*lines, Line(ended[:300], priority=0, label="end")] if ended else lines


def _words(data: Mapping[str, Any]) -> str:
    return f"{data['actor']}: {data['move']}"[:300] if data["actor"] else "No moves yet"


def game_world(
    name: str, start: Callable[[], ForeignGame], *, title: str = "", task: str = "", max_turns: int = 1000
) -> World:
    """Make a world of a game of another package.

    The game is begun once here, so that one that cannot be a world is rejected before anything is played.

    Args:
        name: Name of the world, ``[a-z][a-z0-9_]*``.
        start: Makes the game, once for each environment.
        title: Title for people; the name if empty.
        task: The rules and the aim for a language model, in a few sentences; the title if empty. Games of
            TextArena state their rules themselves.
        max_turns: Turns after which an episode is cut off.

    Raises:
        ConfigurationError: A package is missing, or the game cannot be a world; the message says why.
    """
    GameEnvironment(name, start).reset(seed=0, episode_id="", options={})
    game = start()
    alone, player = len(game.seats) == 1, Preset("random", "Random", "Draws a move.", "random", RandomPlayer)
    return World(
        name=name,
        version=f"{EDITION}-{game.package}-{version(game.package)}",
        title=title or name,
        summary="Earn as much as you can." if alone else "The highest reward wins.",
        task=task,
        actors=game.seats,
        environment=lambda: GameEnvironment(name, start),
        action_type=TextMove if game.free_text else Move,
        observation_type=GameObservation,
        state_type=GameState,
        options_type=OptionsModel,
        events={f"{name}.position": GamePosition},
        projection=project,
        commentator=comment,
        captains={"random": player},
        opponents={} if alone else {"random": player},
        packs={"default": Pack("default", "1", "Any game.")},
        step_cap=lambda options: max_turns,
        default_captain="random",
        default_opponent="random",
        panel=Path(__file__).parent / "panel",
        profile=Profile(
            rewards="step",
            reward_min=None,
            reward_max=None,
            score_min=None,
            score_max=None,
            actions="text" if game.free_text else "tools",
        ),
        rendering=Rendering(lines=lambda observation: {"game": f"\n{observation.content['text']}"}),
        conversation=_as_message if game.free_text else None,
        meter=None if alone else GameMeter,
        board_lines=lambda world: [*world.get("text", "").splitlines(), world.get("headline", "")],
        snapshot_for=lambda snapshot, own: json.dumps([own, *json.loads(snapshot)[1:]]).encode(),
        rival_reward=lambda options, rewards: rewards,
    )


def _as_message(observation: Observation) -> Sequence[Mapping[str, Any]]:
    return [{"role": "user", "content": observation.content["text"]}]
