"""Python processes of tests, forked from one that has imported what most of them need.

A start of ``python -m server.app`` takes 0.7 s of CPU time, most of it for imports, and tests start hundreds
of programs; an import of the official ``openenv`` takes 4 s. ``tests/conftest.py`` sets :class:`ForkedPopen`
as ``subprocess.Popen``, which forks them from a template; each process that runs tests has its own. A fork is
a real process, and a child of the test's process: the template forks twice, and Linux gives the orphan to its
nearest ancestor that adopts orphans.

Only ``python -c CODE``, ``python -m MODULE`` and ``python FILE.py`` are forked, only on Linux, and only where
the environment has the template's own variables for the interpreter and its libraries, and Popen is asked for
nothing unusual. All else is started as always. So are programs of tests with the fixture ``real_starts``:
those that look at imports, memory or command lines, and those that test the starts themselves, of the server
and of uvicorn in ``tests/server/process/test_process.py``, of commands in ``tests/test_cli_paths.py``, and of
installed programs in ``tests/deploy``.
"""

from __future__ import annotations

import ast
import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import types
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent

LIBRARIES: Final = (
    "aiohttp", "anyio._backends._asyncio", "click", "encodings.idna", "fastapi", "filelock", "jinja2",
    "numpy", "orjson", "prometheus_client", "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite", "ulid", "uvicorn.lifespan.on", "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.websockets_sansio_impl", "uvloop",
)  # fmt: skip
PROGRAMS: Final = (
    *LIBRARIES, "server.app", "server.transport.private_api", "spectator.cli.evaluate",
    "spectator.cli.rollouts_run", "spectator.environments.counting", "spectator.environments.cricket.world",
    "spectator.llm.client", "spectator.rollouts.fleet",
)  # fmt: skip
"""What templates import, with everything that these import."""

OFFICIAL_PYTHON: Final = str(ROOT / ".venv-openenv" / "bin" / "python")
OFFICIAL: Final = ("openenv.cli.__main__", "openenv.core")
"""The interpreter that has the official ``openenv``, and what its template imports."""

SET_BY_FORKS: Final = ("PYTHONPATH", "PYTHONWARNINGS")
"""The interpreter's variables that a fork may have of its own."""

READ_AT_START: Final = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "OMP_", "OPENBLAS_")
"""Prefixes of variables that are read before a program's first line, or by its first imports."""

PR_SET_CHILD_SUBREAPER: Final = 36
NUMBER_BYTES: Final = 8

RealPopen = subprocess.Popen


class Template:
    """The process that forks; it ends with the process that started it.

    Args:
        python: Its interpreter.
        modules: What it imports.
    """

    def __init__(self, python: str, modules: Sequence[str]) -> None:
        self._turn = threading.Lock()
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl
        self._requests, theirs = socket.socketpair()
        self.variables = _read_at_start(os.environ)
        with theirs:
            self._process = RealPopen(
                [python, "-m", "tests.process_template", str(theirs.fileno()), *modules],
                cwd=ROOT,
                env={name: text for name, text in os.environ.items() if name != "PYTHONWARNINGS"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self._close)

    def fork(self, request: dict[str, Any], files: list[int]) -> int:
        """Return the id of a new process, a child of this one, with ``files`` as its standard files."""
        text = json.dumps(request).encode()
        with self._turn:
            self._adopt_orphans(True)
            try:
                socket.send_fds(self._requests, [_encoded(len(text))], files)
                self._requests.sendall(text)
                return _number(self._requests)
            except BaseException:
                self._requests.close()  # the next answer would be to this request
                raise
            finally:
                self._adopt_orphans(False)

    def _close(self) -> None:
        self._requests.close()
        self._process.wait()

    def _adopt_orphans(self, adopt: bool) -> None:
        if self._prctl(PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")


@cache
def _template(process_id: int, python: str, modules: Sequence[str]) -> Template:
    """Return the template of a process with some modules; a fork of that process needs another."""
    return Template(python, modules)


class ForkedPopen(subprocess.Popen):  # type: ignore[type-arg]
    """A Popen that forks Python programs from the template where it can."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        (
            executable, preexec_fn, close_fds, pass_fds, cwd, env, _, _, shell, *pipes,
            _, gid, gids, uid, umask, session, group,
        ) = rest  # fmt: skip
        folder = os.fsdecode(cwd or os.getcwd())
        given = os.environ if env is None else env
        environ = {os.fsdecode(name): os.fsdecode(text) for name, text in given.items()}
        unusual = executable or preexec_fn or pass_fds or shell or not close_fds
        as_others = (gid, gids, uid, umask, group) == (None, None, None, -1, -1)
        if unusual or not as_others or not _can_be_forked(args, environ, folder):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        stdin, _, _, stdout, _, stderr = pipes
        request = {
            "command": [os.fsdecode(word) for word in args[1:]],
            "environ": environ, "folder": folder, "session": session,
        }  # fmt: skip
        files = [own if file == -1 else file for own, file in enumerate((stdin, stdout, stderr))]
        try:
            python = os.fsdecode(args[0])
            modules = _modules(python, request["command"])
            self.pid = _template(os.getpid(), python, modules).fork(request, files)
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def _can_be_forked(args: Any, environ: Mapping[str, str], folder: str) -> bool:
    if sys.platform != "linux" or isinstance(args, (str, bytes, os.PathLike)) or not os.path.isdir(folder):
        return False
    python, *words = map(os.fsdecode, args)
    if python not in (sys.executable, OFFICIAL_PYTHON) or not words or words[:2] == ["-m", "venv"]:
        return False
    known = len(words) > 1 if words[0] in ("-c", "-m") else os.path.isfile(os.path.join(folder, words[0]))
    return (
        known
        and {*_paths(environ), str(ROOT)} == {*_paths(os.environ), str(ROOT)}
        and _read_at_start(environ) == _template(os.getpid(), python, _modules(python, words)).variables
    )


def _modules(python: str, command: Sequence[str]) -> tuple[str, ...]:
    if python == OFFICIAL_PYTHON:
        return OFFICIAL
    return LIBRARIES if _assigns_attributes(command) else PROGRAMS


def _assigns_attributes(command: Sequence[str]) -> bool:
    """Return whether a program may change modules before others import names from them.

    One whose changes work after all imports makes them with ``setattr``, and starts sooner.
    """
    nodes = ast.walk(ast.parse(command[1])) if command[0] == "-c" else ()
    return any(isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) for node in nodes)


def _paths(environ: Mapping[str, str]) -> list[str]:
    return [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def _read_at_start(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: text
        for name, text in environ.items()
        if name.startswith(READ_AT_START) and name not in SET_BY_FORKS
    }


def _encoded(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big")


def _number(sender: socket.socket) -> int:
    if not (received := sender.recv(NUMBER_BYTES, socket.MSG_WAITALL)):
        raise EOFError("the template of processes has ended")
    return int.from_bytes(received, "big")


def _serve(requests: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork as requested; returns the request in each fork."""
    while True:
        head, files, _, _ = socket.recv_fds(requests, NUMBER_BYTES, 3)
        if not head:
            sys.exit()
        request = json.loads(requests.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
        if not (between := os.fork()):
            between = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == between:
                os.sched_yield()
            requests.sendall(_encoded(os.getpid()))
            return request, files
        os.waitpid(between, 0)
        for file in files:
            os.close(file)


def _become(request: dict[str, Any], files: list[int], installed: list[str]) -> list[str]:
    """Take the surroundings that a started program would have; returns its command."""
    if request["session"]:
        os.setsid()
    for place, file in enumerate(files):
        os.dup2(file, place)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    command: list[str] = request["command"]
    sys.orig_argv[1:] = command
    first = {"-c": "", "-m": os.getcwd()}.get(command[0])
    if first is None:
        first = os.path.dirname(os.path.realpath(command[0]))
    sys.path[:] = [first, *map(os.path.abspath, _paths(os.environ)), *installed]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _standard(number, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.warnoptions[:] = [one for one in os.environ.get("PYTHONWARNINGS", "").split(",") if one]
    return command


def _standard(number: int, old: Any) -> io.TextIOWrapper:
    """Return a standard stream as the interpreter opens it."""
    return io.TextIOWrapper(
        open(number, "wb" if number else "rb", 0 if old.write_through and number else -1, closefd=False),
        encoding=old.encoding,
        errors=old.errors,
        newline="\n" if number else None,
        line_buffering=(number == 2 and old.line_buffering) or (os.isatty(number) and not old.write_through),
        write_through=old.write_through,
    )


def _run(command: list[str]) -> None:
    """Run a program as ``__main__``, as the interpreter would."""
    program = sys.modules["__main__"] = types.ModuleType("__main__")
    names = vars(program)
    if command[0] == "-m":
        if not hasattr(sys.modules.get(command[1]), "__path__"):
            sys.modules.pop(command[1], None)
        sys.argv[:] = ["-m", *command[2:]]
        runpy._run_module_as_main(command[1])  # type: ignore[attr-defined]
    elif command[0] == "-c":
        sys.argv[:] = ["-c", *command[2:]]
        exec(compile(command[1], "<string>", "exec", dont_inherit=True), names)
    else:
        sys.argv[:] = command
        names["__file__"] = command[0]
        exec(compile(Path(command[0]).read_bytes(), command[0], "exec", dont_inherit=True), names)


def _main() -> None:
    """Import, fork as requested, and run the program of a request in each fork."""
    installed = sys.path[1 + len(_paths(os.environ)) :]
    filters: list[Any] = warnings.filters  # type: ignore[assignment]
    usual = list(filters)
    for name in sys.argv[2:]:
        importlib.import_module(name)
    added = [one for one in filters if one not in usual]
    gc.collect()
    gc.freeze()
    sys.modules.pop("server.app", None)  # it is run as a program
    request, files = _serve(socket.socket(fileno=int(sys.argv[1])))
    command = _become(request, files, installed)
    filters[:] = usual
    warnings._processoptions(sys.warnoptions)  # type: ignore[attr-defined]
    filters[:0] = added
    warnings._filters_mutated()  # type: ignore[attr-defined]
    _run(command)


if __name__ == "__main__":
    _main()
