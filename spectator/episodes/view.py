"""Fold an episode's events into the viewers' state.

The state is a JSON object without ``null``, so that merge patches can express every change::

    {"episode": {...}, "decisions": {actor: {...}}, "refusals": {actor: n},
     "usage": {actor: {...}}, "feed": {seq: {...}}, "world": {...}}

An episode played unwatched (``view`` of its ``episode.started`` is ``derived``) is recorded without patches
and commentary. :class:`DerivedView` derives both when someone reads the record, and with them the viewers'
numbering, which counts lines of commentary: event 7 of the record may be event 11 of the view. The derived
view equals that of the same episode played live, byte for byte.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from spectator.catalog import LoadWorld
from spectator.environments.contract import Projection
from spectator.environments.world import World
from spectator.errors import EnvironmentFault, EpisodeDamaged, InvalidRequest, typed_as
from spectator.events import Event, RecordedEvent, decode, decode_json, encode_json, record
from spectator.json_values import apply_patch, make_patch, merge_into
from spectator.narration.commentary import Commentator, line_fact, silent

FEED_LENGTH: Final = 60
"""Maximum lines of commentary in the state; older ones are in the journal."""

PATCH: Final = ',"patch":'
"""The text before the patch of an envelope."""

NO_PATCH: Final = ',"patch":{}}'

State = Mapping[str, Any]


def with_patch(state: State, event: Event, world: Projection) -> Event:
    """Return the event with the patch that turns ``state`` into the state after it.

    Args:
        state: The viewers' state before; ``{}`` before the first event.
        event: The next event; its own patch is ignored.
    """
    core = _core_patch(state, event)
    own = world(apply_patch(state, core) if core else state, event)
    patch = {**core, "world": dict(own)} if own else core
    return Event(
        event.episode_id, event.epoch, event.seq, event.at, event.turn, event.type, event.data, patch, event.v
    )


class ViewFold:
    """Turns facts into viewers' events: numbered, with patches, and with lines of commentary.

    Live streams and readers of derived records both use it, so both produce the same bytes.

    Args:
        seq: Number of the viewers' last event.
    """

    def __init__(
        self, projection: Projection, commentator: Commentator, *, state: State | None = None, seq: int = 0
    ) -> None:
        self.state: State = {} if state is None else state
        self.seq = seq
        self._projection = projection
        self._commentator = commentator

    def add(self, fact: Event) -> list[RecordedEvent]:
        """Return ``fact`` with the next number and its patch, then its lines of commentary."""
        made = [self._append(fact, fact.type, fact.data)]
        event = made[0].event
        for line in self._commentator(event, self.state):
            said = line_fact(line, event.seq)
            made.append(self._append(fact, said.type, said.data))
        return made

    def _append(self, like: Event, kind: str, data: Mapping[str, Any]) -> RecordedEvent:
        self.seq += 1
        draft = Event(like.episode_id, like.epoch, self.seq, like.at, like.turn, kind, data)
        # Keep the decoded text, as every reader sees it, so that the world cannot change it later.
        recorded = decode(record(with_patch(self.state, draft, self._projection)).text)
        self.state = apply_patch(self.state, recorded.event.patch)
        return recorded


def unchanged(state: State, event: Event) -> Mapping[str, Any]:
    """Project nothing: the projection without a world."""
    return {}


def replay_state(events: Iterable[RecordedEvent], state: State | None = None) -> State:
    """Return the viewers' state after recorded events, from their patches."""
    folded: State = {} if state is None else state
    for recorded in events:
        folded = apply_patch(folded, recorded.event.patch)
    return folded


def folded_on(texts: Sequence[str], state: State, episode_id: str) -> State:
    """Return the viewers' state after recorded events, from their patches; copies ``state``.

    Args:
        texts: The recorded texts of the events, in order.

    Raises:
        EpisodeDamaged: An event cannot be read.
    """
    folded: dict[str, Any] = decode_json(encode_json(dict(state)))
    fold_into(folded, texts, episode_id)
    return folded


def fold_into(state: dict[str, Any], texts: Sequence[str], episode_id: str) -> None:
    """Fold in place, for a state that is not shared; see :func:`folded_on`."""
    try:
        for text in texts:
            merge_into(state, patch_in(text))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise EpisodeDamaged(f"an event of {episode_id} cannot be read: {error}") from error


def patch_in(text: str) -> Mapping[str, Any]:
    """Return the patch of a recorded event, without decoding the rest if the patch comes last.

    Quotes within strings are escaped, so :data:`PATCH` only matches a member; if its value extends to the
    last brace, it is a member of the envelope itself.

    >>> patch_in('{"v":1,"data":{"at":2},"patch":{"world":{}}}')
    {'world': {}}

    Raises:
        ValueError: The text is not JSON.
        LookupError: It has no patch.
    """
    if text.endswith(NO_PATCH):
        return {}
    patch: Mapping[str, Any]
    try:
        patch = decode_json(text[text.index(PATCH) + len(PATCH) : -1])
    except ValueError:
        patch = decode_json(text)["patch"]
    return patch


def _core_patch(state: State, event: Event) -> dict[str, Any]:
    match event.type:
        case "episode.started":
            return _started(event)
        case "decision.made":
            return _decided(state, event)
        case "action.refused":
            return _refused(event)
        case "step.taken":
            episode = state.get("episode", {})
            if episode.get("profile", {}).get("rewards") != "step":
                return {}
            return {"episode": {"total_reward": episode.get("total_reward", 0.0) + event.data["reward"]}}
        case "narration.line":
            return _said(state, event)
        case "episode.paused":
            return {"episode": {"status": "paused"}}
        case "episode.resumed":
            return {"episode": {"status": "live"}}
        case "pace.changed":
            return {"episode": {"pace": event.data["pace"]}}
        case "warning":
            return {"warning": {"seq": event.seq, "message": event.data["message"]}}
        case "episode.suspended":
            return {"warning": {"seq": event.seq, "message": event.data["detail"]}} | used(state, event)
        case "episode.ended":
            return _ended(event) | used(state, event)
        case _:
            return {}


def _started(event: Event) -> dict[str, Any]:
    shown = ("environment", "title", "options", "seed", "seats", "agent", "pack", "pace", "narration")
    return {
        "episode": {
            "id": event.episode_id,
            **{name: without_nulls(event.data[name]) for name in shown},
            **without_nulls({"parent": event.data.get("parent"), "profile": event.data.get("profile")}),
            "status": "live",
            "turn": 0,
            "started_at": event.at,
        }
    }


def _decided(state: State, event: Event) -> dict[str, Any]:
    actor = event.data["actor"]
    shown = {name: value for name, value in event.data.items() if name != "exchanges"}
    decision = {"seq": event.seq, "turn": event.turn, "at": event.at, **without_nulls(shown)}
    known = state.get("decisions", {}).get(actor, {})
    patch = {"episode": {"turn": event.turn}, "decisions": {actor: make_patch(known, decision)}}
    return patch | used(state, event)


def used(state: State, event: Event) -> dict[str, Any]:
    """Return the patch of the models' usage; a fork does not count its parent's usage again.

    A failed decision adds its usage but does not count as a decision.
    """
    undecided = event.data.get("undecided")
    data = undecided or event.data
    if data.get("model") is None or data.get("source", "model") not in ("model", "fallback"):
        return {}
    if undecided is None and event.turn <= state.get("episode", {}).get("parent", {}).get("turn", 0):
        return {}
    actor = data["actor"]
    known = state.get("usage", {}).get(actor, {})
    counted = {
        "decisions": known.get("decisions", 0) + (undecided is None),
        "fallbacks": known.get("fallbacks", 0) + (data.get("source") == "fallback"),
        "tokens_in": known.get("tokens_in", 0) + (data["tokens_in"] or 0),
        "tokens_out": known.get("tokens_out", 0) + (data["tokens_out"] or 0),
        "cost": round(known.get("cost", 0) + (data.get("cost") or 0.0), 6),
        "latency_s": round(known.get("latency_s", 0) + data["latency_s"], 6),
    }
    return {"usage": {actor: counted}}


def _refused(event: Event) -> dict[str, Any]:
    actor = event.data["actor"]
    refused = {"rule": event.data["rule"], "message": event.data["message"]}
    return {"decisions": {actor: {"refused": refused}}, "refusals": {actor: event.data["refusals"]}}


def _said(state: State, event: Event) -> dict[str, Any]:
    line = {"seq": event.seq, "turn": event.turn, **without_nulls(event.data)}
    feed: dict[str, Any] = {f"{event.seq:010d}": line}
    known = state.get("feed", {})
    for key in sorted(known)[: max(0, len(known) + 1 - FEED_LENGTH)]:
        feed[key] = None
    return {"feed": feed}


_OUTCOME: Final = ("reason", "score", "result", "detail", "total_reward", "penalty", "own_decisions")


def _ended(event: Event) -> dict[str, Any]:
    outcome = {name: event.data.get(name) for name in _OUTCOME}
    return {"episode": {"status": "ended", "ended_at": event.at, **without_nulls(outcome)}}


def without_nulls(value: Any) -> Any:
    """Remove object members that are ``None``, at any depth; list items keep their places."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [without_nulls(item) for item in value]
    return value


logger = logging.getLogger(__name__)


def is_derived(started: Event) -> bool:
    """Return whether the record that begins with ``started`` has neither patches nor commentary.

    False for a copy with both, such as an export, in which ``started`` has its patch.
    """
    return started.data.get("view") == "derived" and not started.patch


class DerivedView:
    """Derives the view of a record, one recorded event after the other.

    If the world's part of the view fails, the view continues without it.

    Args:
        world: Provides projection and commentator; ``None`` shows only the part common to all worlds.
        state: The viewers' state after ``recorded_seq``.
        seq: Number of the view's last event then.
        recorded_seq: Number of the last recorded event taken.
    """

    def __init__(
        self,
        world: World | None,
        epoch: str,
        *,
        state: State | None = None,
        seq: int = 0,
        recorded_seq: int = 0,
    ) -> None:
        self.epoch = epoch
        self.state: State = {} if state is None else state
        self.seq = seq
        self.recorded_seq = recorded_seq
        self.fault: str | None = None
        """Why the world's part is omitted, if it is."""
        self._projection: Projection = unchanged if world is None else world.projection
        self._commentator: Commentator = silent if world is None else world.commentator

    @classmethod
    def of(cls, started: Event, load: LoadWorld) -> DerivedView:
        """Make the view of the record that begins with ``started``, before its first event.

        Another version of the world may comment differently, so its numbers belong to another epoch: a viewer
        that resumes with a number of one is never given events of the other.
        """
        data = started.data
        try:
            world = load(data["environment"])
        except InvalidRequest:
            logger.warning("%s is shown without its world: %s", started.episode_id, data["environment"])
            return cls(None, _other_epoch(started.epoch, ""))
        known = world.version == data["environment_version"]
        return cls(world, started.epoch if known else _other_epoch(started.epoch, world.version))

    def further_on(self, state: State, seq: int, recorded_seq: int) -> DerivedView:
        """Return a copy of this view at a later event; see the arguments of the class."""
        view = copy(self)
        view.state, view.seq, view.recorded_seq = state, seq, recorded_seq
        return view

    def take(self, recorded: Iterable[RecordedEvent]) -> list[RecordedEvent]:
        """Derive the view's events from the next recorded events."""
        return [shown for one in recorded for shown in self.show(one.event)]

    def show(self, event: Event) -> list[RecordedEvent]:
        """Derive the view's events from the next recorded event."""
        fact = event if event.epoch == self.epoch else replace(event, epoch=self.epoch)
        try:
            with typed_as(lambda error: EnvironmentFault(f"event {event.seq}: {error!r}"), passing=()):
                fold, made = self._fold(fact)
        except EnvironmentFault as error:
            logger.exception("the world's view of %s failed and is omitted from here on", event.episode_id)
            self.fault = str(error)
            self._projection, self._commentator = unchanged, silent
            fold, made = self._fold(fact)
        self.state, self.seq, self.recorded_seq = fold.state, fold.seq, event.seq
        return made

    def _fold(self, fact: Event) -> tuple[ViewFold, list[RecordedEvent]]:
        fold = ViewFold(self._projection, self._commentator, state=self.state, seq=self.seq)
        return fold, fold.add(fact)


def _other_epoch(epoch: str, version: str) -> str:
    return sha256(f"{epoch}\x1f{version}".encode()).hexdigest()[:16]
