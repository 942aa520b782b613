"""The conversation of a whole episode: the agent's prompts and replies at each decision.

A model often sees only a part of it: earlier turns shortened, old ones omitted. The transcript contains each
question as asked and each answer as given exactly once. Rejected answers, and answers replaced by a fallback,
are omitted; the format ``messages`` includes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spectator.journal.contract import Journal, RecordedCall
from spectator.journal.encoding import ChatMessage, chat_message, reply_message, tools_by_name
from spectator.journal.outline import EpisodeOutline, OutlinedDecision


@dataclass(slots=True)
class Transcript:
    """The conversation of an episode.

    Args:
        messages: All messages, oldest first; empty if no model decided.
        asked: Number of messages before the first answer.
        answers: For each answer of a model, its index among the messages and the number of its decision.
        model: The model, as the endpoint reports it.
    """

    messages: list[ChatMessage] = field(default_factory=list)
    asked: int = 0
    tools: list[Mapping[str, Any]] = field(default_factory=list)
    answers: list[tuple[int, int]] = field(default_factory=list)
    model: str | None = None

    @property
    def prompt(self) -> list[ChatMessage]:
        """The messages before the first answer."""
        return self.messages[: self.asked]

    @property
    def completion(self) -> list[ChatMessage]:
        """The messages from the first answer on."""
        return self.messages[self.asked :]

    def take(self, asked: Sequence[Mapping[str, Any]], reply: Mapping[str, Any], seq: int) -> None:
        """Add the prompt of the decision ``seq`` and the reply that became its action."""
        if not self.messages:
            self.messages += [chat_message(message) for message in asked]
            self.asked = len(self.messages)
        else:
            self._add_question(asked)
        self.answers.append((len(self.messages), seq))
        self.messages.append(reply_message(reply))
        self.model = reply.get("model") or self.model

    def _add_question(self, asked: Sequence[Mapping[str, Any]]) -> None:
        """Add the messages of ``asked`` that follow the previous answer."""
        answers = [place for place, message in enumerate(asked) if message["role"] == "assistant"]
        if not answers:
            self.messages.append(chat_message(asked[-1]))
            return
        _keep_carried_out(self.messages[-1], asked[answers[-1]])
        self.messages += [chat_message(message) for message in asked[answers[-1] + 1 :]]


def _keep_carried_out(answer: ChatMessage, remembered: Mapping[str, Any]) -> None:
    """Keep only the executed tool calls in ``answer``, with the ids that their results refer to."""
    written, kept = answer.get("tool_calls"), remembered.get("tool_calls")
    if written and kept:
        answer["tool_calls"] = [{**call, "id": one["id"]} for call, one in zip(written, kept, strict=False)]


async def calls_by_decision(
    journal: Journal, outline: EpisodeOutline
) -> AsyncIterator[tuple[OutlinedDecision, Sequence[RecordedCall]]]:
    """Yield the agent's decisions for which a model was asked, a penalised one too, with all their calls."""
    last, behind = None, list[RecordedCall]()
    async for one in journal.calls(outline.summary.episode_id):
        if one.stated["actor"] != outline.agent or (decision := outline.asked(one.decided.seq)) is None:
            continue  # another actor's, or newer than the outline
        if one.decided.seq in outline.undecided and not decision.penalised:
            continue
        if last is not None and last is not decision:
            yield last, behind
            behind = []
        behind.append(one)
        last = decision
    if last is not None:
        yield last, behind


async def transcript_of(journal: Journal, outline: EpisodeOutline) -> Transcript:
    """Read the conversation of an episode, one call at a time.

    Raises:
        JournalError: A call cannot be read.
    """
    transcript = Transcript()
    async for decision, behind in calls_by_decision(journal, outline):
        reply = behind[-1].call.reply
        if decision.credited and reply is not None:
            transcript.take(behind[0].call.messages, reply, decision.seq)
            transcript.tools = tools_by_name((transcript.tools, behind[0].call.tools))
    return transcript
