"""Check the history of a run: pure functions from what was seen and recorded to broken promises."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spectator.json_values import apply_patch

LIMIT_S: Final = 30.0
"""Seconds within which an unended episode is played, or named as troubled."""

PREFIX: Final = '{"frame":"event",'
"""Prefix of a frame before the recorded line, whose opening brace it replaces."""

ENDS: Final = frozenset({"stopped", "finished"})
"""Reasons for which an episode may end."""

RECORD_GONE: Final = frozenset({4001, 4500})
"""Close codes of a viewer whose episode is unknown now, or whose record is incomplete or was changed."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise.

    Args:
        promise: Name of the check.
        detail: What was seen.
    """

    promise: str
    detail: str


@dataclass(frozen=True, slots=True)
class ShownFrame:
    """A frame that a viewer received.

    Args:
        connection: Number of the viewer's connection, from 1.
        text: The frame as received.
    """

    connection: int
    text: str


@dataclass(slots=True)
class ViewerHistory:
    """Everything that one viewer of an episode was shown, in order.

    Args:
        name: Name of the viewer.
        episode_id: The episode that it watches.
    """

    name: str
    episode_id: str
    frames: list[ShownFrame] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Record:
    """The final record of an episode.

    Args:
        lines: Its recorded events, in order.
        breaks: What is wrong with the chain of its digests.
        named: Why it cannot be read or played, if a server says so.
    """

    lines: Sequence[str] = ()
    breaks: Sequence[str] = ()
    named: str | None = None

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Its events, decoded."""
        return [json.loads(line) for line in self.lines]


@dataclass(frozen=True, slots=True)
class Spending:
    """What models used of a cap.

    Args:
        cap: Tokens that the run may use.
        used: Tokens that the endpoint answered.
        in_flight: Tokens of requests that may be in flight when the cap is reached, of all processes that
            were started.
    """

    cap: int
    used: int
    in_flight: int


@dataclass(slots=True)
class RunHistory:
    """Everything that was seen in a run.

    Args:
        records: Final records, by episode; of every episode that a viewer watched or a start acknowledged.
        viewers: The viewers.
        started: Episodes whose start was acknowledged.
        stopped: Episodes whose stop was acknowledged.
        unbegun: Viewers that were not shown the first steps.
        unplayed: Unended episodes that no server played or named, each with the seconds waited.
        unstopped: Episodes that could not be stopped, each with the last answer.
        dead_leases: Leases whose owner does not live, each in words.
        lost: Whether the database lost commits.
        restarted: Whether it restarted or was replaced, so that a new epoch may begin.
        spending: What the workers used.
    """

    records: dict[str, Record] = field(default_factory=dict)
    viewers: list[ViewerHistory] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    unbegun: list[str] = field(default_factory=list)
    unplayed: dict[str, float] = field(default_factory=dict)
    unstopped: dict[str, str] = field(default_factory=dict)
    dead_leases: list[str] = field(default_factory=list)
    lost: bool = False
    restarted: bool = False
    spending: Spending | None = None


def notified_of_loss(viewer: ViewerHistory) -> bool:
    """Return whether a viewer was notified that events were lost, or that the record is damaged or gone.

    A new epoch after another one is how the live protocol says that earlier numbers are void.
    """
    epochs: list[str] = []
    for shown in viewer.frames:
        frame = json.loads(shown.text)
        if frame["frame"] == "hello" and frame["epoch"] not in epochs:
            epochs.append(frame["epoch"])
        if frame["frame"] == "bye" and frame["code"] in RECORD_GONE:
            return True
    return len(epochs) > 1


def check_prefix(history: RunHistory) -> Iterator[Violation]:
    """Every event shown is in the record, byte for byte, or its viewer was notified of the loss."""
    for viewer in history.viewers:
        record = history.records.get(viewer.episode_id, Record())
        recorded = {
            (one["epoch"], one["seq"]): line for one, line in zip(record.bodies, record.lines, strict=True)
        }
        missing: list[int] = []
        for shown in viewer.frames:
            if not shown.text.startswith(PREFIX):
                continue
            line = "{" + shown.text.removeprefix(PREFIX)
            frame = json.loads(shown.text)
            if recorded.get((frame["epoch"], frame["seq"])) != line:
                missing.append(frame["seq"])
        if missing and not (notified_of_loss(viewer) or record.named):
            yield Violation(
                "shown is recorded",
                f"{viewer.name} was shown events {missing[0]} to {missing[-1]} ({len(missing)}), "
                f"which are not in the record of {len(record.lines)}, and was not notified",
            )


def check_order(history: RunHistory) -> Iterator[Violation]:
    """No viewer is shown an event twice, out of order or after a gap, or is moved back."""
    for viewer in history.viewers:
        wrong: Counter[str] = Counter()
        epoch, position = "", 0
        for shown in viewer.frames:
            frame = json.loads(shown.text)
            match frame["frame"]:
                case "hello":
                    position = 0 if frame["epoch"] != epoch else position
                    epoch = frame["epoch"]
                case "snapshot":
                    wrong["moved back"] += frame["seq"] < position
                    position = frame["seq"]
                case "event":
                    seq = frame["seq"]
                    wrong["gap"] += seq > position + 1
                    wrong["shown twice or out of order"] += seq <= position
                    position = max(position, seq)
        if wrong := +wrong:
            yield Violation("once and in order", f"{viewer.name}: {dict(wrong)}")


def check_states(history: RunHistory) -> Iterator[Violation]:
    """Every snapshot is the fold of the record up to its number."""
    for viewer in history.viewers:
        record = history.records.get(viewer.episode_id, Record())
        if record.named or notified_of_loss(viewer):
            continue
        states: list[Any] = [{}]
        for body in record.bodies:
            states.append(apply_patch(states[-1], body["patch"]))
        for shown in viewer.frames:
            frame = json.loads(shown.text)
            if frame["frame"] == "snapshot" and frame["seq"] < len(states):
                if frame["state"] != states[frame["seq"]]:
                    yield Violation("states agree", f"{viewer.name}: another state after {frame['seq']}")
                    break


def check_records(history: RunHistory) -> Iterator[Violation]:
    """Every record is whole, numbered without a gap, and ends once, for a reason that is allowed."""
    for episode_id, record in history.records.items():
        if record.named:
            continue
        bodies = record.bodies
        if record.breaks:
            yield Violation("the record is whole", f"{episode_id}: {record.breaks[0]}")
        epochs = list(dict.fromkeys(body["epoch"] for body in bodies))
        if len(epochs) > 1 and not (history.lost or history.restarted):
            yield Violation("the record is whole", f"{episode_id} has {len(epochs)} epochs without a reason")
        ends = [body for body in bodies if body["type"] == "episode.ended"]
        if len(ends) > 1 or (ends and bodies[-1] is not ends[0]):
            yield Violation("one end", f"{episode_id} has {len(ends)} ends, or events after its end")
        for end in ends[:1]:
            if end["data"]["reason"] not in ENDS:
                reason, detail = end["data"]["reason"], end["data"].get("detail")
                yield Violation("no end by a fault", f"{episode_id} ended as {reason}: {detail}")


def check_steps(history: RunHistory) -> Iterator[Violation]:
    """Each turn is played once, and a step is recorded completely or not at all."""
    for episode_id, record in history.records.items():
        types = Counter((body["turn"], body["type"]) for body in record.bodies)
        last = max((turn for turn, _ in types), default=0)
        for turn in range(1, last + 1):
            decided, stepped = types[turn, "decision.made"], types[turn, "step.taken"]
            if (decided or stepped) and (decided, stepped) != (1, 1):
                yield Violation(
                    "a step is whole", f"{episode_id}, turn {turn}: {decided} decisions, {stepped} steps"
                )
                break


def check_acknowledged(history: RunHistory) -> Iterator[Violation]:
    """An acknowledged start is recorded, and an acknowledged stop is the recorded end."""
    for episode_id in history.started:
        if not history.records.get(episode_id, Record()).lines and not history.lost:
            yield Violation("acknowledged is recorded", f"{episode_id} was started and is not recorded")
    for episode_id in history.stopped:
        record = history.records.get(episode_id, Record())
        bodies = record.bodies
        if not record.named and not (bodies and bodies[-1]["type"] == "episode.ended"):
            yield Violation("acknowledged is recorded", f"{episode_id} was stopped and has no end")
    for episode_id, said in history.unstopped.items():
        if not history.records.get(episode_id, Record()).named:
            yield Violation("acknowledged is recorded", f"{episode_id} cannot be stopped: {said}")


def check_played(history: RunHistory) -> Iterator[Violation]:
    """Every unended episode is played, or named as troubled, and every viewer sees play begin."""
    for name in history.unbegun:
        yield Violation("every viewer sees play", f"{name} was not shown the first steps")
    for episode_id, seconds in history.unplayed.items():
        yield Violation("played or named", f"{episode_id}: neither for {seconds:.0f} s")


def check_viewers_reach_end(history: RunHistory) -> Iterator[Violation]:
    """Every viewer of a stopped episode is shown its end."""
    for viewer in history.viewers:
        ended = any(
            shown.text.startswith('{"frame":"bye","code":1000')
            or (shown.text.startswith(PREFIX) and json.loads(shown.text)["type"] == "episode.ended")
            for shown in viewer.frames
        )
        record = history.records.get(viewer.episode_id, Record())
        if viewer.episode_id in history.stopped and not ended and not record.named:
            if not notified_of_loss(viewer):
                yield Violation("every viewer sees the end", f"{viewer.name} was not shown the end")


def check_leases(history: RunHistory) -> Iterator[Violation]:
    """No lease is held by the dead."""
    for lease in history.dead_leases:
        yield Violation("no lease of the dead", lease)


def check_spending(history: RunHistory) -> Iterator[Violation]:
    """Spending exceeds its cap at most by the requests in flight."""
    spending = history.spending
    if spending is not None and spending.used > spending.cap + spending.in_flight:
        yield Violation(
            "spending under its cap",
            f"{spending.used:,} tokens used of {spending.cap:,}, at most {spending.in_flight:,} in flight",
        )


CHECKS: Final[Sequence[Callable[[RunHistory], Iterator[Violation]]]] = (
    check_prefix,
    check_order,
    check_states,
    check_records,
    check_steps,
    check_acknowledged,
    check_played,
    check_viewers_reach_end,
    check_leases,
    check_spending,
)


OUTLINED: Final = ("epoch", "head_seq", "seq", "type", "code", "message")
"""Fields of frames that :func:`outline` shows."""


def outline(viewer: ViewerHistory) -> str:
    """Describe the frames of a viewer, one a line."""
    lines = [f"--- {viewer.name} of {viewer.episode_id}\n"]
    for shown in viewer.frames:
        frame = json.loads(shown.text)
        fields = {key: frame[key] for key in OUTLINED if key in frame}
        lines.append(f"{shown.connection} {frame['frame']} {fields}\n")
    return "".join(lines)


def effects(history: RunHistory) -> Counter[str]:
    """Count what the nemeses of a run did to viewers and episodes, so that a tame run is noticed."""
    found: Counter[str] = Counter()
    for viewer in history.viewers:
        found["connections"] += max((shown.connection for shown in viewer.frames), default=0)
        found["frames"] += len(viewer.frames)
        found["reports of trouble"] += sum(
            shown.text.startswith('{"frame":"trouble","message":"') for shown in viewer.frames
        )
        found["viewers notified of a loss"] += notified_of_loss(viewer)
    for record in history.records.values():
        types = Counter(body["type"] for body in record.bodies)
        found["episodes continued"] += types["episode.recovered"]
        found["recorded after an outage"] += types["warning"]
        found["records named as damaged"] += record.named is not None
    return found


def check(history: RunHistory) -> list[Violation]:
    """Return every broken promise of a run."""
    return [violation for one in CHECKS for violation in one(history)]


def counted(violations: Sequence[Violation]) -> Mapping[str, int]:
    """Count violations by promise."""
    return Counter(one.promise for one in violations)
