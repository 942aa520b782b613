"""The process that records watched loops: from their messages to events.

It is the only writer of its folder, and survives a loop that is killed. Loops connect to its socket and send
lines of JSON. When a connection closes, its episodes end; after the last connection, the process ends.
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
from spectator.core_events import EpisodeEnded, Warned, core_fact
from spectator.episodes.steps import cut_short
from spectator.errors import ConfigurationError, JournalError
from spectator.events import Fact, RecordedEvent, encode_json
from spectator.importing.file_rows import UNEXPECTED
from spectator.importing.foreign import (
    ForeignEpisode,
    ForeignTurn,
    UnreadableEntry,
    count,
    integers,
    number,
    reals,
    text,
    usage_of,
)
from spectator.importing.foreign_record import (
    SHOWN,
    ForeignRecord,
    plain_name,
    rewards_of,
    started_fact,
    step_fact,
)
from spectator.importing.messages import message_of, messages_of, tools_of
from spectator.journal.contract import Attachments, Journal
from spectator.journal.encoding import ChatMessage
from spectator.journal.sql_journal import SqlJournal
from spectator.runs.attempts import PROCESS_DIED, end_unfinished
from spectator.runs.run_folder import DESCRIPTION, JOURNAL
from spectator.text import clean_text

NOTE: Final = 500
"""Maximum characters of a recorded warning."""


class LiveRecord:
    """One episode, recorded while it is played.

    Args:
        episode_id: Id of the episode.
        begin: The loop's message at its beginning.
        run: Name of the run.
        clock: Time of the events.
    """

    def __init__(self, episode_id: str, begin: Mapping[str, Any], run: str, clock: Clock) -> None:
        self.episode_id = episode_id
        self.ended = False
        """Whether its end is recorded."""
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
        self._task_shown = False
        self._asked: list[ChatMessage] = []
        self._total: float | None = None
        self._record.add(
            0, [started_fact(self._episode, run, rewards_of(stepwise=True), source="remote"), *_notes(begin)]
        )
        if "observation" in begin:
            self._show_task(_text(begin["observation"]))

    def take(self) -> tuple[Sequence[RecordedEvent], Attachments | None]:
        """Return what to record since the last call."""
        events, calls = self._record.take()
        return events, Attachments(calls=calls) if any(calls) else None

    def step(self, step: Mapping[str, Any]) -> None:
        """Record a step; parts that cannot be read become a warning."""
        self._record.at = self._clock.now()
        self._turn += 1
        reward, warnings = number(step.get("reward")), list(_notes(step))
        try:
            facts = [self._decision(step)]
        except UNEXPECTED as error:
            warnings.append(_warning(f"Step {self._turn}: {error}; the model's prompt is not shown."))
            facts = [self._action(step)]
        if reward is not None:
            self._total = (self._total or 0.0) + reward
        facts.append(self._record.said(_text(step.get("observation", "")), reward, self._total))
        if reward is not None:
            facts.append(step_fact(reward, {}, last=False, done=False))
        self._record.add(self._turn, [*facts, *warnings])

    def end(self, end: Mapping[str, Any]) -> None:
        """Record the end."""
        self._record.at = self._clock.now()
        self._turn = max(self._turn, count(end.get("steps")) or 0)
        total, left_out = number(end.get("total")), count(end.get("left_out")) or 0
        facts = [*_notes(end)]
        if left_out:
            steps = f"{left_out} of its {self._turn} steps are" if left_out > 1 else "One of its steps is"
            facts.append(_warning(f"{steps} not recorded: the loop was faster than its recorder."))
        facts.append(core_fact(self._ended(end, total)))
        self._record.add(self._turn, facts)
        self.ended = True

    def interrupt(self, detail: str) -> None:
        """Record an end as interrupted, unless the episode has ended."""
        if not self.ended:
            self.end({"reason": "interrupted", "detail": detail})

    def _show_task(self, task: Sequence[ChatMessage] | str) -> None:
        self._task_shown = True
        self._record.add(0, [self._record.said(task)])

    def _show_prompt(self, answer: ForeignTurn) -> None:
        """Record the messages of the prompt that were not shown before."""
        asked, known = list(answer.asked), self._asked
        fresh = asked[len(known) :] if asked[: len(known)] == known else asked
        self._asked = asked
        shown = [one for one in fresh if one["role"] != "assistant"]
        if not self._task_shown:
            self._show_task(shown)
        elif shown and self._turn > 1:
            self._record.add(self._turn - 1, [self._record.said(shown, total=self._total)])

    def _decision(self, step: Mapping[str, Any]) -> Fact:
        answer = _answer(step)
        if answer is None:
            return self._action(step)
        decided = self._record.decided(self._episode, answer)
        self._show_prompt(answer)
        given: dict[str, Any] = {"latency_s": answer.latency_s}
        if step.get("action") is not None:
            given["action"] = _bounded(step["action"])
        return core_fact(decided.model_copy(update=given))

    def _action(self, step: Mapping[str, Any]) -> Fact:
        return core_fact(self._record.done(_bounded(step.get("action")), _took_s(step)))

    def _ended(self, end: Mapping[str, Any], total: float | None) -> EpisodeEnded:
        detail = text(end.get("detail")) or None
        match end.get("reason"):
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
            result=clean_text(text(end.get("result")) or f"{earned} in {steps}", 300),
            turns=self._turn,
            terminated=True,
            truncated=False,
            **known,
        )


def _answer(step: Mapping[str, Any]) -> ForeignTurn | None:
    """Return a step's prompt and answer of a model, if the loop gave them.

    Raises:
        UnreadableEntry: They have an unexpected form.
    """
    reply = step.get("reply")
    messages = messages_of(step.get("messages"), "messages")
    if reply is None:
        if not messages or messages[-1]["role"] != "assistant":
            return None
        said = messages.pop()
    else:
        said = message_of(
            {"role": "assistant", "content": reply} if isinstance(reply, str) else reply, "reply"
        )
    ids = integers(step.get("tokens"))
    if ids is None and step.get("tokens"):
        raise UnreadableEntry("tokens: must be token ids, integers of at least 0")
    logprobs = step.get("logprobs")
    if isinstance(logprobs, list) and len(logprobs) != len(ids or ()):
        raise UnreadableEntry(f"logprobs: {len(logprobs)} values for {len(ids or ())} tokens")
    return ForeignTurn(
        asked=messages,
        reply=said,
        fresh_prompt=True,
        token_ids=ids,
        prompt_token_ids=integers(step.get("prompt_tokens")),
        logprobs=None if ids is None else reals(logprobs, len(ids)),
        model=text(step.get("model")) or None,
        usage=usage_of(step.get("usage"), "prompt_tokens", "completion_tokens"),
        latency_s=_took_s(step),
    )


def _text(observation: object) -> str:
    return observation if isinstance(observation, str) else encode_json(observation)


def _bounded(action: object) -> dict[str, Any]:
    """Return an action as an object; of one that is too long, the beginning as text."""
    shown = action if isinstance(action, dict) else {"action": action}
    encoded = encode_json(shown)
    return shown if len(encoded) <= SHOWN else {"text": clean_text(encoded, SHOWN)}


def _took_s(step: Mapping[str, Any]) -> float:
    return max(0.0, number(step.get("took_s")) or 0.0)


def _notes(message: Mapping[str, Any]) -> Sequence[Fact]:
    return [_warning(one) for one in message.get("notes", ())]


def _warning(message: str) -> Fact:
    return core_fact(Warned(message=clean_text(message, NOTE)))


READ: Final = 1 << 20
"""Maximum bytes per read."""

FIRST_S: Final = 30.0
"""How long the process waits for its first connection, seconds."""

NICENESS: Final = 5
"""Niceness of the process, so that the loop has priority."""


class LoopRecorder:
    """Records the episodes of loops in a journal.

    Args:
        journal: The journal.
        run: Name of the run.
        clock: Time of the events.
    """

    def __init__(self, journal: Journal, run: str, clock: Clock) -> None:
        self._journal = journal
        self._run = plain_name(run) or run
        self._clock = clock
        self.connected = 0
        """Number of connected loops."""
        self.begun = asyncio.Event()
        """Set when the first loop connects."""
        self.idle = asyncio.Event()
        """Set when the last loop disconnects."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Record the messages of one connection until it closes."""
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
            detail = "the run was closed before its end" if closed else PROCESS_DIED
            await self._interrupt(episodes, detail, writer)
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
            message = json.loads(line)
            number = message.get("episode")
            if "begin" in message:
                episode_id = f"ep-{ULID()}"
                episodes[number] = LiveRecord(episode_id, message["begin"], self._run, self._clock)
            episode = episodes.get(number)
            if episode is None:
                continue
            touched[number] = episode
            if "step" in message:
                episode.step(message["step"])
            elif "end" in message:
                episode.end(message["end"])
        await self._record(touched, episodes, writer)

    async def _record(
        self, touched: Mapping[int, LiveRecord], episodes: dict[int, LiveRecord], writer: asyncio.StreamWriter
    ) -> None:
        """Record new events; after an error, an episode is not recorded further."""
        recording = [self._append(one) for one in touched.values()]
        for index, error in zip(touched, await asyncio.gather(*recording), strict=True):
            if error is not None:
                warning = f"the rest of an episode is not recorded; the loop continues: {error}"
                _send(writer, {"kind": "journal", "warning": warning})
            if error is not None or touched[index].ended:
                del episodes[index]

    async def _append(self, episode: LiveRecord) -> JournalError | None:
        events, attached = episode.take()
        try:
            await self._journal.append(events, attachments=attached)
        except JournalError as error:
            return error
        return None

    async def _interrupt(
        self, episodes: dict[int, LiveRecord], detail: str, writer: asyncio.StreamWriter
    ) -> None:
        for one in episodes.values():
            one.interrupt(detail)
        await self._record(dict(episodes), episodes, writer)


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[list[bytes]]:
    """Yield complete lines as they arrive; an incomplete last line is dropped."""
    rest: list[bytes] = []
    while data := await reader.read(READ):
        head, newline, tail = data.rpartition(b"\n")
        if not newline:
            rest.append(data)
            continue
        yield b"".join([*rest, head]).split(b"\n")
        rest = [tail]


def _send(writer: asyncio.StreamWriter, message: Mapping[str, Any]) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(message).encode() + b"\n")


async def record_loops(folder: Path, address: Path, about: Mapping[str, Any]) -> None:
    """Record what loops send to the socket at ``address``; print when it is ready.

    Args:
        folder: Folder of the run.
        address: Path of the socket, which is created here; its folder is removed at the end.
        about: Description of the run; see :data:`~spectator.runs.run_folder.DESCRIPTION`.

    Raises:
        ConfigurationError: Another process records in the folder.
        JournalError: The journal cannot be written.
        OSError: The folder or the socket cannot be created.
    """
    clock = SystemClock()
    journal = await SqlJournal.open(f"sqlite:///{folder / JOURNAL}")
    try:
        await end_unfinished(journal, clock)
        (folder / DESCRIPTION).write_text(json.dumps(about), encoding="utf-8")
        recorder = LoopRecorder(journal, folder.name, clock)
        async with await asyncio.start_unix_server(recorder.serve, address):
            _print({"ready": True})
            async with asyncio.timeout(FIRST_S):
                await recorder.begun.wait()
            await recorder.idle.wait()
    finally:
        await journal.aclose()
        shutil.rmtree(address.parent, ignore_errors=True)


def main(arguments: str) -> None:
    """Run the process; ``arguments`` is JSON: ``folder``, ``address``, ``about``."""
    os.nice(NICENESS)
    given = json.loads(arguments)
    try:
        Path(given["folder"]).mkdir(parents=True, exist_ok=True)
        asyncio.run(record_loops(Path(given["folder"]), Path(given["address"]), given["about"]))
    except (ConfigurationError, JournalError, OSError) as error:
        _print({"problem": str(error), "kind": type(error).__name__})


def _print(message: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
