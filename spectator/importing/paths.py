"""Where a value is in a row: expressions of JMESPath, with functions of our own.

A plain path such as ``response.model || model`` is read without JMESPath, which takes a tenth of the time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from spectator.errors import ConfigurationError
from spectator.importing.path_functions import FUNCTIONS

Path = Callable[[Any], Any]

_PLAIN: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*( \|\| [A-Za-z_]\w*(\.[A-Za-z_]\w*)*)*")
_CONSTANT: Final = re.compile(r"'[^'\\]*'")


@cache
def path(expression: str) -> Path:
    """Return a function that evaluates an expression.

    >>> path("a.b || c")({"a": {"b": None}, "c": 3}), path("text('task-{}', n)")({"n": 7})
    (3, 'task-7')

    Raises:
        ConfigurationError: The expression is invalid.
    """
    if expression == "@":
        return lambda value: value
    if _CONSTANT.fullmatch(expression):
        return lambda value: expression[1:-1]
    if _PLAIN.fullmatch(expression):
        return _plain([one.split(".") for one in expression.split(" || ")])
    import jmespath

    try:
        compiled = jmespath.compile(expression)
    except jmespath.exceptions.JMESPathError as error:
        raise ConfigurationError(f"{expression!r} is not a path of jmespath.org: {error}") from error
    options = jmespath.Options(custom_functions=_functions())
    return lambda value: compiled.search(value, options)


def _plain(names: Sequence[Sequence[str]]) -> Path:
    def read(value: Any) -> Any:
        found = None
        for one in names:
            found = value
            for name in one:
                found = found.get(name) if type(found) is dict else None
            if found or (found is not None and found is not False and isinstance(found, int | float)):
                return found
        return found

    return read


@cache
def _functions() -> Any:
    from jmespath import functions

    def declared(function: Callable[..., Any], count: int) -> Callable[..., Any]:
        signature = functions.signature(*[{"types": []}] * count)
        return signature(lambda self, *given: function(*given))  # type: ignore[no-any-return]

    members = {f"_func_{name}": declared(function, count) for name, (function, count) in FUNCTIONS.items()}
    return type("Functions", (functions.Functions,), members)()
