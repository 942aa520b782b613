"""Static files: those of the pages and those of each world's panel, all under their digests."""

from __future__ import annotations

import functools
import gzip
import hashlib
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from spectator.catalog import load_world, world_names

IMMUTABLE: Final = "public, max-age=31536000, immutable"
"""The address holds a digest of the content, so what was fetched once stays right."""

MEDIA_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
"""Kinds of files that are served."""

SUFFIXES: Final = frozenset(MEDIA_TYPES)

ENTRIES: Final = ("lobby.js", "watch.js", "wall.js", "compare.js", "operator.js")
"""Scripts of the pages."""

IMPORT: Final = re.compile(r"""^(?:import|export) .*?from "(\.{1,2}/[^"]+)";$""", re.MULTILINE)
"""A static import of one of our own modules."""

PANEL_FILE: Final = re.compile(r"[A-Za-z0-9_-]+\.(?:js|css|svg)")
"""Name of a panel's file; a panel is one flat folder."""


class Assets(StaticFiles):
    """The pages' own files."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, never to be asked for again; anything that pages are not made of is 404."""
        if Path(path).suffix not in SUFFIXES:
            raise HTTPException(404)
        response = await super().get_response(path, scope)
        if isinstance(response, FileResponse) and response.status_code == 200:
            return await run_in_threadpool(packed, Path(response.path), Headers(scope=scope))
        response.headers["Cache-Control"] = IMMUTABLE
        return response


class Panel(NamedTuple):
    """A world's panel.

    Args:
        digest: Digest of its files.
        root: Its folder.
    """

    digest: str
    root: Path


class Panels:
    """The panels of worlds; each world is loaded when its panel is first asked for."""

    def __init__(self) -> None:
        self._known: dict[str, Panel | None] = {}

    def path(self, world: str) -> str | None:
        """Path of a world's panel below the root of the site; ``None`` when it has none."""
        known = self._of(world)
        return None if known is None else f"panels/{world}/{known.digest}"

    def modules(self, world: str) -> list[str]:
        """Names of the modules of a world's panel, its entry first; empty without one."""
        known = self._of(world)
        return [] if known is None else ["panel.js", *modules_of(known.root, "panel.js")]

    def file(self, world: str, version: str, name: str, headers: Headers) -> Response:
        """One file of a panel.

        Raises:
            HTTPException: There is none of this name and version.
        """
        known = self._of(world) if world in world_names() else None
        if known is None or known.digest != version or not PANEL_FILE.fullmatch(name):
            raise HTTPException(404)
        path = known.root / name
        if not path.is_file():
            raise HTTPException(404)
        return packed(path, headers)

    def _of(self, world: str) -> Panel | None:
        if world not in self._known:
            root = load_world(world).panel
            has_panel = root is not None and (root / "panel.js").is_file()
            self._known[world] = Panel(digest(root), root) if root is not None and has_panel else None
        return self._known[world]


def packed(path: Path, headers: Headers) -> Response:
    """A file as an answer, compressed for whoever takes that; a file's compressed form is made once."""
    media_type = MEDIA_TYPES[path.suffix]
    kept = {"Cache-Control": IMMUTABLE, "Vary": "Accept-Encoding"}
    if "gzip" not in headers.get("accept-encoding", ""):
        return FileResponse(path, media_type=media_type, headers=kept)
    return Response(_gzipped(path), media_type=media_type, headers={**kept, "Content-Encoding": "gzip"})


@functools.cache
def _gzipped(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


def folder(name: str) -> Path:
    """The folder ``static`` or ``templates``: beside ``server``, in a checkout and in the package alike."""
    return Path(__file__).resolve().parents[2] / name


def digest(root: Path) -> str:
    """Twelve hexadecimal digits that change when any served file under ``root`` does."""
    hashed = hashlib.sha256()
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


def mount_assets(app: FastAPI) -> None:
    """Serve the pages' files at ``/static/<digest>/`` and panels at ``/panels/<world>/<digest>/``."""
    static = folder("static")
    app.state.static_path = f"static/{digest(static)}"
    app.state.panels = Panels()
    app.state.modules = {entry: modules_of(static, entry) for entry in ENTRIES}
    app.mount(f"/{app.state.static_path}", Assets(directory=static), name="static")

    @app.get("/panels/{world}/{version}/{name}", include_in_schema=False)
    def panel_file(request: Request, world: str, version: str, name: str) -> Response:
        panels: Panels = app.state.panels
        return panels.file(world, version, name, request.headers)
