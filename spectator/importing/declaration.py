"""A format as a declaration: how it is recognised, and where in its rows everything is.

No format has code of its own: `formats` has the declarations, `document_reader` reads files by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spectator.importing.paths import path

FIELDS: Final[Mapping[str, str]] = {
    "messages": "the conversation: messages, or a text; with `prompt`, the messages or text after it",
    "prompt": "messages or a text before the conversation; answers in it are context",
    "message": "the message within an item of `messages`, if it is not the item",
    "own": "whether an assistant's message is an answer of the model (default: it is)",
    "join": "value that is equal for messages which are parts of one answer",
    "parent": "place of the message before an item of `messages`; the last branch is shown",
    "turns": "requests to a model, instead of `messages`",
    "asked": "the whole prompt of a request; with a text, a part that continues if `goes_on`",
    "goes_on": "whether `asked` continues from the last answer",
    "reply": "the answer of a request (default: the last answer in the request's messages)",
    "id": "identity of the episode (default: the digest of its content)",
    "content": "what is digested (default: the row)",
    "unique": "whether equal rows without an id are the same episode",
    "environment": "name of the environment",
    "title": "title of the episode",
    "agent": "name of the model or agent",
    "group": "name of the task; episodes of one group are answers to one prompt",
    "group_prompt": "prompt that distinguishes tasks of the same name",
    "group_within": "what the names of groups begin with (default: the environment)",
    "seed": "the seed",
    "reward": "reward of the episode",
    "rubric": "object with the parts of the reward, or other scores",
    "error": "error that ended the episode without a verdict",
    "invalid": "why the episode was declared invalid; it has no verdict",
    "cut": "limit that cut the episode short",
    "ended": "whether it ended (default: it did)",
    "result": "result, as text",
    "began": "when it began",
    "tools": "the tools that were offered",
    "notes": "sentences on what is not shown",
    "order": "sort key of episodes without a time",
    **{f"turn.{name}": f"{said} of an answer, within its item" for name, said in (
        ("reward", "reward"), ("model", "model"), ("finish", "finish reason"), ("at", "time"),
        ("began", "time of the request"), ("latency", "seconds"), ("tokens_in", "tokens of the prompt"),
        ("tokens_out", "tokens"), ("token_ids", "ids of the tokens"), ("logprobs", "log probabilities"),
        ("prompt_token_ids", "ids of the prompt's tokens"), ("version", "version of the weights"),
        ("mask", "which of its tokens the model wrote"),
    )},
    **{f"only.{name}": "the same of a single answer, within the row" for name in (
        "tokens_in", "tokens_out", "token_ids", "logprobs", "prompt_token_ids",
    )},
    "last.finish": "finish reason of the last answer, within the row",
}  # fmt: skip
"""What a declaration, or ``--map``, can say of a row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeclaredFormat:
    """A declaration of a format.

    Args:
        files: Which files have it, for the docs.
        entry: What an episode is in them, for the docs.
        match: Alternatives, each with the members that a row has: ``a.b`` within a, ``a|b`` one of
            them, ``a=x`` with this value.
        condition: Expression that is true for rows of the format.
        reads: Where everything is, by `FIELDS`. Items of ``each`` are ``it``; rows of one episode are
            ``rows``, ``first``, ``last``.
        each: Members of a row that are episodes (or, with ``key``, rows of their own).
        key: Value that the rows of one episode share, in any order.
        sort: Sort key of these rows; rows with equal ones, or an equal ``row_id``, are the same.
        begins: Expression that is true for the first row of an episode, which the others follow.
        aside: Name of the kind of a row that is not shown as a message.
        lacking: Why a row without ``key`` is skipped; without this it is only counted.
        unread: Large members of the items of ``each`` that are not needed.
        archive: Members of an archive that describe all others, and the folder of the others.
        beside: File that says more, relative to the file's folder; it is ``beside``.
        version: Member with the version, and the supported ones.
        named: Name in the identity, if the format has several names.
        not_rewards: Members that are not rewards, if all other numbers are.
        label: What ``messages`` is called in errors.
    """

    name: str
    files: str = ""
    entry: str = "a row"
    match: tuple[str, ...]
    condition: str = "@"
    reads: Mapping[str, str] = field(default_factory=dict)
    each: str = ""
    key: str = ""
    sort: str = ""
    row_id: str = ""
    begins: str = ""
    aside: str = ""
    lacking: str = ""
    unread: tuple[str, ...] = ()
    archive: tuple[tuple[str, ...], str] | None = None
    beside: str = ""
    version: tuple[str, tuple[int, ...]] | None = None
    named: str = ""
    not_rewards: frozenset[str] = frozenset()
    label: str = ""

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is one of this format."""
        return not self.missing(row) and bool(self.condition == "@" or path(self.condition)(row))

    def missing(self, row: Mapping[str, Any]) -> list[str]:
        """Return the members that the nearest alternative needs and a row lacks."""
        return self.nearness(row)[1]

    def nearness(self, row: Mapping[str, Any]) -> tuple[float, list[str]]:
        """Return which part of the nearest alternative's members a row has, and the others."""
        found = []
        for each in self.match:
            needed = each.split()
            lacks = [one for one in needed if not _has(row, one)]
            found.append((1 - len(lacks) / max(1, len(needed)), lacks))
        return max(found, key=lambda one: one[0])

    @property
    def streamed(self) -> str:
        """The member whose items are read one by one."""
        return self.each if self.each.isidentifier() and not self.key else ""


def _has(row: Mapping[str, Any], needed: str) -> bool:
    for one in needed.split("|"):
        name, equals, expected = one.partition("=")
        value: Any = row
        for step in name.split("."):
            if isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            elif isinstance(value, Mapping) and step in value:
                value = value[step]
            else:
                break
        else:
            if not equals or value == expected:
                return True
    return False
