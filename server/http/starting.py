"""Requests to start or fork an episode: read from a body, checked as a whole, turned into the library's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from spectator.catalog import LoadWorld
from spectator.environments.seeds import MAX_SEED
from spectator.environments.world import World
from spectator.episodes.replay.fork import ForkRequest
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.plan import EpisodePlan, EpisodeRequest
from spectator.errors import FieldError, InvalidRequest
from spectator.events import FailedDecisions, OnFailure, View

from ..security.bodies import Body, read_fields, unknown_field
from .own_models import MOST_NAME, OwnEndpoint, OwnModels, WantedSeat

DEFAULT_OVERS: Final = 5
"""Length when none is asked for, in worlds that have an option of the name ``max_overs``."""

MAX_WAIT_S: Final = 50
"""Longest that one request may wait for a slot: proxies give up after a minute."""

PaceName = Literal["broadcast", "fast", "max"]


WaitSeconds = Annotated[
    int,
    Field(
        ge=0,
        le=MAX_WAIT_S,
        description="Seconds to wait in the queue for a slot; 0 does not wait. Whoever goes away leaves it",
    ),
]
TicketName = Annotated[
    str | None,
    Field(
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="`queue.ticket` of an earlier answer, to keep the place that one had",
    ),
]


class StartEpisode(Body):
    """What ``POST /custom/start_episode`` takes; everything may be left out."""

    environment: str | None = Field(
        default=None, min_length=1, max_length=64, description="World; the server's default when left out"
    )
    captain_preset: str = Field(
        default="heuristic",
        min_length=1,
        max_length=MOST_NAME,
        description="Who takes the agent's seat; `hf:OWNER/MODEL` is asked with one's own sign-in",
    )
    opponent_choice: str = Field(
        default="heuristic",
        min_length=1,
        max_length=MOST_NAME,
        description="Who takes the other seats, in worlds that have any; likewise",
    )
    captain_endpoint: OwnEndpoint | None = Field(
        default=None, description="Endpoint of one's own that takes the agent's seat, where that is allowed"
    )
    opponent_endpoint: OwnEndpoint | None = Field(
        default=None, description="The same of the other seats, in worlds that have any"
    )
    max_overs: int = Field(
        default=DEFAULT_OVERS,
        description="Short for the option of this name; a world without it takes only the default",
    )
    eval_pack_id: str = Field(default="default", min_length=1, max_length=64, description="Evaluation pack")
    enable_tts: bool = Field(default=True, description="Whether the commentary is spoken")
    seed: int | None = Field(
        default=None, ge=0, le=MAX_SEED, description="Seed; null to have one drawn and recorded"
    )
    pace: PaceName = Field(
        default="broadcast",
        description="`broadcast`: time to read each reason, 6 to 8 s a decision; `fast`: ten steps a "
        "second; `max`: no waiting",
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="The world's own options, see /custom/catalog"
    )
    on_failure: OnFailure = Field(
        default="fallback",
        description="What a decision that failed does: its `fallback` decides, `suspend` leaves the episode "
        "without an end, `end` ends it",
    )
    failed_decisions: FailedDecisions = Field(
        default="fallback",
        description="What counts where a captain did not decide: its `fallback` decides, a legal action is "
        "drawn at `random`, or the match is a `forfeit`",
    )
    waits_for_rest: bool = Field(
        default=False,
        description="Whether decisions of models wait, while they have time, for an endpoint that is left "
        "alone after failing; else as each captain's table says",
    )
    view: View = Field(
        default="live",
        description="`live` records what viewers see; `derived` does not, and derives it for whoever comes",
    )
    wait_s: WaitSeconds = 0
    ticket: TicketName = None


class ForkEpisode(Body):
    """What ``POST /custom/fork`` takes; ``episode_id`` and ``seq`` are needed."""

    model_config = ConfigDict(json_schema_extra={"required": ["episode_id", "seq"]})

    episode_id: str = Field(default="", max_length=64, description="The episode to play on from within")
    seq: int = Field(
        default=0,
        ge=0,
        le=MAX_SEED,
        description="Its last event that is kept: the last of a step, before the end of the game",
    )
    captain_preset: str | None = Field(
        default=None, min_length=1, max_length=MOST_NAME, description="Who takes the agent's seat; as before"
    )
    opponent_choice: str | None = Field(
        default=None, min_length=1, max_length=MOST_NAME, description="Who takes the other seats; as before"
    )
    pace: PaceName = Field(default="broadcast", description="How fast to play on")
    seed: int | None = Field(
        default=None,
        ge=0,
        le=MAX_SEED,
        description="Seed of the captains, as before when null; the world keeps its own luck",
    )
    wait_s: WaitSeconds = 0
    ticket: TicketName = None


def wanted_fork(sent: dict[str, Any]) -> tuple[ForkRequest, ForkEpisode]:
    """What a body asks for, and its fields.

    Raises:
        InvalidRequest: Names every wrong field.
    """
    reading = read_fields(ForkEpisode, sent)
    wrong, fields = list(reading.wrong), reading.fields
    named = {field.field for field in wrong}
    if not fields.episode_id and "episode_id" not in named:
        wrong.append(FieldError("episode_id", "is needed: the episode to play on from within"))
    if fields.seq < 1 and "seq" not in named:
        wrong.append(FieldError("seq", "is needed: the last event to keep, 1 or more"))
    if wrong:
        raise InvalidRequest(wrong)
    request = ForkRequest(
        fields.episode_id,
        fields.seq,
        captain=fields.captain_preset,
        opponent=fields.opponent_choice,
        seed=fields.seed,
        pace=Pace(fields.pace),
    )
    return request, fields


async def wanted_episode(
    sent: dict[str, Any],
    default_environment: str,
    own: OwnModels,
    plan: Callable[[EpisodeRequest, LoadWorld], EpisodePlan],
) -> tuple[EpisodePlan, StartEpisode]:
    """The plan of the episode that a body asks for, and its fields.

    Args:
        sent: The body.
        default_environment: World when none is named.
        own: Finds the models that the sender brings.
        plan: Plans an episode.

    Raises:
        InvalidRequest: Names every wrong field.
    """
    reading = read_fields(StartEpisode, sent)
    wrong = list(reading.wrong)
    fields = reading.fields
    name = default_environment if fields.environment is None else fields.environment
    try:
        load, (captain, opponent) = await own.load(_seats(fields))
        world = await asyncio.to_thread(load, name)
    except InvalidRequest as error:
        raise InvalidRequest([*wrong, *error.fields]) from error
    options = dict(fields.options)
    if any(field.field == "environment" for field in wrong):
        raise InvalidRequest(wrong)
    shorthand = _spread_overs(world, fields, options, wrong)
    request = EpisodeRequest(
        environment=name,
        captain=captain or fields.captain_preset,
        opponent=opponent or fields.opponent_choice,
        pack=fields.eval_pack_id,
        seed=fields.seed,
        pace=Pace(fields.pace),
        narration=fields.enable_tts,
        options=options,
        on_failure=fields.on_failure,
        failed_decisions=fields.failed_decisions,
        waits_for_rest=fields.waits_for_rest,
        view=fields.view,
    )
    try:
        planned = plan(request, load)
    except InvalidRequest as error:
        raise InvalidRequest(
            [*wrong, *(_as_spelt(field, world, shorthand) for field in error.fields)]
        ) from error
    if wrong:
        raise InvalidRequest(wrong)
    return planned, fields


def _seats(fields: StartEpisode) -> tuple[WantedSeat, WantedSeat]:
    """What was sent on each seat."""
    sent = fields.model_fields_set
    captain = fields.captain_preset if "captain_preset" in sent else None
    opponent = fields.opponent_choice if "opponent_choice" in sent else None
    return (
        WantedSeat("captain_preset", captain, "captain_endpoint", fields.captain_endpoint),
        WantedSeat("opponent_choice", opponent, "opponent_endpoint", fields.opponent_endpoint),
    )


def _spread_overs(
    world: World, fields: StartEpisode, options: dict[str, Any], wrong: list[FieldError]
) -> bool:
    """Put ``max_overs`` into ``options`` where the world has it; whether it was put there."""
    explicit = "max_overs" in fields.model_fields_set
    if "max_overs" not in world.options_type.model_fields:
        if explicit and fields.max_overs != DEFAULT_OVERS:
            wrong.append(FieldError("max_overs", f"{world.name} has no such option; leave it out"))
        return False
    if "max_overs" in options:
        if explicit and options["max_overs"] != fields.max_overs:
            wrong.append(FieldError("max_overs", "contradicts options.max_overs; send one of them"))
        return False
    options["max_overs"] = fields.max_overs
    return True


def _as_spelt(wrong: FieldError, world: World, shorthand: bool) -> FieldError:
    """``wrong`` by the name that the request used, unknown options with the nearest one there is."""
    where, _, option = wrong.field.partition(".")
    if where != "options" or not option:
        return wrong
    if shorthand and option == "max_overs":
        return FieldError("max_overs", wrong.rule)
    if "." not in option and option not in world.options_type.model_fields:
        return FieldError(wrong.field, unknown_field(option, world.options_type))
    return wrong
