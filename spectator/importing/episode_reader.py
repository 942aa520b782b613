"""Read one episode by the declaration of its format."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from spectator.events import encode_json
from spectator.importing.declaration import DeclaredFormat
from spectator.importing.file_rows import UNEXPECTED, SkippedEntry
from spectator.importing.foreign import (
    ForeignEpisode,
    ForeignTurn,
    UnreadableEntry,
    count,
    digest_of,
    group_within,
    integers,
    kind_of,
    moment,
    number,
    numbers,
    reals,
    text,
)
from spectator.importing.messages import messages_in, messages_of, tools_of
from spectator.importing.paths import Path, path
from spectator.journal.encoding import ChatMessage
from spectator.text import encodable


def misfit(error: Exception) -> str:
    """Return why an entry cannot be read, as a sentence."""
    known = isinstance(error, UnreadableEntry) or (type(error) is ValueError and str(error))
    return str(error)[:300] if known else f"it does not fit the format: {error!r}"[:300]


def listed(value: Any, name: str) -> list[Any]:
    """Return a list.

    Raises:
        UnreadableEntry: It is something else.
    """
    if not isinstance(value, list):
        raise UnreadableEntry(f"{name} is {kind_of(value)}: it must be a list")
    return value


class DeclaredEpisode:
    """Reads one episode by a declaration.

    Args:
        given: What its expressions see.
        content: What is digested if the file gives it no id.
        rows: Its messages and their places, if they are rows.
        skip: Takes messages that cannot be read, if they are rows.
    """

    def __init__(
        self,
        form: DeclaredFormat,
        given: Mapping[str, Any],
        content: Any,
        rows: Sequence[tuple[str, Any]] | None = None,
        skip: Callable[[SkippedEntry], None] | None = None,
    ) -> None:
        self._form, self._given, self._content = form, given, content
        self._rows, self._skip = rows, skip
        self._turns: list[ForeignTurn] = []
        self._asked: list[ChatMessage] = []
        self._notes: list[str] = []
        self._tokens: list[int] = []
        self._ids: list[int] | None = None

    def _get(self, name: str, of: Any = None) -> Any:
        expression = self._form.reads.get(name)
        return None if expression is None else path(expression)(self._given if of is None else of)

    def read(self) -> ForeignEpisode:
        """Return the episode.

        Raises:
            UnreadableEntry: It does not fit the format.
        """
        form = self._form
        if form.version is not None:
            member, supported = form.version
            for one in (self._given, self._given.get("it")):
                if isinstance(one, Mapping) and one.get(member, supported[0]) not in supported:
                    known = " and ".join(map(str, supported))
                    raise UnreadableEntry(f"{member} is {one[member]!r}: only version {known} is supported")
        if "turns" in form.reads or "reply" in form.reads:
            self._read_requests()
        else:
            self._read_conversation()
        self._add_details()
        invalid, error = self._reason("invalid"), self._reason("error")
        reward, rubric = self._rewards()
        named = self._get("id")
        identity = named if isinstance(named, list) else [named]
        identified = identity[0] is not None and identity != [""] if identity else False
        if not identified:
            content = self._get("content")
            identity = [digest_of(self._content if content is None else content), *identity[1:]]
        environment = text(self._get("environment"))
        agent = text(self._get("agent")) or next((one.model for one in self._turns if one.model), "") or ""
        began = moment(self._get("began")) or next((one.at for one in self._turns if one.at), None)
        cut = self._get("cut")
        return ForeignEpisode(
            key=[form.named or form.name, *map(_encodable, identity)],
            anonymous=not identified and self._get("unique") is None,
            environment=environment or form.name,
            title=text(self._get("title")),
            agent=agent,
            turns=self._turns,
            after=self._asked,
            group=self._group(environment),
            seed=count(self._get("seed")),
            reward=None if invalid else reward,
            rubric={} if invalid else rubric,
            error=f"declared invalid: {invalid}" if invalid else error,
            cut=(text(cut) or "a limit") if cut else None,
            ended=self._get("ended") is not False,
            result=text(self._get("result")) or None,
            began=began,
            tools=tools_of(self._get("tools")),
            notes=[*self._notes, *filter(None, map(text, self._get("notes") or ()))],
            order_ms=count(self._get("order")) or 0,
        )

    def _group(self, environment: str) -> str | None:
        name = self._get("group")
        if name is None or name == "" or isinstance(name, list | Mapping):
            return None
        name = name if isinstance(name, str) else encode_json(name)
        environment = text(self._get("group_within")) or environment
        if not environment:
            return name
        prompt = f":{digest_of(self._get('group_prompt'))[:8]}" if "group_prompt" in self._form.reads else ""
        return f"{group_within(environment, name)}{prompt}"

    def _rewards(self) -> tuple[float | None, dict[str, float]]:
        """Return the reward and its parts."""
        reward, rubric = number(self._get("reward")), self._get("rubric")
        if not self._form.not_rewards:
            return reward, numbers(rubric)
        names = self._given["columns"]
        for name in names or ():
            if name not in self._content:
                raise UnreadableEntry(f"{text(name)} is missing: it was requested as a reward")
        chosen = names or [name for name in self._content if name not in self._form.not_rewards]
        parts = numbers({name: self._content[name] for name in chosen})
        return reward if reward is not None and not names else (
            math.fsum(parts.values()) if parts else None
        ), parts

    def _reason(self, name: str) -> str | None:
        """Return why an episode failed, as text."""
        value = self._get(name)
        if isinstance(value, list):
            value = value[-1] if value else None
        if isinstance(value, Mapping) and value:
            said = next(
                (
                    value[one]
                    for one in ("error_chain_str", "message", "reason", "error", "detail")
                    if text(value.get(one))
                ),
                "",
            )
            kind = text(value.get("type"))
            return ": ".join(filter(None, (kind, said))) or (
                "no reason given" if name == "invalid" else "it failed"
            )
        if not value:
            return None
        return text(value) or ("no reason given" if name == "invalid" else "it failed")

    def _read_conversation(self) -> None:
        """Split a conversation into answers and what was said before each."""
        self._asked = messages_of(self._get("prompt"), "prompt")
        label = self._form.label or ("messages" if self._rows is None else "message")
        value: Any = [row for _, row in self._rows] if self._rows is not None else self._get("messages")
        if isinstance(value, str):
            role = "assistant" if "prompt" in self._form.reads else "user"
            value = [{"role": role, "content": value}]
        if value is None and not self._asked and "messages" in self._form.reads:
            raise UnreadableEntry(f"{label} is missing: it must be a text or a list of messages")
        if not isinstance(value, list | None):
            raise UnreadableEntry(f"{label} is {kind_of(value)}: it must be a text or a list of messages")
        joined: Any = None
        for place, item in self._in_order(value or [], label):
            name = label if self._rows is not None else f"{label}[{place}]"
            inner = self._get("message", item) if "message" in self._form.reads else item
            if "message" in self._form.reads and self._rows is None:
                name += ".message"
            try:
                messages = messages_in(inner, name)
            except UNEXPECTED as error:
                if self._skip is None:
                    raise
                assert self._rows is not None
                self._skip(SkippedEntry(self._rows[place][0], misfit(error)))
                continue
            own = "own" not in self._form.reads or bool(self._get("own", item))
            for message in messages:
                if message["role"] != "assistant" or not own:
                    self._asked.append(message)
                    joined = None
                    continue
                part = self._get("join", item)
                if part is not None and part == joined:
                    _join(self._turns[-1].reply, message)
                else:
                    self._turns.append(ForeignTurn(asked=self._asked, reply=message))
                    self._asked = []
                self._detail(self._turns[-1], "turn.", item)
                joined = (
                    None if self._turns[-1].token_ids is not None and "mask" not in self._form.reads else part
                )
            if "turn.mask" in self._form.reads:
                self._tokens += self._ids or integers(self._get("turn.token_ids", item)) or []
                self._ids = None

    def _in_order(self, items: list[Any], label: str) -> Iterator[tuple[int, Any]]:
        """Yield the items of the last branch, or all."""
        if "parent" not in self._form.reads:
            yield from enumerate(items)
            return
        parents: list[int | None] = []
        for place, item in enumerate(items):
            if not isinstance(item, Mapping):
                raise UnreadableEntry(f"{label}[{place}] is {kind_of(item)}: it must be an object")
            parent = self._get("parent", item)
            if parent is not None and not (isinstance(parent, int) and 0 <= parent < place):
                raise UnreadableEntry(f"{label}[{place}].parent is {parent!r}: it must be an earlier message")
            parents.append(parent)
        leaves = sorted(set(range(len(items))) - set(parents))
        if len(leaves) > 1:
            self._notes.append(f"{len(leaves) - 1} other branches of its conversation are not shown")
        branch: list[int] = []
        at = leaves[-1] if leaves else None
        while at is not None:
            branch.append(at)
            at = parents[at]
        yield from ((place, items[place]) for place in reversed(branch))

    def _read_requests(self) -> None:
        """Read the requests to a model, each with its whole prompt."""
        label = self._form.label or "turns"
        requests = self._rows if self._rows is not None else [
            (f"{label}[{place}]", one) for place, one in enumerate(listed(self._get("turns"), label))
        ]  # fmt: skip
        seen: list[ChatMessage] = []
        for name, item in requests:
            try:
                turn = self._request(item, name if self._rows is None else "")
            except UNEXPECTED as error:
                if self._skip is None:
                    raise
                self._skip(SkippedEntry(name, misfit(error)))
                continue
            if turn.fresh_prompt:
                turn.known = len(seen) if _same(seen, turn.asked[: len(seen)]) else 0
                seen = []
            seen = [*seen, *turn.asked, turn.reply]
            self._detail(turn, "turn.", item)
            self._turns.append(turn)

    def _request(self, item: Any, name: str) -> ForeignTurn:
        if "reply" not in self._form.reads:
            messages = item if isinstance(item, list) else listed(self._get("asked", item), name)
            inner = DeclaredEpisode(_bare(self._form), {"messages": messages}, None)
            inner._read_conversation()
            if not inner._turns:
                raise UnreadableEntry(f"{name} has no answer: a transition must have one")
            *earlier, last = inner._turns
            last.asked = [*(one for turn in earlier for one in (*turn.asked, turn.reply)), *last.asked]
            last.fresh_prompt, self._asked = True, inner._asked
            return last
        asked, reply = self._get("asked", item), self._get("reply", item)
        if isinstance(asked, Mapping):
            asked = asked.get("messages", [{"role": "user", "content": encode_json(dict(asked))}])
        goes_on = bool(self._get("goes_on", item))
        label = f"{name}.{{}}" if name else "{}"
        said = reply_of(reply, label.format("completion" if name else "response"))
        return ForeignTurn(
            asked=messages_of(asked, label.format("prompt" if name else "messages")),
            reply=said,
            fresh_prompt=not goes_on,
        )

    def _add_details(self) -> None:
        if len(self._turns) == 1:
            self._detail(self._turns[0], "only.", self._given)
        if self._turns and (finish := text(self._get("last.finish"))):
            self._turns[-1].finish_reason = finish

    def _detail(self, turn: ForeignTurn, kind: str, item: Any) -> None:
        """Add what an item says of its answer."""
        found = {name: read(item) for name, read in _details(self._form, kind)}
        given = found.get
        usage = {
            name: known for name in ("tokens_in", "tokens_out") if (known := count(given(name))) is not None
        }
        if usage or kind == "turn.":
            turn.usage = usage or turn.usage
        if (ids := integers(given("token_ids"))) is not None:
            before: list[int] | None
            mask: Any = given("mask")
            if "mask" in found:
                self._ids = ids
                whole = isinstance(mask, list) and len(mask) == len(ids) and any(mask)
                first = mask.index(True) if whole else len(ids)
                before, ids = [*self._tokens, *ids[:first]], ids[first:]
            else:
                before = integers(given("prompt_token_ids"))
            if ids:
                turn.token_ids, turn.prompt_token_ids = ids, before
                turn.logprobs = reals(given("logprobs"), len(ids))
        if kind != "turn.":
            return
        if (reward := number(given("reward"))) is not None:
            turn.reward = reward
        turn.model = text(given("model")) or turn.model
        turn.finish_reason = text(given("finish")) or turn.finish_reason
        turn.at = moment(given("at")) or turn.at
        began, latency = moment(given("began")), number(given("latency"))
        if latency is None and began is not None and turn.at is not None:
            latency = (turn.at - began).total_seconds()
        turn.latency_s = max(0.0, latency or 0.0)
        version = given("version")
        turn.weight_version = None if version is None else str(version)


def _encodable(value: Any) -> Any:
    """Return a JSON value without lone surrogates, which have no UTF-8 encoding."""
    if isinstance(value, list):
        return [_encodable(one) for one in value]
    if isinstance(value, Mapping):
        return {encodable(name): _encodable(one) for name, one in value.items()}
    return encodable(value) if isinstance(value, str) else value


@cache
def _details(form: DeclaredFormat, kind: str) -> Sequence[tuple[str, Path]]:
    """Return what a declaration says of answers, by name without ``kind``."""
    return [(name.removeprefix(kind), path(one)) for name, one in form.reads.items() if name.startswith(kind)]


@cache
def _bare(form: DeclaredFormat) -> DeclaredFormat:
    """Return the declaration of a conversation whose items are read as those of ``form``."""
    reads = {name: one for name, one in form.reads.items() if name.startswith("turn.") or name == "join"}
    return DeclaredFormat(name=form.name, match=form.match, reads={**reads, "messages": "messages"})


def _same(seen: Sequence[ChatMessage], asked: Sequence[ChatMessage]) -> bool:
    """Whether a prompt begins with what was said before, apart from thoughts and ids."""
    return len(seen) == len(asked) and all(
        (one["role"], one["content"]) == (other["role"], other["content"])
        for one, other in zip(seen, asked, strict=True)
    )


def _join(reply: ChatMessage, more: ChatMessage) -> None:
    """Add a part of an answer to the reply."""
    for name in ("content", "reasoning_content"):
        if more.get(name):
            reply[name] = f"{reply[name]}\n{more[name]}" if reply.get(name) else more[name]
    if more.get("tool_calls"):
        reply["tool_calls"] = [*reply.get("tool_calls", ()), *more["tool_calls"]]


def reply_of(value: Any, name: str) -> ChatMessage:
    """Return the answer in a model's reply: a text, messages, or the object that an API returned.

    Raises:
        UnreadableEntry: There is none.
    """
    if isinstance(value, str):
        return {"role": "assistant", "content": messages_of(value, name)[0]["content"]}
    if isinstance(value, list):
        messages = messages_of(value, name)
        reply = next((one for one in reversed(messages) if one["role"] == "assistant"), None)
        if reply is None:
            raise UnreadableEntry(f"{name} has no assistant message")
        return reply
    if not isinstance(value, Mapping):
        raise UnreadableEntry(f"{name} is {kind_of(value)}: it must be an answer")
    for inner in ("choices", "generations", "messages", "output", "message"):
        held = value.get(inner)
        while isinstance(held, list) and held and inner in ("choices", "generations"):
            held = held[0]
        if held:
            return reply_of(held, name)
    if (
        "kwargs" in value
        or "content" in value
        or "tool_calls" in value
        or "parts" in value
        or "data" in value
    ):
        message = messages_in({"role": "assistant", **value} if "kwargs" not in value else value, name)[0]
        return message if message["role"] == "assistant" else {**message, "role": "assistant"}
    return {"role": "assistant", "content": text(value.get("text")) or encode_json(dict(value))}
