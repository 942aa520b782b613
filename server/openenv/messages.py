"""Messages of the OpenEnv contract: requests, socket messages, error codes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from spectator.environments.world import MAX_SEED
from spectator.episodes.single_agent import Observe
from spectator.errors import FieldError, InvalidRequest, SpectatorError, field_errors
from spectator.events import encode_json

from ..security.bodies import encodable, excess, parse_json

MAX_MESSAGE_BYTES: Final = 1024 * 1024
"""Longest message in bytes, as in the OpenEnv validator."""

MAX_REPORTED_ERRORS: Final = 20
"""Most invalid fields reported at once."""


class Code(StrEnum):
    """Error codes of socket messages."""

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED"
    FACTORY_ERROR = "FACTORY_ERROR"
    SESSION_ERROR = "SESSION_ERROR"


class WireError(SpectatorError):
    """A message cannot be handled; its sender gets an error and may continue."""

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        errors: Sequence[FieldError] = (),
        extra: dict[str, Any] | None = None,
    ) -> None:
        self.code = code
        self.errors = tuple(errors)
        self.extra = extra or {}
        super().__init__(message)

    def frame(self) -> str:
        """Return the error as a socket message."""
        data: dict[str, Any] = {"message": str(self), "code": self.code, **self.extra}
        if self.errors:
            data["errors"] = [{"field": wrong.field, "rule": wrong.rule} for wrong in self.errors]
        return encode_json({"type": "error", "data": data})


def invalid(error: InvalidRequest) -> WireError:
    """Return the error for invalid fields."""
    return WireError(Code.VALIDATION_ERROR, str(error)[:2000], errors=error.fields[:MAX_REPORTED_ERRORS])


def wrong_fields(error: ValidationError) -> InvalidRequest:
    """Return the first invalid fields of a validation error."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return InvalidRequest(field_errors(problems[:MAX_REPORTED_ERRORS]))


class ResetRequest(BaseModel):
    """Parameters of an episode.

    Every further field is an option of the world, such as `turns`.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)

    seed: int | None = Field(default=None, ge=0, le=MAX_SEED, description="null draws one")
    episode_id: str | None = Field(default=None, max_length=255, description="null generates one")
    opponent_choice: str | None = Field(default=None, description="Name of the captain of the other seats")
    eval_pack_id: str = Field(default="default", description="Evaluation pack")
    observe: Observe = Field(
        default="full", description="Form of observations: whole, changes since the last one, or text"
    )
    publish: bool = Field(
        default=False, description="Whether everyone may watch the episode, see docs/openenv.md"
    )
    publish_as: str | None = Field(
        default=None, max_length=64, description="Name shown for the agent, if published"
    )

    @property
    def options(self) -> dict[str, Any]:
        """The options of the world, as sent."""
        return dict(self.model_extra or {})


class StepRequest(BaseModel):
    """One step of a fresh episode.

    HTTP requests share no environment; a socket at `/ws` keeps its own.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    action: dict[str, Any] = Field(description="See `action` of /schema")
    reset: ResetRequest = Field(default=ResetRequest(), description="How the fresh episode begins")
    timeout_s: float | None = Field(
        default=None, gt=0, description="Seconds after which the step is abandoned"
    )
    request_id: str | None = Field(default=None, max_length=255, description="For the caller's own use")


class StepAnswer(BaseModel):
    """What the agent sees after `reset` or `step`."""

    observation: dict[str, Any] = Field(description="See `observation` of /schema")
    reward: float = Field(description="The reward of this step; all rewards add up to the score")
    done: bool = Field(description="Whether the episode is over; stays true")
    metadata: dict[str, Any] | None = Field(
        default=None, description="Named extras, such as `rubric`; omitted if empty"
    )


class Health(BaseModel):
    """The process is up."""

    status: Literal["healthy"] = "healthy"


class StateAnswer(BaseModel):
    """The public state; the world adds its own fields, see `state` of /schema."""

    model_config = ConfigDict(extra="allow")

    episode_id: str
    step_count: int = Field(ge=0, description="Calls of step in this episode")


class SchemaAnswer(BaseModel):
    """JSON schemas of all messages."""

    action: dict[str, Any]
    observation: dict[str, Any]
    state: dict[str, Any]
    reset_observation: dict[str, Any]


class Brief(BaseModel):
    """The task and rules for an agent."""

    task: str = Field(description="The game and its goal")
    legend: str = Field(description="Scoring, and the members of an observation; may be empty")


class PackAnswer(BaseModel):
    """An evaluation pack."""

    name: str = Field(description="Value of `eval_pack_id` in reset")
    version: str = Field(description="Increased whenever its episodes change")
    summary: str
    options: dict[str, Any] = Field(description="Options that it fixes")
    seeds: list[int] = Field(description="Its seeds; empty allows any seed")


class MetadataAnswer(BaseModel):
    """Description of an environment."""

    name: str
    description: str
    version: str
    readme_content: str
    author: str
    documentation_url: str
    brief: Brief
    packs: list[PackAnswer]


class EnvironmentsAnswer(BaseModel):
    """The available worlds."""

    environments: list[str]


class SocketMessage(BaseModel):
    """Base of a socket's messages."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ResetMessage(SocketMessage):
    """Begin an episode."""

    type: Literal["reset"]
    data: ResetRequest = ResetRequest()


class StepMessage(SocketMessage):
    """Take an action."""

    type: Literal["step"]
    data: dict[str, Any]


class StateMessage(SocketMessage):
    """Get the public state."""

    type: Literal["state"]


class CloseMessage(SocketMessage):
    """Close the environment."""

    type: Literal["close"]


class McpMessage(SocketMessage):
    """A JSON-RPC message about this socket's own environment."""

    type: Literal["mcp"]
    data: dict[str, Any]


AnyMessage = ResetMessage | StepMessage | StateMessage | CloseMessage | McpMessage
MESSAGE: Final[TypeAdapter[AnyMessage]] = TypeAdapter(Annotated[AnyMessage, Field(discriminator="type")])
TYPES: Final = ("reset", "step", "state", "close", "mcp")


def read_message(text: str | None) -> AnyMessage:
    """Read a socket message; ``None`` means a binary one."""
    value = read_json(text)
    if not isinstance(value, dict):
        raise WireError(Code.VALIDATION_ERROR, 'a message is a JSON object such as {"type": "state"}')
    if value.get("type") not in TYPES:
        known = ", ".join(TYPES)
        raise WireError(
            Code.UNKNOWN_TYPE, f"unknown message type {str(value.get('type'))[:80]!r}; known: {known}"
        )
    try:
        return MESSAGE.validate_python(value)
    except ValidationError as error:
        wrong = wrong_fields(error).fields
        raise invalid(InvalidRequest(_without_tag(one, value["type"]) for one in wrong)) from error


def read_json(text: str | None) -> Any:
    """Parse strict JSON within the limits of depth and size."""
    if text is None:
        raise WireError(Code.INVALID_JSON, "send JSON as text; binary messages are not supported")
    try:
        value = parse_json(text)
    except ValueError as error:
        raise WireError(Code.INVALID_JSON, f"not JSON: {str(error)[:200]}") from error
    if (rule := excess(value)) is not None:
        raise WireError(Code.INVALID_JSON, f"a message {rule}")
    if "\\u" in text and not encodable(value):
        raise WireError(Code.INVALID_JSON, "contains half of a surrogate pair")
    return value


def _without_tag(wrong: FieldError, tag: str) -> FieldError:
    """Return a field's path as the sender knows it, without type and ``data``."""
    field = wrong.field.removeprefix(f"{tag}.").removeprefix("data.")
    return FieldError(field, wrong.rule)
