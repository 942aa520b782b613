"""The process that records watched loops: from their messages to events.

It is the only writer of its folder, and outlives a loop that is killed. Loops connect to its socket and
send lines of JSON. When a connection ends, so do its episodes; when the last has ended, so does the
process.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ulid import ULID

from spectator.clock import Clock, SystemClock
from spectator.episodes.steps import cut_short
from spectator.errors import ConfigurationError, JournalError
from spectator.events import EpisodeEnded, Fact, RecordedEvent, Warned, core_fact, encode_json
from spectator.importing.file_rows import UNEXPECTED
from spectator.importing.foreign import (
    ForeignEpisode,
    ForeignTurn,
    UnreadableEntry,
    count,
    integers,
    message_of,
    messages_of,
    number,
    reals,
    text,
    tools_of,
    usage_of,
)
from spectator.importing.foreign_record import (
    SHOWN,
    ForeignRecord,
    plain_name,
    rewards_of,
    said_fact,
    started_fact,
    step_fact,
    words_of,
)
from spectator.journal.contract import Attachments, Journal
from spectator.journal.encoding import ChatMessage
from spectator.journal.sql_journal import SqlJournal
from spectator.runs.attempts import PROCESS_DIED, end_unfinished
from spectator.runs.run_folder import DESCRIPTION, JOURNAL
from spectator.text import clean_text

NOTE: Final = 500
"""Characters of a warning that is recorded."""


class LiveRecord:
    """One episode, recorded while it is played.

    Args:
        episode_id: Its id.
        begin: What its loop said when it began.
        run: The run that it belongs to.
        clock: Stamps its events.
    """

    def __init__(self, episode_id: str, begin: Mapping[str, Any], run: str, clock: Clock) -> None:
        self.episode_id = episode_id
        self.ended = False
        """Whether its end was told."""
        self._clock = clock
        self._record = ForeignRecord(episode_id, clock.now())
        self._episode = ForeignEpisode(
            key=[episode_id],
            environment=text(begin.get("environment")),
            title=text(begin.get("environment")),
            turns=(),
            agent=text(begin.get("agent")) or "Agent",
            group=text(begin.get("group")) or None,
            seed=count(begin.get("seed")),
            tools=tools_of(begin.get("tools")),
        )
        self._turn = 0
        self._told_task = False
        self._asked: list[ChatMessage] = []
        self._total: float | None = None
        self._record.add(
            0, [started_fact(self._episode, run, rewards_of(stepwise=True), source="remote"), *_notes(begin)]
        )
        if "observation" in begin:
            self._show_task(_words(begin["observation"]))

    def take(self) -> tuple[Sequence[RecordedEvent], Attachments | None]:
        """What is to be recorded since the last look."""
        events, calls = self._record.take()
        return events, Attachments(calls=calls) if any(calls) else None

    def step(self, told: Mapping[str, Any]) -> None:
        """A step was taken; what of it cannot be read is said in a warning, and the rest is recorded."""
        self._record.at = self._clock.now()
        self._turn += 1
        reward, wrong = number(told.get("reward")), list(_notes(told))
        try:
            facts = [self._answered(told)]
        except UNEXPECTED as error:
            wrong.append(_warning(f"Step {self._turn}: {error}; what the model was asked is not shown."))
            facts = [self._done(told)]
        if reward is not None:
            self._total = (self._total or 0.0) + reward
        facts.append(said_fact(_words(told.get("observation", "")), reward, self._total, 0))
        if reward is not None:
            facts.append(step_fact(reward, {}, last=False, done=False))
        self._record.add(self._turn, [*facts, *wrong])

    def end(self, told: Mapping[str, Any]) -> None:
        """It is over."""
        self._record.at = self._clock.now()
        self._turn = max(self._turn, count(told.get("steps")) or 0)
        total, left_out = number(told.get("total")), count(told.get("left_out")) or 0
        facts = [*_notes(told)]
        if left_out:
            steps = f"{left_out} of its {self._turn} steps are" if left_out > 1 else "One of its steps is"
            facts.append(_warning(f"{steps} not recorded: the loop was faster than its recorder."))
        facts.append(core_fact(self._ended(told, total)))
        self._record.add(self._turn, facts)
        self.ended = True

    def break_off(self, detail: str) -> None:
        """Nobody says any more what becomes of it."""
        if not self.ended:
            self.end({"reason": "interrupted", "detail": detail})

    def _show_task(self, words: str) -> None:
        self._told_task = True
        self._record.add(0, [said_fact(words, None, None, 0)])

    def _show_question(self, answer: ForeignTurn) -> None:
        """Show what was asked beyond what is shown already."""
        asked, known = list(answer.asked), self._asked
        fresh = asked[len(known) :] if asked[: len(known)] == known else asked
        self._asked = asked
        words = words_of([one for one in fresh if one["role"] != "assistant"])
        if not self._told_task:
            self._show_task(words)
        elif words and self._turn > 1:
            self._record.add(self._turn - 1, [said_fact(words, None, self._total, 0)])

    def _answered(self, told: Mapping[str, Any]) -> Fact:
        answer = _answer(told)
        if answer is None:
            return self._done(told)
        decided = self._record.decided(self._episode, answer)
        self._show_question(answer)
        given: dict[str, Any] = {"latency_s": answer.latency_s}
        if told.get("action") is not None:
            given["action"] = _bounded(told["action"])
        return core_fact(decided.model_copy(update=given))

    def _done(self, told: Mapping[str, Any]) -> Fact:
        return core_fact(self._record.done(_bounded(told.get("action")), _took_s(told)))

    def _ended(self, told: Mapping[str, Any], total: float | None) -> EpisodeEnded:
        detail = text(told.get("detail")) or None
        match told.get("reason"):
            case "environment_error":
                return cut_short("environment_error", detail, self._turn, "unknown")
            case "interrupted":
                return cut_short("interrupted", detail, self._turn)
            case "step_cap":
                return cut_short("step_cap", detail, self._turn).model_copy(update={"total_reward": total})
        steps = f"{self._turn} step{'' if self._turn == 1 else 's'}"
        earned = "no reward" if total is None else f"{total:g} reward"
        known = {} if total is None else {"total_reward": total}
        return EpisodeEnded(
            reason="finished",
            score=total,
            result=clean_text(text(told.get("result")) or f"{earned} in {steps}", 300),
            turns=self._turn,
            terminated=True,
            truncated=False,
            **known,
        )


def _answer(told: Mapping[str, Any]) -> ForeignTurn | None:
    """What a model was asked and answered, where the loop says so.

    Raises:
        UnreadableEntry: It is not what it should be.
    """
    reply = told.get("reply")
    messages = messages_of(told.get("messages"), "messages")
    if reply is None:
        if not messages or messages[-1]["role"] != "assistant":
            return None
        said = messages.pop()
    else:
        said = message_of(
            {"role": "assistant", "content": reply} if isinstance(reply, str) else reply, "reply"
        )
    ids = integers(told.get("tokens"))
    if ids is None and told.get("tokens"):
        raise UnreadableEntry("tokens: they must be ids, whole numbers of at least 0")
    logprobs = told.get("logprobs")
    if isinstance(logprobs, list) and len(logprobs) != len(ids or ()):
        raise UnreadableEntry(f"logprobs: there are {len(logprobs)}, of {len(ids or ())} tokens")
    return ForeignTurn(
        asked=messages,
        reply=said,
        anew=True,
        token_ids=ids,
        prompt_token_ids=integers(told.get("prompt_tokens")),
        logprobs=None if ids is None else reals(logprobs, len(ids)),
        model=text(told.get("model")) or None,
        usage=usage_of(told.get("usage"), "prompt_tokens", "completion_tokens"),
        latency_s=_took_s(told),
    )


def _words(observation: object) -> str:
    return observation if isinstance(observation, str) else encode_json(observation)


def _bounded(action: object) -> dict[str, Any]:
    """An action as an event keeps it: an object, or the beginning of what is too long for one."""
    shown = action if isinstance(action, dict) else {"action": action}
    words = encode_json(shown)
    return shown if len(words) <= SHOWN else {"text": clean_text(words, SHOWN)}


def _took_s(told: Mapping[str, Any]) -> float:
    return max(0.0, number(told.get("took_s")) or 0.0)


def _notes(told: Mapping[str, Any]) -> Sequence[Fact]:
    return [_warning(one) for one in told.get("notes", ())]


def _warning(words: str) -> Fact:
    return core_fact(Warned(message=clean_text(words, NOTE)))


READ: Final = 1 << 20
"""Bytes that are read at once."""

FIRST_S: Final = 30.0
"""How long the process waits for its first connection."""

NICENESS: Final = 5
"""By how much it gives way to the loop, where both want the same processor."""


class LoopRecorder:
    """Records the episodes of loops in a journal.

    Args:
        journal: Where.
        run: Name of the run.
        clock: Stamps events.
    """

    def __init__(self, journal: Journal, run: str, clock: Clock) -> None:
        self._journal = journal
        self._run = plain_name(run) or run
        self._clock = clock
        self.connected = 0
        """Loops that are connected now."""
        self.begun = asyncio.Event()
        """Whether one ever was."""
        self.idle = asyncio.Event()
        """Whether none is any more."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Record what comes over one connection until it ends."""
        self.connected += 1
        self.begun.set()
        self.idle.clear()
        episodes: dict[int, LiveRecord] = {}
        closed = False
        try:
            async for lines in _lines(reader):
                closed = lines[-1] == b'{"close":true}' or closed
                await self._take(lines, episodes, writer)
        finally:
            await self._leave(
                episodes, "the run was closed before its end" if closed else PROCESS_DIED, writer
            )
            self.connected -= 1
            _send(writer, {"closed": True, "others": self.connected})
            writer.close()
            if not self.connected:
                self.idle.set()

    async def _take(
        self, lines: list[bytes], episodes: dict[int, LiveRecord], writer: asyncio.StreamWriter
    ) -> None:
        touched: dict[int, LiveRecord] = {}
        for line in lines:
            told = json.loads(line)
            number = told.get("episode")
            if "begin" in told:
                episode_id = f"ep-{ULID()}"
                episodes[number] = LiveRecord(episode_id, told["begin"], self._run, self._clock)
            episode = episodes.get(number)
            if episode is None:
                continue
            touched[number] = episode
            _apply(episode, told)
        await self._record(touched, episodes, writer)

    async def _record(
        self,
        touched: Mapping[int, LiveRecord],
        episodes: dict[int, LiveRecord],
        writer: asyncio.StreamWriter,
    ) -> None:
        """Record what is new of episodes; one of which something is missing is recorded no further."""
        recording = [self._append(one) for one in touched.values()]
        for place, error in zip(touched, await asyncio.gather(*recording), strict=True):
            if error is not None:
                words = f"an episode is recorded no further, and the loop goes on: {error}"
                _send(writer, {"kind": "journal", "warning": words})
            if error is not None or touched[place].ended:
                del episodes[place]

    async def _append(self, episode: LiveRecord) -> JournalError | None:
        events, attached = episode.take()
        try:
            await self._journal.append(events, attachments=attached)
        except JournalError as error:
            return error
        return None

    async def _leave(
        self, episodes: dict[int, LiveRecord], detail: str, writer: asyncio.StreamWriter
    ) -> None:
        for one in episodes.values():
            one.break_off(detail)
        await self._record(dict(episodes), episodes, writer)


def _apply(episode: LiveRecord, told: Mapping[str, Any]) -> None:
    if "step" in told:
        episode.step(told["step"])
    elif "end" in told:
        episode.end(told["end"])


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[list[bytes]]:
    """Whole lines as they come; the rest of one that a killed loop did not finish is left out."""
    rest: list[bytes] = []
    while data := await reader.read(READ):
        head, newline, tail = data.rpartition(b"\n")
        if not newline:
            rest.append(data)
            continue
        yield b"".join([*rest, head]).split(b"\n")
        rest = [tail]


def _send(writer: asyncio.StreamWriter, told: Mapping[str, Any]) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(told).encode() + b"\n")


async def record_loops(folder: Path, address: Path, about: Mapping[str, Any]) -> None:
    """Record in ``folder`` what loops send to the socket at ``address``; says on its output when they may.

    Args:
        folder: The run's.
        address: Path of a socket that is made, and removed at the end with the folder that it is in.
        about: What the run says of itself, see :data:`~spectator.runs.run_folder.DESCRIPTION`.

    Raises:
        ConfigurationError: Another process records there.
        JournalError: It cannot be written.
        OSError: The folder or the socket cannot be made.
    """
    clock = SystemClock()
    journal = await SqlJournal.open(f"sqlite:///{folder / JOURNAL}")
    try:
        await end_unfinished(journal, clock)
        (folder / DESCRIPTION).write_text(json.dumps(about), encoding="utf-8")
        recorder = LoopRecorder(journal, folder.name, clock)
        async with await asyncio.start_unix_server(recorder.serve, address):
            _say({"ready": True})
            async with asyncio.timeout(FIRST_S):
                await recorder.begun.wait()
            await recorder.idle.wait()
    finally:
        await journal.aclose()
        shutil.rmtree(address.parent, ignore_errors=True)


def main(told: str) -> None:
    """Record loops, as ``told`` says in JSON: ``folder``, ``address``, ``about``."""
    os.nice(NICENESS)
    asked = json.loads(told)
    try:
        Path(asked["folder"]).mkdir(parents=True, exist_ok=True)
        asyncio.run(record_loops(Path(asked["folder"]), Path(asked["address"]), asked["about"]))
    except (ConfigurationError, JournalError, OSError) as error:
        _say({"problem": str(error), "kind": type(error).__name__})


def _say(told: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
