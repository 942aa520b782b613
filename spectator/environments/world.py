"""The declaration of a world: its environment, captains, packs and seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from spectator.environments.contract import (
    Analyst,
    Environment,
    Measure,
    Meter,
    ObservationModel,
    OptionsModel,
    Projection,
    Question,
    SceneArtist,
    StateModel,
    Stepper,
)
from spectator.events import Event, EventData
from spectator.narration.commentary import Commentator, silent
from spectator.observations import SCORE_AT_THE_END, LegalAction, Observation, Profile
from spectator.policies.policy import Preset
from spectator.policies.prompts import (
    Briefing,
    Conversation,
    Rendering,
    arguments_alone,
    legend,
    tool_and_arguments,
)

if TYPE_CHECKING:
    from spectator.policies.captains import TrainedCaptain

MAX_ANSWER: Final = 16_384
"""Default maximum length of a free-text action, in characters."""

MAX_PICTURE_BYTES: Final = 1024
"""Maximum encoded size of a tile's picture data: a wall sends that of every tile to every viewer."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A named, versioned evaluation pack.

    Args:
        name: Name in the catalogue, such as ``default``.
        version: Increased whenever its episodes change.
        summary: A sentence on its task.
        options: Option values that it fixes; callers cannot set them to other values.
        seeds: Its seeds; empty if any seed is allowed.
    """

    name: str
    version: str
    summary: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] = ()

    @property
    def shown_options(self) -> dict[str, Any]:
        """The options that it fixes, except whole documents."""
        return {name: value for name, value in self.options.items() if not isinstance(value, Mapping)}


RivalReward = Callable[[Mapping[str, Any], Mapping[str, float]], float | Mapping[str, float]]
"""See :attr:`World.rival_reward`."""


def _never(options: Mapping[str, Any]) -> bool:
    return False


def _nothing() -> None:
    """Do nothing: the world needs no preparation."""


@dataclass(frozen=True, slots=True)
class World:
    """A world with everything it provides; entry points of ``spectator.environments`` name one.

    Args:
        name: Name in the catalogue and in URLs, ``[a-z][a-z0-9_]*``.
        version: Version of rules and model; replays are exact only within one version.
        title: Name for people.
        title_of_one: Title of an episode, with options in braces, as in ``{max_overs}-over cricket``; the
            world's title if empty.
        summary: A sentence on the world.
        actors: The actors; the first is the agent's seat.
        environment: Makes a new environment, cheaply.
        action_type: Model of an action, with exactly one required field unless the profile's actions are
            ``schema``; if they are ``text``, that field is the text.
        observation_type: Model of an observation's JSON.
        state_type: Model of the public state.
        options_type: Model of the options.
        events: Model of the data of each of its own event types.
        projection: See :class:`.contract.Projection`.
        commentator: See :class:`spectator.narration.commentary.Commentator`.
        spoken: Converts a line of its commentary for speech: numbers and notation to words.
        captains: Policies for the agent's seat, by name; must contain ``default_captain``.
        opponents: Policies for the other seats, by name; empty if there are none.
        packs: Evaluation packs by name; must contain ``default``.
        beats: Beats of the broadcast pace per event type; if empty, every step is one beat.
        chapters: Event types that end a chapter, by which viewers can step, with its name for people, such as
            an over; empty if there are none.
        profile: Default profile of rewards and actions.
        profiles: Profiles for options that change the rewards (never the actions): the first whose option
            values match the episode's applies.
        remote: Opens the environment of an episode, by its id, on another server or on its own thread;
            ``None`` if ``environment`` makes it.
        conversation: Reads the chat messages for a language model from an observation that contains a
            conversation; ``None`` if the prompt is built from the observation.
        imported_packs: Returns the packs that users imported into a data folder, besides :attr:`packs`.
        step_cap: Turns after which an episode with these options is cut off; well beyond any real length.
        opponent_options: Default option values against an opponent, by its name, such as its known strength.
        default_captain: Name of the default captain.
        default_opponent: Name of the default opponent.
        watched_options: Default option values of an episode that people can follow (any pace except ``max``):
            those that take time and only viewers need.
        collected_options: Default option values of an episode that the collector plays: those that give
            rewards before the end.
        simulate: Plays ``(matches, seed, options)`` without a driver, as fast as possible, and yields one
            plain JSON object for each happening; ``None`` if the world has no such path.
        panel: Folder with ``panel.js`` and ``panel.css`` for the cockpit; ``None`` if it has none.
        chances: Returns the agent's chances to win during the episode, each in [0, 1], oldest first, from the
            world's part of the viewers' state; ``None`` in worlds without them.
        task: The game and its aim for a language model, in a few sentences; ``title`` and ``summary`` if
            empty.
        rendering: How observations are rendered for a language model; ``None`` renders their members with
            descriptions.
        tools: Every action that may become legal in any episode, with its widest schema, for agents that ask
            only once; if empty, they get the actions that were legal so far.
        measures: The figures of its meter, besides :data:`.contract.OUTCOME`.
        meter: Makes a :class:`.contract.Meter` for one episode; ``None`` if it has no figures of its own.
        board_lines: Renders its part of the viewers' state as a few lines of plain text, for terminals;
            ``None`` if its headline is enough.
        picture: Returns what ``tile.js`` of its panel draws as a small picture of the episode, on the wall
            and in the lobby, from the world's part of the viewers' state: JSON without nulls, at most
            :data:`MAX_PICTURE_BYTES`, with rarely changing parts in separate members. Its ``marks``, if any,
            are indexes of :attr:`chances` to mark on their line; if present without chances, they announce
            that chances will follow. Empty if there is nothing to draw; ``None`` in worlds without pictures.
        scenes: Draws events, for clips of moments; ``None`` in worlds without scenes.
        snapshot_for: Converts a snapshot to one of another episode, by its id, all else equal, so that a fork
            begins at its parent's snapshot; ``None`` if forks replay the whole past.
        any_thread: Whether an environment may be called from different threads, one at a time, and usually
            answers within milliseconds; private environments then share a thread, which costs less. A slow
            call does no harm: the others continue on another thread.
        prepare: Loads, once, the modules and the data that play would otherwise load on first use, when no
            further file may be opened; called on an environment's own thread before it is built.
        steps_at_once: Returns whether, with these options, every call of its environment takes at most a few
            milliseconds and waits for nothing, so that runs and evaluations may step it in their event loop's
            thread; false by default. It is stricter than :attr:`any_thread`. A world with another
            environment must declare it again.
        promise: Returns the predicted chance that the agent wins, from 0 to 1, if an event contains one, else
            ``None``. Predictions are compared with results, see :mod:`spectator.evaluation.intervals`.
        call_values: Returns what an event says that the newest decisions were worth, by actor, in hundredths
            of a win; empty for most events. ``None`` in worlds that do not value decisions.
        showcase: Pairs of captain and opponent worth watching, best first; for :meth:`pairings`.
        analyst: Makes a :class:`.contract.Analyst`, which evaluates alternatives; ``None`` if the world does
            not support them.
        question: Returns what viewers may call before the next decision, from the observation before it;
            ``None`` if nothing now, or in worlds without an ``analyst``.
        sides: Returns the names of the actors' sides, such as teams, in the order of the actors, from the
            world's part of the viewers' state; empty while they are unknown, ``None`` in worlds without them.
        moment_name: Names what happened at an event in a word or two, from the world's part of the viewers'
            state after its turn, such as ``SIX``; empty for the label of its commentary.
        team_names: Values of the options ``ACTOR_team``, by which a league gives each captain a team of its
            own; empty in worlds without such options.
        weigh_draft: Prices the calls that a person drafts, from the seat's observation and those calls, as
            JSON for the ``seat`` of its panel; ``None`` if the world does not price them.
        own_captain: Makes, from a name and its table in the captains file, the preset of weights that a user
            trained; ``None`` if the world has no such captains.
        rival_reward: Returns the reward of the other seats at the end, or a mapping with the reward of each,
            from the complete options and the parts of the agent's score (``rubric``), so that a model that
            plays every seat can be trained in each; ``None`` if only the agent can be trained.
    """

    name: str
    version: str
    title: str
    summary: str
    actors: tuple[str, ...]
    environment: Callable[[], Environment]
    action_type: type[BaseModel]
    observation_type: type[ObservationModel]
    state_type: type[StateModel]
    options_type: type[OptionsModel]
    events: Mapping[str, type[EventData]]
    projection: Projection
    captains: Mapping[str, Preset]
    packs: Mapping[str, Pack]
    step_cap: Callable[[Mapping[str, Any]], int]
    imported_packs: Callable[[Path], Mapping[str, Pack]] | None = None
    opponents: Mapping[str, Preset] = field(default_factory=dict)
    commentator: Commentator = silent
    spoken: Callable[[str], str] = str
    beats: Mapping[str, float] = field(default_factory=dict)
    chapters: Mapping[str, str] = field(default_factory=dict)
    default_captain: str = "heuristic"
    default_opponent: str = "heuristic"
    watched_options: Mapping[str, Any] = field(default_factory=dict)
    collected_options: Mapping[str, Any] = field(default_factory=dict)
    simulate: Callable[[int, int, Mapping[str, Any]], Iterator[Mapping[str, Any]]] | None = None
    panel: Path | None = None
    chances: Callable[[Mapping[str, Any]], Sequence[float]] | None = None
    task: str = ""
    measures: Sequence[Measure] = ()
    meter: Callable[[], Meter] | None = None
    opponent_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    profile: Profile = SCORE_AT_THE_END
    profiles: Sequence[tuple[Mapping[str, Any], Profile]] = ()
    remote: Callable[[str], Stepper] | None = None
    conversation: Conversation | None = None
    rendering: Rendering | None = None
    tools: Sequence[LegalAction] = ()
    any_thread: bool = False
    steps_at_once: Callable[[Mapping[str, Any]], bool] = _never
    promise: Callable[[Event], float | None] | None = None
    call_values: Callable[[Event], Mapping[str, float]] | None = None
    board_lines: Callable[[Mapping[str, Any]], Sequence[str]] | None = None
    picture: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    scenes: SceneArtist | None = None
    snapshot_for: Callable[[bytes, str], bytes] | None = None
    title_of_one: str = ""
    analyst: Callable[[], Analyst] | None = None
    question: Callable[[Observation], Question | None] | None = None
    showcase: Sequence[tuple[str, str]] = ()
    weigh_draft: Callable[[Observation, Sequence[Any]], Mapping[str, Any]] | None = None
    own_captain: Callable[[str, TrainedCaptain], Preset] | None = None
    rival_reward: RivalReward | None = None
    sides: Callable[[Mapping[str, Any]], Sequence[str]] | None = None
    moment_name: Callable[[Event, Mapping[str, Any]], str] | None = None
    team_names: Sequence[str] = ()
    prepare: Callable[[], None] = _nothing

    def pairings(self) -> list[tuple[str, str | None]]:
        """List pairs of captain and opponent to watch: different, free of charge, and available here.

        The world's own model, if any, takes the agent's seat in every pair. The opponent is ``None`` in
        worlds without opponents.
        """
        captains = [name for name, preset in self.captains.items() if plays_free(preset)]
        others = [name for name, preset in self.opponents.items() if plays_free(preset)]
        model = next((name for name in captains if self.captains[name].source == "model"), None)
        if not others:
            return [(model or self.default_captain, None)]
        listed = [(model or captain, other) for captain, other in self.showcase if other in others]
        usual = model or self.default_captain
        found: list[tuple[str, str | None]] = [
            (captain, other)
            for captain, other in listed or [(usual, other) for other in others]
            if captain in captains and captain != other
        ]
        return found or [(usual, self.default_opponent)]

    @property
    def briefing(self) -> Briefing:
        """What a language model needs to know before it decides here."""
        fields, in_text = self.action_type.model_fields, self.profile.actions == "text"
        return Briefing(
            self.task or f"{self.title}. {self.summary}",
            as_action=tool_and_arguments if self.names_tools else arguments_alone,
            standing=self.standing,
            text_field=next(name for name in fields if fields[name].is_required()) if in_text else None,
            conversation=self.conversation,
            rendering=self.rendering or Rendering(guide=legend(self.observation_type)),
        )

    def profile_of(self, options: Mapping[str, Any]) -> Profile:
        """Return the profile of an episode with these complete options."""
        for required, profile in self.profiles:
            if all(options.get(name) == value for name, value in required.items()):
                return profile
        return self.profile

    @property
    def names_tools(self) -> bool:
        """Whether an action is ``{"tool", "arguments"}``; if not, it is the arguments alone."""
        return self.profile.actions == "tools" and "tool" in self.action_type.model_fields

    @property
    def standing(self) -> tuple[LegalAction, ...]:
        """The one action that is always legal, with its schema; none if observations list legal actions."""
        return () if self.profile.actions == "tools" else _standing(self.action_type, self.profile.actions)


def plays_free(preset: Preset) -> bool:
    """Whether a captain can play here now and costs nothing."""
    return preset.missing is None and not (
        preset.costs_money or preset.mirrors or preset.source in ("human", "oracle")
    )


@cache
def _standing(action_type: type[BaseModel], actions: str) -> tuple[LegalAction, ...]:
    schema = action_type.model_json_schema()
    if actions == "schema":
        return ({"tool": "act", "arguments": schema},)
    properties = {name: {"maxLength": MAX_ANSWER, **rules} for name, rules in schema["properties"].items()}
    return ({"tool": "answer", "arguments": {**schema, "properties": properties}},)


MAX_SEED: Final = 2**53 - 1
"""Largest seed: the largest integer that every JSON parser keeps exactly."""

SEALED_BIT: Final = 1 << 52
"""Development seeds are below it and sealed seeds have it set, so they cannot coincide."""


def derive_seed(seed: int, *names: str | int) -> int:
    """Derive a seed for one named part of an episode, independent of those of other parts.

    Equal in every process: SHA-256 of the seed and the names, never Python's hash.

    >>> home = derive_seed(7, "policy", "home")
    >>> home == derive_seed(7, "policy", "home") != derive_seed(7, "policy", "away")
    True
    """
    text = "\x1f".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") & MAX_SEED


def sealed_seeds(world: str, pack: Pack, phrase: str, count: int) -> tuple[int, ...]:
    """Derive the seeds of a sealed evaluation: without the phrase, nobody can have developed on them.

    Args:
        world: Name of the world.
        pack: The pack.
        phrase: The secret, kept outside the repository; at least 8 characters.
        count: Number of seeds.

    Raises:
        ValueError: The phrase is too short.
    """
    if len(phrase) < 8:
        raise ValueError("the phrase of a sealed evaluation must have at least 8 characters")
    return tuple(
        derive_seed(number, world, "sealed", pack.name, pack.version, phrase) % SEALED_BIT + SEALED_BIT
        for number in range(count)
    )
