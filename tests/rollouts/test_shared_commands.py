"""The commands of runs in a database, each a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.commands import spectator
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import FakeModelServer, Mode
from tests.postgres import Cluster
from tests.rollouts.shared_runs import held, summaries
from tests.rollouts.test_shared_runs import until

SPECTATOR = (sys.executable, "-m", "spectator.cli", "rollouts")


@pytest.fixture
def url(postgres: Cluster) -> str:
    return postgres.url(postgres.make())


def asked(fake: FakeModelServer, url: str, *more: str) -> list[str]:
    """The command that begins a run of 12 episodes in groups of 3."""
    return [
        *SPECTATOR, "run", "--env", "counting", "--option", "turns=4", "--base-url", fake.base_url,
        "--model", "m-1", "--episodes", "12", "--group-size", "3", "--concurrency", "3",
        "--startup-jitter", "0", "--journal", url, "--run", "first", *more,
    ]  # fmt: skip


def say(command: Sequence[str], **variables: str) -> Result:
    """Carry out a command in this process."""
    return spectator(*command[3:], env=variables)


def start(command: Sequence[str]) -> subprocess.Popen[str]:
    """Carry out a command in a process of its own."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_run_is_begun_joined_told_and_exported_by_its_name(url: str, tmp_path: Path) -> None:
    with endpoint(counter, [Mode.SLOW], pause_s=0.05) as fake:
        running = subprocess.Popen(
            asked(fake, url), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        until("a question", lambda: len(fake.received) > 3)
        joined = say(
            [*SPECTATOR, "worker", "--run", "first", "--concurrency", "3"], SPECTATOR_JOURNAL_URL=url
        )
        said = running.communicate(timeout=60)
        assert (running.returncode, joined.exit_code) == (0, 0), (said, joined.stderr)
        assert "12 of 12 episodes are over" in said[0]
        assert "12 of 12 episodes are over" in joined.stdout
        assert len(fake.received) == 48
        told = say([*SPECTATOR, "status", "--journal", url, "--run", "first"])
        assert (told.exit_code, "12 of 12 over" in told.stdout) == (0, True), told
        again = say([*SPECTATOR, "worker", "--journal", url])
        assert (again.exit_code, len(fake.received)) == (0, 48)
    failed = say([*SPECTATOR, "failures", "--journal", url, "--run", "first"])
    assert failed.stdout == "no attempt failed\n"
    out = tmp_path / "groups.jsonl"
    exported = say(
        [*SPECTATOR, "export", "--journal", url, "--run", "first", "--format", "groups", "--out", str(out)]
    )
    assert exported.exit_code == 0, exported.stderr
    groups: list[Any] = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(groups) == 4


def test_an_interrupt_lets_what_is_played_end_and_a_second_leaves_it(url: str) -> None:
    with endpoint(counter, [Mode.SLOW], pause_s=0.1) as fake:
        first = start(asked(fake, url))
        until("a question", lambda: len(fake.received) > 3)
        first.send_signal(signal.SIGINT)
        said = first.communicate(timeout=60)
        assert first.returncode == 130, said
        assert [one.reason for one in summaries(url)] == ["finished"] * 3
        second = start(asked(fake, url))
        before = len(fake.received)
        until("a question", lambda: len(fake.received) > before + 3)
        second.send_signal(signal.SIGINT)
        assert second.stderr is not None
        assert second.stderr.readline().startswith("finishing the running episodes")
        second.send_signal(signal.SIGINT)
        said = second.communicate(timeout=60)
        assert second.returncode == 130, said
        assert held(url) == [], "who leaves in order gives its leases back"
        last = say([*SPECTATOR, "worker", "--journal", url, "--concurrency", "9"])
        assert last.exit_code == 0, last.stderr
    assert [one.reason for one in summaries(url)] == ["finished"] * 12


def test_what_is_wrong_is_said_in_one_line_without_the_password(
    postgres: Cluster, url: str, tmp_path: Path
) -> None:
    worker = [*SPECTATOR, "worker", "--run", "first", "--journal"]
    secret = "postgresql://me:hush@127.0.0.1:1/nothing"
    for command, says in (
        ([*worker, secret], "cannot be opened"),
        ([*worker, "postgresql://me:hu@sh@/"], "the journal's URL"),
        ([*worker, f"sqlite:///{tmp_path}/journal.db"], "must be on a database server"),
        ([*SPECTATOR, "worker"], "no journal; set --journal"),
        ([*SPECTATOR, "status"], "give either the run's folder, or --journal URL and --run NAME"),
        ([*SPECTATOR, "status", "--journal", url], "--journal needs --run NAME"),
        ([*SPECTATOR, "status", "--journal", url, "--run", "first"], "there is no journal at"),
    ):
        told = say(command)
        assert told.exit_code in (1, 2), (command, told)
        assert says in told.stderr, (command, told.stderr)
        assert "hush" not in told.stderr
        assert "Traceback" not in told.stderr


def test_options_of_one_machine_are_refused_for_a_run_of_many(url: str, tmp_path: Path) -> None:
    experiences = tmp_path / "experiences.json"
    experiences.write_text("[]")
    with endpoint(counter) as fake:
        for option in (("--workers", "2"), ("--handler", "ucb", "--experiences", str(experiences))):
            told = say(asked(fake, url, *option))
            assert (told.exit_code, f"{option[0]} is for runs in a folder" in told.stderr) == (2, True)
        folder = [*asked(fake, url)[:-4], "--max-in-flight", "3"]
        told = say(folder)
        assert (told.exit_code, "--max-in-flight is for runs in a database" in told.stderr) == (2, True)
        told = say(asked(fake, url)[:-2])
        assert (told.exit_code, "--journal needs --run NAME" in told.stderr) == (2, True)
        told = say([*SPECTATOR, "worker", "--journal", url])
        assert (told.exit_code, "this database does not hold a run" in told.stderr) == (1, True)


def test_a_database_that_goes_away_is_a_sentence_and_the_rest_is_played_later(
    url: str, postgres: Cluster
) -> None:
    """A key that is missing, too: the run names its variable, and every worker reads its own."""
    with endpoint(counter) as fake:
        told = say(asked(fake, url, "--api-key-env", "KEY_OF_NOBODY"))
        assert (told.exit_code, "there is no key in the variable KEY_OF_NOBODY" in told.stderr) == (1, True)
        told = say([*SPECTATOR, "worker", "--journal", url])
        assert (told.exit_code, "there is no key in the variable KEY_OF_NOBODY" in told.stderr) == (1, True)
        told = say([*SPECTATOR, "worker", "--journal", url], KEY_OF_NOBODY="sk-1")
        assert told.exit_code == 0, told.stderr
        assert {one.headers.get("authorization") for one in fake.received} == {"Bearer sk-1"}
