"""`spectator play --environment-url`: an environment on a server that is a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import spectator
from tests.serving import serve_process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that runs as a process of its own."""
    with serve_process(tmp_path_factory.mktemp("server")) as running:
        yield running.base_url


def test_an_episode_is_played_recorded_and_verified(server: str, tmp_path: Path) -> None:
    url = f"{server}/envs/cricket"
    kept = ("--data-dir", str(tmp_path))
    played = spectator("play", "--environment-url", url, "--seed", "3", "--option", "max_overs=1", *kept)
    events = [json.loads(line) for line in played.stdout.splitlines()]
    assert events[0]["data"]["environment"] == "remote"
    assert events[0]["data"]["title"] == "cricket"
    assert events[0]["data"]["options"] == {"max_overs": 1}
    assert events[-1]["type"] == "episode.ended", played.stderr
    assert "remote.observed" in {event["type"] for event in events}
    episode = events[0]["episode_id"]
    verified = spectator("verify", episode, *kept, "--environment-url", url)
    assert verified.exit_code == 0, verified.output
    assert "every event matches the replay of its seed and decisions" in verified.stdout
    alone = spectator("verify", episode, *kept)
    assert alone.exit_code == 1 and "--chain-only" in alone.stderr


def test_an_episode_that_the_server_cuts_short_says_so(server: str) -> None:
    url = f"{server}/envs/counting"
    played = spectator("play", "--environment-url", url, "--seed", "1", "--option", "turns=2")
    end = json.loads(played.stdout.splitlines()[-1])["data"]
    assert (end["reason"], end["detail"]) == ("step_cap", "cut short after 104 turns"), "words do not count"
    assert played.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["counting", "--environment-url", "http://127.0.0.1:1"], "not both"),
        (["--environment-url", "http://127.0.0.1:1"], "cannot read"),
        (["--environment-url", "nowhere"], "is not a URL of a server"),
        (["--environment-url", "http://127.0.0.1:1/x", "--environment-protocol", "http"], "ENV_NAME/ENV_ID"),
        (["--environment-url", "http://127.0.0.1:1", "--environment-protocol", "smtp"], "smtp"),
    ],
)
def test_what_cannot_be_played_is_said(arguments: list[str], said: str) -> None:
    result = spectator("play", *arguments)
    assert result.exit_code != 0
    assert said in result.stderr + str(result.exception)


def test_a_server_that_refuses_the_options_ends_the_episode(server: str) -> None:
    url = f"{server}/envs/counting"
    played = spectator("play", "--environment-url", url, "--option", "tern=2")
    end = json.loads(played.stdout.splitlines()[-1])["data"]
    assert end["reason"] == "environment_error"
    assert "rejects these options" in end["detail"] and "tern" in end["detail"]
    assert end["failure_class"] == "env_infra"


def test_an_openenv_server_is_not_a_rollout_server(server: str) -> None:
    url = f"{server}/envs/counting"
    played = spectator("play", "--environment-url", url, "--environment-protocol", "http")
    end = json.loads(played.stdout.splitlines()[-1])["data"]
    assert end["reason"] == "environment_error" and end["failure_class"] == "env_infra"
