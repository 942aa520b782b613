"""Learning by self-play: both seats are trained, each decision by what it did to the chance of winning."""

from __future__ import annotations

import copy
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F

from spectator.environments.cricket.recipe.examples import Example
from spectator.environments.cricket.recipe.fleet import MatchFleet, SelfPlay
from spectator.environments.cricket.recipe.network import TorchNetwork, choice_logits
from spectator.environments.cricket.recipe.speaking import Speaking
from spectator.environments.cricket.recipe.supervised import ExampleBatch, Log, optimizer_of

WORTH_SCALE: Final = 50.0
"""Decisions are worth about a fiftieth of a match."""
CLIP: Final = 0.2


@dataclass
class Practised:
    """One decision of self-play.

    Args:
        example: What was said.
        chances: Log probability of each token that was chosen.
        role: What kind of decision.
        worth: What it was worth, in win chances.
    """

    example: Example
    chances: list[float]
    role: str
    worth: float


@dataclass(frozen=True)
class Practice:
    """How to learn by self-play.

    Args:
        seconds: How long.
        decisions: Of each step.
        rate: Learning rate.
        closeness: Weight of the distance to the network at the start.
        minibatch: Decisions of each update.
        epochs: Times that each decision is learnt from.
        width: Matches that each worker plays at once.
        most: Steps at most.
        first: The first seed.
    """

    seconds: float
    decisions: int = 16_000
    rate: float = 2e-4
    closeness: float = 0.02
    minibatch: int = 4_000
    epochs: int = 2
    width: int = 60
    most: int = 10_000
    first: int = 3_000_000


def practise(
    network: TorchNetwork,
    fleet: MatchFleet,
    workers: int,
    practice: Practice,
    *,
    log: Log,
    saved: Callable[[list[dict[str, Any]]], None],
) -> list[dict[str, Any]]:
    """Learn by self-play; returns the curve, a row for each step."""
    device = next(network.parameters()).device
    start, begun, curve = copy.deepcopy(network).eval(), time.monotonic(), list[dict[str, Any]]()
    optimizer = optimizer_of(network, practice.rate, decay=0.0)
    generator = torch.Generator(device=device).manual_seed(practice.first)
    rng = random.Random(practice.first)
    seats = {"home": 0, "away": 0}
    fleet.begin([SelfPlay(practice.first + 1_000_000 * at, seats) for at in range(workers)], practice.width)
    waiting: dict[tuple[int, int], Practised] = {}
    ready: list[Practised] = []
    played = time.monotonic()
    matches = 0
    choose = lambda asks: Speaking([network], asks, greedy=False, generator=generator)  # noqa: E731
    for names, worth, over, conversation in fleet.rounds(choose):
        matches += len(over)
        for name, value in worth:
            if (decision := waiting.pop(name, None)) is not None and decision.role in ("bowl", "bat"):
                decision.worth = value
                ready.append(decision)
        assert isinstance(conversation, Speaking)
        for name, example, chances, role in zip(
            names, conversation.spoken, conversation.chances, conversation.roles, strict=True
        ):
            waiting[name] = Practised(example, chances, role, 0.0)
        if len(ready) < practice.decisions:
            continue
        took = time.monotonic() - played
        learning = time.monotonic()
        row = _step(network, start, optimizer, ready, practice, rng, str(device))
        row |= {
            "step": len(curve) + 1,
            "matches": matches,
            "play_s": took,
            "learn_s": time.monotonic() - learning,
        }
        row = {name: round(float(value), 5) for name, value in row.items()}
        curve.append(row)
        log("self-play", row)
        saved(curve)
        ready, played = [], time.monotonic()
        if time.monotonic() - begun > practice.seconds or len(curve) >= practice.most:
            break
    fleet.stop()
    return curve


def _step(
    network: TorchNetwork,
    start: TorchNetwork,
    optimizer: torch.optim.Optimizer,
    decisions: Sequence[Practised],
    practice: Practice,
    rng: random.Random,
    device: str,
) -> dict[str, float]:
    worth = np.array([one.worth for one in decisions])
    expected = _expected(network, decisions, device)
    gains = worth - expected
    roles = np.array([one.role == "bat" for one in decisions])
    spread = gains.std() + 1e-6
    known = 1.0 - (gains.var() / max(1e-9, worth.var()))
    for bats in (False, True):
        if (roles == bats).any():
            gains[roles == bats] -= gains[roles == bats].mean()
    gains = np.clip(gains / spread, -4.0, 4.0)
    order, totals, updates, moved = list(range(len(decisions))), np.zeros(4), 0, 0.0
    for _ in range(practice.epochs):
        rng.shuffle(order)
        if moved > 0.04:
            break
        for begin in range(0, len(order), practice.minibatch):
            part = sorted(
                order[begin : begin + practice.minibatch], key=lambda one: len(decisions[one].example.ids)
            )
            optimizer.zero_grad(set_to_none=True)
            chosen = sum(sum(map(bool, decisions[one].example.acts)) for one in part)
            found = np.zeros(4)
            for at in range(0, len(part), 256):
                few = part[at : at + 256]
                loss, told = _loss(
                    network, start, [decisions[one] for one in few], gains[few], chosen, practice, device
                )
                loss.backward()
                found += told
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            totals += found / max(1, chosen)
            updates += 1
            moved = found[1] / max(1, chosen)
    means = totals / max(1, updates)
    bat, bowl = worth[roles], worth[~roles]
    return {
        "decisions": len(decisions),
        "worth_bat": 100 * float(bat.mean()) if len(bat) else 0.0,
        "worth_bowl": 100 * float(bowl.mean()) if len(bowl) else 0.0,
        "worth": 100 * float(worth.mean()),
        "worth_se": 100 * float(worth.std()) / math.sqrt(len(worth)),
        "explained": known,
        "kl_start": means[0],
        "kl_step": means[1],
        "entropy": means[2],
        "tokens": float(np.mean([len(one.example.ids) - one.example.begins for one in decisions])),
    }


def _first_acts(examples: Sequence[Example]) -> list[int]:
    """Where each sentence first chooses something that is acted on, as a place among its tokens."""
    return [
        next((int(at) for at, acts in zip(one.at, one.acts, strict=True) if acts), one.begins) - 1
        for one in examples
    ]


@torch.no_grad()
def _expected(network: TorchNetwork, decisions: Sequence[Practised], device: str) -> np.ndarray:
    order = sorted(range(len(decisions)), key=lambda one: len(decisions[one].example.ids))
    found = np.zeros(len(decisions))
    for begin in range(0, len(order), 512):
        part = order[begin : begin + 512]
        examples = [decisions[one].example for one in part]
        batch = ExampleBatch(examples, device, network.shape.context)
        with torch.autocast(batch.ids.device.type, dtype=torch.bfloat16, enabled=batch.ids.is_cuda):
            hidden, _ = network.hidden(batch.ids)
        at = torch.tensor(_first_acts(examples), device=batch.ids.device)
        last = hidden[torch.arange(len(part), device=batch.ids.device), at].float()
        found[part] = (network.worth(last)[:, 0] / WORTH_SCALE).cpu().numpy()
    return found


def _loss(
    network: TorchNetwork,
    start: TorchNetwork,
    decisions: Sequence[Practised],
    gains: np.ndarray,
    chosen: int,
    practice: Practice,
    device: str,
) -> tuple[torch.Tensor, np.ndarray]:
    examples = [one.example for one in decisions]
    batch = ExampleBatch(examples, device, network.shape.context)
    where = batch.ids.device
    with torch.autocast(where.type, dtype=torch.bfloat16, enabled=batch.ids.is_cuda):
        hidden, table = network.hidden(batch.ids)
        with torch.no_grad():
            first, first_table = start.hidden(batch.ids)
    logs = torch.log_softmax(choice_logits(hidden[batch.rows, batch.places], table, batch.allowed), -1)
    with torch.no_grad():
        then = torch.log_softmax(
            choice_logits(first[batch.rows, batch.places], first_table, batch.allowed), -1
        )
    old = torch.tensor([log for one in decisions for log in one.chances], device=where)
    taken = batch.shares.argmax(-1)
    new = logs.gather(1, taken[:, None])[:, 0]
    acts = batch.acts
    gain = torch.tensor(gains, device=where, dtype=torch.float32)[batch.rows]
    ratio = (new - old).clamp(-5, 5).exp()
    better = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain)
    there = batch.allowed >= 0
    apart = (logs.exp() * (logs - then) * there).sum(-1)
    at = torch.tensor(_first_acts(examples), device=where)
    last = hidden[torch.arange(len(examples), device=where), at].float()
    worth = torch.tensor([one.worth * WORTH_SCALE for one in decisions], device=where)
    guessed = F.mse_loss(network.worth(last)[:, 0], worth, reduction="sum")
    loss = (
        -(better[acts].sum())
        + practice.closeness * (apart[acts].sum() + 2.0 * apart[~acts].sum())
        + 0.1 * guessed
    )
    with torch.no_grad():
        apart, step = apart.detach(), (old - new)[acts].sum()
        unsure = -(logs.exp() * logs * there).sum(-1)[acts].sum()
    told = np.array([float(one) for one in (apart[acts].sum(), step, unsure, guessed.detach())])
    return loss / max(1, chosen), told
