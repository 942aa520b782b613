"""TRL: an environment class for ``GRPOTrainer``, with one method for each tool of a world."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from spectator.observations import LegalAction
from spectator.training.text_episode import TextEpisode

if TYPE_CHECKING:
    from spectator.training.recorded_run import RecordedRun

_TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "number": float,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}


class WorldEnvironment:
    """Base of the classes that :func:`world_environment` makes; TRL constructs it without arguments.

    Every public method but ``reset`` and ``get_reward`` is a tool.
    """

    _world = ""
    _options: Mapping[str, Any] = {}
    _opponent: str | None = None
    _run: RecordedRun | None = None

    def __init__(self) -> None:
        self._episode = TextEpisode(self._world, self._options, opponent=self._opponent, run=self._run)

    def reset(self, seed: int | None = None, **row: Any) -> str:
        """Begin an episode.

        Args:
            seed: Its seed, a column of the data set; rows of one group share it. ``None`` has one drawn.
            row: The other columns; those that name options of the world are taken as such.

        Returns:
            The brief and the whole situation, which TRL appends to the prompt.
        """
        known = self._episode.world.options_type.model_fields
        return self._episode.reset(seed, {name: value for name, value in row.items() if name in known})

    def get_reward(self) -> float:
        """What the episode is worth: its score, or what it had come to where it was cut short."""
        return self._episode.value

    @property
    def value(self) -> float:
        """See :meth:`get_reward`."""
        return self._episode.value

    @property
    def rubric(self) -> dict[str, float]:
        """The parts of the score so far."""
        return self._episode.rubric

    @property
    def finished(self) -> bool:
        """Whether the episode came to its own end."""
        return self._episode.done and not self._episode.truncated

    def _use(self, tool: str, arguments: Mapping[str, Any]) -> str:
        if self._episode.done:
            raise ValueError("The episode is over.")
        given = {name: value for name, value in arguments.items() if value is not None}
        return self._episode.use(tool, given)


def world_environment(
    world: str,
    options: Mapping[str, Any] | None = None,
    *,
    opponent: str | None = None,
    run: RecordedRun | None = None,
) -> type[WorldEnvironment]:
    """A class for ``environment_factory``.

    Args:
        world: Name in the catalogue.
        options: The world's options, for every episode.
        opponent: Preset that takes every other seat.
        run: Where episodes are recorded while they are played, so that a server shows them.

    Raises:
        InvalidRequest: There is no such world, or an option is wrong.

    >>> Counting = world_environment("counting", {"turns": 1})
    >>> environment = Counting()
    >>> prompt = environment.reset(seed=1)
    >>> said = environment.say(text="ACTION: 1")
    >>> environment.get_reward()
    1.0
    """
    episode = TextEpisode(world, options, opponent=opponent)
    episode.reset(seed=0)
    members: dict[str, Any] = {"_world": world, "_options": dict(options or {}), "_opponent": opponent}
    members["_run"] = run
    members["__doc__"] = f"{episode.world.title}, a method for each tool."
    members |= {one["tool"]: _method(one) for one in _playable(episode)}
    episode.close()
    name = "".join(part.title() for part in world.split("_")) + "Environment"
    return type(name, (WorldEnvironment,), members)


def _playable(episode: TextEpisode) -> Sequence[LegalAction]:
    """The tools that may become legal in these episodes."""
    tools = episode.playable
    wrong = [one["tool"] for one in tools if not one["tool"].isidentifier() or keyword.iskeyword(one["tool"])]
    if wrong:
        raise ValueError(f"no method can be called {wrong[0]!r}")
    return tools


def _method(tool: LegalAction) -> Callable[..., str]:
    """A method with the signature, the annotations and the docstring from which TRL makes a schema."""
    name, schema = tool["tool"], tool["arguments"]
    rules: Mapping[str, Any] = schema.get("properties", {})
    required = [one for one in schema.get("required", ()) if one in rules]
    names = [*required, *(one for one in rules if one not in required)]

    def method(self: WorldEnvironment, *given: Any, **named: Any) -> str:
        bound = signature.bind(self, *given, **named).arguments
        return self._use(name, {one: value for one, value in bound.items() if one != "self"})

    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    types = {one: _type_of(rules[one], optional=one not in required) for one in names}
    signature = inspect.Signature(
        [first, *(_parameter(one, types[one], optional=one not in required) for one in names)],
        return_annotation=str,
    )
    method.__name__ = method.__qualname__ = name
    method.__annotations__ = {**types, "return": str}
    method.__signature__ = signature  # type: ignore[attr-defined]
    method.__doc__ = _docstring(name, schema, names)
    return method


def _parameter(name: str, kind: Any, *, optional: bool) -> inspect.Parameter:
    default = None if optional else inspect.Parameter.empty
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)


def _type_of(rule: Mapping[str, Any], *, optional: bool) -> Any:
    kind = _TYPES.get(str(rule.get("type")), str)
    return kind | None if optional else kind


def _docstring(name: str, schema: Mapping[str, Any], names: Sequence[str]) -> str:
    about = _line(str(schema.get("description", name)))
    lines = [about, "", "Args:"] if names else [about]
    for one in names:
        rule = schema["properties"][one]
        told = _line(str(rule.get("description", one)))
        if "enum" in rule:
            told += f" One of {', '.join(map(str, rule['enum']))}."
        elif "minimum" in rule and "maximum" in rule:
            told += f" From {rule['minimum']:g} to {rule['maximum']:g}."
        lines.append(f"    {one}: {told}")
    return "\n".join([*lines, "", "Returns:", "    What has changed, as text."])


def _line(text: str) -> str:
    """One line without colons, which the readers of docstrings take for the name of an argument."""
    return " ".join(text.split()).replace(":", ",")
