"""The measurement of an import: a large file of traces, interrupted once on its way, and taken up to its end.

Run as ``python -m benchmarks.imported --gigabytes 10``; it needs three times that of room in the folder for
temporary files.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.figures import HEADER, Figure

GIGABYTE: Final = 10**9

TURNS: Final = 12
TOKENS: Final = 300
"""Turns of a trace, and tokens of each message: a line is then some 130 kB long."""

KINDS: Final = 64
"""Traces of different tokens and words; the others repeat them under their own ids."""

TORN: Final = 0.4
"""Where in the file a line is torn, as a share of it; a line without its task stands at twice that."""

INTERRUPTED_AT: Final = 0.2
"""Share of the traces after which Ctrl-C is sent."""


@dataclass(frozen=True, slots=True)
class Written:
    """A file of traces.

    Args:
        lines: How many lines it has.
        torn: The number of the line that is torn.
        bad: The number of the line that has no task.
    """

    lines: int
    torn: int
    bad: int


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended.

    Args:
        code: Its exit code.
        said: What it said.
        wall_s: Seconds by the clock.
        cpu_s: Seconds of processor.
        peak_mb: The most memory it took.
    """

    code: int
    said: str
    wall_s: float
    cpu_s: float
    peak_mb: float


def measure(gigabytes: float = 0.2, folder: Path | None = None) -> list[Figure]:
    """Write the file, import it until it is interrupted, then to its end.

    Args:
        gigabytes: Size of the file.
        folder: Where it is written; the usual one for temporary files if left out.
    """
    with TemporaryDirectory(dir=folder) as made:
        path, run = Path(made) / "traces.jsonl", Path(made) / "run"
        written = write(path, int(gigabytes * GIGABYTE))
        command = [sys.executable, "-m", "spectator.cli", "import", str(path), "--into", str(run)]
        cut, whole = _run(command, int(INTERRUPTED_AT * written.lines)), _run(command)
        journal = sum(one.stat().st_size for one in run.iterdir()) / GIGABYTE
    _check(written, cut, whole)
    name = f"import of {gigabytes:g} GB, {written.lines:,} traces"
    return [
        Figure(f"{name}: memory at most", f"{max(cut.peak_mb, whole.peak_mb):.0f} MB", "<= 300 MB", "-"),
        Figure(
            f"{name}: time",
            f"{cut.wall_s + whole.wall_s:.0f} s",
            "-",
            f"{cut.cpu_s + whole.cpu_s:.0f} s of processor; {journal:.1f} GB of journal",
        ),
        Figure(
            f"{name}: Ctrl-C at {INTERRUPTED_AT:.0%}",
            f"exit code {cut.code} after {cut.wall_s:.0f} s; the rest in {whole.wall_s:.0f} s",
            "each trace once",
            f"line {written.torn} is told as torn, line {written.bad} as without a task",
        ),
    ]


def write(path: Path, size: int) -> Written:
    """Write at least ``size`` bytes of traces of verifiers, one of them torn and one without a task."""
    kinds = list(_kinds(random.Random(20)))
    mean = sum(map(len, kinds)) // len(kinds)
    torn = max(1, int(TORN * size / mean))
    lines = 0
    with path.open("wb") as file:
        while file.tell() < size or lines < 2 * torn:
            lines += 1
            line = kinds[lines % KINDS].replace(b"NUMBER", b"%06d" % lines)
            if lines == torn:
                line = line[: len(line) // 2] + b"\n"
            elif lines == 2 * torn:
                line = line.replace(b'"task"', b'"tusk"')
            file.write(line)
    return Written(lines, torn, 2 * torn)


def _kinds(rng: random.Random) -> Iterator[bytes]:
    for kind in range(KINDS):
        nodes: list[dict[str, Any]] = [_node(None, {"role": "user", "content": "2 + 2?"}, rng)]
        for turn in range(TURNS):
            said = " ".join(str(rng.randrange(10**6)) for _ in range(TOKENS // 2))
            nodes.append(_node(2 * turn, {"role": "assistant", "content": said}, rng))
            if turn < TURNS - 1:
                nodes.append(_node(2 * turn + 1, {"role": "user", "content": f"again, {turn}"}, rng))
        trace = {
            "version": 1,
            "id": "trace-NUMBER",
            "task": {"type": "Sums", "key": f"sums-{kind}", "data": {"seed": kind}},
            "nodes": nodes,
            "rewards": {"correct": {"score": kind % 2, "weight": 1.0}},
            "is_completed": True,
            "ok": True,
        }
        yield json.dumps(trace, separators=(",", ":")).encode() + b"\n"


def _node(parent: int | None, message: dict[str, str], rng: random.Random) -> dict[str, Any]:
    written = message["role"] == "assistant"
    tokens = TOKENS if written else 20
    node: dict[str, Any] = {
        "message": message,
        "sampled": written,
        "timestamp": 1763800000.0,
        "token_ids": [rng.randrange(150_000) for _ in range(tokens)],
        "mask": [written] * tokens,
        "logprobs": [-rng.random() for _ in range(tokens)] if written else [],
    }
    return node if parent is None else {"parent": parent, **node}


def _run(command: list[str], until: int | None = None) -> Ran:
    """Run a command to its end, or until it says that so many episodes are imported."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts beside itself ignores it
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        said = b""
        while piece := os.read(process.stdout.fileno(), 65_536):
            said = (said + piece)[-65_536:]
            told = re.findall(rb"(\d+) episodes\n", said)
            if until is not None and told and int(told[-1]) >= until:
                process.send_signal(signal.SIGINT)
                until = None
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Ran(
        process.returncode,
        said.decode(errors="replace"),
        time.monotonic() - began,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss / 1024,
    )


def _check(written: Written, cut: Ran, whole: Ran) -> None:
    """End with a sentence unless each trace is there once and what is wrong was told by its line."""
    found = re.search(r"(\d+) episodes imported, (\d+) were there already; 2 left out", whole.said)
    wrong = [
        sentence
        for sentence, right in {
            f"Ctrl-C ended with exit code {cut.code}": cut.code == 130,
            f"the rest ended with exit code {whole.code}": whole.code == 1,
            "the torn line is not told": f"line {written.torn}: no JSON" in whole.said,
            "the line without a task is not told": f"line {written.bad}: " in whole.said,
            "some traces are missing, or there twice": found is not None
            and int(found[1]) + int(found[2]) == written.lines - 2
            and int(found[2]) > 0,
        }.items()
        if not right
    ]
    if wrong:
        sys.exit(f"benchmarks: {'; '.join(wrong)}: {whole.said[-2_000:]}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.imported", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=0.2, help="size of the file")
    parser.add_argument("--folder", type=Path, help="where it is written")
    asked = parser.parse_args()
    print(HEADER)
    for figure in measure(asked.gigabytes, asked.folder):
        print(figure.row())


if __name__ == "__main__":
    main()
