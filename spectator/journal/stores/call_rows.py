"""Model calls as rows: each message once an episode, each prompt by what it adds to the one before it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import Any, Final

from spectator.events import Event, encode_json
from spectator.journal.packing import compressed, json_bytes, pack_integers, pack_reals
from spectator.model_calls import ModelCall
from spectator.prefix import common_length

DIGEST_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Prompt:
    """An actor's last prompt: what the next one begins with is not stored again.

    Args:
        messages: As they were shown; the next prompt holds the very same objects, as a rule.
        refs: Their digests, 32 bytes each.
        tools: The tools that went with them.
        tool_refs: Their digests.
        tokens: Ids of the tokens of prompt and answer; empty where they are not known.
    """

    messages: Sequence[Mapping[str, Any]] = ()
    refs: bytes = b""
    tools: Sequence[Mapping[str, Any]] = ()
    tool_refs: bytes | None = None
    tokens: array[int] = field(default_factory=lambda: array("q"))


@dataclass(slots=True)
class CallRows:
    """Rows to be inserted for the calls of one append.

    Args:
        episode_id: Whose.
        prompts: By actor, the last prompt; brought up to date with every call.
        messages: Messages and tools by their digests; those that are there already are to be passed over.
        calls: The calls.
    """

    episode_id: str
    prompts: dict[str, Prompt]
    messages: dict[bytes, bytes] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)

    def add(self, decided: Event, calls: Sequence[ModelCall]) -> None:
        """Add the calls behind one decision.

        Args:
            decided: Its ``decision.made``, or the event that tells of the failure to make it.
            calls: One for each of its exchanges.

        Raises:
            ValueError: There are more or fewer, or a number in one is not finite.
            TypeError: Something in one is not JSON.
        """
        stated = decided.data.get("undecided", decided.data)
        exchanges = stated.get("exchanges") or ()
        if len(exchanges) != len(calls):
            raise ValueError(
                f"event {decided.seq} has {len(exchanges)} exchanges and {len(calls)} calls beside it"
            )
        for place, exchange, call in zip(count(), exchanges, calls, strict=False):
            row = self._row(stated["actor"], call, whole=exchange["reply"] is None)
            self.calls.append({"episode_id": self.episode_id, "seq": decided.seq, "place": place, **row})

    def _row(self, actor: str, call: ModelCall, *, whole: bool) -> dict[str, Any]:
        before = self.prompts.get(actor, Prompt())
        refs = self._refs(before, call.messages)
        kept = common_length(before.refs, refs) // DIGEST_BYTES
        tool_refs = before.tool_refs if call.tools is before.tools else None
        tool_refs = self._stored(call.tools) if tool_refs is None else tool_refs
        prompt = call.prompt_token_ids
        known = 0 if prompt is None else common_length(before.tokens, prompt)
        beside = {
            "weight_versions": [list(run) for run in call.weight_versions],
            "about": call.about,
            "measured": call.measured,
        }
        tokens = before.tokens if prompt is None else prompt + (call.token_ids or array("q"))
        self.prompts[actor] = Prompt(call.messages, refs, call.tools, tool_refs, tokens)
        return {
            "kept": kept,
            "messages": refs[kept * DIGEST_BYTES :],
            "tools": None if tool_refs == before.tool_refs else tool_refs,
            "reply": compressed(json_bytes(call.reply)) if whole and call.reply is not None else None,
            "prompt_kept": known,
            "prompt_token_ids": None if prompt is None else pack_integers(prompt[known:]),
            "token_ids": None if call.token_ids is None else pack_integers(call.token_ids),
            "logprobs": None if call.logprobs is None else pack_reals(call.logprobs),
            "beside": encode_json(beside),
        }

    def _refs(self, before: Prompt, messages: Sequence[Mapping[str, Any]]) -> bytes:
        """Digests of ``messages``; those that the prompt before began with are not made again."""
        same = 0
        for old, new in zip(before.messages, messages, strict=False):
            if old is not new:
                break
            same += 1
        return before.refs[: same * DIGEST_BYTES] + self._stored(messages[same:])

    def _stored(self, items: Sequence[Mapping[str, Any]]) -> bytes:
        refs = []
        for item in items:
            text = json_bytes(item)
            digest = sha256(text).digest()
            self.messages[digest] = text
            refs.append(digest)
        return b"".join(refs)
