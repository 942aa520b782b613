"""The catalogue of language models that can take a seat: built-in ones and the user's own."""

from __future__ import annotations

import hashlib
import random
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from spectator.clock import Clock
from spectator.errors import ConfigurationError
from spectator.llm.address import check_base_url
from spectator.llm.breaker import Breaker
from spectator.llm.pacing import Pacing
from spectator.llm.presets import PROVIDERS, Form, Price
from spectator.llm.secret import ApiKey
from spectator.policies.base import Policy, Preset, ScriptedPolicy
from spectator.policies.captain_client import captain_client
from spectator.policies.captain_table_errors import name_of_a_variable, table_problems
from spectator.policies.model import ChatEndpoint, ModelPolicy
from spectator.policies.model_settings import ModelSettings
from spectator.policies.prompting import Briefing, Edition, Style

PREFIX: Final = "llm:"
"""What the names of these presets begin with, before the name of their table."""

NAME: Final = re.compile(r"[a-z0-9._-]{1,48}")
"""What the table of a captain may be called."""

_NEEDS: Final = ("aiohttp", "orjson")


ASKED_BY: Final = frozenset({
    "model", "style", "temperature", "max_tokens", "context_tokens", "actions_per_answer", "tool_choice",
    "send_seed", "extra", "prompt", "history_tokens",
})  # fmt: skip
"""Fields of a model captain on which its answers may depend, whatever its endpoint."""


class ModelCaptain(BaseModel):
    """One table ``[captains.NAME]`` of a catalogue file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    label: str = Field(min_length=1, max_length=80, description="Name shown to people")
    summary: str = Field(default="", max_length=300, description="A sentence on it")
    provider: str | None = Field(
        default=None, description="Fills in, by spectator.llm.presets, what the table does not say"
    )
    form: Form = Field(default="openai", description="How requests and answers are written")
    base_url: str = Field(description="Its endpoint, up to and without /chat/completions")
    by_session: bool = Field(
        default=False, description="Whether the endpoint keeps whole sessions, by name in the URL"
    )
    model: str = Field(min_length=1, max_length=200, description="Its name at its endpoint")
    api_key_env: Annotated[str, AfterValidator(name_of_a_variable)] | None = Field(
        default=None, description="Name of the variable that holds the key"
    )
    style: Style = Field(default="tools", description="How it is asked to act")
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Left to the endpoint when left out"
    )
    max_tokens: int = Field(default=1024, ge=16, le=131_072, description="Longest answer, thoughts included")
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = Field(
        default="max_tokens", description="Field that carries it; the newer models of OpenAI want the second"
    )
    timeout_s: float = Field(default=60.0, ge=1, le=900, description="Longest time for a decision")
    context_tokens: int = Field(
        default=16_384, ge=1024, description="Tokens of prompt and answer; older turns are left out beyond it"
    )
    actions_per_answer: int = Field(
        default=1, ge=1, le=32, description="Actions that it may plan in one answer"
    )
    tool_choice: Literal["auto", "required"] | None = Field(default=None, description="For the style `tools`")
    stream: bool = Field(default=True, description="Whether its thoughts are shown while they form")
    send_seed: bool = Field(default=True, description="Whether the endpoint takes a seed")
    tokens: bool = Field(
        default=False, description="Whether token ids and log probabilities are asked for, and recorded"
    )
    send_back: bool = Field(
        default=True, description="Whether unknown members of its messages are sent back, as they came"
    )
    retries: int = Field(
        default=2,
        ge=0,
        le=20,
        description="Times that a failed request is sent again; unless 0, 429 is waited out",
    )
    requests_per_minute: int | None = Field(
        default=None, ge=1, description="Most requests in a minute, of all its episodes in this process"
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="Most tokens in a minute, of all its episodes in this process"
    )
    concurrency: int | None = Field(
        default=None, ge=1, le=1024, description="Most requests at once; found out when left out"
    )
    waits_for_rest: bool = Field(
        default=False, description="Whether decisions wait for an endpoint that is left alone after failing"
    )
    price_in: float = Field(default=0.0, ge=0, description="Price of a million prompt tokens")
    price_out: float = Field(default=0.0, ge=0, description="Price of a million answer tokens")
    price_cached_in: float | None = Field(
        default=None, ge=0, description="Price of a million prompt tokens that the endpoint had at hand"
    )
    prompt: Edition = Field(default=2, description="Edition of the prompt")
    history_tokens: int = Field(
        default=2_000,
        ge=256,
        description="Tokens of past turns after which the conversation begins anew, in edition 2",
    )
    extra: dict[str, Any] = Field(default_factory=dict, description="Further fields of the request")

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, table: Any) -> Any:
        if not isinstance(table, dict) or table.get("provider") is None:
            return table
        provider = PROVIDERS.get(str(table["provider"]))
        if provider is None:
            raise ValueError(f"provider: there are {', '.join(PROVIDERS)}")
        return {
            "form": provider.form,
            "base_url": provider.base_url,
            "api_key_env": provider.key_env,
            "max_tokens_field": provider.max_tokens_field,
            "stream": provider.stream,
            "send_seed": provider.send_seed,
            **table,
        }

    @property
    def fingerprint(self) -> str:
        """A digest of all on which its answers may depend: endpoint, model, style and sampling."""
        asked = self.model_dump_json(include={"base_url", "form", *ASKED_BY})
        return hashlib.sha256(asked.encode()).hexdigest()[:16]

    @field_validator("base_url")
    @classmethod
    def _usable_url(cls, base_url: str) -> str:
        try:
            return check_base_url(base_url)
        except ConfigurationError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.context_tokens <= self.max_tokens:
            raise ValueError(
                f"context_tokens ({self.context_tokens}) is for prompt and answer together, and must be more "
                f"than max_tokens ({self.max_tokens})"
            )
        if self.form != "openai" and (self.tokens or self.by_session):
            raise ValueError(f"tokens and by_session are for the form 'openai', not {self.form!r}")
        if self.tool_choice is not None and self.style != "tools":
            raise ValueError(f"tool_choice is for the style 'tools', not {self.style!r}; leave it out")
        return self

    @field_validator("extra")
    @classmethod
    def _no_override(cls, extra: dict[str, Any]) -> dict[str, Any]:
        owned = {
            "model",
            "messages",
            "tools",
            "stream",
            "seed",
            "temperature",
            "max_tokens",
            "max_completion_tokens",
        }
        if taken := sorted(owned & extra.keys()):
            raise ValueError(f"{', '.join(taken)} cannot be set here")
        return extra

    @property
    def price(self) -> Price | None:
        """What its tokens cost: by the table, else as its provider published; ``None`` where neither says."""
        if self.price_in or self.price_out:
            return Price(input=self.price_in, cached_input=self.price_cached_in, output=self.price_out)
        provider = PROVIDERS.get(self.provider or "")
        if provider is None or self.base_url.rstrip("/") != provider.base_url:
            return None
        return provider.price_of(self.model)

    def settings(self) -> ModelSettings:
        """How the policy asks it."""
        fields = ModelSettings.__dataclass_fields__
        return ModelSettings(**{name: getattr(self, name) for name in fields})


def load_captains(user_file: Path | None = None) -> dict[str, ModelCaptain]:
    """The catalogue by preset name, in the order of the files; the user's tables replace built-in ones.

    Args:
        user_file: The user's own TOML file; ``None`` when there is none.

    Raises:
        ConfigurationError: A file cannot be read, or a table is wrong; every wrong field is named.
    """
    built_in = files("spectator.policies").joinpath("captains.toml").read_text(encoding="utf-8")
    captains = parse_captains(built_in, "captains.toml")
    if user_file is not None:
        captains |= parse_captains(read_user_file(user_file), str(user_file))
    return captains


def read_user_file(user_file: Path) -> str:
    """The text of the user's file.

    Raises:
        ConfigurationError: It cannot be read.
    """
    try:
        return user_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the captains file {user_file} cannot be read: {error}") from error


def parse_captains(text: str, name: str) -> dict[str, ModelCaptain]:
    """The captains in ``text``, the TOML of the file called ``name``; see :func:`load_captains`.

    Tables that name a cache are :mod:`spectator.policies.cached_captains`' own.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{name} is not TOML: {error}") from error
    tables = document.pop("captains", {})
    problems = [f"{name}: {key}: only tables [captains.NAME] are known" for key in document]
    if not isinstance(tables, dict):
        raise ConfigurationError(f"{name}: captains: must be tables [captains.NAME]")
    captains: dict[str, ModelCaptain] = {}
    for key, table in tables.items():
        if not NAME.fullmatch(key):
            problems.append(f"{name}: captains.{key}: a name has 1 to 48 of the characters a-z 0-9 . _ -")
            continue
        if isinstance(table, dict) and "cache" in table:
            continue
        try:
            captains[PREFIX + key] = ModelCaptain.model_validate(table)
        except ValidationError as error:
            problems += table_problems(name, key, error, ModelCaptain)
    if problems:
        raise ConfigurationError("; ".join(problems))
    return captains


@dataclass(frozen=True, slots=True)
class ModelSeat:
    """What a world brings to a model that takes one of its seats.

    Args:
        briefing: What the model must know.
        fallback: Makes, from a seed, the policy that decides where the model does not; it must be a
            :class:`ScriptedPolicy`, because nobody waits for it.
    """

    briefing: Briefing
    fallback: Callable[[int], Policy]


def model_presets(
    captains: Mapping[str, ModelCaptain],
    seat: ModelSeat,
    *,
    variables: Mapping[str, str],
    clock: Clock,
    rng: random.Random,
    breakers: dict[str, Breaker] | None = None,
    pacings: dict[str, Pacing] | None = None,
) -> dict[str, Preset]:
    """The captains as presets that can be chosen for ``seat``; each says what it lacks here.

    Keys are looked up when a policy is built, and stay inside its client.

    Args:
        captains: The catalogue.
        seat: The seat.
        variables: Where keys are found by their variables' names.
        clock: Time.
        rng: Draws waits and the names of sessions; not seeded, so that no two clients wait alike and no
            session is ever used twice. What a model is asked depends on the episode's seed alone.
        breakers: Filled with one for each captain; shared by all seats that are given the same, so that not
            each of them asks a dead endpoint anew.
        pacings: Filled with one for each captain; shared likewise, so that all of them keep to its limits.
    """
    lacking = _lacking(find_spec)
    shared = {} if breakers is None else breakers
    paced = {} if pacings is None else pacings
    for name, captain in captains.items():
        paced.setdefault(name, _pacing(captain, clock))
        shared.setdefault(name, Breaker(clock))
    return {
        name: Preset(
            name=name,
            label=captain.label,
            summary=captain.summary or f"{captain.model}, asked by {captain.style}.",
            source="model",
            build=ModelBuild(captain, seat, variables, clock, rng, shared[name], paced[name]),
            missing=_missing(captain, variables, lacking),
            costs_money=True,
            fingerprint=captain.fingerprint,
        )
        for name, captain in captains.items()
    }


def _pacing(captain: ModelCaptain, clock: Clock) -> Pacing:
    return Pacing(
        clock,
        requests_per_minute=captain.requests_per_minute,
        tokens_per_minute=captain.tokens_per_minute,
        concurrency=captain.concurrency,
    )


def longest_wait_s(presets: Iterable[Preset | None]) -> float:
    """Seconds that the slowest model among ``presets`` may take for a decision; 0 where there is none."""
    builds = (preset.build for preset in presets if preset is not None)
    return max((build.captain.timeout_s for build in builds if isinstance(build, ModelBuild)), default=0.0)


def preload() -> None:
    """Import what asking a model needs; slow, so call it off the event loop, before an episode."""
    if not _lacking(find_spec):
        import_module("spectator.llm.client")


def _lacking(find: Callable[[str], object | None]) -> list[str]:
    return [module for module in _NEEDS if find(module) is None]


def _missing(captain: ModelCaptain, variables: Mapping[str, str], lacking: Iterable[str]) -> str | None:
    """What is needed before it can play here; the values of variables are never part of it."""
    if list(lacking):
        return "needs pip install 'openenv-spectator[models]'"
    if captain.api_key_env is None:
        return None
    key = variables.get(captain.api_key_env, "")
    if not key:
        return f"needs a key in the variable {captain.api_key_env}"
    try:
        ApiKey(key)
    except ConfigurationError:
        return f"the variable {captain.api_key_env} holds something that cannot be a key"
    return None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelBuild:
    """Makes a policy for one seat of one episode; its ``repr`` holds no key.

    Breaker and pacing are shared by all episodes with this captain, so that not each asks a dead endpoint
    anew, and all together keep to its limits.
    """

    captain: ModelCaptain
    """How the model is asked."""
    seat: ModelSeat
    variables: Mapping[str, str]
    clock: Clock
    rng: random.Random
    breaker: Breaker
    pacing: Pacing

    def __call__(self, seed: int) -> ModelPolicy:
        """A new policy, with connections of its own; raises as :meth:`asking` does, and when its key is gone.

        Raises:
            ConfigurationError: Its key is gone.
        """
        captain = self.captain
        client = captain_client(
            captain,
            self._key(),
            clock=self.clock,
            rng=self.rng,
            breaker=self.breaker,
            pacing=self.pacing,
        )
        return self.asking(
            client, seed, session=f"s-{self.rng.getrandbits(64):016x}" if captain.by_session else None
        )

    @property
    def task(self) -> str:
        """What the model is told of the game."""
        return self.seat.briefing.task

    def falling_back_to(self, fallback: Callable[[int], Policy]) -> ModelBuild:
        """The same with another fallback; see :class:`spectator.policies.drawn.FallsBack`."""
        return replace(self, seat=replace(self.seat, fallback=fallback))

    def asking(self, client: ChatEndpoint, seed: int, *, session: str | None = None) -> ModelPolicy:
        """A new policy that asks by ``client``, whatever the captain's own endpoint is.

        Raises:
            ConfigurationError: The world's fallback is not a scripted policy.
        """
        fallback = self.seat.fallback(seed)
        if not isinstance(fallback, ScriptedPolicy):
            raise ConfigurationError("the fallback of a model must be a scripted policy")
        return ModelPolicy(
            client,
            self.captain.settings(),
            self.seat.briefing,
            fallback=fallback,
            seed=seed,
            clock=self.clock,
            session=session,
        )

    def _key(self) -> ApiKey | None:
        name = self.captain.api_key_env
        if name is None:
            return None
        value = self.variables.get(name, "")
        if not value:
            raise ConfigurationError(f"there is no key in the variable {name}")
        return ApiKey(value)
