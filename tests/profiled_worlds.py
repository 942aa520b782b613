"""Three small worlds with profiles of their own: step rewards, free text, an action by its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectator.environments.contract import ObservationModel, OptionsModel, StateModel
from spectator.environments.world import Pack, World
from spectator.events import Event, EventData, Fact
from spectator.observations import LegalAction, Observation, Profile, Refusal
from spectator.policies.policy import Decision, Preset, ScriptedPolicy


class Seen(ObservationModel):
    """What the actor who must decide sees."""

    round: int
    asked: str = ""


class State(StateModel):
    """The public state."""

    round: int


class Turns(OptionsModel):
    """How long it takes."""

    rounds: int = Field(default=4, ge=1, le=1000)


class Done(EventData):
    """Somebody did something."""

    actor: str
    what: str


class Rounds:
    """Base of the worlds: so many rounds, each action one, the same snapshot and state for all."""

    name = "rounds"
    actors: tuple[str, ...] = ("agent",)
    legal: Sequence[LegalAction] = ()
    action: type[BaseModel]

    def __init__(self) -> None:
        self._id, self._round, self._rounds, self._facts = "", 0, 1, list[Fact]()

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        self._id, self._round, self._rounds = episode_id, 0, options["rounds"]
        self._facts = []
        return self._see(0.0)

    def step(self, action: Mapping[str, Any]) -> Observation:
        if self._over:
            return self._see(0.0, Refusal("episode.over", "It is over; reset."))
        try:
            done = self.action.model_validate(action)
        except ValidationError as error:
            return self._see(0.0, Refusal("action.shape", error.errors()[0]["msg"]))
        what = json.dumps(done.model_dump(), sort_keys=True)[:200]
        self._facts.append(Fact(f"{self.name}.done", {"actor": self._actor, "what": what}))
        reward = self.reward(done)
        self._round += 1
        return self._see(reward)

    def reward(self, done: Any) -> float:
        raise NotImplementedError

    @property
    def state(self) -> Mapping[str, Any]:
        return {"episode_id": self._id, "round": self._round, "result": "done" if self._over else None}

    def snapshot(self) -> bytes:
        return json.dumps([self._id, self._round, self._rounds]).encode()

    def restore(self, snapshot: bytes) -> Observation:
        self._id, self._round, self._rounds = json.loads(snapshot)
        self._facts = []
        return self._see(0.0)

    def facts(self) -> Sequence[Fact]:
        facts, self._facts = self._facts, []
        return facts

    def truth(self) -> Mapping[str, Any]:
        return {}

    @property
    def _actor(self) -> str:
        return self.actors[self._round % len(self.actors)]

    @property
    def _over(self) -> bool:
        return self._round >= self._rounds

    def _see(self, reward: float, refused: Refusal | None = None) -> Observation:
        return Observation(
            None if self._over else self._actor,
            () if self._over else self.legal,
            {"round": self._round, "asked": f"round {self._round}"},
            reward=reward,
            done=self._over,
            refused=refused,
        )


class Order(BaseModel):
    """Buy or sell."""

    model_config = ConfigDict(extra="forbid", strict=True)
    tool: Literal["buy", "sell"]
    arguments: dict[str, Any] = Field(default_factory=dict)


class Trading(Rounds):
    """A trader and a market: buying gains 0.1, selling loses 0.3, and the market takes 0.05 of each round."""

    name = "trading"
    actors = ("trader", "market")
    action = Order
    legal = (
        {"tool": "buy", "arguments": {"type": "object", "properties": {}}},
        {"tool": "sell", "arguments": {"type": "object", "properties": {}}},
    )

    def reward(self, done: Any) -> float:
        if self._actor == "market":
            return -0.05
        return 0.1 if done.tool == "buy" else -0.3


class Saying(BaseModel):
    """What is said."""

    model_config = ConfigDict(extra="forbid", strict=True)
    said: str = Field(max_length=2000, description="Anything")


class Essay(Rounds):
    """Free text; the score is the share of rounds in which the answer held the number of the round."""

    name = "essay"
    action = Saying

    def __init__(self) -> None:
        super().__init__()
        self._right = 0

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        self._right = 0
        return super().reset(seed=seed, episode_id=episode_id, options=options)

    def reward(self, done: Any) -> float:
        self._right += str(self._round) in done.said
        return self._right / self._rounds if self._round == self._rounds - 1 else 0.0

    def snapshot(self) -> bytes:
        return json.dumps([super().snapshot().decode(), self._right]).encode()

    def restore(self, snapshot: bytes) -> Observation:
        base, self._right = json.loads(snapshot)
        return super().restore(base.encode())


class Part(BaseModel):
    """A part of an order."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=40)
    count: int = Field(ge=1, le=9)


class Form(BaseModel):
    """A form with two required fields and a nested model."""

    model_config = ConfigDict(extra="forbid")
    parts: list[Part] = Field(min_length=1, max_length=3)
    urgent: bool
    note: str = ""


class Ordering(Rounds):
    """An action by its schema: each part earns 0.5 a piece, an urgent order costs 1."""

    name = "ordering"
    action = Form

    def reward(self, done: Any) -> float:
        return float(0.5 * sum(part.count for part in done.parts) - done.urgent)


class Same(ScriptedPolicy):
    """Always the same action, or one of several in turn by the round."""

    def __init__(self, *actions: Mapping[str, Any]) -> None:
        self._actions = actions

    def choose(self, observation: Observation) -> Decision:
        shown = observation.content
        action = self._actions[shown.get("round", 0) % len(self._actions)]
        said = {name: shown["asked"] if value == "$" else value for name, value in action.items()}
        return Decision(said, "heuristic", "as always")


def project(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """The last thing that was done."""
    return {"last": event.data["what"]} if event.type.endswith(".done") else {}


def _world(kind: type[Rounds], title: str, profile: Profile, *actions: Mapping[str, Any]) -> World:
    captain = Preset("heuristic", "Same again", "Always the same.", "heuristic", lambda seed: Same(*actions))
    return World(
        name=kind.name,
        version="1.0",
        title=title,
        summary=f"{title}, for tests.",
        actors=kind.actors,
        environment=kind,
        action_type=kind.action,
        observation_type=Seen,
        state_type=State,
        options_type=Turns,
        events={f"{kind.name}.done": Done},
        projection=project,
        captains={"heuristic": captain},
        opponents={"heuristic": captain} if len(kind.actors) > 1 else {},
        packs={"default": Pack("default", "1", "Any.")},
        step_cap=lambda options: options["rounds"] + 50,
        profile=profile,
    )


TRADING = _world(
    Trading,
    "Trading",
    Profile(rewards="step", reward_min=-0.3, reward_max=0.1, score_min=None, score_max=None),
    {"tool": "buy"},
    {"tool": "buy"},
    {"tool": "sell"},
    {"tool": "sell"},
)
ESSAY = _world(Essay, "Essay", Profile(actions="text"), {"said": "$"})
ORDERING = _world(
    Ordering,
    "Ordering",
    Profile(
        rewards="step", reward_min=-1.0, reward_max=13.5, score_min=None, score_max=None, actions="schema"
    ),
    {"parts": [{"name": "bolt", "count": 1}], "urgent": True},
    {"parts": [{"name": "nut", "count": 4}, {"name": "bolt", "count": 1}], "urgent": False},
)
NAMES = ("trading", "essay", "ordering")
"""Their names; the module's constant of the same name in capitals is the world."""
