"""Train the network: supervised by the teacher's probabilities, then by self-play.

In self-play both seats are trained; each decision is rewarded by its effect on the chance of winning.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from spectator.environments.cricket.recipe.examples import Example
from spectator.environments.cricket.recipe.fleet import MatchFleet, SelfPlay
from spectator.environments.cricket.recipe.torch_network import BatchedSpeech, TorchNetwork, choice_logits
from spectator.training.played_episode import SelfPlayedEpisode

Log = Callable[..., None]


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
    """Return each choice's divergence from the teacher in nats, and the logits."""
    kind = batch.ids.device.type
    with torch.autocast(kind, dtype=torch.bfloat16, enabled=kind == "cuda"):
        hidden, table = network.hidden(batch.ids)
    logits = choice_logits(hidden[batch.rows, batch.places], table, batch.allowed)
    logs = torch.log_softmax(logits, -1)
    wanted = batch.shares
    return (wanted * (torch.log(wanted.clamp(min=1e-9)) - logs)).sum(-1), logits


def batches(examples: Sequence[Example], tokens: int, rng: random.Random) -> Iterator[list[Example]]:
    """Yield batches of about ``tokens`` tokens, of similar length, in random order."""
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
    """Return AdamW without weight decay on scales."""
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
) -> dict[str, float]:
    """Train for a number of seconds; the learning rate falls along a cosine.

    Args:
        examples: Examples; those of every twentieth match are held out.
        seconds: Duration.
        more: Returns examples added since its last call.
        saved: Called regularly to save the weights.

    Returns:
        Steps, sentences seen, and number of examples.
    """
    rng, device = random.Random(1), str(next(network.parameters()).device)
    optimizer, start, step, seen, recent = optimizer_of(network, rate), time.monotonic(), 0, 0, []
    context, last_saved = network.shape.context, time.monotonic()
    while True:
        train = [example for example in examples if example.seed % 20]
        log("examples", len(train), "held out", len(examples) - len(train))
        for batch in batches(train, tokens, rng):
            share = (time.monotonic() - start) / seconds
            if share >= 1.0:
                return {"steps": step, "seen": seen, "examples": len(examples)}
            now = rate * min(1.0, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
            for group in optimizer.param_groups:
                group["lr"] = now
            tensors = ExampleBatch(batch, device, context)
            lost, _ = losses(network, tensors)
            acted = (lost * tensors.acts).sum() / tensors.acts.sum().clamp(min=1)
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
def held_out(network: TorchNetwork, examples: Sequence[Example]) -> dict[str, float]:
    """Measure how close the network is to the teacher on held-out matches."""
    kept = [example for example in examples if example.seed % 20 == 0][:4000]
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


WORTH_SCALE: Final = 50.0
"""Scale of values: a decision is worth about a fiftieth of a match."""
CLIP: Final = 0.2


@dataclass
class SelfPlayDecision:
    """One decision of self-play.

    Args:
        chances: Log probability of each chosen token.
        role: Kind of decision.
        worth: Its value in win chances.
    """

    example: Example
    chances: list[float]
    role: str
    worth: float


BOTH_SEATS: Final[Mapping[str, int | str]] = {"home": 0, "away": 0}
"""The network in training, number 0, decides for both sides."""
MATCH_DECISIONS: Final = 33
"""Usual number of decisions of a match that are learnt from."""


@dataclass(frozen=True)
class SelfPlaySettings:
    """Settings of self-play.

    Args:
        seconds: Duration.
        closeness: Weight of the distance to the initial network.
        epochs: Number of passes over each decision.
        width: Matches that each worker plays at once.
        first: Seed of the first match.
        step: Steps before these; the version of the weights.
        matches: Matches before these.
        siblings: Number of matches of each seed.
        recorded: Approximate number of matches that are recorded in each step; 0 for none.
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
    step: int = 0
    matches: int = 0
    siblings: int = 2
    recorded: int = 32

    @property
    def recorded_seeds(self) -> int:
        """One of this many seeds is recorded; 0 for none."""
        return max(1, self.decisions // (MATCH_DECISIONS * self.recorded)) if self.recorded else 0


def learn_by_self_play(
    network: TorchNetwork,
    initial: TorchNetwork,
    fleet: MatchFleet,
    workers: int,
    practice: SelfPlaySettings,
    *,
    log: Log,
    saved: Callable[[dict[str, Any]], None],
    record: Callable[[SelfPlayedEpisode], None],
) -> None:
    """Train ``network`` in place by self-play.

    Args:
        initial: The network to which it is kept close.
        saved: Called with each step's row of the learning curve.
        record: Called with each recorded match at its end.
    """
    device = next(network.parameters()).device
    start, step, matches = time.monotonic(), practice.step, practice.matches
    optimizer = optimizer_of(network, practice.rate, decay=0.0)
    generator = torch.Generator(device=device).manual_seed(practice.first + practice.step)
    rng = random.Random(practice.first + practice.step)
    firsts = [practice.first + practice.matches + 1_000_000 * at for at in range(workers)]
    jobs = [SelfPlay(first, BOTH_SEATS, practice.siblings, practice.recorded_seeds) for first in firsts]
    fleet.start(jobs, practice.width)
    waiting: dict[tuple[int, int], SelfPlayDecision] = {}
    ready: list[SelfPlayDecision] = []
    played = time.monotonic()
    choose = lambda asks: BatchedSpeech(  # noqa: E731
        [network], asks, greedy=False, generator=generator, version=f"step-{step}"
    )
    for names, worth, over, conversation in fleet.rounds(choose):
        matches += len(over)
        for match in over:
            if match.played is not None:
                record(match.played)
        for name, value in worth:
            if (decision := waiting.pop(name, None)) is not None and decision.role in ("bowl", "bat"):
                decision.worth = value
                ready.append(decision)
        assert isinstance(conversation, BatchedSpeech)
        spoken = zip(names, conversation.spoken, conversation.chances, conversation.roles, strict=True)
        for name, example, chances, role in spoken:
            waiting[name] = SelfPlayDecision(example, chances, role, 0.0)
        if len(ready) < practice.decisions:
            continue
        learning = time.monotonic()
        row = _step(network, initial, optimizer, ready, practice, rng, str(device))
        step += 1
        took = {"play_s": learning - played, "learn_s": time.monotonic() - learning}
        row |= {"step": step, "matches": matches, **took}
        row = {name: round(float(value), 5) for name, value in row.items()}
        log("self-play", row)
        saved(row)
        ready, played = [], time.monotonic()
        if time.monotonic() - start > practice.seconds or step - practice.step >= practice.most:
            break
    fleet.stop()


def _step(
    network: TorchNetwork,
    initial: TorchNetwork,
    optimizer: torch.optim.Optimizer,
    decisions: Sequence[SelfPlayDecision],
    practice: SelfPlaySettings,
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
                loss, sums = _loss(
                    network, initial, [decisions[one] for one in few], gains[few], chosen, practice, device
                )
                loss.backward()
                found += sums
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
    """Return the index in each sentence before its first choice with an effect."""
    return [
        next((int(at) for at, acts in zip(one.at, one.acts, strict=True) if acts), one.begins) - 1
        for one in examples
    ]


@torch.no_grad()
def _expected(network: TorchNetwork, decisions: Sequence[SelfPlayDecision], device: str) -> np.ndarray:
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
    initial: TorchNetwork,
    decisions: Sequence[SelfPlayDecision],
    gains: np.ndarray,
    chosen: int,
    practice: SelfPlaySettings,
    device: str,
) -> tuple[torch.Tensor, np.ndarray]:
    examples = [one.example for one in decisions]
    batch = ExampleBatch(examples, device, network.shape.context)
    where = batch.ids.device
    with torch.autocast(where.type, dtype=torch.bfloat16, enabled=batch.ids.is_cuda):
        hidden, table = network.hidden(batch.ids)
        with torch.no_grad():
            first, first_table = initial.hidden(batch.ids)
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
    divergence = (logs.exp() * (logs - then) * there).sum(-1)
    at = torch.tensor(_first_acts(examples), device=where)
    last = hidden[torch.arange(len(examples), device=where), at].float()
    worth = torch.tensor([one.worth * WORTH_SCALE for one in decisions], device=where)
    error = F.mse_loss(network.worth(last)[:, 0], worth, reduction="sum")
    loss = (
        -(better[acts].sum())
        + practice.closeness * (divergence[acts].sum() + 2.0 * divergence[~acts].sum())
        + 0.1 * error
    )
    with torch.no_grad():
        divergence, step = divergence.detach(), (old - new)[acts].sum()
        entropy = -(logs.exp() * logs * there).sum(-1)[acts].sum()
    sums = np.array([float(one) for one in (divergence[acts].sum(), step, entropy, error.detach())])
    return loss / max(1, chosen), sums
