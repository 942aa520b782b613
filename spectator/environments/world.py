"""Declare a world: its environment, captains, packs and seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from spectator.environments.contract import (
    Analyst,
    Environment,
    Measure,
    Meter,
    ObservationModel,
    OptionsModel,
    Projection,
    SceneArtist,
    StateModel,
    Stepper,
)
from spectator.events import Event, EventData
from spectator.narration.commentary import Commentator, silent
from spectator.observations import SCORE_AT_THE_END, LegalAction, Profile
from spectator.policies.policy import Preset
from spectator.policies.prompts import (
    Briefing,
    Conversation,
    Rendering,
    arguments_alone,
    legend,
    tool_and_arguments,
)

MAX_ANSWER: Final = 16_384
"""Characters of free text that is an action, where the world itself does not say."""

MAX_PICTURE_BYTES: Final = 1024
"""Upper bound of what a tile's picture is drawn from, encoded: a wall sends every tile's to every viewer."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A named, versioned evaluation pack.

    Args:
        name: Name in the catalogue, such as ``default``.
        version: Raised whenever its episodes change.
        summary: A sentence on what it asks of the agent.
        options: Option values that it fixes; a caller may not set the same ones to something else.
        seeds: Its seeds; empty when any seed will do.
    """

    name: str
    version: str
    summary: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] = ()


def _never(options: Mapping[str, Any]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class World:
    """A world and all that it brings: what an entry point of the group ``spectator.environments`` names.

    Args:
        name: Name in the catalogue and in URLs, ``[a-z][a-z0-9_]*``.
        version: Version of rules and model; a replay is exact only within one.
        title: Name shown to people.
        title_of_one: The same of an episode, with options in braces, as in ``{max_overs}-over cricket``; the
            world's when empty.
        summary: A sentence on what it is.
        actors: Who may have to decide; the first is the agent's own seat.
        environment: Makes a new environment, cheaply.
        action_type: Model of an action, with exactly one required field unless the profile says ``schema``;
            where it says ``text``, that field is the text.
        observation_type: Model of an observation as it travels.
        state_type: Model of the public state.
        options_type: Model of the options.
        events: Model of the data of each of its own event types.
        projection: See :class:`.contract.Projection`.
        commentator: See :class:`spectator.narration.commentary.Commentator`.
        spoken: A line of its commentary as it is to be read aloud: numbers and notation in words.
        captains: Policies that may take the agent's seat, by name; must hold ``default_captain``.
        opponents: Policies that may take the other seats, by name; empty when there are none.
        packs: Evaluation packs by name; must hold ``default``.
        beats: How many beats of the broadcast pace each event type is worth; empty makes every step one.
        chapters: Event types that end a stretch which viewers step by, with what people call it, such as an
            over; empty when there is none.
        profile: When the agent is rewarded, within which bounds, and what actions are, by default.
        profiles: The same where options change the rewards (never what actions are): the first whose values
            are those of the episode is its profile.
        remote: Opens the environment of an episode, by its id, where it is on another server; ``None`` where
            ``environment`` makes it here.
        conversation: Reads what a language model is sent out of an observation that holds a conversation of
            the world's own; ``None`` where it is made from what is shown.
        step_cap: Turns after which an episode with these options is cut short; well beyond any real one.
        opponent_options: Option values for an episode against an opponent, by its name, where it is not asked
            for others: such as how strong it is known to be.
        default_captain: Name of the captain that plays when none is asked for.
        default_opponent: The same for the other seats.
        watched_options: Option values for an episode that people can follow (any pace but ``max``), where it
            is not asked for others: what costs time and only viewers need.
        simulate: Plays ``(matches, seed, options)`` without a driver, as fast as it can, and yields one plain
            JSON object for each thing that happened; ``None`` when it has no such path.
        panel: Folder with ``panel.js`` and ``panel.css`` for the cockpit; ``None`` when it has none.
        chances: The agent's chances to win in the course of the episode, each in [0, 1], oldest first, read
            from the world's part of the viewers' state; ``None`` in worlds without them.
        task: What a language model is told of the game and its aim, in a few sentences; ``title`` and
            ``summary`` when empty.
        rendering: How an episode is told to a language model; ``None`` tells the observation's members, with
            their descriptions.
        tools: Every action that may become legal in any episode, with its widest schema, for agents who ask
            once what there is; may be empty, then what is legal so far is told.
        measures: What its meter measures, beside :data:`.contract.OUTCOME`.
        meter: Makes a :class:`.contract.Meter` for one episode; ``None`` if the world measures nothing of its
            own.
        board_lines: Its part of the viewers' state in a few lines of plain text, for terminals; ``None``
            where its headline says all.
        picture: What ``tile.js`` of its panel draws as a small picture of how the episode stands, on the wall
            and in the lobby, read from the world's part of the viewers' state: JSON without nulls, at most
            :data:`MAX_PICTURE_BYTES`, with what changes seldom in members of its own. Its ``marks``, if any,
            number points of :attr:`chances`, from 0, that are marked on their line; while no chances are told
            they say that some will be. Empty while there is nothing to draw; ``None`` in worlds that draw
            nothing.
        scenes: Draws what happened, for clips of moments; ``None`` in worlds that draw nothing.
        snapshot_for: A snapshot of its environment as one of another episode, by its id, would be, all else
            alike, so that a fork begins where its parent's snapshot stands; ``None`` where forks play all
            that came before again.
        any_thread: Whether an environment may be called from one thread after another, never from two
            at once, and answers within milliseconds as a rule; private ones then share a thread, which costs
            less. A call that takes long is no harm there: the others go on on another thread.
        steps_at_once: Whether, with these options, every call of its environment takes a few milliseconds at
            most and waits for nothing, so that runs and evaluations may step it in their event loop's own
            thread, where nothing else goes on meanwhile; no by default. It asks for more than
            :attr:`any_thread`, and for some options perhaps. A world with another environment has to say so
            anew.
        promise: The chance that the agent's seat wins, from 0 to 1, where an event tells one; ``None`` of any
            other. What was told is held against what happened, see :mod:`spectator.evaluation.intervals`.
        showcase: Pairs of captain and opponent that are worth watching, the best first; for :meth:`pairings`.
        analyst: Makes what says what else could have been decided, see :class:`.contract.Analyst`;
            ``None`` where nobody can.
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
    opponents: Mapping[str, Preset] = field(default_factory=dict)
    commentator: Commentator = silent
    spoken: Callable[[str], str] = str
    beats: Mapping[str, float] = field(default_factory=dict)
    chapters: Mapping[str, str] = field(default_factory=dict)
    default_captain: str = "heuristic"
    default_opponent: str = "heuristic"
    watched_options: Mapping[str, Any] = field(default_factory=dict)
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
    board_lines: Callable[[Mapping[str, Any]], Sequence[str]] | None = None
    picture: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    scenes: SceneArtist | None = None
    snapshot_for: Callable[[bytes, str], bytes] | None = None
    title_of_one: str = ""
    analyst: Callable[[], Analyst] | None = None
    showcase: Sequence[tuple[str, str]] = ()

    def pairings(self) -> list[tuple[str, str | None]]:
        """List who to watch against whom: of two kinds, free of charge, and available here.

        A model of the world's own takes the agent's seat in every pair, if there is one. The opponent is
        ``None`` in worlds without opponents.
        """
        captains = [name for name, preset in self.captains.items() if _plays_free(preset)]
        others = [name for name, preset in self.opponents.items() if _plays_free(preset)]
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
        """What a language model must know before it decides here."""
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
        """The profile of an episode with these options, complete."""
        for asked, profile in self.profiles:
            if all(options.get(name) == value for name, value in asked.items()):
                return profile
        return self.profile

    @property
    def names_tools(self) -> bool:
        """Whether an action is ``{"tool", "arguments"}``; if not, it is nothing but arguments."""
        return self.profile.actions == "tools" and "tool" in self.action_type.model_fields

    @property
    def standing(self) -> tuple[LegalAction, ...]:
        """The one action that is always legal, by its schema; none where observations list what is legal."""
        return () if self.profile.actions == "tools" else _standing(self.action_type, self.profile.actions)


def _plays_free(preset: Preset) -> bool:
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
"""Largest seed: the largest integer that JSON numbers carry exactly everywhere."""

SEALED_BIT: Final = 1 << 52
"""Development seeds are below it, sealed ones have it set: the two can share none."""


def derive_seed(seed: int, *names: str | int) -> int:
    """A seed for one named part of an episode, independent of every other part's.

    Equal in every process: SHA-256 of the seed and the names, never Python's own hash.

    >>> home = derive_seed(7, "policy", "home")
    >>> home == derive_seed(7, "policy", "home") != derive_seed(7, "policy", "away")
    True
    """
    text = "\x1f".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") & MAX_SEED


def sealed_seeds(world: str, pack: Pack, phrase: str, count: int) -> tuple[int, ...]:
    """Seeds for a sealed evaluation: nobody who lacks the phrase can have developed on them.

    Args:
        world: Name of the world.
        pack: The pack.
        phrase: The secret they come from, kept outside the repository; at least 8 characters.
        count: How many.

    Raises:
        ValueError: The phrase is too short to be one.
    """
    if len(phrase) < 8:
        raise ValueError("the phrase of a sealed evaluation has at least 8 characters")
    return tuple(
        derive_seed(number, world, "sealed", pack.name, pack.version, phrase) % SEALED_BIT + SEALED_BIT
        for number in range(count)
    )
