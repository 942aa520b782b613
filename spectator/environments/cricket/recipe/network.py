"""The network in torch: a small decoder, asked only at places where there is a choice."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEATURES = 24


@dataclass(frozen=True)
class Shape:
    """The size of a network."""

    vocabulary: int
    width: int = 256
    layers: int = 8
    heads: int = 8
    context: int = 512


def number_features(words: Sequence[str]) -> Tensor:
    """What tokens of numbers share with near numbers, shape ``(words, FEATURES)``; 0 for words."""
    table = torch.zeros(len(words), FEATURES)
    for place, word in enumerate(words):
        if re.fullmatch(r" ?-?\d+", word):
            at = float(word)
            found = [
                1.0,
                at / 100,
                math.tanh(at / 8),
                math.tanh(at / 25),
                math.tanh((at - 100) / 8),
                math.tanh((at - 100) / 25),
            ]
            for period in (4, 8, 16, 32, 64, 128, 256, 512):
                found += [math.sin(2 * math.pi * at / period), math.cos(2 * math.pi * at / period)]
            table[place, : len(found)] = torch.tensor(found)
    return table


class Block(nn.Module):
    """One layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads, self.size = shape.heads, width // shape.heads
        self.norm_1 = nn.Parameter(torch.ones(width))
        self.norm_2 = nn.Parameter(torch.ones(width))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, shape ``(batch, heads, tokens, size)``."""
        batch, tokens, width = x.shape
        parts = self.qkv(F.rms_norm(x, (width,), self.norm_1.to(x.dtype), 1e-5))
        q, k, v = parts.view(batch, tokens, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        return turned(q, cos, sin).to(v.dtype), turned(k, cos, sin).to(v.dtype), v

    def finish(self, x: Tensor, met: Tensor) -> Tensor:
        """The layer's output, from its input and what attention met."""
        batch, tokens, width = x.shape
        x = x + self.out(met.transpose(1, 2).reshape(batch, tokens, width))
        inner = F.relu(self.up(F.rms_norm(x, (width,), self.norm_2.to(x.dtype), 1e-5))).square()
        return x + self.down(inner)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class TorchNetwork(nn.Module):
    """A decoder with tied embeddings, and a head that foretells the worth of a decision.

    Args:
        shape: Its size.
        numbers: See :func:`number_features`.
    """

    def __init__(self, shape: Shape, numbers: Tensor) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.numbers = nn.Linear(FEATURES, shape.width, bias=False)
        self.register_buffer("number_table", numbers, persistent=False)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.width))
        self.worth = nn.Linear(shape.width, 1)
        for name, weights in self.named_parameters():
            if weights.dim() == 2:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weights, std=0.02 / (math.sqrt(2 * shape.layers) if last else 1.0))
        nn.init.zeros_(self.worth.weight)
        nn.init.zeros_(self.worth.bias)
        size = shape.width // shape.heads
        rates = 1.0 / (10000 ** (torch.arange(0, size, 2).float() / size))
        angles = torch.outer(torch.arange(shape.context).float(), rates)
        self.register_buffer("cos", torch.cos(angles), persistent=False)
        self.register_buffer("sin", torch.sin(angles), persistent=False)

    def table(self) -> Tensor:
        """The embedding of every token; numbers share what near numbers learn."""
        return self.embedding.weight + self.numbers(self.number_table)

    def hidden(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """The last layer at every token of ``ids``, shape ``(batch, tokens)``, and the embedding table."""
        table = self.table()
        tokens = ids.shape[1]
        x = F.embedding(ids, table)
        cos, sin = self.cos[:tokens].to(x.dtype), self.sin[:tokens].to(x.dtype)
        for block in self.blocks:
            q, k, v = block.attend(x, cos, sin)
            x = block.finish(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return F.rms_norm(x, (self.shape.width,), self.norm.to(x.dtype), 1e-5), table


def choice_logits(hidden: Tensor, table: Tensor, allowed: Tensor) -> Tensor:
    """Logits of what is allowed, shape of ``allowed`` ``(choices, options)``; -1 there fills up."""
    vectors = table[allowed.clamp(min=0)]
    logits = torch.einsum("cw,cow->co", hidden.float(), vectors.float())
    return logits.masked_fill(allowed < 0, -1e9)


def save(
    network: TorchNetwork, words: Sequence[str], path: Path, about: dict[str, Any] | None = None
) -> None:
    """Write weights in half precision, the embedding with its numbers in it."""
    state = {name: value.detach().float().cpu().numpy() for name, value in network.state_dict().items()}
    state["embedding.weight"] = network.table().detach().float().cpu().numpy()
    state.pop("numbers.weight")
    arrays = {name: value.astype(np.float16) for name, value in state.items()}
    head = json.dumps({"shape": asdict(network.shape), "words": list(words), "about": about or {}})
    np.savez(path, head=np.array(head), **arrays)


def load(path: Path, device: str) -> tuple[TorchNetwork, list[str]]:
    """A network that :func:`save` wrote; its numbers are part of its embedding."""
    with np.load(path) as file:
        head = json.loads(str(file["head"]))
        state = {
            name: torch.from_numpy(file[name].astype(np.float32)) for name in file.files if name != "head"
        }
    network = TorchNetwork(Shape(**head["shape"]), torch.zeros(head["shape"]["vocabulary"], FEATURES))
    network.load_state_dict(state, strict=False)
    return network.to(device), head["words"]
