"""Error messages for a captains file: field by field, and never repeating what may be a key."""

from __future__ import annotations

import difflib
import re
from typing import Final

from pydantic import BaseModel, ValidationError

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LIKE_A_KEY: Final = re.compile(
    r"(?=.{20})(hf|sk|gsk|xai|ghp|pk|nvapi|r8)_|[0-9a-f]{32}|(?=.*[a-z])(?=.*[0-9])[A-Za-z0-9]{32}"
)
"""How keys begin or look that would else pass for names."""


def name_of_a_variable(name: str) -> str:
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
