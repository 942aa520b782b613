"""Worlds as OpenEnv clients see them: wire types, schemas, strict JSON."""

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
"""Values that are not JSON are errors instead of strings."""


def strict_json(value: Any) -> bytes:
    """Encode as :func:`~spectator.events.encode_json`, ten times faster.

    ``orjson`` encodes NaN and infinity as null: if there are more nulls than the value holds, another encoder
    checks for them. What ``orjson`` does not support, such as an integer of more than 64 bits, is encoded the
    slow way.

    Raises:
        ValueError: A number is not finite, a string holds half of a surrogate pair, or it is nested too
            deeply.
        TypeError: A value is not JSON.

    >>> strict_json({"name": "Zoë", "left": None})
    b'{"name":"Zo\\xc3\\xab","left":null}'
    >>> strict_json([float("inf")])
    Traceback (most recent call last):
        ...
    ValueError: Out of range float values are not JSON compliant...
    """
    try:
        encoded = orjson.dumps(value, option=PLAIN)
    except TypeError:
        return encode_json(value).encode()
    if (nulls := encoded.count(b"null")) and not _holds(value, nulls):
        checked = to_json(value, inf_nan_mode="constants")
        if b"NaN" in checked or b"Infinity" in checked:  # possibly within a string
            return encode_json(value).encode()
    return encoded


def _holds(value: Any, nulls: int) -> bool:
    """Whether ``value`` contains ``None`` that many times; searches level by level."""
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
"""Member of an observation's schema with the schemas of its other forms."""

OTHER_VIEWS: Final[Mapping[str, Any]] = {
    "delta": {
        "type": "object",
        "description": "The first has `whole`, each later one `changed`: a merge patch (RFC 7396)",
        "properties": {"whole": {"type": "object"}, "changed": {"type": "object"}},
        "minProperties": 1,
    },
    "text": {
        "type": "object",
        "description": "The whole text at first, then the changed lines",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}
"""Schemas of observations in the forms `delta` and `text`, in addition to `metadata`."""

AUTHOR = "The Spectator authors"
DOCUMENTATION = "/docs"


@dataclass(frozen=True, slots=True)
class WireWorld:
    """A world and the types of its clients' messages.

    Args:
        action: Its action; OpenEnv's ``metadata`` is accepted and ignored.
        observation: Its observation, with ``reward``, ``done`` and ``metadata``.
        state: Its public state, with ``step_count``.
    """

    world: World
    action: type[BaseModel]
    observation: type[BaseModel]
    state: type[BaseModel]

    @property
    def names_tools(self) -> bool:
        """Whether an action names a tool; otherwise it is the arguments of the only tool."""
        return self.world.names_tools

    @property
    def profile(self) -> Profile:
        """The profile for clients; an answer may sum the rewards of several actors' steps."""
        return self._seen(self.world.profile)

    def _seen(self, profile: Profile) -> Profile:
        if profile.rewards == "end" or len(self.world.actors) == 1:
            return profile
        return profile.model_copy(update={"reward_min": None, "reward_max": None})

    def schemas(self) -> SchemaAnswer:
        """Return JSON schemas of all messages."""
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
        """Return the description of this environment."""
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
                    options=pack.shown_options,
                    seeds=list(pack.seeds),
                )
                for name, pack in world.packs.items()
            ],
        )


class WireWorlds:
    """The worlds that clients have used, by name."""

    def __init__(self) -> None:
        self._known: dict[str, WireWorld] = {}

    async def get(self, name: str) -> WireWorld:
        """Return a world; the first call loads it on a thread.

        Raises:
            InvalidRequest: The world does not exist.
            ConfigurationError: The name belongs to something that is not a world.
        """
        if name not in self._known:
            self._known[name] = await asyncio.to_thread(_wire_world, name)
        return self._known[name]


def _wire_world(name: str) -> WireWorld:
    world = load_world(name)
    extras: Any = (
        dict[str, Any],
        Field(default_factory=dict, description="Ignored; for OpenEnv's typed clients"),
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
    """Return the reward field of an answer, without bounds if options may change them."""
    profile = world.profile
    if world.profiles:
        text = f"Since the last action; depends on the options, by default {_when(profile)}"
        return Field(description=text)
    if profile.rewards == "end":
        text = _when(profile)
        return Field(ge=profile.reward_min, le=profile.reward_max, description=text)
    return Field(description="All rewards since the last action; they add up to the score")


def _when(profile: Profile) -> str:
    if profile.rewards == "end":
        return "0.0 until the last step, which has the score"
    return "any step may have a reward"


def encode_observation(observation: Observation, shown: Mapping[str, Any]) -> str:
    """Encode an observation as the ``data`` of an answer."""
    metadata = dict(observation.metadata)
    data: dict[str, Any] = {
        "observation": {**shown, "metadata": metadata},
        "reward": observation.reward,
        "done": observation.done,
    }
    extras = {name: value for name, value in metadata.items() if name != "brief"}
    return encode_answer({**data, "metadata": extras} if extras else data)


def encode_answer(data: Mapping[str, Any]) -> str:
    """Encode strict JSON, at most as long as the longest message."""
    try:
        encoded = strict_json(data)
    except (RecursionError, TypeError, ValueError) as error:
        raise EnvironmentFault(f"the world's answer is not finite JSON: {error}") from error
    if len(encoded) > MAX_OBSERVATION_BYTES:
        raise EnvironmentFault(
            f"the world's answer has {len(encoded)} bytes; the limit is {MAX_OBSERVATION_BYTES}"
        )
    return encoded.decode()


def tool(legal: LegalAction) -> dict[str, Any]:
    """Return a legal action as an MCP tool."""
    schema = dict(legal["arguments"])
    return {"name": legal["tool"], "description": schema.get("description", ""), "inputSchema": schema}


def readme(world: World) -> str:
    """Return the world's description in Markdown."""
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
