"""The world of an environment on another server: its view, its actions and its captains."""

from __future__ import annotations

import random
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from spectator.environments.contract import ObservationModel, OptionsModel, StateModel, Stepper
from spectator.environments.world import Pack, World
from spectator.errors import ConfigurationError, EnvironmentFault
from spectator.events import Event
from spectator.narration.commentary import Line
from spectator.observations import Observation, Profile
from spectator.policies.policy import Decision, Preset, ScriptedPolicy, random_json
from spectator.policies.prompts import Conversation
from spectator.steppers.http import HttpEnvironment, HttpStepper
from spectator.steppers.openenv import OpenEnvStepper, socket_url
from spectator.steppers.remote import AGENT, MAX_ANSWER_BYTES, Observed, read_object
from spectator.text import clean_text

PROFILE_KEY: Final = "x-profile"
"""Keyword in an action's JSON schema under which this library's servers publish a world's profile."""

PROFILES_KEY: Final = "x-profiles"
"""The same for profiles that depend on options: a list of ``{"options", "profile"}``."""

LINE: Final = 300
"""Maximum characters of an observation shown as a line."""

LOOK_S: Final = 10.0
"""Seconds that a server has to describe itself."""

UNKNOWN: Final = Profile(
    rewards="step", reward_min=None, reward_max=None, score_min=None, score_max=None, actions="schema"
)
"""The profile of an environment that publishes none."""


class RemoteOptions(OptionsModel):
    """Any options that the other server accepts."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class RemoteObservation(ObservationModel):
    """Any observation of the other server."""

    model_config = ConfigDict(extra="allow")


class RemoteState(StateModel):
    """Any state of the other server."""

    model_config = ConfigDict(extra="allow")


class AnyAction(ScriptedPolicy):
    """Draws random actions that match the schema; the server may still refuse them.

    Args:
        seed: Seed of its random generator.
    """

    def __init__(self, world: World, seed: int) -> None:
        self._briefing = world.briefing
        self._random = random.Random(seed)

    def choose(self, observation: Observation) -> Decision:
        """Draw an action."""
        legal = self._random.choice(self._briefing.legal(observation))
        arguments = random_json(legal["arguments"], self._random)
        return Decision(self._briefing.as_action(legal["tool"], arguments), "random", "drawn at random")


def remote_world(url: str, *, headers: Mapping[str, str] | None = None, max_steps: int = 1000) -> World:
    """Make the world of an OpenEnv server from its own description; blocks during the requests.

    If the server publishes no profile, any step may be rewarded. An action whose one required field is a
    string is free text; any other action is an object that matches the server's schema.

    Args:
        url: The server, or one of its environments: ``http://host:8000``, ``http://host:8000/envs/counting``.
        headers: Further headers, such as ``Authorization``.
        max_steps: Steps after which an episode is cut off.

    Raises:
        ConfigurationError: ``url`` is invalid, the server is unreachable, or it is not an OpenEnv server.
    """
    opened = socket_url(url)
    base = opened.removesuffix("/ws").replace("ws", "http", 1)
    schema, about = _look(f"{base}/schema", headers), _look(f"{base}/metadata", headers)
    action = schema.get("action")
    if not isinstance(action, dict):
        raise ConfigurationError(f"{base}/schema has no schema of actions; use the URL of an OpenEnv server")
    return _world(
        title=clean_text(str(about.get("name") or "Remote environment"), 80),
        summary=clean_text(str(about.get("description") or "Played on another server."), 300),
        version=clean_text(str(about.get("version") or "unknown"), 80),
        action=action,
        profile=_profile(action),
        profiles=_profiles(action),
        open_remote=lambda episode_id: OpenEnvStepper(opened, headers=headers),
        max_steps=max_steps,
    )


def http_world(where: HttpEnvironment, *, own_ids: bool = False, max_steps: int = 1000) -> World:
    """Make the world of an environment on a pooled rollout server: chat messages in, text out.

    Args:
        own_ids: Whether each episode has its own environment there, with the episode's id.
        max_steps: Steps after which an episode is cut off.
    """
    return text_world(
        where.env_name,
        summary="Played on another server.",
        open_stepper=lambda episode_id: HttpStepper(replace(where, env_id=episode_id) if own_ids else where),
        max_steps=max_steps,
        field=where.text_field,
    )


def text_world(
    title: str,
    *,
    summary: str,
    open_stepper: Callable[[str], Stepper],
    max_steps: int,
    field: str | None = "text",
) -> World:
    """Make the world of an environment that asks with chat messages and is answered with text.

    Args:
        title: Its name for people.
        open_stepper: Opens the environment of an episode, by its id.
        max_steps: Steps after which an episode is cut off.
        field: The action's field with the text; ``None`` if an action is any object.
    """
    text = {"type": "object", "properties": {field: {"type": "string", "maxLength": 16_384}}}
    return _world(
        title=clean_text(title, 80),
        summary=summary,
        version="unknown",
        action={"type": "object"} if field is None else {**text, "required": [field]},
        profile=UNKNOWN.model_copy(update={"actions": "schema" if field is None else "text"}),
        open_remote=open_stepper,
        max_steps=max_steps,
        conversation=_prompt_of if field is not None else None,
    )


def _prompt_of(observation: Observation) -> Sequence[Mapping[str, Any]]:
    """Return the environment's chat messages, which are sent to a model unchanged."""
    prompt: Sequence[Mapping[str, Any]] = observation.content["prompt"]
    return prompt


def _world(
    *,
    title: str,
    summary: str,
    version: str,
    action: Mapping[str, Any],
    profile: Profile,
    open_remote: Callable[[str], Stepper],
    max_steps: int,
    conversation: Conversation | None = None,
    profiles: Sequence[tuple[Mapping[str, Any], Profile]] = (),
) -> World:
    drawn = Preset(
        "random",
        "Random",
        "Draws any action of the right shape.",
        "random",
        lambda seed: AnyAction(world, seed),
    )
    world = World(
        name="remote",
        version=version,
        title=title,
        summary=summary,
        actors=(AGENT,),
        environment=_elsewhere,
        action_type=_action_type(action),
        observation_type=RemoteObservation,
        state_type=RemoteState,
        options_type=RemoteOptions,
        events={"remote.observed": Observed},
        projection=project_observed,
        commentator=comment_observed,
        captains={"random": drawn},
        packs={"default": Pack("default", "1", "The episodes of the other server.")},
        step_cap=lambda options: max_steps,
        default_captain="random",
        profile=profile,
        profiles=profiles,
        remote=open_remote,
        conversation=conversation,
    )
    return world


def _look(url: str, headers: Mapping[str, str] | None) -> dict[str, Any]:
    request = urllib.request.Request(url, headers=dict(headers or {}))
    try:
        with urllib.request.urlopen(request, timeout=LOOK_S) as answer:
            return read_object(answer.read(MAX_ANSWER_BYTES))
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise ConfigurationError(f"cannot read {url}: {error}") from error
    except EnvironmentFault as error:
        raise ConfigurationError(f"{url}: {error}") from error


def _profiles(action: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Profile]]:
    published = action.get(PROFILES_KEY, [])
    try:
        return [(dict(one["options"]), Profile.model_validate(one["profile"])) for one in published]
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"the server's {PROFILES_KEY} is invalid: {error}") from error


def _profile(action: Mapping[str, Any]) -> Profile:
    if PROFILE_KEY in action:
        try:
            return Profile.model_validate(action[PROFILE_KEY])
        except ValidationError as error:
            raise ConfigurationError(f"the server's profile is invalid: {error}") from error
    required, properties = action.get("required") or [], action.get("properties") or {}
    if len(required) == 1 and properties.get(required[0], {}).get("type") == "string":
        return UNKNOWN.model_copy(update={"actions": "text"})
    return UNKNOWN


def _action_type(schema: Mapping[str, Any]) -> type[BaseModel]:
    """Make a model with the server's schema; only required fields are checked here."""
    kept = {name: value for name, value in schema.items() if name not in (PROFILE_KEY, PROFILES_KEY)}
    kept["properties"] = {
        name: value for name, value in (schema.get("properties") or {}).items() if name != "metadata"
    }

    class RemoteAction(BaseModel):
        """An action that matches another server's schema."""

        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *arguments: Any, **named: Any) -> dict[str, Any]:
            return kept

    fields: dict[str, Any] = {name: (Any, Field()) for name in schema.get("required") or []}
    if "tool" in kept["properties"]:
        fields["tool"] = (str, Field())
    return create_model("RemoteAction", __base__=RemoteAction, **fields)


def _elsewhere() -> NoReturn:
    raise EnvironmentFault("the environment is on another server")


def project_observed(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    """Project an unknown environment: its observation and the sum of its rewards."""
    if event.type != "remote.observed":
        return {}
    total = event.data["total"]
    return {
        "headline": f"Step {event.turn}, {total:g} reward so far",
        "observation": event.data["text"],
        "glance": {"step": event.turn, "value": total, "unit": "reward"},
    }


def comment_observed(event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
    """Make a line of each observation, labelled with its reward."""
    if event.type != "remote.observed":
        return ()
    text = clean_text(event.data["text"], LINE)
    mark = f"{event.data['reward']:+g}" if event.data["reward"] else None
    return [Line(text, priority=2 if event.data["reward"] else 3, label=mark, at=str(event.turn))]
