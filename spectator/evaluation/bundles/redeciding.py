"""Makes recorded decisions again: scripted captains decide anew, models read their recorded replies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from spectator.environments.contract import Stepper
from spectator.environments.world import World
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.steps import checked_decision
from spectator.errors import BundleError, typed_as
from spectator.events import Event, encode_json
from spectator.observations import Observation
from spectator.policies.model import ModelPolicy
from spectator.policies.model_presets import ModelBuild
from spectator.policies.policy import Decision, Policy, ScriptedPolicy, SeesTruth
from spectator.policies.recorded_endpoint import PATIENCE_S, UnaskedEndpoint

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
