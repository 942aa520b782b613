"""The reading of a claim out of an episode's events: the last claim, its selection and its opened spectra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from spectator.environments.collider.claims.file import ClaimFile
from spectator.environments.collider.claims.recompute import limit_at, recompute
from spectator.environments.collider.claims.records import (
    CLAIMED,
    FROZEN,
    UNBLINDED,
    ClaimMade,
    FrozenChannel,
    SelectionFrozen,
    Unblinded,
)
from spectator.environments.collider.claims.workspace import workspace
from spectator.errors import FieldError, InvalidRequest, field_errors
from spectator.events import Event, EventData

Data = TypeVar("Data", bound=EventData)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What of an episode bears on its claim.

    Args:
        selection_seq: Event that froze the selection.
        selection: The selection.
        opened: Spectra that were opened under it before the claim, with their events.
        claim_seq: Event of the claim.
        claim: The claim.
    """

    selection_seq: int
    selection: SelectionFrozen
    opened: tuple[tuple[int, Unblinded], ...]
    claim_seq: int
    claim: ClaimMade

    def channels(self) -> list[FrozenChannel]:
        """The frozen channels that the claim names and whose opened data hold events."""
        open_names = {name for name, spectrum in self.spectra().items() if any(spectrum.counts)}
        return [
            frozen
            for frozen in self.selection.channels
            if frozen.channel in self.claim.channels and frozen.channel in open_names
        ]

    def spectra(self) -> dict[str, Unblinded]:
        """The last spectrum of each channel that was opened before the claim."""
        return {spectrum.channel: spectrum for _, spectrum in self.opened}


def read_evidence(events: Sequence[Event]) -> Evidence:
    """Find the last claim and what it rests on.

    Raises:
        InvalidRequest: There is no claim, its selection was not frozen, or nothing of it was opened.
    """
    claims = [event for event in events if event.type == CLAIMED]
    if not claims:
        raise _refuse("episode_id", "is of an episode in which a claim was made")
    claimed = claims[-1]
    claim = read(ClaimMade, claimed.data)
    frozen = [
        event
        for event in events
        if event.type == FROZEN and event.data.get("selection_id") == claim.selection_id
    ]
    if not frozen:
        raise _refuse("selection_id", f"names a selection that was frozen, unlike {claim.selection_id!r}")
    opened = tuple(
        (event.seq, read(Unblinded, event.data))
        for event in events
        if event.type == UNBLINDED
        and event.data.get("selection_id") == claim.selection_id
        and event.seq < claimed.seq
    )
    return Evidence(frozen[0].seq, read_selection(frozen[0].data), opened, claimed.seq, claim)


def read_selection(data: Mapping[str, Any]) -> SelectionFrozen:
    """A frozen selection out of event data that may hold more.

    Raises:
        InvalidRequest: It is none.
    """
    channels = data.get("channels")
    if not isinstance(channels, list) or not all(isinstance(one, Mapping) for one in channels):
        raise _refuse("channels", "is a list of channels")
    picked = [{name: one[name] for name in FrozenChannel.model_fields if name in one} for one in channels]
    return read(SelectionFrozen, {**data, "channels": picked})


def read(model: type[Data], data: Mapping[str, Any]) -> Data:
    """The fields of ``model`` out of event data that may hold more.

    Raises:
        InvalidRequest: One of them is missing or wrong.
    """
    try:
        return model.model_validate({name: data[name] for name in model.model_fields if name in data})
    except ValidationError as error:
        raise InvalidRequest(field_errors(error.errors())) from error


def claim_file(
    episode_id: str, evidence: Evidence, events: Sequence[str], digest: str, version: str
) -> ClaimFile:
    """The file of a claim: everything in it but the events and their digest follows from the events.

    Raises:
        InvalidRequest: The claim rests on no opened spectrum, or one that cannot be analysed.
    """
    channels, spectra, claim = evidence.channels(), evidence.spectra(), evidence.claim
    if not channels and claim.kind != "null":
        raise _refuse("channels", "names a frozen channel whose data were opened before the claim")
    measured = None
    workspaces: dict[str, dict[str, Any]] = {}
    if claim.mass_gev is not None:
        measured = recompute(channels, spectra, claim.mass_gev)
        for frozen, found in zip(channels, measured.channels, strict=True):
            held = workspace(frozen, spectra[frozen.channel], found.mass_gev, found.sigma_gev)
            workspaces[frozen.channel] = held
    limit = None
    if claim.limit_mass_gev is not None and channels:
        limit = min(limit_at(frozen, spectra[frozen.channel], claim.limit_mass_gev) for frozen in channels)
    return ClaimFile(
        episode_id=episode_id,
        spectator_version=version,
        selection_seq=evidence.selection_seq,
        unblinded_seqs=[seq for seq, _ in evidence.opened],
        claim_seq=evidence.claim_seq,
        selection=evidence.selection,
        spectra=[spectra[frozen.channel] for frozen in channels],
        claim=claim,
        measured=measured,
        limit=limit,
        workspaces=workspaces,
        events=list(events),
        digest=digest,
    )


def _refuse(field: str, rule: str) -> InvalidRequest:
    return InvalidRequest([FieldError(field, rule)])
