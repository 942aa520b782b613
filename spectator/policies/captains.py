"""Captains in TOML files: models behind endpoints, and weights that were trained here.

Error messages name the field and never repeat a value, which could be a key.
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
from spectator.llm.constraint import ConstraintSetting, Subset, fits_style
from spectator.llm.endpoints import PROVIDERS, Form, Price, check_base_url
from spectator.policies.model_settings import ModelSettings, PromptSize, Style
from spectator.policies.prompts import EDITION

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LIKE_A_KEY: Final = re.compile(
    r"(?=.{20})(hf|sk|gsk|xai|ghp|pk|nvapi|r8)_|[0-9a-f]{32}|(?=.*[a-z])(?=.*[0-9])[A-Za-z0-9]{32}"
)
"""Matches keys that would otherwise be valid variable names."""


def variable_name(name: str) -> str:
    """Check the name of an environment variable; reject a key entered by mistake.

    Raises:
        ValueError: It is not a name, or looks like a key. Names are shown to everyone; the message does not
            repeat the value.
    """
    if not _VARIABLE.fullmatch(name) or _LIKE_A_KEY.match(name):
        raise ValueError("must be the name of an environment variable, such as MY_KEY, not the key itself")
    return name


def table_problems(
    name: str, key: str, error: ValidationError, table: type[BaseModel], kind: str = "captains"
) -> list[str]:
    """Return the errors of the table ``[KIND.KEY]`` in the file ``name``.

    They never contain values, because one of them may be a key.
    """
    problems = []
    for problem in error.errors(include_input=False):
        field, rule = ".".join([kind, key, *map(str, problem["loc"])]), problem["msg"]
        if problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1:
            rule = f"unknown field{_nearest(str(problem['loc'][0]), table)}"
        elif problem["type"] in ("model_type", "model_attributes_type"):
            rule = f"must be a table [{kind}.{key}]"
        problems.append(f"{name}: {field}: {rule.removeprefix('Value error, ')}")
    return problems


def _nearest(field: str, table: type[BaseModel]) -> str:
    if field in ("api_key", "key", "token"):
        return "; put the key into an environment variable and set api_key_env to the variable's name"
    near = difflib.get_close_matches(field, table.model_fields, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(table.model_fields)}"


ASKED_BY: Final = frozenset({
    "model", "style", "temperature", "max_tokens", "context_tokens", "actions_per_answer", "tool_choice",
    "send_seed", "extra", "history_tokens", "constraint", "prompt",
})  # fmt: skip
"""Fields of a model captain that may influence its answers, apart from its endpoint."""

NOT_SENT: Final = frozenset({
    "label", "summary", "provider", "base_url", "by_session", "api_key_env", "timeout_s", "retries",
    "requests_per_minute", "tokens_per_minute", "concurrency", "waits_for_rest",
    "price_in", "price_out", "price_cached_in",
})  # fmt: skip
"""Fields of a model captain that its requests do not contain; all others are recorded and published."""

MASKED: Final = "(masked)"
"""Replaces a secret in a recorded setting."""

SECRET_ENDINGS: Final = (
    "KEY", "TOKEN", "SECRET", "PASSWORD", "AUTHORIZATION", "CREDENTIALS", "COOKIE", "USER", "USER_ID",
    "IDENTIFIER",
)  # fmt: skip
"""Endings of the names of keys and of fields that identify the operator, in capitals."""


def masked(value: Any, *, secret: bool = False) -> Any:
    """Return a setting with its secrets masked: texts under the name of a secret, or that look like a key.

    >>> masked({"api_key": "abc", "thinking": {"type": "enabled", "budget_tokens": 4096}})
    {'api_key': '(masked)', 'thinking': {'type': 'enabled', 'budget_tokens': 4096}}
    """
    if isinstance(value, str):
        return MASKED if secret or _LIKE_A_KEY.match(value) else value
    if isinstance(value, Mapping):
        return {
            name: masked(member, secret=secret or name.upper().endswith(SECRET_ENDINGS))
            for name, member in value.items()
        }
    return [masked(member, secret=secret) for member in value] if isinstance(value, list | tuple) else value


OWN_CONSTRAINTS: Final = frozenset({
    "response_format", "grammar", "json_schema", "guided_json", "guided_grammar", "structured_outputs",
})  # fmt: skip
"""Fields of `extra` that constrain answers themselves."""


class ModelCaptain(BaseModel):
    """One table ``[captains.NAME]`` of a catalogue file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    label: str = Field(min_length=1, max_length=80, description="Name shown to people")
    summary: str = Field(default="", max_length=300, description="One sentence about it")
    provider: str | None = Field(
        default=None, description="Provider in spectator.llm.endpoints that sets defaults for other fields"
    )
    form: Form = Field(default="openai", description="API of the endpoint")
    base_url: str = Field(description="URL of the endpoint before /chat/completions")
    by_session: bool = Field(
        default=False, description="Whether the endpoint keeps whole sessions, named in the URL"
    )
    model: str = Field(min_length=1, max_length=200, description="Name of the model at its endpoint")
    api_key_env: Annotated[str, AfterValidator(variable_name)] | None = Field(
        default=None, description="Name of the environment variable with the key"
    )
    style: Style = Field(default="tools", description="How the model names its actions")
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Sampling temperature; the endpoint's default if omitted"
    )
    max_tokens: int = Field(default=1024, ge=16, le=131_072, description="Longest answer, thoughts included")
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = Field(
        default="max_tokens",
        description="Request field for max_tokens; newer OpenAI models need max_completion_tokens",
    )
    timeout_s: float = Field(default=60.0, ge=1, le=900, description="Longest time for a decision, seconds")
    context_tokens: int = Field(
        default=16_384, ge=1024, description="Limit of prompt and answer tokens; older turns are omitted"
    )
    actions_per_answer: int = Field(
        default=1, ge=1, le=32, description="Number of actions it may plan in one answer"
    )
    constraint: ConstraintSetting = Field(
        default="none", description="How answers are constrained to the legal actions"
    )
    prompt: PromptSize = Field(default="full", description="`short` for small models: at most 700 tokens")
    tool_choice: Literal["auto", "required"] | None = Field(default=None, description="For the style `tools`")
    stream: bool = Field(default=True, description="Whether to stream answers, to show thoughts live")
    send_seed: bool = Field(default=True, description="Whether the endpoint accepts a seed")
    tokens: bool = Field(
        default=False, description="Whether to request and record token ids and log probabilities"
    )
    send_back: bool = Field(
        default=True, description="Whether to send unknown members of its messages back, unchanged"
    )
    retries: int = Field(
        default=2,
        ge=0,
        le=20,
        description="Retries of a failed request; unless 0, status 429 is retried until the timeout",
    )
    requests_per_minute: int | None = Field(
        default=None, ge=1, description="Limit of requests per minute, over all its episodes on this machine"
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="Limit of tokens per minute, over all its episodes on this machine"
    )
    concurrency: int | None = Field(
        default=None, ge=1, le=1024, description="Limit of concurrent requests; adaptive if omitted"
    )
    waits_for_rest: bool = Field(
        default=False, description="Whether decisions wait for an endpoint that is paused after failures"
    )
    price_in: float = Field(default=0.0, ge=0, description="US dollars per million prompt tokens")
    price_out: float = Field(default=0.0, ge=0, description="US dollars per million answer tokens")
    price_cached_in: float | None = Field(
        default=None, ge=0, description="US dollars per million prompt tokens read from the endpoint's cache"
    )
    history_tokens: int = Field(
        default=2_000, ge=256, description="Tokens of past turns after which the conversation restarts"
    )
    extra: dict[str, Any] = Field(default_factory=dict, description="Further fields of the request")

    @model_validator(mode="before")
    @classmethod
    def _provider_defaults(cls, table: Any) -> Any:
        if not isinstance(table, dict) or table.get("provider") is None:
            return table
        provider = PROVIDERS.get(str(table["provider"]))
        if provider is None:
            raise ValueError(f"unknown provider; use {', '.join(PROVIDERS)}")
        return {
            "form": provider.form,
            "base_url": provider.base_url,
            "api_key_env": provider.key_env,
            "max_tokens_field": provider.max_tokens_field,
            "stream": provider.stream,
            "send_seed": provider.send_seed,
            "constraint": "none" if OWN_CONSTRAINTS & set(table.get("extra") or ()) else provider.constraint,
            **table,
        }

    @property
    def fingerprint(self) -> str:
        """Hash of all settings that may influence answers, and of the prompt edition."""
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
                f"context_tokens ({self.context_tokens}) includes prompt and answer, and must be more than "
                f"max_tokens ({self.max_tokens})"
            )
        if self.form != "openai" and (self.tokens or self.by_session):
            raise ValueError(f"tokens and by_session need the form 'openai', not {self.form!r}")
        if not fits_style(self.constraint, self.style):
            raise ValueError(
                f"constraint {self.constraint!r} does not fit the style {self.style!r}: 'tools' needs the "
                "style 'tools', 'json_object' and 'json_schema' need 'json'"
            )
        if self.constraint == "json_object" and self.form == "anthropic":
            raise ValueError("the form 'anthropic' has no constraint 'json_object'; use 'json_schema'")
        if self.constraint != "none" and (taken := sorted(OWN_CONSTRAINTS & self.extra.keys())):
            raise ValueError(f'{", ".join(taken)} in extra needs constraint = "none"')
        if self.tool_choice is not None and self.style != "tools":
            raise ValueError(f"tool_choice needs the style 'tools', not {self.style!r}; omit it")
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
            raise ValueError(f"{', '.join(taken)} cannot be set in extra")
        return extra

    @property
    def price(self) -> Price | None:
        """Token prices of the table or of the provider; ``None`` if unknown."""
        if self.price_in or self.price_out:
            return Price(input=self.price_in, cached_input=self.price_cached_in, output=self.price_out)
        provider = PROVIDERS.get(self.provider or "")
        if provider is None or self.base_url.rstrip("/") != provider.base_url:
            return None
        return provider.price_of(self.model)

    @property
    def subset(self) -> Subset:
        """Who reads the schemas of constraints."""
        if self.form != "openai":
            return self.form
        return "openai" if self.provider in ("openai", "openrouter") else "local"

    @property
    def limited(self) -> bool:
        """Whether it sets a limit that all its clients must share."""
        return any((self.requests_per_minute, self.tokens_per_minute, self.concurrency))

    def settings(self) -> ModelSettings:
        """Return the settings for the policy."""
        fields = ModelSettings.__dataclass_fields__.keys() & ModelCaptain.model_fields.keys()
        given = {name: getattr(self, name) for name in fields}
        return ModelSettings(
            price=self.price, subset=self.subset, recorded=self.sent(exclude_defaults=True), **given
        )

    def sent(self, *, exclude_defaults: bool = False) -> dict[str, Any]:
        """Return all settings that reach the endpoint, with secrets masked, as plain JSON.

        Args:
            exclude_defaults: Whether to omit fields that have their default.
        """
        sent = self.model_dump(mode="json", exclude=set(NOT_SENT), exclude_defaults=exclude_defaults)
        return {name: masked(value) for name, value in sent.items()}


class TrainedCaptain(BaseModel):
    """One table ``[trained.NAME]``: weights that `spectator train` made; the captain's name is NAME."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str = Field(min_length=1, max_length=80, description="Name shown to people")
    world: str = Field(min_length=1, max_length=80, description="World that it plays")
    weights: Path = Field(
        description="Folder with its weights and their card, relative to the folder of the file"
    )

    @field_validator("weights")
    @classmethod
    def _named(cls, weights: Path) -> Path:
        if weights == Path():
            raise ValueError("must name a folder, such as my-captain/captain")
        return weights


PREFIX: Final = "llm:"
"""Prefix of the preset names of models; the name of the captain's table follows."""

NAME: Final = re.compile(r"[a-z0-9._-]{1,48}")
"""Valid names of a captain's table."""


def load_captains(user_file: Path | None = None) -> dict[str, ModelCaptain]:
    """Load all captains, by preset name; the user's tables replace built-in ones.

    Args:
        user_file: The user's TOML file; ``None`` for built-in captains only.

    Raises:
        ConfigurationError: A file cannot be read, or a table is invalid; names every invalid field.
    """
    built_in = files("spectator.policies").joinpath("captains.toml").read_text(encoding="utf-8")
    captains = parse_captains(built_in, "captains.toml")
    if user_file is not None:
        captains |= parse_captains(read_user_file(user_file), str(user_file))
    return captains


def load_trained(user_file: Path | None) -> dict[str, TrainedCaptain]:
    """Load the user's own trained captains, by name, with absolute folders.

    Raises:
        ConfigurationError: See :func:`load_captains`.
    """
    if user_file is None:
        return {}
    found = parse_tables(read_user_file(user_file), str(user_file))[1]
    folder = user_file.absolute().parent
    return {name: one.model_copy(update={"weights": folder / one.weights}) for name, one in found.items()}


def unpriced_captains(captains: Mapping[str, ModelCaptain], variables: Mapping[str, str]) -> list[str]:
    """Return captains with a key in ``variables`` but an unknown price.

    Captains without a key cost nothing.
    """
    return [
        name
        for name, captain in captains.items()
        if captain.price is None and captain.api_key_env and variables.get(captain.api_key_env)
    ]


def read_user_file(user_file: Path) -> str:
    """Read the user's file.

    Raises:
        ConfigurationError: It cannot be read.
    """
    try:
        return user_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the captains file {user_file} cannot be read: {error}") from error


def parse_captains(text: str, name: str) -> dict[str, ModelCaptain]:
    """Parse the models in the TOML text of the file ``name``; see :func:`load_captains`."""
    return parse_tables(text, name)[0]


def parse_tables(text: str, name: str) -> tuple[dict[str, ModelCaptain], dict[str, TrainedCaptain]]:
    """Parse the TOML text of the file ``name``: models by preset name, trained captains by name.

    Raises:
        ConfigurationError: A table is invalid; names every invalid field.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{name} is not TOML: {error}") from error
    kinds = {"captains": document.pop("captains", {}), "trained": document.pop("trained", {})}
    problems = [f"{name}: {key}: unknown; use tables [captains.NAME] or [trained.NAME]" for key in document]
    models: dict[str, ModelCaptain] = {}
    trained: dict[str, TrainedCaptain] = {}
    for kind, tables in kinds.items():
        if not isinstance(tables, dict):
            raise ConfigurationError(f"{name}: {kind}: must be tables [{kind}.NAME]")
        for key, table in tables.items():
            if not NAME.fullmatch(key):
                problems.append(
                    f"{name}: {kind}.{key}: invalid name; use 1 to 48 of the characters a-z 0-9 . _ -"
                )
                continue
            form = ModelCaptain if kind == "captains" else TrainedCaptain
            try:
                if kind == "captains":
                    models[PREFIX + key] = ModelCaptain.model_validate(table)
                else:
                    trained[key] = TrainedCaptain.model_validate(table)
            except ValidationError as error:
                problems += table_problems(name, key, error, form, kind)
    if problems:
        raise ConfigurationError("; ".join(problems))
    return models, trained
