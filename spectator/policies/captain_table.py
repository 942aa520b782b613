"""The table of a model captain: its endpoint, how it is asked, what it costs, and what it is known by."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from spectator.errors import ConfigurationError
from spectator.llm.address import check_base_url
from spectator.llm.presets import PROVIDERS, Form, Price
from spectator.policies.captain_table_errors import name_of_a_variable
from spectator.policies.model_settings import ModelSettings
from spectator.policies.prompting import EDITION, Style

ASKED_BY: Final = frozenset({
    "model", "style", "temperature", "max_tokens", "context_tokens", "actions_per_answer", "tool_choice",
    "send_seed", "extra", "history_tokens",
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
        default=None, ge=1, description="Most requests in a minute, of all its episodes on this machine"
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="Most tokens in a minute, of all its episodes on this machine"
    )
    concurrency: int | None = Field(
        default=None, ge=1, le=1024, description="Most requests at once; found out when left out"
    )
    waits_for_rest: bool = Field(
        default=False, description="Whether decisions wait for an endpoint that is left alone after failing"
    )
    price_in: float = Field(default=0.0, ge=0, description="US dollars for a million prompt tokens")
    price_out: float = Field(default=0.0, ge=0, description="US dollars for a million answer tokens")
    price_cached_in: float | None = Field(
        default=None, ge=0, description="US dollars for a million prompt tokens that the endpoint had at hand"
    )
    history_tokens: int = Field(
        default=2_000,
        ge=256,
        description="Tokens of past turns after which the conversation begins again",
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
        """A digest of all on which its answers may depend: endpoint, model, style, sampling and prompt."""
        asked = self.model_dump_json(include={"base_url", "form", *ASKED_BY})
        return hashlib.sha256(f"{asked}{EDITION}".encode()).hexdigest()[:16]

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

    @property
    def limited(self) -> bool:
        """Whether it states any limit that all who ask it must keep together."""
        return any((self.requests_per_minute, self.tokens_per_minute, self.concurrency))

    def settings(self) -> ModelSettings:
        """How the policy asks it."""
        fields = ModelSettings.__dataclass_fields__.keys() & ModelCaptain.model_fields.keys()
        return ModelSettings(price=self.price, **{name: getattr(self, name) for name in fields})
