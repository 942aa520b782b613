"""The network in torch: a small decoder that speaks many sentences at once.

It is asked only where a sentence has a choice.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spectator.environments.cricket.recipe.examples import Example
from spectator.environments.cricket.recipe.fleet import Answering, Ask, Drawn

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
    """Return features that similar numbers share; 0 for words.

    Returns:
        Shape ``(words, FEATURES)``.
    """
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
        """Return queries, keys and values, shape ``(batch, heads, tokens, size)``."""
        batch, tokens, width = x.shape
        parts = self.qkv(F.rms_norm(x, (width,), self.norm_1.to(x.dtype), 1e-5))
        q, k, v = parts.view(batch, tokens, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        return rotated(q, cos, sin).to(v.dtype), rotated(k, cos, sin).to(v.dtype), v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the layer's output from its input and the result of attention."""
        batch, tokens, width = x.shape
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
        inner = F.relu(self.up(F.rms_norm(x, (width,), self.norm_2.to(x.dtype), 1e-5))).square()
        return x + self.down(inner)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary positions."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class TorchNetwork(nn.Module):
    """A decoder with tied embeddings, and a head that predicts a decision's value.

    Args:
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
        """Return the embedding of every token; similar numbers share what they learn."""
        return self.embedding.weight + self.numbers(self.number_table)

    def hidden(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the last layer at every token, and the embeddings.

        Args:
            ids: Tokens, shape ``(batch, tokens)``.
        """
        table = self.table()
        tokens = ids.shape[1]
        x = F.embedding(ids, table)
        cos, sin = self.cos[:tokens].to(x.dtype), self.sin[:tokens].to(x.dtype)
        for block in self.blocks:
            q, k, v = block.attend(x, cos, sin)
            x = block.finish(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return F.rms_norm(x, (self.shape.width,), self.norm.to(x.dtype), 1e-5), table


def choice_logits(hidden: Tensor, table: Tensor, allowed: Tensor) -> Tensor:
    """Return the logits of ``allowed``, shape ``(choices, options)``; -1 is padding."""
    vectors = table[allowed.clamp(min=0)]
    logits = torch.einsum("cw,cow->co", hidden.float(), vectors.float())
    return logits.masked_fill(allowed < 0, -1e9)


def save(
    network: TorchNetwork, words: Sequence[str], path: Path, about: dict[str, Any] | None = None
) -> None:
    """Write weights in half precision; the embedding includes the number features.

    The file is replaced as a whole.
    """
    state = {name: value.detach().float().cpu().numpy() for name, value in network.state_dict().items()}
    state["embedding.weight"] = network.table().detach().float().cpu().numpy()
    state.pop("numbers.weight")
    arrays = {name: value.astype(np.float16) for name, value in state.items()}
    head = json.dumps({"shape": asdict(network.shape), "words": list(words), "about": about or {}})
    partial = path.with_name(f".{path.name}")
    np.savez(partial, head=np.array(head), **arrays)
    partial.replace(path)


def load(path: Path, device: str) -> tuple[TorchNetwork, list[str]]:
    """Load a network written by :func:`save`, or a captain's weights in eight bits, with its vocabulary.

    Its embedding includes the number features.
    """
    with np.load(path) as file:
        head = json.loads(str(file["head"]))
        arrays = {name: file[name].astype(np.float32) for name in file.files if name != "head"}
    scales = {
        name: arrays.pop(f"{name}.scale")[:, None] for name in list(arrays) if f"{name}.scale" in arrays
    }
    state = {name: torch.from_numpy(array * scales.get(name, 1.0)) for name, array in arrays.items()}
    network = TorchNetwork(Shape(**head["shape"]), torch.zeros(head["shape"]["vocabulary"], FEATURES))
    network.load_state_dict(state, strict=False)
    return network.to(device), head["words"]


MAX_SENTENCE: Final = 96
"""Maximum tokens of a sentence."""


class _Cache:
    """Sentences of one network, each at its own position."""

    def __init__(self, network: TorchNetwork, prompts: Sequence[Sequence[int]]) -> None:
        self._network, self._device = network, next(network.parameters()).device
        self._half = torch.bfloat16 if self._device.type == "cuda" else torch.float32
        longest = (max(map(len, prompts)) + 15) // 16 * 16
        ids = np.zeros((len(prompts), longest), np.int64)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = prompt
        self._at = torch.tensor([len(prompt) for prompt in prompts], device=self._device)
        shape = network.shape
        size = (len(prompts), shape.heads, longest + MAX_SENTENCE, shape.width // shape.heads)
        self._room = longest + MAX_SENTENCE
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
        """Add tokens to each sentence.

        Returns:
            The last layer at the last token of each, shape ``(sentences, width)``.
        """
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
                attended = F.scaled_dot_product_attention(
                    q.to(self._half), keys, values, attn_mask=seen[:, None]
                )
                x = block.finish(x, attended)
            last = x[torch.arange(len(chunks), device=device), (counts - 1).clamp(min=0)]
            found = F.rms_norm(last, (network.shape.width,), network.norm.to(last.dtype), 1e-5)
        self._at += counts
        return found


class BatchedSpeech(Answering):
    """The networks' answers in one round.

    Args:
        greedy: Whether choices with an effect take the best token; otherwise all tokens are drawn.
        shuffled: Whether each decision sees another match's situation of the same kind, as a control.
        version: Version of the weights, for the record.
    """

    def __init__(
        self,
        networks: Sequence[TorchNetwork],
        asks: Sequence[Ask],
        *,
        greedy: bool,
        generator: torch.Generator,
        shuffled: bool = False,
        version: str = "",
    ) -> None:
        self._greedy, self._generator, self._version = greedy, generator, version
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
    def tokens(self) -> Drawn:
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
        drawn_tokens = Drawn([], [self.chances[row][-1] for row in self._active], self._version)
        for row in self._active:
            allowed, example = self._allowed[row], self.spoken[row]
            example.at.append(len(example.ids))
            example.allowed.append(allowed)
            example.shares.append([float(at == chosen[row]) for at in range(len(allowed))])
            example.acts.append(self._acts[row])
            drawn_tokens.tokens.append(allowed[chosen[row]])
        return drawn_tokens

    def receive(self, answers: Sequence[tuple[list[int], list[int], bool]]) -> None:
        """See :meth:`Answering.receive`."""
        self._new = [() for _ in self._new]
        for row, (said, allowed, acts) in zip(self._active, answers, strict=True):
            self.spoken[row].ids += said
            self._new[row], self._allowed[row], self._acts[row] = said, allowed, acts


def _exchanged(asks: Sequence[Ask]) -> list[list[int]]:
    """Give each ask the situation of the next match of the same kind."""
    kinds: dict[str, list[int]] = {}
    for row, ask in enumerate(asks):
        kinds.setdefault(ask.role, []).append(row)
    prompts = [ask.prompt for ask in asks]
    for rows in kinds.values():
        for at, row in enumerate(rows):
            prompts[row] = asks[rows[(at + 1) % len(rows)]].prompt
    return prompts
