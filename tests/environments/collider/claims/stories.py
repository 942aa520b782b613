"""Episodes with a claim, as they lie in a journal: written event by event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spectator.environments.collider.claim_file import claim_file, read_evidence
from spectator.environments.collider.claims import ClaimFile
from spectator.events import Event, RecordedEvent, record
from spectator.journal.contract import GENESIS, extend
from tests.environments.collider.analysis.toys import Toy
from tests.journal.records import started

EPISODE = "ep-claim"
TOY = Toy(z=9.0, bins=60, low=100.0, high=160.0)

Fact = tuple[str, dict[str, Any]]


def frozen(name: str = "sel-1", **changed: Any) -> Fact:
    channel = {
        "channel": "diphoton",
        "cuts": {"score": 0.5},
        "window_gev": [110.0, 150.0],
        "fit_window_gev": [100.0, 160.0],
        "relative_resolution": 0.0128,
        "natural_width": 0.0,
        "background": "exponential",
    }
    return "collider.selection_frozen", {
        "budget_left_musd": 30.0,
        "selection_id": name,
        "channels": [{**channel, **changed}],
    }


def unblinded(
    name: str = "sel-1", runs: Sequence[str] = ("run-1",), seed: int = 3, toy: Toy = TOY, look: int = 1
) -> Fact:
    return "collider.unblinded", {
        "selection_id": name,
        "channel": "diphoton",
        "datasets": list(runs),
        "luminosity_fb": 20.0,
        "edges_gev": toy.edges.tolist(),
        "counts": toy.draw(seed).astype(int).tolist(),
        "window_gev": [110.0, 150.0],
        "look": look,
        "trials": 2**look,
    }


def claimed(name: str = "sel-1", **changed: Any) -> Fact:
    data = {
        "selection_id": name,
        "kind": "discovery",
        "channels": ["diphoton"],
        "mass_gev": 125.0,
        "mass_error_gev": 0.4,
        "z_local": 7.5,
        "z_global": 7.0,
        "signal_limit": None,
        "limit_mass_gev": None,
        "probability": 0.99,
    }
    return "collider.claim_made", {**data, **changed}


def nothing(limit: float, mass: float = 130.0) -> Fact:
    empty: dict[str, Any] = dict.fromkeys(("mass_gev", "mass_error_gev", "z_local", "z_global"))
    return claimed("sel-1", **{"kind": "null", "signal_limit": limit, "limit_mass_gev": mass, **empty})


def events(*facts: Fact) -> list[RecordedEvent]:
    """Return a whole episode: its start, and the facts in this order."""
    return [started(EPISODE, environment="collider"), *_numbered(facts)]


def _numbered(facts: Sequence[Fact]) -> Iterator[RecordedEvent]:
    for seq, (name, data) in enumerate(facts, 2):
        yield record(Event(EPISODE, "e1", seq, "2026-11-21T05:00:01.000Z", seq, name, data))


def digest_of(texts: Sequence[str]) -> str:
    digest = GENESIS
    for text in texts:
        digest = extend(digest, text)
    return digest.hex()


def file_of(*facts: Fact) -> ClaimFile:
    texts = [recorded.text for recorded in events(*facts)]
    evidence = read_evidence([recorded.event for recorded in events(*facts)])
    return claim_file(EPISODE, evidence, texts, digest_of(texts), "0")


def signal_free(seed: int = 8) -> Fact:
    return unblinded(seed=seed, toy=Toy(z=0.0, bins=60, low=100.0, high=160.0))
