"""The trained captain's network in numpy, and its tokens.

Weights have eight bits; keys and values are cached. A token is a word with the preceding space, a whole
number, or the slot of a player.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from spectator.environments.cricket.trained.captain import CARD, FOLDER, WEIGHTS, read_weights
from spectator.errors import ConfigurationError

UNKNOWN: Final = "<?>"
NOTHING: Final = "~"
"""The token of a part left as usual; it is not shown."""

_SPLIT: Final = re.compile(
    r"[;,] [A-Za-z][A-Za-z'-]*\d*|\n| ?[A-Za-z][A-Za-z'-]*\d*| ?[+-]?\d+(?:\.\d)?|[\s\S]"
)
_NUMBERS: Final = range(-99, 400)


class Tokenizer:
    """Converts text to ids and back.

    Args:
        words: The vocabulary; the index of a word is its id.

    >>> tokenizer = Tokenizer(["<?>", "They", " need", " 12", "."])
    >>> tokenizer.encode("They need 12."), tokenizer.decode([1, 2, 3, 4])
    ([1, 2, 3, 4], 'They need 12.')
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._ids = {word: number for number, word in enumerate(self.words)}

    def learn(self, words: Iterable[str]) -> None:
        """Add words to the vocabulary."""
        new = [word for word in dict.fromkeys(words) if word not in self._ids]
        self._ids |= {word: len(self.words) + number for number, word in enumerate(new)}
        self.words += tuple(new)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; unknown words become :data:`UNKNOWN`."""
        return [self._ids.get(word, 0) for word in words_of(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids."""
        return "".join(self.words[number] for number in ids)


def words_of(text: str) -> list[str]:
    """Split a text into its tokens."""
    return _SPLIT.findall(text)


def vocabulary(texts: Iterable[str]) -> list[str]:
    """Return all tokens of ``texts``, all numbers and all slots, in a fixed order."""
    slots = [f"{side}{place}" for side in "bf" for place in range(1, 12)]
    always = [UNKNOWN, NOTHING, "\n", ">", ".", ":"]
    always += [f" {number}" for number in _NUMBERS]
    always += [f"{before}{slot}" for before in (" ", "; ") for slot in slots]
    found = {word for text in texts for word in words_of(text)}
    return list(dict.fromkeys([*always, *sorted(found)]))


Floats = NDArray[np.float32]

_EPSILON: Final = np.float32(1e-5)


@dataclass(frozen=True)
class NetworkLayer:
    """One layer; matrices are multiplied by a row from the left."""

    norm_1: Floats
    qkv: Floats
    out: Floats
    norm_2: Floats
    up: Floats
    down: Floats


class Network:
    """A small decoder with tied embeddings; all seats share it unchanged.

    Args:
        arrays: Weights by name; matrices have eight bits with a scale for each row.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], head: Mapping[str, Any]) -> None:
        shape = head["shape"]
        self.tokenizer = Tokenizer(head["words"])
        self.context: int = shape["context"]
        self.heads: int = shape["heads"]
        self.size: int = shape["width"] // self.heads

        def matrix(name: str) -> Floats:
            scaled: Floats = (
                arrays[name].astype(np.float32) * arrays[f"{name}.scale"].astype(np.float32)[:, None]
            )
            return scaled

        def transposed(name: str) -> Floats:
            return np.ascontiguousarray(matrix(name).T)

        def plain(name: str) -> Floats:
            return np.asarray(arrays[name], np.float32)

        self.embedding = matrix("embedding.weight")
        self.norm = plain("norm")
        self.layers = [
            NetworkLayer(
                plain(f"blocks.{at}.norm_1"),
                transposed(f"blocks.{at}.qkv.weight"),
                transposed(f"blocks.{at}.out.weight"),
                plain(f"blocks.{at}.norm_2"),
                transposed(f"blocks.{at}.up.weight"),
                transposed(f"blocks.{at}.down.weight"),
            )
            for at in range(shape["layers"])
        ]
        self.threads = ThreadpoolController()
        rates = 1.0 / (10000 ** (np.arange(0, self.size, 2, dtype=np.float32) / self.size))
        angles = np.outer(np.arange(self.context, dtype=np.float32), rates)
        self.cos: Floats = np.cos(angles).astype(np.float32)
        self.sin: Floats = np.sin(angles).astype(np.float32)

    @classmethod
    def load(cls, folder: Path = FOLDER) -> Network:
        """Read the weights of a folder.

        Raises:
            ConfigurationError: The weights are missing, do not match the card, or are not of this form.
        """
        content = BytesIO(read_weights(folder))
        try:
            with np.load(content) as file:
                arrays = {name: file[name] for name in file.files if name != "head"}
                network = cls(arrays, json.loads(str(file["head"])))
        except (ValueError, LookupError, TypeError, AttributeError, BadZipFile) as error:
            raise ConfigurationError(
                f"the weights are not those of a cricket captain ({type(error).__name__}); use the folder "
                "`captain` that `spectator train cricket-captain` writes"
            ) from error
        if not all(np.isfinite(one).all() for one in arrays.values()):
            raise ConfigurationError(
                "the weights hold values that are not finite numbers, so the training failed; train again"
            )
        return network


class Memory:
    """The state of one sentence: keys and values of all tokens read so far."""

    def __init__(self, network: Network) -> None:
        self._network = network
        room = (len(network.layers), network.heads, network.context, network.size)
        self._keys: Floats = np.zeros(room, np.float32)
        self._values: Floats = np.zeros(room, np.float32)
        self.length = 0

    def read(self, ids: Sequence[int]) -> Floats:
        """Read more tokens.

        Returns:
            The last layer at the last token, shape ``(width,)``.

        Raises:
            ValueError: The tokens do not fit into the context.
        """
        network, begin, end = self._network, self.length, self.length + len(ids)
        if end > network.context:
            raise ValueError(f"{end} tokens do not fit into a context of {network.context}")
        with network.threads.limit(limits=1, user_api="blas"):  # threads do not help such small products
            found = self._read(ids, begin, end)
        self.length = end
        return found

    def _read(self, ids: Sequence[int], begin: int, end: int) -> Floats:
        network = self._network
        x = network.embedding[np.asarray(ids)]
        tokens, width = x.shape
        cos, sin = network.cos[begin:end, None], network.sin[begin:end, None]
        hidden = np.arange(end)[None, None, :] > np.arange(begin, end)[None, :, None]
        scale = np.float32(1.0 / np.sqrt(network.size))
        for at, layer in enumerate(network.layers):
            parts = (_normed(x, layer.norm_1) @ layer.qkv).reshape(tokens, 3, network.heads, network.size)
            q, k = _rotated(parts[:, 0], cos, sin), _rotated(parts[:, 1], cos, sin)
            keys, values = self._keys[at], self._values[at]
            keys[:, begin:end] = k.transpose(1, 0, 2)
            values[:, begin:end] = parts[:, 2].transpose(1, 0, 2)
            scores = q.transpose(1, 0, 2) @ keys[:, :end].transpose(0, 2, 1) * scale
            scores[np.broadcast_to(hidden, scores.shape)] = -np.inf
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            attended = (scores @ values[:, :end]).transpose(1, 0, 2).reshape(tokens, width)
            x = x + attended @ layer.out
            inner = np.maximum(_normed(x, layer.norm_2) @ layer.up, 0)
            x = x + (inner * inner) @ layer.down
        return _normed(x[-1], network.norm)

    def chances(self, last: Floats, allowed: Sequence[int]) -> NDArray[np.float64]:
        """Return the log probability of each allowed token."""
        logits = (self._network.embedding[np.asarray(allowed)] @ last).astype(np.float64)
        logits -= logits.max()
        found: NDArray[np.float64] = logits - np.log(np.exp(logits).sum())
        return found


def _normed(x: Floats, gain: Floats) -> Floats:
    normed: Floats = x / np.sqrt((x * x).mean(-1, keepdims=True) + _EPSILON) * gain
    return normed


def _rotated(x: Floats, cos: Floats, sin: Floats) -> Floats:
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def in_eight_bits(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Quantise matrices to eight bits with row scales, vectors to half precision."""
    found: dict[str, NDArray[Any]] = {}
    for name, values in arrays.items():
        if values.ndim != 2:
            found[name] = values.astype(np.float16)
            continue
        scale = np.maximum(np.abs(values).max(-1) / 127.0, 1e-8).astype(np.float32)
        found[name] = np.round(values.astype(np.float32) / scale[:, None]).astype(np.int8)
        found[f"{name}.scale"] = scale
    return found


def write_captain(
    folder: Path, arrays: Mapping[str, NDArray[Any]], head: Mapping[str, Any], about: Mapping[str, Any]
) -> None:
    """Write weights and their card.

    Args:
        about: Content of the card besides digest and size: at least ``name`` and ``world``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = BytesIO()
    np.savez_compressed(content, allow_pickle=False, head=np.array(json.dumps(head)), **in_eight_bits(arrays))
    digest = hashlib.sha256(content.getvalue()).hexdigest()
    (folder / WEIGHTS).write_bytes(content.getvalue())
    card = {**about, "sha256": digest, "size": len(content.getvalue())}
    (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
