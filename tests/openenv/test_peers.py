"""The official packages against our server: OpenEnv's client, validator and graders, and MCP's client."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from server.settings import Settings
from spectator import __version__
from spectator.episodes.single_agent import SingleAgent
from tests.openenv import probe
from tests.openenv.conftest import RunPeer
from tests.serving import ROOT, Serving, serve, test_settings

pytestmark = pytest.mark.openenv

SESSIONS = 32
SERVED = ("", "/envs/counting", "/envs/cricket")


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with room for just as many as the crowd."""
    data_dir = tmp_path_factory.mktemp("data")
    with serve(test_settings(data_dir, openenv_max_sessions=SESSIONS)) as running:
        yield running


@pytest.fixture(scope="module")
def cricket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server as it is by default."""
    default = Settings().environment
    with serve(test_settings(tmp_path_factory.mktemp("data"), environment=default)) as running:
        yield running


@pytest.fixture(scope="module")
def told(run_peer: RunPeer, serving: Serving) -> Any:
    """What the official client met with."""
    return run_peer("peer_client.py", serving.base_url, str(SESSIONS))


def test_the_official_client_plays_a_whole_match(told: Any, serving: Serving) -> None:
    seen, states = told["match"]["seen"], told["match"]["states"]
    assert [one["done"] for one in seen] == [False] * (len(seen) - 1) + [True]
    assert [one["reward"] for one in seen[:-1]] == [0.0] * (len(seen) - 1)
    assert 0.0 <= seen[-1]["reward"] <= 1.0
    assert seen[-1]["reward"] == seen[-1]["observation"]["metadata"]["rubric"]["score"]
    assert [state["step_count"] for state in states] == list(range(len(states)))
    assert {state["episode_id"] for state in states} == {"match"}
    assert states[-1]["result"]
    assert not any(one["observation"]["refused"] for one in seen)
    schemas = serving.client.get("/envs/cricket/schema").json()
    observation, state = (Draft202012Validator(schemas[name]) for name in ("observation", "state"))
    for one in seen:
        observation.validate({**one["observation"], "reward": one["reward"], "done": one["done"]})
    for one in states:
        state.validate(one)


def test_a_crowd_of_official_clients_each_has_its_own_environment(told: Any) -> None:
    counts = told["crowd"]["counts"]
    assert len(counts) == SESSIONS
    for number, count in enumerate(counts):
        assert count["state"]["episode_id"] == f"count-{number}"
        assert count["state"]["step_count"] == len(count["rewards"]) == 10 + number
        assert count["state"]["correct"] == 10 + number - number % 2
        assert sum(count["rewards"]) == count["rewards"][-1] == (number + 1) % 2


def test_the_official_client_is_told_when_there_is_no_room(told: Any) -> None:
    assert "CAPACITY_REACHED" in told["crowd"]["refusal"]
    assert told["crowd"]["again"]["rewards"][-1] == 1.0


def test_the_official_client_understands_our_errors(told: Any) -> None:
    errors = told["errors"]
    assert len(errors) == 5
    for error, code, word in zip(
        errors,
        ("EXECUTION_ERROR", "VALIDATION_ERROR", "VALIDATION_ERROR"),
        ("reset first", "seed", "bogus"),
        strict=False,
    ):
        assert code in error
        assert word in error
    assert errors[-2:] == ["0", "action.shape"]


def test_the_graders_of_the_validator_find_nothing(run_peer: RunPeer, cricket: Serving) -> None:
    graded = run_peer("peer_graders.py", cricket.base_url, str(ROOT))
    assert graded["failure"] is None
    assert graded["results"] == {
        name: ["pass", ["observed runtime contract holds"]]
        for name in ("runtime.reward_well_formed", "runtime.observation_schema", "runtime.state_contract")
    }
    assert graded["done"] is True, (
        "write the probe again: python -m tests.openenv.probe > validation/runtime.json"
    )


def test_the_probe_is_the_one_that_its_script_writes() -> None:
    assert (ROOT / "validation" / "runtime.json").read_text() == probe.text()
    assert json.loads(probe.text()) == probe.plan()


def test_the_probe_comes_to_the_end_of_its_match_whatever_its_balls_bring() -> None:
    agent = SingleAgent(Settings().environment)
    for seed in range(8):
        agent.reset(seed, options=probe.plan()["reset"]["options"])
        seen = [agent.step(action) for action in probe.plan()["actions"]]
        assert seen[-1].done, seed
        assert not all(one.refused for one in seen)


@pytest.fixture(scope="module")
def validated(run_peer: RunPeer, serving: Serving, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the official command line answers for each server, and for this checkout.

    For a copy without virtual environments, whose links the validator does not follow.
    """
    left_out = shutil.ignore_patterns(
        ".git", ".venv*", "*.egg-info", "__pycache__", ".*_cache", "build", "/data"
    )
    tree = shutil.copytree(ROOT, tmp_path_factory.mktemp("copy") / "tree", ignore=left_out)
    lines = [["validate", str(tree), "--level", "static", "--skip-build", "--json"]]
    lines += [["validate", "--url", serving.base_url + path, "--json"] for path in SERVED]
    return run_peer("peer_commands.py", json.dumps(lines))


def test_the_validator_passes_the_tree(validated: Any) -> None:
    done = validated[0]
    report = json.loads(done["stdout"])
    assert {one["check_id"]: one["status"] for one in report["results"]} == {"static.manifest": "pass"}
    assert (done["exit_code"], report["verdict"]) == (0, "pass")


@pytest.mark.parametrize("path", SERVED)
def test_the_validator_passes_the_running_server(validated: Any, path: str) -> None:
    done = validated[1 + SERVED.index(path)]
    assert done["exit_code"] == 0, done
    report = json.loads(done["stdout"])
    assert [one["id"] for one in report["criteria"] if not one["passed"]] == []
    assert len(report["criteria"]) >= 6


def test_the_older_checks_of_hubs_miss_nothing_but_the_lock(openenv_python: str) -> None:
    code = (
        "import json, pathlib, sys; from openenv.cli import _validation;"
        "print(json.dumps(_validation.validate_multi_mode_deployment(pathlib.Path(sys.argv[1]))[1]))"
    )
    command = [openenv_python, "-c", code, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=True)
    assert [issue for issue in json.loads(done.stdout) if "uv.lock" not in issue] == []


def test_the_client_of_the_model_context_protocol_plays(run_peer: RunPeer, serving: Serving) -> None:
    told = run_peer("peer_mcp.py", f"{serving.base_url}/mcp")
    assert (told["server"], told["tools"]) == ("counting", ["start_episode", "say"])
    assert told["after"] == told["tools"]
    assert told["schema"]["required"] == ["text"]
    assert told["session_id"]
    assert told["refused"] is True
    assert told["errors"] == [False] * 10
    assert told["last"]["reward"] == 1.0
    assert told["last"]["done"] is True
    assert told["text"] == told["last"]


def test_other_clients_play_whole_matches_and_list_the_tools_once(
    run_peer: RunPeer, serving: Serving
) -> None:
    told = run_peer("peer_clients.py", serving.base_url)
    mcp, harness = told["fastmcp"], told["harness"]
    assert mcp["listed"] == ["start_episode", *harness["listed"]]
    assert (mcp["done"], mcp["refused"], mcp["late_refused"]) == (True, 0, True)
    assert (harness["done"], harness["refused"]) == (True, 0)
    assert mcp["calls"] == harness["calls"]
    assert mcp["reward"] == mcp["value"] == mcp["late"] == harness["reward"] == harness["last"]
    assert 0.0 < mcp["reward"] <= 1.0


# What the files say agrees with what the server does


def yaml_lines(path: Path) -> dict[str, str]:
    """The plain top-level entries of a YAML file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line[:1].isalpha() and ": " in line)


def test_the_manifest_agrees_with_the_server(cricket: Serving) -> None:
    manifest = yaml_lines(ROOT / "openenv.yaml")
    metadata = cricket.client.get("/metadata").json()
    assert manifest["name"] == metadata["name"] == Settings().environment
    assert manifest["version"] == __version__
    assert manifest["app"] == "server.app:app"
    assert int(manifest["port"]) == Settings().port == 8000
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__
    assert project["scripts"]["server"].endswith("server.app:main")
