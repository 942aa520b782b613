"""Static files under their digests, joined into one script and one sheet a page."""

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


class ModuleJoinError(SpectatorError):
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
        ModuleJoinError: Modules import each other in a circle, or hold statements that are not understood:
            exports of variables that change, addresses that are computed, waiting outside of functions.
    """
    first = _Script(root, entry)
    for path in (*shared, entry):
        first.add(path)
    later = {path: _Script(root, entry, first.names) for path in first.later}
    for path, script in later.items():
        script.add(path)
        if further := script.later.keys() - later.keys():
            raise ModuleJoinError(f"{path}: {min(further)} is imported later than what is imported later")
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
            raise ModuleJoinError(f"{path}: import.meta is another one in a joined script")
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
        raise ModuleJoinError(f"{path}: a statement that imports, exports or waits is not understood")


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _pattern(listed: str) -> str:
    """``{ a, b as c }`` of an import as the pattern of a declaration."""
    return f"{{ {', '.join(name.replace(' as ', ': ') for name in _names(listed))} }}"


logger = logging.getLogger(__name__)

MEDIA_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
"""Kinds of files that are served."""

SUFFIXES: Final = frozenset(MEDIA_TYPES)

ENTRIES: Final = (
    "lobby.js", "watch.js", "wall.js", "compare.js", "operator.js", "embed.js", "rollouts.js", "run.js",
    "group.js",
)  # fmt: skip
"""Scripts of the pages."""

MODULE_IMPORT: Final = re.compile(r"""^(?:import|export) .*?from "(\.{1,2}/[^"]+)";$""", re.MULTILINE)
"""A static import of one of our own modules."""

PANEL_FILE: Final = re.compile(r"[A-Za-z0-9_-]+\.(?:js|css|svg)")
"""Name of a panel's file; a panel is one flat folder."""

PANEL_SCRIPTS: Final = ("panel.js", "tile.js")
"""What pages import of a panel: the panel itself, and the picture of a tile where there is one."""

SHEETS: Final = {"sheets": "styles", "parts": "styles/components"}
"""Macros of templates that name style sheets, and the folders of those."""

NAMED_SHEETS: Final = re.compile(rf"\{{\{{ ({'|'.join(SHEETS)})\((\[[^\]]*\])\)")


class Assets(StaticFiles):
    """The pages' own files.

    Args:
        root: Their folder.
        joined: What is answered in the place of a file, by its path below ``root``.
    """

    def __init__(self, root: Path, joined: dict[str, PrecompressedContent]) -> None:
        super().__init__(directory=root)
        self._joined = joined

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, never to be asked for again; anything that pages are not made of is 404."""
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
    """A world's panel.

    Args:
        digest: Digest of its files.
        root: Its folder.
        joined: What is answered in the place of its files.
    """

    digest: str
    root: Path
    joined: dict[str, PrecompressedContent]


class Panels:
    """The panels of worlds; each world is loaded when its panel is first asked for.

    Args:
        join: Whether the modules of a panel are joined into one.
    """

    def __init__(self, *, join: bool) -> None:
        self._join = join
        self._known: dict[str, Panel | None] = {}

    def path(self, world: str) -> str | None:
        """Path of a world's panel below the root of the site; ``None`` when it has none."""
        known = self._of(world)
        return None if known is None else f"panels/{world}/{known.digest}"

    def picture(self, world: str) -> str:
        """Where the module is that draws a tile's picture, relative to the folder of the world's panels.

        Raises:
            HTTPException: The world draws none.
        """
        known = self._of(world) if world in world_names() else None
        if known is None or not (known.root / "tile.js").is_file():
            raise HTTPException(404)
        return f"./{known.digest}/tile.js"

    def modules(self, world: str) -> list[str]:
        """Names of the modules that a page asks for, the panel's entry first; empty without a panel."""
        known = self._of(world)
        if known is None:
            return []
        return ["panel.js", *(() if "panel.js" in known.joined else modules_of(known.root, "panel.js"))]

    def file(self, world: str, version: str, name: str, headers: Headers) -> Response:
        """One file of a panel.

        Raises:
            HTTPException: There is none of this name and version.
        """
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
    """Each entry with all that it imports as one script; without those that cannot be joined.

    A module that is fetched when it is used takes what it shares with its page from the page's script, so
    only one of the entries may fetch it.
    """
    joined: dict[str, PrecompressedContent] = {}
    for entry in entries:
        try:
            scripts = join_modules(root, entry)
            if twice := sorted(scripts.keys() & joined.keys()):
                raise ModuleJoinError(
                    f"{twice[0]} is fetched later by another page, too; import it in {entry}"
                )
        except ModuleJoinError as error:
            logger.warning("the modules of %s are sent one by one: %s", root / entry, error)
        else:
            joined |= {
                path: PrecompressedContent(text.encode(), MEDIA_TYPES[".js"])
                for path, text in scripts.items()
            }
    return joined


def joined_sheets(static: Path, templates: Path) -> dict[str, PrecompressedContent]:
    """The style sheets that a template names together as one, under :func:`sheet_paths`."""
    joined = {}
    for template in sorted(templates.glob("*.html")):
        for macro, listed in NAMED_SHEETS.findall(template.read_text("utf-8")):
            names, place = ast.literal_eval(listed), SHEETS[macro]
            (path,) = sheet_paths(names, place, join=True)
            content = join_sheets(static / place / f"{name}.css" for name in names)
            joined[path] = PrecompressedContent(content.encode(), MEDIA_TYPES[".css"])
    return joined


def sheet_paths(names: list[str], place: str, *, join: bool) -> list[str]:
    """Paths of style sheets below the pages' files: of each, or of the one that holds them all.

    >>> sheet_paths(["bar", "card"], "styles", join=False)
    ['styles/bar.css', 'styles/card.css']
    >>> sheet_paths(["bar", "components/card"], "styles", join=True)
    ['styles/bar.card.css']
    """
    if join:
        return [f"{place}/{'.'.join(name.rpartition('/')[2] for name in names)}.css"]
    return [f"{place}/{name}.css" for name in names]


def packed(path: Path, headers: Headers) -> Response:
    """A file as an answer, compressed for whoever takes that; a file's compressed form is made once."""
    return _read(path).answer(headers)


@functools.cache
def _read(path: Path) -> PrecompressedContent:
    return PrecompressedContent(path.read_bytes(), MEDIA_TYPES[path.suffix])


def folder(name: str) -> Path:
    """The folder ``static`` or ``templates``: beside ``server``, in a checkout and in the package alike."""
    return Path(__file__).resolve().parents[2] / name


def digest(root: Path, *, joined: bool = False) -> str:
    """Twelve hexadecimal digits that change when any served file under ``root`` does, or how it is sent."""
    hashed = hashlib.sha256(b"joined" if joined else b"")
    for path in sorted(path for path in root.rglob("*") if path.suffix in SUFFIXES and path.is_file()):
        hashed.update(f"{path.relative_to(root).as_posix()}\0".encode())
        hashed.update(hashlib.sha256(path.read_bytes()).digest())
    return hashed.hexdigest()[:12]


def modules_of(root: Path, entry: str) -> list[str]:
    """Paths of all modules that ``entry`` imports, so that a page can ask for them all at once."""
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
    """The scripts and the style sheets of all pages, each as one file; made and compressed once a process."""
    static = folder("static")
    return joined_scripts(static, ENTRIES), joined_sheets(static, folder("templates"))


def mount_assets(app: FastAPI, *, join: bool) -> None:
    """Serve the pages' files at ``/static/<digest>/`` and panels at ``/panels/<world>/<digest>/``.

    Args:
        app: The application.
        join: Whether the modules and the style sheets of a page are sent as one file each.
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
        """A page of many worlds knows no digests: it is sent on, and keeps what it finds there."""
        panels: Panels = app.state.panels
        return RedirectResponse(panels.picture(world), headers={"Cache-Control": "no-cache"})
