"""Make the record of a collected episode from its events and observations."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from spectator import __version__
from spectator.collector.generation import Exchange
from spectator.collector.records import EpisodeRecord, Source, StepRecord
from spectator.environments.contract import Stepped
from spectator.errors import failure_of_end, reward_of_end
from spectator.events import Event
from spectator.journal.outline import OwnCount
from spectator.observations import Observation

SUMMARY_KEYS: Final = (
    "step_index",
    "selected_channel",
    "selected_beam_energy",
    "candidate_masses_gev",
    "cumulative_significance",
    "resource_usage",
    "rule_violations",
)
"""Fields of an observation that are kept with each step, if the world has them."""

GRADES: Final = (
    "cumulative_reward",
    "terminal_reward",
    "discovered",
    "correct_mass",
    "correct_channel",
    "correct_spin",
)
"""Fields of the public state at the end that are kept with the episode, if it has a verdict."""


class Seen:
    """The observations of an episode, oldest first, and its public ``state`` at the end."""

    def __init__(self) -> None:
        self.shown: list[Observation] = []
        self.state: Mapping[str, Any] = {}

    def keep(self, stepped: Stepped) -> Stepped:
        """Add the next observation; returns ``stepped``."""
        self.shown.append(stepped.observation)
        if stepped.observation.done:
            self.state = stepped.state
        return stepped


def steps_of(
    events: Sequence[Event], seen: Seen, exchanges: Sequence[Exchange], agent: str
) -> list[StepRecord]:
    """Make a record of each decision of the agent that was carried out or refused.

    Args:
        events: The events of the episode.
        seen: Its observations.
        exchanges: The exchanges with the model, in order.
        agent: The actor whose decisions are recorded.
    """
    decided = [event.data for event in events if event.type == "decision.made"]
    following = iter(exchanges)
    steps: list[StepRecord] = []
    last = len(seen.shown) - 1
    places = [place for place, data in enumerate(decided) if data["actor"] == agent and place < last]
    for place, until in pairwise([*places, last]):
        data, before, after = decided[place], seen.shown[place], seen.shown[place + 1 : until + 1]
        asked = [next(following) for _ in data.get("exchanges") or ()]
        steps.append(_step(len(steps) + 1, data, before, after, asked[-1] if asked else Exchange("", None)))
    ended = events[-1].data
    if (penalty := ended.get("penalty")) is not None:  # the rewards add up to it
        rest = penalty - math.fsum(one.reward or 0.0 for one in steps)
        if (undecided := ended.get("undecided")) is None:
            steps[-1:] = [one.model_copy(update={"reward": (one.reward or 0.0) + rest}) for one in steps[-1:]]
        else:
            asked = [next(following) for _ in undecided["exchanges"]]
            seen_last = _summary(seen.shown[-1])
            steps.append(
                _answered(
                    len(steps) + 1, undecided, asked[-1], action={}, parsed_ok=False, source="model",
                    failure_class=ended["failure_class"], reward=rest, observation_summary=seen_last,
                    outcome_summary=seen_last,
                )
            )  # fmt: skip
    return steps


def _step(
    number: int, data: Mapping[str, Any], before: Observation, after: Sequence[Observation], asked: Exchange
) -> StepRecord:
    """Record a decision; ``after`` are the observations until the agent's next one, or the end."""
    own = data["source"] == "model"
    first, last = after[0], after[-1]
    refused = [] if first.refused is None else [first.refused.rule]
    return _answered(
        number,
        data,
        asked,
        action=data["action"],
        parsed_ok=own,
        source="model" if own else "fallback",
        failure_class=data.get("failure_class"),
        reward=math.fsum(one.reward for one in after),
        done=last.done,
        terminated=last.done,
        rule_violations=(*first.content.get("rule_violations", ()), *refused),
        observation_summary=_summary(before),
        outcome_summary=_summary(last),
    )


def _answered(number: int, data: Mapping[str, Any], asked: Exchange, **stated: Any) -> StepRecord:
    """Make a step with the model's prompt and completion."""
    written = asked.written
    return StepRecord(
        step=number,
        prompt=asked.prompt,
        completion="" if written is None else written.text,
        **stated,
        tokens_in=data.get("tokens_in"),
        tokens_out=data.get("tokens_out"),
        token_ids=None if written is None or written.token_ids is None else tuple(written.token_ids),
        logprobs=None if written is None or written.logprobs is None else tuple(written.logprobs),
        latency_s=data.get("latency_s"),
    )


def _summary(observation: Observation) -> dict[str, Any]:
    return {name: observation.content[name] for name in SUMMARY_KEYS if name in observation.content}


def record_of(
    events: Sequence[Event], steps: Sequence[StepRecord], seen: Seen, *, began: str, model: str, config: Any
) -> EpisodeRecord:
    """Make the record of an episode that has ended.

    Args:
        seen: Its observations.
        began: When it began, ISO 8601.
        model: The model's name.
        config: The model's config; its plain JSON values are recorded.
    """
    started, ended = events[0], events[-1].data
    options = started.data["options"]
    verdict, truncated = reward_of_end(ended) is not None, bool(ended["truncated"])
    state = seen.state if verdict else {}
    if steps and truncated and not steps[-1].done:
        steps = [*steps[:-1], steps[-1].model_copy(update={"truncated": True})]
    if not verdict:
        steps = [one.model_copy(update={"reward": None}) for one in steps]
    own = OwnCount.of(events)
    return EpisodeRecord(
        episode_id=started.episode_id,
        environment=started.data["environment"],
        environment_version=started.data["environment_version"],
        seed=started.data["seed"],
        scenario=options.get("scenario"),
        difficulty=options.get("difficulty"),
        model=model,
        end_reason=ended["reason"],
        failure_class=failure_of_end(ended),
        terminated=bool(ended["terminated"]),
        truncated=truncated,
        total_reward=_earned(steps) if verdict else None,
        model_reward=_earned(steps, "model") if verdict else None,
        fallback_reward=_earned(steps, "fallback") if verdict else None,
        own_share=own.share,
        refusals=own.refused,
        penalised=ended.get("penalty") is not None,
        **{name: state.get(name) for name in GRADES},
        sampling=sampling_of(config),
        spectator_version=__version__,
        started_at=began,
        steps=tuple(steps),
    )


def _earned(steps: Sequence[StepRecord], source: Source | None = None) -> float:
    """Sum the rewards of all steps, or of those by one source."""
    return sum(one.reward or 0.0 for one in steps if source in (None, one.source))


def sampling_of(config: Any) -> dict[str, Any]:
    """Return the plain values of a config by name: numbers, strings, booleans and lists of them.

    >>> sampling_of({"temperature": 0.7, "stop": ["."], "device": object()})
    {'temperature': 0.7, 'stop': ['.']}
    """
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        config = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    elif not isinstance(config, Mapping):
        config = getattr(config, "__dict__", {})
    return {name: value for name, value in config.items() if isinstance(name, str) and _plain(value)}


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)
