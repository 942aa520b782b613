"""The contract of a world: its environment, what viewers see of it, and what is measured in it.

A world knows nothing of the web, the clock, or who watches. What it declares of itself is one
:class:`spectator.environments.world.World`; see ``spectator.environments.counting`` for a whole one in a page
and ``spectator.environments.conformance`` for the checks that every world must pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from spectator.events import Event, Fact
from spectator.observations import Observation
from spectator.policies.base import Action

MAX_OBSERVATION_BYTES: Final = 1024 * 1024
"""Upper bound of an encoded observation, that of the OpenEnv validator."""


class Environment(Protocol):
    """One episode at a time of one world; synchronous.

    It is always called from one thread, unless its world declares :attr:`World.any_thread`.

    Construction is cheap and free of side effects; what is heavy is loaded by ``reset``.
    """

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        """Begin a new episode.

        Args:
            seed: 0 .. ``MAX_SEED``; the only source of randomness.
            episode_id: Echoed by ``state``.
            options: As validated by the world's ``options_type``, every default filled in.
        """
        ...

    def step(self, action: Action) -> Observation:
        """Carry out ``action`` for the actor whose turn it is.

        An action that is malformed or illegal is refused: the observation says why under ``refused`` and
        the game's state is unchanged. After the end every action is refused and ``done`` stays true.
        """
        ...

    @property
    def state(self) -> Mapping[str, Any]:
        """The public state, in the shape of ``state_type``; hidden truth never appears here."""
        ...

    def snapshot(self) -> bytes:
        """Everything needed to go on from here, exactly."""
        ...

    def restore(self, snapshot: bytes) -> Observation:
        """Go on from ``snapshot``: the same actions then have the same future.

        Returns:
            The observation there.
        """
        ...

    def facts(self) -> Sequence[Fact]:
        """What happened since the last call, in the world's own event types, oldest first."""
        ...

    def truth(self) -> Mapping[str, Any]:
        """What was hidden; empty until the episode is over. Kept apart from every public record."""
        ...


class Projection(Protocol):
    """Folds events into what a viewer of this world sees.

    Two members of ``state["world"]`` are read wherever many episodes are shown, so that no list, tile or
    comparison needs to know the world; both may be left out:

    ``headline``
        The episode in one line of plain text.
    ``glance``
        ``{"step", "at", "progress", "value", "unit", "suspense"}``, each of which may be left out. ``step``
        is an integer that never falls: where in the game it is, such as the number of the ball, so that two
        episodes can be shown in step; ``at`` is the same in the game's own notation. ``progress`` is in
        [0, 1]. ``value`` is the figure that people follow and ``unit`` what it counts. ``suspense`` is in
        [0, 1]: how open the end is, the more the nearer it is.
    """

    def __call__(self, state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
        """Merge patch for the world's own part of the viewer's state; pure.

        Args:
            state: The whole state before ``event``; the world's own part is ``state["world"]``, the core's
                parts (``episode``, ``decisions``, ``feed``) are there to be read.
            event: Any event of the episode, core or own.

        Returns:
            A patch of ``state["world"]``, empty when nothing changes. It removes by ``None`` and replaces
            lists whole, so states hold no ``None`` and no long list.
        """
        ...


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of whoever took a seat, read from the record of one episode.

    Args:
        name: Short stable name, ``[a-z][a-z0-9_]*``.
        label: Name shown to people.
        unit: ``share`` (0 .. 1), ``points`` (hundredths of a chance), ``s``, ``tokens``, ``money`` or empty.
        better: Which end is the better one; ``None`` when neither is.
        formula: How it is made, in a sentence or two.
        range: Lowest and highest value; ``None`` where there is no bound.
        blind: What it cannot show.
    """

    name: str
    label: str
    unit: Literal["share", "points", "s", "tokens", "money", ""]
    better: Literal["high", "low"] | None
    formula: str
    range: tuple[float | None, float | None]
    blind: str

    def shown(self, value: float) -> str:
        """``value`` as people read it."""
        match self.unit:
            case "share":
                return f"{value:.3f}"
            case "points":
                return f"{value:+.2f}"
            case "s":
                return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.1f} s"
            case "tokens":
                return f"{value:,.0f}"
            case "money":
                return f"{value:.4f}"
            case _:
                return f"{value:.2f}"


DECISION_VALUE: Final = "decision_value"
"""Name of the figure that says what a captain's decisions were worth; captains who met are compared by it."""

OUTCOME: Final = "outcome"
"""Name of the figure that says who won: 1 for a win, 0 for a loss, 0.5 for a tie; the seats add up to 1."""


class Meter(Protocol):
    """Reads a world's own figures off the record of one episode."""

    def take(self, event: Event) -> None:
        """Take note of the next event, core or own; all are given, in order."""
        ...

    def figures(self) -> Mapping[str, Mapping[str, float]]:
        """By actor, then by the name of a measure; what could not be measured is left out."""
        ...


class ObservationModel(BaseModel):
    """Base of a world's observation as it travels; worlds add their own fields."""

    model_config = ConfigDict(extra="forbid")

    actor: str | None = Field(description="Who must decide next; null once the episode is over")
    legal_actions: list[dict[str, Any]] = Field(
        description="What may be done now: [{tool, arguments: JSON schema}]"
    )
    refused: dict[str, str] | None = Field(
        default=None, description="{rule, message} when the action just sent was refused"
    )


class StateModel(BaseModel):
    """Base of a world's public state; worlds add their own fields."""

    model_config = ConfigDict(extra="forbid")

    episode_id: str = Field(description="The id given to reset")
    result: str | None = Field(default=None, description="The result in words, once it is over")


class OptionsModel(BaseModel):
    """Base of a world's options: strict types, nothing unknown, every field with a default."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
