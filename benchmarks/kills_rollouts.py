"""Prove that kills lose nothing of a fleet: ``python -m benchmarks kills_rollouts``.

``python -m benchmarks.kills_rollouts sessions:200`` makes 200 kills in that part.

A run of ``spectator rollouts run --workers``, its workers, and the server of its environments are killed with
SIGKILL, while they play and while they start. Kills are spread over the whole run: they wait if they are
ahead of the recorded answers and hurry if they are behind. The finished episodes, decisions and rewards are
then compared with those of an undisturbed run; no lease and no place on the server may be left.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.endpoint import scripted_model
from benchmarks.figures import Figure
from spectator.journal.contract import EpisodeFilter, EpisodeSummary
from spectator.journal.sql_journal import SqlJournal

RUN_SHARE: Final = 0.04
"""Share of kills of the run itself; its start takes seconds."""

SERVER_SHARE: Final = 0.04
"""Share of kills of the server of the environments, if there is one."""

SPREAD: Final = 0.95
"""Share of all model answers over which the kills are spread; the rest is played after the last kill."""

DECIDED: Final = """
    SELECT count(*) FROM calls JOIN episodes USING (episode_id)
    WHERE episodes.reason IS NULL OR episodes.reason = 'finished'
"""

PATIENCE_S: Final = 1800.0
"""Most seconds until a run ends, on a loaded machine."""

NO_VERDICT: Final = ("environment_error", "interrupted")
"""Reasons of attempts ended by a kill of the server, or of a worker in the middle of a step on it."""

HALTED: Final = 3
"""Exit code of a run that gave up because too many workers in a row died without progress."""


@dataclass(slots=True)
class Fleet:
    """A run in its own process.

    Args:
        arguments: Arguments of ``spectator rollouts run``, without its folder.
        folder: Its folder.
        server: Server of its environments; ``None`` if they run in process.
    """

    arguments: Sequence[str]
    folder: Path
    server: EnvironmentServer | None = None
    process: subprocess.Popen[bytes] | None = None
    killed: Counter[str] = field(default_factory=Counter)
    halts: int = 0

    def start(self) -> None:
        """Start or resume the run."""
        command = [sys.executable, "-m", "spectator.cli", "rollouts", "run", *self.arguments]
        out = (self.folder.parent / f"{self.folder.name}.log").open("ab")
        with out:
            self.process = subprocess.Popen(
                [*command, "--out", str(self.folder)], stdout=out, stderr=subprocess.STDOUT
            )

    @property
    def decided(self) -> int:
        """Recorded answers of the model, without those of discarded attempts."""
        try:
            with closing(sqlite3.connect(f"file:{self.folder / 'journal.db'}?mode=ro", uri=True)) as database:
                (count,) = database.execute(DECIDED).fetchone()
        except sqlite3.Error:  # not created yet
            return 0
        return int(count)

    @property
    def over(self) -> bool:
        """Whether the run has ended by itself without halting."""
        return self.process is not None and self.process.poll() not in (None, HALTED)

    def victim(self, chance: random.Random) -> str:
        """Draw the next victim."""
        draw = chance.random()
        if self.server is not None and draw < SERVER_SHARE:
            return "server"
        return "run" if draw > 1 - RUN_SHARE else "worker"

    def kill_one(self, victim: str, chance: random.Random) -> bool:
        """Kill the run, the server or a worker; returns whether one was there.

        Run and server are started again.
        """
        assert self.process is not None
        if victim == "server":
            assert self.server is not None
            self.server.kill()
            self.server.start()
        elif victim == "run":
            self.process.kill()
            self.process.wait()
            self.start()
        else:
            workers = children(self.process.pid)
            if not (workers and end(chance.choice(workers))):
                return False
        self.killed[victim] += 1
        return True

    def go_on_if_halted(self) -> None:
        """Give the command again if the run halted."""
        if self.process is not None and self.process.poll() == HALTED:
            self.halts += 1
            self.start()

    def kill_for_good(self) -> None:
        """Kill the run if it is still running."""
        if self.process is not None and not self.over:
            self.process.kill()
            self.process.wait()

    def finish(self) -> int:
        """Wait for the end; returns the exit code."""
        assert self.process is not None
        self.process.wait(PATIENCE_S)
        self.go_on_if_halted()
        return self.process.wait(PATIENCE_S)


@dataclass(slots=True)
class EnvironmentServer:
    """A pooled server of environments in its own process, always at the same address.

    Args:
        places: Environments at once.
        turns: Questions in each.
    """

    places: int
    turns: int
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address of its environment."""
        return f"http://127.0.0.1:{self.port}/qa"

    def start(self) -> None:
        """Start the server and wait until it listens."""
        if not self.port:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
        settings = [str(self.port), str(self.places), str(self.turns), "0.01"]
        self.process = subprocess.Popen([sys.executable, "-m", "tests.rollouts.pooled_server", *settings])
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/envs", timeout=5).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("the server of the environments did not start in 60 s")

    @property
    def held(self) -> int:
        """Environments that were opened there and not released."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/held", timeout=60) as answer:
            return int(json.load(answer))

    def kill(self) -> None:
        """Kill the server."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def children(pid: int) -> list[int]:
    """Return the processes that ``pid`` started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def end(pid: int) -> bool:
    """Kill a process; returns whether it was there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


async def outcome(folder: Path) -> tuple[str, int]:
    """Return a digest of a run's finished decisions and rewards, and their number.

    Raises:
        RuntimeError: An attempt has an unexpected reason, or a lease is left.
    """
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
    finished: list[str] = []
    wrong: Counter[str] = Counter()
    try:
        before = None
        while page := await journal.episodes(EpisodeFilter(limit=500, before=before)):
            before = page[-1].episode_id
            for summary in page:
                if summary.reason == "finished":
                    finished.append(await _decisions(journal, summary))
                elif summary.reason not in NO_VERDICT:
                    wrong[str(summary.reason)] += 1
        left = len(await journal.leases())
    finally:
        await journal.aclose()
    if wrong or left:
        raise RuntimeError(f"{left} leases are left; attempts without a verdict: {dict(wrong)}")
    return sha256("\n".join(sorted(finished)).encode()).hexdigest(), len(finished)


async def _decisions(journal: SqlJournal, summary: EpisodeSummary) -> str:
    made = [one.event.data for one in await journal.read(summary.episode_id) if one.type == "decision.made"]
    actions = [[one["actor"], one["source"], one["action"]] for one in made]
    return json.dumps([summary.group_id, summary.seed, summary.score, actions], sort_keys=True)


def disturb(fleet: Fleet, answers: int, kills: int, every_s: float, chance: random.Random) -> int:
    """Kill ``kills`` times while ``fleet`` plays; returns the number of kills made.

    Args:
        fleet: The run.
        answers: Model answers of the whole run.
        kills: Number of kills.
        every_s: Mean seconds between two kills if they are on schedule.
        chance: Draws times and victims.
    """
    fleet.start()
    ahead, victim = 1.0, fleet.victim(chance)
    while (done := fleet.killed.total()) < kills and not fleet.over:
        time.sleep(chance.uniform(0.0, 2 * every_s * min(1.0, ahead)))
        fleet.go_on_if_halted()
        ahead = (done + 1) / kills / max(1 / kills, fleet.decided / (SPREAD * answers))
        if ahead <= 1.0 and not fleet.over and fleet.kill_one(victim, chance):
            victim = fleet.victim(chance)
    return fleet.killed.total()


def compare(
    arguments: Sequence[str],
    episodes: int,
    kills: int,
    *,
    every_s: float,
    seed: int = 1,
    server: EnvironmentServer | None = None,
    latency_s: float = 0.02,
) -> tuple[Fleet, float]:
    """Play a run undisturbed and once with kills; returns the latter and its seconds.

    Args:
        arguments: Arguments of ``spectator rollouts run``, without model, folder and number of episodes.
        episodes: Episodes in all.
        kills: Number of kills.
        every_s: Mean seconds between two kills; less if they are behind schedule.
        seed: Seed of times and victims.
        server: Server of the environments; ``None`` if they run in process.
        latency_s: Seconds of a model answer.

    Raises:
        RuntimeError: The runs differ, a place is left on the server, or not all kills were made.
    """
    with TemporaryDirectory(prefix="spectator-kills-") as data, scripted_model(latency_s) as base_url:
        asked = [*arguments, "--base-url", base_url, "--model", "scripted", "--episodes", str(episodes)]
        asked += ["--attempts", "100", "--workers", "2", "--startup-jitter", "0"]
        folder = Path(data)
        whole, killed = Fleet(asked, folder / "whole"), Fleet(asked, folder / "killed", server)
        try:
            if server is not None:
                server.start()
                asked += ["--env", server.url]
            whole.start()
            codes = [whole.finish()]
            began = time.monotonic()
            done = disturb(killed, whole.decided, kills, every_s, random.Random(seed))
            codes.append(killed.finish())
            took_s = time.monotonic() - began
            held = 0 if server is None else server.held
        finally:
            for fleet in (whole, killed):
                fleet.kill_for_good()
            if server is not None:
                server.kill()
        if codes != [0, 0] or done < kills or held:
            log = (folder / "killed.log").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"exit codes {codes}, {done} of {kills} kills, {held} places held: {log}")
        unbroken, broken = (asyncio.run(outcome(folder / name)) for name in ("whole", "killed"))
        if unbroken != broken or unbroken[1] != episodes:
            raise RuntimeError(f"unbroken {unbroken}, killed {broken}, asked for {episodes}")
    return killed, took_s


def _figure(name: str, episodes: int, fleet: Fleet, took_s: float) -> Figure:
    what = ", ".join(f"{count} {victim}" for victim, count in sorted(fleet.killed.items()))
    value = f"{episodes:,} finished, equal digests, in {took_s:,.0f} s; killed: {what}"
    if fleet.halts:
        value += f"; halted and restarted: {fleet.halts}"
    return Figure(f"{name}, kill -9 {fleet.killed.total():,} times", value, "equal to an unbroken run", "-")


def sessions(kills: int = 1000, episodes: int = 512, *, every_s: float = 0.5) -> Figure:
    """Kill a run on a pooled server, its workers and that server."""
    server = EnvironmentServer(places=32, turns=12)
    killed, took_s = compare(
        ["--concurrency", "32", "--group-size", "8", "--env-wait", "600"],
        episodes, kills, every_s=every_s, server=server, latency_s=0.1,
    )  # fmt: skip
    return _figure(f"{episodes} sessions on a server of environments", episodes, killed, took_s)


def cricket(kills: int = 100, episodes: int = 2000, *, every_s: float = 2.0) -> Figure:
    """Kill a run of short cricket matches and its workers."""
    killed, took_s = compare(
        [
            "--env", "cricket", "--option", "max_overs=1", "--option", "decisions=over",
            "--concurrency", "64", "--group-size", "8",
        ],
        episodes, kills, every_s=every_s,
    )  # fmt: skip
    return _figure(f"{episodes:,} cricket episodes of one over", episodes, killed, took_s)


PARTS: Final[Mapping[str, Callable[..., Figure]]] = {"sessions": sessions, "cricket": cricket}


def measure() -> Iterator[Figure]:
    """Yield the figures."""
    for part in PARTS.values():
        yield part()


if __name__ == "__main__":
    for wanted in sys.argv[1:] or PARTS:
        part, _, kills = wanted.partition(":")
        print((PARTS[part](int(kills)) if kills else PARTS[part]()).row(), flush=True)
