"""Static files under their digests, joined into one script and one style sheet per page."""

from __future__ import annotations

import ast
import functools
import hashlib
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from spectator.catalog import load_world, world_names
from spectator.errors import SpectatorError

from .responses import IMMUTABLE, PrecompressedContent

IMPORT: Final = re.compile(
    r"^(?P<keyword>import|export) (?:\* as (?P<all>\w+)|\{(?P<names>[^}]*)\})"
    r' from "(?P<target>\.{1,2}/[^"]+)";$',
    re.MULTILINE,
)
"""A static import or re-export of one of our own modules."""

EXPORT: Final = re.compile(
    r"^export (?=(?:async function\*?|function\*?|const|class) (?P<name>\w+))", re.MULTILINE
)
"""The export of a constant name."""

NOT_READ: Final = re.compile(r"^(?:import\b(?!\()|export\b(?! default ))", re.MULTILINE)
"""An import or export that remains after all supported ones were removed."""

DEFAULT: Final = re.compile(r"^export default ", re.MULTILINE)
"""The default export of a module."""

WAITS: Final = re.compile(r"^(?![ \t/*])(?!.*\basync\b).*\bawait\b", re.MULTILINE)
"""A top-level ``await``."""

LATER: Final = re.compile(r"""\bimport\(["'](?P<target>\.{1,2}/[^"']+)["']\)""")
"""A dynamic import of one of our own modules."""

OWN_ADDRESS: Final = re.compile(r"\bimport\.meta\b")
"""The use of ``import.meta``."""

COMMENT_LINES: Final = re.compile(r"^[ \t]*(?://.*|/\*(?:(?!\*/)[\s\S])*\*/[ \t]*)\n", re.MULTILINE)
"""Comments on their own lines."""

INLINE_TYPE: Final = re.compile(r"/\*\*(?:(?!\*/)[\s\S])*\*/ ?")
"""A comment within a line, such as a type annotation."""

INDENT: Final = re.compile(r"^[ \t]+|^\n", re.MULTILINE)

COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
SPACES: Final = re.compile(r"\s+")
AROUND: Final = re.compile(r" ?([{};,>]) ?")


class ModuleJoinError(SpectatorError):
    """Modules use syntax that joining does not support; they work one by one."""


def join_modules(root: Path, entry: str, shared: Iterable[str] = ()) -> dict[str, str]:
    """Join the module ``entry`` and its imports into scripts, by path.

    There is one script for ``entry``, and one for each dynamically imported module, as in
    ``import("./ui/seat.js")``. The others import shared modules from the first script. Each module becomes a
    function that runs once and returns its exports, before the modules that import it, as in browsers. Of the
    entry's own exports only a default is kept.

    Args:
        shared: Modules in the first script that the entry does not import.

    Raises:
        ModuleJoinError: Modules import each other in a circle, or use unsupported syntax: exports of
            variables that change, computed addresses, top-level ``await``.
    """
    first = _Script(root, entry)
    for path in (*shared, entry):
        first.add(path)
    later = {path: _Script(root, entry, first.names) for path in first.later}
    for path, script in later.items():
        script.add(path)
        if further := script.later.keys() - later.keys():
            raise ModuleJoinError(
                f"{path}: {min(further)} is imported dynamically by a dynamically imported module"
            )
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
    """Join style sheets in order, without comments and unneeded spaces."""
    text = COMMENT.sub("", "\n".join(path.read_text("utf-8") for path in paths))
    packed = AROUND.sub(r"\1", SPACES.sub(" ", text)).strip()
    return packed.replace(": ", ":").replace(";}", "}")


def _bare(script: str) -> str:
    """Return a script without comments and indentation.

    >>> _bare("// Adds.\\n  /** @type {number} */ const a = `${b ? `, ${b} %` : ``}`;\\n")
    'const a = `${b ? `, ${b} %` : ``}`;\\n'
    """
    bare = INLINE_TYPE.sub("", COMMENT_LINES.sub("", script))
    spans_lines = any(line.count("`") % 2 for line in bare.splitlines())
    return bare if spans_lines else INDENT.sub("", bare)


class _Script:
    """One of the scripts while it is built.

    Args:
        known: Names of the modules in the first script; none for the first script itself.
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
        """Add a module after its imports; return the name of its exports."""
        if path in above:
            raise ModuleJoinError(" imports ".join((*above, path)))
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
        """Return a dynamically imported script, which imports from the first one."""
        home = _address(self._entry, path)
        taken = f'import{{{",".join(self.borrowed)}}}from"{home}";\n' if self.borrowed else ""
        exported = f"\nexport const{{{','.join(self._exports[path])}}}={self.names[path]};"
        return taken + "\n".join(self.parts.values()) + exported

    def _imports(self, path: str, source: str, above: tuple[str, ...]) -> tuple[list[str], list[str]]:
        """Return declarations that replace imports, and the names re-exported."""
        taken, exported = [], []
        for found in IMPORT.finditer(source):
            given = self.add(_target(path, found["target"]), (*above, path))
            taken.append(f"const {found['all'] or _pattern(found['names'])} = {given};")
            if found["keyword"] == "export":
                exported += [name.rpartition(" as ")[2] for name in _names(found["names"] or found["all"])]
        return taken, exported

    def _with_later(self, path: str, body: str) -> str:
        """Return a module's body with dynamic imports relative to the page's script."""

        def seen_from_entry(found: re.Match[str]) -> str:
            target = _target(path, found["target"])
            self.later[target] = None
            return f'import("{_address(target, self._entry)}")'

        body = LATER.sub(seen_from_entry, body)
        if OWN_ADDRESS.search(body):
            raise ModuleJoinError(f"{path}: import.meta differs in a joined script")
        return body

    def _function(self, path: str, inside: str) -> str:
        return f"const {self.names[path]}=(()=>{{{inside}\nreturn{{{','.join(self._exports[path])}}}}})();"


def _target(path: str, address: str) -> str:
    """Return the path of the module that ``path`` imports by a relative address."""
    return os.path.normpath(os.path.join(os.path.dirname(path), address))


def _address(target: str, path: str) -> str:
    """Return the relative address of ``target`` for the module ``path``."""
    relative = os.path.relpath(target, os.path.dirname(path) or ".")
    return relative if relative.startswith(".") else f"./{relative}"


def _check(path: str, body: str, *, is_entry: bool) -> None:
    """Reject a module that would behave differently as a function."""
    if NOT_READ.search(body) or (not is_entry and (DEFAULT.search(body) or WAITS.search(body))):
        raise ModuleJoinError(f"{path}: unsupported import, export or top-level await")


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _pattern(listed: str) -> str:
    """Return ``{ a, b as c }`` of an import as the pattern of a declaration."""
    return f"{{ {', '.join(name.replace(' as ', ': ') for name in _names(listed))} }}"


logger = logging.getLogger(__name__)

MEDIA_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
"""Media types of served files, by suffix."""

SUFFIXES: Final = frozenset(MEDIA_TYPES)

ENTRIES: Final = (
    "lobby.js", "watch.js", "wall.js", "compare.js", "operator.js", "embed.js", "rollouts.js", "run.js",
    "group.js", "reader.js", "moment.js",
)  # fmt: skip
"""Entry scripts of the pages."""

MODULE_IMPORT: Final = re.compile(r"""^(?:import|export) .*?from "(\.{1,2}/[^"]+)";$""", re.MULTILINE)
"""A static import of one of our own modules."""

PANEL_FILE: Final = re.compile(r"[A-Za-z0-9_-]+\.(?:js|css|svg)")
"""Name of a panel's file; a panel is one flat folder."""

PANEL_SCRIPTS: Final = ("panel.js", "tile.js")
"""Modules of a panel that pages import: the panel, and the picture of a tile, if any."""

SHEETS: Final = {"sheets": "styles", "parts": "styles/components"}
"""Template macros that name style sheets, with the folders of the sheets."""

NAMED_SHEETS: Final = re.compile(rf"\{{\{{ ({'|'.join(SHEETS)})\((\[[^\]]*\])\)")


class Assets(StaticFiles):
    """The static files of the pages.

    Args:
        joined: Joined content that replaces a file, by its path below ``root``.
    """

    def __init__(self, root: Path, joined: dict[str, PrecompressedContent]) -> None:
        super().__init__(directory=root)
        self._joined = joined

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Answer with the file, cached forever by clients; other kinds of files are 404."""
        if Path(path).suffix not in SUFFIXES:
            raise HTTPException(404)
        headers = Headers(scope=scope)
        if path in self._joined:
            return await run_in_threadpool(self._joined[path].answer, headers)
        response = await super().get_response(path, scope)
        if isinstance(response, FileResponse) and response.status_code == 200:
            return await run_in_threadpool(packed, Path(response.path), headers)
        response.headers["Cache-Control"] = IMMUTABLE
        return response


class Panel(NamedTuple):
    """A world's panel."""

    digest: str
    root: Path
    joined: dict[str, PrecompressedContent]


class Panels:
    """The panels of worlds, loaded on first use."""

    def __init__(self, *, join: bool) -> None:
        self._join = join
        self._known: dict[str, Panel | None] = {}

    def path(self, world: str) -> str | None:
        """Return the path of a world's panel below the site's root; ``None`` without one."""
        known = self._of(world)
        return None if known is None else f"panels/{world}/{known.digest}"

    def picture(self, world: str) -> str:
        """Return the relative path of the module that draws a tile's picture."""
        known = self._of(world) if world in world_names() else None
        if known is None or not (known.root / "tile.js").is_file():
            raise HTTPException(404)
        return f"./{known.digest}/tile.js"

    def modules(self, world: str) -> list[str]:
        """Return the modules that a page preloads; empty without a panel."""
        known = self._of(world)
        if known is None:
            return []
        return ["panel.js", *(() if "panel.js" in known.joined else modules_of(known.root, "panel.js"))]

    def file(self, world: str, version: str, name: str, headers: Headers) -> Response:
        """Return one file of a panel."""
        known = self._of(world) if world in world_names() else None
        if known is None or known.digest != version or not PANEL_FILE.fullmatch(name):
            raise HTTPException(404)
        if name in known.joined:
            return known.joined[name].answer(headers)
        path = known.root / name
        if not path.is_file():
            raise HTTPException(404)
        return packed(path, headers)

    def _of(self, world: str) -> Panel | None:
        if world not in self._known:
            root = load_world(world).panel
            has_panel = root is not None and (root / "panel.js").is_file()
            self._known[world] = self._read(root) if root is not None and has_panel else None
        return self._known[world]

    def _read(self, root: Path) -> Panel:
        entries = tuple(name for name in PANEL_SCRIPTS if (root / name).is_file())
        joined = joined_scripts(root, entries) if self._join else {}
        if self._join and (sheet := root / "panel.css").is_file():
            joined["panel.css"] = PrecompressedContent(join_sheets([sheet]).encode(), MEDIA_TYPES[".css"])
        return Panel(digest(root, joined=bool(joined)), root, joined)


def joined_scripts(root: Path, entries: tuple[str, ...]) -> dict[str, PrecompressedContent]:
    """Join each entry with its imports, except those that cannot be joined.

    A dynamically imported module imports shared modules from its page's script, so only one entry may import
    it.
    """
    joined: dict[str, PrecompressedContent] = {}
    for entry in entries:
        try:
            scripts = join_modules(root, entry)
            if twice := sorted(scripts.keys() & joined.keys()):
                raise ModuleJoinError(
                    f"{twice[0]} is imported dynamically by another page too; import it statically in {entry}"
                )
        except ModuleJoinError as error:
            logger.warning("sending the modules of %s one by one: %s", root / entry, error)
        else:
            joined |= {
                path: PrecompressedContent(text.encode(), MEDIA_TYPES[".js"])
                for path, text in scripts.items()
            }
    return joined


def joined_sheets(static: Path, templates: Path) -> dict[str, PrecompressedContent]:
    """Join the style sheets that a template names together, by :func:`sheet_paths`."""
    joined = {}
    for template in sorted(templates.glob("*.html")):
        for macro, listed in NAMED_SHEETS.findall(template.read_text("utf-8")):
            names, place = ast.literal_eval(listed), SHEETS[macro]
            (path,) = sheet_paths(names, place, join=True)
            content = join_sheets(static / place / f"{name}.css" for name in names)
            joined[path] = PrecompressedContent(content.encode(), MEDIA_TYPES[".css"])
    return joined


def sheet_paths(names: list[str], place: str, *, join: bool) -> list[str]:
    """Return the paths of style sheets below the static files, or of the joined one.

    >>> sheet_paths(["bar", "card"], "styles", join=False)
    ['styles/bar.css', 'styles/card.css']
    >>> sheet_paths(["bar", "components/card"], "styles", join=True)
    ['styles/bar.card.css']
    """
    if join:
        return [f"{place}/{'.'.join(name.rpartition('/')[2] for name in names)}.css"]
    return [f"{place}/{name}.css" for name in names]


def packed(path: Path, headers: Headers) -> Response:
    """Return a file as an answer, compressed if accepted; compressed forms are cached."""
    return _read(path).answer(headers)


@functools.cache
def _read(path: Path) -> PrecompressedContent:
    return PrecompressedContent(path.read_bytes(), MEDIA_TYPES[path.suffix])


def folder(name: str) -> Path:
    """Return the folder ``static`` or ``templates`` next to ``server``."""
    return Path(__file__).resolve().parents[2] / name


def digest(root: Path, *, joined: bool = False) -> str:
    """Return 12 hexadecimal digits of a digest of the served files.

    They change with any served file under ``root``, and with joining.
    """
    hashed = hashlib.sha256(b"joined" if joined else b"")
    for path in sorted(path for path in root.rglob("*") if path.suffix in SUFFIXES and path.is_file()):
        hashed.update(f"{path.relative_to(root).as_posix()}\0".encode())
        hashed.update(hashlib.sha256(path.read_bytes()).digest())
    return hashed.hexdigest()[:12]


def modules_of(root: Path, entry: str) -> list[str]:
    """Return the paths of all modules that ``entry`` imports, for preloading."""
    found: dict[str, None] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop(0)
        for target in MODULE_IMPORT.findall((root / name).read_text("utf-8")):
            path = os.path.normpath(os.path.join(os.path.dirname(name), target))
            if path not in found:
                found[path] = None
                waiting.append(path)
    return list(found)


@functools.cache
def _joined_pages() -> tuple[dict[str, PrecompressedContent], dict[str, PrecompressedContent]]:
    """Return the joined scripts and style sheets of all pages; built once per process."""
    static = folder("static")
    return joined_scripts(static, ENTRIES), joined_sheets(static, folder("templates"))


def mount_assets(app: FastAPI, *, join: bool) -> None:
    """Serve static files and panels under their digests.

    Their paths are ``/static/<digest>/`` and ``/panels/<world>/<digest>/``.
    """
    static = folder("static")
    scripts, sheets = _joined_pages() if join else ({}, {})
    app.state.static_path = f"static/{digest(static, joined=join)}"
    app.state.panels = Panels(join=join)
    app.state.modules = {entry: [] if entry in scripts else modules_of(static, entry) for entry in ENTRIES}
    app.mount(f"/{app.state.static_path}", Assets(static, scripts | sheets), name="static")

    @app.get("/panels/{world}/{version}/{name}", include_in_schema=False)
    def panel_file(request: Request, world: str, version: str, name: str) -> Response:
        panels: Panels = app.state.panels
        return panels.file(world, version, name, request.headers)

    @app.get("/panels/{world}/tile.js", include_in_schema=False)
    def picture(world: str) -> Response:
        """Redirect pages that do not know the panel's digest to its current file."""
        panels: Panels = app.state.panels
        return RedirectResponse(panels.picture(world), headers={"Cache-Control": "no-cache"})
