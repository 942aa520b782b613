"""Check a request for an episode against the catalogue, and plan the episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeVar, get_args

from pydantic import ValidationError

from spectator import __version__
from spectator.catalog import LoadWorld, load_world, unknown_name
from spectator.environments.contract import OptionsModel
from spectator.environments.world import MAX_SEED, Pack, World, derive_seed
from spectator.episodes.controls import Pace
from spectator.errors import FieldError, InvalidRequest, field_errors
from spectator.events import EpisodeStarted, FailedDecisions, OnFailure, Parent, Seat, View
from spectator.observations import Profile
from spectator.policies.model_presets import longest_wait_s
from spectator.policies.policy import HasFallback, Policy, Preset, RandomFallback, RandomPolicy, WaitsForRest

_T = TypeVar("_T")

Commit = Literal["step", "overlapped", "batched"]
"""Whether a step is recorded before the next begins, before the next is told, or together with many others:
see ``EpisodePlan.commit``."""

SPARE_S: Final = 2.0
"""Seconds beyond a model's own limit, in which its fallback decides."""


@dataclass(frozen=True, slots=True)
class EpisodeRequest:
    """What somebody asks for.

    Args:
        environment: Name of the world.
        captain: Preset for the agent's seat; ``None`` for the world's default.
        opponent: Preset for the other seats; ``None`` for the world's default.
        pack: Evaluation pack.
        seed: 0 .. 2**53 - 1; ``None`` to have one drawn.
        pace: How fast it is played.
        narration: Whether speech is wanted.
        options: The world's options as sent; those left out take their defaults.
        on_failure: What a decision that failed does to it; see ``EpisodeStarted.on_failure``.
        view: Whether its view is recorded while it is played, or derived later; see ``EpisodeStarted.view``.
        failed_decisions: What counts where a captain did not decide; see ``EpisodeStarted.failed_decisions``.
        waits_for_rest: Whether every model waits for an endpoint that is left alone, whatever its table says.
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
    """A request that can be carried out: every name resolved, every default filled in.

    Args:
        world: The world.
        captain: Who takes the agent's seat.
        opponent: Who takes the other seats; ``None`` when there are none. Never one that mirrors.
        pack: The evaluation pack.
        seed: The episode's seed.
        pace: How fast it starts.
        narration: Whether speech is wanted.
        options: Complete options.
        parent: What it was forked from, if it was.
        on_failure: What a decision that failed does to it.
        run_id: The run that it is played for, if for one.
        group_id: Its group within the run: episodes of one task that are compared.
        attempt: Which attempt it is at its place in the run, from 1.
        view: Whether its view is recorded while it is played, or derived by whoever reads it later.
        failed_decisions: What counts where a captain did not decide.
        waits_for_rest: Whether decisions of models wait for an endpoint that is left alone after failing.
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
        """What a decision that failed does to the episode: it ends where that is a forfeit."""
        return "end" if self.failed_decisions == "forfeit" else self.on_failure

    @property
    def commit(self) -> Commit:
        """When a step counts as recorded: each by itself, or many together where nothing but time is lost.

        Steps that a death takes are played again, from seed and decisions. A model's decisions cost money and
        would come out otherwise: there each step is committed, while the next question is on its way. Viewers
        must not see what is not recorded: there it is committed before the next begins.
        """
        if self.view != "derived":
            return "step"
        paid = any(self.preset(actor).costs_money for actor in self.world.actors)
        return "overlapped" if paid else "batched"

    @property
    def profile(self) -> Profile:
        """When this episode is rewarded, and within which bounds."""
        return self.world.profile_of(self.options)

    @property
    def agent(self) -> str:
        """The actor whose seat the captain takes."""
        return self.world.actors[0]

    def preset(self, actor: str) -> Preset:
        """Who takes the seat of ``actor``."""
        if self.opponent is None or actor == self.agent:
            return self.captain
        return self.opponent

    @property
    def patience_s(self) -> float:
        """Seconds to wait for a decision where no operator sets them: for its slowest model."""
        return longest_wait_s((self.captain, self.opponent)) + SPARE_S

    def policy(self, actor: str) -> Policy:
        """A new policy for one actor, with a seed of its own."""
        build, seed = self.making(actor)
        return build(seed)

    def making(self, actor: str) -> tuple[Callable[[int], Policy], int]:
        """What makes the policy of one actor, with the episode's own fallback and patience, and its seed."""
        seed = self.seed if self.parent is None else self.parent.captains_seed
        build = self.preset(actor).build
        if self.waits_for_rest and isinstance(build, WaitsForRest):
            build = build.waiting_for_rest()
        if self.failed_decisions == "random" and isinstance(build, HasFallback):
            build = build.falling_back_to(partial(RandomFallback, random_captain(self.world)))
        return build, derive_seed(seed, "policy", actor)

    def started(self) -> EpisodeStarted:
        """The episode's first event."""
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
        request: What is asked for.
        draw_seed: Called once, when no seed was given.
        load: Finds the world; the catalogue's own when left out.

    Raises:
        InvalidRequest: Names every wrong field by its name in ``POST /custom/start_episode``.

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
        wrong.append(FieldError("seed", f"is none of the seeds of the pack {pack.name!r}; leave it out"))
    if (rule := failed_decisions_broken_by(request.failed_decisions, world)) is not None:
        wrong.append(FieldError("failed_decisions", rule))
    if request.failed_decisions == "forfeit" and request.on_failure == "suspend":
        wrong.append(FieldError("failed_decisions", "forfeit ends the episode, which on_failure suspends"))
    if wrong or captain is None or pack is None:
        raise InvalidRequest(wrong)
    seed = draw_seed() if request.seed is None else request.seed
    if request.seed is None and pack.seeds:
        seed = pack.seeds[seed % len(pack.seeds)]
    if opponent is not None and opponent.mirrors:
        opponent = captain
    return EpisodePlan(
        world,
        captain,
        opponent,
        pack,
        seed,
        request.pace,
        request.narration,
        options,
        on_failure=request.on_failure,
        view=request.view,
        failed_decisions=request.failed_decisions,
        waits_for_rest=request.waits_for_rest,
    )


def random_captain(world: World) -> Callable[[int], Policy]:
    """Who draws a legal action at random: the world's own `random`, or one who leaves arguments out."""
    known = world.captains.get("random")
    return RandomPolicy if known is None else known.build


def failed_decisions_broken_by(asked: FailedDecisions, world: World) -> str | None:
    """The rule that ``failed_decisions`` breaks in ``world``, in words; ``None`` when it breaks none."""
    if asked == "random" and "random" not in world.captains and world.profile.actions != "tools":
        return f"{world.name} has nobody who draws actions at random; choose fallback or forfeit"
    return None


def _choose_world(request: EpisodeRequest, load: LoadWorld) -> tuple[World, list[FieldError]]:
    """The world, and what is wrong whatever the world; without one, nothing else can be checked."""
    wrong = []
    if not (request.seed is None or (type(request.seed) is int and 0 <= request.seed <= MAX_SEED)):
        must = f"must be an integer from 0 to {MAX_SEED}, or null to have one drawn"
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
        wrong.append(
            FieldError("opponent_choice", f"{world.name} is played without an opponent; leave it out")
        )
    return None


def complete_options(
    options_type: type[OptionsModel],
    sent: Mapping[str, Any],
    usual: Mapping[str, Any],
    pack: Pack | None,
    wrong: list[FieldError],
) -> dict[str, Any]:
    """Every option of a world, defaults filled in; empty where one is wrong.

    Args:
        options_type: The world's.
        sent: The options that are asked for.
        usual: What those that are not sent are here, where that is not their default.
        pack: Fixes some of them.
        wrong: Takes every wrong one.
    """
    fixed = {} if pack is None else pack.options
    wrong.extend(
        FieldError(f"options.{name}", f"is fixed to {fixed[name]!r} by the pack {pack.name!r}; leave it out")
        for name, value in sent.items()
        if pack is not None and name in fixed and fixed[name] != value
    )
    try:
        return options_type.model_validate({**usual, **sent, **fixed}).model_dump(mode="json")
    except ValidationError as error:
        wrong.extend(field_errors(error.errors(), prefix=["options"]))
        return {}
