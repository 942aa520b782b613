"""The prompts of an episode: as recorded, or rebuilt by asking its policies again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spectator.catalog import LoadWorld
from spectator.environments.seeds import derive_seed
from spectator.environments.world import World
from spectator.episodes.record.derived import is_derived
from spectator.episodes.replay.recorded_calls import Calls, with_replies
from spectator.episodes.replay.replayer import Replay, ReplayDivergence
from spectator.events import Event, Parent, RecordedEvent
from spectator.llm.chat import ChatAnswer, ChatRequest, OnDelta
from spectator.llm.playback import RecordedExchange
from spectator.model_calls import ModelCall
from spectator.observations import Observation
from spectator.policies.model import ModelPolicy
from spectator.policies.model_presets import ModelBuild
from spectator.steppers.opening import inline


@dataclass(frozen=True, slots=True)
class RebuiltPrompts:
    """The prompts of one decision of a model.

    Args:
        decided: Its event.
        observation: What the actor saw; ``None`` where the world does not tell the record any more.
        exchanges: Its exchanges, with their questions where they are recorded or the same were asked again.
        same: Whether the very same questions were asked, if any were.
        captain: Its preset's name; empty where the captain of a fork's parent decided.
        build: How the captain is built here; ``None`` where the catalogue has no such model.
    """

    decided: Event
    observation: Observation | None
    exchanges: Sequence[RecordedExchange]
    same: bool
    captain: str
    build: ModelBuild | None


@dataclass(slots=True)
class EpisodePrompts:
    """The prompts of all decisions that models made in an episode.

    Args:
        decisions: Decisions of models, in order.
        gaps: Why some prompts could not be rebuilt, in words.
    """

    decisions: list[RebuiltPrompts] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    @property
    def exchanges(self) -> list[RecordedExchange]:
        """All exchanges, in order."""
        return [exchange for decision in self.decisions for exchange in decision.exchanges]


async def rebuild_prompts(
    recorded: Sequence[RecordedEvent], load: LoadWorld, calls: Calls | None = None
) -> EpisodePrompts:
    """Play a recorded episode again, and let its models' policies ask what they asked, without an endpoint.

    Questions that are recorded are given as they were; only those of older records are rebuilt so.

    A policy that asks otherwise is replaced by a new one, as a restart or a fork did then; where that one
    asks otherwise too, the catalogue or the world has changed since, and the questions are unknown.

    Args:
        recorded: All events of one episode, in order.
        load: Finds the world, with the captains of the catalogue.
        calls: The recorded calls; see :func:`spectator.episodes.replay.recorded_calls.calls_of`.

    Raises:
        InvalidRequest: The world is not in the catalogue.
    """
    started = recorded[0].event
    world = load(started.data["environment"])
    parent = Parent.model_validate(started.data["parent"]) if started.data.get("parent") else None
    rebuilt = EpisodePrompts()
    stepper = inline(world, started.episode_id)
    replay: Replay | None = Replay(world, stepper, derived=is_derived(started))
    models = {
        actor: _Model(actor, build, derive_seed(started.data["seed"], "policy", actor))
        for actor, build in _builds(world, started.data, rebuilt.gaps)
    }
    for one in recorded:
        event = one.event
        stepped = None if replay is None else replay.stepped
        seen = None if stepped is None else stepped.observation
        if event.type == "decision.made" and _is_models(event.data):
            actor = event.data["actor"]
            own = parent is None or event.turn > parent.own_after(actor)
            captain = started.data["seats"][actor]["policy"] if own else ""
            known = (calls or {}).get(event.turn, ())
            whole = with_replies(one, known).event
            rebuilt.decisions.append(_again(whole, seen, captain, models, known, rebuilt.gaps))
        try:
            if replay is not None:
                await replay.compare(event)
        except ReplayDivergence as divergence:
            rebuilt.gaps.append(f"from event {event.seq} on: {divergence}")
            replay = None
    await stepper.aclose()
    return rebuilt


def _is_models(decision: Mapping[str, Any]) -> bool:
    return (
        decision["source"] == "model"
        or decision.get("exchanges") is not None
        or (decision["source"] == "fallback" and decision["model"] is not None)
    )


def model_build(world: World, captain: str) -> ModelBuild | None:
    """How the model called ``captain`` is built in ``world``; ``None`` where there is none."""
    presets = {one.name: one.build for one in (*world.opponents.values(), *world.captains.values())}
    build = presets.get(captain)
    return build if isinstance(build, ModelBuild) else None


def _builds(world: World, started: Mapping[str, Any], gaps: list[str]) -> Iterator[tuple[str, ModelBuild]]:
    for actor, seat in started["seats"].items():
        if seat["source"] != "model":
            continue
        presets = world.captains if actor == started["agent"] else {**world.captains, **world.opponents}
        preset = next((one for one in presets.values() if one.name == seat["policy"]), None)
        if preset is not None and isinstance(preset.build, ModelBuild):
            yield actor, preset.build
        else:
            gaps.append(f"{actor}: there is no model captain {seat['policy']!r} in the catalogue here")


def _again(
    event: Event,
    seen: Observation | None,
    captain: str,
    models: Mapping[str, _Model],
    known: Sequence[ModelCall],
    gaps: list[str],
) -> RebuiltPrompts:
    actor = event.data["actor"]
    model = models.get(actor)
    same = False
    if model is not None and seen is not None:
        same = model.decide(seen, event.data)
        if not same and not model.lost:
            model.lost = True
            gaps.append(
                f"{actor}, from turn {event.turn} on: its captain asks otherwise here than it did then"
            )
    rebuilt = model.asked if same and model is not None else ()
    questions: deque[ModelCall | ChatRequest] = deque(known or rebuilt)
    kept = [_kept(event, exchange, questions) for exchange in event.data.get("exchanges") or ()]
    return RebuiltPrompts(event, seen, kept, same, captain, None if model is None else model.build)


def _kept(
    event: Event, exchange: Mapping[str, Any], questions: deque[ModelCall | ChatRequest]
) -> RecordedExchange:
    question = questions.popleft() if questions else None
    return RecordedExchange(
        turn=event.turn,
        actor=event.data["actor"],
        request=exchange["request"],
        reply=exchange["reply"],
        failure=exchange["failure"],
        messages=None if question is None else question.messages,
        tools=() if question is None else question.tools,
        call=question if isinstance(question, ModelCall) else None,
    )


class _Model:
    """One model's policy, asked again turn by turn."""

    def __init__(self, actor: str, build: ModelBuild, seed: int) -> None:
        self.actor = actor
        self.build = build
        self.asked: Sequence[ChatRequest] = ()
        self.lost = False
        self._seed = seed
        self._policy: ModelPolicy = build.asking(UnaskedEndpoint(), seed)

    def decide(self, seen: Observation, decided: Mapping[str, Any]) -> bool:
        """Whether the same questions lead to the same action, from this policy or from a new one."""
        if self._decide(self._policy, seen, decided):
            return True
        if decided["source"] == "fallback" and not decided.get("exchanges"):
            return True  # nobody was asked
        new = self.build.asking(UnaskedEndpoint(), self._seed)
        if not self._decide(new, seen, decided):
            return False
        self._policy = new
        return True

    def _decide(self, policy: ModelPolicy, seen: Observation, decided: Mapping[str, Any]) -> bool:
        again = policy.remember(seen, decided)
        self.asked = again.asked
        return again.asked_alike and again.decided_alike


class UnaskedEndpoint:
    """A client of policies that only remember."""

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: float,
        session: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> ChatAnswer:
        """Nobody is asked."""
        raise AssertionError("what is remembered asks nobody")

    async def aclose(self) -> None:
        """Let go of nothing."""
