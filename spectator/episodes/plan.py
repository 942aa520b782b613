"""Check a request for an episode against the catalogue, and plan the episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeVar, get_args

from pydantic import ValidationError

from spectator import __version__
from spectator.catalog import LoadWorld, load_world, unknown_name
from spectator.core_events import EpisodeStarted, FailedDecisions, OnFailure, Parent, Seat, View
from spectator.environments.contract import OptionsModel
from spectator.environments.world import MAX_SEED, Pack, World, derive_seed
from spectator.episodes.controls import Pace
from spectator.errors import FieldError, InvalidRequest, field_errors
from spectator.observations import Profile
from spectator.policies.model_presets import longest_wait_s
from spectator.policies.policy import HasFallback, Policy, Preset, RandomFallback, RandomPolicy, WaitsForRest

_T = TypeVar("_T")

Commit = Literal["step", "overlapped", "batched"]
"""When a step is recorded: before the next begins, while the next is decided, or in a batch.

See ``EpisodePlan.commit``."""

SPARE_S: Final = 2.0
"""Seconds added to a model's own time limit, in which its fallback decides."""


@dataclass(frozen=True, slots=True)
class EpisodeRequest:
    """A request for an episode.

    Args:
        captain: Preset for the agent's seat; ``None`` for the world's default.
        opponent: Preset for the other seats; ``None`` for the world's default.
        seed: 0 .. 2**53 - 1; ``None`` to draw one.
        narration: Whether speech is requested.
        options: The world's options; omitted ones take their defaults.
        on_failure: What a failed decision does to it; see ``EpisodeStarted.on_failure``.
        view: Whether its view is recorded during play or derived later; see ``EpisodeStarted.view``.
        failed_decisions: What replaces a missing decision; see ``EpisodeStarted.failed_decisions``.
        waits_for_rest: Whether every model waits for a paused endpoint, even if its table says otherwise.
    """

    environment: str
    captain: str | None = None
    opponent: str | None = None
    pack: str = "default"
    seed: int | None = None
    pace: Pace = Pace.BROADCAST
    narration: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    on_failure: OnFailure = "fallback"
    view: View = "live"
    failed_decisions: FailedDecisions = "fallback"
    waits_for_rest: bool = False


@dataclass(frozen=True, slots=True)
class EpisodePlan:
    """A valid request: every name resolved, every default filled in.

    Args:
        opponent: Preset of the other seats; ``None`` if there are none. Never one that mirrors.
        seed: The episode's seed.
        narration: Whether speech is requested.
        parent: What it was forked from, if it is a fork.
        on_failure: What a failed decision does to it.
        run_id: The run that it belongs to, if any.
        group_id: Its group within the run: comparable episodes of one task.
        attempt: Number of the attempt at its place in the run, from 1.
        view: Whether its view is recorded during play or derived by readers.
        waits_for_rest: Whether models' decisions wait for an endpoint that is paused after failures.
    """

    world: World
    captain: Preset
    opponent: Preset | None
    pack: Pack
    seed: int
    pace: Pace
    narration: bool
    options: Mapping[str, Any]
    parent: Parent | None = None
    on_failure: OnFailure = "fallback"
    run_id: str | None = None
    group_id: str | None = None
    attempt: int | None = None
    view: View = "live"
    failed_decisions: FailedDecisions = "fallback"
    waits_for_rest: bool = False

    @property
    def on_failed_decision(self) -> OnFailure:
        """What a failed decision does to the episode; with forfeit, it ends."""
        return "end" if self.failed_decisions == "forfeit" else self.on_failure

    @property
    def samples_model(self) -> bool:
        """Whether it is an episode of a run in which a model has the agent's seat."""
        return self.run_id is not None and self.preset(self.agent).source == "model"

    @property
    def rivals(self) -> Sequence[str]:
        """The other seats, if the model of a run plays them too and the world says what they earn."""
        if not self.samples_model or self.world.rival_reward is None:
            return ()
        others = [actor for actor in self.world.actors if actor != self.agent]
        return [actor for actor in others if self.preset(actor).name == self.captain.name]

    @property
    def commit(self) -> Commit:
        """When a step is recorded.

        Steps lost in a crash are replayed from seed and decisions, so scripted episodes record in batches. A
        model's decisions cost money and would differ, so each step is recorded while the next is decided. A
        live view must not show unrecorded steps, so each is recorded before the next begins.
        """
        if self.view != "derived":
            return "step"
        paid = any(self.preset(actor).costs_money for actor in self.world.actors)
        return "overlapped" if paid else "batched"

    @property
    def profile(self) -> Profile:
        """The world's reward profile for these options."""
        return self.world.profile_of(self.options)

    @property
    def agent(self) -> str:
        """The actor whose seat the captain takes."""
        return self.world.actors[0]

    def preset(self, actor: str) -> Preset:
        """Return the preset of ``actor``'s seat."""
        if self.opponent is None or actor == self.agent:
            return self.captain
        return self.opponent

    @property
    def beats(self) -> Mapping[str, float]:
        """Beats by event type: the world's, or a third of them if a person plays and waits for each."""
        if not any(self.preset(actor).source == "human" for actor in self.world.actors):
            return self.world.beats
        return {kind: beats / 3.0 for kind, beats in self.world.beats.items()}

    @property
    def patience_s(self) -> float:
        """Default seconds to wait for a decision: enough for the slowest model."""
        return longest_wait_s((self.captain, self.opponent)) + SPARE_S

    def policy(self, actor: str) -> Policy:
        """Build a new policy for one actor, with its own seed."""
        build, seed = self.making(actor)
        return build(seed)

    def making(self, actor: str) -> tuple[Callable[[int], Policy], int]:
        """Return the function that builds one actor's policy for this episode, and its seed."""
        seed = self.seed if self.parent is None else self.parent.captains_seed
        build = self.preset(actor).build
        if self.waits_for_rest and isinstance(build, WaitsForRest):
            build = build.waiting_for_rest()
        if self.failed_decisions == "random" and isinstance(build, HasFallback):
            build = build.falling_back_to(partial(RandomFallback, random_captain(self.world)))
        return build, derive_seed(seed, "policy", actor)

    def started(self) -> EpisodeStarted:
        """Make the data of the episode's first event."""
        presets = {actor: self.preset(actor) for actor in self.world.actors}
        return EpisodeStarted(
            environment=self.world.name,
            environment_version=self.world.version,
            title=self.world.title_of_one.format_map(self.options) or self.world.title,
            options=dict(self.options),
            seed=self.seed,
            seats={
                actor: Seat(
                    policy=preset.name,
                    label=preset.label,
                    source=preset.source,
                    fingerprint=preset.fingerprint,
                )
                for actor, preset in presets.items()
            },
            agent=self.agent,
            pack=self.pack.name,
            pace=self.pace.value,
            narration=self.narration,
            spectator_version=__version__,
            parent=self.parent,
            on_failure=self.on_failure,
            failed_decisions=self.failed_decisions,
            waits_for_rest=self.waits_for_rest,
            run_id=self.run_id,
            group_id=self.group_id,
            attempt=self.attempt,
            profile=self.profile.recorded,
            view=self.view,
        )


def plan_episode(
    request: EpisodeRequest, *, draw_seed: Callable[[], int], load: LoadWorld | None = None
) -> EpisodePlan:
    """Check ``request`` against the catalogue.

    Args:
        draw_seed: Called once if the request has no seed.
        load: Finds the world; the catalogue if omitted.

    Raises:
        InvalidRequest: Names every invalid field, as in ``POST /custom/start_episode``.

    >>> plan = plan_episode(EpisodeRequest("counting", options={"turns": 3}), draw_seed=lambda: 7)
    >>> plan.captain.name, plan.seed, plan.options["turns"]
    ('heuristic', 7, 3)
    >>> plan_episode(EpisodeRequest("countng"), draw_seed=lambda: 7)
    Traceback (most recent call last):
        ...
    spectator.errors.InvalidRequest: environment: ...
    """
    world, wrong = _choose_world(request, load or load_world)
    captain = _choose("captain_preset", request.captain, world.default_captain, world.captains, wrong)
    opponent = _choose_opponent(request.opponent, world, wrong)
    pack = _choose("eval_pack_id", request.pack, "default", world.packs, wrong)
    usual = {} if request.pace is Pace.MAX else world.watched_options
    if opponent is not None:
        usual = {**usual, **world.opponent_options.get(opponent.name, {})}
    options = complete_options(world.options_type, request.options, usual, pack, wrong)
    for where, preset in (("captain_preset", captain), ("opponent_choice", opponent)):
        if preset is not None and preset.missing is not None:
            wrong.append(FieldError(where, f"{preset.name!r} is not available here: {preset.missing}"))
    if pack is not None and pack.seeds and request.seed is not None and request.seed not in pack.seeds:
        wrong.append(FieldError("seed", f"is not a seed of the pack {pack.name!r}; omit it"))
    if (rule := failed_decisions_broken_by(request.failed_decisions, world)) is not None:
        wrong.append(FieldError("failed_decisions", rule))
    if request.failed_decisions == "forfeit" and request.on_failure == "suspend":
        rule = "forfeit cannot be combined with on_failure suspend; use fallback or random"
        wrong.append(FieldError("failed_decisions", rule))
    if wrong or captain is None or pack is None:
        raise InvalidRequest(wrong)
    seed = draw_seed() if request.seed is None else request.seed
    if request.seed is None and pack.seeds:
        seed = pack.seeds[seed % len(pack.seeds)]
    if opponent is not None and opponent.mirrors:
        opponent = captain
    return EpisodePlan(
        world, captain, opponent, pack, seed, request.pace, request.narration, options,
        on_failure=request.on_failure, view=request.view, failed_decisions=request.failed_decisions,
        waits_for_rest=request.waits_for_rest,
    )  # fmt: skip


def random_captain(world: World) -> Callable[[int], Policy]:
    """Return the builder of the world's `random` captain, or of one that omits arguments."""
    known = world.captains.get("random")
    return RandomPolicy if known is None else known.build


def failed_decisions_broken_by(asked: FailedDecisions, world: World) -> str | None:
    """Say why ``failed_decisions`` is invalid for ``world``; ``None`` if it is valid."""
    if asked == "random" and "random" not in world.captains and world.profile.actions != "tools":
        return f"{world.name} has no random captain; use fallback or forfeit"
    return None


def _choose_world(request: EpisodeRequest, load: LoadWorld) -> tuple[World, list[FieldError]]:
    """Return the world and the errors independent of it; raises if there is no such world."""
    wrong = []
    if not (request.seed is None or (type(request.seed) is int and 0 <= request.seed <= MAX_SEED)):
        must = f"must be an integer from 0 to {MAX_SEED}, or null to draw one"
        wrong.append(FieldError("seed", must))
    for name, asked, known in (
        ("on_failure", request.on_failure, get_args(OnFailure)),
        ("view", request.view, get_args(View)),
        ("failed_decisions", request.failed_decisions, get_args(FailedDecisions)),
    ):
        if asked not in known:
            wrong.append(FieldError(name, f"must be {', '.join(known[:-1])} or {known[-1]}, not {asked!r}"))
    try:
        return load(request.environment), wrong
    except InvalidRequest as error:
        raise InvalidRequest([*error.fields, *wrong]) from error


def _choose(
    where: str, asked: str | None, usual: str, known: Mapping[str, _T], wrong: list[FieldError]
) -> _T | None:
    name = usual if asked is None else asked
    if name not in known:
        wrong.append(unknown_name(where, name, known))
    return known.get(name)


def _choose_opponent(name: str | None, world: World, wrong: list[FieldError]) -> Preset | None:
    if world.opponents:
        return _choose("opponent_choice", name, world.default_opponent, world.opponents, wrong)
    if name not in (None, world.default_opponent):
        wrong.append(FieldError("opponent_choice", f"{world.name} is played without an opponent; omit it"))
    return None


def complete_options(
    options_type: type[OptionsModel],
    sent: Mapping[str, Any],
    usual: Mapping[str, Any],
    pack: Pack | None,
    wrong: list[FieldError],
) -> dict[str, Any]:
    """Return every option of a world, including defaults; empty if one is invalid.

    Args:
        pack: The evaluation pack, which fixes some of them.
        wrong: The list to which errors are appended.
    """
    fixed = {} if pack is None else pack.options
    wrong.extend(
        FieldError(f"options.{name}", f"is fixed to {fixed[name]!r} by the pack {pack.name!r}; omit it")
        for name, value in sent.items()
        if pack is not None and name in fixed and fixed[name] != value
    )
    try:
        return options_type.model_validate({**usual, **sent, **fixed}).model_dump(mode="json")
    except ValidationError as error:
        wrong.extend(field_errors(error.errors(), prefix=["options"]))
        return {}
