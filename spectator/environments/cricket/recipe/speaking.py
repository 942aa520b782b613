"""Networks that speak many sentences at once, with caches of keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from spectator.environments.cricket.recipe.examples import Example
from spectator.environments.cricket.recipe.fleet import Answering, Ask
from spectator.environments.cricket.recipe.network import TorchNetwork, choice_logits

ROOM: Final = 96
"""Tokens of the longest sentence."""


class _Cache:
    """Sentences of one network, each at its own place."""

    def __init__(self, network: TorchNetwork, prompts: Sequence[Sequence[int]]) -> None:
        self._network, self._device = network, next(network.parameters()).device
        self._half = torch.bfloat16 if self._device.type == "cuda" else torch.float32
        longest = (max(map(len, prompts)) + 15) // 16 * 16
        ids = np.zeros((len(prompts), longest), np.int64)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = prompt
        self._at = torch.tensor([len(prompt) for prompt in prompts], device=self._device)
        shape = network.shape
        size = (len(prompts), shape.heads, longest + ROOM, shape.width // shape.heads)
        self._room = longest + ROOM
        self._keys = [torch.zeros(size, device=self._device, dtype=self._half) for _ in network.blocks]
        self._values = [torch.zeros_like(keys) for keys in self._keys]
        tokens = torch.from_numpy(ids).to(self._device)
        cos, sin = network.cos[:longest].to(self._half), network.sin[:longest].to(self._half)
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._device.type == "cuda"):
            self.table = network.table()
            x = F.embedding(tokens, self.table).to(self._half)
            for number, block in enumerate(network.blocks):
                q, k, v = block.attend(x, cos, sin)
                self._keys[number][:, :, :longest] = k
                self._values[number][:, :, :longest] = v
                x = block.finish(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))

    def add(self, chunks: Sequence[Sequence[int]]) -> Tensor:
        """Add tokens to each sentence; the last layer at the last of them, shape ``(sentences, width)``."""
        network, device = self._network, self._device
        widest = max(1, max(map(len, chunks)))
        ids = np.zeros((len(chunks), widest), np.int64)
        for row, chunk in enumerate(chunks):
            ids[row, : len(chunk)] = chunk
        counts = torch.tensor([len(chunk) for chunk in chunks], device=device)
        tokens = torch.from_numpy(ids).to(device)
        steps = torch.arange(widest, device=device)
        places = self._at[:, None] + steps
        there = steps < counts[:, None]
        rows = torch.arange(len(chunks), device=device)[:, None]
        slots = torch.where(there, places, self._room - 1)
        angles = places.clamp(max=network.shape.context - 1)
        cos, sin = network.cos[angles][:, None].to(self._half), network.sin[angles][:, None].to(self._half)
        seen = torch.arange(self._room, device=device)[None, None, :] <= places[:, :, None]
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            x = F.embedding(tokens, self.table).to(self._half)
            for number, block in enumerate(network.blocks):
                q, k, v = block.attend(x, cos, sin)
                keys, values = self._keys[number], self._values[number]
                keys[rows, :, slots] = k.transpose(1, 2).to(self._half)
                values[rows, :, slots] = v.transpose(1, 2).to(self._half)
                met = F.scaled_dot_product_attention(q.to(self._half), keys, values, attn_mask=seen[:, None])
                x = block.finish(x, met)
            last = x[torch.arange(len(chunks), device=device), (counts - 1).clamp(min=0)]
            found = F.rms_norm(last, (network.shape.width,), network.norm.to(last.dtype), 1e-5)
        self._at += counts
        return found


class Speaking(Answering):
    """The networks' part in a round.

    Args:
        networks: By number.
        asks: The decisions.
        greedy: Whether the best is taken wherever it is acted on; else all is drawn by its chance.
        generator: Draws.
        shuffled: Whether each decision is shown another match's situation of the same kind: a control.
    """

    def __init__(
        self,
        networks: Sequence[TorchNetwork],
        asks: Sequence[Ask],
        *,
        greedy: bool,
        generator: torch.Generator,
        shuffled: bool = False,
    ) -> None:
        self._greedy, self._generator = greedy, generator
        prompts = [ask.prompt for ask in asks]
        if shuffled:
            prompts = _exchanged(asks)
        self.spoken = [
            Example(0, [*prompt, *ask.said], len(prompt)) for prompt, ask in zip(prompts, asks, strict=True)
        ]
        self.chances: list[list[float]] = [[] for _ in asks]
        self.roles = [ask.role for ask in asks]
        self._allowed = [ask.allowed for ask in asks]
        self._acts = [ask.acts for ask in asks]
        self._new: list[Sequence[int]] = [ask.said for ask in asks]
        self._groups = []
        for number, network in enumerate(networks):
            rows = [row for row, ask in enumerate(asks) if ask.network == number]
            if rows:
                with torch.no_grad():
                    self._groups.append((rows, _Cache(network, [prompts[row] for row in rows])))

    @torch.no_grad()
    def tokens(self) -> list[int]:
        """See :meth:`Answering.tokens`."""
        chosen: dict[int, int] = {}
        for rows, cache in self._groups:
            if not any(self._allowed[row] for row in rows):
                continue
            hidden = cache.add([self._new[row] for row in rows])
            widest = max(len(self._allowed[row]) for row in rows)
            options = np.full((len(rows), widest), -1, np.int64)
            for at, row in enumerate(rows):
                options[at, : len(self._allowed[row])] = self._allowed[row]
            options[:, 0] = np.maximum(options[:, 0], 0)
            allowed = torch.from_numpy(options).to(hidden.device)
            logs = torch.log_softmax(choice_logits(hidden, cache.table, allowed), -1)
            drawn = torch.multinomial(logs.exp(), 1, generator=self._generator)[:, 0]
            if self._greedy:
                acts = torch.tensor([self._acts[row] for row in rows], device=hidden.device)
                drawn = torch.where(acts, logs.argmax(-1), drawn)
            sure = logs.gather(1, drawn[:, None])[:, 0].tolist()
            for row, one, log in zip(rows, drawn.tolist(), sure, strict=True):
                if self._allowed[row]:
                    chosen[row] = one
                    self.chances[row].append(log)
        self._active = sorted(chosen)
        tokens = []
        for row in self._active:
            allowed, example = self._allowed[row], self.spoken[row]
            example.at.append(len(example.ids))
            example.allowed.append(allowed)
            example.shares.append([float(at == chosen[row]) for at in range(len(allowed))])
            example.acts.append(self._acts[row])
            tokens.append(allowed[chosen[row]])
        return tokens

    def heard(self, answers: Sequence[tuple[list[int], list[int], bool]]) -> None:
        """See :meth:`Answering.heard`."""
        self._new = [() for _ in self._new]
        for row, (said, allowed, acts) in zip(self._active, answers, strict=True):
            self.spoken[row].ids += said
            self._new[row], self._allowed[row], self._acts[row] = said, allowed, acts


def _exchanged(asks: Sequence[Ask]) -> list[list[int]]:
    """The situation of the next match of the same kind, for each."""
    kinds: dict[str, list[int]] = {}
    for row, ask in enumerate(asks):
        kinds.setdefault(ask.role, []).append(row)
    prompts = [ask.prompt for ask in asks]
    for rows in kinds.values():
        for at, row in enumerate(rows):
            prompts[row] = asks[rows[(at + 1) % len(rows)]].prompt
    return prompts
