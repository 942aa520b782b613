"""Static files: those of the pages and those of each world's panel, all under their digests."""

from __future__ import annotations

import ast
import functools
import hashlib
import logging
import os
import re
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

from .joining import CannotJoin, join_modules, join_sheets
from .packing import IMMUTABLE, Packed

logger = logging.getLogger(__name__)

MEDIA_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
"""Kinds of files that are served."""

SUFFIXES: Final = frozenset(MEDIA_TYPES)

ENTRIES: Final = (
    "lobby.js", "watch.js", "wall.js", "compare.js", "operator.js", "embed.js", "rollouts.js", "run.js",
    "group.js",
)  # fmt: skip
"""Scripts of the pages."""

IMPORT: Final = re.compile(r"""^(?:import|export) .*?from "(\.{1,2}/[^"]+)";$""", re.MULTILINE)
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

    def __init__(self, root: Path, joined: dict[str, Packed]) -> None:
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
    joined: dict[str, Packed]


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
            joined["panel.css"] = Packed(join_sheets([sheet]).encode(), MEDIA_TYPES[".css"])
        return Panel(digest(root, joined=bool(joined)), root, joined)


def joined_scripts(root: Path, entries: tuple[str, ...]) -> dict[str, Packed]:
    """Each entry with all that it imports as one script; without those that cannot be joined.

    A module that is fetched when it is used takes what it shares with its page from the page's script, so
    only one of the entries may fetch it.
    """
    joined: dict[str, Packed] = {}
    for entry in entries:
        try:
            scripts = join_modules(root, entry)
            if twice := sorted(scripts.keys() & joined.keys()):
                raise CannotJoin(f"{twice[0]} is fetched later by another page, too; import it in {entry}")
        except CannotJoin as error:
            logger.warning("the modules of %s are sent one by one: %s", root / entry, error)
        else:
            joined |= {path: Packed(text.encode(), MEDIA_TYPES[".js"]) for path, text in scripts.items()}
    return joined


def joined_sheets(static: Path, templates: Path) -> dict[str, Packed]:
    """The style sheets that a template names together as one, under :func:`sheet_paths`."""
    joined = {}
    for template in sorted(templates.glob("*.html")):
        for macro, listed in NAMED_SHEETS.findall(template.read_text("utf-8")):
            names, place = ast.literal_eval(listed), SHEETS[macro]
            (path,) = sheet_paths(names, place, join=True)
            content = join_sheets(static / place / f"{name}.css" for name in names)
            joined[path] = Packed(content.encode(), MEDIA_TYPES[".css"])
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
def _read(path: Path) -> Packed:
    return Packed(path.read_bytes(), MEDIA_TYPES[path.suffix])


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
        for target in IMPORT.findall((root / name).read_text("utf-8")):
            path = os.path.normpath(os.path.join(os.path.dirname(name), target))
            if path not in found:
                found[path] = None
                waiting.append(path)
    return list(found)


@functools.cache
def _joined_pages() -> tuple[dict[str, Packed], dict[str, Packed]]:
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
