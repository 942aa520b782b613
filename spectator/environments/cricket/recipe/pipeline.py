"""Train a captain from scratch: examples, supervision, self-play, evaluation.

Each stage saves its result in the run's folder, so an interrupted run continues with the first unfinished
stage. A captain is evaluated by matches on held-out seeds, from both seats, with intervals by seed.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
import torch

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.match.engine import VARIED
from spectator.environments.cricket.recipe import examples as data
from spectator.environments.cricket.recipe import torch_network as networks
from spectator.environments.cricket.recipe.examples import plain_options
from spectator.environments.cricket.recipe.fleet import MODEL, MatchFleet, MatchJob
from spectator.environments.cricket.recipe.torch_network import (
    BatchedSpeech,
    Shape,
    TorchNetwork,
    number_features,
)
from spectator.environments.cricket.recipe.trainers import (
    SelfPlaySettings,
    held_out,
    learn,
    learn_by_self_play,
)
from spectator.environments.cricket.trained.captain import WEIGHTS
from spectator.environments.cricket.trained.network import write_captain
from spectator.training.recorded_run import RecordedRun

HELD_OUT: Final = 720_000
"""First seed of evaluations."""

RUN: Final = "run"
"""Folder of the recorded self-play."""

BASE: Final = {"max_overs": 5, "decisions": "over", "reward": "decision_value"}
PACKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "varied": {**BASE, **VARIED},
    "default": BASE,
    "women": {**BASE, **VARIED, "profile": "women"},
    "twenty": {**BASE, **VARIED, "max_overs": 20},
}


def jobs_of(pack: str, seeds: int, own: int | str, rival: int | str) -> list[MatchJob]:
    """Return jobs for both seats of each seed."""
    options = plain_options(dict(PACKS[pack]))
    return [
        MatchJob((seed, side), seed, options, {side: own, "away" if side == "home" else "home": rival})
        for seed in range(HELD_OUT, HELD_OUT + seeds)
        for side in ("home", "away")
    ]


def played(
    fleet: MatchFleet,
    networks: Sequence[TorchNetwork],
    jobs: Sequence[MatchJob],
    *,
    shuffled: bool = False,
    width: int = 64,
) -> dict[Any, tuple[float, float]]:
    """Play jobs and return each own captain's result and decision value, by key."""
    device = next(networks[0].parameters()).device
    generator = torch.Generator(device=device).manual_seed(5)
    fleet.spread(jobs, width)
    found: dict[Any, tuple[float, float]] = {}
    choose = lambda asks: BatchedSpeech(networks, asks, greedy=True, generator=generator, shuffled=shuffled)  # noqa: E731
    for _, _, over, _ in fleet.rounds(choose):
        for key, parts, _ in over:
            home = key[1] == "home"
            won = parts["win_chance"] if home else 1.0 - parts["win_chance"]
            found[key] = won, parts["decision_value"] if home else -parts["rival_value"]
    return found


def interval(values: Mapping[Any, float]) -> tuple[float, float]:
    """Return the mean and half of the 95 % interval.

    Both seats of a seed count as one observation.
    """
    by_seed: dict[int, list[float]] = {}
    for (seed, _), value in values.items():
        by_seed.setdefault(seed, []).append(value)
    means = np.array([np.mean(one) for one in by_seed.values()])
    half = 1.96 * means.std(ddof=1) / math.sqrt(len(means)) if len(means) > 1 else float("nan")
    return round(float(means.mean()), 4), round(float(half), 4)


def figures(found: Mapping[Any, tuple[float, float]]) -> dict[str, Any]:
    """Return wins and decision values (hundredths of a match), with intervals."""
    value = interval({key: 100 * one[1] for key, one in found.items()})
    return {
        "matches": len(found),
        "wins": interval({key: one[0] for key, one in found.items()}),
        "value": value,
    }


def difference(
    own: Mapping[Any, tuple[float, float]], other: Mapping[Any, tuple[float, float]]
) -> dict[str, Any]:
    """Return the figures of the difference between two captains in the same matches."""
    both = own.keys() & other.keys()
    return {
        "matches": len(both),
        "wins": interval({key: own[key][0] - other[key][0] for key in both}),
        "value": interval({key: 100 * (own[key][1] - other[key][1]) for key in both}),
    }


@dataclass(frozen=True)
class Recipe:
    """The settings of a run.

    Args:
        examples_s: Seconds for which the workers make examples.
        self_play_s: Seconds of self-play in all; 0 for none.
        seeds: Seeds per evaluation; 0 for none.
        words: Matches from which the vocabulary is built.
        matches: Matches that each worker plays at once.
        closeness: See :class:`.trainers.SelfPlaySettings`; so are `siblings` and `recorded`.
        first: Seed of the first example.
        start: Folder of a captain to start from, whose size and vocabulary are kept; ``None`` for none.
    """

    folder: Path
    workers: int = 2
    examples_s: float = 170.0
    supervised_s: float = 220.0
    self_play_s: float = 280.0
    seeds: int = 400
    width: int = 256
    layers: int = 8
    heads: int = 8
    tokens: int = 48_000
    rate: float = 1.5e-3
    words: int = 300
    practice_rate: float = 3e-4
    decisions: int = 8_000
    minibatch: int = 2_000
    matches: int = 64
    closeness: float = 0.01
    siblings: int = 2
    recorded: int = 32
    first: int = 2_000_000_000
    start: Path | None = None


class RecipeRun:
    """One run of a recipe."""

    def __init__(self, recipe: Recipe, say: Callable[[str], None] = lambda line: None) -> None:
        self.recipe, self._say, self._start = recipe, say, time.monotonic()
        recipe.folder.mkdir(parents=True, exist_ok=True)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.results: dict[str, Any] = {}
        self._results = recipe.folder / "results.json"
        if self._results.exists():
            self.results = json.loads(self._results.read_text())
        self._loaded: set[str] = set()

    def log(self, *words: Any) -> None:
        """Report progress, and write it to ``log.txt``."""
        line = f"[{time.monotonic() - self._start:6.1f}] " + " ".join(map(str, words))
        with (self.recipe.folder / "log.txt").open("a") as log:
            log.write(f"{line}\n")
        self._say(line)

    def note(self, name: str, result: Any) -> None:
        """Save a result."""
        self.results[name] = result
        self._save_results()
        self.log(name, result)

    def _save_results(self) -> None:
        partial = self._results.with_suffix(".partial")
        partial.write_text(json.dumps(self.results, indent=1))
        partial.replace(self._results)

    def words(self) -> list[str]:
        """Return the vocabulary, built on first use."""
        path = self.recipe.folder / "words.json"
        if not path.exists():
            start = self.recipe.start
            words = (
                networks.load(start / WEIGHTS, "cpu")[1]
                if start
                else data.words_of_play(self.recipe.words, 7)
            )
            path.write_text(json.dumps(words))
        return list(json.loads(path.read_text()))

    def begin_examples(self) -> list[subprocess.Popen[bytes]]:
        """Start the processes that make examples."""
        folder, found = self.recipe.folder / "examples", []
        folder.mkdir(exist_ok=True)
        for at in range(self.recipe.workers):
            first, seconds = str(self.recipe.first + 1_000_000 * at), str(self.recipe.examples_s)
            command = [sys.executable, "-m", data.__name__, first, seconds]
            paths = [str(self.recipe.folder / "words.json"), str(folder / f"{at}-{{}}.npz")]
            found.append(subprocess.Popen([*command, *paths]))
        return found

    def more_examples(self) -> list[data.Example]:
        """Return the examples of files added since the last call."""
        found: list[data.Example] = []
        for path in sorted((self.recipe.folder / "examples").glob("[!.]*.npz")):
            if path.name not in self._loaded:
                try:
                    found += data.load(path)
                except (OSError, ValueError, BadZipFile) as error:
                    self.log(f"skipping {path.name}: {error}")
                self._loaded.add(path.name)
        return found

    def supervise(self) -> TorchNetwork:
        """Return the network after supervised training, trained or loaded."""
        path, recipe, words = self.recipe.folder / "supervised.npz", self.recipe, self.words()
        if path.exists():
            return networks.load(path, self.device)[0]
        examples = self.more_examples()
        processes = self.begin_examples() if recipe.examples_s else []
        torch.manual_seed(0)
        if recipe.start is not None:
            network, _ = networks.load(recipe.start / WEIGHTS, self.device)
        else:
            shape = Shape(len(words), recipe.width, recipe.layers, recipe.heads)
            network = TorchNetwork(shape, number_features(words)).to(self.device)
        self.log("parameters", sum(weights.numel() for weights in network.parameters()), "on", self.device)
        while not examples and any(process.poll() is None for process in processes):
            time.sleep(1.0)
            examples += self.more_examples()
        examples += self.more_examples()
        if not examples:
            raise RuntimeError("no examples were made; give the workers more time (examples_s)")
        partial = recipe.folder / "supervised-partial.npz"
        summary = learn(
            network,
            examples,
            seconds=recipe.supervised_s,
            rate=recipe.rate,
            tokens=recipe.tokens,
            more=self.more_examples,
            log=self.log,
            saved=lambda: networks.save(network, words, partial),
        )
        for process in processes:
            process.terminate()
        network.eval()
        self.note("supervised", {**summary, **held_out(network, examples)})
        networks.save(network, words, path, {"stage": "supervised"})
        partial.unlink(missing_ok=True)
        return network

    def learn_by_self_play(self, network: TorchNetwork, initial: TorchNetwork, fleet: MatchFleet) -> None:
        """Train ``network`` in place by self-play for the remaining time, and record the matches as a run."""
        recipe, words, curve = self.recipe, self.words(), self.results.setdefault("curve", [])
        left_s = recipe.self_play_s - sum(row["play_s"] + row["learn_s"] for row in curve)
        if left_s <= 0:
            return

        def saved(row: dict[str, Any]) -> None:
            curve.append(row)
            about = {"stage": "self-play", "steps": len(curve)}
            networks.save(network, words, recipe.folder / "self-play.npz", about)
            self._save_results()

        practice = SelfPlaySettings(
            seconds=left_s,
            decisions=recipe.decisions,
            rate=recipe.practice_rate,
            width=recipe.matches,
            minibatch=recipe.minibatch,
            closeness=recipe.closeness,
            siblings=recipe.siblings,
            recorded=recipe.recorded,
            step=len(curve),
            matches=int(curve[-1]["matches"]) if curve else 0,
        )
        with RecordedRun(recipe.folder / RUN, group_size=recipe.siblings, model=MODEL) as run:
            learn_by_self_play(
                network, initial, fleet, recipe.workers, practice,
                log=self.log, saved=saved, record=run.record,
            )  # fmt: skip

    def compare(self, fleet: MatchFleet, start: TorchNetwork, final: TorchNetwork) -> None:
        """Evaluate the networks by the figures that judge the recipe."""
        seeds, both = self.recipe.seeds, [start, final]
        found: dict[str, Any] = {}

        def measure(name: str, pack: str, number: int, own: int | str, rival: int | str, **kind: Any) -> None:
            found[name] = played(fleet, both, jobs_of(pack, max(1, number), own, rival), **kind)
            self.note(f"eval {name}", figures(found[name]))

        measure("supervised/heuristic", "varied", seeds, 0, "heuristic")
        measure("self-play/heuristic", "varied", seeds, 1, "heuristic")
        gained = difference(found["self-play/heuristic"], found["supervised/heuristic"])
        self.note("eval self-play less supervised", gained)
        measure("self-play/supervised", "varied", seeds, 1, 0)
        measure("self-play/planner", "varied", seeds // 2, 1, "planner")
        measure("planner/heuristic", "varied", seeds // 2, "planner", "heuristic")
        measure("shuffled/heuristic", "varied", seeds // 4, 1, "heuristic", shuffled=True)
        measure("self-play/heuristic default", "default", seeds // 2, 1, "heuristic")
        measure("self-play/heuristic women", "women", seeds // 2, 1, "heuristic")
        measure("self-play/heuristic twenty", "twenty", seeds // 10, 1, "heuristic")


def run(recipe: Recipe, say: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Run the unfinished stages of a recipe and return all results."""
    one = RecipeRun(recipe, say)
    one.log("torch", torch.__version__, one.device)
    one.words()
    network = one.supervise()
    start = networks.load(recipe.folder / "supervised.npz", one.device)[0].eval()
    final = recipe.folder / "self-play.npz"
    fleet = MatchFleet(recipe.workers, one.words())
    try:
        finished = any(name.startswith("eval") for name in one.results)
        if final.exists():
            network = networks.load(final, one.device)[0]
        if recipe.self_play_s and not finished:
            one.learn_by_self_play(network, start, fleet)
        network.eval()
        if recipe.seeds and not finished:
            one.compare(fleet, start, network)
    finally:
        fleet.close()
    source = final if final.exists() else recipe.folder / "supervised.npz"
    export(source, recipe.folder / "captain")
    one.log("the captain is in", recipe.folder / "captain")
    return one.results


def export(source: Path, folder: Path) -> None:
    """Write the weights of a playing captain in eight bits, and their card."""
    with np.load(source) as file:
        head = json.loads(str(file["head"]))
        arrays = {one: file[one] for one in file.files if one != "head" and not one.startswith("worth")}
    about = {"name": "cricket-captain-1", "world": WORLD.version, **head["about"]}
    write_captain(folder, arrays, {"shape": head["shape"], "words": head["words"]}, about)
