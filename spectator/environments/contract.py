"""Define what a world implements, and the port through which an episode steps it.

A world knows nothing of the web, the clock, or its viewers. It declares itself in one
:class:`spectator.environments.world.World`; ``spectator.environments.counting`` is a complete example, and
``spectator.environments.conformance`` has the checks that every world must pass.

A driver, a replay and a fork know only :class:`Stepper`. ``spectator.steppers`` implements it: in the
caller's thread, on a thread of its own, and on another server.

An :class:`Analyst` says what else could have been decided and what would have followed. A
:class:`SceneArtist` draws what happened, for clips of moments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol
from xml.sax.saxutils import escape

from pydantic import BaseModel, ConfigDict, Field

from spectator.events import Event, Fact
from spectator.observations import Observation
from spectator.policies.policy import Action

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


@dataclass(frozen=True, slots=True)
class Alternative:
    """One call at a decision.

    Args:
        action: The call, as it is sent.
        words: The same in a few plain words.
        chance: Chance that the side of whoever decides wins after it, 0 .. 1, as simulated.
        error: Its standard error.
        gain: ``chance`` less that after what was decided.
        gain_error: Standard error of that: both are played with the same random numbers.
        played: Whether it is what was decided.
        place: Its place among all that were weighed, from 1, the best.
    """

    action: Mapping[str, Any]
    words: str
    chance: float
    error: float
    gain: float
    gain_error: float
    played: bool
    place: int


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The calls worth looking at, at one decision.

    Args:
        best: Best first; what was decided is among them. Empty where nothing can be simulated.
        weighed: How many calls were weighed.
        futures: How many futures were played for that.
        how: What is simulated, in a sentence; why nothing is, where ``best`` is empty.
    """

    best: Sequence[Alternative]
    weighed: int
    futures: int
    how: str


class Analyst(Protocol):
    """Follows one episode from its beginning, and says at any decision what else could have been decided.

    It draws on the seed that ``reset`` is given and on nothing else: the same episode has the same
    alternatives, whoever asks. What is hidden from the captains may be used to come to a decision, and shows
    in no alternative.
    """

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        """Stand at the beginning; see :meth:`spectator.environments.contract.Environment.reset`."""
        ...

    def step(self, action: Action) -> Observation:
        """Do what was decided next; see :meth:`spectator.environments.contract.Environment.step`."""
        ...

    def alternatives(self, decided: Action) -> Alternatives:
        """What could be decided where it stands; it stands there afterwards.

        Args:
            decided: What was decided there.
        """
        ...


@dataclass(frozen=True, slots=True)
class Stepped:
    """What an environment answered to ``reset``, ``restore`` or one action.

    Args:
        observation: What it shows next.
        facts: What happened since the last answer, oldest first.
        state: Its public state once the episode is over; empty before, where it is read only on request.
    """

    observation: Observation
    facts: Sequence[Fact]
    state: Mapping[str, Any]


class Stepper(Protocol):
    """One environment for one episode at a time, with a deadline for every call.

    Calls come one after another. Every failure of the environment leaves as an
    :class:`~spectator.errors.EnvironmentFault`, whose ``__cause__`` is the original error where there is one.
    A call that misses its deadline gives the environment up: no later call reaches it.

    ``limit_s`` is in seconds; ``None`` waits without limit.
    """

    @property
    def given_up(self) -> bool:
        """Whether a call missed its deadline or :meth:`aclose` was called; every later call then fails."""
        ...

    async def reset(
        self, *, seed: int, episode_id: str, options: Mapping[str, Any], limit_s: float | None
    ) -> Stepped:
        """Begin an episode; builds the environment first where that has not happened yet.

        Raises:
            EnvironmentFault: It cannot be built, raised, or answered what is no observation.
            StepTimeout: It did not answer within ``limit_s`` seconds.
        """
        ...

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        """Carry out ``action`` once; never sent again where the first request may have arrived.

        Raises:
            EnvironmentFault: It raised, cannot be reached, or answered what is no observation.
            StepTimeout: It did not answer within ``limit_s`` seconds.
        """
        ...

    async def snapshot(self, *, limit_s: float | None) -> bytes:
        """Everything needed to go on from here, exactly; see ``Environment.snapshot``.

        Raises:
            EnvironmentFault: It raised, or keeps no snapshots.
            StepTimeout: It did not answer within ``limit_s`` seconds.
        """
        ...

    async def restore(self, snapshot: bytes, *, limit_s: float | None) -> Stepped:
        """Go on from ``snapshot``; raises as :meth:`snapshot` does."""
        ...

    async def state(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """The public state; raises as :meth:`step` does."""
        ...

    async def truth(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """What was hidden; empty until the episode is over. Raises as :meth:`step` does."""
        ...

    async def aclose(self) -> None:
        """Let go of the environment, a call under way too. Safe to call twice; never raises."""
        ...


SCENE_WIDTH: Final = 640
SCENE_HEIGHT: Final = 326
"""Units of a scene; below it the chances are drawn."""

NOTHING_DRAWN: Final = 3
"""How a program that draws ends where there is nothing to draw."""

FONT: Final = "'DejaVu Sans', 'Liberation Sans', 'Noto Sans', Arial, Helvetica, sans-serif"
GROUND, INK, FAINT, LINE = "#0c120e", "#f3efe4", "#979b89", "#263228"
GRASS, SKY, WILLOW, CHERRY = "#63b87e", "#79b8e0", "#e2b458", "#f4695f"


@dataclass(frozen=True, slots=True)
class Mover:
    """A dot that moves over a scene.

    Args:
        places: Where it is, ``(x, y)``, at equal steps from the scene's beginning to its end; at least one.
        radius: Its size.
        colour: Its colour.
    """

    places: Sequence[tuple[float, float]]
    radius: float = 5.0
    colour: str = INK


@dataclass(frozen=True, slots=True)
class Scene:
    """A drawing that stands for a while.

    Args:
        svg: What is drawn, without the ``svg`` element, in 640 by 326 units.
        duration_s: How long it stands, seconds.
        mover: What moves over it meanwhile.
    """

    svg: str
    duration_s: float
    mover: Mover | None = None


class SceneArtist(Protocol):
    """Draws what an event of a world was, from what viewers saw."""

    def __call__(self, event: Event, before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[Scene]:
        """The scenes of ``event``, the last one how it came out; none of an event that is not drawn.

        Args:
            event: Any event of the episode.
            before: The world's part of the viewers' state before it.
            after: The same after it.
        """
        ...


def text_svg(
    x: float, y: float, size: float, text: str, colour: str, *, anchor: str = "start", weight: int = 400
) -> str:
    """A line of text as SVG; whatever is in it is shown as it is.

    >>> text_svg(1, 2, 9, "<b>", "#fff").endswith('fill="#fff">&lt;b&gt;</text>')
    True
    """
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-family="{FONT}" font-size="{size:g}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
    )


def whole_svg(inside: str, width: int, height: int, units: tuple[int, int] | None = None) -> str:
    """A drawing of ``width`` by ``height`` pixels; its own units where they are others."""
    wide, high = units or (width, height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {wide} {high}">{inside}</svg>'
    )
