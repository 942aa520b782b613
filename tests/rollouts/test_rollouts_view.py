"""What a run of rollouts looks like in a terminal, and what its record tells afterwards."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from rich.console import Console

from spectator.cli.rollouts_view import FleetView
from spectator.clock import SystemClock
from spectator.llm.rate_limits import AdaptiveLimit
from spectator.rollouts.fleet import RunningFleet
from spectator.rollouts.model_seat import ModelOutage
from spectator.runs.actors import Shortage
from spectator.runs.interactor import EpisodeResult, InFlight, RunState
from tests.commands import spectator
from tests.llm.brains import Said, counter
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import Mode
from tests.rollouts.pooled_server import PooledServer
from tests.rollouts.test_fleet import recorded, request
from tests.rollouts.test_remote_fleet import pooled, sayer

NOW = 1000.0


@dataclass
class Shown:
    """As much of an interactor as the view reads."""

    in_flight: list[InFlight]
    workers: int = 8
    drained: int = field(default=0)

    def drain(self) -> None:
        self.drained += 1


def flight(number: int, idle_s: float, **waits: Any) -> InFlight:
    one = InFlight(
        f"ep-01M81XHDHZXQ0HQN83782Z28V{number}", number, NOW - 100, 2, turns=3, moved_s=NOW - idle_s
    )
    one.waits(**waits)
    return one


def running(**changes: Any) -> RunningFleet:
    state = RunState(total=512, over=128, began_s=NOW - 60, settled=120, ended=123, again=2)
    state.ended_turns = 480
    state.turn_times.extend([1.0, 2.0, 3.0])
    state.failures = {"env_infra": 3, "timeout": 1}
    state.rewards, state.turns, state.own = array("d", [1.0, 1.0, 1.0, 0.0] * 30), 600, 594
    state.tokens_in, state.tokens_out = 1_234_567, 45_678
    for name, value in changes.items():
        setattr(state, name, value)
    flights = [
        flight(0, 0.5, waiting_for="model"),
        flight(1, 25.0, waiting_for="environment"),
        flight(2, 25.0, waiting_for="retry", until_s=NOW + 12, why="busy"),
        flight(3, 8.0, waiting_for="place"),
        flight(4, 400.0, waiting_for="retry", until_s=NOW + 1, why="unavailable"),
    ]
    shown: Any = Shown(flights)
    limit, outage = AdaptiveLimit(SystemClock(), start=16), ModelOutage(SystemClock(), random.Random(1), 300)
    return RunningFleet(state, shown, limit, outage)


def drawn(view: FleetView, run: RunningFleet, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    with console.capture() as captured:
        console.print(view.picture(run, NOW, width))
    return [line.rstrip() for line in captured.get().splitlines()]


def a_view() -> FleetView:
    return FleetView(request("http://127.0.0.1:9/v1"), 300.0, 300.0)


@pytest.mark.parametrize("width", [60, 80, 140, 390])
def test_the_picture_says_how_far_how_fast_and_what_the_slowest_wait_for(width: int) -> None:
    lines = drawn(a_view(), running(), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for said in (
        "counting · m-1 · 8 at once",
        "128 of 512 over · 2.05 episodes/s · 10 turns/s · about 3 min left",
        "mean reward 0.75 ± 0.03969 (standard error) of 120 · own share 99 % of 600 decisions",
        "1.23M tokens in, 45.7k out",
        "failed: 3 env_infra, 1 timeout · 2 tried again",
        "at the model: 1 of at most 16 requests · 1 wait for a place · 2 to be sent again",
    ):
        for part in said.split(" · "):
            assert any(part in line for line in lines), f"{part} is torn"
    rows = [line.split() for line in lines if line.startswith("ep-")]
    assert [row[0][-1] for row in rows] == ["4", "1", "2", "3", "0"], "the longest idle first"
    standings = [next(word for word in row if word in ("stalled", "slow", "playing")) for row in rows]
    assert standings == ["stalled", "stalled", "slow", "slow", "playing"], (
        "beyond its deadline; no word for ten times the median; a retry that is due is not stalled"
    )
    assert ("retry after busy in 12 s" in text and "its environment" in text) or width < 80
    assert ("attempt" in text) == (width >= 100)


def test_a_server_that_is_gone_and_an_interrupt_are_said() -> None:
    view, run = a_view(), running(shortage=Shortage("connection refused", NOW - 42))
    view.begin(run)
    view.drain()
    assert any("no further environment now: connection refused" in line for line in drawn(view, run, 80))
    flights: Any = run.interactor.in_flight
    flights.clear()
    outage = run.outage
    assert outage is not None
    outage.since_s, outage.reason = NOW - 30, "the endpoint closed the connection"
    text = " ".join(" ".join(drawn(view, run, 80)).split())
    assert "no model for 30 s (halts after 5 min): the endpoint closed the connection" in text
    assert "no environment for 42 s (halts after 5 min): connection refused" in text
    assert "finishing the running episodes; press Ctrl-C again to leave them" in text


def test_the_time_left_is_told_by_turns_once_the_first_is_over() -> None:
    """Of 64 at once the first that ends says how long one is, and the turns how fast all are."""
    state = RunState(total=500, over=0, began_s=0.0)
    assert state.left_s(30.0, 0) is None
    state.turns = 610
    ended: Any = EpisodeResult("job", "ep-1", None, "finished", 1.0, decisions=10)
    state.take(ended)
    left_s = state.left_s(30.0, under_way=600)
    assert left_s is not None and round(left_s) == round((499 * 10 - 600) / (610 / 30))
    environment_alone = RunState(total=10, over=2, began_s=0.0, settled=2)
    assert environment_alone.left_s(20.0) == 80.0, "without a decision episodes alone are counted"


def test_what_a_server_writes_cannot_paint_the_terminal() -> None:
    run = running(shortage=Shortage("[red]boom[/red]", NOW))
    assert any("[red]boom[/red]" in line for line in drawn(a_view(), run, 140))


def command(base_url: str, out: Path, *more: str) -> list[str]:
    return [
        "rollouts", "run", "--base-url", base_url, "--model", "m-1", "--out", str(out), "--concurrency", "4",
        "--startup-jitter", "0", *more,
    ]  # fmt: skip


def test_a_whole_run_its_status_and_its_exit_code(tmp_path: Path) -> None:
    with endpoint(counter) as fake:
        more = ("--env", "counting", "--option", "turns=2", "--episodes", "6", "--group-size", "3")
        ran = spectator(*command(fake.base_url, tmp_path, *more))
    assert ran.exit_code == 0, ran.output
    assert "6 of 6 episodes are over" in ran.output
    assert "mean reward 1 ± 0 (standard error) of 6 · own share 100 % of 12 decisions\n" in ran.output
    status = spectator("rollouts", "status", str(tmp_path))
    assert (status.exit_code, "6 of 6 over" in status.output) == (0, True)
    assert "groups: 2 complete" in status.output
    assert spectator("rollouts", "failures", str(tmp_path)).output == "no attempt failed\n"


def test_a_run_with_failures_says_which_by_exit_code_and_list(tmp_path: Path) -> None:
    def crash(server: PooledServer, asked: web.Request) -> web.Response | None:
        """Fail in the task that came first, whenever it comes again."""
        seed = server.kept[asked.match_info["env_id"]].seed
        tasks.setdefault("bad", seed)
        return web.Response(status=500, text="crashed") if seed == tasks["bad"] else None

    tasks: dict[str, int] = {}
    server = PooledServer(turns=1, wrong={"step": crash})
    with pooled(server) as url, endpoint(sayer) as fake:
        more = ["--env", f"{url}/qa", "--episodes", "4", "--attempts", "2", "--group-size", "2"]
        more += ["--concurrency", "1"]
        ran = spectator(*command(fake.base_url, tmp_path, *more))
    assert ran.exit_code == 1, ran.output
    assert "4 of 4 episodes are over" in ran.output
    assert "without a verdict: env_infra" in ran.output
    status = spectator("rollouts", "status", str(tmp_path))
    assert (status.exit_code, "env_infra" in status.output, "tried again" in status.output) == (1, True, True)
    assert "1 complete" in status.output and "1 void" in status.output, (
        "who has no verdict makes no group complete"
    )
    failures = spectator("rollouts", "failures", str(tmp_path), "--class", "env_infra").output.splitlines()
    assert len(failures) >= 2
    assert any("tried again" in line and "attempt 1" in line for line in failures)
    assert any("kept" in line and "attempt 2" in line and "500" in line for line in failures)
    other = spectator("rollouts", "failures", str(tmp_path), "--class", "timeout").output
    assert other == "no attempt failed as timeout\n"


def silent(body: Mapping[str, Any]) -> Said:
    return Said(text="I would rather not say.")


@pytest.mark.parametrize("workers", ["0", "1"])
def test_the_same_command_on_a_run_that_failed_fails_again(tmp_path: Path, workers: str) -> None:
    """Nothing was left to play, and it said that all was well."""
    more = ("--env", "counting", "--episodes", "2", "--on-invalid", "end")
    with endpoint(silent) as fake:
        same = command(fake.base_url, tmp_path, *more)
        ran = [spectator(*same), spectator(*same, "--workers", workers)]
    for one in ran:
        assert one.exit_code == 1, one.output
        assert "2 of 2 episodes are over" in one.output
        assert "2 without a verdict: unparsable" in one.output


def test_damaged_statistics_of_a_handler_are_refused_before_anything_is_played(tmp_path: Path) -> None:
    """Each episode failed on them, and was over without a verdict."""
    (tmp_path / "e.json").write_text('[{"id": "a", "text": "b"}]')
    (tmp_path / "experiences.tallies.json").write_text("{")
    more = ("--env", "counting", "--episodes", "2", "--handler", "ucb", "--experiences")
    ran = spectator(*command("http://127.0.0.1:9/v1", tmp_path, *more, str(tmp_path / "e.json")))
    assert ran.exit_code == 1
    assert "damaged statistics" in ran.output + str(ran.exception)
    assert not (tmp_path / "rollouts.json").exists()


def test_a_halted_run_says_why_and_that_it_can_go_on(tmp_path: Path) -> None:
    with endpoint(counter, [Mode.UNAUTHORIZED]) as fake:
        ran = spectator(*command(fake.base_url, tmp_path, "--env", "counting", "--episodes", "3"))
    assert ran.exit_code == 3
    assert "halted:" in ran.output and "run the same command to resume" in ran.output
    assert "3 left to be resumed: model_infra" in ran.output and "without a verdict" not in ran.output
    assert spectator("rollouts", "status", str(tmp_path)).exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("status", "nowhere"), "does not hold a run of rollouts"),
        (("failures", "nowhere", "--class", "time-out"), "is not one of"),
        (("failures", "nowhere"), "does not hold a run of rollouts"),
        (("run", "--episode-timeout", "0"), "--episode-timeout"),
        (("run", "--env-wait", "-1"), "--env-wait"),
        (("run", "--env", "ftp://host"), "neither a world nor an address"),
        (
            ("run", "--episodes", "7", "--group-size", "2"),
            "Error: group_size: episodes (7) must be a multiple of group_size (2), such as 6 or 8",
        ),
        (("run", "--episodes", "3", "--group-size", "8"), "such as 8"),
        (("run", "--handler", "ucb"), "needs --experiences"),
        (("run", "--experiences", __file__), "--experiences needs --handler"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    usual = ("--env", "counting", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--episodes", "2")
    first = (*usual, "--out", str(tmp_path / "new")) if arguments[0] == "run" else ()
    done = spectator("rollouts", arguments[0], *first, *arguments[1:])
    assert done.exit_code != 0
    assert said in done.output + str(done.exception)
    assert not (tmp_path / "new" / "journal.db").exists()


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("signals", "code"), [(["SIGINT"], 130), (["SIGINT", "SIGINT"], 130), (["SIGTERM"], 143)]
)
def test_the_first_interrupt_finishes_what_is_played_the_second_leaves_it(
    tmp_path: Path, signals: list[str], code: int
) -> None:
    with endpoint(counter, [Mode.SLOW] * 100_000, pause_s=0.1) as fake:
        more = ("--env", "counting", "--option", "turns=6", "--episodes", "16")
        words = [sys.executable, "-m", "spectator.cli", *command(fake.base_url, tmp_path, *more)]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ)
        )
        limit = time.monotonic() + 60
        while len(fake.received) < 10 and time.monotonic() < limit:
            time.sleep(0.01)
        for name in signals:
            process.send_signal(signal.Signals[name])
            time.sleep(0.15)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == code, output.decode()
        assert b"interrupted; " in output or code == 143, output.decode()
        assert output.count(b"finishing the running episodes") == ("SIGINT" in signals)
        asked = len(fake.received)
        found = recorded(tmp_path)
        unended = [one for one in found if one.reason is None]
        assert len(found) <= 12, "nothing new was begun"
        if signals == ["SIGINT"]:
            assert not unended and len(found) >= 4, "what was under way came to its end"
        else:
            assert unended, "what was under way is left as it is"
        fake.mode = lambda number: Mode.OK
        done = spectator(*command(fake.base_url, tmp_path, *more))
        assert done.exit_code == 0, done.output
        if signals == ["SIGINT"]:
            assert f"of {16 - len(found)} played now: mean reward 1 ± 0" in done.output
        assert len(fake.received) - asked <= 16 * 6 - 6 * sum(one.reason == "finished" for one in found)
    assert json.loads((tmp_path / "rollouts.json").read_text())["request"]["episodes"] == 16
