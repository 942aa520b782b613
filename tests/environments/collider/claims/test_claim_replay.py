"""A claim that was really played: its check plays it again and names every forgery."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from spectator.cli.verify import replayed
from spectator.environments.collider import claims
from spectator.environments.collider.claim_file import claim_file, read_evidence
from spectator.environments.collider.claims import ClaimFile, ClaimReport, check_claim, read_claim
from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.world import WORLD
from spectator.episodes.replayer import verify
from spectator.errors import InvalidRequest
from spectator.events import Event, Fact, RecordedEvent, decode, record
from spectator.observations import Observation
from spectator.policies.policy import Action
from tests.commands import spectator
from tests.environments.collider.claims.stories import digest_of

BESIDE: Final = frozenset({"events", "digest", "spectator_version"})
"""Fields of a claim file that do not follow from its events: they are the chain, or who wrote the file."""

Change = Callable[[dict[str, Any]], None]

WORDS: Final = frozenset(
    "title seats agent pack pace narration spectator_version view raw_text parse fallback_reason model "
    "latency_s tokens_in tokens_out tokens_estimated cost exchanges reasoning source duration_s legal turns "
    "detail terminated truncated truth parent reason".split()
)
"""Fields beside the campaign: names, words, measured times, how the record ended, and the digest of the
truth, which ``spectator verify`` checks. A change of one breaks the chain."""


@pytest.fixture(scope="module")
def claim(tmp_path_factory: pytest.TempPathFactory) -> ClaimFile:
    """The claim of a campaign of the textbook physicist, exported."""
    folder = tmp_path_factory.mktemp("played")
    arguments = ["play", "collider", "--seed", "1", "--captain", "heuristic", "--option", "difficulty=easy"]
    played = spectator(*arguments, "--data-dir", folder)
    assert played.exit_code == 0, played.output
    episode_id = json.loads(played.stdout.splitlines()[0])["episode_id"]
    exported = spectator("claim", "export", episode_id, "--data-dir", folder)
    return read_claim(exported.stdout)


@pytest.fixture(scope="module")
def events(claim: ClaimFile) -> list[Event]:
    return [decode(text).event for text in claim.events]


def forged(claim: ClaimFile, events: Sequence[Event]) -> ClaimFile:
    """A claim file of other events: numbered, chained, and with every figure as it follows from them."""
    recorded = [record(replace(event, seq=seq)) for seq, event in enumerate(events, 1)]
    texts = [one.text for one in recorded]
    evidence = read_evidence([one.event for one in recorded])
    return claim_file(claim.episode_id, evidence, texts, digest_of(texts), claim.spectator_version)


def changed(events: Sequence[Event], event_type: str, change: Change) -> list[Event]:
    """The events, with the first of a type changed."""
    at = next(number for number, event in enumerate(events) if event.type == event_type)
    data = json.loads(json.dumps(events[at].data))
    change(data)
    return [*events[:at], replace(events[at], data=data), *events[at + 1 :]]


def failures(report: ClaimReport) -> dict[str, str]:
    return {check.name: check.message for check in report.checks if not check.ok}


def test_a_played_claim_replays(claim: ClaimFile) -> None:
    report = check_claim(claim, replay=replayed)
    assert report.ok, report
    message = next(check.message for check in report.checks if check.name == "replay")
    assert message == f"seed and actions lead to the same {len(claim.events)} events"


def add_events(data: dict[str, Any]) -> None:
    data["counts"][len(data["counts"]) // 2] += 80


def narrow_window(data: dict[str, Any]) -> None:
    low, high = data["channels"][0]["window_gev"]
    data["channels"][0]["window_gev"] = [0.5 * (low + high), high]


def change_cut(data: dict[str, Any]) -> None:
    data["channels"][0]["cuts"]["score"] = 0.5


def lower_error(data: dict[str, Any]) -> None:
    data["mass_error_gev"] *= 0.5


FORGERIES: dict[str, tuple[str, Change, str]] = {
    "events added to a spectrum": ("collider.unblinded", add_events, "collider.unblinded differs in counts"),
    "a narrowed window": ("collider.selection_frozen", narrow_window, "selection_frozen differs in channels"),
    "another cut": ("collider.selection_frozen", change_cut, "selection_frozen differs in channels"),
    "a smaller error": ("collider.claim_made", lower_error, "claim_made differs in mass_error_gev"),
    "a smaller error of a fit": (
        "collider.resonance_fitted", lower_error, "resonance_fitted differs in mass_error_gev",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FORGERIES)
def test_a_forgery_with_a_chain_that_fits_is_named(claim: ClaimFile, events: list[Event], case: str) -> None:
    event_type, change, message = FORGERIES[case]
    found = failures(check_claim(forged(claim, changed(events, event_type, change)), replay=replayed))
    assert message in found["replay"] and found["replay"].startswith("event ")


def turn_of(events: Sequence[Event], event_type: str) -> int:
    return [event for event in events if event.type == event_type][-1].turn


def test_a_deleted_look_is_named(claim: ClaimFile, events: list[Event]) -> None:
    """Without the second unblinding, its decision and its step, the money does not add up."""
    gone = turn_of(events, "collider.unblinded")
    kept = [event for event in events if event.turn != gone]
    assert len(kept) == len(events) - 3
    found = failures(check_claim(forged(claim, kept), replay=replayed))
    assert "the replay produces" in found["replay"] or "differs in" in found["replay"]


def test_a_deleted_event_is_named(claim: ClaimFile, events: list[Event]) -> None:
    at = next(number for number, event in enumerate(events) if event.type == "collider.mass_scanned")
    found = failures(check_claim(forged(claim, [*events[:at], *events[at + 1 :]]), replay=replayed))
    assert "but the replay produces collider.mass_scanned" in found["replay"]


def test_an_added_event_is_named(claim: ClaimFile, events: list[Event]) -> None:
    at = next(number for number, event in enumerate(events) if event.type == "collider.unblinded")
    found = failures(check_claim(forged(claim, [*events[: at + 1], *events[at:]]), replay=replayed))
    assert "collider.unblinded is recorded, but the replay produces step.taken" in found["replay"]


def test_another_seed_or_version_is_named(claim: ClaimFile, events: list[Event]) -> None:
    for field, value, message in (
        ("seed", 2, "differs in"),
        ("environment_version", "0.9", "it was played with version 0.9"),
        ("environment", "tennis", "it cannot be replayed here"),
    ):
        change: Change = lambda data, field=field, value=value: data.update({field: value})  # type: ignore[misc]  # noqa: E731
        found = failures(
            check_claim(forged(claim, changed(events, "episode.started", change)), replay=replayed)
        )
        assert message in found["replay"]


class Remembered(ColliderEnvironment):
    """An environment that plays each sequence of actions once for all of its kind."""

    KNOWN: Final[dict[str, tuple[Observation, Sequence[Fact], Mapping[str, Any]]]] = {}

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        self._begin: dict[str, Any] = {"seed": seed, "episode_id": episode_id, "options": options}
        self._taken: list[Action] = []
        return self._answer()

    def step(self, action: Action) -> Observation:
        self._taken.append(action)
        return self._answer()

    def facts(self) -> Sequence[Fact]:
        return self._now[1]

    @property
    def state(self) -> Mapping[str, Any]:
        return self._now[2]

    def _answer(self) -> Observation:
        key = json.dumps([self._begin, self._taken])
        if key not in self.KNOWN:
            played = ColliderEnvironment()
            observation = played.reset(**self._begin)
            for action in self._taken:
                played.facts()
                observation = played.step(action)
            self.KNOWN[key] = observation, list(played.facts()), dict(played.state)
        self._now = self.KNOWN[key]
        return self._now[0]


def differences(events: Sequence[Event]) -> list[str]:
    """What a replay finds, with each campaign played once."""

    async def one_by_one() -> AsyncIterator[RecordedEvent]:
        for seq, event in enumerate(events, 1):
            yield record(replace(event, seq=seq))

    worlds = {"collider": replace(WORLD, environment=Remembered)}
    try:
        found = asyncio.run(verify(one_by_one(), load=worlds.__getitem__))
    except KeyError as unknown:
        return [str(unknown)]
    return [f"{one.seq}: {one.message}" for one in found]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every leaf, the middle one of each list."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            if name not in WORDS:
                yield from leaves(inner, (*path, name))
    elif isinstance(value, list) and value:
        yield from leaves(value[len(value) // 2], (*path, len(value) // 2))
    else:
        yield path


def other(value: Any) -> Any:
    """Return a value of the same kind that is not the same."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return 0.97 * value + 1e-3
        case str():
            return value + "x"
    return 1.0 if value is None else [1.0]


def mutations(events: Sequence[Event]) -> Iterator[tuple[str, list[Event]]]:
    """Yield the events with one leaf changed, of the first event of each type and of every decision."""
    seen = set()
    for at, event in enumerate(events):
        if event.type in seen:
            continue
        if event.type != "decision.made":
            seen.add(event.type)
        for path in leaves(event.data):
            data = json.loads(json.dumps(event.data))
            inner = data
            for part in path[:-1]:
                inner = inner[part]
            inner[path[-1]] = other(inner[path[-1]])
            name = f"event {at + 1} {event.type} {path}"
            yield name, [*events[:at], replace(event, data=data), *events[at + 1 :]]


def test_every_changed_field_is_found(events: list[Event]) -> None:
    assert differences(events) == []
    missed, tried = [], 0
    for name, mutated in mutations(events):
        tried += 1
        if not differences(mutated):
            missed.append(name)
    assert missed == [] and tried > 200, tried


def test_every_changed_field_beside_the_events_is_found(claim: ClaimFile, events: list[Event]) -> None:
    """Whatever a file says beside its events, must follow from them."""
    again = forged(claim, events)
    whole, missed, tried = json.loads(claim.model_dump_json()), [], 0
    for path in leaves({name: value for name, value in whole.items() if name not in BESIDE}):
        mutated = json.loads(json.dumps(whole))
        inner = mutated
        for part in path[:-1]:
            inner = inner[part]
        inner[path[-1]] = other(inner[path[-1]])
        tried += 1
        try:
            found = claims.copies(read_claim(json.dumps(mutated)), again)
        except InvalidRequest:
            continue
        if found.ok:
            missed.append(path)
    assert missed == [] and tried > 60, tried


def test_every_deleted_and_doubled_event_is_found(events: list[Event]) -> None:
    for at, event in enumerate(events):
        without, twice = [*events[:at], *events[at + 1 :]], [*events[: at + 1], *events[at:]]
        assert differences(without), f"without event {at + 1}, {event.type}"
        assert differences(twice), f"with event {at + 1} twice, {event.type}"


def test_the_command_names_a_forgery(claim: ClaimFile, events: list[Event], tmp_path: Path) -> None:
    file = tmp_path / "claim.json"
    file.write_text(forged(claim, changed(events, "collider.unblinded", add_events)).model_dump_json())
    checked = spectator("claim", "check", file)
    assert checked.exit_code == 1
    assert "FAIL replay: event " in checked.output and "differs in counts" in checked.output
