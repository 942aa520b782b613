"""Situations, decisions and rewards on every way in: HTTP, OpenEnv, the commands `play` and `evaluate`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from spectator.environments.cricket import WORLD
from tests.commands import spectator
from tests.openenv.conftest import open_client
from tests.serving import Serving, serve, test_settings

PACK: Final = "varied"
SEED: Final = WORLD.packs[PACK].seeds[0]
WAYS: Final = [("over", "decision_value"), ("session", "result")]
"""How much a decision covers, and what is rewarded."""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serve(test_settings(tmp_path_factory.mktemp("ways"), environment="cricket")) as running:
        yield running


def asked(decisions: str, reward: str) -> dict[str, Any]:
    return {"decisions": decisions, "reward": reward, "max_overs": 2}


def on_the_command_line(command: str, decisions: str, reward: str, *arguments: str) -> str:
    options = [f"--option={name}={value}" for name, value in asked(decisions, reward).items()]
    done = spectator(command, "cricket", "--pack", PACK, *options, *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def world_events(events: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What the world told, without who plays and when."""
    return [[one["type"], one["data"]] for one in events if one["type"].startswith("cricket.")]


def has_all_of_it(events: Sequence[Mapping[str, Any]], decisions: str, reward: str) -> None:
    """The options are recorded, the situation is told, orders are given and the rewards are of the kind."""
    started, arranged = events[0]["data"], world_events(events)[0][1]
    recorded = {name: started["options"][name] for name in asked(decisions, reward)}
    assert recorded == asked(decisions, reward) and started["pack"] == PACK
    assert {"ground", "form", "squad_difference"} <= set(arranged) and arranged["fatigue"] is True
    tools = {one["data"]["action"]["tool"] for one in events if one["type"] == "decision.made"}
    assert {f"bowl_{decisions}", f"play_{decisions}"} <= tools and "bowl_delivery" not in tools
    rewards = [one["data"]["reward"] for one in events if one["type"] == "step.taken"]
    if reward == "result":
        assert set(rewards[:-1]) == {0.0} and rewards[-1] in (0.0, 1.0)
    else:
        assert len({*rewards} - {0.0}) > 1
    assert events[-1]["data"]["score"] == pytest.approx(sum(rewards))


@pytest.mark.parametrize(("decisions", "reward"), WAYS)
def test_the_same_match_over_http_and_on_the_command_line(
    serving: Serving, tmp_path: Path, decisions: str, reward: str
) -> None:
    """Every event of the world, one like the other; and the record verifies."""
    episode = serving.start(
        environment="cricket", eval_pack_id=PACK, captain_preset="planner", opponent_choice="heuristic",
        options=asked(decisions, reward), seed=SEED,
    )  # fmt: skip
    serving.finish(episode)
    over_http = serving.events(episode)
    has_all_of_it(over_http, decisions, reward)
    told = on_the_command_line(
        "play", decisions, reward, "--captain", "planner", "--opponent", "heuristic", "--seed", str(SEED)
    )
    played = [json.loads(line) for line in told.splitlines()]
    has_all_of_it(played, decisions, reward)
    assert world_events(played) == world_events(over_http)
    record = tmp_path / "match.ndjson"
    record.write_text(told)
    verified = spectator("verify", record)
    assert verified.exit_code == 0 and "every event" in verified.output


@pytest.mark.parametrize(("decisions", "reward"), WAYS)
def test_an_agent_plays_it_over_openenv(serving: Serving, decisions: str, reward: str) -> None:
    """By the first legal tool and its defaults; the parts of the reward are there on every step."""
    client = open_client(serving, "/envs/cricket/ws")
    with client.socket:
        seen = client.ask(
            "reset",
            {"seed": SEED, "eval_pack_id": PACK, "opponent_choice": "planner", **asked(decisions, reward)},
        )
        view, total, rubric = seen["observation"], 0.0, {}
        assert view["ground"]["metres"] and view["squad_difference"] is not None
        assert view["rules"] == {"decisions": decisions, "reward": reward}
        tools = set()
        while not seen["done"]:
            tool = seen["observation"]["legal_actions"][0]["tool"]
            tools.add(tool)
            seen = client.ask("step", {"tool": tool})
            rubric = seen["observation"]["metadata"]["rubric"]
            total += seen["reward"]
        assert {f"bowl_{decisions}", f"play_{decisions}"} <= tools
        part = rubric["result"] if reward == "result" else rubric["decision_value"]
        assert total == pytest.approx(part)


def test_captains_are_compared_in_it(tmp_path: Path) -> None:
    out, (decisions, reward) = tmp_path / "compared", ("session", "decision_value")
    on_the_command_line(
        "evaluate", decisions, reward,
        "--captains", "heuristic,planner", "--matches", "2", "--jobs", "1", "--out", str(out),
    )  # fmt: skip
    results = json.loads((out / "results.json").read_text())
    assert results["pack"] == PACK
    options = results["options"]
    assert {name: options[name] for name in asked(decisions, reward)} == asked(decisions, reward)
    assert options["fatigue"] is True and options["ground"] == "drawn"
