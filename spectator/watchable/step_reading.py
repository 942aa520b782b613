"""What environments of other libraries return from ``reset`` and ``step``, read in one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple


class StepReading(NamedTuple):
    """What a step returned, in one form.

    Args:
        observation: The observation after the action.
        reward: The reward; of several agents, a mapping or a list; ``None`` if unknown.
        ended: Whether the episode ended by the rules.
        cut: Whether it was cut short.
    """

    observation: Any
    reward: Any
    ended: bool
    cut: bool


def step_of(answer: Any, env: Any = None) -> StepReading | None:
    """Read what ``step`` returned; ``None`` if it began an episode instead.

    Args:
        answer: What it returned, in one of the forms that this module knows.
        env: The environment, whose ``agents`` play on if it has several.

    Raises:
        ValueError: The form is not known.
    """
    if type(answer) is tuple and len(answer) == 5 and type(answer[2]) is bool and type(answer[3]) is bool:
        return StepReading(*answer[:4])
    if callable(last := getattr(answer, "last", None)) and hasattr(answer, "step_type"):
        if callable(first := getattr(answer, "first", None)) and first():
            return None
        over, discount = bool(last()), getattr(answer, "discount", None)
        cut = over and discount is not None and float(discount) > 0
        reward = getattr(answer, "reward", None)
        reward = getattr(answer, "rewards", None) if reward is None else reward
        return StepReading(first_observation(answer), reward, over and not cut, cut)
    if isinstance(answer, tuple) and len(answer) == 5:
        observation, reward, ended, cut, _ = answer
        if isinstance(ended, Mapping) or isinstance(cut, Mapping):
            if not (isinstance(ended, Mapping) and isinstance(cut, Mapping)):
                raise ValueError("terminated and truncated must both be mappings by agent, or both be flags")
            return StepReading(observation, reward, *ends_of(ended, cut, getattr(env, "agents", None)))
        return StepReading(observation, reward, bool(ended), bool(cut))
    if isinstance(answer, tuple) and len(answer) == 4:
        observation, reward, ended, info = answer
        if isinstance(ended, Mapping):
            return StepReading(
                observation, reward, any(ends_of(ended, {}, getattr(env, "agents", None))), False
            )
        cut = isinstance(info, Mapping) and bool(cut_in(info))
        return StepReading(observation, reward, bool(ended) and not cut, cut)
    if isinstance(answer, tuple) and len(answer) == 3:
        return StepReading(answer[0], answer[1], bool(answer[2]), False)
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], bool):
        return StepReading(answer[1], None, answer[0], False)
    if isinstance(answer, tuple) and not hasattr(answer, "_fields"):
        raise ValueError(f"step returned {len(answer)} values; known are observation, reward, done, info")
    find = answer.get if isinstance(answer, Mapping) else partial(getattr, answer)
    ended, cut = bool(find("done", False) or find("terminated", False)), bool(find("truncated", False))
    return StepReading(find("observation", answer), find("reward", None), ended, cut)


def cut_in(info: Mapping[str, Any]) -> Any:
    """Return what says whether an episode was cut short where a step has no value for it, as Gym or brax."""
    return info.get("TimeLimit.truncated", info.get("truncation", False))


def ends_of(ended: Mapping[Any, Any], cut: Mapping[Any, Any], agents: Any) -> tuple[bool, bool]:
    """Return whether an episode of several agents ended by the rules, and whether it was cut short.

    It is over when every agent is, also those of ``agents`` that have just come.
    """
    if "__all__" in ended or "__all__" in cut:
        return bool(ended.get("__all__")), bool(cut.get("__all__"))
    out = {agent for flags in (ended, cut) for agent, flag in flags.items() if flag}
    here = {*ended, *(agents if isinstance(agents, list | tuple | set) else ())}
    over = here <= out
    return over and any(map(bool, ended.values())), over


def first_observation(returned: Any) -> Any:
    """Return the observation in what ``reset`` returned: the first of a pair, or that of a ``TimeStep``."""
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], Mapping):
        return returned[0]
    for name in ("observation", "observations"):
        if getattr(returned, name, None) is not None:
            return getattr(returned, name)
    return returned


def part_of(batch: Any, index: int) -> Any:
    """Return one environment's part of a batch: a sequence, an array, or a mapping of those."""
    if isinstance(batch, Mapping):
        return {name: part_of(part, index) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return [part_of(part, index) for part in batch]
    if (isinstance(batch, Sequence) and not isinstance(batch, str)) or hasattr(batch, "shape"):
        return batch[index] if getattr(batch, "ndim", 1) else batch
    return batch
