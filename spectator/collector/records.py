"""The record of a collected episode: what was asked, answered, done and earned, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spectator.errors import FailureClass

Finite = Annotated[float, Field(allow_inf_nan=False)]
Source = Literal["model", "fallback"]


class StepRecord(BaseModel):
    """One decision and what came of it.

    Args:
        step: Number of the step, from 1.
        prompt: What the model was shown, whole.
        completion: What it wrote, whole.
        action: The action that was carried out or refused.
        parsed_ok: Whether the action is the model's; otherwise a safe default stood in for it.
        source: ``model``, or ``fallback`` where the default stood in.
        failure_class: Why the default stood in.
        reward: What was earned until the agent's next step, whoever acted in between; ``None`` where there
            is no verdict. It belongs to ``source``: what a fallback earned is never the completion's.
        done: Whether the episode was over before the agent's next step.
        terminated: Whether the world came to its end with it.
        truncated: Whether it was cut short after it.
        rule_violations: Codes of the rules that the action broke.
        observation_summary: What was seen before the action.
        outcome_summary: What was seen next, or last.
        tokens_in: Tokens of the prompt, where counted.
        tokens_out: Tokens of the completion, where counted.
        token_ids: Ids of the completion's tokens as the engine gave them.
        logprobs: Their log probabilities, same length.
        latency_s: How long the answer took, seconds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: Annotated[int, Field(ge=1)]
    prompt: str
    completion: str
    action: Mapping[str, Any]
    parsed_ok: bool
    source: Source
    failure_class: FailureClass | None = None
    reward: Finite | None
    done: bool = False
    terminated: bool = False
    truncated: bool = False
    rule_violations: tuple[str, ...] = ()
    observation_summary: Mapping[str, Any] = Field(default_factory=dict)
    outcome_summary: Mapping[str, Any] = Field(default_factory=dict)
    tokens_in: int | None = None
    tokens_out: int | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[Finite, ...] | None = None
    latency_s: Finite | None = None

    @model_validator(mode="after")
    def _agree(self) -> StepRecord:
        if self.terminated and self.truncated:
            raise ValueError("terminated and truncated are never both true")
        if (
            self.token_ids is not None
            and self.logprobs is not None
            and len(self.token_ids) != len(self.logprobs)
        ):
            raise ValueError(f"logprobs: {len(self.logprobs)} for {len(self.token_ids)} token_ids")
        return self


class EpisodeRecord(BaseModel):
    """A collected episode.

    The hidden truth is not in it: :func:`spectator.collector.jsonl.save_truths_jsonl` keeps it in a file of
    its own, so that a record can be shown and trained on without giving the answer away.

    Args:
        episode_id: Its id; the events are in the journal under it, where one was given.
        environment: Name of the world.
        environment_version: Its version.
        seed: Its seed.
        scenario: Scenario that was played.
        difficulty: Tier of difficulty.
        model: Name of the model, where known.
        sampling: Sampling parameters, as they were given.
        end_reason: ``finished``, ``step_cap``, ``policy_error``, ``environment_error``, ``timeout``, ...
        failure_class: Why there is no verdict, where there is none.
        terminated: Whether the world came to its own end.
        truncated: Whether it was cut short.
        total_reward: Sum of the steps' rewards; ``None`` where there is no verdict.
        model_reward: The part of it that the model earned itself.
        fallback_reward: The part that safe defaults earned in its place.
        cumulative_reward: The environment's own total, where it has one.
        terminal_reward: What the end alone earned, where the environment says so.
        discovered: Whether something was discovered; ``None`` until it is graded.
        correct_mass: Whether its mass was right.
        correct_channel: Whether its channel was right.
        correct_spin: Whether its spin was right.
        spectator_version: Version of this library, and with it of rewards and prompts.
        started_at: ISO 8601, UTC.
        steps: The steps in order.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    episode_id: str
    environment: str
    environment_version: str
    seed: int
    scenario: str | None = None
    difficulty: str | None = None
    model: str | None = None
    sampling: Mapping[str, Any] = Field(default_factory=dict)
    end_reason: str
    failure_class: FailureClass | None = None
    terminated: bool
    truncated: bool
    total_reward: Finite | None
    model_reward: Finite | None = None
    fallback_reward: Finite | None = None
    cumulative_reward: Finite | None = None
    terminal_reward: Finite | None = None
    discovered: bool | None = None
    correct_mass: bool | None = None
    correct_channel: bool | None = None
    correct_spin: bool | None = None
    spectator_version: str | None = None
    started_at: str | None = None
    steps: tuple[StepRecord, ...] = ()

    @model_validator(mode="after")
    def _agree(self) -> EpisodeRecord:
        if self.terminated and self.truncated:
            raise ValueError("terminated and truncated are never both true")
        numbers = [step.step for step in self.steps]
        if numbers != list(range(1, len(numbers) + 1)):
            raise ValueError("steps: must be numbered 1, 2, 3, ... in order")
        return self
