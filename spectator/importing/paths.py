"""Where a value is in a row: expressions of JMESPath, with functions of our own.

An expression is compiled once; its usual parts are functions that need no interpreter, which takes ten times
as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from spectator.errors import ConfigurationError
from spectator.importing.path_functions import FUNCTIONS

Path = Callable[[Any], Any]


@cache
def path(expression: str) -> Path:
    """Return a function that evaluates an expression.

    >>> path("a.b || c")({"a": {"b": None}, "c": 3}), path("text('task-{}', n)")({"n": 7})
    (3, 'task-7')

    Raises:
        ConfigurationError: The expression is invalid.
    """
    import jmespath

    try:
        return _compiled(jmespath.compile(expression).parsed)
    except jmespath.exceptions.JMESPathError as error:
        raise ConfigurationError(f"{expression!r} is not a path of jmespath.org: {error}") from error


def _compiled(node: Mapping[str, Any]) -> Path:
    """Return a function that evaluates a node of a parsed expression."""
    kind, children = node["type"], node["children"]
    value: Any = node.get("value")
    if kind in ("identity", "current"):
        return lambda given: given
    if kind == "literal":
        return lambda given: value
    if kind == "field":
        return lambda given: given.get(value) if isinstance(given, dict) else None
    if kind == "function_expression" and value in FUNCTIONS and FUNCTIONS[value][1] == len(children):
        function, arguments = FUNCTIONS[value][0], [_compiled(one) for one in children]
        return lambda given: function(*[one(given) for one in arguments])
    if kind in ("subexpression", "index_expression", "pipe"):
        return _then(*map(_compiled, children))
    if kind in ("or_expression", "and_expression"):
        return (_or if kind == "or_expression" else _and)(*map(_compiled, children))
    if kind == "not_expression":
        inner = _compiled(children[0])
        return lambda given: not _holds(inner(given))
    interpreter = _interpreter()
    return lambda given: interpreter.visit(node, given)


def _then(first: Path, *others: Path) -> Path:
    def read(given: Any) -> Any:
        found = first(given)
        for one in others:
            found = one(found)
        return found

    return read


def _or(first: Path, second: Path) -> Path:
    return lambda given: found if _holds(found := first(given)) else second(given)


def _and(first: Path, second: Path) -> Path:
    return lambda given: second(given) if _holds(found := first(given)) else found


def _holds(value: Any) -> bool:
    """Whether a value is true in JMESPath, as 0 is."""
    return bool(value) or (value is not False and isinstance(value, int | float))


@cache
def _interpreter() -> Any:
    from jmespath import functions, visitor

    def declared(function: Callable[..., Any], count: int) -> Callable[..., Any]:
        signature = functions.signature(*[{"types": []}] * count)
        return signature(lambda self, *given: function(*given))  # type: ignore[no-any-return]

    members = {f"_func_{name}": declared(function, count) for name, (function, count) in FUNCTIONS.items()}
    known = type("Functions", (functions.Functions,), members)()
    return visitor.TreeInterpreter(visitor.Options(custom_functions=known))
