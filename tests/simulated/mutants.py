"""Faults planted in the concurrent parts, one at a time: ``python -m tests.simulated.mutants [DAYS] [FROM]``.

Each is a copy of the package with one line changed. The simulated days have to notice: a mutant that lives
tells of something that they do not look at.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted fault.

    Args:
        where: File, under ``spectator/``; one of the server's begins with ``server/``.
        was: What stands there, once.
        now: What stands there instead.
        same: Why nobody could notice, where the change is none in what is recorded and sent.
    """

    where: str
    was: str
    now: str
    same: str = ""


STREAM, DERIVED = "episodes/stream.py", "episodes/derived_stream.py"
UNRECORDED = "episodes/unrecorded_steps.py"
RECORDER, WRITER = "episodes/stream.py", "journal/writer.py"
HANDLE, SUPERVISOR = "episodes/handle.py", "episodes/supervisor.py"
DRIVER, RESTORE = "episodes/driver.py", "episodes/restore.py"
RECOVERY, BUS = "episodes/recovery.py", "bus.py"
FEED, VIEWER = "server/viewers/feed.py", "server/viewers/viewer.py"
CONNECTION = "server/transport/connection.py"

MUTANTS: Final = (
    Mutant(
        STREAM,
        "        async with self._order:\n            if self.ended:",
        "        if True:\n            if self.ended:",
    ),
    Mutant(STREAM, "await whole(self._emit(", "await (self._emit("),
    Mutant(
        STREAM,
        "        self.state, self.head_seq, self.ended = view.state, view.seq, ends\n        self._bus",
        "        self._bus",
    ),
    Mutant(
        STREAM, "            if self.head_seq == 0 and facts", "            if self.head_seq < 0 and facts"
    ),
    Mutant(DERIVED, "(beginning := self._begin_view()) and", "(beginning := []) and"),
    Mutant(DERIVED, "        async with self._showing:", "        if True:"),
    Mutant(UNRECORDED, "self._set_steps(self.steps[len(steps) :])", "self._set_steps([])"),
    Mutant(DERIVED, "            await self._publish(events)\n", ""),
    Mutant(
        DERIVED,
        "            await asyncio.shield(self._start_recording())\n            self._raise_failure()",
        "            self._start_recording()\n            break",
    ),
    Mutant(
        RECORDER, "            hurried = self._hurried and not last", "            hurried = self._hurried"
    ),
    Mutant(RECORDER, "math.inf if last and self._patience_s > 0 else self._patience_s", "0.0"),
    Mutant(RECORDER, "0.0 if not patient or self._closed", "0.0 if self._closed"),
    Mutant(
        WRITER, "            self._heads.pop(episode_id, None)\n", "            self._heads.update(heads)\n"
    ),
    Mutant(
        WRITER,
        "        answer_all([append.done for append in group], error)",
        "        answer_all([group[0].done], error)",
    ),
    Mutant(
        HANDLE,
        "                except EpisodeError:\n                    self._hold(False)\n",
        "                except EpisodeError:\n",
    ),
    Mutant(
        HANDLE,
        "await self._stream.emit(self.turn, [resumed], patient=False)\n                self._hold(False)",
        "self._hold(False)",
    ),
    Mutant(
        HANDLE,
        "            self._started.set_exception(error)\n            await self._driver.let_go()",
        "            await self._driver.let_go()",
    ),
    Mutant(
        DRIVER,
        "self.control.play_on())\n        self._turn += 1\n",
        "self.control.play_on())\n        self._turn += self.control.held + 1\n",
    ),
    Mutant(RESTORE, "replay.refusals, turn, replay.total", "replay.refusals, turn + 1, replay.total"),
    Mutant(
        BUS,
        "            self._waiting.clear()\n                yield batch",
        "            yield batch\n                self._waiting.clear()",
    ),
    Mutant(FEED, "        viewer.position = head\n", ""),
    Mutant(FEED, "if frame.seq is None or frame.seq > viewer.position]", "]"),
    Mutant(
        FEED, "            await self._send_missing(live.episode_id, asked.seq, head)\n", "            pass\n"
    ),
    Mutant(
        VIEWER, "self.caught_up and (batch.first is None or batch.first > self.position)", "self.caught_up"
    ),
    Mutant(
        VIEWER,
        "not self.over and not self._evicted and self._transport.writable()",
        "not self._evicted and self._transport.writable()",
        same="nothing is published after the end that could be written at once",
    ),
    Mutant(VIEWER, "        self._backlog.extend(batch.frames)\n", ""),
    Mutant(
        CONNECTION,
        "        self._drained = None\n        self.wake()\n",
        "        self._drained = None\n",
        same="the next frame goes through the backlog, which wakes the feed, and waits for nothing",
    ),
)


def planted(mutant: Mutant, root: Path) -> str | None:
    """The file with the fault in it; ``None`` if its place is not there, or not once."""
    text = path_of(mutant, root).read_text(encoding="utf-8")
    return text.replace(mutant.was, mutant.now) if text.count(mutant.was) == 1 else None


def path_of(mutant: Mutant, root: Path) -> Path:
    """The file of a mutant in a copy of the project at ``root``."""
    return Path(root, "" if mutant.where.startswith("server/") else "spectator", mutant.where)


def dies(mutant: Mutant, days: int) -> bool | None:
    """Whether the days notice; ``None`` if the code is not there any more."""
    with TemporaryDirectory(prefix="spectator-") as kept:
        for name in ("spectator", "server", "tests/simulated"):
            shutil.copytree(ROOT / name, Path(kept, name), ignore=shutil.ignore_patterns("__pycache__"))
        text = planted(mutant, Path(kept))
        if text is None:
            return None
        path_of(mutant, Path(kept)).write_text(text, encoding="utf-8")
        found = subprocess.run(
            [sys.executable, "-m", "tests.simulated", str(days), "--until-wrong"],
            cwd=kept, env={**os.environ, "PYTHONPATH": kept}, capture_output=True, check=False,
        )  # fmt: skip
    return found.returncode != 0


def _main() -> int:
    days = int(sys.argv[1]) if len(sys.argv) > 1 else 480
    mutants = MUTANTS[int(sys.argv[2]) if len(sys.argv) > 2 else 0 :]
    dead, due = 0, sum(not mutant.same for mutant in mutants)
    for mutant in mutants:
        died = dies(mutant, days)
        dead += died is True and not mutant.same
        told = {True: "died", False: "LIVES", None: "IS NOT THERE"}[died]
        reason = f" ({mutant.same})" if mutant.same else ""
        print(f"{told:12} {mutant.where}: {mutant.was.strip()[:60]!r}{reason}", flush=True)
    beside = len(mutants) - due
    print(f"{dead} of {due} ({dead / due:.0%}) died in {days} days, and {beside} beside them change nothing")
    return 0 if dead == due else 1


if __name__ == "__main__":
    sys.exit(_main())
