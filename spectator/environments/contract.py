"""The interfaces that a world implements, and the one through which an episode steps it.

A world is independent of the web, the clock, and its viewers. It declares itself in one
:class:`spectator.environments.world.World`; ``spectator.environments.counting`` is a complete example, and
``spectator.environments.conformance`` has the checks that every world must pass.

Drivers, replays and forks use only :class:`Stepper`. ``spectator.steppers`` implements it: in the caller's
thread, on a separate thread, and on another server.

An :class:`Analyst` evaluates the alternatives to a decision. A :class:`Question` offers viewers three actions
for the next one. A :class:`SceneArtist` draws events, for clips of moments.
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
"""Maximum size of an encoded observation, the same as in the OpenEnv validator."""


class Environment(Protocol):
    """One episode at a time of one world; synchronous.

    It is always called from one thread, unless its world declares :attr:`World.any_thread`.

    Construction is cheap and has no side effects; ``reset`` loads heavy data.
    """

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        """Begin a new episode.

        Args:
            seed: 0 .. ``MAX_SEED``; the only source of randomness.
            episode_id: Echoed by ``state``.
            options: Complete options, validated by the world's ``options_type``.
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
        """Return everything needed to resume exactly from here."""
        ...

    def restore(self, snapshot: bytes) -> Observation:
        """Resume from ``snapshot``: the same actions then have the same future.

        Returns:
            The observation at the snapshot.
        """
        ...

    def facts(self) -> Sequence[Fact]:
        """Return what happened since the last call, in the world's event types, oldest first."""
        ...

    def truth(self) -> Mapping[str, Any]:
        """Return what was hidden; empty until the episode is over. Stored apart from public events."""
        ...


class Projection(Protocol):
    """Folds events into the viewers' state of this world.

    Two members of ``state["world"]`` are used wherever many episodes are shown, so that lists, tiles and
    comparisons work for any world; both are optional:

    ``headline``
        The episode in one line of plain text.
    ``glance``
        ``{"step", "at", "progress", "value", "unit", "suspense"}``, each optional. ``step`` is an integer
        that never decreases: the position in the game, such as the number of the ball, by which two episodes
        can be aligned; ``at`` is the same in the game's notation. ``progress`` is in [0, 1]. ``value`` is the
        main figure and ``unit`` its unit. ``suspense`` is in [0, 1]: how open the result is, weighted by how
        near the end is.
    """

    def __call__(self, state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
        """Return a merge patch for the world's part of the viewers' state; pure.

        Args:
            state: The whole state before ``event``; the world's part is ``state["world"]``, and the core
                parts (``episode``, ``decisions``, ``feed``) may be read.
            event: Any event of the episode, core or own.

        Returns:
            A patch of ``state["world"]``, empty if nothing changes. ``None`` removes a member and lists are
            replaced as a whole, so states must contain no ``None`` and no long list.
        """
        ...


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of an actor, measured from the record of one episode.

    Args:
        name: Short, stable name, ``[a-z][a-z0-9_]*``.
        label: Name for people.
        unit: ``share`` (0 .. 1), ``points`` (hundredths of a chance), ``s``, ``tokens``, ``money`` or empty.
        better: Whether high or low values are better; ``None`` if neither.
        formula: How it is computed, in a sentence or two.
        range: Lowest and highest value; ``None`` for no bound.
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
        """Format ``value`` for people."""
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
"""Name of the figure for the value of a captain's decisions, by which captains are compared."""

OUTCOME: Final = "outcome"
"""Name of the figure for the result: 1 for a win, 0 for a loss, 0.5 for a tie; the seats add up to 1."""


class Meter(Protocol):
    """Measures a world's own figures in the record of one episode."""

    def take(self, event: Event) -> None:
        """Take the next event, core or own; all are given, in order."""
        ...

    def figures(self) -> Mapping[str, Mapping[str, float]]:
        """Return the figures by actor and by measure name, without those that could not be measured."""
        ...


class ObservationModel(BaseModel):
    """Base class of a world's observation as JSON; worlds add their own fields."""

    model_config = ConfigDict(extra="forbid")

    actor: str | None = Field(description="Who must decide next; null once the episode is over")
    legal_actions: list[dict[str, Any]] = Field(
        description="What may be done now: [{tool, arguments: JSON schema}]"
    )
    refused: dict[str, str] | None = Field(
        default=None, description="{rule, message} when the action just sent was refused"
    )


class StateModel(BaseModel):
    """Base class of a world's public state; worlds add their own fields."""

    model_config = ConfigDict(extra="forbid")

    episode_id: str = Field(description="The id given to reset")
    result: str | None = Field(default=None, description="The result in words, once it is over")


class OptionsModel(BaseModel):
    """Base class of a world's options: strict types, no unknown fields, every field with a default."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True, slots=True)
class Alternative:
    """One possible action at a decision.

    Args:
        action: The action.
        words: The action in a few plain words.
        chance: Simulated chance that the decider's side wins after it, 0 .. 1.
        error: Standard error of ``chance``.
        gain: ``chance`` minus that of the action that was played.
        gain_error: Standard error of ``gain``; both are simulated with the same random numbers.
        played: Whether it is the action that was played.
        place: Rank among all evaluated actions, from 1 (best).
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
    """The best actions at one decision.

    Args:
        best: Best first, including the action that was played. Empty if nothing can be simulated.
        weighed: Number of evaluated actions.
        futures: Number of simulated futures.
        how: What is simulated, in a sentence; if ``best`` is empty, why nothing is.
        cards: The evaluation of each card that was asked for; empty if they cannot be evaluated here.
    """

    best: Sequence[Alternative]
    weighed: int
    futures: int
    how: str
    cards: Sequence[Alternative] = ()


@dataclass(frozen=True, slots=True)
class OfferedCall:
    """An action that viewers may choose, in words for people."""

    action: Action
    words: str


@dataclass(frozen=True, slots=True)
class Question:
    """Three actions among which viewers choose before a decision.

    Args:
        actor: Who will decide.
        answered_by: The tool of that decision; the next one of ``actor`` with this tool answers.
        words: The question.
        cards: Three different actions, legal by what is public, that reveal nothing hidden.
    """

    actor: str
    answered_by: str
    words: str
    cards: Sequence[OfferedCall]


class Analyst(Protocol):
    """Follows one episode from its beginning, and evaluates the alternatives at any decision.

    The seed given to ``reset`` is its only source of randomness: the same episode always has the same
    alternatives. It may use state hidden from the captains to follow the episode, but alternatives must not
    reveal it.
    """

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        """Begin the episode; see :meth:`spectator.environments.contract.Environment.reset`."""
        ...

    def step(self, action: Action) -> Observation:
        """Carry out the next decision; see :meth:`spectator.environments.contract.Environment.step`."""
        ...

    def alternatives(self, decided: Action, cards: Sequence[Action] = ()) -> Alternatives:
        """Evaluate the alternatives at the current decision, without changing the position.

        Args:
            decided: The action that was played.
            cards: Actions to evaluate as well, as in a :class:`Question`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Stepped:
    """An environment's answer to ``reset``, ``restore`` or one action.

    Args:
        observation: The next observation.
        facts: What happened since the last answer, oldest first.
        state: Its public state once the episode is over; empty before, when it is read only on request.
    """

    observation: Observation
    facts: Sequence[Fact]
    state: Mapping[str, Any]


class Stepper(Protocol):
    """One environment for one episode at a time, with a deadline for every call.

    Calls are made one after another. Every failure of the environment raises an
    :class:`~spectator.errors.EnvironmentFault`, whose ``__cause__`` is the original error, if any. A call
    that misses its deadline abandons the environment: every later call fails.

    ``limit_s`` is in seconds; ``None`` waits without limit.
    """

    @property
    def given_up(self) -> bool:
        """Whether a call missed its deadline or :meth:`aclose` was called; every later call then fails."""
        ...

    async def reset(
        self, *, seed: int, episode_id: str, options: Mapping[str, Any], limit_s: float | None
    ) -> Stepped:
        """Begin an episode; builds the environment first if necessary.

        Raises:
            EnvironmentFault: It cannot be built, raised an error, or its answer is not an observation.
            StepTimeout: It did not answer within ``limit_s`` seconds.
        """
        ...

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        """Carry out ``action`` once; not retried if the first request may have arrived.

        Raises:
            EnvironmentFault: It raised an error, is unreachable, or its answer is not an observation.
            StepTimeout: It did not answer within ``limit_s`` seconds.
        """
        ...

    async def snapshot(self, *, limit_s: float | None) -> bytes:
        """Return everything needed to resume exactly from here; see ``Environment.snapshot``.

        Raises:
            EnvironmentFault: It raised an error, or does not support snapshots.
            StepTimeout: It did not answer within ``limit_s`` seconds.
        """
        ...

    async def restore(self, snapshot: bytes, *, limit_s: float | None) -> Stepped:
        """Resume from ``snapshot``; raises like :meth:`snapshot`."""
        ...

    async def state(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """Return the public state; raises like :meth:`step`."""
        ...

    async def truth(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """Return what was hidden; empty until the episode is over. Raises like :meth:`step`."""
        ...

    async def aclose(self) -> None:
        """Close the environment and abandon a call in progress. Safe to call twice; never raises."""
        ...


SCENE_WIDTH: Final = 640
SCENE_HEIGHT: Final = 326
"""Size of a scene in its own units; the chances are drawn below it."""

NOTHING_DRAWN: Final = 3
"""Exit code of a drawing program that has nothing to draw."""

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
    """A drawing shown for some time.

    Args:
        svg: The drawing, without the ``svg`` element, in 640 by 326 units.
        duration_s: How long it is shown, in seconds.
        mover: A dot that moves over it meanwhile.
    """

    svg: str
    duration_s: float
    mover: Mover | None = None


class SceneArtist(Protocol):
    """Draws an event of a world from the viewers' state."""

    def __call__(self, event: Event, before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[Scene]:
        """Return the scenes of ``event``, the last one with its outcome; none if it is not drawn.

        Args:
            event: Any event of the episode.
            before: The world's part of the viewers' state before the event.
            after: The world's part after the event.
        """
        ...


def text_svg(
    x: float, y: float, size: float, text: str, colour: str, *, anchor: str = "start", weight: int = 400
) -> str:
    """Render a line of text as SVG, with escaping.

    >>> text_svg(1, 2, 9, "<b>", "#fff").endswith('fill="#fff">&lt;b&gt;</text>')
    True
    """
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-family="{FONT}" font-size="{size:g}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
    )


def whole_svg(inside: str, width: int, height: int) -> str:
    """Wrap a drawing of ``width`` by ``height`` pixels."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{inside}</svg>'
    )
