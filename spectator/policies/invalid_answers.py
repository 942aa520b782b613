"""What an answer that is not an action does to its episode, wherever a model is trained or sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectator.errors import FieldError, InvalidRequest, OnInvalid


class InvalidAnswers(BaseModel):
    """The rule for answers that are not actions: no action is found in them, or it is not legal.

    >>> InvalidAnswers(on_invalid="mask").penalty is None
    True
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    on_invalid: OnInvalid = Field(
        default="penalize", description="What an answer that is not an action does to its episode"
    )
    invalid_retries: int = Field(
        default=1, ge=0, le=10, description="How often the model is asked again first, in a row"
    )
    invalid_reward: float = Field(
        default=0.0, description="With `penalize`: what an episode counts for that ends so"
    )

    @property
    def penalty(self) -> float | None:
        """What an episode counts for that ends so; ``None`` where that is what it had earned."""
        return self.invalid_reward if self.on_invalid == "penalize" else None

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> InvalidAnswers:
        """The rule of these fields.

        Raises:
            InvalidRequest: Names every wrong field.
        """
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            wrong = [(str(one["loc"][0]), one["msg"]) for one in error.errors()]
            raise InvalidRequest(FieldError(name, rule) for name, rule in wrong) from error
