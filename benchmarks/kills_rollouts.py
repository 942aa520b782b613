"""The proof that no death robs a fleet: ``python -m benchmarks kills_rollouts`` kills at random moments.

``python -m benchmarks.kills_rollouts sessions:200`` kills 200 times in that part.

A run of ``spectator rollouts run --workers`` is killed, its workers, and the server of its environments, by
SIGKILL, while it plays and while it starts. Kills are spread over the whole run: where they are ahead of what
is recorded they wait, where they are behind they hurry. The finished episodes, what they decided and earned,
are then compared with those of a run that nobody disturbed; no lease may be left, and no place on the server.
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

from benchmarks.figures import Figure
from benchmarks.scripted_model import scripted_model
from spectator.journal.contract import EpisodeFilter, EpisodeSummary
from spectator.journal.sql_journal import SqlJournal

RUN_SHARE: Final = 0.04
"""Share of the kills that hit the run itself; its start takes seconds."""

SERVER_SHARE: Final = 0.04
"""Share that hit the server of the environments, where there is one."""

SPREAD: Final = 0.95
"""Share of all answers of the model over which the kills are spread; the rest is played after the last."""

DECIDED: Final = """
    SELECT count(*) FROM calls JOIN episodes USING (episode_id)
    WHERE episodes.reason IS NULL OR episodes.reason = 'finished'
"""

PATIENCE_S: Final = 1800.0
"""How long a run may take to be over, on a machine that does much else."""

NO_VERDICT: Final = ("environment_error", "interrupted")
"""How attempts may end that a death ended: the server's, or the worker's in the middle of a step there."""

HALTED: Final = 3
"""Exit code of a run that gave up: so many of its workers died in a row that nothing got any further."""


@dataclass(slots=True)
class Fleet:
    """A run in a process of its own, with what it needs.

    Args:
        arguments: Of ``spectator rollouts run``, without its folder.
        folder: Its folder.
        server: Serves its environments; ``None`` where they are the run's own.
    """

    arguments: Sequence[str]
    folder: Path
    server: EnvironmentServer | None = None
    process: subprocess.Popen[bytes] | None = None
    killed: Counter[str] = field(default_factory=Counter)
    halts: int = 0

    def start(self) -> None:
        """Start it, or go on with it."""
        command = [sys.executable, "-m", "spectator.cli", "rollouts", "run", *self.arguments]
        out = (self.folder.parent / f"{self.folder.name}.log").open("ab")
        with out:
            self.process = subprocess.Popen(
                [*command, "--out", str(self.folder)], stdout=out, stderr=subprocess.STDOUT
            )

    @property
    def decided(self) -> int:
        """Answers of the model that are recorded, but for those of attempts that came to nothing."""
        try:
            with closing(sqlite3.connect(f"file:{self.folder / 'journal.db'}?mode=ro", uri=True)) as database:
                (count,) = database.execute(DECIDED).fetchone()
        except sqlite3.Error:  # it is not there yet
            return 0
        return int(count)

    @property
    def over(self) -> bool:
        """Whether it has ended by itself, and not halted."""
        return self.process is not None and self.process.poll() not in (None, HALTED)

    def victim(self, chance: random.Random) -> str:
        """Draw what is killed next."""
        draw = chance.random()
        if self.server is not None and draw < SERVER_SHARE:
            return "server"
        return "run" if draw > 1 - RUN_SHARE else "worker"

    def kill_one(self, victim: str, chance: random.Random) -> bool:
        """Kill the run, the server or a worker; whether one was there. The first two are started again."""
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
        """Give the same command again, where the run gave up."""
        if self.process is not None and self.process.poll() == HALTED:
            self.halts += 1
            self.start()

    def kill_for_good(self) -> None:
        """Kill the run, should it still go on."""
        if self.process is not None and not self.over:
            self.process.kill()
            self.process.wait()

    def finish(self) -> int:
        """Wait for its end; its exit code."""
        assert self.process is not None
        self.process.wait(PATIENCE_S)
        self.go_on_if_halted()
        return self.process.wait(PATIENCE_S)


@dataclass(slots=True)
class EnvironmentServer:
    """A pooled server of environments, in a process of its own, always at the same address.

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
        """Start it, and wait until it listens."""
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
        raise RuntimeError("the server of the environments did not start")

    @property
    def held(self) -> int:
        """Environments that were begun there and not given back."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/held", timeout=60) as answer:
            return int(json.load(answer))

    def kill(self) -> None:
        """Kill it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def children(pid: int) -> list[int]:
    """The processes that ``pid`` started."""
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
    """Kill a process; whether it was there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


async def outcome(folder: Path) -> tuple[str, int]:
    """What a run came to: a digest of what was decided and earned in its finished episodes, and how many.

    Raises:
        RuntimeError: A death left a verdict, an episode finished twice, or a lease is left.
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
                    finished.append(await _told(journal, summary))
                elif summary.reason not in NO_VERDICT:
                    wrong[str(summary.reason)] += 1
        left = len(await journal.leases())
    finally:
        await journal.aclose()
    if wrong or left:
        raise RuntimeError(f"{left} leases are left, and ends that are no verdict: {dict(wrong)}")
    return sha256("\n".join(sorted(finished)).encode()).hexdigest(), len(finished)


async def _told(journal: SqlJournal, summary: EpisodeSummary) -> str:
    made = [one.event.data for one in await journal.read(summary.episode_id) if one.type == "decision.made"]
    actions = [[one["actor"], one["source"], one["action"]] for one in made]
    return json.dumps([summary.group_id, summary.seed, summary.score, actions], sort_keys=True)


def disturb(fleet: Fleet, answers: int, kills: int, every_s: float, chance: random.Random) -> int:
    """Kill ``kills`` times while ``fleet`` plays; how often it could be done before it was over.

    Args:
        fleet: The run.
        answers: Of the model, that the whole run needs.
        kills: How often something is killed.
        every_s: Mean seconds between two kills, where they are neither ahead nor behind.
        chance: Draws the moments and the victims.
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
    """Play a run twice, once undisturbed; the other one, and the seconds that it took.

    Args:
        arguments: Of ``spectator rollouts run``, without model, folder and number of episodes.
        episodes: Episodes in all.
        kills: How often something is killed.
        every_s: Mean seconds between two kills; fewer where they are behind the answers that are recorded.
        seed: Of the moments and the victims.
        server: Serves the environments; ``None`` where they are the run's own.
        latency_s: What an answer of the model takes.

    Raises:
        RuntimeError: The two are not equal, a place is left on the server, or not all kills could be done.
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
        value += f"; halted and told to go on: {fleet.halts}"
    return Figure(f"{name}, kill -9 {fleet.killed.total():,} times", value, "equal to an unbroken run", "-")


def sessions(kills: int = 1000, episodes: int = 512, *, every_s: float = 0.5) -> Figure:
    """Sessions on a pooled server: the run, its workers and that server are killed."""
    server = EnvironmentServer(places=32, turns=12)
    killed, took_s = compare(
        ["--concurrency", "32", "--group-size", "8", "--env-wait", "600"],
        episodes, kills, every_s=every_s, server=server, latency_s=0.1,
    )  # fmt: skip
    return _figure(f"{episodes} sessions on a server of environments", episodes, killed, took_s)


def cricket(kills: int = 100, episodes: int = 2000, *, every_s: float = 2.0) -> Figure:
    """Short cricket matches: the run and its workers are killed."""
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
    """The figures."""
    for part in PARTS.values():
        yield part()


if __name__ == "__main__":
    for wanted in sys.argv[1:] or PARTS:
        part, _, kills = wanted.partition(":")
        print((PARTS[part](int(kills)) if kills else PARTS[part]()).row(), flush=True)
