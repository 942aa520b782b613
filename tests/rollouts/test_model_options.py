"""The command line of ``rollouts run``: how the model is asked, and who gets the steps."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import Result

from spectator.rollouts.request import read_request
from tests.commands import spectator
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.rollouts.test_fleet import recorded

NOWHERE = ("--base-url", "http://127.0.0.1:9/v1", "--model", "m")

FILE = """
[captains.small]
label = "Small"
base_url = "{url}"
model = "small-1"
temperature = 0.5
max_tokens = 64
tool_choice = "required"
by_session = true
extra = {{ top_p = 0.9, top_k = 20 }}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def rollouts(*arguments: str) -> Result:
    usual = ["--env", "counting", "--option", "turns=2", "--episodes", "2", "--startup-jitter", "0"]
    return spectator("rollouts", "run", *usual, "--out", "run", *arguments)


def test_further_fields_and_the_session_reach_the_endpoint() -> None:
    with endpoint(counter) as fake:
        done = rollouts(
            "--base-url", fake.base_url, "--model", "m", "--extra", "top_p=0.9", "--extra",
            'chat_template_kwargs={"enable_thinking":false}', "--tool-choice", "required", "--by-session",
        )  # fmt: skip
        (body, *_), paths = list(fake.bodies), {one.path for one in fake.received}
    assert done.exit_code == 0, done.output
    assert (body["top_p"], body["tool_choice"]) == (0.9, "required")
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    ids = {one.episode_id for one in recorded(Path("run"))}
    assert len(ids) == 2 and all(any(key in path for key in ids) for path in paths) and len(paths) == 2


def test_an_entry_of_the_captains_file_is_asked_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(counter) as fake:
        Path("captains.toml").write_text(FILE.format(url=fake.base_url))
        monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", "captains.toml")
        done = rollouts("--captain", "small", "--temperature", "1.0", "--extra", "top_k=5")
        (body, *_) = list(fake.bodies)
    assert done.exit_code == 0, done.output
    sent = {
        name: body[name] for name in ("model", "temperature", "max_tokens", "tool_choice", "top_p", "top_k")
    }
    assert sent == {
        "model": "small-1", "temperature": 1.0, "max_tokens": 64, "tool_choice": "required", "top_p": 0.9,
        "top_k": 5,
    }  # fmt: skip
    kept = read_request(Path("run"))[0].model
    assert (kept.label, kept.by_session, kept.stream) == ("Small", True, False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "set --base-url and --model, or --captain"),
        (("--model", "m"), "set --base-url, or --captain"),
        (("--captain", "absent"), "unknown model captain 'llm:absent'; use one of"),
        ((*NOWHERE, "--extra", "top_p"), "'top_p' is not NAME=VALUE"),
        ((*NOWHERE, "--extra", "seed=1"), "seed cannot be set in extra"),
        ((*NOWHERE, "--style", "json", "--tool-choice", "auto"),
         "tool_choice needs the style 'tools', not 'json'"),
        ((*NOWHERE, "--sink", "nowhere:Store"),
         "the sink 'nowhere:Store' cannot be imported"),
        ((*NOWHERE, "--sink", "json:dumps"), "dumps"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_them_is_named(arguments: tuple[str, ...], said: str) -> None:
    done = rollouts(*arguments)
    assert done.exit_code != 0 and said in done.output, done.output


STORE = '''
import json, os

class Store:
    """Appends each step to a file; fails where the file full.txt exists."""

    def __init__(self):
        self.rows = open("steps.jsonl", "a")

    def create_session(self, session):
        if os.path.exists("full.txt"):
            raise OSError("no space left")

    def record_step(self, session, step):
        row = {"session_id": session.session_id, "step_id": step.step_id, "reward": step.step_reward}
        self.rows.write(json.dumps(row) + "\\n")

    def close(self):
        self.rows.close()
'''


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_sink_gets_every_step_and_what_it_missed_later(
    workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("own_store.py").write_text(STORE)
    with endpoint(counter) as fake:
        model = ("--base-url", fake.base_url, "--model", "m", "--workers", workers)
        done = rollouts(*model, "--sink", "own_store:Store")
        rows = [json.loads(line) for line in Path("steps.jsonl").read_text().splitlines()]
        assert done.exit_code == 0, done.output
        assert len({row["session_id"] for row in rows}) == 2 and len(rows) == 4
        Path("full.txt").touch()
        more = rollouts(*model, "--sink", "own_store:Store", "--episodes", "4")
    assert more.exit_code == 0, "a sink costs the run nothing"
    if workers == "0":
        assert "2 of 2 sessions did not reach the sink: create_session: OSError: no space left" in more.output
    Path("full.txt").unlink()
    Path("steps.jsonl").unlink()
    sent = spectator("rollouts", "send", "run", "--sink", "own_store:Store")
    assert sent.exit_code == 0, sent.output
    assert len(Path("steps.jsonl").read_text().splitlines()) == 8
