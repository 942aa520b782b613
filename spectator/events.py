"""Define events: one envelope, one encoding, and the core types of every world.

The episode's stream numbers an event and encodes it once. The journal stores those bytes, and every viewer
receives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import from_json

from spectator.errors import FailureClass
from spectator.json_values import json_encoder
from spectator.observations import Profile

SCHEMA_VERSION: Final = 1
"""Version of the envelope and of the core event types; a changed meaning raises it."""


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_encode: Final = json_encoder()


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that happened in a world or to its episode, before it is numbered.

    Args:
        type: ``episode.ended``, ``counting.number_said``: a room and a past participle.
        data: Plain finite JSON, in the shape of the event type's model.
    """

    type: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """A numbered fact.

    Args:
        episode_id: Whose fact it is.
        epoch: Identity of the numbering; a new one makes older numbers meaningless.
        seq: 1, 2, 3, ... without a gap within ``(episode_id, epoch)``.
        at: When it was recorded, RFC 3339 UTC with milliseconds.
        turn: Which accepted or refused action it belongs to; 0 before the first.
        type: See :class:`Fact`.
        data: See :class:`Fact`.
        patch: RFC 7396 merge patch from the viewer's state before it to the one after it.
        v: Version of the envelope.
    """

    episode_id: str
    epoch: str
    seq: int
    at: str
    turn: int
    type: str
    data: Mapping[str, Any]
    patch: Mapping[str, Any] = field(default_factory=dict)
    v: int = SCHEMA_VERSION


class RecordedEvent:
    """An event together with its one encoding; it is never changed.

    Args:
        event: The decoded event.
        text: The envelope as JSON text; what the journal keeps and every reader gets.
    """

    def __init__(self, event: Event, text: str) -> None:
        self.event, self.text = event, text
        self.episode_id, self.seq, self.type = event.episode_id, event.seq, event.type

    @cached_property
    def event(self) -> Event:
        """The decoded event; decoded when it is first asked for, where nobody has needed it before."""
        return decode(self.text).event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordedEvent) and (self.text, self.event) == (other.text, other.event)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"RecordedEvent({self.text!r})"


class EventEncoder:
    """Encodes the events of one episode without patches, from data that is encoded already.

    Args:
        episode_id: Whose events.
        epoch: Identity of their numbering.

    >>> encoder = EventEncoder("ep-1", "e")
    >>> encoder.encode(7, "2026-11-21T05:00:00.000Z", 2, "warning", '{"message":"late"}').event.data
    {'message': 'late'}
    """

    def __init__(self, episode_id: str, epoch: str) -> None:
        self._episode_id = episode_id
        self._head = (
            f'{{"v":{SCHEMA_VERSION},"episode_id":{encode_json(episode_id)},"epoch":{encode_json(epoch)}'
        )

    def encode(self, seq: int, at: str, turn: int, kind: str, data: str) -> RecordedEvent:
        """The same text as :func:`record` makes of such an event; decoded when somebody looks at it.

        Args:
            seq: See :class:`Event`.
            at: See :class:`Event`; as :func:`spectator.clock.timestamp` writes it.
            turn: See :class:`Event`.
            kind: Its type.
            data: Its data as :func:`encode_json` writes them.
        """
        recorded = RecordedEvent.__new__(RecordedEvent)
        recorded.episode_id, recorded.seq, recorded.type = self._episode_id, seq, kind
        recorded.text = (
            f'{self._head},"seq":{seq},"at":"{at}","turn":{turn},"type":{_quoted(kind)},'
            f'"data":{data},"patch":{{}}}}'
        )
        return recorded

    def renumbered(self, recorded: RecordedEvent, seq: int) -> RecordedEvent:
        """An event of :meth:`encode` under another number."""
        numbered = f'{self._head},"seq":'
        other = copy(recorded)
        other.seq = seq
        other.text = f"{numbered}{seq}{recorded.text.removeprefix(f'{numbered}{recorded.seq}')}"
        vars(other).pop("event", None)  # the decoded one, if somebody looked at it
        return other


def record(event: Event) -> RecordedEvent:
    """Encode ``event`` once.

    Raises:
        ValueError: A number in it is not finite, or a text has no UTF-8.
        TypeError: A value in it is not JSON.

    >>> event = Event("ep-1", "e", 1, "2026-11-21T05:00:00.000Z", 1, "counting.said", {"number": 7}, {})
    >>> record(event).text
    '{"v":1,"episode_id":"ep-1","epoch":"e","seq":1,...,"data":{"number":7},"patch":{}}'
    """
    in_order = {
        "v": event.v,
        "episode_id": event.episode_id,
        "epoch": event.epoch,
        "seq": event.seq,
        "at": event.at,
        "turn": event.turn,
        "type": event.type,
        "data": event.data,
        "patch": event.patch,
    }
    return RecordedEvent(event, encode_json(in_order))


def decode(text: str) -> RecordedEvent:
    """Inverse of :func:`record`: keeps the very text it was given.

    Raises:
        ValueError: The text is not an envelope of a version that this code reads.
    """
    fields = decode_json(text)
    if not isinstance(fields, dict) or fields.get("v") != SCHEMA_VERSION:
        raise ValueError(f"not an event envelope of version {SCHEMA_VERSION}: {text[:80]!r}")
    try:
        return RecordedEvent(Event(**fields), text)
    except TypeError as error:
        raise ValueError(f"not an event envelope: {error}") from error


def decode_json(text: str) -> Any:
    """``text`` as JSON: by the fast parser, or by the usual one where that gives up, as on deep nesting."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return _DECODER.decode(text)


def encode_json(value: Any) -> str:
    """Strict compact JSON on one line: no NaN, no infinity, no stringified objects, UTF-8 as itself.

    The three characters beyond ASCII at which some readers end a line are escaped.

    Raises:
        ValueError: A number is not finite, a text holds half a surrogate pair, which has no UTF-8, or a
            value is nested too deeply.
        TypeError: A value is not JSON.

    >>> encode_json({"name": "Zoë", "share": 0.5})
    '{"name":"Zoë","share":0.5}'
    >>> encode_json(float("nan"))
    Traceback (most recent call last):
        ...
    ValueError: Out of range float values are not JSON compliant...
    """
    try:
        text = _encode(value)
    except RecursionError as error:
        raise ValueError("a value is nested too deeply, or holds itself") from error
    if text.isascii():
        return text
    text.encode()
    return text.replace("\x85", "\\u0085").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


_quoted = lru_cache(maxsize=1024)(encode_json)


EndReason = Literal[
    "finished", "step_cap", "stopped", "policy_error", "environment_error", "timeout", "interrupted"
]
"""Why an episode ended; exactly one of them, always published."""

OnFailure = Literal["fallback", "suspend", "end"]
"""What a failing policy does to its episode: see ``EpisodeStarted.on_failure``."""

FailedDecisions = Literal["fallback", "random", "forfeit"]
"""What counts where a captain did not decide: see ``EpisodeStarted.failed_decisions``."""

View = Literal["live", "derived"]
"""Whether patches and commentary are recorded, or derived from the record: see ``EpisodeStarted.view``."""

DecisionSource = Literal["model", "heuristic", "random", "oracle", "human", "fallback", "remote"]
"""Who made a decision; ``remote`` is somebody elsewhere, of whom nothing more is known."""


class EventData(BaseModel):
    """Base of the models of event data: frozen, with no field beyond those declared."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def optional_field(description: str, *, default: Any = None, **rules: Any) -> Any:
    """Declare a field that is omitted from the record where it has its default.

    Args:
        description: What it is.
        default: What its absence means.
        rules: Further arguments of pydantic's ``Field``, such as ``pattern``.
    """
    return Field(default=default, description=description, exclude_if=lambda value: value == default, **rules)


NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}$"
"""What a run or a group may be called."""

DIGEST_PATTERN: Final = r"^[0-9a-f]{64}$"
"""A SHA-256 in hex."""


class Seat(EventData):
    """Who decides for one actor."""

    policy: str = Field(description="Name of the preset in the catalogue")
    label: str = Field(description="Name shown to people")
    source: DecisionSource = Field(description="Kind of decision maker")
    fingerprint: str | None = optional_field(
        "How a model is asked: a digest of endpoint, model, style and sampling; absent for everybody else"
    )


class Parent(EventData):
    """The episode that one was forked from, and where."""

    episode_id: str = Field(description="Whose events it begins with")
    seq: int = Field(ge=1, description="The last of those events")
    turn: int = Field(
        ge=0, description="Decisions up to this turn are the parent's, later ones the episode's own"
    )
    captains_seed: int = Field(
        ge=0, description="The seed of the policies from there on; the world keeps its own"
    )
    own_since: dict[str, int] | None = Field(
        default=None,
        description="By actor, for models that stay: after this turn decisions are its own, and remembered",
    )

    def own_after(self, actor: str) -> int:
        """The turn after which the decisions of ``actor`` are its captain's own."""
        return (self.own_since or {}).get(actor, self.turn)


class EpisodeStarted(EventData):
    """An episode began; holds all that a replay needs."""

    environment: str = Field(description="Name of the world in the catalogue")
    environment_version: str = Field(description="Version of the world's rules and model")
    title: str = Field(description="The world's name as shown to people")
    options: dict[str, Any] = Field(description="Every option of the world, defaults filled in")
    seed: int = Field(ge=0, description="The one seed from which all randomness is derived")
    seats: dict[str, Seat] = Field(description="Who decides, by actor")
    agent: str = Field(description="The actor whose captain was asked for; its score is the episode's")
    pack: str = Field(description="Evaluation pack")
    pace: str = Field(description="Pace at the start")
    narration: bool = Field(description="Whether speech was asked for")
    spectator_version: str = Field(description="Version of this software")
    parent: Parent | None = Field(default=None, description="What it was forked from; null for most")
    on_failure: OnFailure = optional_field(
        "What a decision that failed does: `fallback` lets a scripted policy decide, by name; `suspend` "
        "leaves the episode without an end, to be played on; `end` ends it with `policy_error`",
        default="fallback",
    )
    failed_decisions: FailedDecisions = optional_field(
        "What counts where a captain did not decide: `fallback`, the world's scripted captain decides; "
        "`random`, a legal action is drawn; `forfeit`, the episode ends and is lost",
        default="fallback",
    )
    waits_for_rest: bool = optional_field(
        "Whether decisions of models wait, while they have time, for an endpoint that is left alone after "
        "failing; else as the captain's table says",
        default=False,
    )
    run_id: str | None = optional_field("The run that it is played for", pattern=NAME_PATTERN)
    group_id: str | None = optional_field(
        "Its group within the run: episodes of one task that are compared", pattern=NAME_PATTERN
    )
    attempt: int | None = optional_field("Which attempt it is at its place in the run, from 1", ge=1)
    profile: Profile | None = optional_field(
        "What the world declares of its rewards and actions; absent where it is the usual profile"
    )
    view: View = optional_field(
        "`live` records patches and commentary; `derived` leaves them out, to be derived by whoever reads it",
        default="live",
    )


class RecordedReply(EventData):
    """What a model answered to one question."""

    content: str = Field(description="What it wrote, without its thoughts")
    thought: str = Field(description="Its thoughts")
    refusal: str | None = Field(description="The endpoint's word that the model declined")
    tool_calls: list[dict[str, Any]] = Field(
        description="Its calls: `id`, `name`, `arguments` as text, and `verbatim`, where it has one"
    )
    finish_reason: str | None = Field(description="Why it stopped, by the endpoint's account")
    model: str | None = Field(description="The model, by the endpoint's account")
    usage: dict[str, int] | None = Field(description="Tokens, by the endpoint's account")
    verbatim: dict[str, Any] | None = optional_field(
        "What else its message held, such as signatures of thoughts: sent back to the endpoint as it is"
    )


class ExchangeFailure(EventData):
    """Why a question to a model got no answer."""

    kind: str = Field(description="Short stable name, as in docs/captains.md")
    status: int | None = Field(description="The HTTP status, where there was one")
    retry_after_s: float | None = Field(description="How long the endpoint asked to wait")


class ModelExchange(EventData):
    """One question to a model and what came back, enough to answer the same question again."""

    request: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of its messages and tools")
    reply: RecordedReply | None = Field(
        default=None,
        description="The answer; null when it failed, or had more than 32,768 characters: such a one is "
        "whole in the call beside the event",
    )
    failure: ExchangeFailure | None = Field(default=None, description="Why there is no answer")
    digest: str | None = optional_field(
        "SHA-256 of the call that is recorded beside the event: messages, whole reply, tokens",
        pattern=DIGEST_PATTERN,
    )


class DecisionMade(EventData):
    """A policy decided; the action may still be refused by the world."""

    actor: str = Field(description="Who decided")
    source: DecisionSource = Field(description="Who really made it; a fallback is never a model's")
    action: dict[str, Any] = Field(description="The action as sent to the world")
    legal: list[str] = Field(
        default_factory=list, description="Names of the actions that the world offered, at most 32"
    )
    reasoning: str = Field(description="The stated reason; may be empty")
    raw_text: str | None = Field(default=None, description="What a model wrote, capped at 8,192 characters")
    parse: Literal["ok", "repaired", "failed"] | None = Field(
        default=None, description="How the text became an action; null where none was parsed"
    )
    fallback_reason: str | None = Field(default=None, description="Why somebody else had to decide")
    model: str | None = Field(default=None, description="Name of the model that answered")
    latency_s: float = Field(ge=0, description="Time the policy took")
    tokens_in: int | None = Field(default=None, ge=0, description="Prompt tokens, where known")
    tokens_out: int | None = Field(default=None, ge=0, description="Completion tokens, where known")
    tokens_estimated: bool = Field(
        default=False, description="Whether the endpoint did not count all of the tokens, so that we did"
    )
    cost: float | None = Field(
        default=None, ge=0, description="By the prices of the captains' catalogue; null where there are none"
    )
    exchanges: list[ModelExchange] | None = Field(
        default=None, description="The questions to a model behind it; null where none was asked"
    )
    failure_class: FailureClass | None = optional_field(
        "The kind of failure for which somebody else had to decide, see docs/failures.md"
    )
    prompt: int | None = optional_field(
        "Edition of the prompt that the model was asked with; 1 where a model's decision does not say"
    )


class Undecided(EventData):
    """What was asked for a decision that nobody made; each field is as in `decision.made`."""

    actor: str = Field(description="Who was asked")
    model: str | None = Field(default=None, description="Name of the model")
    latency_s: float = Field(ge=0, description="Time the policy took")
    tokens_in: int | None = Field(default=None, ge=0, description="Prompt tokens, where known")
    tokens_out: int | None = Field(default=None, ge=0, description="Completion tokens, where known")
    tokens_estimated: bool = Field(default=False, description="Whether the endpoint did not count all")
    cost: float | None = Field(default=None, ge=0, description="By the prices of the captains' catalogue")
    exchanges: list[ModelExchange] = Field(min_length=1, description="The questions to a model")


class ActionRefused(EventData):
    """The world refused an action by one of its rules; its state is as it was."""

    actor: str = Field(description="Whose action it was")
    action: dict[str, Any] = Field(description="The action as sent to the world")
    rule: str = Field(description="Short stable name of the rule")
    message: str = Field(description="What would be legal, in a sentence")
    refusals: int = Field(ge=1, description="Refused actions of this actor so far")


class StepTaken(EventData):
    """The world carried out an action."""

    actor: str = Field(description="Whose action it was")
    next_actor: str | None = Field(description="Who must decide next; null once done")
    reward: float = Field(
        description="The agent's reward for this step; where the world rewards only its end, 0 on every step "
        "but the last, whose reward is the score in [0, 1]"
    )
    done: bool = Field(description="Whether the world came to its end")
    rubric: dict[str, float] = Field(
        default_factory=dict, description="Named parts of the score; set on the last step"
    )
    duration_s: float = Field(ge=0, description="Time the world took")


class EpisodePaused(EventData):
    """Play stands still until resumed."""

    by: str = Field(description="Who asked for it")


class EpisodeResumed(EventData):
    """Play goes on."""

    by: str = Field(description="Who asked for it")


class EpisodeRecovered(EventData):
    """Another process rebuilt the episode from its record and plays on."""

    attempt: int = Field(ge=1, description="1 when the one before got anywhere; else one more than its")


class EpisodeSuspended(EventData):
    """Play stopped without an end, because nobody decided; it can be played on from here."""

    actor: str = Field(description="Who could not decide")
    failure_class: FailureClass = Field(description="The kind of failure, see docs/failures.md")
    detail: str = Field(description="What went wrong, for people")
    undecided: Undecided | None = optional_field(
        "What a model was asked for the decision that failed; absent where none was asked"
    )


class PaceChanged(EventData):
    """Play goes on at another pace."""

    pace: str = Field(description="The pace from here on")
    by: str = Field(description="Who asked for it")


class EpisodeEnded(EventData):
    """The episode is over; the last event of its stream."""

    reason: EndReason = Field(description="Why; exactly one of these")
    score: float | None = Field(
        description="The sum of all rewards: in [0, 1] unless `profile` of the beginning says otherwise; "
        "null unless finished"
    )
    result: str | None = Field(description="The world's result in words; null unless finished")
    turns: int = Field(ge=0, description="Actions taken or refused")
    detail: str | None = Field(default=None, description="What went wrong, for people")
    failure_class: FailureClass | None = optional_field("The kind of failure that kept it from finishing")
    forfeited: str | None = optional_field("The actor who lost it by not deciding, where that forfeits it")
    total_reward: float | None = optional_field(
        "The sum of all rewards, however it ended; only where the world rewards its steps"
    )
    value: float | None = optional_field(
        "What it was worth when its trainer cut it short, in a world that rewards only its end"
    )
    terminated: bool = Field(description="The world came to its own end")
    truncated: bool = Field(description="It was cut short; never true together with `terminated`")
    truth: str | None = optional_field(
        "SHA-256 of the world's sealed truth, which is recorded beside this event", pattern=DIGEST_PATTERN
    )
    undecided: Undecided | None = optional_field(
        "What a model was asked for the decision whose failure ended it; absent where none was asked"
    )

    @model_validator(mode="after")
    def _ended_one_way(self) -> EpisodeEnded:
        if (self.terminated, self.truncated) != (self.reason == "finished", self.reason != "finished"):
            raise ValueError("an episode is terminated when it finished, truncated otherwise, never both")
        return self


class NarrationLine(EventData):
    """A line of commentary."""

    text: str = Field(description="What is said, at most 300 characters")
    for_seq: int = Field(ge=0, description="The event that the line is about")
    priority: int = Field(ge=0, le=3, description="0 must be heard ... 3 may be dropped")
    label: str | None = Field(default=None, description="A short mark, such as OUT, 4 or 6")
    at: str | None = Field(default=None, description="Where in the game, in its own notation, such as 3.4")
    radio: str | None = Field(default=None, description="How it is said aloud, where that differs")
    reply: str | None = optional_field(
        "What the second commentator answers; omitted where there is no answer"
    )


class NarrationClip(EventData):
    """Speech for a line exists."""

    for_seq: int = Field(ge=1, description="The line that was spoken")
    url: str = Field(description="Where the sound is")
    mime: str = Field(description="Its media type")
    duration_s: float = Field(ge=0, description="How long it lasts")
    text: str = Field(default="", description="The words as they were spoken")
    interrupt: bool = Field(default=False, description="Whether it cuts short whatever is being said")
    speaker: Literal["lead", "analyst"] = optional_field(
        "Who speaks; left out where it is the lead", default="lead"
    )


class Warned(EventData):
    """Something is wrong that does not end the episode."""

    message: str = Field(description="What is wrong, for people")


CORE_EVENTS: Final[Mapping[str, type[EventData]]] = {
    "episode.started": EpisodeStarted,
    "decision.made": DecisionMade,
    "action.refused": ActionRefused,
    "step.taken": StepTaken,
    "narration.line": NarrationLine,
    "narration.clip": NarrationClip,
    "episode.paused": EpisodePaused,
    "episode.resumed": EpisodeResumed,
    "pace.changed": PaceChanged,
    "episode.ended": EpisodeEnded,
    "warning": Warned,
    "episode.recovered": EpisodeRecovered,
    "episode.suspended": EpisodeSuspended,
}
"""The event types that every episode may carry, whatever its world."""

UNDECIDED_IN: Final = frozenset({"episode.suspended", "episode.ended"})
"""The event types that may say what was asked for a decision that nobody made, as ``undecided``."""

CALLS_BEHIND: Final = UNDECIDED_IN | {"decision.made"}
"""The event types that calls to models may stand behind."""

_TYPE_OF: Final = {model: name for name, model in CORE_EVENTS.items()}


def core_fact(data: EventData) -> Fact:
    """The fact that carries ``data``, one of the models in :data:`CORE_EVENTS`."""
    return Fact(_TYPE_OF[type(data)], data.model_dump(mode="json"))
