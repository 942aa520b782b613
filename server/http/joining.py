"""Joining of a page's modules into one script and of its style sheets into one, when the server starts."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from spectator.errors import SpectatorError

IMPORT: Final = re.compile(
    r"^(?P<keyword>import|export) (?:\* as (?P<all>\w+)|\{(?P<names>[^}]*)\})"
    r' from "(?P<target>\.{1,2}/[^"]+)";$',
    re.MULTILINE,
)
"""A static import of one of our own modules, or a hand-on of what it exports."""

EXPORT: Final = re.compile(
    r"^export (?=(?:async function\*?|function\*?|const|class) (?P<name>\w+))", re.MULTILINE
)
"""The export of a name that never changes."""

NOT_READ: Final = re.compile(r"^(?:import\b(?!\()|export\b(?! default ))", re.MULTILINE)
"""A statement of modules that stands although all that are understood were taken away."""

DEFAULT: Final = re.compile(r"^export default ", re.MULTILINE)
"""The nameless export of a module."""

WAITS: Final = re.compile(r"^(?![ \t/*])(?!.*\basync\b).*\bawait\b", re.MULTILINE)
"""A module that waits before others may use it."""

LATER: Final = re.compile(r"""\bimport\(["'](?P<target>\.{1,2}/[^"']+)["']\)""")
"""The import of a module when it is used."""

OWN_ADDRESS: Final = re.compile(r"\bimport\.meta\b")
"""What a module knows of itself."""

COMMENT_LINES: Final = re.compile(r"^[ \t]*(?://.*|/\*(?:(?!\*/)[\s\S])*\*/[ \t]*)\n", re.MULTILINE)
"""Comments that have their lines for themselves."""

INLINE_TYPE: Final = re.compile(r"/\*\*(?:(?!\*/)[\s\S])*\*/ ?")
"""A comment within a line, such as a type for the checker."""

INDENT: Final = re.compile(r"^[ \t]+|^\n", re.MULTILINE)

COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
SPACES: Final = re.compile(r"\s+")
AROUND: Final = re.compile(r" ?([{};,>]) ?")


class CannotJoin(SpectatorError):
    """Modules are written in a way that the joining does not understand; they work one by one."""


def join_modules(root: Path, entry: str, shared: Iterable[str] = ()) -> dict[str, str]:
    """Scripts that do what the module ``entry`` and all that it imports do, without comments, by their paths.

    One is for ``entry``, and one for each module that is imported only when it is used, as in
    ``import("./ui/seat.js")``; what the first holds, the others take from it, and what several of the others
    need is in the first. Each module becomes a function that runs once and returns what the module exports,
    before those that import it, as browsers order them. Of the entry's own exports only a default is kept.

    Args:
        root: Folder that the modules are below.
        entry: Path of the first of them below ``root``.
        shared: Modules that the first script holds although the entry does not import them.

    Raises:
        CannotJoin: Modules import each other in a circle, or hold statements that are not understood: exports
            of variables that change, addresses that are computed, waiting outside of functions.
    """
    first = _Script(root, entry)
    for path in (*shared, entry):
        first.add(path)
    later = {path: _Script(root, entry, first.names) for path in first.later}
    for path, script in later.items():
        script.add(path)
        if further := script.later.keys() - later.keys():
            raise CannotJoin(f"{path}: {min(further)} is imported later than what is imported later")
    held = Counter(path for script in later.values() for path in script.parts)
    if several := [path for path, scripts in held.items() if scripts > 1]:
        return join_modules(root, entry, (*shared, *several))
    lent = sorted({name for script in later.values() for name in script.borrowed})
    ending = f"\nexport{{{','.join(lent)}}};" if lent else ""
    return {
        entry: "\n".join(first.parts.values()) + ending,
        **{path: script.text(path) for path, script in later.items()},
    }


def join_sheets(paths: Iterable[Path]) -> str:
    """One style sheet that does what these do in their order, without comments and needless spaces."""
    text = COMMENT.sub("", "\n".join(path.read_text("utf-8") for path in paths))
    packed = AROUND.sub(r"\1", SPACES.sub(" ", text)).strip()
    return packed.replace(": ", ":").replace(";}", "}")


def _bare(script: str) -> str:
    """A script without comments and indentation; whatever stands within strings and templates stays.

    >>> _bare("// Adds.\\n  /** @type {number} */ const a = `${b ? `, ${b} %` : ``}`;\\n")
    'const a = `${b ? `, ${b} %` : ``}`;\\n'
    """
    bare = INLINE_TYPE.sub("", COMMENT_LINES.sub("", script))
    spans_lines = any(line.count("`") % 2 for line in bare.splitlines())
    return bare if spans_lines else INDENT.sub("", bare)


class _Script:
    """One of the scripts, as it is put together.

    Args:
        root: Folder that the modules are below.
        entry: The module that the page begins with.
        known: Names of the modules that the first script holds; none for the first script itself.
    """

    def __init__(self, root: Path, entry: str, known: Mapping[str, str] | None = None) -> None:
        self._root = root
        self._entry = entry
        self._known = known or {}
        self.names: dict[str, str] = {}
        self.parts: dict[str, str] = {}
        self.borrowed: dict[str, None] = {}
        self.later: dict[str, None] = {}
        self._exports: dict[str, list[str]] = {}

    def add(self, path: str, above: tuple[str, ...] = ()) -> str:
        """Add a module after all that it imports; returns the name of what it exports."""
        if path in above:
            raise CannotJoin(" imports ".join((*above, path)))
        if path in self._known:
            self.borrowed[self._known[path]] = None
            return self._known[path]
        if path not in self.names:
            source = (self._root / path).read_text("utf-8")
            taken, exported = self._imports(path, source, above)
            self._exports[path] = [*EXPORT.findall(source), *exported]
            body = EXPORT.sub("", IMPORT.sub("", source))
            _check(path, body, is_entry=path == self._entry)
            inside = self._with_later(path, _bare("\n".join((*taken, body))))
            self.names[path] = f"module${len(self._known) + len(self.names)}"
            self.parts[path] = inside if path == self._entry else self._function(path, inside)
        return self.names[path]

    def text(self, path: str) -> str:
        """All of a script that is fetched when it is used: it takes what the first one has, and exports."""
        home = _address(self._entry, path)
        taken = f'import{{{",".join(self.borrowed)}}}from"{home}";\n' if self.borrowed else ""
        exported = f"\nexport const{{{','.join(self._exports[path])}}}={self.names[path]};"
        return taken + "\n".join(self.parts.values()) + exported

    def _imports(self, path: str, source: str, above: tuple[str, ...]) -> tuple[list[str], list[str]]:
        """Declarations in the place of a module's imports, and names that it hands on."""
        taken, exported = [], []
        for found in IMPORT.finditer(source):
            given = self.add(_target(path, found["target"]), (*above, path))
            taken.append(f"const {found['all'] or _pattern(found['names'])} = {given};")
            if found["keyword"] == "export":
                exported += [name.rpartition(" as ")[2] for name in _names(found["names"] or found["all"])]
        return taken, exported

    def _with_later(self, path: str, body: str) -> str:
        """A module's body with the addresses of what it fetches later as the page's script sees them."""

        def seen_from_entry(found: re.Match[str]) -> str:
            target = _target(path, found["target"])
            self.later[target] = None
            return f'import("{_address(target, self._entry)}")'

        body = LATER.sub(seen_from_entry, body)
        if OWN_ADDRESS.search(body):
            raise CannotJoin(f"{path}: import.meta is another one in a joined script")
        return body

    def _function(self, path: str, inside: str) -> str:
        return f"const {self.names[path]}=(()=>{{{inside}\nreturn{{{','.join(self._exports[path])}}}}})();"


def _target(path: str, address: str) -> str:
    """Path of the module that ``path`` imports by a relative address."""
    return os.path.normpath(os.path.join(os.path.dirname(path), address))


def _address(target: str, path: str) -> str:
    """The other way round: the address of ``target`` for the module ``path``."""
    relative = os.path.relpath(target, os.path.dirname(path) or ".")
    return relative if relative.startswith(".") else f"./{relative}"


def _check(path: str, body: str, *, is_entry: bool) -> None:
    """Refuse a module that would do something else as a function."""
    if NOT_READ.search(body) or (not is_entry and (DEFAULT.search(body) or WAITS.search(body))):
        raise CannotJoin(f"{path}: a statement that imports, exports or waits is not understood")


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _pattern(listed: str) -> str:
    """``{ a, b as c }`` of an import as the pattern of a declaration."""
    return f"{{ {', '.join(name.replace(' as ', ': ') for name in _names(listed))} }}"
