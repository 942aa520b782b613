"""Supervised learning: the teacher's share of every option, wherever there is a choice."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from spectator.environments.cricket.recipe.examples import Example
from spectator.environments.cricket.recipe.network import TorchNetwork, choice_logits

Log = Callable[..., None]
MOST_OPTIONS = 24


class ExampleBatch:
    """Examples as tensors, with all their choices in one row."""

    def __init__(self, examples: Sequence[Example], device: str, context: int) -> None:
        longest = max(len(example.ids) for example in examples)
        longest = min(context, (longest + 15) // 16 * 16)
        ids = np.zeros((len(examples), longest), np.int64)
        rows, places, acts, allowed, shares = [], [], [], [], []
        for row, example in enumerate(examples):
            ids[row, : len(example.ids)] = example.ids[:longest]
            rows += [row] * len(example.at)
            places += [int(at) - 1 for at in example.at]
            acts += [bool(act) for act in example.acts]
            allowed += example.allowed
            shares += example.shares
        widest = max(len(one) for one in allowed)
        options = np.full((len(allowed), widest), -1, np.int64)
        wanted = np.zeros((len(allowed), widest), np.float32)
        for row, (one, share) in enumerate(zip(allowed, shares, strict=True)):
            options[row, : len(one)], wanted[row, : len(one)] = one, share

        def moved(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(device, non_blocking=True)

        self.ids, self.allowed, self.shares = moved(ids), moved(options), moved(wanted)
        self.rows, self.places = moved(np.array(rows, np.int64)), moved(np.array(places, np.int64))
        self.acts = moved(np.array(acts, bool))


def losses(network: TorchNetwork, batch: ExampleBatch) -> tuple[Tensor, Tensor]:
    """What each choice lost (how far from the teacher, in nats), and the logits."""
    kind = batch.ids.device.type
    with torch.autocast(kind, dtype=torch.bfloat16, enabled=kind == "cuda"):
        hidden, table = network.hidden(batch.ids)
    logits = choice_logits(hidden[batch.rows, batch.places], table, batch.allowed)
    logs = torch.log_softmax(logits, -1)
    wanted = batch.shares
    return (wanted * (torch.log(wanted.clamp(min=1e-9)) - logs)).sum(-1), logits


def batches(examples: Sequence[Example], tokens: int, rng: random.Random) -> Iterator[list[Example]]:
    """Batches of about so many tokens, of examples of like length, in random order."""
    order = list(range(len(examples)))
    rng.shuffle(order)
    for begin in range(0, len(order), 16_000):
        part = sorted(order[begin : begin + 16_000], key=lambda one: len(examples[one].ids))
        found, batch = [], []
        for one in part:
            batch.append(examples[one])
            if len(batch) * len(examples[one].ids) > tokens:
                found.append(batch)
                batch = []
        if batch:
            found.append(batch)
        rng.shuffle(found)
        yield from found


def optimizer_of(network: TorchNetwork, rate: float, decay: float = 0.05) -> torch.optim.Optimizer:
    """AdamW; scales are not decayed."""
    matrices = [weights for weights in network.parameters() if weights.dim() == 2]
    others = [weights for weights in network.parameters() if weights.dim() != 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    on_gpu = next(network.parameters()).is_cuda
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=on_gpu)


def learn(
    network: TorchNetwork,
    examples: list[Example],
    *,
    seconds: float,
    rate: float,
    tokens: int,
    more: Callable[[], list[Example]],
    log: Log,
    saved: Callable[[], None],
    seed: int = 1,
) -> dict[str, float]:
    """Learn for so many seconds; the rate falls along a cosine.

    Args:
        network: Changed in place.
        examples: To learn from; those of every twentieth match are held out.
        seconds: How long.
        rate: The highest learning rate.
        tokens: Of a batch.
        more: Gives further examples, if any came since.
        log: Hears how it goes.
        saved: Called now and then to save the weights.
        seed: Of the order of examples.
    """
    rng, device = random.Random(seed), str(next(network.parameters()).device)
    optimizer, begun, step, seen, recent = optimizer_of(network, rate), time.monotonic(), 0, 0, []
    context, last_saved = network.shape.context, time.monotonic()
    while True:
        train = [example for example in examples if example.seed % 20]
        log("examples", len(train), "held out", len(examples) - len(train))
        for batch in batches(train, tokens, rng):
            share = (time.monotonic() - begun) / seconds
            if share >= 1.0:
                return {"steps": step, "seen": seen, "examples": len(examples)}
            now = rate * min(1.0, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
            for group in optimizer.param_groups:
                group["lr"] = now
            tensors = ExampleBatch(batch, device, context)
            lost, _ = losses(network, tensors)
            acted = (lost * tensors.acts).sum() / tensors.acts.sum()
            loss = lost.mean() + acted
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            step, seen = step + 1, seen + len(batch)
            recent.append(acted.detach())
            if step % 200 == 0:
                log("step", step, "seen", seen, "kl of acts", round(float(torch.stack(recent).mean()), 4))
                recent = []
            if time.monotonic() - last_saved > 45:
                saved()
                last_saved = time.monotonic()
        examples += more()


@torch.no_grad()
def held_out(network: TorchNetwork, examples: Sequence[Example], most: int = 4000) -> dict[str, float]:
    """How near the network is to the teacher on matches that it did not learn from."""
    kept = [example for example in examples if example.seed % 20 == 0][:most]
    device, totals = str(next(network.parameters()).device), np.zeros(6)
    for begin in range(0, len(kept), 256):
        batch = ExampleBatch(kept[begin : begin + 256], device, network.shape.context)
        lost, logits = losses(network, batch)
        acts = batch.acts
        taken, best = logits.argmax(-1), batch.shares.argmax(-1)
        got = batch.shares.gather(1, taken[:, None])[:, 0] / batch.shares.max(-1).values.clamp(min=1e-9)
        found = [
            acts.sum(),
            lost[acts].sum(),
            (taken == best)[acts].sum(),
            got[acts].sum(),
            (~acts).sum(),
            lost[~acts].sum(),
        ]
        totals += np.array([float(one) for one in found])
    acts, words = max(1.0, totals[0]), max(1.0, totals[4])
    return {
        "sentences": len(kept),
        "kl_acts": totals[1] / acts,
        "agrees": totals[2] / acts,
        "share_of_best": totals[3] / acts,
        "kl_words": totals[5] / words,
    }
