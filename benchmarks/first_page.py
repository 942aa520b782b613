"""Measure a start: from a clone to the first page, and the import of the application."""

from __future__ import annotations

import http.client
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figures import Figure, spread
from tests.serving import ROOT, free_port

IMPORTS: Final = {
    "nothing": "pass",
    "libraries": "import fastapi, pydantic, sqlalchemy",
    "application": "import server.app",
}
ROUNDS: Final = 7
PATIENCE_S: Final = 300.0


def measure() -> list[Figure]:
    """Measure first and later starts, with uv's cache empty and filled."""
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    with TemporaryDirectory() as cache:
        figures = [*_clone("empty", cache, load), *_clone("filled", cache, load)]
    took = {name: [_cpu_s(code) for _ in range(ROUNDS)] for name, code in IMPORTS.items()}
    libraries = spread(took["libraries"])
    limit = f"FastAPI, pydantic and SQLAlchemy alone {libraries} s, Python {spread(took['nothing'])} s"
    return [*figures, Figure("import server.app, CPU", f"{spread(took['application'])} s", "<= 1 s", limit)]


def _clone(cache_is: str, cache: str, load: str) -> list[Figure]:
    with TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        first = _start(clone, cache, f"git clone --quiet '{ROOT}' . && exec make run")
        later = _start(clone, cache, "exec make run")
    return [
        Figure(f"clone to first page, uv's cache {cache_is}", first, "<= 15 s", load),
        Figure("the same clone again, nothing to install", later, "-", load),
    ]


def _start(clone: Path, cache: str, command: str) -> str:
    """Run ``command`` until the first page loads; returns seconds and CPU seconds."""
    port = free_port()
    clone.mkdir(exist_ok=True)
    before, began = _children_cpu_s(), time.perf_counter()
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"{command} PORT={port}"],
        cwd=clone,
        env=os.environ | {"UV_CACHE_DIR": cache},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _await_page(process, port, began + PATIENCE_S)
        took = time.perf_counter() - began
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)
    return f"{took:.1f} s, {_children_cpu_s() - before:.1f} s of CPU"


def _await_page(process: subprocess.Popen[bytes], port: int, deadline: float) -> None:
    while time.perf_counter() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
            return
        except ConnectionError:
            time.sleep(0.02)
        finally:
            connection.close()
    sys.exit("benchmarks: `make run` served no page; run it by hand to see why")


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu_s(code: str) -> float:
    """Return the CPU seconds of a Python process that runs ``code``."""
    program = f"{code}\nimport os, time; print(time.process_time(), flush=True); os._exit(0)"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return float(ran.stdout)
