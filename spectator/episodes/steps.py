"""Check decisions and steps against their contracts, and turn steps into facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.core_events import (
    ActionRefused,
    DecisionMade,
    EpisodeEnded,
    ModelExchange,
    StepTaken,
    core_fact,
)
from spectator.environments.contract import Stepped
from spectator.environments.world import World
from spectator.errors import EndReason, EnvironmentFault, FailureClass, PolicyError, failure_of_end
from spectator.events import Fact, decode_json, encode_json
from spectator.journal.contract import truth_digest
from spectator.observations import LegalAction, Profile
from spectator.policies.policy import Action, Decision
from spectator.text import clean_text

MAX_RAW_TEXT: Final = 8_192
"""Maximum characters of a model's text in an event."""

MAX_REASONING: Final = 4_096
"""Maximum characters of the reasoning in an event."""

MAX_NAME: Final = 500
"""Maximum characters of a model's name and of a fallback's reason in an event."""

MAX_OFFERED: Final = 32
"""Maximum names of legal actions in an event."""

MAX_ACTION_BYTES: Final = 64 * 1024
"""Maximum encoded size of an action, in bytes."""

MAX_TRUTH: Final = 16 * 1024 * 1024
"""Maximum characters of JSON of a world's sealed truth."""

MAX_ACTION_DEPTH: Final = 64
"""Maximum nesting depth of an action."""


def sealed(truth: Mapping[str, Any]) -> str | None:
    """Encode a world's sealed truth as JSON text; ``None`` if it is empty.

    Raises:
        EnvironmentFault: It is not a plain finite JSON object, or is too large.
    """
    if not truth:
        return None
    try:
        text = encode_json(dict(truth))
    except (RecursionError, TypeError, ValueError) as error:
        raise EnvironmentFault(f"its truth is not a plain finite JSON object: {error}") from error
    if len(text) > MAX_TRUTH:
        raise EnvironmentFault(f"its truth has {len(text)} characters; the limit is {MAX_TRUTH}")
    return text


def checked_decision(
    actor: str, decision: Decision, took: float, offered: Sequence[LegalAction] = ()
) -> tuple[Action, Fact]:
    """Return a decision's action as a private copy of plain JSON, and its ``decision.made`` fact.

    Args:
        took: Seconds it took by the episode's clock.

    Raises:
        PolicyError: It is not a valid decision, or its action is not plain finite JSON of a sane size.
    """
    try:
        if decision.calls and len(decision.calls) != len(decision.exchanges):
            raise ValueError(f"it has {len(decision.calls)} calls for {len(decision.exchanges)} exchanges")
        text = encode_json(dict(decision.action))
        if len(text) > MAX_ACTION_BYTES // 4 and (size := len(text.encode())) > MAX_ACTION_BYTES:
            raise ValueError(f"its action has {size} bytes; the limit is {MAX_ACTION_BYTES}")
        action: dict[str, Any] = decode_json(text)
        if text.count("{") + text.count("[") > MAX_ACTION_DEPTH and _deeper_than(MAX_ACTION_DEPTH, action):
            raise ValueError(f"its action is nested deeper than {MAX_ACTION_DEPTH} levels")
        stated = _stated(actor, decision, action, took, offered)
        stated["exchanges"] = [ModelExchange.model_validate(one) for one in decision.exchanges] or None
        return action, core_fact(DecisionMade(**stated))
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise PolicyError(f"the decision of {actor} cannot be recorded: {error}") from error


def _stated(
    actor: str, decision: Decision, action: Action, took: float, offered: Sequence[LegalAction]
) -> dict[str, Any]:
    """Return the fields of ``decision.made``, in order; their types are checked later."""
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
        stated["failure_class"] = failure_class or "unknown"  # a fallback without a stated reason
    if decision.prompt is not None:
        stated["prompt"] = decision.prompt
    if decision.constraint is not None:
        stated["constraint"] = decision.constraint
    return stated


def _deeper_than(limit: int, value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if items is None:
        return False
    return limit == 0 or any(_deeper_than(limit - 1, item) for item in items)


def check_contract(stepped: Stepped, world: World, profile: Profile, *, beginning: bool = False) -> None:
    """Check an answer of ``world`` in an episode with ``profile``.

    Args:
        beginning: Whether it is the answer to ``reset``, before anything can be rewarded.

    Raises:
        EnvironmentFault: It broke its contract.
    """
    observation, actors = stepped.observation, world.actors
    broken = profile.broken_by(observation.reward, done=observation.done)
    if broken is not None:
        raise EnvironmentFault(broken)
    undeclared = {fact.type for fact in stepped.facts} - world.events.keys()
    if undeclared:
        raise EnvironmentFault(f"returned undeclared event types: {', '.join(sorted(undeclared))}")
    if observation.refused is not None and (stepped.facts or observation.done):
        raise EnvironmentFault(f"refused an action by {observation.refused.rule} but returned facts or ended")
    if observation.refused is not None and observation.reward != 0.0:
        raise EnvironmentFault(f"refused an action by {observation.refused.rule} but rewarded it")
    if observation.done:
        return
    if beginning and observation.reward != 0.0:
        raise EnvironmentFault(f"gave the reward {observation.reward} before the first action")
    if observation.actor not in actors:
        raise EnvironmentFault(f"asks {observation.actor!r}, which is not one of {', '.join(actors)}")
    actions = profile.actions
    if actions == "tools" and not observation.legal_actions:
        raise EnvironmentFault(f"offers {observation.actor} no legal action")
    if actions != "tools" and observation.legal_actions:
        raise EnvironmentFault(f"lists legal actions, but the actions of its profile are {actions}")


DETAIL_LENGTH: Final = 500
"""Maximum characters of the detail of an end."""


def facts_of_step(
    actor: str, decided: Fact, stepped: Stepped, took: float, refusals: dict[str, int]
) -> list[Fact]:
    """Return the facts of one decision and the world's answer.

    Args:
        decided: The ``decision.made`` fact.
        took: Seconds that the world took.
        refusals: Number of refused actions, by actor; a refusal is added.
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
    """Make the end of a finished episode.

    Args:
        score: The sum of the agent's rewards.
        state: The world's public state at the end.
        turns: Actions taken or refused.
        truth: The sealed truth, as JSON text; the end contains only its digest.

    Raises:
        EnvironmentFault: The score is outside the bounds of the profile.
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
    """Add the sum of all rewards to an end if the world rewards its steps."""
    return ended if profile.rewards == "end" else ended.model_copy(update={"total_reward": total})


def cut_short(
    reason: EndReason, detail: str | None, turns: int, failure_class: FailureClass | None = None
) -> EpisodeEnded:
    """Make the end of an episode that did not finish.

    Args:
        reason: Why; anything except ``finished``.
        detail: What went wrong, for people.
        turns: Actions taken or refused.
        failure_class: The failure class; the default one for ``reason`` if omitted.
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
