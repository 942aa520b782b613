"""Forked programs see and do what started ones do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.process_template import ROOT, ForkedPopen, RealPopen

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs are forked on Linux only")

SEEN = """
import asyncio, atexit, json, os, signal, sys, threading, warnings
atexit.register(print, "exit")
streams = [
    [one.fileno(), one.encoding, one.errors, one.line_buffering, one.write_through, type(one.buffer).__name__]
    for one in (sys.stdin, sys.stdout, sys.stderr)
]
filters = [str(one) for one in warnings.filters if "numpy" not in str(one)]
signals = [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)]
process = [os.getppid(), os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), threading.active_count()]
print(json.dumps([
    sys.argv, sys.orig_argv[1:], sys.path, sys.warnoptions, str(sys.flags), __name__, os.getcwd(),
    globals().get("__file__"), sorted(os.environ.items()), os.listdir("/proc/self/fd"), streams, filters,
    signals, process, sys.stdin.read(),
], indent=0))
sys.stderr.write("said\\n")
if "fail" in sys.argv:
    raise LookupError("it fails")
warnings.warn("old", DeprecationWarning)
sys.exit(3)
"""


def outcome(start: Any, arguments: Sequence[str], **options: Any) -> tuple[int, list[str], str]:
    """Return the exit code of a program and what it wrote, without the frames of what ran it."""
    with start(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    ) as process:
        out, err = process.communicate("a line\n", timeout=60)
    return process.returncode, out.splitlines(), err.splitlines()[-1]


@pytest.mark.parametrize("way", ["code", "module", "file"])
@pytest.mark.parametrize(
    "options",
    [
        {"env": {**os.environ}},
        {"env": {**os.environ}, "cwd": "/", "start_new_session": True},
        {"env": {**os.environ, "PYTHONWARNINGS": "error,ignore::ImportWarning", "A": "b"}, "cwd": ROOT},
    ],
    ids=["plain", "session", "environment"],
)
@pytest.mark.parametrize("words", [[], ["fail"]], ids=["", "fails"])
def test_a_fork_sees_what_a_start_sees(
    tmp_path: Path, way: str, words: list[str], options: dict[str, Any]
) -> None:
    (tmp_path / "seen.py").write_text(SEEN, "utf-8")
    arguments = {"code": ["-c", SEEN], "module": ["-m", "seen"], "file": [str(tmp_path / "seen.py")]}[way]
    if way == "module":
        options = {**options, "cwd": tmp_path}
    forked = outcome(ForkedPopen, [*arguments, *words], **options)
    assert forked == outcome(RealPopen, [*arguments, *words], **options)
    assert forked[0] == (1 if words or "A" in options["env"] else 3)


def test_a_fork_is_killed_stopped_and_awaited() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import server.app, sys; print(sys.stdin.read())"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert (
            Path(f"/proc/{process.pid}/cmdline").read_text("utf-8").split("\0")[2] == "tests.process_template"
        )
        os.kill(process.pid, signal.SIGSTOP)
        assert os.waitpid(process.pid, os.WUNTRACED)[1] == 0x137F
        os.kill(process.pid, signal.SIGCONT)
        assert process.poll() is None
        process.kill()
        assert process.wait(60) == -signal.SIGKILL


def test_code_that_changes_a_module_comes_before_what_imports_it() -> None:
    code = (
        "import spectator; spectator.__version__ = 'x'; from server.app import __version__ as it; print(it)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "x\n"
