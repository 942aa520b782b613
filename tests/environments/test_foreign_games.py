"""Games of OpenSpiel, PettingZoo and TextArena as worlds, by the real packages (``make envs-venv``)."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import httpx
import numpy as np
import pytest
from playwright.sync_api import expect, sync_playwright

from spectator import catalog
from spectator.environments.conformance import check_world, play
from spectator.environments.foreign_games import OpenSpielGame, PettingZooGame, TextArenaGame, game_world
from spectator.environments.foreign_games.games import ForeignGame
from spectator.environments.world import World
from spectator.errors import ConfigurationError
from tests.commands import run
from tests.conftest import ROOT, require
from tests.llm.brains import Said, read_legal, say
from tests.llm.endpoints import endpoint, write_captains
from tests.serving import serve_process

PAGE = ROOT / "docs" / "foreign-games.md"
FILE = re.compile(r"^`([\w./]+)`\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)

GAMES: Mapping[str, Callable[[], ForeignGame]] = {
    "kuhn": lambda: OpenSpielGame("kuhn_poker"),
    "kuhn_of_three": lambda: OpenSpielGame("kuhn_poker(players=3)"),
    "connect_four": lambda: OpenSpielGame("connect_four", seats=("x", "o")),
    "backgammon": lambda: OpenSpielGame("backgammon"),
    "alone": lambda: OpenSpielGame("2048"),
    "sealed_bids": lambda: OpenSpielGame("turn_based_simultaneous_game(game=goofspiel(num_cards=4))"),
    "tictactoe": lambda: PettingZooGame("classic/tictactoe-v3", hidden=False),
    "named": lambda: PettingZooGame("classic/connect_four-v3", hidden=False, moves="abcdefg"),
    "cut_short": lambda: PettingZooGame("classic/rps-v2", hidden=True),
    "crosses": lambda: TextArenaGame("TicTacToe-v0", hidden=False),
    "poker": lambda: TextArenaGame("KuhnPoker-v0", hidden=True),
    "guess": lambda: TextArenaGame("GuessTheNumber-v0", hidden=True, players=1),
}


@pytest.fixture(scope="module", autouse=True)
def packages() -> Iterator[Path]:
    """The folder with the real packages, behind those of these tests."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folder = ROOT / ".venv-envs" / "lib" / python / "site-packages"
    there = (ROOT / ".venv-envs" / ".installed").exists() and folder.exists()
    sys.path.append(require("environments of other packages", str(folder) if there else None))
    yield folder
    sys.path.remove(str(folder))


def begun(name: str, seed: int) -> tuple[World, Any, Any]:
    """A world, an environment of it, and its first observation."""
    world = game_world(name, GAMES[name])
    environment = world.environment()
    return world, environment, environment.reset(seed=seed, episode_id="e", options={})


@pytest.mark.parametrize("name", GAMES)
def test_games_keep_the_contract_of_worlds(name: str) -> None:
    """Refusals, the same episode again, and the same future of a snapshot are part of it."""
    check_world(game_world(name, GAMES[name]), seed=5)


@pytest.mark.parametrize("name", ["kuhn", "kuhn_of_three", "connect_four", "backgammon"])
@pytest.mark.parametrize("seed", [1, 2])
def test_openspiel_says_the_same_of_the_same_moves(name: str, seed: int) -> None:
    _, environment, seen = begun(name, seed)
    spiel = {"kuhn": "kuhn_poker", "kuhn_of_three": "kuhn_poker(players=3)"}
    state, chance = (
        import_module("pyspiel").load_game(spiel.get(name, name)).new_initial_state(),
        random.Random(seed),
    )
    draws = random.Random(7)
    while True:
        while state.is_chance_node():
            outcomes, weights = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(chance.choices(outcomes, weights)[0])
        assert list(environment.state["rewards"].values()) == state.returns()
        if state.is_terminal():
            break
        legal = {state.action_to_string(action): action for action in state.legal_actions()}
        assert moves_of(seen) == list(legal)
        move = draws.choice(list(legal))
        seen = environment.step({"move": move})
        state.apply_action(legal[move])
    assert seen.done and seen.reward == state.returns()[0]


@pytest.mark.parametrize(
    ("name", "made"), [("tictactoe", "tictactoe-v3"), ("named", "connect_four-v3"), ("cut_short", "rps-v2")]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_pettingzoo_says_the_same_of_the_same_moves(name: str, made: str, seed: int) -> None:
    _, environment, seen = begun(name, seed)
    env = import_module("pettingzoo").make("aec", f"classic/{made}")
    env.reset(seed=seed)
    draws, earned, cut, total = random.Random(7), dict.fromkeys(env.possible_agents, 0), False, 0.0
    for agent in env.agent_iter():
        observation, reward, over, truncated, _ = env.last()
        earned[agent] += reward
        cut = cut or truncated
        if over or truncated:
            env.step(None)
            continue
        assert seen.actor == agent and not seen.done
        masked = isinstance(observation, dict)
        legal = np.flatnonzero(observation["action_mask"]).tolist() if masked else [0, 1, 2]
        assert moves_of(seen) == (["abcdefg"[one] for one in legal] if name == "named" else legal)
        action = draws.choice(legal)
        seen = environment.step({"move": "abcdefg"[action] if name == "named" else action})
        total += seen.reward
        env.step(action)
    assert seen.done and environment.state["rewards"] == earned and total == earned[env.possible_agents[0]]
    assert (seen.metadata.get("truncated") is not None) == cut == (name == "cut_short")


@pytest.mark.parametrize("seed", [1, 2])
def test_textarena_says_the_same_of_the_same_moves(seed: int) -> None:
    world, environment, seen = begun("poker", seed)
    played = play(world, {}, seed, "random")
    env, done = import_module("textarena").make("KuhnPoker-v0"), False
    env.reset(num_players=2, seed=seed)
    for action in played.actions:
        player, text = env.get_observation()
        assert (seen.actor, seen.content["text"]) == (f"player_{player}", text.strip("\n"))
        seen = environment.step(action)
        done, _ = env.step(action=action["text"])
        assert seen.done == done
    rewards, _ = env.close()
    assert done and environment.state["rewards"] == {f"player_{one}": rewards[one] for one in (0, 1)}


def moves_of(seen: Any) -> list[Any]:
    moves: list[Any] = seen.legal_actions[0]["arguments"]["properties"]["move"]["enum"]
    return moves


def test_an_illegal_move_is_refused_with_the_legal_ones() -> None:
    _, environment, _ = begun("tictactoe", 1)
    environment.step({"move": 4})
    refused = environment.step({"move": 4}).refused
    assert refused is not None and refused.rule == "move.illegal"
    assert refused.message == "4 is not legal; legal are 0, 1, 2, 3, 5, 6, 7, 8."
    assert environment.state["number"] == 1
    assert environment.step({"move": "4"}).refused is not None, "a number is not its text"


def test_what_is_hidden_is_shown_to_its_seat_and_after_the_end() -> None:
    world, environment, seen = begun("kuhn", 3)
    card = seen.content["text"]
    assert card in ("0", "1", "2")
    while not seen.done:
        assert environment.truth() == {} and environment.state["text"] == ""
        seen = environment.step({"move": "Pass"})
    assert environment.truth()["seen"]["player_0"].startswith(card)
    assert all(fact.data["text"] == "" for fact in play(world, {}, 3, "random").facts)


def test_games_side_by_side_do_not_share_random_numbers() -> None:
    world = game_world("poker", GAMES["poker"])
    alone = play(world, {}, 1, "random")
    outside = random.getstate()
    first, second = world.environment(), world.environment()
    first.reset(seed=1, episode_id="conformance", options={})
    second.reset(seed=2, episode_id="other", options={})
    for action in alone.actions:
        seen = first.step(action)
        second.step({"text": "[check]"})
    assert seen.done and first.state["rewards"] == alone.facts[-1].data["rewards"]
    assert random.getstate() == outside


@pytest.mark.parametrize(
    ("start", "rule"),
    [
        (lambda: OpenSpielGame("goofspiel"), "move at the same time.*turn_based_simultaneous_game"),
        (lambda: OpenSpielGame("no_such_game"), "cannot make 'no_such_game': Unknown game"),
        (lambda: OpenSpielGame("kuhn_poker", seats=("a",)), "seats must have 2 different names"),
        (
            lambda: PettingZooGame("classic/nothing-v1", hidden=False),
            "cannot make 'classic/nothing-v1': .* not found in registry.$",
        ),
        (lambda: PettingZooGame(parallel(), hidden=False), "parallel_to_aec"),
        (lambda: PettingZooGame(continuous(), hidden=False), "must be Discrete, not Box"),
        (lambda: PettingZooGame("classic/rps-v2", hidden=True, moves="ab"), "moves must have 3"),
        (lambda: TextArenaGame("NoSuch-v0", hidden=False), "cannot make 'NoSuch-v0'.*not found"),
        (lambda: TextArenaGame("TicTacToe-v0", hidden=False, players=3), "cannot be played by 3"),
    ],
)
def test_what_cannot_be_a_world_is_rejected_before_it_is_played(
    start: Callable[[], ForeignGame], rule: str
) -> None:
    with pytest.raises(ConfigurationError, match=rule):
        game_world("game", start)


def parallel() -> Any:
    return import_module("pettingzoo").make("parallel", "classic/rps-v2")


def continuous() -> Any:
    env = import_module("pettingzoo").make("aec", "classic/rps-v2")
    env.unwrapped.action_spaces = dict.fromkeys(env.possible_agents, gymnasium.spaces.Box(0, 1))
    return env


def test_a_missing_package_is_named_with_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(ConfigurationError, match=r"pyspiel cannot be imported .*; pip install open_spiel"):
        OpenSpielGame("kuhn_poker")


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> dict[str, str]:
    """The environment of commands that find the page's files as an installed package."""
    folder = tmp_path_factory.mktemp("games")
    for name, text in FILE.findall(PAGE.read_text("utf-8")):
        (folder / name).write_text(text, encoding="utf-8")
    three = (folder / "my_kuhn.py").read_text().replace("kuhn_poker", "kuhn_poker(players=3)")
    (folder / "my_three.py").write_text(three.replace('"kuhn"', '"kuhn_of_three"'))
    entries = re.search(r"\[project\.entry-points\.(.*?)\n\n", (folder / "pyproject.toml").read_text(), re.S)
    assert entries is not None
    installed = folder / "my_games-0.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-games\nVersion: 0.1.0\n")
    (installed / "entry_points.txt").write_text(
        "[" + entries[1].replace('"', "") + "\nkuhn_of_three = my_three:WORLD\n"
    )
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT), str(packages)])}


def command(games: Mapping[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "spectator.cli", *arguments],
        env=games, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def last_legal(body: Mapping[str, Any]) -> Said:
    """Chooses the last legal move; where moves are free text, one object of the first pile that has some."""
    text = body["messages"][-1]["content"]
    if "Current Pile" in text:
        pile = next(one for one in re.findall(r"pile (\d): [1-9]", text.rpartition("Current Pile")[2]))
        return Said(text=f"[{pile} 1]")
    return say(body, "play", {"move": read_legal(body)["play"]["properties"]["move"]["enum"][-1]}, "why not")


@pytest.fixture(scope="module")
def mine(games: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The same, with the model ``llm:mine``."""
    with endpoint(last_legal) as fake:
        table = {"base_url": fake.base_url, "style": "tools", "price_in": 0, "price_out": 0}
        file = write_captains(tmp_path_factory.mktemp("captains") / "captains.toml", mine=table)
        yield {**games, "SPECTATOR_CAPTAINS_FILE": str(file)}


@pytest.fixture
def installed(mine: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same for commands that are called in this process."""
    monkeypatch.syspath_prepend(mine["PYTHONPATH"].partition(os.pathsep)[0])
    monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", mine["SPECTATOR_CAPTAINS_FILE"])
    catalog._outside.cache_clear()
    yield
    monkeypatch.undo()
    for known in (catalog._outside, catalog.load_world):
        known.cache_clear()


@pytest.mark.parametrize(
    ("world", "seats"),
    [
        ("tictactoe", {"player_1": "random", "player_2": "llm:mine"}),
        ("kuhn", {"player_0": "llm:mine", "player_1": "llm:mine"}),
        ("nim", {"player_0": "llm:mine", "player_1": "llm:mine"}),
    ],
)
def test_the_page_s_games_are_played_recorded_and_verified(
    installed: None, tmp_path: Path, world: str, seats: dict[str, str]
) -> None:
    captain, opponent = seats.values()
    code, played, errors = run(
        "play", world, "--captain", captain, "--opponent", opponent, "--seed", "3", "--data-dir", tmp_path
    )
    assert code == 0, errors
    events = [json.loads(line) for line in played.splitlines()]
    made = [event["data"] for event in events if event["type"] == "decision.made"]
    kinds = {"random": "random", "llm:mine": "model"}
    assert {one["actor"]: one["source"] for one in made} == {seat: kinds[who] for seat, who in seats.items()}
    assert not any(event["type"] == "action.refused" for event in events)
    shown = [event["data"] for event in events if event["type"] == f"{world}.position"]
    assert len(shown) == len(made) + 1 and bool(shown[-1]["text"]) == (world != "kuhn")
    ended = events[-1]["data"]
    assert ended["reason"] == "finished" and ended["score"] == shown[-1]["rewards"][next(iter(seats))]
    assert ended["result"] == shown[-1]["result"]
    code, checked, errors = run("verify", events[0]["episode_id"], "--data-dir", tmp_path)
    assert code == 0 and "replay" in checked, errors


def test_the_page_s_games_are_evaluated(mine: dict[str, str], tmp_path: Path) -> None:
    command(
        mine,
        "evaluate",
        "tictactoe",
        "--captains",
        "llm:mine,random",
        "--matches",
        "4",
        "--out",
        str(tmp_path),
    )
    results = json.loads((tmp_path / "results.json").read_text())
    assert {one["name"] for one in results["captains"]} == {"llm:mine", "random"}


@pytest.mark.parametrize("world", ["kuhn", "kuhn_of_three"])
def test_every_seat_of_a_game_is_trained_on_its_own_reward(
    mine: dict[str, str], installed: None, tmp_path: Path, world: str
) -> None:
    command(
        mine, "rollouts", "run", "--env", world, "--captain", "llm:mine", "--opponent", "self",
        "--episodes", "2", "--group-size", "2", "--startup-jitter", "0", "--out", str(tmp_path / "run"),
    )  # fmt: skip
    out = tmp_path / "groups.jsonl"
    assert run("rollouts", "export", tmp_path / "run", "--format", "groups", "--out", out)[0] == 0
    groups = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["seat"] for one in groups] == list(game_world(world, GAMES[world]).actors)
    for earned in zip(*(one["rewards"] for one in groups), strict=True):
        assert sum(earned) == 0 and any(earned)


@pytest.mark.browser
def test_the_board_is_on_the_watch_page(games: dict[str, str], tmp_path: Path, chromium: str) -> None:
    path = {"PYTHONPATH": games["PYTHONPATH"]}
    with (
        serve_process(tmp_path, variables=path) as server,
        httpx.Client(base_url=server.base_url, timeout=30) as client,
        sync_playwright() as playwright,
    ):
        players = {"captain_preset": "random", "opponent_choice": "random"}
        asked = {"environment": "tictactoe", "seed": 3, "pace": "max", **players}
        begun = client.post("/custom/start_episode", json=asked)
        assert begun.status_code == 202, begun.text
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        page = browser.new_page()
        page.goto(f"{server.base_url}/watch/{begun.json()['episode_id']}")
        board = page.locator(".game__board")
        expect(board).to_contain_text("X", timeout=20_000)
        expect(page.locator(".game")).to_contain_text(re.compile("won|drawn"), timeout=20_000)
        expect(page.locator(".game")).to_contain_text("player_2: ")
        browser.close()
