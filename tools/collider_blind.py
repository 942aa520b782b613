"""Play pairs of campaigns that differ only inside the blind, and compare every byte that can be seen.

A pair shares seed, options and actions. In the second campaign the events in the box, the search sample
inside the task's window, are replaced: of one channel, whose box stays closed, or of all channels, of which
none is opened. Observations, offered actions, refusals, state, facts, the viewers' state, commentary,
pictures and prompts must be equal.

    python -m tools.collider_blind --sequences 10000
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Final
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider.actions import BACKGROUND_FUNCTIONS, TOOLS
from spectator.environments.collider.commentary import comment
from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.experiment import Dataset, Laboratory, Run, collect
from spectator.environments.collider.operations import machine
from spectator.environments.collider.projection import picture, project
from spectator.environments.collider.sensitivity import affordable_fb
from spectator.environments.collider.world import WORLD
from spectator.events import Event, encode_json
from spectator.json_values import apply_patch
from spectator.observations import Observation
from spectator.policies.prompts import as_json, instructions, question, situation

Call = tuple[str, dict[str, Any]]
Attack = Callable[[Laboratory, random.Random], Iterator[Call]]

STEPS: Final = 12
"""Actions of a random sequence."""


@dataclass(frozen=True)
class Pair:
    """Two campaigns of one seed and one sequence of actions.

    Args:
        sealed: Channels whose events in the box differ; none of them is opened.
        steps: What could be seen after each action of the first campaign, and of the second.
        accepted: How many of the actions were carried out.
    """

    seed: int
    sealed: tuple[str, ...]
    actions: tuple[Call, ...]
    steps: tuple[tuple[bytes, ...], tuple[bytes, ...]]
    accepted: int

    @property
    def difference(self) -> int | None:
        """Number of the first action after which they look different; ``None`` for none."""
        first, second = self.steps
        different = (
            number for number, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1]
        )
        return next(different, None)


class Watched:
    """A campaign, and all that an agent or a viewer sees of it."""

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self.environment, self._state, self._seq = ColliderEnvironment(), dict[str, Any](), 0
        self.work: list[int] = []
        self.observation = self.environment.reset(seed=seed, episode_id="ep", options=options)
        self.seen = [self._visible()]

    def step(self, call: Call) -> None:
        """Carry out an action, and keep what can be seen then."""
        self.observation = self.environment.step({"tool": call[0], "arguments": call[1]})
        self.seen.append(self._visible())

    def count(self, call: Call) -> None:
        """Carry out an action, and keep how many functions that calls: what it takes, without a clock."""
        calls = Counter[str]()
        sys.setprofile(lambda frame, event, argument: calls.update([event]))
        try:
            self.environment.step({"tool": call[0], "arguments": call[1]})
        finally:
            sys.setprofile(None)
        self.work.append(calls["call"] + calls["c_call"])

    def _visible(self) -> bytes:
        shown: list[Any] = [self.observation.to_json(), self.environment.state, self.environment.truth()]
        shown.append(self.environment.snapshot().decode())
        for fact in self.environment.facts():
            self._seq += 1
            event = Event("ep", "e", self._seq, "2026-11-22T00:00:00.000Z", 0, fact.type, dict(fact.data))
            self._state = apply_patch(self._state, {"world": project(self._state, event)})
            lines = [asdict(line) for line in comment(event, self._state)]
            shown.append([fact.type, fact.data, lines])
        shown += [self._state, picture(self._state.get("world", {})), prompt(self.observation)]
        return hashlib.sha256(encode_json(shown).encode()).digest()


def prompt(observation: Observation) -> str:
    """Return what a language model is sent."""
    asked = question(as_json(situation(observation)), observation.legal_actions, "json", "")
    return instructions("physicist", WORLD.briefing.task, "json", 1) + "\n" + asked


def other_box(dataset: Dataset, blinded: NDArray[np.bool_], random_: np.random.Generator) -> Dataset:
    """Return the dataset with other events in its box: none, many more, or a tall peak."""
    inside = np.flatnonzero(blinded)
    box = np.zeros_like(dataset.box)
    match random_.integers(3):
        case 1:
            box[inside] = random_.poisson(3.0 * dataset.box[inside] + 2.0)
        case 2:
            box[inside] = dataset.box[inside]
            box[random_.choice(inside)] += 10_000
    return replace(dataset, box=box)


def paired(
    seed: int, options: Mapping[str, Any], attack: Attack, *, all_sealed: bool, steps: int = 90
) -> Pair:
    """Play an attack twice: on the campaign, and on one with other events in the boxes that stay closed."""
    chance = random.Random(seed)
    first = Watched(seed, options)
    lab = first.environment.laboratory
    names = tuple(lab.task.channels)
    sealed = names if all_sealed else (chance.choice(names),)
    actions: list[Call] = []
    for call in attack(lab, chance):
        if call[0] == "unblind" and call[1].get("channel") in sealed:
            continue
        if len(actions) == steps or first.observation.done:
            break
        actions.append(call)
        first.step(call)

    with mock.patch.object(machine, "collect", changing(lab, sealed)):
        second = Watched(seed, options)
        for call in actions:
            second.step(call)
    seen = tuple(first.seen), tuple(second.seen)
    return Pair(seed, sealed, tuple(actions), seen, first.environment.state["step_index"])


def changing(lab: Laboratory, sealed: Sequence[str]) -> Callable[..., Run]:
    """Return a ``collect`` that replaces the boxes of some channels; a count of calls leaves it out."""

    def changed(*arguments: Any) -> Run:
        counting = sys.getprofile()
        sys.setprofile(None)
        run = collect(*arguments)
        drawn = np.random.default_rng([lab.seed, run.number])
        data = {
            name: other_box(dataset, lab.task.channels[name].blinded, drawn) if name in sealed else dataset
            for name, dataset in run.data.items()
        }
        sys.setprofile(counting)
        return replace(run, data=data)

    return changed


def work(pair: Pair, options: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """Return how many functions each action of a pair calls, on the campaign and on the changed one."""
    found = []
    for sealed in ((), pair.sealed):
        watched = Watched(pair.seed, options)
        with mock.patch.object(machine, "collect", changing(watched.environment.laboratory, sealed)):
            for call in pair.actions:
                watched.count(call)
        found.append(watched.work)
    return found[0], found[1]


def begun(lab: Laboratory, share: float = 0.3) -> list[Call]:
    """Return the actions up to the first run, in all channels."""
    thresholds = {name: offer.fit_window_gev[0] / 2.8 for name, offer in lab.task.channels.items()}
    return [
        ("configure_beam", {"sqrt_s_tev": lab.task.beams[0].sqrt_s_tev}),
        ("set_trigger", {"thresholds_gev": thresholds}),
        *another_run(lab, share),
    ]


def another_run(lab: Laboratory, share: float = 0.1) -> list[Call]:
    """Return the actions of a run that costs a share of the budget."""
    luminosity = affordable_fb(lab.task, lab.task.beams[0], share)
    return [
        ("allocate_luminosity", {"luminosity_fb": float(f"{luminosity:.3g}")}),
        ("collect_collisions", {}),
    ]


def random_sequence(lab: Laboratory, chance: random.Random) -> Iterator[Call]:
    """Yield random actions, valid and invalid, mostly those that show something before unblinding."""
    yield from begun(lab, chance.uniform(0.02, 0.6))
    shown = ["select_channel", "build_invariant_mass", "optimise_selection", "subtract_background"]
    for _ in range(STEPS):
        tool = chance.choice(shown) if chance.random() < 0.6 else chance.choice([*TOOLS][:-2])
        yield tool, _arguments(tool, lab, chance)
    yield "conclude_null", {}


def _arguments(tool: str, lab: Laboratory, chance: random.Random) -> dict[str, Any]:
    low, high = lab.task.window_gev
    names = [*lab.task.channels]
    window = sorted(round(chance.uniform(0.99 * low, 1.01 * high), 3) for _ in range(2))
    drawn: dict[str, Any] = {
        "sqrt_s_tev": chance.choice([*(beam.sqrt_s_tev for beam in lab.task.beams), 9.0]),
        "thresholds_gev": {
            name: round(lab.task.channels[name].trigger_gev * chance.uniform(0.4, 1.6), 3) for name in names
        },
        "luminosity_fb": round(affordable_fb(lab.task, lab.task.beams[0], chance.uniform(0.001, 0.2)), 3),
        "candle": chance.choice([*lab.task.candles, "none"]),
        "channel": chance.choice(names),
        "mass_gev": round(chance.uniform(low, high), 3),
        "cut": chance.randrange(8) / 8,
        "window_gev": window,
        "fit_window_gev": [window[0] * chance.uniform(0.93, 1.01), window[1] * chance.uniform(0.99, 1.07)],
        "function": chance.choice(BACKGROUND_FUNCTIONS),
        "natural_width": round(chance.uniform(0.0, 0.2), 3),
        "tuning_fraction": round(chance.uniform(0.02, 0.5), 3),
    }
    fields = TOOLS[tool].model_fields
    return {name: value for name, value in drawn.items() if name in fields}


def _windows(lab: Laboratory, count: int) -> list[list[float]]:
    low, high = lab.task.window_gev
    edges = np.geomspace(low, high, count + 1)
    return [[float(f"{a:.6g}"), float(f"{b:.6g}")] for a, b in pairwise(edges)]


def _nested(lab: Laboratory, count: int) -> list[list[float]]:
    low, high = lab.task.window_gev
    return [[low, float(f"{low + (high - low) * part / count:.6g}")] for part in range(1, count + 1)]


def _in_all(lab: Laboratory, *calls: Call) -> Iterator[Call]:
    """Yield the calls for each channel, after selecting it."""
    for name in lab.task.channels:
        yield "select_channel", {"channel": name}
        for tool, arguments in calls:
            yield tool, {"channel": name, **arguments}


def _building(windows: Callable[[Laboratory], list[list[float]]], *others: Call) -> Attack:
    """Return an attack that builds the spectrum of every channel in many windows."""

    def attack(lab: Laboratory, chance: random.Random) -> Iterator[Call]:
        yield from begun(lab)
        calls = [("build_invariant_mass", {"window_gev": window}) for window in windows(lab)]
        yield from _in_all(lab, *others, *calls)

    return attack


def _fitting(*functions: str) -> Attack:
    """Return an attack that fits backgrounds beside moving windows, for their p-values."""

    def attack(lab: Laboratory, chance: random.Random) -> Iterator[Call]:
        yield from begun(lab)
        for window in _windows(lab, 6):
            for function in functions:
                calls = (
                    ("build_invariant_mass", {"window_gev": window}),
                    ("subtract_background", {"function": function}),
                )
                yield from _in_all(lab, *calls)

    return attack


def _then(*calls: Call) -> Attack:
    """Return an attack that sends calls to every channel after a run, frozen or not."""

    def attack(lab: Laboratory, chance: random.Random) -> Iterator[Call]:
        yield from begun(lab)
        yield from _in_all(lab, ("build_invariant_mass", {}), *calls)
        yield "freeze_selection", {}
        yield from _in_all(lab, *calls)

    return attack


def _totals(lab: Laboratory, chance: random.Random) -> Iterator[Call]:
    yield from begun(lab, 0.02)
    for share in (0.001, 0.002, 0.01, 0.02, 0.05):
        yield from another_run(lab, share)


def _frozen_narrow(lab: Laboratory, chance: random.Random) -> Iterator[Call]:
    """Freeze a narrow window, open everything but the sealed channel, and select again."""
    yield from begun(lab)
    for window in _windows(lab, 3):
        yield from _in_all(lab, ("build_invariant_mass", {"window_gev": window}))
        yield "freeze_selection", {}
        for name in lab.task.channels:
            yield "unblind", {"channel": name}
            yield "scan_bump", {"channel": name}
        yield from another_run(lab, 0.02)


def _compared(lab: Laboratory, chance: random.Random) -> Iterator[Call]:
    """Freeze all, open what may be opened, and compare it with what may not."""
    low, high = lab.task.window_gev
    mass = round((low * high) ** 0.5, 3)
    yield from begun(lab)
    yield from _in_all(lab)
    yield "freeze_selection", {}
    for name in lab.task.channels:
        yield "unblind", {"channel": name}
    for name in lab.task.channels:
        yield "cross_check", {"channel": name, "mass_gev": mass}
        yield "set_limit", {"channel": name, "mass_gev": mass}
    yield "conclude_null", {}


def _too_many(lab: Laboratory, chance: random.Random) -> Iterator[Call]:
    """Spend all actions, so that the campaign ends without a conclusion."""
    yield from begun(lab, 0.01)
    for _ in range(90):
        yield from another_run(lab, 0.0005)


def _claimed(lab: Laboratory, chance: random.Random) -> Iterator[Call]:
    yield from begun(lab)
    yield from _in_all(lab)
    low, high = lab.task.window_gev
    for name in lab.task.channels:
        yield (
            "submit_discovery_claim",
            {"kind": "discovery", "channel": name, "mass_gev": 0.5 * (low + high), "mass_error_gev": 1.0,
             "z_local": 6.0, "z_global": 5.0},
        )  # fmt: skip
    yield "conclude_null", {"probability": 0.5}


def _changing(field: str, values: Sequence[Any], tool: str) -> Attack:
    def attack(lab: Laboratory, chance: random.Random) -> Iterator[Call]:
        yield from begun(lab)
        yield from _in_all(lab, *((tool, {field: value}) for value in values))

    return attack


def _ranges(lab: Laboratory, chance: random.Random) -> Iterator[Call]:
    """Fit narrow and wide ranges around windows that move, down to none beside them."""
    yield from begun(lab)
    for low, high in _windows(lab, 5):
        for beside in (0.0, 0.02, 0.1):
            arguments = {
                "window_gev": [low, high],
                "fit_window_gev": [low * (1 - beside), high * (1 + beside)],
            }
            yield from _in_all(
                lab, ("build_invariant_mass", arguments), ("subtract_background", {"function": "exponential"})
            )


def _triggers(lab: Laboratory, chance: random.Random) -> Iterator[Call]:
    """Move the turn-on through the window, run by run."""
    yield from begun(lab, 0.01)
    low, high = lab.task.window_gev
    for threshold in np.geomspace(low / 4, high / 2, 10):
        thresholds = dict.fromkeys(lab.task.channels, float(f"{threshold:.4g}"))
        yield "set_trigger", {"thresholds_gev": thresholds}
        yield from another_run(lab, 0.01)
    yield from _in_all(lab, ("build_invariant_mass", {}))


_MASS: Final = {"mass_gev": 1.0}

ATTACKS: Final[Mapping[str, Attack]] = {
    "neighbouring windows": _building(lambda lab: _windows(lab, 12)),
    "nested windows": _building(lambda lab: _nested(lab, 12)),
    "overlapping windows": _building(lambda lab: [*_windows(lab, 5), *_windows(lab, 7)]),
    "narrowest windows": _building(lambda lab: _windows(lab, 20)),
    "windows after the hardest cut": _building(
        lambda lab: _windows(lab, 8), ("optimise_selection", {"cut": 0.875})
    ),
    "windows at the edge of the task": _building(lambda lab: [_windows(lab, 4)[0], _windows(lab, 4)[-1]]),
    "windows outside the task": _building(lambda lab: [[1.0, 2.0], [1.0, 100_000.0], [5.0, 4.0]]),
    "p-values beside moving windows": _fitting("exponential", "quartic"),
    "p-values of every function": _fitting(*BACKGROUND_FUNCTIONS),
    "fitted ranges": _ranges,
    "every cut": _changing("cut", [number / 8 for number in range(8)], "optimise_selection"),
    "every natural width": _changing(
        "natural_width", [number / 50 for number in range(11)], "build_invariant_mass"
    ),
    "totals of many runs": _totals,
    "thresholds through the window": _triggers,
    "analysis of closed boxes": _then(
        ("scan_bump", {}), ("estimate_significance", _MASS), ("fit_resonance", _MASS)
    ),
    "comparisons of closed boxes": _then(
        ("cross_check", _MASS), ("measure_angular", _MASS), ("set_limit", _MASS)
    ),
    "unblinding without a freeze": _then(("unblind", {})),
    "other channels opened": _compared,
    "narrow selections, one after another": _frozen_narrow,
    "claims without data": _claimed,
    "the longest campaign": _too_many,
}  # fmt: skip
"""Adversarial sequences by name: ways to read a count in the box, and of the refusals around them."""

SCENARIOS: Final = (
    ("mixed", "easy"), ("mixed", "expert"), ("null", "medium"), ("two_peaks", "hard"),
    ("law_shifted", "medium"), ("trigger_bump", "hard"), ("open_data_dimuon", "easy"),
    ("open_data_4l", "easy"),
)  # fmt: skip


def random_pair(seed: int) -> Pair:
    """Play a random pair."""
    scenario, difficulty = SCENARIOS[seed % len(SCENARIOS)]
    options = {"scenario": scenario, "difficulty": difficulty}
    if seed % 5 == 0:
        options["reward"] = "steps"
    return paired(seed, options, random_sequence, all_sealed=bool(seed // len(SCENARIOS) % 2))


def adversarial_pairs(name: str) -> Iterator[Pair]:
    """Play an attack on every scenario, with one box and with all boxes sealed."""
    for number, (scenario, difficulty) in enumerate(SCENARIOS):
        options = {"scenario": scenario, "difficulty": difficulty}
        yield paired(number, options, ATTACKS[name], all_sealed=bool(number % 2))


def _different(seed: int) -> tuple[int, int | None, int, int]:
    pair = random_pair(seed)
    return seed, pair.difference, len(pair.actions), pair.accepted


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the pairs, and print those that differ and the totals."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--sequences", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    began, leaks, actions, accepted = time.monotonic(), list[str](), 0, 0
    for name in ATTACKS:
        for pair in adversarial_pairs(name):
            actions, accepted = actions + len(pair.actions), accepted + pair.accepted
            if pair.difference is not None:
                leaks.append(f"{name}, seed {pair.seed}, action {pair.difference}")
    with ProcessPoolExecutor(given.workers) as pool:
        for seed, difference, taken, carried_out in pool.map(
            _different, range(given.sequences), chunksize=20
        ):
            actions, accepted = actions + taken, accepted + carried_out
            if difference is not None:
                leaks.append(f"random, seed {seed}, action {difference}")
    report = {
        "random_pairs": given.sequences, "attacks": len(ATTACKS), "scenarios": len(SCENARIOS),
        "actions": actions, "accepted": accepted, "different": len(leaks),
        "seconds": round(time.monotonic() - began),
    }  # fmt: skip
    print("\n".join([*leaks[:20], json.dumps(report)]))
    return 1 if leaks else 0


if __name__ == "__main__":
    raise SystemExit(main())
