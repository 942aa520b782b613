"""The types of events that episodes of every world share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from spectator.errors import EndReason, FailureClass
from spectator.events import EventData, Fact, optional_field
from spectator.observations import Profile

OnFailure = Literal["fallback", "suspend", "end"]
"""What a failed decision does to its episode; see ``EpisodeStarted.on_failure``."""

FailedDecisions = Literal["fallback", "random", "forfeit"]
"""What replaces a decision that a captain did not make; see ``EpisodeStarted.failed_decisions``."""

View = Literal["live", "derived"]
"""Whether patches and commentary are recorded or derived later; see ``EpisodeStarted.view``."""

DecisionSource = Literal["model", "heuristic", "random", "oracle", "human", "fallback", "remote"]
"""Who made a decision; ``remote`` is an unknown decision maker in another process."""

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}$"
"""Pattern of the names of runs and groups."""

DIGEST_PATTERN: Final = r"^[0-9a-f]{64}$"
"""Pattern of a SHA-256 in hex."""

IMPORTED: Final = "imported"
"""Policy in the seat of an episode that another program played: nothing can be played on from it."""


class Seat(EventData):
    """The decision maker of one actor."""

    policy: str = Field(description="Name of the preset in the catalogue")
    label: str = Field(description="Name shown to people")
    source: DecisionSource = Field(description="Kind of decision maker")
    fingerprint: str | None = optional_field(
        "For a model, a digest of endpoint, model, style and sampling, or of its weights; else absent"
    )


class Parent(EventData):
    """The episode that a fork continues, and from where."""

    episode_id: str = Field(description="Id of the parent episode, whose events the fork begins with")
    seq: int = Field(ge=1, description="The last event taken from the parent")
    turn: int = Field(
        ge=0, description="Decisions up to this turn are the parent's; later ones are the fork's own"
    )
    captains_seed: int = Field(
        ge=0, description="Seed of the policies from the fork on; the world keeps its own"
    )
    own_since: dict[str, int] | None = Field(
        default=None,
        description="By actor, for models that stay in their seats: the model made, and remembers, the "
        "decisions after this turn",
    )

    def own_after(self, actor: str) -> int:
        """Return the turn after which ``actor``'s captain made its decisions itself."""
        return (self.own_since or {}).get(actor, self.turn)


class EpisodeStarted(EventData):
    """An episode began; contains everything that a replay needs."""

    environment: str = Field(description="Name of the world in the catalogue")
    environment_version: str = Field(description="Version of the world's rules and model")
    title: str = Field(description="The world's name as shown to people")
    options: dict[str, Any] = Field(description="Every option of the world, including defaults")
    seed: int = Field(ge=0, description="The seed from which all randomness is derived")
    seats: dict[str, Seat] = Field(description="The decision makers, by actor")
    agent: str = Field(description="The actor that the captain plays; its score is the episode's score")
    pack: str = Field(description="Evaluation pack")
    pace: str = Field(description="Pace at the start")
    narration: bool = Field(description="Whether speech was requested")
    spectator_version: str = Field(description="Version of this software")
    parent: Parent | None = Field(
        default=None, description="What it was forked from; null if it is not a fork"
    )
    on_failure: OnFailure = optional_field(
        "What a failed decision does: `fallback` lets a scripted policy decide, marked as such; `suspend` "
        "leaves the episode without an end, to be resumed; `end` ends it with `policy_error`",
        default="fallback",
    )
    failed_decisions: FailedDecisions = optional_field(
        "What replaces a decision that a captain did not make: `fallback`, the world's scripted captain "
        "decides; `random`, a legal action is drawn; `forfeit`, the episode ends and is lost",
        default="fallback",
    )
    waits_for_rest: bool = optional_field(
        "Whether models' decisions wait, within their deadline, for an endpoint that is paused after "
        "failures; if false, the captain's table decides",
        default=False,
    )
    run_id: str | None = optional_field("The run that the episode belongs to", pattern=NAME_PATTERN)
    group_id: str | None = optional_field(
        "Its group within the run: comparable episodes of one task", pattern=NAME_PATTERN
    )
    attempt: int | None = optional_field("Number of the attempt at its place in the run, from 1", ge=1)
    profile: Profile | None = optional_field(
        "The world's declaration of its rewards and actions; absent for the default profile"
    )
    view: View = optional_field(
        "`live` records patches and commentary; `derived` omits them, and readers derive them", default="live"
    )


class RecordedReply(EventData):
    """A model's reply to one request."""

    content: str = Field(description="The text, without its thoughts")
    thought: str = Field(description="The thoughts")
    refusal: str | None = Field(description="The endpoint's message if the model declined")
    tool_calls: list[dict[str, Any]] = Field(
        description="Tool calls: `id`, `name`, `arguments` as text, and `verbatim` if there is one"
    )
    finish_reason: str | None = Field(description="Why the model stopped, as the endpoint reports it")
    model: str | None = Field(description="The model, as the endpoint reports it")
    provider: str | None = optional_field("Who served the model, as a router reports it")
    system_fingerprint: str | None = optional_field(
        "The configuration that served the model, as the endpoint reports it"
    )
    usage: dict[str, int] | None = Field(description="Token counts, as the endpoint reports them")
    verbatim: dict[str, Any] | None = optional_field(
        "Other content of its message, such as signatures of thoughts; sent back to the endpoint unchanged"
    )


class ExchangeFailure(EventData):
    """Why a request to a model got no reply."""

    kind: str = Field(description="Short, stable name; see docs/captains.md")
    status: int | None = Field(description="The HTTP status, if there was one")
    retry_after_s: float | None = Field(description="Seconds that the endpoint asked the client to wait")


class ModelExchange(EventData):
    """One request to a model and its reply: enough to answer the same request again."""

    request: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the messages and tools")
    reply: RecordedReply | None = Field(
        default=None,
        description="The reply; null if the request failed, or if the reply has more than 32,768 "
        "characters: then only the call recorded beside the event holds it",
    )
    failure: ExchangeFailure | None = Field(default=None, description="Why the call has no answer")
    digest: str | None = optional_field(
        "SHA-256 of the call recorded beside the event: messages, whole reply, tokens", pattern=DIGEST_PATTERN
    )


class DecisionMade(EventData):
    """A policy decided; the world may still refuse the action."""

    actor: str = Field(description="Who decided")
    source: DecisionSource = Field(description="Who made the decision; a fallback never counts as the model")
    action: dict[str, Any] = Field(description="The action as sent to the world")
    legal: list[str] = Field(default_factory=list, description="Names of the legal actions, at most 32")
    reasoning: str = Field(description="The stated reasoning; may be empty")
    raw_text: str | None = Field(default=None, description="A model's text, cut to 8,192 characters")
    parse: Literal["ok", "repaired", "failed"] | None = Field(
        default=None, description="How the text was parsed into an action; null if none was parsed"
    )
    fallback_reason: str | None = Field(default=None, description="Why the fallback decided")
    model: str | None = Field(default=None, description="The model that answered")
    latency_s: float = Field(ge=0, description="Time the policy took, in seconds")
    tokens_in: int | None = Field(default=None, ge=0, description="Prompt tokens, if known")
    tokens_out: int | None = Field(default=None, ge=0, description="Completion tokens, if known")
    tokens_estimated: bool = Field(
        default=False, description="Whether tokens were estimated because the endpoint did not count them all"
    )
    cost: float | None = Field(
        default=None, ge=0, description="Cost by the captains' catalogue; null if it has no prices"
    )
    exchanges: list[ModelExchange] | None = Field(
        default=None, description="The requests to a model behind it; null if there were none"
    )
    failure_class: FailureClass | None = optional_field(
        "The failure that made the fallback decide; see docs/failures.md"
    )
    prompt: int | None = optional_field("Edition of the model's prompt; 1 if a model's decision omits it")
    constraint: str | None = optional_field("How the model's answer was constrained; omitted if it was not")


class Undecided(EventData):
    """The requests behind a decision that failed; fields as in `decision.made`."""

    actor: str = Field(description="Who had to decide")
    model: str | None = Field(default=None, description="The model")
    latency_s: float = Field(ge=0, description="Time the policy took, in seconds")
    tokens_in: int | None = Field(default=None, ge=0, description="Prompt tokens, if known")
    tokens_out: int | None = Field(default=None, ge=0, description="Completion tokens, if known")
    tokens_estimated: bool = Field(default=False, description="Whether tokens were estimated")
    cost: float | None = Field(default=None, ge=0, description="Cost by the captains' catalogue")
    exchanges: list[ModelExchange] = Field(min_length=1, description="The requests to the model")


class OwnDecisions(EventData):
    """How far the agent's captain decided itself; what a fallback decided is never its own."""

    asked: int = Field(ge=0, description="Decisions that it was asked for")
    own: int = Field(ge=0, description="How many of them it made itself")
    refused: int = Field(
        ge=0, description="Its answers that were refused: not in the form asked for, or not legal"
    )


class ActionRefused(EventData):
    """The world refused an action by one of its rules; its state is unchanged."""

    actor: str = Field(description="Whose action it was")
    action: dict[str, Any] = Field(description="The action as sent to the world")
    rule: str = Field(description="Short, stable name of the rule")
    message: str = Field(description="A sentence that says what would be legal")
    refusals: int = Field(ge=1, description="Refused actions of this actor so far")


class StepTaken(EventData):
    """The world carried out an action."""

    actor: str = Field(description="Whose action it was")
    next_actor: str | None = Field(description="Who must decide next; null at the end")
    reward: float = Field(
        description="The agent's reward for this step. If the world rewards only its end, 0 on every step "
        "except the last, whose reward is the score in [0, 1]"
    )
    done: bool = Field(description="Whether the world has ended")
    rubric: dict[str, float] = Field(
        default_factory=dict, description="Named parts of the score; set on the last step"
    )
    duration_s: float = Field(ge=0, description="Time the world took, in seconds")


class EpisodePaused(EventData):
    """Play is paused until it is resumed."""

    by: str = Field(description="Who paused it")


class EpisodeResumed(EventData):
    """Play continues after a pause."""

    by: str = Field(description="Who resumed it")


class EpisodeRecovered(EventData):
    """Another process rebuilt the episode from its record and continues it."""

    attempt: int = Field(ge=1, description="Recoveries since the last decision, including this one")


class EpisodeSuspended(EventData):
    """Play stopped without an end because a decision failed; it can be resumed from here."""

    actor: str = Field(description="Who could not decide")
    failure_class: FailureClass = Field(description="The failure class; see docs/failures.md")
    detail: str = Field(description="What went wrong, for people")
    undecided: Undecided | None = optional_field(
        "The requests to a model behind the failed decision; absent if there were none"
    )


class PaceChanged(EventData):
    """Play continues at another pace."""

    pace: str = Field(description="The new pace")
    by: str = Field(description="Who changed it")


class EpisodeEnded(EventData):
    """The episode is over; the last event of its stream."""

    reason: EndReason = Field(description="Why the episode ended")
    score: float | None = Field(
        description="The sum of all rewards: in [0, 1] unless `profile` of `episode.started` says otherwise; "
        "null unless finished"
    )
    result: str | None = Field(description="The world's result in words; null unless finished")
    turns: int = Field(ge=0, description="Actions taken or refused")
    detail: str | None = Field(default=None, description="What went wrong, for people")
    failure_class: FailureClass | None = optional_field("Why it did not finish; see docs/failures.md")
    forfeited: str | None = optional_field("The actor that forfeited the episode by not deciding")
    total_reward: float | None = optional_field(
        "The sum of all rewards, even if it did not finish; only if the world rewards its steps"
    )
    value: float | None = optional_field(
        "Its value when its trainer cut it off, in a world that rewards only its end"
    )
    penalty: float | None = optional_field(
        "Its reward because the agent's last answer was not an action; the answer may be trained on"
    )
    masked: bool = optional_field(
        "Whether it counts for its rewards before an answer that was not an action, which is not trained on",
        default=False,
    )
    own_decisions: OwnDecisions | None = optional_field(
        "How many decisions the agent's captain made itself, in runs of a model"
    )
    seat_rewards: dict[str, float] | None = optional_field(
        "Rewards of the other seats, by actor, where the model of a run plays every seat"
    )
    terminated: bool = Field(description="Whether the world ended by its own rules")
    truncated: bool = Field(description="Whether it was cut off; never true together with `terminated`")
    truth: str | None = optional_field(
        "SHA-256 of the world's sealed truth, recorded beside this event", pattern=DIGEST_PATTERN
    )
    undecided: Undecided | None = optional_field(
        "The requests to a model behind the decision whose failure ended it; absent if there were none"
    )

    @model_validator(mode="after")
    def _ended_one_way(self) -> EpisodeEnded:
        if (self.terminated, self.truncated) != (self.reason == "finished", self.reason != "finished"):
            raise ValueError(
                "terminated must be true only for reason finished, and truncated only for others"
            )
        return self


class NarrationLine(EventData):
    """A line of commentary."""

    text: str = Field(description="The spoken text, at most 300 characters")
    for_seq: int = Field(ge=0, description="The event that the line is about")
    priority: int = Field(ge=0, le=3, description="0 (must be heard) to 3 (may be dropped)")
    label: str | None = Field(default=None, description="A short label, such as OUT, 4 or 6")
    at: str | None = Field(default=None, description="Position in the game, in its own notation, such as 3.4")
    radio: str | None = Field(default=None, description="The text to speak, if it differs")
    reply: str | None = optional_field("The second commentator's answer; absent if there is none")


class NarrationClip(EventData):
    """Speech for a line of commentary is available."""

    for_seq: int = Field(ge=1, description="The `narration.line` that is spoken")
    url: str = Field(description="URL of the audio")
    mime: str = Field(description="Media type of the audio")
    duration_s: float = Field(ge=0, description="Duration, in seconds")
    text: str = Field(default="", description="The spoken words")
    interrupt: bool = Field(default=False, description="Whether it interrupts the current speech")
    speaker: Literal["lead", "analyst"] = optional_field("Who speaks; absent for the lead", default="lead")


class Warned(EventData):
    """A problem that does not end the episode."""

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
"""The event types that episodes of any world may have."""

UNDECIDED_IN: Final = frozenset({"episode.suspended", "episode.ended"})
"""Event types that may hold the requests behind a failed decision, as ``undecided``."""

CALLS_BEHIND: Final = UNDECIDED_IN | {"decision.made"}
"""Event types that may have model calls recorded beside them."""

_TYPE_OF: Final = {model: name for name, model in CORE_EVENTS.items()}


def core_fact(data: EventData) -> Fact:
    """Make the fact that carries ``data``, one of the models in :data:`CORE_EVENTS`."""
    return Fact(_TYPE_OF[type(data)], data.model_dump(mode="json"))
