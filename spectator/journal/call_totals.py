"""Totals of the model calls behind an episode: tokens, log probabilities, weight versions, cost."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, case, select

from spectator.events import decode
from spectator.journal.encoding import expanded, unpack
from spectator.journal.schema import calls, events


@dataclass(slots=True)
class CallTotals:
    """Adds up the model calls of an episode's agent.

    Args:
        tokens_in: Prompt tokens of all requests; ``None`` if unknown.
        tokens_out: Tokens of all replies; ``None`` if unknown.
        estimated: Whether some of these tokens were estimated.
        cost: Cost in US dollars; ``None`` without prices.
        cut_replies: Replies that ended at the token limit.
        logprob_sum: Sum of the known log probabilities of the sampled tokens, in nats.
        logprob_tokens: How many of them are known.
        versions: Versions of the weights that wrote the replies, in order of their last use.
    """

    tokens_in: int | None = None
    tokens_out: int | None = None
    estimated: bool = False
    cost: float | None = None
    replies: int = 0
    cut_replies: int = 0
    logprob_sum: float = 0.0
    logprob_tokens: int = 0
    versions: list[str] = field(default_factory=list)

    @property
    def entropy(self) -> float | None:
        """Mean surprise of a sampled token, in nats, which estimates the policy's entropy."""
        return (0.0 - self.logprob_sum) / self.logprob_tokens if self.logprob_tokens else None

    def add(self, other: CallTotals) -> None:
        """Add the totals of another episode."""
        for name in ("tokens_in", "tokens_out", "cost"):
            self._take(name, getattr(other, name))
        self.estimated |= other.estimated
        self.replies += other.replies
        self.cut_replies += other.cut_replies
        self.logprob_sum += other.logprob_sum
        self.logprob_tokens += other.logprob_tokens
        self.versions += [one for one in other.versions if one not in self.versions]

    def decided(self, stated: Mapping[str, Any], rows: Sequence[Any]) -> None:
        """Add a decision.

        Args:
            rows: The rows of the calls behind it.
        """
        tokens: list[tuple[int | None, int | None]] = []
        for exchange, row in zip(stated.get("exchanges") or (), rows, strict=True):
            reply = exchange["reply"] if row.reply is None else json.loads(expanded(row.reply))
            if reply is not None:
                self.replies += 1
                self.cut_replies += reply.get("finish_reason") == "length"
                tokens.append(_tokens(reply, row))
            known = [] if row.logprobs is None else list(filter(math.isfinite, unpack(row.logprobs)))
            self.logprob_sum += sum(known)
            self.logprob_tokens += len(known)
            for version, _ in json.loads(row.beside)["weight_versions"]:
                if str(version) in self.versions:
                    self.versions.remove(str(version))
                self.versions.append(str(version))
        read, written = zip(*tokens, strict=True) if tokens else ((), ())
        self._take("tokens_in", stated.get("tokens_in") if None in read or not read else sum(read))
        self._take("tokens_out", stated.get("tokens_out") if None in written or not written else sum(written))
        self._take("cost", stated.get("cost"))
        self.estimated |= bool(stated.get("tokens_estimated"))

    def _take(self, name: str, more: float | None) -> None:
        if more is not None:
            setattr(self, name, (getattr(self, name) or 0) + more)


def _tokens(reply: Mapping[str, Any], row: Any) -> tuple[int | None, int | None]:
    """Return the tokens of a call's prompt and reply: as the endpoint counted them, else by their ids."""
    usage = reply.get("usage") or {}
    shown = None if row.prompt_token_ids is None else row.prompt_kept + len(unpack(row.prompt_token_ids))
    written = None if row.token_ids is None else len(unpack(row.token_ids))
    return usage.get("tokens_in") or shown, usage.get("tokens_out") or written


@dataclass(frozen=True, slots=True)
class CountedCalls:
    """The calls of some episodes.

    Args:
        totals: Totals by episode; without episodes that called no model.
        options: Options of the world in the newest of these episodes.
        sampling: Model and sampling parameters of the last call.
    """

    totals: Mapping[str, CallTotals]
    options: Mapping[str, Any]
    sampling: Mapping[str, Any]


_DECIDED: Final = (
    select(
        calls.c.episode_id,
        calls.c.seq,
        calls.c.prompt_kept,
        calls.c.prompt_token_ids,
        calls.c.token_ids,
        calls.c.logprobs,
        calls.c.reply,
        calls.c.beside,
        case((calls.c.place == 0, events.c.text)).label("text"),
    )
    .join(events, (events.c.episode_id == calls.c.episode_id) & (events.c.seq == calls.c.seq))
    .order_by(calls.c.episode_id, calls.c.seq, calls.c.place)
)


def count_calls(connection: Connection, episode_ids: Sequence[str]) -> CountedCalls:
    """Add up the agents' model calls of some episodes.

    Raises:
        ValueError: A row is damaged.
    """
    first = select(events.c.text).where(events.c.episode_id.in_(episode_ids), events.c.seq == 1)
    begun = [decode(text).event for text in connection.scalars(first.order_by(events.c.episode_id))]
    agents = {event.episode_id: event.data["agent"] for event in begun}
    totals: dict[str, CallTotals] = {}
    behind: list[Any] = []
    sampling: Mapping[str, Any] = {}
    for row in connection.execute(_DECIDED.where(calls.c.episode_id.in_(episode_ids))):
        if row.text is not None:
            _add(totals, agents, behind)
            behind = []
        behind.append(row)
    if behind:
        _add(totals, agents, behind)
        about = json.loads(behind[-1].beside)["about"]
        sampling = {name: value for name, value in about.items() if name != "settings"}
    return CountedCalls(totals, begun[-1].data.get("options") or {} if begun else {}, sampling)


def _add(totals: dict[str, CallTotals], agents: Mapping[str, str], behind: Sequence[Any]) -> None:
    """Add the calls behind one decision."""
    if not behind:
        return
    event = decode(behind[0].text).event
    stated = event.data.get("undecided", event.data)
    if stated["actor"] != agents.get(event.episode_id):
        return
    totals.setdefault(event.episode_id, CallTotals()).decided(stated, behind)
