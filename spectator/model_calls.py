"""One call to a language model with all that a trainer needs: prompt, reply and tokens."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from spectator.json_values import json_encoder

_canonical: Final = json_encoder(ascii_only=True, sorted_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One request to a model as it was sent, and its reply. Nothing in it is ever re-tokenised.

    Args:
        messages: The conversation as it was sent, oldest first; no longer modified.
        tools: The tools offered to the model, as they were sent.
        reply: The whole reply, as :mod:`spectator.llm.exchanges` records it; ``None`` if there was none.
        prompt_token_ids: Ids of the prompt's tokens, if the server returns them.
        token_ids: Ids of the reply's tokens, shape ``(n,)``, if the server returns them.
        logprobs: Log probability of each token of the reply, in nats, shape ``(n,)``, if known.
        weight_versions: Versions of the weights that produced the reply's tokens, as runs of
            ``(version, tokens)`` in order; one run of 0 tokens if tokens cannot be told apart.
        about: Parameters of the request: ``model``, ``temperature``, ``seed``, ``max_tokens``, ... Plain
            JSON; never a key or an address.
        measured: Values that differ from run to run: ``latency_s`` and ``first_token_s`` in seconds,
            ``attempts``.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    reply: Mapping[str, Any] | None = None
    prompt_token_ids: array[int] | None = None
    token_ids: array[int] | None = None
    logprobs: array[float] | None = None
    weight_versions: Sequence[tuple[str, int]] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.prompt_token_ids is None and self.token_ids is None and self.logprobs is None:
            return
        for name, kind in (("prompt_token_ids", "q"), ("token_ids", "q"), ("logprobs", "d")):
            values = getattr(self, name)
            if values is not None and (not isinstance(values, array) or values.typecode != kind):
                raise ValueError(f"{name} must be an array of type {kind!r}")

    def digest(self, request: str) -> str:
        """Return the SHA-256, in hex, of everything except ``measured``; equal in every process.

        Args:
            request: Fingerprint of the messages and tools, see :func:`spectator.llm.exchanges.fingerprint`.

        Raises:
            TypeError: A value in it is not JSON.
            ValueError: A number in it is not finite.

        >>> ModelCall(messages=[]).digest("00")[:8] == ModelCall(messages=[]).digest("01")[:8]
        False
        """
        plain: dict[str, Any] = {
            "request": request,
            "reply": self.reply,
            "weight_versions": [list(run) for run in self.weight_versions],
            "about": self.about,
        }
        digest = sha256(_canonical(plain).encode())
        for values in (self.prompt_token_ids, self.token_ids, self.logprobs):
            digest.update(b"-" if values is None else len(values).to_bytes(8, "little") + _bytes(values))
        return digest.hexdigest()


def _bytes(values: array[Any]) -> bytes:
    """Encode ``values`` as little-endian numbers of 8 bytes each."""
    if sys.byteorder == "big":
        values = array(values.typecode, values)
        values.byteswap()
    return values.tobytes()
