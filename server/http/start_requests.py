"""Requests to start or fork an episode, and the models that visitors bring.

A body is validated as a whole and converted to the library's plan.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SecretStr, ValidationError
from starlette.requests import Request

from spectator.catalog import LoadWorld
from spectator.core_events import FailedDecisions, OnFailure, View
from spectator.environments.world import MAX_SEED, World
from spectator.episodes.controls import Pace
from spectator.episodes.fork import ForkRequest
from spectator.episodes.plan import EpisodePlan, EpisodeRequest
from spectator.errors import ConfigurationError, FieldError, InvalidRequest
from spectator.llm.endpoints import ApiKey, is_public_address
from spectator.policies.captains import ModelCaptain
from spectator.policies.visitor_models import HUB, OWN, OWN_WORDS, VisitorKey, VisitorModel, VisitorModelBuild
from spectator.text import clean_text

from ..security.bodies import Body, read_fields, unknown_field
from ..services import Services

MOST_NAME: Final = 200
"""Most characters of a preset's name, which may contain a model's name."""

HUB_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9._-]{1,96}(:[a-z0-9-]{1,32})?")
ANY_MODEL: Final = r"^[!-~]{1,120}$"

ANSWER_TOKENS: Final = 2048
TIMEOUT_S: Final = 90.0

SIGN_IN: Final = "needs a sign-in with Hugging Face: use the button on the start form"
EXPIRED: Final = (
    "needs a sign-in: yours with Hugging Face has expired, or is on another server; sign in again"
)


class OwnEndpoint(Body):
    """A visitor's own endpoint that decides for one seat of one match."""

    base_url: str = Field(default="", max_length=500, description="Its URL without `/chat/completions`")
    model: str = Field(default="", max_length=120, description="The endpoint's name of the model")
    api_key: SecretStr | None = Field(
        default=None,
        max_length=4096,
        description="Its API key, if needed; kept in memory for this match, never recorded",
        json_schema_extra={"writeOnly": True},
    )
    style: Literal["tools", "json", "xml"] = Field(
        default="json", description="How the model states its action"
    )


@dataclass(frozen=True, slots=True)
class WantedSeat:
    """One seat in a request."""

    field: str
    preset: str | None
    endpoint_field: str = ""
    endpoint: OwnEndpoint | None = None


class VisitorModels:
    """Resolves the models that the sender of a request brings."""

    def __init__(self, request: Request, services: Services) -> None:
        self._request = request
        self._services = services

    async def load(self, seats: Sequence[WantedSeat]) -> tuple[LoadWorld, list[str | None]]:
        """Return a loader of worlds with these models, and the preset names of ``seats``.

        Raises:
            InvalidRequest: Names every field with a model that is not available.
        """
        wrong: list[FieldError] = []
        lent = []
        for seat in seats:
            try:
                lent.append(await self._lent(seat))
            except InvalidRequest as error:
                wrong += error.fields
        if wrong:
            raise InvalidRequest(wrong)
        names = [seat.preset if one is None else one.name for seat, one in zip(seats, lent, strict=True)]
        return self._services.cast.lending(*lent), names

    async def _lent(self, seat: WantedSeat) -> VisitorModel | None:
        if seat.endpoint is not None:
            return self._at_endpoint(seat, seat.endpoint)
        name = seat.preset or ""
        if name.startswith(OWN):
            rule = "needs its endpoint again: URL and key are kept for one match only, never recorded"
            raise _wrong(seat.field, rule)
        return await self._of_hub(seat.field, name) if name.startswith(HUB) else None

    async def _of_hub(self, field: str, name: str) -> VisitorModel:
        services, model = self._services, name.removeprefix(HUB)
        if services.sign_in is None:
            raise _wrong(field, "this server offers no sign-in with Hugging Face, see docs/sign-in.md")
        session = services.visitor_sessions.of(self._request)
        if session is None or session.lent is None or not session.lent.usable:
            raise _wrong(field, EXPIRED if services.visitor_sessions.cookie_of(self._request) else SIGN_IN)
        if not HUB_MODEL.fullmatch(model):
            raise _wrong(field, f"must be {HUB}OWNER/MODEL, such as {HUB}google/gemma-3-27b-it")
        listed = await services.router_models.model(model)
        captain = ModelCaptain(
            label=clean_text(model, 80),
            summary="Asked through Hugging Face, with the starter's own sign-in.",
            provider="huggingface",
            base_url=services.settings.router_url,
            api_key_env=None,
            model=model,
            style="tools" if listed is not None and listed.tools else "json",
            max_tokens=ANSWER_TOKENS,
            timeout_s=TIMEOUT_S,
        )
        return VisitorModel(name, captain, session.lent)

    def _at_endpoint(self, seat: WantedSeat, endpoint: OwnEndpoint) -> VisitorModel:
        services, where = self._services, seat.endpoint_field
        if not services.settings.offers_own_endpoints:
            raise _wrong(where, "this server does not accept visitors' endpoints (SPECTATOR_OWN_ENDPOINTS)")
        if seat.preset is not None:
            raise _wrong(where, f"conflicts with {seat.field}, which names the same seat; send one of them")
        if not re.fullmatch(ANY_MODEL, endpoint.model):
            raise _wrong(f"{where}.model", "is required: the model's name, without spaces")
        public_only = not services.settings.asks_private_endpoints
        try:
            captain = ModelCaptain(
                label=clean_text(endpoint.model, 80),
                summary="Asked at the starter's own endpoint.",
                base_url=endpoint.base_url,
                model=endpoint.model,
                style=endpoint.style,
                max_tokens=ANSWER_TOKENS,
                timeout_s=TIMEOUT_S,
            )
        except ValidationError:
            rule = "must look like https://host/v1: without a password, a query or /chat/completions"
            raise _wrong(f"{where}.base_url", rule) from None
        if public_only and _is_private(endpoint.base_url):
            raise _wrong(
                f"{where}.base_url", "must be a public address: this server does not call private ones"
            )
        lent = VisitorKey(_key(endpoint, where), OWN_WORDS, clock=services.clock)
        return VisitorModel(f"{OWN}{endpoint.model}", captain, lent, public_only)


def brings_model(plan: EpisodePlan) -> bool:
    """Whether a seat uses a key that only this process has."""
    return any(isinstance(plan.preset(actor).build, VisitorModelBuild) for actor in plan.world.actors)


def _key(endpoint: OwnEndpoint, where: str) -> ApiKey | None:
    value = "" if endpoint.api_key is None else endpoint.api_key.get_secret_value().strip()
    try:
        return ApiKey(value) if value else None
    except ConfigurationError as error:
        raise _wrong(f"{where}.api_key", str(error)) from None


def _is_private(base_url: str) -> bool:
    """Whether the address itself is not public; names are checked again on connecting."""
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    try:
        return not is_public_address(host)
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal"))


def _wrong(field: str, rule: str) -> InvalidRequest:
    return InvalidRequest([FieldError(field, rule)])


DEFAULT_OVERS: Final = 5
"""Default length in worlds with the option ``max_overs``."""

MAX_WAIT_S: Final = 50
"""Longest wait of one request for a slot, in seconds; proxies time out after a minute."""

PaceName = Literal["broadcast", "fast", "max"]


WaitSeconds = Annotated[
    int,
    Field(
        ge=0,
        le=MAX_WAIT_S,
        description="Seconds to wait in the queue for a slot; 0 does not wait. Disconnecting leaves the "
        "queue",
    ),
]
TicketName = Annotated[
    str | None,
    Field(
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="`queue.ticket` of an earlier answer, to keep that place",
    ),
]


class StartEpisode(Body):
    """The body of ``POST /custom/start_episode``; all fields are optional."""

    environment: str | None = Field(
        default=None, min_length=1, max_length=64, description="World; the server's default if omitted"
    )
    captain_preset: str = Field(
        default="heuristic",
        min_length=1,
        max_length=MOST_NAME,
        description="Captain of the agent's seat; `hf:OWNER/MODEL` is called with your sign-in",
    )
    opponent_choice: str = Field(
        default="heuristic",
        min_length=1,
        max_length=MOST_NAME,
        description="Captain of the other seats, in worlds that have any; the same names",
    )
    captain_endpoint: OwnEndpoint | None = Field(
        default=None, description="Your own endpoint for the agent's seat, if allowed"
    )
    opponent_endpoint: OwnEndpoint | None = Field(
        default=None, description="The same for the other seats, in worlds that have any"
    )
    max_overs: int = Field(
        default=DEFAULT_OVERS,
        description="Short for the option of this name; a world without it accepts only the default",
    )
    eval_pack_id: str = Field(default="default", min_length=1, max_length=64, description="Evaluation pack")
    enable_tts: bool = Field(default=True, description="Whether the commentary is spoken")
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED, description="Seed; null draws and records one")
    pace: PaceName = Field(
        default="broadcast",
        description="`broadcast`: time to read each reason, 6 to 8 s per decision; `fast`: ten steps per "
        "second; `max`: no waiting",
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="The world's own options, see /custom/catalog"
    )
    on_failure: OnFailure = Field(
        default="fallback",
        description="What a failed decision does: its `fallback` decides, `suspend` leaves the episode "
        "unfinished, `end` ends it",
    )
    failed_decisions: FailedDecisions = Field(
        default="fallback",
        description="What counts if a captain did not decide: its `fallback` decides, a legal action is "
        "drawn at `random`, or the match is a `forfeit`",
    )
    waits_for_rest: bool = Field(
        default=False,
        description="Whether decisions of models wait, while they have time, for an endpoint that rests "
        "after failing; otherwise as in each captain's table",
    )
    view: View = Field(
        default="live",
        description="`live` records what viewers see; `derived` derives it for each viewer instead",
    )
    wait_s: WaitSeconds = 0
    ticket: TicketName = None


class ForkEpisode(Body):
    """The body of ``POST /custom/fork``; ``episode_id`` and ``seq`` are required."""

    model_config = ConfigDict(json_schema_extra={"required": ["episode_id", "seq"]})

    episode_id: str = Field(default="", max_length=64, description="The episode to continue from within")
    seq: int = Field(
        default=0,
        ge=0,
        le=MAX_SEED,
        description="The last event to keep: the last of a step, before the end of the game",
    )
    captain_preset: str | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_NAME,
        description="Captain of the agent's seat; unchanged if null",
    )
    opponent_choice: str | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_NAME,
        description="Captain of the other seats; unchanged if null",
    )
    pace: PaceName = Field(default="broadcast", description="Pace of the fork")
    seed: int | None = Field(
        default=None,
        ge=0,
        le=MAX_SEED,
        description="Seed of the captains, unchanged if null; the world keeps its own randomness",
    )
    wait_s: WaitSeconds = 0
    ticket: TicketName = None


def wanted_fork(sent: dict[str, Any]) -> tuple[ForkRequest, ForkEpisode]:
    """Parse a fork request; return it with its fields."""
    reading = read_fields(ForkEpisode, sent)
    wrong, fields = list(reading.wrong), reading.fields
    named = {field.field for field in wrong}
    if not fields.episode_id and "episode_id" not in named:
        wrong.append(FieldError("episode_id", "is required: the episode to continue from within"))
    if fields.seq < 1 and "seq" not in named:
        wrong.append(FieldError("seq", "is required: the last event to keep, 1 or more"))
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
    own: VisitorModels,
    plan: Callable[[EpisodeRequest, LoadWorld], EpisodePlan],
) -> tuple[EpisodePlan, StartEpisode]:
    """Parse a start request; return its plan and its fields."""
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
    """Copy ``max_overs`` to ``options`` if the world has it and no pack fixes it; whether it did."""
    explicit = "max_overs" in fields.model_fields_set
    if "max_overs" not in world.options_type.model_fields:
        if explicit and fields.max_overs != DEFAULT_OVERS:
            wrong.append(FieldError("max_overs", f"{world.name} has no such option; leave it out"))
        return False
    if "max_overs" in options:
        if explicit and options["max_overs"] != fields.max_overs:
            wrong.append(FieldError("max_overs", "contradicts options.max_overs; send one of them"))
        return False
    pack = world.packs.get(fields.eval_pack_id)
    if not explicit and pack is not None and "max_overs" in pack.options:
        return False
    options["max_overs"] = fields.max_overs
    return True


def _as_spelt(wrong: FieldError, world: World, shorthand: bool) -> FieldError:
    """Return an error under the request's field name, with a hint."""
    where, _, option = wrong.field.partition(".")
    if where != "options" or not option:
        return wrong
    if shorthand and option == "max_overs":
        return FieldError("max_overs", wrong.rule)
    if "." not in option and option not in world.options_type.model_fields:
        return FieldError(wrong.field, unknown_field(option, world.options_type))
    return wrong
