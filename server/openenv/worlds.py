"""A world as OpenEnv clients see it: wire types, schemas, strict JSON."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from pydantic import BaseModel, Field, create_model
from pydantic_core import to_json

from spectator.catalog import load_world
from spectator.environments.contract import MAX_OBSERVATION_BYTES
from spectator.environments.world import World
from spectator.episodes.single_agent import briefing_for
from spectator.errors import EnvironmentFault
from spectator.events import encode_json
from spectator.observations import LegalAction, Observation, Profile
from spectator.steppers.remote_world import PROFILE_KEY, PROFILES_KEY

from .messages import Brief, MetadataAnswer, PackAnswer, SchemaAnswer

PLAIN: Final = (
    orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""What is no JSON is an error, not a text that looks like it."""


def strict_json(value: Any) -> bytes:
    """``value`` as :func:`spectator.events.encode_json` tells it, in UTF-8 and in a tenth of the time.

    ``orjson`` makes null of NaN and of infinity: where there are more nulls than the value holds, another
    encoder says whether it was one. What ``orjson`` does not take, such as an integer of more than 64 bits,
    is left to the slow way.

    Raises:
        ValueError: A number is not finite, a text holds half a surrogate pair, or it is nested too deeply.
        TypeError: A value is not JSON.

    >>> strict_json({"name": "Zoë", "left": None})
    b'{"name":"Zo\\xc3\\xab","left":null}'
    >>> strict_json([float("inf")])
    Traceback (most recent call last):
        ...
    ValueError: Out of range float values are not JSON compliant...
    """
    try:
        told = orjson.dumps(value, option=PLAIN)
    except TypeError:
        return encode_json(value).encode()
    if (nulls := told.count(b"null")) and not _holds(value, nulls):
        checked = to_json(value, inf_nan_mode="constants")
        if b"NaN" in checked or b"Infinity" in checked:  # perhaps within a text
            return encode_json(value).encode()
    return told


def _holds(value: Any, nulls: int) -> bool:
    """Whether ``value`` holds ``None`` so many times; looked for level by level, no deeper than needed."""
    level = [value]
    while nulls > 0 and level:
        below = []
        for one in level:
            for member in (
                one.values() if type(one) is dict else one if type(one) in (list, tuple) else (one,)
            ):
                if member is None:
                    nulls -= 1
                elif type(member) in (dict, list, tuple):
                    below.append(member)
        level = below
    return nulls == 0


OBSERVE_KEY: Final = "x-observe"
"""Member of an observation's schema that tells the shape of the other views of it."""

OTHER_VIEWS: Final[Mapping[str, Any]] = {
    "delta": {
        "type": "object",
        "description": "The first has `whole`, each later one `changed`: a merge patch (RFC 7396)",
        "properties": {"whole": {"type": "object"}, "changed": {"type": "object"}},
        "minProperties": 1,
    },
    "text": {
        "type": "object",
        "description": "All of it as text at first, then the lines that changed",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}
"""Shapes of an observation that `reset` was asked to show as `delta` or `text`; `metadata` is beside them."""

AUTHOR = "The Spectator authors"
DOCUMENTATION = "/docs"


@dataclass(frozen=True, slots=True)
class WireWorld:
    """A world and the types of what travels to and from its clients.

    Args:
        world: The world.
        action: Its action; OpenEnv's ``metadata`` may come with it, and is not read.
        observation: Its observation, with ``reward``, ``done`` and ``metadata``.
        state: Its public state, with ``step_count``.
    """

    world: World
    action: type[BaseModel]
    observation: type[BaseModel]
    state: type[BaseModel]

    @property
    def names_tools(self) -> bool:
        """Whether an action names a tool; if not, it is nothing but the arguments of the only one."""
        return self.world.names_tools

    @property
    def profile(self) -> Profile:
        """The profile of what a client sees: an answer may hold the rewards of several actors' steps."""
        return self._seen(self.world.profile)

    def _seen(self, profile: Profile) -> Profile:
        if profile.rewards == "end" or len(self.world.actors) == 1:
            return profile
        return profile.model_copy(update={"reward_min": None, "reward_max": None})

    def schemas(self) -> SchemaAnswer:
        """JSON schemas of everything that travels."""
        observation = {**self.observation.model_json_schema(), OBSERVE_KEY: OTHER_VIEWS}
        action = {**self.action.model_json_schema(), PROFILE_KEY: self.profile.model_dump()}
        if self.world.profiles:
            action[PROFILES_KEY] = [
                {"options": dict(options), "profile": self._seen(profile).model_dump()}
                for options, profile in self.world.profiles
            ]
        return SchemaAnswer(
            action=action,
            observation=observation,
            state=self.state.model_json_schema(),
            reset_observation=observation,
        )

    def metadata(self) -> MetadataAnswer:
        """What this environment is."""
        world = self.world
        return MetadataAnswer(
            name=world.name,
            description=world.summary,
            version=world.version,
            readme_content=readme(world),
            author=AUTHOR,
            documentation_url=DOCUMENTATION,
            brief=Brief(**briefing_for(world.briefing)),
            packs=[
                PackAnswer(
                    name=name,
                    version=pack.version,
                    summary=pack.summary,
                    options=dict(pack.options),
                    seeds=list(pack.seeds),
                )
                for name, pack in world.packs.items()
            ],
        )


class WireWorlds:
    """The worlds that clients asked for so far, by name."""

    def __init__(self) -> None:
        self._known: dict[str, WireWorld] = {}

    async def get(self, name: str) -> WireWorld:
        """The world called ``name``, loaded off the event loop the first time.

        Raises:
            InvalidRequest: There is none.
            ConfigurationError: The name belongs to something that is no world.
        """
        if name not in self._known:
            self._known[name] = await asyncio.to_thread(_wire_world, name)
        return self._known[name]


def _wire_world(name: str) -> WireWorld:
    world = load_world(name)
    extras: Any = (
        dict[str, Any],
        Field(default_factory=dict, description="Not read; for OpenEnv's typed clients"),
    )
    score: Any = (float, _reward_field(world))
    done: Any = (bool, Field(description="Whether the episode is over; stays true"))
    notes: Any = (dict[str, Any], Field(default_factory=dict, description="Named extras, such as `rubric`"))
    steps: Any = (int, Field(ge=0, description="Calls of step in this episode"))
    action, observation, state = world.action_type, world.observation_type, world.state_type
    return WireWorld(
        world,
        create_model(action.__name__, __base__=action, metadata=extras),
        create_model(observation.__name__, __base__=observation, reward=score, done=done, metadata=notes),
        create_model(state.__name__, __base__=state, step_count=steps),
    )


def _reward_field(world: World) -> Any:
    """The field of an answer that holds the reward; without bounds where options may change them."""
    profile = world.profile
    if world.profiles:
        said = f"Since the last action; as the options ask, by default {_when(profile)}"
        return Field(description=said)
    if profile.rewards == "end":
        said = _when(profile)
        return Field(ge=profile.reward_min, le=profile.reward_max, description=said)
    return Field(description="All rewards since the last action; they add up to the score")


def _when(profile: Profile) -> str:
    if profile.rewards == "end":
        return "0.0 until the last step, which holds the score"
    return "any step may be rewarded"


def encode_observation(observation: Observation, shown: Mapping[str, Any]) -> str:
    """An observation as the ``data`` of an answer.

    Args:
        observation: What its reward, its end and its metadata are.
        shown: The observation as its agent is shown it.

    Raises:
        EnvironmentFault: It is not plain finite JSON, or too long.
    """
    metadata = dict(observation.metadata)
    data: dict[str, Any] = {
        "observation": {**shown, "metadata": metadata},
        "reward": observation.reward,
        "done": observation.done,
    }
    beside = {name: value for name, value in metadata.items() if name != "brief"}
    return encode_answer({**data, "metadata": beside} if beside else data)


def encode_answer(data: Mapping[str, Any]) -> str:
    """Strict JSON of at most the longest message's length.

    Raises:
        EnvironmentFault: It is not, or too long.
    """
    try:
        told = strict_json(data)
    except (RecursionError, TypeError, ValueError) as error:
        raise EnvironmentFault(f"the world's answer is not plain finite JSON: {error}") from error
    if len(told) > MAX_OBSERVATION_BYTES:
        raise EnvironmentFault(
            f"the world's answer is {len(told)} bytes long; at most {MAX_OBSERVATION_BYTES} travel"
        )
    return told.decode()


def tool(legal: LegalAction) -> dict[str, Any]:
    """A legal action as an MCP tool."""
    schema = dict(legal["arguments"])
    return {"name": legal["tool"], "description": schema.get("description", ""), "inputSchema": schema}


def readme(world: World) -> str:
    """The world's own description, in Markdown."""
    parts = [f"# {world.title}", world.summary, _docstring(world)]
    parts.append("## Reset\n" + _table(world.options_type))
    for heading, entries in (("Opponents", world.opponents), ("Evaluation packs", world.packs)):
        lines = [f"- `{name}`: {entry.summary}" for name, entry in entries.items()]
        if lines:
            parts.append(f"## {heading}\n" + "\n".join(lines))
    return "\n\n".join(part for part in parts if part) + "\n"


def _docstring(world: World) -> str:
    documented = world.environment if inspect.isclass(world.environment) else None
    return inspect.getdoc(documented) or "" if documented is not None else ""


def _table(options: type[BaseModel]) -> str:
    rows = [
        f"| `{name}` | `{field.default!r}` | {field.description or ''} |"
        for name, field in options.model_fields.items()
    ]
    head = [
        "| parameter | default | meaning |",
        "|---|---|---|",
        "| `seed` | drawn | the one seed from which all randomness is derived |",
        "| `episode_id` | made | echoed by the state |",
        "| `opponent_choice` | the world's | who takes the other seats |",
        "| `eval_pack_id` | `'default'` | evaluation pack |",
        "| `observe` | `'full'` | how observations are shown: `full`, `delta` or `text` |",
    ]
    return "\n".join([*head, *rows])
