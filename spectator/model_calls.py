"""One call to a language model as a trainer needs it: what it was shown, what it answered, token by token."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from typing import Any, Final

from spectator.checked_dataclass import checked_dataclass
from spectator.json_values import PlainObject, json_encoder

_canonical: Final = json_encoder(ascii_only=True, sorted_keys=True)


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One question to a model, as it was sent, and what came back. Nothing in it is ever re-tokenised.

    Args:
        messages: The conversation as it was sent, oldest first. Nobody changes them any more.
        tools: The tools that it could call, as they were sent.
        reply: The whole answer, as :mod:`spectator.llm.exchanges` records it; ``None`` when there was none.
        prompt_token_ids: Ids of the prompt's tokens, where the server gives them.
        token_ids: Ids of the answer's tokens, shape ``(n,)``, where the server gives them.
        logprobs: Log probability of each token of the answer, in nats, shape ``(n,)``, where known.
        weight_versions: Version of the weights that made the answer's tokens, as runs of
            ``(version, tokens)`` in order; a single run of 0 tokens where no token was told apart.
        about: How it was asked: ``model``, ``temperature``, ``seed``, ``max_tokens``, ... Plain JSON; never a
            key or an address.
        measured: What differs from run to run: ``latency_s`` and ``first_token_s`` in seconds, ``attempts``.
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
        """SHA-256, in hex, of all of it but ``measured``; equal in every process.

        Args:
            request: Fingerprint of the messages and tools, see :func:`spectator.llm.exchanges.fingerprint`.

        Raises:
            TypeError: Something in it is not JSON.
            ValueError: A number in it is not finite.

        >>> ModelCall(messages=[]).digest("00")[:8] == ModelCall(messages=[]).digest("01")[:8]
        False
        """
        beside: dict[str, Any] = {
            "request": request,
            "reply": self.reply,
            "weight_versions": [list(run) for run in self.weight_versions],
            "about": self.about,
        }
        if type(self.about) is PlainObject and (self.reply is None or type(self.reply) is PlainObject):
            beside = PlainObject(beside)
        whole = sha256(_canonical(beside).encode())
        for values in (self.prompt_token_ids, self.token_ids, self.logprobs):
            whole.update(b"-" if values is None else len(values).to_bytes(8, "little") + _bytes(values))
        return whole.hexdigest()


def _bytes(values: array[Any]) -> bytes:
    """``values`` as little-endian numbers of 8 bytes each."""
    if sys.byteorder == "big":
        values = array(values.typecode, values)
        values.byteswap()
    return values.tobytes()
