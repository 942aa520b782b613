"""Model calls as rows: each message once an episode, each prompt by what it adds to the one before it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, NamedTuple

from spectator.events import Event, encode_json
from spectator.journal.packing import Blob, compressed, json_bytes, pack_integers, pack_reals
from spectator.json_encoders import PlainObject
from spectator.llm.chat import settled_alike
from spectator.model_calls import ModelCall
from spectator.prefix import common_length

DIGEST_BYTES: Final = 32

CALL_COLUMNS: Final = (
    "episode_id", "seq", "place", "kept", "messages", "prompt_kept", "beside",
    "token_ids", "logprobs", "prompt_token_ids", "tools", "reply",
)  # fmt: skip
"""The columns of a call's row, in its order. A row ends with the last that is not null, for each null costs
Python's driver of SQLite as much as a value."""

REQUIRED: Final = 7
"""How many of them are never null."""

NO_TOKENS: Final = array("q")


class Prompt(NamedTuple):
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
    tokens: array[int] = NO_TOKENS


@dataclass(slots=True)
class CallRows:
    """Rows to be inserted for the calls of one commit.

    Args:
        messages: Messages and tools by their episodes and digests; those that are there already are to be
            passed over.
        calls: The calls, each as the first of :data:`CALL_COLUMNS`.
    """

    messages: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def message_rows(self) -> list[tuple[str, Blob, Blob]]:
        """The rows of the messages, their texts compressed."""
        return [
            (episode, Blob(digest), Blob(compressed(text)))
            for (episode, digest), text in self.messages.items()
        ]

    def by_length(self) -> dict[int, list[tuple[Any, ...]]]:
        """The calls by how many columns their rows have."""
        found: dict[int, list[tuple[Any, ...]]] = {}
        for row in self.calls:
            found.setdefault(len(row), []).append(row)
        return found

    def add(
        self, decided: Event, calls: Sequence[ModelCall], prompts: Mapping[str, Prompt]
    ) -> Mapping[str, Prompt]:
        """Add the calls behind one decision.

        Args:
            decided: Its ``decision.made``, or the event that tells of the failure to make it.
            calls: One for each of its exchanges.
            prompts: By actor, the last prompt of its episode.

        Returns:
            By actor, the last prompt after it.

        Raises:
            ValueError: They are not one for each.
        """
        stated = decided.data.get("undecided", decided.data)
        exchanges = stated.get("exchanges") or ()
        if len(exchanges) != len(calls):
            raise ValueError(
                f"event {decided.seq} has {len(exchanges)} exchanges and {len(calls)} calls beside it"
            )
        if not calls:
            return prompts
        episode_id, seq, actor = decided.episode_id, decided.seq, stated["actor"]
        prompt = prompts.get(actor) or Prompt()
        for place, (exchange, call) in enumerate(zip(exchanges, calls, strict=True)):
            row, prompt = self._row(episode_id, prompt, call, whole=exchange["reply"] is None)
            self.calls.append((episode_id, seq, place, *row))
        return {**prompts, actor: prompt}

    def _row(
        self, episode_id: str, before: Prompt, call: ModelCall, *, whole: bool
    ) -> tuple[tuple[Any, ...], Prompt]:
        """The columns of a call after its key, and the prompt that the next one is told by."""
        refs, kept = self._refs(episode_id, before, call.messages)
        tool_refs = before.tool_refs if call.tools is before.tools else None
        tool_refs = self._stored(episode_id, call.tools) if tool_refs is None else tool_refs
        prompt = call.prompt_token_ids
        known = 0 if prompt is None else common_length(before.tokens, prompt)
        beside = {
            "weight_versions": [list(run) for run in call.weight_versions],
            "about": call.about,
            "measured": call.measured,
        }
        if type(call.about) is PlainObject and type(call.measured) is PlainObject:
            beside = PlainObject(beside)
        tokens = before.tokens if prompt is None else prompt + (call.token_ids or NO_TOKENS)
        nullable: tuple[Blob | None, ...] = (
            None if call.token_ids is None else Blob(pack_integers(call.token_ids)),
            None if call.logprobs is None else Blob(pack_reals(call.logprobs)),
            None if prompt is None else Blob(pack_integers(prompt[known:])),
            None if tool_refs == before.tool_refs else Blob(tool_refs),
            Blob(compressed(json_bytes(call.reply))) if whole and call.reply is not None else None,
        )
        while nullable and nullable[-1] is None:
            nullable = nullable[:-1]
        row = (kept, Blob(refs[kept * DIGEST_BYTES :]), known, encode_json(beside), *nullable)
        return row, Prompt(call.messages, refs, call.tools, tool_refs, tokens)

    def _refs(
        self, episode_id: str, before: Prompt, messages: Sequence[Mapping[str, Any]]
    ) -> tuple[bytes, int]:
        """Digests of ``messages``, and how many of them are those that the prompt before began with.

        Those that are the very messages of the prompt before are not hashed again, and a conversation that
        grew is not even looked through: a long one would cost more with every call.
        """
        same = settled_alike(before.messages, messages)
        for old, new in zip(before.messages[same:], messages[same:], strict=False):
            if old is not new:
                break
            same += 1
        fresh = self._stored(episode_id, messages[same:])
        known = same * DIGEST_BYTES
        if rest := before.refs[known:]:
            same += common_length(rest, fresh) // DIGEST_BYTES
        return before.refs[:known] + fresh, same

    def _stored(self, episode_id: str, items: Sequence[Mapping[str, Any]]) -> bytes:
        refs = []
        for item in items:
            text = json_bytes(item)
            digest = sha256(text).digest()
            self.messages[episode_id, digest] = text
            refs.append(digest)
        return b"".join(refs)
