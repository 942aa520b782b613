"""Check claims of discovery: chain, replay, order, selection, spectra and every number.

``await export_claim(journal, episode_id)`` writes a claim file; ``spectator claim check FILE`` and
``check_claim(read_claim(text), replay=...)`` check it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from spectator.environments.collider.claim_file import (
    UNBLINDED,
    ClaimFile,
    Evidence,
    claim_file,
    export_claim,
    pyhf_significance,
    read_evidence,
)
from spectator.environments.collider.looks import Look, charge
from spectator.errors import FieldError, InvalidRequest, field_errors
from spectator.events import Event, RecordedEvent, decode
from spectator.journal.contract import Chain, Link

__all__ = ["ClaimCheck", "ClaimFile", "ClaimReport", "check_claim", "export_claim", "read_claim"]


CLAIMED_ABOVE: Final = 0.3
"""How far a claimed significance may exceed the recomputed one."""

PYHF_TOLERANCE: Final = 0.3
PYHF_SHARE: Final = 0.06
"""Tolerance of the pyhf check, in standard deviations or as a share of the significance, whichever is larger.
Its background is a polynomial, not the exponential of one; that matters if few events are above a peak."""

MASS_ERRORS: Final = 3.0
MASS_SHARE: Final = 0.01
"""Tolerance of a claimed mass: this many errors (the larger of both), plus this share of the mass for the
energy scale, which the fit does not know."""

ERROR_SHARE: Final = 0.8
"""Least claimed error of a mass, as a share of the smallest error of the fits behind it."""

LIMIT_SHARE: Final = 0.6
"""Least claimed limit, as a share of the recomputed one."""

_ROUNDING: Final = 1e-6

Replay = Callable[[Sequence[RecordedEvent]], Sequence[str]]
"""Plays an episode again from its seed and recorded actions; returns the differences, in words."""


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """Result of one check.

    Args:
        message: What was found, in a sentence.
    """

    name: str
    ok: bool
    message: str


@dataclass(frozen=True, slots=True)
class ClaimReport:
    """Results of all checks."""

    checks: tuple[ClaimCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)


def read_claim(text: str) -> ClaimFile:
    """Read a claim file from its JSON text.

    Raises:
        InvalidRequest: The text is not a claim file; each invalid field is named.
    """
    try:
        return ClaimFile.model_validate_json(text)
    except ValidationError as error:
        raise InvalidRequest(field_errors(error.errors())) from error


def check_claim(claim: ClaimFile, *, replay: Replay, digest: str | None = None) -> ClaimReport:
    """Check a claim file against a replay, its own events, and a digest stated elsewhere.

    Only the events count: their chain is followed from the first one, the campaign is played again from its
    seed and its actions, the claim is read from the events again, and every number is recomputed. A whole
    other campaign also replays; only a ``digest`` published before, or a journal kept by another party, shows
    that this campaign was the one played.

    Args:
        claim: A claim file, from :func:`read_claim`.
        replay: How to play the campaign again.
        digest: The expected last digest, 64 hexadecimal digits.
    """
    chain = _chain(claim, digest)
    if not chain.ok:
        return ClaimReport((chain,))
    recorded = [decode(text) for text in claim.events]
    events = [one.event for one in recorded]
    replayed = _replayed(replay(recorded), len(recorded))
    try:
        evidence = read_evidence(events)
        again = claim_file(claim.episode_id, evidence, claim.events, claim.digest, claim.spectator_version)
    except InvalidRequest as error:
        return ClaimReport((chain, replayed, ClaimCheck("claim", False, str(error))))
    checks = [chain, replayed, _order(evidence), _fresh(evidence, events), _looks(events)]
    return ClaimReport((*checks, copies(claim, again), *_figures(again, evidence)))


def _replayed(differences: Sequence[str], events: int) -> ClaimCheck:
    if differences:
        return ClaimCheck("replay", False, differences[0])
    return ClaimCheck("replay", True, f"seed and actions lead to the same {events} events")


def _chain(claim: ClaimFile, digest: str | None) -> ClaimCheck:
    try:
        links = [Link(claim.episode_id, decode(text).event.seq, text, None) for text in claim.events]
    except ValueError as error:
        return ClaimCheck("chain", False, f"an entry of events is not an event: {error}")
    chain = Chain(digest=bytes.fromhex(claim.digest))
    broken = [*chain.check(links), *chain.finish()]
    if broken:
        return ClaimCheck("chain", False, f"event {broken[0].seq} {broken[0].message}")
    if digest is not None and digest.lower() != claim.digest:
        return ClaimCheck("chain", False, f"ends in {claim.digest}, not in the given {digest}")
    return ClaimCheck("chain", True, f"{chain.seq} events, digest {claim.digest}")


def _order(evidence: Evidence) -> ClaimCheck:
    opened = [seq for seq, _ in evidence.opened]
    last = f"opened by {opened or 'none'}, claimed by {evidence.claim_seq}"
    message = f"frozen by event {evidence.selection_seq}, {last}"
    if evidence.claim.kind != "null" and not opened:
        return ClaimCheck("order", False, f"no data were opened before the claim: {message}")
    ok = all(evidence.selection_seq < seq < evidence.claim_seq for seq in opened)
    ok = ok and evidence.selection_seq < evidence.claim_seq
    return ClaimCheck("order", ok, message)


def _fresh(evidence: Evidence, events: Sequence[Event]) -> ClaimCheck:
    """Check that no run of the claim was opened under an earlier selection."""
    used = {(spectrum.channel, run) for _, spectrum in evidence.opened for run in spectrum.datasets}
    for event in events:
        if event.type != UNBLINDED or event.data.get("selection_id") == evidence.selection.selection_id:
            continue
        if event.seq > evidence.claim_seq:
            continue
        seen = {(event.data.get("channel"), run) for run in event.data.get("datasets", ())}
        if again := sorted(str(run) for _, run in used & seen):
            return ClaimCheck("fresh data", False, f"event {event.seq} already opened {', '.join(again)}")
    return ClaimCheck("fresh data", True, f"{len(used)} run(s) were opened under this selection only")


def _looks(events: Sequence[Event]) -> ClaimCheck:
    """Check that every opening of data is charged as a look of its own, in the order of the events."""
    looks: list[Look] = []
    for event in events:
        if event.type != UNBLINDED:
            continue
        newest = [*event.data.get("datasets", ())][-1:] or event.seq
        known = charge(looks, f"{event.data.get('selection_id')} {newest}", 1)
        stated = event.data.get("look"), event.data.get("trials")
        if stated[0] != known.number or not isinstance(stated[1], int) or stated[1] < known.trials:
            message = f"event {event.seq} is look {known.number} with {known.trials} trials or more"
            return ClaimCheck("looks", False, f"{message}, not look {stated[0]} with {stated[1]}")
    return ClaimCheck("looks", True, f"{len(looks)} look(s) at opened data are charged")


def copies(claim: ClaimFile, again: ClaimFile) -> ClaimCheck:
    """Check that every field of the file follows from its events."""
    for name in ClaimFile.model_fields:
        stated = json.loads(claim.model_dump_json(include={name}))[name]
        found = json.loads(again.model_dump_json(include={name}))[name]
        if not _alike(stated, found):
            return ClaimCheck("contents", False, f"{name} does not follow from the events")
    return ClaimCheck(
        "contents", True, "selection, spectra, claim, workspaces and figures follow from the events"
    )


def _alike(stated: object, found: object) -> bool:
    """Compare two JSON values; floats may differ by rounding on another machine."""
    if isinstance(stated, dict) and isinstance(found, dict):
        return stated.keys() == found.keys() and all(_alike(stated[key], found[key]) for key in stated)
    if isinstance(stated, list) and isinstance(found, list):
        return len(stated) == len(found) and all(map(_alike, stated, found))
    if isinstance(stated, float) or isinstance(found, float):
        if not isinstance(stated, int | float) or not isinstance(found, int | float):
            return False
        return abs(stated - found) <= _ROUNDING * max(abs(stated), abs(found), 1.0)
    return stated == found


def _figures(again: ClaimFile, evidence: Evidence) -> list[ClaimCheck]:
    checks = []
    if again.measured is not None:
        checks += [_significance(again), _mass(again), _mass_error(again, evidence), _pyhf(again)]
    if again.limit is not None:
        checks.append(_limit(again))
    return checks


def _significance(again: ClaimFile) -> ClaimCheck:
    claim, found = again.claim, again.measured
    assert found is not None
    message = (
        f"claimed {claim.z_local or 0:.2f} local and {claim.z_global or 0:.2f} global, "
        f"found {found.z_local:.2f} and {found.z_global:.2f}"
    )
    ok = (claim.z_local or 0.0) <= found.z_local + CLAIMED_ABOVE
    return ClaimCheck(
        "significance", ok and (claim.z_global or 0.0) <= found.z_global + CLAIMED_ABOVE, message
    )


def _mass(again: ClaimFile) -> ClaimCheck:
    claim, found = again.claim, again.measured
    assert found is not None
    best = max(found.channels, key=lambda one: one.z_local)
    mass, error = claim.mass_gev or 0.0, max(claim.mass_error_gev or 0.0, best.fitted_mass_error_gev)
    ok = abs(mass - best.fitted_mass_gev) <= MASS_ERRORS * error + MASS_SHARE * mass
    message = f"claimed {mass:.6g} +- {claim.mass_error_gev or 0:.2g} GeV, found {best.fitted_mass_gev:.6g} "
    return ClaimCheck("mass", ok, message + f"+- {best.fitted_mass_error_gev:.2g} in {best.channel}")


def _mass_error(again: ClaimFile, evidence: Evidence) -> ClaimCheck:
    found = again.measured
    assert found is not None
    best = max(found.channels, key=lambda one: one.z_local)
    least, claimed = min((best.fitted_mass_error_gev, *evidence.fits)), again.claim.mass_error_gev or 0.0
    message = f"claimed +- {claimed:.2g} GeV; the smallest statistical error of a fit is {least:.2g} GeV"
    return ClaimCheck("mass error", claimed >= ERROR_SHARE * least, message)


def _pyhf(again: ClaimFile) -> ClaimCheck:
    found = again.measured
    assert found is not None
    messages, ok = [], True
    for one in found.channels:
        z = pyhf_significance(again.workspaces[one.channel])
        ok = ok and abs(z - one.z_local) <= max(PYHF_TOLERANCE, PYHF_SHARE * one.z_local)
        messages.append(f"{one.channel} {z:.2f} (here {one.z_local:.2f})")
    return ClaimCheck("pyhf", ok, "local significance by pyhf: " + ", ".join(messages))


def _limit(again: ClaimFile) -> ClaimCheck:
    claimed, found = again.claim.signal_limit or 0.0, again.limit or 0.0
    message = f"claimed {claimed:.4g} events at {again.claim.limit_mass_gev or 0:.6g} GeV, found {found:.4g}"
    return ClaimCheck("limit", claimed >= LIMIT_SHARE * found, message)


def stated_digest(digest: str | None) -> str | None:
    """Check a digest given by a user and return it in lower case.

    Raises:
        InvalidRequest: It is not 64 hexadecimal digits.
    """
    if digest is None:
        return None
    try:
        whole = len(bytes.fromhex(digest)) == 32
    except ValueError:
        whole = False
    if not whole:
        raise InvalidRequest([FieldError("digest", "must be 64 hexadecimal digits")])
    return digest.lower()
