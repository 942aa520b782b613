"""Check an episode of a bundle: replay it, and repeat its decisions."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
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
from spectator.evaluation.certificate import settings_differences
from spectator.evaluation.figures import EpisodeFigures, Reading
from spectator.events import Event, encode_json
from spectator.journal.contract import Chain, Journal, RecordedCall
from spectator.observations import Observation
from spectator.policies.model import ModelPolicy
from spectator.policies.model_presets import ModelBuild
from spectator.policies.policy import AsksEndpoint, Decision, Policy, ScriptedPolicy, SeesTruth
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
"""Fields of a scripted captain's decision that are deterministic."""

MODEL_SAME: Final = ("action", "source", "reasoning", "raw_text", "parse", "model")
"""Fields of a model's own decision that its replies determine."""


class RecordedDecisions:
    """Repeats the decisions of one episode.

    Args:
        plan: Plan of the episode, with the captains of the bundle.
        stepper: The replayed environment.
    """

    def __init__(self, plan: EpisodePlan, stepper: Stepper) -> None:
        self._plan = plan
        self._stepper = stepper
        self._seats = {actor: _policy_of(plan, actor) for actor in plan.world.actors}

    async def differences(self, event: Event, seen: Observation) -> list[str]:
        """Repeat the decision in ``event``; return the differences, field by field.

        Args:
            event: A ``decision.made`` with complete replies.
            seen: The observation of its actor.
        """
        policy = self._seats[event.data["actor"]]
        if isinstance(policy, ModelPolicy):
            return list(_model_differences(policy, seen, event.data))
        made = await self._decide(policy, event.data["actor"], seen)
        _, fact = checked_decision(event.data["actor"], made, 0.0, seen.legal_actions)
        return list(_differences(fact.data, event.data, SCRIPTED_SAME, "the captain decides"))

    async def forfeit(self, ended: Event, seen: Observation) -> list[str]:
        """Return why the forfeit in ``ended`` is wrong; empty if the record allows it.

        Args:
            ended: An ``episode.ended`` with ``forfeited``.
            seen: The last observation.
        """
        loser = ended.data["forfeited"]
        if seen.actor != loser:
            return [f"the record says that {loser} forfeited, but it was the turn of {seen.actor}"]
        policy = self._seats[loser]
        if not isinstance(policy, ModelPolicy):
            try:
                with typed_as(lambda error: BundleError(str(error)), passing=()):
                    await self._decide(policy, loser, seen)
            except BundleError:
                return []
            return [f"the record says that {loser} forfeited, but it decides here"]
        stated = {
            "source": "fallback", "action": {}, "reasoning": "", "fallback_reason": "",
            "failure_class": ended.data.get("failure_class"),
            **(ended.data.get("undecided") or {}),
        }  # fmt: skip
        made = policy.remember(seen, stated).made
        if made is not None and made.source == "model":
            return [f"the record says that {loser} forfeited, but its recorded reply is a decision"]
        return []

    async def _decide(self, policy: Policy, actor: str, seen: Observation) -> Decision:
        if isinstance(policy, ScriptedPolicy):
            return policy.choose(seen)
        if isinstance(policy, SeesTruth):
            policy.see(await self._stepper.snapshot(limit_s=None))
            return await policy.decide(seen, deadline=PATIENCE_S)
        raise BundleError(f"the decisions of {self._plan.preset(actor).name} cannot be repeated")


def can_be_repeated(world: World, captain: str) -> bool:
    """Whether the decisions of ``captain`` can be repeated from a record alone."""
    build = world.captains[captain].build
    return isinstance(build, AsksEndpoint) or isinstance(build(0), ScriptedPolicy | SeesTruth)


def _policy_of(plan: EpisodePlan, actor: str) -> Policy:
    build, seed = plan.making(actor)
    return build.asking(UnaskedEndpoint(), seed) if isinstance(build, AsksEndpoint) else build(seed)


def _model_differences(policy: ModelPolicy, seen: Observation, data: Mapping[str, Any]) -> Iterator[str]:
    """How a model's decision differs from what the recorded replies give."""
    again = policy.remember(seen, data)
    if not again.same_requests:
        yield "the recorded requests differ from those that the captain sends here"
    made = again.made
    if made is None:
        yield "the recorded replies give no decision"
        return
    if made.source != data["source"]:
        yield f"the recorded replies give a decision of source {made.source!r}, not {data['source']!r}"
        return
    if made.source == "model":
        _, fact = checked_decision(data["actor"], made, 0.0, seen.legal_actions)
        yield from _differences(fact.data, data, MODEL_SAME, "the recorded replies give")
    elif (substitute := again.fell_back_to) is not None and _plain(substitute.action) != data["action"]:
        yield (
            f"action: the failed decision must be replaced by {_short(_plain(substitute.action))}, not "
            + _short(data["action"])
        )


def _differences(
    made: Mapping[str, Any], recorded: Mapping[str, Any], names: tuple[str, ...], source: str
) -> Iterator[str]:
    plain = _plain(made)
    for name in names:
        if plain.get(name) != recorded.get(name):
            yield f"{name}: {source} {_short(plain.get(name))}, recorded is {_short(recorded.get(name))}"


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(encode_json(dict(value)))
    return plain


def _short(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 120 else shown[:117] + "..."


MOST_REPORTED: Final = 5
"""Mistakes that are reported per episode; later ones often follow from the first."""

_AT_A_DECISION: Final = ("policy_error", "step_cap")
"""End reasons that only occur when a decision is due; others can occur at any time."""


@dataclass(frozen=True, slots=True)
class Misstatement:
    """A wrong claim of a bundle.

    Args:
        message: What is wrong, in a sentence that names the field.
        episode_id: The episode; ``None`` if it concerns the whole bundle.
        seq: Sequence number of the event.
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
    """The result of checking one episode.

    Args:
        found: Wrong claims, in order.
        figures: Its figures; ``None`` if its record has no end or is unreadable.
        claims: What is wrong with the captains' claimed settings, by its recorded calls.
    """

    found: list[Misstatement] = field(default_factory=list)
    figures: EpisodeFigures | None = None
    claims: dict[str, None] = field(default_factory=dict)

    def check_settings(self, plan: EpisodePlan, recorded: RecordedCall) -> None:
        """Compare the settings or weights of a recorded call with those that the manifest claims."""
        preset = plan.preset(recorded.stated["actor"])
        if isinstance(preset.build, ModelBuild):
            wrong = settings_differences(preset.build.captain, recorded.call)
            self.claims.update(dict.fromkeys(f"captains.{preset.name}.{one}" for one in wrong))
        elif preset.fingerprint is not None:
            for version, _ in recorded.call.weight_versions or ():
                if version is None or not preset.fingerprint.startswith(version):
                    self.claims[
                        f"captains.{preset.name}.fingerprint: is claimed to be {preset.fingerprint!r}, but "
                        f"weights {version!r} decided"
                    ] = None


async def check_episode(
    journal: Journal, stated: BundledEpisode, plan: EpisodePlan, *, replay: bool
) -> CheckedEpisode:
    """Check an episode of a bundle, and measure it.

    Args:
        journal: The bundle's journal; its file digest is already checked.
        stated: The manifest's entry of the episode.
        plan: The expected plan.
        replay: Whether to replay the world and repeat the decisions; otherwise only the digests are checked.
    """
    checked = CheckedEpisode()
    broken = await _chain(journal, stated)
    if not broken:
        broken = await _contents(journal, stated.id, plan, checked, replay=replay)
    checked.found = [Misstatement(message, stated.id, seq) for seq, message in broken][:MOST_REPORTED]
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
        with typed_as(lambda error: BundleError(f"the episode is unreadable: {error!r:.200}")):
            see = partial(checked.check_settings, plan)
            async for discrepancy in verify_attachments(journal, episode_id, see=see):
                found.append((discrepancy.seq, discrepancy.message))
                if len(found) >= MOST_REPORTED:
                    return found
        with typed_as(lambda error: BundleError(f"the episode cannot be replayed: {error!r:.200}")):
            async with aclosing(_read(journal, episode_id, plan, checked, replay)) as messages:
                async for seq, message in messages:
                    at[0] = seq
                    if message:
                        found.append((seq, message))
    except BundleError as error:
        found.append((at[0], str(error)))
    return found


async def _read(
    journal: Journal, episode_id: str, plan: EpisodePlan, checked: CheckedEpisode, replay: bool
) -> AsyncGenerator[tuple[int, str], None]:
    """Read an episode to its end; yield each event's number with a mistake, or with an empty text."""
    reading, again = Reading(), None
    recorded = streamed_with_whole_replies(journal, episode_id, journal.stream(episode_id))
    try:
        async with aclosing(recorded) as events:
            async for one in events:
                yield one.seq, ""
                if one.seq == 1:
                    wrong = _start_differences(one.event, plan)
                    for message in wrong:
                        yield 1, message
                    if wrong:
                        return
                    again = _ReplayedEpisode(plan, one.event) if replay else None
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


def _start_differences(started: Event, plan: EpisodePlan) -> list[str]:
    """How the first event differs from the schedule."""
    if started.type != "episode.started":
        return [f"the record starts with {started.type}, not with episode.started"]
    due: dict[str, Any] = plan.started().model_dump(mode="json")
    names = sorted((due.keys() | started.data.keys()) - {"spectator_version", "title"})
    return [
        f"{name} is recorded as {started.data.get(name)!r:.120}, but the schedule has {due.get(name)!r:.120}"
        for name in names
        if started.data.get(name) != due.get(name)
    ]


class _ReplayedEpisode:
    """An episode that is replayed and compared with its record."""

    def __init__(self, plan: EpisodePlan, started: Event) -> None:
        self._stepper = inline(plan.world, started.episode_id)
        self._replay = Replay(plan.world, self._stepper, derived=is_derived(started))
        self._decisions = RecordedDecisions(plan, self._stepper)

    async def compare(self, event: Event) -> list[str]:
        """Return how the replay differs from ``event``.

        Raises:
            ReplayDivergence: The replay does not produce this event at all.
        """
        found = []
        stepped = self._replay.stepped
        if event.type == "episode.ended" and event.data["reason"] in _AT_A_DECISION and self._replay.due:
            found.append(f"{self._replay.due[0].type} is missing before the end")
        if stepped is not None and not self._replay.due:
            seen = stepped.observation
            if event.type == "decision.made" and event.data["actor"] == seen.actor:
                found = await self._decisions.differences(event, seen)
            elif event.type == "episode.ended" and event.data.get("forfeited") is not None:
                found = await self._decisions.forfeit(event, seen)
        return [*found, *await self._replay.compare(event)]

    async def aclose(self) -> None:
        """Close the environment."""
        await self._stepper.aclose()
