"""TRL's ``GRPOTrainer``: an environment class with a method per tool of a world, and reward functions.

The rollout function is in :mod:`spectator.training.trl_rollouts`.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from spectator.observations import LegalAction
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.training.text_episode import TextEpisode

if TYPE_CHECKING:
    from spectator.training.recorded_run import RecordedRun


class TrainedEpisode(Protocol):
    """The part of an episode that reward functions use."""

    @property
    def value(self) -> float | None:
        """Value so far, at its end the score; ``None`` if the world failed."""

    @property
    def rubric(self) -> dict[str, float]:
        """The parts of the score so far."""

    @property
    def finished(self) -> bool:
        """Whether it finished without being cut short."""

    @property
    def penalised(self) -> bool:
        """Whether its value is the penalty of an answer that was not an action."""


def value_reward(environments: Sequence[TrainedEpisode], **_: Any) -> list[float | None]:
    """Return each episode's score, or the value so far if it was cut short.

    The value is ``None``, which TRL ignores, if the world failed.
    """
    return [one.value for one in environments]


def score_reward(environments: Sequence[TrainedEpisode], **_: Any) -> list[float | None]:
    """Return each finished episode's score; ``None``, which TRL ignores, for others."""
    return [one.value if one.finished else None for one in environments]


def part_reward(part: str) -> Any:
    """Return a reward function for one part of the rubric.

    The reward is ``None`` if the world does not have this part, or the episode has no verdict. A penalised
    episode has its penalty, because most parts begin with the best value.

    >>> part_reward("conduct").__name__
    'conduct'
    """

    def reward(environments: Sequence[TrainedEpisode], **_: Any) -> list[float | None]:
        return [
            one.value if part in one.rubric and (one.penalised or one.value is None) else one.rubric.get(part)
            for one in environments
        ]

    reward.__name__ = part
    return reward


_TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "number": float,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}


class WorldEnvironment:
    """Base of the classes made by :func:`world_environment`.

    Every public method except ``reset`` and ``get_reward`` is a tool.
    """

    _world = ""
    _options: Mapping[str, Any] = {}
    _opponent: str | None = None
    _run: RecordedRun | None = None
    _invalid = InvalidAnswers()

    def __init__(self) -> None:
        self._episode = TextEpisode(
            self._world, self._options, opponent=self._opponent, run=self._run, invalid=self._invalid
        )

    def reset(self, seed: int | None = None, **row: Any) -> str:
        """Begin an episode.

        Args:
            seed: The seed, a column of the data set; rows of one group share it. ``None`` for a random one.
            row: The other columns; those with the name of an option of the world set this option.

        Returns:
            The brief and the whole situation, which TRL appends to the prompt.
        """
        known = self._episode.world.options_type.model_fields
        text = self._episode.reset(seed, {name: value for name, value in row.items() if name in known})
        if isinstance(prompt := row.get("prompt"), list) and prompt:
            self._episode.open_with(_with_text(prompt, text))
        return text

    def get_reward(self) -> float | None:
        """End the episode, unless it is over, and return its value.

        TRL calls this once per rollout, after an answer without a tool call or when there is no more room:
        an episode that is not over has then ended at an answer that was not an action.
        """
        self._episode.stop("the rollout ended at an answer that called no tool")
        return self._episode.value

    @property
    def value(self) -> float | None:
        """The score, or what :meth:`get_reward` would return now."""
        return self._episode.value if self._episode.done else self._episode.value_if_stopped

    @property
    def penalised(self) -> bool:
        """Whether the value is a penalty: that of an answer that was not an action, or of no further one."""
        return self._episode.penalised or (not self._episode.done and self._invalid.penalty is not None)

    @property
    def rubric(self) -> dict[str, float]:
        """The parts of the score so far."""
        return self._episode.rubric

    @property
    def finished(self) -> bool:
        """Whether the episode finished without being cut short."""
        return self._episode.done and not self._episode.truncated

    def _use(self, tool: str, arguments: Mapping[str, Any]) -> str:
        if self._episode.done:
            raise ValueError("The episode is over.")
        given = {name: value for name, value in arguments.items() if value is not None}
        return self._episode.use(tool, given)


def _with_text(prompt: Sequence[Mapping[str, Any]], text: str) -> list[Mapping[str, Any]]:
    """Return a row's prompt as TRL sends it: with ``text`` at the end of its last message."""
    said = prompt[-1].get("content") or ""
    content = f"{said}{text}" if isinstance(said, str) else [*said, {"type": "text", "text": text}]
    return [*prompt[:-1], {**prompt[-1], "content": content}]


def world_environment(
    world: str,
    options: Mapping[str, Any] | None = None,
    *,
    opponent: str | None = None,
    run: RecordedRun | None = None,
    invalid: InvalidAnswers | None = None,
) -> type[WorldEnvironment]:
    """Return a class for ``environment_factory``.

    Args:
        world: Name in the catalogue.
        options: The world's options, for every episode.
        opponent: Preset for all other seats.
        run: Run that records the episodes, so that a server can show them.
        invalid: What an answer that is not an action does; see :class:`TextEpisode`.

    Raises:
        InvalidRequest: The world is unknown, or an option is invalid.

    >>> Counting = world_environment("counting", {"turns": 1})
    >>> environment = Counting()
    >>> prompt = environment.reset(seed=1)
    >>> text = environment.say(text="ACTION: 1")
    >>> environment.get_reward()
    1.0
    """
    invalid = invalid or InvalidAnswers()
    episode = TextEpisode(world, options, opponent=opponent, invalid=invalid)
    episode.reset(seed=0)
    members: dict[str, Any] = {"_world": world, "_options": dict(options or {}), "_opponent": opponent}
    members |= {"_run": run, "_invalid": invalid}
    members["__doc__"] = f"{episode.world.title}, a method for each tool."
    members |= {one["tool"]: _method(one) for one in _playable(episode)}
    episode.close()
    name = "".join(part.title() for part in world.split("_")) + "Environment"
    return type(name, (WorldEnvironment,), members)


def _playable(episode: TextEpisode) -> Sequence[LegalAction]:
    """Return the tools that may become legal in these episodes.

    Raises:
        ValueError: A tool's name cannot be the name of a method.
    """
    tools = episode.playable
    invalid = [
        one["tool"] for one in tools if not one["tool"].isidentifier() or keyword.iskeyword(one["tool"])
    ]
    if invalid:
        raise ValueError(f"the tool {invalid[0]!r} cannot become a method; rename it to a Python identifier")
    return tools


def _method(tool: LegalAction) -> Callable[..., str]:
    """Return a method with the signature and docstring that TRL makes a schema of."""
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
        described = _line(str(rule.get("description", one)))
        if "enum" in rule:
            described += f" One of {', '.join(map(str, rule['enum']))}."
        elif "minimum" in rule and "maximum" in rule:
            described += f" From {rule['minimum']:g} to {rule['maximum']:g}."
        lines.append(f"    {one}: {described}")
    return "\n".join([*lines, "", "Returns:", "    What has changed, as text."])


def _line(text: str) -> str:
    """Return ``text`` on one line without colons, which docstring parsers misread."""
    return " ".join(text.split()).replace(":", ",")
