"""Language-model captains: built-in and user-defined tables, and their validation.

Error messages name the field and never repeat a value that could be a key.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
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

from spectator.errors import ConfigurationError
from spectator.llm.endpoints import PROVIDERS, Form, Price, check_base_url
from spectator.policies.prompts import EDITION, ModelSettings, Style

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LIKE_A_KEY: Final = re.compile(
    r"(?=.{20})(hf|sk|gsk|xai|ghp|pk|nvapi|r8)_|[0-9a-f]{32}|(?=.*[a-z])(?=.*[0-9])[A-Za-z0-9]{32}"
)
"""How keys begin or look that would else pass for names."""


def variable_name(name: str) -> str:
    """``name``, if it is one: names are shown to everyone, so that a key in its place must not pass for one.

    Raises:
        ValueError: It is none, or looks like a key; the message does not repeat it.
    """
    if not _VARIABLE.fullmatch(name) or _LIKE_A_KEY.match(name):
        raise ValueError("must be the name of a variable, such as MY_KEY; the key itself stands nowhere here")
    return name


def table_problems(name: str, key: str, error: ValidationError, table: type[BaseModel]) -> list[str]:
    """What is wrong with the table ``[captains.KEY]`` of the file called ``name``, field by field.

    The values are no part of it: one of them may be a key.
    """
    told = []
    for problem in error.errors(include_input=False):
        field, rule = ".".join(["captains", key, *map(str, problem["loc"])]), problem["msg"]
        if problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1:
            rule = f"there is no such field{_nearest(str(problem['loc'][0]), table)}"
        elif problem["type"] in ("model_type", "model_attributes_type"):
            rule = f"must be a table [captains.{key}]"
        told.append(f"{name}: {field}: {rule.removeprefix('Value error, ')}")
    return told


def _nearest(field: str, table: type[BaseModel]) -> str:
    if field in ("api_key", "key", "token"):
        return "; put the key into a variable, and name that in api_key_env"
    near = difflib.get_close_matches(field, table.model_fields, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(table.model_fields)}"


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
        default=None, description="Fills in, by spectator.llm.endpoints, what the table does not say"
    )
    form: Form = Field(default="openai", description="How requests and answers are written")
    base_url: str = Field(description="Its endpoint, up to and without /chat/completions")
    by_session: bool = Field(
        default=False, description="Whether the endpoint keeps whole sessions, by name in the URL"
    )
    model: str = Field(min_length=1, max_length=200, description="Its name at its endpoint")
    api_key_env: Annotated[str, AfterValidator(variable_name)] | None = Field(
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


PREFIX: Final = "llm:"
"""What the names of these presets begin with, before the name of their table."""

NAME: Final = re.compile(r"[a-z0-9._-]{1,48}")
"""What the table of a captain may be called."""


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


def unpriced_captains(captains: Mapping[str, ModelCaptain], variables: Mapping[str, str]) -> list[str]:
    """Those that can be asked for money, by a key in ``variables``, at a price that nobody here knows.

    Whoever is asked without a key is paid by nobody.
    """
    return [
        name
        for name, captain in captains.items()
        if captain.price is None and captain.api_key_env and variables.get(captain.api_key_env)
    ]


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
    """The captains in ``text``, the TOML of the file called ``name``; see :func:`load_captains`."""
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
        try:
            captains[PREFIX + key] = ModelCaptain.model_validate(table)
        except ValidationError as error:
            problems += table_problems(name, key, error, ModelCaptain)
    if problems:
        raise ConfigurationError("; ".join(problems))
    return captains
