"""Check an episode of a bundle: replay it, and make its decisions again."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from spectator.environments.contract import Stepper
from spectator.environments.world import World
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.recorded_calls import streamed_with_whole_replies
from spectator.episodes.replayer import Replay, ReplayDivergence, verify_attachments
from spectator.episodes.steps import checked_decision
from spectator.episodes.view import is_derived
from spectator.errors import BundleError, typed_as
from spectator.evaluation.bundles.bundle import BundledEpisode
from spectator.evaluation.figures import EpisodeFigures, Reading
from spectator.events import Event, encode_json
from spectator.journal.contract import Chain, Journal
from spectator.observations import Observation
from spectator.policies.model import ModelPolicy
from spectator.policies.model_presets import ModelBuild
from spectator.policies.policy import Decision, Policy, ScriptedPolicy, SeesTruth
from spectator.policies.recorded_endpoint import PATIENCE_S, UnaskedEndpoint
from spectator.steppers.local import inline

SCRIPTED_SAME: Final = (
    "action",
    "source",
    "reasoning",
    "parse",
    "fallback_reason",
    "failure_class",
    "exchanges",
)
"""Fields of a scripted captain's decision that come out the same each time."""

MODEL_SAME: Final = ("action", "source", "reasoning", "raw_text", "parse", "model")
"""Fields of a model's own decision that follow from its replies."""


class RecordedDecisions:
    """The captains of one episode, asked again decision by decision.

    Args:
        plan: How the episode was played, with the captains of the bundle.
        stepper: Its environment, played again beside it.
    """

    def __init__(self, plan: EpisodePlan, stepper: Stepper) -> None:
        self._plan = plan
        self._stepper = stepper
        self._seats = {actor: _policy(plan, actor) for actor in plan.world.actors}

    async def again(self, event: Event, seen: Observation) -> list[str]:
        """How the decision in ``event`` comes out otherwise, field by field; empty when it does not.

        Args:
            event: A ``decision.made``, its replies whole.
            seen: What its actor saw.
        """
        policy = self._seats[event.data["actor"]]
        if isinstance(policy, ModelPolicy):
            return list(_reread(policy, seen, event.data))
        made = await self._decide(policy, event.data["actor"], seen)
        _, fact = checked_decision(event.data["actor"], made, 0.0, seen.legal_actions)
        return list(_differing(fact.data, event.data, SCRIPTED_SAME, "the captain decides"))

    async def forfeit(self, ended: Event, seen: Observation) -> list[str]:
        """Why the forfeit in ``ended`` is none, as far as the record shows it; empty when it may be one.

        Args:
            ended: An ``episode.ended`` that says who forfeited.
            seen: What the actor saw who was asked last.
        """
        loser = ended.data["forfeited"]
        if seen.actor != loser:
            return [f"{loser} is said to have forfeited where {seen.actor} was asked"]
        policy = self._seats[loser]
        if not isinstance(policy, ModelPolicy):
            try:
                with typed_as(lambda error: BundleError(str(error)), passing=()):
                    await self._decide(policy, loser, seen)
            except BundleError:
                return []
            return [f"{loser} is said to have forfeited, and decides here"]
        stated = {
            "source": "fallback", "action": {}, "reasoning": "", "fallback_reason": "",
            "failure_class": ended.data.get("failure_class"),
            **(ended.data.get("undecided") or {}),
        }  # fmt: skip
        made = policy.remember(seen, stated).made
        if made is not None and made.source == "model":
            return [f"{loser} is said to have forfeited, but the recorded reply is a decision"]
        return []

    async def _decide(self, policy: Policy, actor: str, seen: Observation) -> Decision:
        if isinstance(policy, ScriptedPolicy):
            return policy.choose(seen)
        if isinstance(policy, SeesTruth):
            policy.see(await self._stepper.snapshot(limit_s=None))
            return await policy.decide(seen, deadline=PATIENCE_S)
        raise BundleError(f"{self._plan.preset(actor).name} cannot be asked again")


def can_be_asked_again(world: World, captain: str) -> bool:
    """Whether anybody can make the decisions of ``captain`` again from a record alone."""
    build = world.captains[captain].build
    if isinstance(build, ModelBuild):
        return True
    policy = build(0)
    return isinstance(policy, ScriptedPolicy | SeesTruth)


def _policy(plan: EpisodePlan, actor: str) -> Policy:
    build, seed = plan.making(actor)
    return build.asking(UnaskedEndpoint(), seed) if isinstance(build, ModelBuild) else build(seed)


def _reread(policy: ModelPolicy, seen: Observation, data: Mapping[str, Any]) -> Iterator[str]:
    """How a model's decision comes out otherwise from the recorded replies."""
    again = policy.remember(seen, data)
    if not again.same_requests:
        yield "the questions to the model are not those that its captain asks here"
    made = again.made
    if made is None:
        yield "the recorded replies lead to no decision"
        return
    if made.source != data["source"]:
        yield f"the recorded replies make it a decision of source {made.source!r}, not {data['source']!r}"
        return
    if made.source == "model":
        _, fact = checked_decision(data["actor"], made, 0.0, seen.legal_actions)
        yield from _differing(fact.data, data, MODEL_SAME, "the recorded replies give")
    elif (stood_in := again.fell_back_to) is not None and _plain(stood_in.action) != data["action"]:
        yield (
            f"action: in place of the failed decision {_short(_plain(stood_in.action))} is due, not "
            + _short(data["action"])
        )


def _differing(
    made: Mapping[str, Any], recorded: Mapping[str, Any], names: tuple[str, ...], whose: str
) -> Iterator[str]:
    plain = _plain(made)
    for name in names:
        if plain.get(name) != recorded.get(name):
            yield f"{name}: {whose} {_short(plain.get(name))}, recorded is {_short(recorded.get(name))}"


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(encode_json(dict(value)))
    return plain


def _short(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 120 else shown[:117] + "..."


MOST_TOLD = 5
"""Discrepancies of one episode that are told; what follows one is often more of the same."""

_AT_A_DECISION = ("policy_error", "step_cap")
"""Ends that come where somebody is asked to decide, with nothing left to be told; others come at any time."""


@dataclass(frozen=True, slots=True)
class Misstatement:
    """Something that is not as a bundle claims.

    Args:
        message: What, in a sentence, with the field that it is about.
        episode_id: In which episode; ``None`` where it is about the whole.
        seq: At which event of it.
    """

    message: str
    episode_id: str | None = None
    seq: int | None = None

    def __str__(self) -> str:
        if self.episode_id is None:
            return self.message
        where = self.episode_id if self.seq is None else f"{self.episode_id}, event {self.seq}"
        return f"{where}: {self.message}"


@dataclass(slots=True)
class CheckedEpisode:
    """What came of checking one episode.

    Args:
        found: What is not as claimed, in order.
        figures: Its figures; ``None`` where its record has no end or cannot be read.
    """

    found: list[Misstatement] = field(default_factory=list)
    figures: EpisodeFigures | None = None


async def check_episode(
    journal: Journal, stated: BundledEpisode, plan: EpisodePlan, *, replay: bool
) -> CheckedEpisode:
    """Check an episode of a bundle and read its figures.

    Args:
        journal: The bundle's, its files' digests checked.
        stated: What the manifest says of the episode.
        plan: How it must have been played.
        replay: Whether its world is played again and its decisions are made again; else only the record is
            checked against the digests, and read.
    """
    checked = CheckedEpisode()
    broken = await _chain(journal, stated)
    if not broken:
        broken = await _contents(journal, stated.id, plan, checked, replay=replay)
    checked.found = [Misstatement(message, stated.id, seq) for seq, message in broken][:MOST_TOLD]
    return checked


async def _chain(journal: Journal, stated: BundledEpisode) -> list[tuple[int, str]]:
    chain = Chain(head_seq=stated.events, digest=bytes.fromhex(stated.digest))
    broken = []
    async for links in journal.links(stated.id):
        broken += list(chain.check(links))
        if broken:
            break
    else:
        broken += list(chain.finish())
    return [(one.seq, one.message) for one in broken]


async def _contents(
    journal: Journal, episode_id: str, plan: EpisodePlan, checked: CheckedEpisode, *, replay: bool
) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    at = [1]
    try:
        with typed_as(lambda error: BundleError(f"it cannot be read: {error!r:.200}")):
            async for discrepancy in verify_attachments(journal, episode_id):
                found.append((discrepancy.seq, discrepancy.message))
                if len(found) >= MOST_TOLD:
                    return found
        with typed_as(lambda error: BundleError(f"it cannot be followed: {error!r:.200}")):
            async with aclosing(_read(journal, episode_id, plan, checked, replay)) as told:
                async for seq, message in told:
                    at[0] = seq
                    if message:
                        found.append((seq, message))
    except BundleError as error:
        found.append((at[0], str(error)))
    return found


async def _read(
    journal: Journal, episode_id: str, plan: EpisodePlan, checked: CheckedEpisode, replay: bool
) -> AsyncGenerator[tuple[int, str], None]:
    """Read an episode to its end: the number of each event, and what is wrong with it, if anything is."""
    reading, again = Reading(), None
    recorded = streamed_with_whole_replies(journal, episode_id, journal.stream(episode_id))
    try:
        async with aclosing(recorded) as events:
            async for one in events:
                yield one.seq, ""
                if one.seq == 1:
                    wrong = _beginning(one.event, plan)
                    for message in wrong:
                        yield 1, message
                    if wrong:
                        return
                    again = _PlayedAgain(plan, one.event) if replay else None
                if again is not None:
                    try:
                        for message in await again.compare(one.event):
                            yield one.seq, message
                    except ReplayDivergence as divergence:
                        yield one.seq, str(divergence)
                        return
                reading.take(one)
        checked.figures = reading.figures()
    finally:
        if again is not None:
            await again.aclose()


def _beginning(started: Event, plan: EpisodePlan) -> list[str]:
    """What the first event says otherwise than the schedule has it."""
    if started.type != "episode.started":
        return [f"the record begins with {started.type}"]
    due: dict[str, Any] = plan.started().model_dump(mode="json")
    names = sorted((due.keys() | started.data.keys()) - {"spectator_version", "title"})
    return [
        f"{name} is recorded as {started.data.get(name)!r:.120}, and the schedule has {due.get(name)!r:.120}"
        for name in names
        if started.data.get(name) != due.get(name)
    ]


class _PlayedAgain:
    """An episode played again beside its record."""

    def __init__(self, plan: EpisodePlan, started: Event) -> None:
        self._stepper = inline(plan.world, started.episode_id)
        self._replay = Replay(plan.world, self._stepper, derived=is_derived(started))
        self._decisions = RecordedDecisions(plan, self._stepper)

    async def compare(self, event: Event) -> list[str]:
        """What of ``event`` comes out otherwise.

        Raises:
            ReplayDivergence: The world does not come to this event at all.
        """
        found = []
        stepped = self._replay.stepped
        if event.type == "episode.ended" and event.data["reason"] in _AT_A_DECISION and self._replay.due:
            found.append(f"{self._replay.due[0].type} is due before the end")
        if stepped is not None and not self._replay.due:
            seen = stepped.observation
            if event.type == "decision.made" and event.data["actor"] == seen.actor:
                found = await self._decisions.again(event, seen)
            elif event.type == "episode.ended" and event.data.get("forfeited") is not None:
                found = await self._decisions.forfeit(event, seen)
        return [*found, *await self._replay.compare(event)]

    async def aclose(self) -> None:
        """Let go of the world."""
        await self._stepper.aclose()
