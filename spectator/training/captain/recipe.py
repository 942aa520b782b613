"""From nothing to a trained captain: vocabulary, examples, supervised learning, self-play, evaluation.

Every stage leaves its result in the folder of the run, so that a run that was stopped goes on with the first
stage that is not done.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from spectator.training.captain import examples as data
from spectator.training.captain import network as networks
from spectator.training.captain.evaluation import difference, figures, jobs_of, played
from spectator.training.captain.fleet import Fleet
from spectator.training.captain.network import Network, Shape, number_features
from spectator.training.captain.reinforcement import Practice, practise
from spectator.training.captain.supervised import held_out, learn


@dataclass(frozen=True)
class Recipe:
    """A run.

    Args:
        folder: Holds everything.
        workers: Processes that play.
        examples_s: Seconds for which the workers make examples.
        wait_s: Seconds of examples before learning begins.
        supervised_s: Seconds of supervised learning.
        self_play_s: Seconds of self-play; 0 for none.
        seeds: Of each evaluation.
        width: Of the network.
        layers: Of the network.
        heads: Of the network.
        tokens: Of a batch.
        rate: Of supervised learning.
        words: Matches from which the vocabulary is taken.
        most_files: Files of examples that are learnt from.
        practice_rate: Of self-play.
        decisions: Of a step of self-play.
        matches: Matches that each worker plays at once.
        closeness: See :class:`.Practice`.
        first: Seed of the first example.
    """

    folder: Path
    workers: int = 2
    examples_s: float = 60.0
    wait_s: float = 0.0
    supervised_s: float = 120.0
    self_play_s: float = 120.0
    seeds: int = 100
    width: int = 256
    layers: int = 8
    heads: int = 8
    tokens: int = 48_000
    rate: float = 1.5e-3
    words: int = 300
    most_files: int = 1000
    practice_rate: float = 2e-4
    decisions: int = 16_000
    minibatch: int = 4_000
    matches: int = 60
    closeness: float = 0.02
    first: int = 2_000_000_000


class Run:
    """One run of a recipe."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.begun = recipe, time.monotonic()
        recipe.folder.mkdir(parents=True, exist_ok=True)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self._log = (recipe.folder / "log.txt").open("a")
        self.results: dict[str, Any] = {}
        self._results = recipe.folder / "results.json"
        if self._results.exists():
            self.results = json.loads(self._results.read_text())
        self._taken: set[str] = set()

    def log(self, *words: Any) -> None:
        """Say how it goes."""
        line = f"[{time.monotonic() - self.begun:6.1f}] " + " ".join(map(str, words))
        print(line, flush=True)
        self._log.write(f"{line}\n")
        self._log.flush()

    def note(self, name: str, result: Any) -> None:
        """Keep a result."""
        self.results[name] = result
        self._results.write_text(json.dumps(self.results, indent=1))
        self.log(name, result)

    def words(self) -> list[str]:
        """The vocabulary."""
        path = self.recipe.folder / "words.json"
        if not path.exists():
            path.write_text(json.dumps(data.words_of_play(self.recipe.words, 7)))
        return list(json.loads(path.read_text()))

    def begin_examples(self) -> list[subprocess.Popen[bytes]]:
        """Start the processes that make examples."""
        folder, found = self.recipe.folder / "examples", []
        folder.mkdir(exist_ok=True)
        for at in range(self.recipe.workers):
            first = str(self.recipe.first + 1_000_000 * at)
            seconds, words = str(self.recipe.examples_s), str(self.recipe.folder / "words.json")
            command = [sys.executable, "-m", "spectator.training.captain.examples", first, seconds, words]
            found.append(subprocess.Popen([*command, str(folder / f"{at}-{{}}.npz")]))
        return found

    def more_examples(self) -> list[data.Example]:
        """Examples of files that came since this was last asked."""
        found: list[data.Example] = []
        for path in sorted((self.recipe.folder / "examples").glob("*.npz")):
            if path.name in self._taken or len(self._taken) >= self.recipe.most_files or path.name.startswith("."):
                continue
            try:
                found += data.load(path)
            except (OSError, ValueError, EOFError, KeyError):
                continue
            self._taken.add(path.name)
        return found

    def supervise(self) -> Network:
        """The supervised start, learnt or found."""
        path, recipe, words = self.recipe.folder / "supervised.npz", self.recipe, self.words()
        if path.exists():
            return networks.load(path, self.device)[0]
        processes = self.begin_examples() if recipe.examples_s else []
        torch.manual_seed(0)
        shape = Shape(len(words), recipe.width, recipe.layers, recipe.heads)
        network = Network(shape, number_features(words)).to(self.device)
        self.log("parameters", sum(weights.numel() for weights in network.parameters()), "on", self.device)
        begun, examples = time.monotonic(), self.more_examples()
        while time.monotonic() - begun < recipe.wait_s or not examples:
            time.sleep(1.0)
            examples += self.more_examples()
            if processes and all(process.poll() is not None for process in processes) and examples:
                break
        partial = recipe.folder / "supervised-partial.npz"
        told = learn(
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
            process.wait()
        network.eval()
        self.note("supervised", {**told, **held_out(network, examples)})
        networks.save(network, words, path, {"stage": "supervised"})
        partial.unlink(missing_ok=True)
        return network

    def practise(self, network: Network, fleet: Fleet) -> list[dict[str, Any]]:
        """Self-play; ``network`` is changed."""
        recipe, words = self.recipe, self.words()
        path = recipe.folder / "self-play.npz"

        def saved(curve: list[dict[str, Any]]) -> None:
            self.results["curve"] = curve
            self._results.write_text(json.dumps(self.results, indent=1))
            if len(curve) % 4 == 0:
                networks.save(network, words, path, {"stage": "self-play", "steps": len(curve)})

        practice = Practice(
            seconds=recipe.self_play_s,
            decisions=recipe.decisions,
            rate=recipe.practice_rate,
            width=recipe.matches,
            minibatch=recipe.minibatch,
            closeness=recipe.closeness,
        )
        curve = practise(network, fleet, recipe.workers, practice, log=self.log, saved=saved)
        networks.save(network, words, path, {"stage": "self-play", "steps": len(curve)})
        return curve

    def compare(self, fleet: Fleet, start: Network, final: Network) -> None:
        """The figures that the recipe is judged by."""
        seeds, both = self.recipe.seeds, [start, final]
        found: dict[str, Any] = {}

        def measure(name: str, pack: str, number: int, own: int | str, rival: int | str, **kind: Any) -> None:
            found[name] = played(fleet, both, jobs_of(pack, number, own, rival), **kind)
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
        measure("self-play/heuristic twenty", "twenty", max(1, seeds // 10), 1, "heuristic")
        measure("supervised/planner", "varied", seeds // 2, 0, "planner")
        measure("supervised/heuristic twenty", "twenty", max(1, seeds // 10), 0, "heuristic")


def run(recipe: Recipe, stages: Sequence[str] = ("supervised", "self-play", "evaluation")) -> dict[str, Any]:
    """Run the stages of a recipe that are not done yet; returns its results."""
    one = Run(recipe)
    one.log("torch", torch.__version__, one.device)
    one.words()
    network = one.supervise()
    if stages == ("supervised",):
        return one.results
    start = networks.load(recipe.folder / "supervised.npz", one.device)[0].eval()
    fleet = Fleet(recipe.workers, one.words())
    try:
        if "self-play" in stages and recipe.self_play_s:
            one.practise(network, fleet)
        network.eval()
        if "evaluation" in stages:
            one.compare(fleet, start, network)
    finally:
        fleet.close()
    return one.results
