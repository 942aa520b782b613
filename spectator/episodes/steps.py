"""Check decisions and steps against their contracts, and turn steps into facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.environments.contract import Stepped
from spectator.environments.world import World
from spectator.errors import EndReason, EnvironmentFault, FailureClass, PolicyError, failure_of_end
from spectator.events import (
    ActionRefused,
    DecisionMade,
    EpisodeEnded,
    Fact,
    ModelExchange,
    StepTaken,
    core_fact,
    decode_json,
    encode_json,
)
from spectator.journal.contract import truth_digest
from spectator.observations import LegalAction, Profile
from spectator.policies.policy import Action, Decision
from spectator.text import clean_text

MAX_RAW_TEXT: Final = 8_192
"""Characters of a model's own text that an event keeps."""

MAX_REASONING: Final = 4_096
"""Characters of a stated reason that an event keeps."""

MAX_NAME: Final = 500
"""Characters of a model's name and of a fallback's reason that an event keeps."""

MAX_OFFERED: Final = 32
"""Names of legal actions that an event keeps."""

MAX_ACTION_BYTES: Final = 64 * 1024
"""Encoded size beyond which an action is a policy's error."""

MAX_TRUTH: Final = 16 * 1024 * 1024
"""Characters of JSON beyond which what a world hid is its error."""

MAX_ACTION_DEPTH: Final = 64
"""Levels of nesting beyond which an action is a policy's error."""


def sealed(truth: Mapping[str, Any]) -> str | None:
    """What a world hid until it was done, as JSON text; ``None`` where that is nothing.

    Raises:
        EnvironmentFault: It is no plain finite JSON object, or too large.
    """
    if not truth:
        return None
    try:
        text = encode_json(dict(truth))
    except (RecursionError, TypeError, ValueError) as error:
        raise EnvironmentFault(f"its truth is no plain finite JSON object: {error}") from error
    if len(text) > MAX_TRUTH:
        raise EnvironmentFault(f"its truth has {len(text)} characters; at most {MAX_TRUTH} are taken")
    return text


def checked_decision(
    actor: str, decision: Decision, took: float, offered: Sequence[LegalAction] = ()
) -> tuple[Action, Fact]:
    """The action as plain JSON that nobody else holds, and the fact that it was decided on.

    Args:
        actor: Who decided.
        decision: What the policy answered.
        took: Seconds it took by the episode's clock.
        offered: What the world said would be legal.

    Raises:
        PolicyError: It is no decision, or not plain finite JSON of a sane size.
    """
    try:
        if decision.calls and len(decision.calls) != len(decision.exchanges):
            raise ValueError(f"{len(decision.calls)} calls beside {len(decision.exchanges)} exchanges")
        text = encode_json(dict(decision.action))
        if len(text) > MAX_ACTION_BYTES // 4 and (size := len(text.encode())) > MAX_ACTION_BYTES:
            raise ValueError(f"an action of {size} bytes; at most {MAX_ACTION_BYTES} are taken")
        action: dict[str, Any] = decode_json(text)
        if text.count("{") + text.count("[") > MAX_ACTION_DEPTH and _deeper_than(MAX_ACTION_DEPTH, action):
            raise ValueError(f"an action nested deeper than {MAX_ACTION_DEPTH} levels")
        stated = _stated(actor, decision, action, took, offered)
        stated["exchanges"] = [ModelExchange.model_validate(one) for one in decision.exchanges] or None
        return action, core_fact(DecisionMade(**stated))
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise PolicyError(f"{actor} made no decision that can be recorded: {error}") from error


def _stated(
    actor: str, decision: Decision, action: Action, took: float, offered: Sequence[LegalAction]
) -> dict[str, Any]:
    """What ``decision.made`` says, as far as it has the right types, in the order of its fields."""
    stated = {
        "actor": actor,
        "source": decision.source,
        "action": action,
        "legal": [clean_text(str(one.get("tool", "")), MAX_NAME) for one in offered[:MAX_OFFERED]],
        "reasoning": clean_text(decision.reasoning, MAX_REASONING),
        "raw_text": decision.raw_text and clean_text(decision.raw_text, MAX_RAW_TEXT),
        "parse": decision.parse,
        "fallback_reason": decision.fallback_reason and clean_text(decision.fallback_reason, MAX_NAME),
        "model": decision.model and clean_text(decision.model, MAX_NAME),
        "latency_s": round(took, 6) if decision.latency_s is None else decision.latency_s,
        "tokens_in": decision.tokens_in,
        "tokens_out": decision.tokens_out,
        "tokens_estimated": decision.tokens_estimated,
        "cost": decision.cost,
        "exchanges": list(decision.exchanges) or None,
    }
    if (failure_class := decision.failure_class) is not None or decision.source == "fallback":
        stated["failure_class"] = failure_class or "unknown"  # a fallback whose policy does not say why
    if decision.prompt is not None:
        stated["prompt"] = decision.prompt
    return stated


def _deeper_than(limit: int, value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if items is None:
        return False
    return limit == 0 or any(_deeper_than(limit - 1, item) for item in items)


def check_contract(stepped: Stepped, world: World, profile: Profile, *, beginning: bool = False) -> None:
    """Check what ``world`` answered in an episode of ``profile``.

    Args:
        stepped: Its answer.
        world: What it declares.
        profile: When the episode is rewarded, and within which bounds.
        beginning: Whether nothing was done yet that could be rewarded.

    Raises:
        EnvironmentFault: It broke its contract.
    """
    observation, actors = stepped.observation, world.actors
    broken = profile.broken_by(observation.reward, done=observation.done)
    if broken is not None:
        raise EnvironmentFault(broken)
    undeclared = {fact.type for fact in stepped.facts} - world.events.keys()
    if undeclared:
        raise EnvironmentFault(f"told of {', '.join(sorted(undeclared))}, which it does not declare")
    if observation.refused is not None and (stepped.facts or observation.done):
        raise EnvironmentFault(f"refused an action by {observation.refused.rule} and yet went on")
    if observation.refused is not None and observation.reward != 0.0:
        raise EnvironmentFault(f"refused an action by {observation.refused.rule} and yet rewarded it")
    if observation.done:
        return
    if beginning and observation.reward != 0.0:
        raise EnvironmentFault(f"gave the reward {observation.reward} before the first action")
    if observation.actor not in actors:
        raise EnvironmentFault(f"asks {observation.actor!r}, which is none of {', '.join(actors)}")
    actions = profile.actions
    if actions == "tools" and not observation.legal_actions:
        raise EnvironmentFault(f"leaves {observation.actor} nothing legal to do")
    if actions != "tools" and observation.legal_actions:
        raise EnvironmentFault(f"lists legal actions, although its profile says that actions are {actions}")


DETAIL_LENGTH: Final = 500
"""Characters of what went wrong that an end keeps."""


def facts_of_step(
    actor: str, decided: Fact, stepped: Stepped, took: float, refusals: dict[str, int]
) -> list[Fact]:
    """What one decision and the world's answer to it come to.

    Args:
        actor: Who decided.
        decided: That they did.
        stepped: What the world answered.
        took: Seconds it took.
        refusals: Refused actions so far, by actor; this one is counted.
    """
    observation = stepped.observation
    if observation.refused is not None:
        refusals[actor] = refusals.get(actor, 0) + 1
        refused = ActionRefused(
            actor=actor,
            action=decided.data["action"],
            rule=observation.refused.rule,
            message=observation.refused.message,
            refusals=refusals[actor],
        )
        return [decided, core_fact(refused)]
    taken = StepTaken(
        actor=actor,
        next_actor=observation.actor,
        reward=observation.reward,
        done=observation.done,
        rubric=dict(observation.metadata.get("rubric", {})),
        duration_s=round(took, 6),
    )
    return [decided, *stepped.facts, core_fact(taken)]


def finished(
    score: float, state: Mapping[str, Any], turns: int, profile: Profile, truth: str | None = None
) -> EpisodeEnded:
    """The end of an episode whose world came to its own.

    Args:
        score: The sum of the agent's rewards.
        state: The world's public state then.
        turns: Actions taken or refused.
        profile: What the world declares of its rewards.
        truth: What it hid, as JSON text; recorded beside it, and only stated here by its digest.

    Raises:
        EnvironmentFault: The score is outside the bounds that the world declares.
    """
    if (broken := profile.score_broken_by(score)) is not None:
        raise EnvironmentFault(broken)
    result = state.get("result")
    return EpisodeEnded(
        reason="finished",
        score=score,
        result=result if isinstance(result, str) else None,
        turns=turns,
        terminated=True,
        truncated=False,
        truth=None if truth is None else truth_digest(truth),
    )


def with_total(ended: EpisodeEnded, total: float, profile: Profile) -> EpisodeEnded:
    """The end with the sum of all rewards, where the world rewards its steps."""
    return ended if profile.rewards == "end" else ended.model_copy(update={"total_reward": total})


def cut_short(
    reason: EndReason, detail: str | None, turns: int, failure_class: FailureClass | None = None
) -> EpisodeEnded:
    """The end of an episode that did not finish.

    Args:
        reason: Why; anything but ``finished``.
        detail: What went wrong, for people.
        turns: Actions taken or refused.
        failure_class: The kind of failure; the usual one for ``reason`` when left out.
    """
    return EpisodeEnded(
        reason=reason,
        score=None,
        result=None,
        turns=turns,
        detail=None if detail is None else clean_text(detail, DETAIL_LENGTH),
        terminated=False,
        truncated=True,
        failure_class=failure_class or failure_of_end({"reason": reason}),
    )
