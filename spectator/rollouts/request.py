"""The request of a run of rollouts, and its manifest in the run's folder."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from spectator import __version__
from spectator.environments.world import SEALED_BIT, World, derive_seed
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodeRequest, plan_episode
from spectator.errors import RETRIED_FAILURES, FieldError, InvalidRequest
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.captains import ModelCaptain
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.policies.policy import Preset
from spectator.rollouts.environments import EnvironmentAddress
from spectator.runs.run_plan import FailurePolicy, Job, RunPlan

FORMAT: Final = 1
"""Version of the file that keeps a request."""

ACTOR: Final = "rollout"
"""Name of the preset that takes the agent's seat."""

ITSELF: Final = "self"
"""Name of the preset for the other seats that stands for the model itself."""

_NAMES: Final = {"opponent_choice": "opponent", "eval_pack_id": "pack"}
"""Fields of an episode's request, with their names in a run's request."""


class RolloutRequest(InvalidAnswers):
    """What a run of rollouts plays, and with which model.

    Requests that differ only in ``episodes``, in more ``attempts``, or in the model's endpoint and rates are
    the same run, so that a run can be extended, or resumed with another endpoint.
    """

    format: Literal[1] = FORMAT
    environment: str = Field(description="Name of the world, module:name, or an address")
    options: dict[str, Any] = Field(default_factory=dict, description="The world's options")
    opponent: str | None = Field(
        default=None, description="Preset in the other seats; `self`: the model, trained in every seat"
    )
    pack: str = Field(default="default", description="Evaluation pack, for its options and seeds")
    seed: int = Field(default=1, ge=0, description="Where the seeds of the tasks are made from")
    episodes: int = Field(ge=1, le=10_000_000, description="Episodes in all; a multiple of group_size")
    group_size: int = Field(
        default=1, ge=1, le=4096, description="Episodes of one task: same seed, same group"
    )
    max_turns: int | None = Field(
        default=None, ge=1, description="Actions after which an episode is truncated"
    )
    message_cut: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="Newest exchanges sent; 0 sends all since the conversation began",
    )
    attempts: int = Field(default=3, ge=1, le=100, description="Most attempts at an episode")
    token_in: bool = Field(
        default=False,
        description="Whether prompts are sent as token ids that contain the sampled tokens (vLLM)",
    )
    model: ModelCaptain = Field(description="The model, as in a captains file")

    @field_validator("environment")
    @classmethod
    def _scripted(cls, environment: str, before: ValidationInfo) -> str:
        if ":" in environment and before.data.get("on_invalid") == "fallback":
            raise ValueError(
                "only a world of the catalogue has a scripted captain for --on-invalid fallback; "
                "use penalize, mask or end"
            )
        return environment

    @field_validator("group_size")
    @classmethod
    def _whole_groups(cls, group_size: int, before: ValidationInfo) -> int:
        episodes = before.data.get("episodes")
        if episodes is not None and episodes % group_size:
            fewer, more = (group_size * (episodes // group_size + extra) for extra in (0, 1))
            such = f"{fewer} or {more}" if fewer else str(more)
            raise ValueError(
                f"episodes ({episodes}) must be a multiple of group_size ({group_size}), such as {such}"
            )
        return group_size

    @model_validator(mode="after")
    def _tokens_fit(self) -> Self:
        model = self.model
        if not self.token_in:
            return self
        if not model.tokens:
            raise ValueError("token_in needs the tokens of each answer; set the model's tokens to true")
        if model.style == "tools":
            raise ValueError("token_in needs answers in text, as the endpoint reads no tools there; use json")
        if model.by_session:
            raise ValueError("token_in cannot be combined with by_session, which keeps the tokens itself")
        return self

    @property
    def failure_policy(self) -> FailurePolicy:
        """What happens after a failed episode."""
        return FailurePolicy(retry=RETRIED_FAILURES, attempts=self.attempts)

    def identity(self) -> Mapping[str, Any]:
        """Return what identifies the run, as JSON."""
        free = {
            "base_url",
            "by_session",
            "api_key_env",
            "timeout_s",
            "retries",
            "price_in",
            "price_out",
            "stream",
            "requests_per_minute",
            "tokens_per_minute",
            "concurrency",
            "waits_for_rest",
        }
        free |= {"label", "summary", "provider", "price_cached_in"}
        identity = self.model_dump(mode="json", exclude={"episodes": True, "attempts": True, "model": free})
        return {**identity, "environment": EnvironmentAddress.read(self.environment).name}

    def differences(self, other: RolloutRequest) -> str:
        """Say why ``other`` is another run; empty if it is the same."""
        then, now = _by_field(self.identity()), _by_field(other.identity())
        shown = [
            f"{name} {then.get(name)!r}, now {now[name]!r}" for name in now if then.get(name) != now[name]
        ]
        if other.attempts < self.attempts:  # surplus attempts would still count
            shown.append(f"attempts {self.attempts}, now {other.attempts}, which may be more but not fewer")
        return "; ".join(shown)


def _by_field(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten the model's fields into the others."""
    fields = {name: value for name, value in identity.items() if name != "model"}
    return fields | {f"model.{name}": value for name, value in identity["model"].items()}


@dataclass(frozen=True, slots=True)
class RolloutRun:
    """A request that was checked and can be played.

    Args:
        world: Its world, with the requested step cap.
    """

    request: RolloutRequest
    world: World
    run: RunPlan


def plan_rollouts(
    request: RolloutRequest, plain: World, seat: Preset, began_ms: int, run_id: str = "rollouts"
) -> RolloutRun:
    """Check ``request`` against the world that it plays.

    Args:
        plain: The world, as :meth:`~spectator.rollouts.environments.EnvironmentAddress.world` finds it.
        seat: Who takes the agent's seat, under the name :data:`ACTOR`.
        began_ms: When the run began, Unix time in milliseconds.

    Raises:
        InvalidRequest: Names every wrong field.
    """
    cap = request.max_turns
    world = replace(
        plain,
        captains={**plain.captains, ACTOR: seat},
        opponents=_opponents(plain, seat),
        step_cap=plain.step_cap if cap is None else lambda options: min(cap, plain.step_cap(options)),
    )
    asked = EpisodeRequest(
        world.name,
        captain=ACTOR,
        opponent=request.opponent,
        pack=request.pack,
        pace=Pace.MAX,
        narration=False,
        options=request.options,
        on_failure="fallback" if request.on_invalid == "fallback" else "end",
        view="derived",
    )
    try:
        first = plan_episode(asked, draw_seed=lambda: 0, load=lambda _: world)
    except InvalidRequest as error:
        wrong = (FieldError(_NAMES.get(one.field, one.field), one.rule) for one in error.fields)
        raise InvalidRequest(wrong) from error
    if first.opponent is not None and first.opponent.name == ACTOR and world.rival_reward is None:
        rule = (
            f"{world.name} does not say what the other seat earns; choose another, or add World.rival_reward"
        )
        raise InvalidRequest([FieldError("opponent", rule)])
    one = Job.of(first)
    seeds = first.pack.seeds
    jobs = []
    for number in range(request.episodes):
        task, member = divmod(number, request.group_size)
        seed = seeds[task % len(seeds)] if seeds else derive_seed(request.seed, "rollouts", task) % SEALED_BIT
        jobs.append(replace(one, seed=seed, group=f"g-{task:06d}", member=member))
    return RolloutRun(request, world, RunPlan(jobs, began_ms, run_id, request.failure_policy))


def _opponents(plain: World, seat: Preset) -> Mapping[str, Preset]:
    """The world's opponents, if it has any, and the model itself."""
    own = replace(seat, name=ITSELF, mirrors=True)
    return {ITSELF: own, **plain.opponents} if plain.opponents else {}


MANIFEST: Final = "rollouts.json"
JOURNAL: Final = "journal.db"


def keep_request(folder: Path, request: RolloutRequest, now_ms: int) -> int:
    """Write the manifest of a new ``folder``, or check that it is of the same run.

    Args:
        folder: The run's folder; created if missing.
        now_ms: Unix time in milliseconds.

    Returns:
        When the run began, Unix time in milliseconds.

    Raises:
        InvalidRequest: The folder holds something else, which the message names, or cannot be written.
    """
    path = folder / MANIFEST
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _kept(folder, path, request, now_ms)
    except (FileExistsError, NotADirectoryError) as error:
        raise _wrong(f"{folder} is not a folder") from error
    except OSError as error:
        raise _wrong(f"{folder} cannot be written: {error}") from error


def _kept(folder: Path, path: Path, request: RolloutRequest, now_ms: int) -> int:
    if not path.exists():
        if (folder / JOURNAL).exists():
            raise _wrong(f"{folder} holds a journal without a run; choose another folder")
        _write(path, request, now_ms)
        return now_ms
    kept, began_ms = read_request(folder)
    if shown := kept.differences(request):
        raise _wrong(f"{folder} holds another run ({shown}); choose another folder")
    if request.episodes < kept.episodes:
        rule = f"{folder} holds a run of {kept.episodes} episodes, which can be extended but not shortened"
        raise InvalidRequest([FieldError("episodes", rule)])
    return began_ms


def keep_changes(folder: Path, request: RolloutRequest) -> None:
    """Update the manifest in ``folder`` with permitted changes, such as more episodes.

    Args:
        folder: Where :func:`keep_request` found the same run; its journal must be open in this process.

    Raises:
        InvalidRequest: It cannot be written.
    """
    kept, began_ms = read_request(folder)
    longer = request.model_copy(update={"episodes": max(request.episodes, kept.episodes)})
    if longer != kept:
        try:
            _write(folder / MANIFEST, longer, began_ms)
        except OSError as error:
            raise _wrong(f"{folder} cannot be written: {error}") from error


@asynccontextmanager
async def open_record(folder: Path) -> AsyncIterator[tuple[RolloutRequest, SqlJournal]]:
    """Open the request and the journal of the run in ``folder`` for reading; safe while it runs.

    Raises:
        InvalidRequest: There is no run, or it is of another version.
        JournalError: Its journal cannot be read.
    """
    request, _ = read_request(folder)
    journal = await SqlJournal.open(f"sqlite:///{folder / JOURNAL}", writable=False)
    try:
        yield request, journal
    finally:
        await journal.aclose()


def read_request(folder: Path) -> tuple[RolloutRequest, int]:
    """Read the request in ``folder``, and when the run began, Unix time in milliseconds.

    Raises:
        InvalidRequest: There is no run, or it is of another version.
    """
    path = folder / MANIFEST
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _wrong(f"{folder} does not hold a run of rollouts") from None
    except (OSError, ValueError) as error:
        raise _wrong(f"{path} cannot be read: {error}") from error
    if not isinstance(kept, dict) or not isinstance(kept.get("request"), dict):
        raise _wrong(f"{path} does not describe a run of rollouts")
    version: Any = kept["request"].get("format")
    if version != FORMAT:
        raise _wrong(f"{path} is of version {version!r}; this program reads {FORMAT}")
    try:
        return RolloutRequest.model_validate(kept["request"]), int(kept["began_ms"])
    except (ValidationError, KeyError, ValueError, TypeError) as error:
        raise _wrong(f"{path} does not describe a run of rollouts: {error}") from error


def _write(path: Path, request: RolloutRequest, began_ms: int) -> None:
    kept = {
        "request": request.model_dump(mode="json"),
        "began_ms": began_ms,
        "spectator_version": __version__,
    }
    half = path.with_name(path.name + ".part")
    half.write_text(json.dumps(kept, indent=2), encoding="utf-8")
    os.replace(half, path)


def _wrong(rule: str) -> InvalidRequest:
    return InvalidRequest([FieldError("out", rule)])
