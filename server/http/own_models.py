"""Models that visitors bring to a match: asked with their sign-in, or at an endpoint that they name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError
from starlette.requests import Request

from spectator.catalog import LoadWorld
from spectator.episodes.run.plan import EpisodePlan
from spectator.errors import ConfigurationError, FieldError, InvalidRequest
from spectator.llm.address import is_public_address
from spectator.llm.secret import ApiKey
from spectator.policies.captain_table import ModelCaptain
from spectator.policies.lent_models import HUB, OWN, OWN_WORDS, LentBuild, LentKey, LentModel
from spectator.text import clean_text

from ..security.bodies import Body
from ..services import Services

MOST_NAME: Final = 200
"""Characters of a preset's name, which may hold that of a model."""

HUB_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9._-]{1,96}(:[a-z0-9-]{1,32})?")
ANY_MODEL: Final = r"^[!-~]{1,120}$"

ANSWER_TOKENS: Final = 2048
TIMEOUT_S: Final = 90.0

SIGN_IN: Final = "needs a sign-in with Hugging Face: use the button on the start form"
EXPIRED: Final = (
    "needs a sign-in: yours with Hugging Face has expired, or another server holds it; sign in again"
)


class OwnEndpoint(Body):
    """An endpoint of one's own that decides for one seat of one match."""

    base_url: str = Field(
        default="", max_length=500, description="Its address up to and without `/chat/completions`"
    )
    model: str = Field(default="", max_length=120, description="The model's name there")
    api_key: SecretStr | None = Field(
        default=None,
        max_length=4096,
        description="Its key, if it needs one; kept in memory for this match, and never recorded",
        json_schema_extra={"writeOnly": True},
    )
    style: Literal["tools", "json", "xml"] = Field(
        default="json", description="How the model is asked to act"
    )


@dataclass(frozen=True, slots=True)
class WantedSeat:
    """What a request says on one seat.

    Args:
        field: Its field for the preset.
        preset: The preset's name; ``None`` where it was left out.
        endpoint_field: Its field for an endpoint.
        endpoint: The endpoint, if one was named.
    """

    field: str
    preset: str | None
    endpoint_field: str = ""
    endpoint: OwnEndpoint | None = None


class OwnModels:
    """Finds the models that the sender of one request brings.

    Args:
        request: The request.
        services: Sign-ins and settings.
    """

    def __init__(self, request: Request, services: Services) -> None:
        self._request = request
        self._services = services

    async def load(self, seats: Sequence[WantedSeat]) -> tuple[LoadWorld, list[str | None]]:
        """Finds worlds with these models, and the names of the presets of ``seats``, the agent's first.

        Raises:
            InvalidRequest: Names every field that asks for a model which cannot be brought here.
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

    async def _lent(self, seat: WantedSeat) -> LentModel | None:
        if seat.endpoint is not None:
            return self._at_endpoint(seat, seat.endpoint)
        name = seat.preset or ""
        if name.startswith(OWN):
            rule = "needs its endpoint again: address and key are kept for one match only, never recorded"
            raise _wrong(seat.field, rule)
        return await self._of_hub(seat.field, name) if name.startswith(HUB) else None

    async def _of_hub(self, field: str, name: str) -> LentModel:
        services, model = self._services, name.removeprefix(HUB)
        if services.sign_in is None:
            raise _wrong(field, "this server offers no sign-in with Hugging Face, see docs/sign-in.md")
        session = services.visitors.of(self._request)
        if session is None or session.lent is None or not session.lent.usable:
            raise _wrong(field, EXPIRED if services.visitors.cookie_of(self._request) else SIGN_IN)
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
        return LentModel(name, captain, session.lent)

    def _at_endpoint(self, seat: WantedSeat, endpoint: OwnEndpoint) -> LentModel:
        services, where = self._services, seat.endpoint_field
        if not services.settings.offers_own_endpoints:
            raise _wrong(where, "this server takes no endpoints of visitors (SPECTATOR_OWN_ENDPOINTS)")
        if seat.preset is not None:
            raise _wrong(where, f"takes the seat that {seat.field} names; send one of them")
        if not re.fullmatch(ANY_MODEL, endpoint.model):
            raise _wrong(f"{where}.model", "is needed: the model's name, without spaces")
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
            raise _wrong(f"{where}.base_url", "must be a public address: this server asks no private ones")
        lent = LentKey(_key(endpoint, where), OWN_WORDS, clock=services.clock)
        return LentModel(f"{OWN}{endpoint.model}", captain, lent, public_only)


def brings_model(plan: EpisodePlan) -> bool:
    """Whether a seat is asked with a key that only this process has."""
    return any(isinstance(plan.preset(actor).build, LentBuild) for actor in plan.world.actors)


def _key(endpoint: OwnEndpoint, where: str) -> ApiKey | None:
    value = "" if endpoint.api_key is None else endpoint.api_key.get_secret_value().strip()
    try:
        return ApiKey(value) if value else None
    except ConfigurationError as error:
        raise _wrong(f"{where}.api_key", str(error)) from None


def _is_private(base_url: str) -> bool:
    """Whether the address itself says that it is not public; what names lead to is seen on connecting."""
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    try:
        return not is_public_address(host)
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal"))


def _wrong(field: str, rule: str) -> InvalidRequest:
    return InvalidRequest([FieldError(field, rule)])
