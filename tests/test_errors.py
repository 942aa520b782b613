"""The errors say what went wrong, and belong to one tree."""

from __future__ import annotations

import inspect

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from spectator import errors
from spectator.errors import (
    EpisodeBusy,
    EpisodeNotFound,
    FieldError,
    InvalidRequest,
    ProtocolError,
    SpectatorError,
    field_errors,
)


def test_every_error_is_in_the_tree_that_the_module_draws() -> None:
    raised = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, BaseException)]
    assert len(raised) >= 14
    for error in raised:
        assert issubclass(error, SpectatorError)
        assert error.__name__ in (errors.__doc__ or ""), f"{error.__name__} is not in the drawing"


def test_an_invalid_request_names_every_field() -> None:
    error = InvalidRequest(iter([FieldError("seed", "too big"), FieldError("options.turns", "too small")]))
    assert str(error) == "seed: too big; options.turns: too small"
    assert [wrong.field for wrong in error.fields] == ["seed", "options.turns"]


def test_a_busy_server_names_what_runs_and_what_to_do() -> None:
    error = EpisodeBusy(["ep-1", "ep-2"], 2)
    assert error.running == ("ep-1", "ep-2")
    assert "all 2 slot(s) are taken by ep-1, ep-2" in str(error)
    assert "SPECTATOR_MAX_EPISODES" in str(error)


def test_a_server_that_goes_away_does_not_claim_that_it_is_full() -> None:
    assert str(EpisodeBusy([], 1)) == "the server is shutting down; no episode can be started"


@pytest.mark.parametrize(("asked", "said"), [(None, "no episode is running"), ("ep-1", "no episode 'ep-1'")])
def test_a_missing_episode(asked: str | None, said: str) -> None:
    assert str(EpisodeNotFound(asked)) == said


def test_a_protocol_error_carries_its_close_code() -> None:
    assert ProtocolError("not JSON", close_code=4400).close_code == 4400


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    turns: int = Field(ge=1)
    inner: dict[str, int] = {}

    @field_validator("turns")
    @classmethod
    def not_thirteen(cls, value: int) -> int:
        if value == 13:
            raise ValueError("must not be 13")
        return value


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"turns": 0}, [("options.turns", "Input should be greater than or equal to 1")]),
        ({"turns": 13}, [("options.turns", "must not be 13")]),
        (
            {"turns": 1, "inner": {"a": "x"}, "other": 1},
            [
                ("options.inner.a", "Input should be a valid integer"),
                ("options.other", "Extra inputs are not permitted"),
            ],
        ),
    ],
)
def test_pydantic_errors_become_field_errors(sent: object, expected: list[tuple[str, str]]) -> None:
    with pytest.raises(ValidationError) as caught:
        Order.model_validate(sent)
    found = field_errors(caught.value.errors(), prefix=["options"])
    assert [(wrong.field, wrong.rule) for wrong in found] == expected


def test_an_error_of_the_whole_body_is_named_so() -> None:
    with pytest.raises(ValidationError) as caught:
        Order.model_validate(3)
    assert field_errors(caught.value.errors())[0].field == "body"
