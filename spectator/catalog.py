"""The catalogue of worlds: built-in ones, and entry points of other packages."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any, Final

from spectator.environments.world import World
from spectator.errors import ConfigurationError, FieldError, InvalidRequest, typed_as

ENTRY_POINT_GROUP: Final = "spectator.environments"
"""Entry points of this group name a :class:`World`: ``NAME = "package.module:WORLD"``."""

BUILT_IN: Final[Mapping[str, str]] = {
    "cricket": "spectator.environments.cricket:WORLD",
    "collider": "spectator.environments.collider.world:WORLD",
    "counting": "spectator.environments.counting:WORLD",
}
"""Built-in worlds, the default first."""

EXTRAS: Final[Mapping[str, Sequence[str]]] = {"collider": ("iminuit", "particle", "scipy")}
"""Packages a world needs beyond the base installation; the extra of the same name installs them."""

LoadWorld = Callable[[str], World]
"""Finds a world by name, like :func:`load_world`; other loaders add captains."""


def world_names() -> list[str]:
    """List the worlds that can be played here, built-in ones first, without importing any."""
    return [name for name in known_worlds() if name not in BUILT_IN or missing_extra(name) is None]


def known_worlds() -> list[str]:
    """List all worlds, built-in ones first, including those that need packages not installed here."""
    return [*BUILT_IN, *(name for name in sorted(_outside()) if name not in BUILT_IN)]


@cache
def missing_extra(name: str) -> str | None:
    """Say in a sentence what to install to play the world ``name``; ``None`` if nothing."""
    absent = [package for package in EXTRAS.get(name, ()) if find_spec(package) is None]
    if not absent:
        return None
    return f"{name} needs {', '.join(absent)}: pip install 'openenv-spectator[{name}]'"


@cache
def load_world(name: str) -> World:
    """Import the world called ``name``.

    Raises:
        InvalidRequest: There is no such world, or packages it needs are missing; the message says which.
        ConfigurationError: The entry point cannot be imported or does not name a world.

    >>> world = load_world("counting")
    >>> world.actors, sorted(world.captains)
    (('counter',), ['heuristic', 'random'])
    """
    if (absent := missing_extra(name)) is not None:
        raise InvalidRequest([FieldError("environment", absent)])
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        world = getattr(import_module(module), attribute)
    elif name in _outside():
        world = _import(_outside()[name])
    else:
        raise InvalidRequest([unknown_name("environment", name, world_names())])
    if not isinstance(world, World) or world.name != name:
        raise ConfigurationError(
            f"the entry point {name!r} of {ENTRY_POINT_GROUP} does not name the world {name!r}"
        )
    return world


@cache
def _outside() -> Mapping[str, EntryPoint]:
    """Entry points of other packages, by name; read from the disk once."""
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def _import(entry: EntryPoint) -> object:
    def unusable(error: Exception) -> ConfigurationError:
        return ConfigurationError(
            f"the entry point {entry.name!r} of {ENTRY_POINT_GROUP} cannot be imported: "
            f"{type(error).__name__}: {error}"
        )

    with typed_as(unusable, passing=()):
        return entry.load()


def import_object(name: str, what: str) -> Any:
    """Import ``module:name``, which a user named.

    Args:
        name: The module and the name in it, such as ``my_module:MyClass``.
        what: What it is, for the message, such as ``the environment``.

    Raises:
        ConfigurationError: It cannot be imported, or cannot be called.

    >>> import_object("fractions:Fraction", "the number")
    <class 'fractions.Fraction'>
    """
    with typed_as(
        lambda error: ConfigurationError(
            f"{what} {name[:200]!r} cannot be imported: {type(error).__name__}: {error}; use MODULE:NAME"
        ),
        passing=(),
    ):
        found = resolve_name(name)
    if not callable(found):
        raise ConfigurationError(f"{what} {name[:200]!r} is not a class or a function")
    return found


def unknown_name(field: str, name: str, known: Iterable[str]) -> FieldError:
    """Return the field error for a name that is not in the catalogue."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return FieldError(field, f"unknown {name[:80]!r}{hint} Known: {', '.join(names)}")
