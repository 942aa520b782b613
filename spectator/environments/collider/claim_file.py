"""Claim files: what was frozen, opened and claimed, with every figure recomputed.

A claim file is one JSON document, exported from the journal, that holds a claim and all that is needed to
check it. It also holds the claim as a pyhf workspace, so that a second program can test the same data. There
the shape of the background is free, without a penalty: for each member of the Bernstein basis, which add up
to one, the fitted background times that member is a sample with a free factor. With all factors at 1 that is
the fitted background.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from spectator import __version__
from spectator.environments.collider.analysis.mass_scan import global_significance, scan
from spectator.environments.collider.analysis.resonance import fit_resonance
from spectator.environments.collider.analysis.shapes import ORDERS, fit_background, voigt_bins, z_of_p
from spectator.environments.collider.analysis.significance import spurious_signal, upper_limit
from spectator.environments.collider.looks import global_p
from spectator.environments.collider.operations.inference import peak_at, resolution_at
from spectator.errors import EpisodeNotFound, FieldError, InvalidRequest, JournalDamaged, field_errors
from spectator.events import Event, EventData, decode
from spectator.journal.contract import Chain, Journal

FROZEN = "collider.selection_frozen"
UNBLINDED = "collider.unblinded"
CLAIMED = "collider.claim_made"
FITTED = "collider.resonance_fitted"
"""Types of the events that a claim rests on."""

ClaimKind = Literal["discovery", "evidence", "null"]
"""5 sigma global, 3 sigma global, or no signal and a limit."""


class FrozenChannel(EventData):
    """How one channel will be analysed, decided before its data were seen."""

    channel: str = Field(min_length=1, description="Name of the channel")
    cuts: dict[str, float] = Field(description="The selection: cut values by name")
    window_gev: tuple[float, float] = Field(
        description="Where a signal is searched for: the look-elsewhere range"
    )
    fit_window_gev: tuple[float, float] = Field(description="Bins that enter the fit of the background")
    relative_resolution: float = Field(gt=0, lt=1, description="Gaussian sigma over mass of the signal")
    natural_width: float = Field(default=0.0, ge=0, lt=1, description="Full natural width over mass")
    background: str = Field(description="Family of the background; `auto` is no decision and not allowed")
    expected_signal: float = Field(
        default=1.0, gt=0, description="Events that strength 1 means here, relative to the other channels"
    )

    @model_validator(mode="after")
    def _decided(self) -> FrozenChannel:
        from spectator.environments.collider.analysis.shapes import BACKGROUNDS

        if self.background not in BACKGROUNDS:
            raise ValueError(f"background must be one of {', '.join(BACKGROUNDS)}, not {self.background!r}")
        for name, (low, high) in (("window_gev", self.window_gev), ("fit_window_gev", self.fit_window_gev)):
            if not 0 <= low < high:
                raise ValueError(f"{name} must ascend from 0 or more, not go from {low:g} to {high:g}")
        return self


class SelectionFrozen(EventData):
    """A selection was frozen; it can no longer be changed."""

    selection_id: str = Field(min_length=1, description="Its name within the episode")
    channels: list[FrozenChannel] = Field(min_length=1, description="How each channel will be analysed")


class Unblinded(EventData):
    """The search data of a channel were opened."""

    selection_id: str = Field(description="The frozen selection")
    channel: str = Field(description="One of its channels")
    datasets: list[str] = Field(min_length=1, description="Ids of the runs whose search part was opened")
    luminosity_fb: float = Field(gt=0, description="Their integrated luminosity in fb^-1")
    edges_gev: list[float] = Field(min_length=4, max_length=5001, description="Bin edges in GeV")
    counts: list[int] = Field(min_length=3, max_length=5000, description="Events, at full resolution")
    look: int = Field(ge=1, description="Its number in the account of looks")
    trials: int = Field(ge=1, description="How many times a p-value of this look counts")


class Fitted(EventData):
    """A peak was fitted."""

    selection_id: str = Field(description="The frozen selection")
    mass_gev: float = Field(description="Its mass, as measured")
    mass_error_gev: float = Field(ge=0, description="Its statistical error")


class ClaimMade(EventData):
    """A claim was made."""

    selection_id: str = Field(description="The frozen selection")
    kind: ClaimKind = Field(description="What is claimed")
    channels: list[str] = Field(min_length=1, description="Channels of the selection that it rests on")
    mass_gev: float | None = Field(default=None, gt=0, description="Mass; null where nothing is claimed")
    mass_error_gev: float | None = Field(default=None, gt=0, description="Its standard error")
    z_local: float | None = Field(default=None, description="Claimed local significance")
    z_global: float | None = Field(default=None, description="Claimed global significance")
    signal_limit: float | None = Field(default=None, ge=0, description="Claimed upper limit, in events")
    limit_mass_gev: float | None = Field(default=None, gt=0, description="Mass that the limit is for")

    @model_validator(mode="after")
    def _whole(self) -> ClaimMade:
        if self.kind != "null" and None in (self.mass_gev, self.mass_error_gev, self.z_local, self.z_global):
            raise ValueError(
                f"a claim of {self.kind} must state mass, its error, and local and global significance"
            )
        if (self.signal_limit is None) != (self.limit_mass_gev is None):
            raise ValueError("signal_limit and limit_mass_gev must be given together")
        return self


TOYS: Final = 400
"""Toy spectra behind a global significance; their stream belongs to the spectrum."""

REACH_SIGMA: Final = 2.5
SCALE_ERROR: Final = 0.01
"""A claimed mass is corrected for the energy scale; the peak behind it is looked for within so many widths
and so large a share of the mass."""

FIT_REACH: Final = 12.0
"""Widths on either side of a peak that its fit uses."""


class MeasuredChannel(EventData):
    """Measurement of one channel near the claimed mass."""

    channel: str = Field(description="Its name")
    mass_gev: float = Field(description="Mass of largest significance there")
    sigma_gev: float = Field(description="Gaussian width that was searched for")
    z_local: float = Field(description="sqrt(q0) there")
    signal: float = Field(description="Fitted events")
    signal_error: float = Field(description="Their standard error")
    spurious: float = Field(description="Events that may be the background's")
    upcrossings: float = Field(description="Mean upcrossings of 0 sigma over the search window")
    fitted_mass_gev: float = Field(description="Mass by a fit with constrained width")
    fitted_mass_error_gev: float = Field(description="Its statistical error")


class Measured(EventData):
    """Measurement of all channels of a claim."""

    channels: list[MeasuredChannel] = Field(description="Each channel")
    z_local: float = Field(description="Of the best channel")
    z_global: float = Field(description="After the look-elsewhere effect and the account of looks")
    signal_limit: float | None = Field(default=None, description="CLs limit in events at the limit's mass")


def recompute(
    channels: Sequence[FrozenChannel], spectra: Mapping[str, Unblinded], mass_gev: float
) -> Measured:
    """Compute the significance at a mass from the frozen selection and opened spectra.

    Args:
        channels: The channels that the claim rests on, as frozen.
        spectra: The opened spectrum of each, by its name.

    Raises:
        InvalidAnalysis: A spectrum or a window is invalid.
    """
    found = [_measure(frozen, spectra[frozen.channel], mass_gev) for frozen in channels]
    p_global = min(
        global_p(
            one.z_local * one.signal_error / math.hypot(one.signal_error, one.spurious),
            one.upcrossings,
            spectra[one.channel].trials,
        )
        for one in found
    )
    z_local = max(one.z_local for one in found)
    return Measured(channels=found, z_local=z_local, z_global=max(z_of_p(p_global), 0.0))


def _measure(frozen: FrozenChannel, opened: Unblinded, mass_gev: float) -> MeasuredChannel:
    edges, counts = np.array(opened.edges_gev), np.array(opened.counts, dtype=np.float64)
    sigma = resolution_at(frozen, mass_gev)
    reach = REACH_SIGMA * sigma + SCALE_ERROR * mass_gev
    near = np.linspace(max(mass_gev - reach, edges[0]), min(mass_gev + reach, edges[-1]), 41)
    top = scan(edges, counts, sigma, masses_gev=near, background=frozen.background).best_mass_gev
    spurious = spurious_signal(edges, counts, **peak_at(frozen, top))
    peak = spurious.nominal
    looked = global_significance(
        edges,
        counts,
        peak.z_local,
        lambda masses: resolution_at(frozen, 1.0) * masses,
        window_gev=frozen.window_gev,
        background=frozen.background,
        toys=TOYS,
    )
    window = (max(top - FIT_REACH * sigma, edges[0]), min(top + FIT_REACH * sigma, edges[-1]))
    fit = fit_resonance(
        edges, counts, window, mass_gev=top, resolution_gev=sigma, resolution_error_gev=0.2 * sigma
    )
    return MeasuredChannel(
        channel=frozen.channel,
        mass_gev=top,
        sigma_gev=resolution_at(frozen, top),
        z_local=peak.z_local,
        signal=peak.signal,
        signal_error=peak.signal_error,
        spurious=spurious.signal,
        upcrossings=looked.upcrossings,
        fitted_mass_gev=fit.mass_gev,
        fitted_mass_error_gev=fit.mass_error_gev,
    )


def limit_at(frozen: FrozenChannel, opened: Unblinded, mass_gev: float) -> float:
    """Return the CLs limit on the events of a peak, by the frozen selection.

    Raises:
        InvalidAnalysis: The mass is outside the spectrum, or the spectrum is invalid.
    """
    return upper_limit(opened.edges_gev, opened.counts, **peak_at(frozen, mass_gev))


class ClaimFile(BaseModel):
    """A claim with its place in the episode's digest chain.

    Everything but ``events`` and ``digest`` can be derived from the events; the check derives it again.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal["spectator.collider.claim/1"] = "spectator.collider.claim/1"
    episode_id: str = Field(description="Episode of the claim")
    spectator_version: str = Field(description="Version of the software that wrote the file")
    selection_seq: int = Field(ge=1, description="Event that froze the selection")
    unblinded_seqs: list[int] = Field(description="Events that opened its data")
    claim_seq: int = Field(ge=1, description="Event of the claim")
    selection: SelectionFrozen = Field(description="The frozen selection")
    spectra: list[Unblinded] = Field(description="The opened spectra that the claim rests on")
    claim: ClaimMade = Field(description="The claim")
    measured: Measured | None = Field(description="What the spectra show; null for a claim of nothing")
    limit: float | None = Field(description="CLs limit in events at the mass of the claimed limit")
    workspaces: dict[str, dict[str, Any]] = Field(description="pyhf workspace of each channel, by its name")
    events: list[str] = Field(description="Every event of the episode, as recorded, from the first on")
    digest: str = Field(pattern=r"^[0-9a-f]{64}$", description="Digest of the chain after the last of them")


MAX_FACTOR: Final = 50.0
"""Upper bound of every factor in the fit."""

_SMALLEST: Final = 1e-6
_OTHERS: Final = {"power_law": 1, "dijet": 3}


def workspace(frozen: FrozenChannel, opened: Unblinded, mass_gev: float) -> dict[str, Any]:
    """Return the pyhf workspace of one channel.

    Its parameter of interest ``mu`` counts signal events.
    """
    edges, counts = np.array(opened.edges_gev), np.array(opened.counts, dtype=np.float64)
    smooth = np.array(fit_background(edges, counts, background=frozen.background).expected)
    scale = max(math.sqrt(counts.sum()), 1.0)
    widths = mass_gev * frozen.relative_resolution, mass_gev * frozen.natural_width
    signal = np.maximum(scale * voigt_bins(edges, mass_gev, *widths), 0.0)
    samples = [_sample("signal", signal, "mu")]
    order = ORDERS.get(frozen.background) or _OTHERS[frozen.background]
    for number, basis in enumerate(_bernstein(len(counts), order)):
        samples.append(_sample(f"background_{number}", np.maximum(smooth * basis, _SMALLEST), f"b{number}"))
    factors = [modifier["name"] for sample in samples for modifier in sample["modifiers"]]
    parameters = [
        {"name": name, "bounds": [[0.0, MAX_FACTOR]], "inits": [0.0 if name == "mu" else 1.0]}
        for name in factors
    ]
    return {
        "channels": [{"name": frozen.channel, "samples": samples}],
        "observations": [{"name": frozen.channel, "data": counts.tolist()}],
        "measurements": [{"name": "search", "config": {"poi": "mu", "parameters": parameters}}],
        "version": "1.0.0",
    }


def _sample(name: str, data: Any, factor: str) -> dict[str, Any]:
    values = [float(f"{value:.9g}") for value in data]
    return {"name": name, "data": values, "modifiers": [{"name": factor, "type": "normfactor", "data": None}]}


def _bernstein(bins: int, order: int) -> list[Any]:
    x = (np.arange(bins) + 0.5) / bins
    return [math.comb(order, k) * x**k * (1 - x) ** (order - k) for k in range(order + 1)]


def pyhf_significance(spec: Mapping[str, Any]) -> float:
    """Return sqrt(q0) of a workspace, computed by pyhf."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyhf

        loaded = pyhf.Workspace(dict(spec), validate=False)
        model = loaded.model(validate=False)
        data = loaded.data(model)
        config = model.config
        settings = (config.suggested_init(), config.suggested_bounds(), config.suggested_fixed())
        q0 = pyhf.infer.test_statistics.q0(0.0, data, model, *settings)
    return math.sqrt(max(float(q0), 0.0))


Data = TypeVar("Data", bound=EventData)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The events of an episode that its claim rests on.

    Args:
        opened: Spectra that were opened under it before the claim, with their events.
        fits: Statistical errors of the fits near the claimed mass, in the claim's first channel, in GeV.
    """

    selection_seq: int
    selection: SelectionFrozen
    opened: tuple[tuple[int, Unblinded], ...]
    claim_seq: int
    claim: ClaimMade
    fits: tuple[float, ...] = ()

    def channels(self) -> list[FrozenChannel]:
        """Return the frozen channels that the claim names and that hold opened events."""
        open_names = {name for name, spectrum in self.spectra().items() if any(spectrum.counts)}
        return [
            frozen
            for frozen in self.selection.channels
            if frozen.channel in self.claim.channels and frozen.channel in open_names
        ]

    def spectra(self) -> dict[str, Unblinded]:
        """Return the last spectrum of each channel opened before the claim."""
        return {spectrum.channel: spectrum for _, spectrum in self.opened}


def read_evidence(events: Sequence[Event]) -> Evidence:
    """Find the last claim and the events it rests on.

    Raises:
        InvalidRequest: The episode has no claim, or its selection was not frozen.
    """
    claims = [event for event in events if event.type == CLAIMED]
    if not claims:
        raise _invalid("episode_id", "must be an episode with a claim")
    claimed = claims[-1]
    claim = read(ClaimMade, claimed.data)
    frozen = [
        event
        for event in events
        if event.type == FROZEN and event.data.get("selection_id") == claim.selection_id
    ]
    if not frozen:
        raise _invalid("selection_id", f"must name a frozen selection, not {claim.selection_id!r}")
    opened = tuple(
        (event.seq, read(Unblinded, event.data))
        for event in events
        if event.type == UNBLINDED
        and event.data.get("selection_id") == claim.selection_id
        and event.seq < claimed.seq
    )
    selection = read_selection(frozen[0].data)
    fits = tuple(_fit_errors(events, selection, claim))
    return Evidence(frozen[0].seq, selection, opened, claimed.seq, claim, fits)


def _fit_errors(events: Sequence[Event], selection: SelectionFrozen, claim: ClaimMade) -> Iterator[float]:
    """Yield the statistical errors of the fits that the claimed mass can rest on."""
    for frozen in selection.channels:
        if claim.mass_gev is None or frozen.channel != claim.channels[0]:
            continue
        reach = REACH_SIGMA * resolution_at(frozen, claim.mass_gev) + SCALE_ERROR * claim.mass_gev
        for event in events:
            if event.type != FITTED or event.data.get("channel") != frozen.channel:
                continue
            fit = read(Fitted, event.data)
            if fit.selection_id == claim.selection_id and abs(fit.mass_gev - claim.mass_gev) <= reach:
                yield fit.mass_error_gev


def read_selection(data: Mapping[str, Any]) -> SelectionFrozen:
    """Read a frozen selection from event data; other fields are ignored.

    Raises:
        InvalidRequest: The data are not a frozen selection.
    """
    channels = data.get("channels")
    if not isinstance(channels, list) or not all(isinstance(one, Mapping) for one in channels):
        raise _invalid("channels", "must be a list of channels")
    picked = [{name: one[name] for name in FrozenChannel.model_fields if name in one} for one in channels]
    return read(SelectionFrozen, {**data, "channels": picked})


def read(model: type[Data], data: Mapping[str, Any]) -> Data:
    """Read the fields of ``model`` from event data; other fields are ignored.

    Raises:
        InvalidRequest: A field is missing or invalid.
    """
    try:
        return model.model_validate({name: data[name] for name in model.model_fields if name in data})
    except ValidationError as error:
        raise InvalidRequest(field_errors(error.errors())) from error


def claim_file(
    episode_id: str, evidence: Evidence, events: Sequence[str], digest: str, version: str
) -> ClaimFile:
    """Build the claim file from the evidence, the events and their digest.

    Raises:
        InvalidRequest: The claim rests on no opened spectrum, or on one that cannot be analysed.
    """
    channels, spectra, claim = evidence.channels(), evidence.spectra(), evidence.claim
    if not channels and claim.kind != "null":
        raise _invalid("channels", "must name a frozen channel whose data were opened before the claim")
    measured = None
    workspaces: dict[str, dict[str, Any]] = {}
    if claim.mass_gev is not None:
        measured = recompute(channels, spectra, claim.mass_gev)
        for frozen, found in zip(channels, measured.channels, strict=True):
            workspaces[frozen.channel] = workspace(frozen, spectra[frozen.channel], found.mass_gev)
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


def _invalid(field: str, rule: str) -> InvalidRequest:
    return InvalidRequest([FieldError(field, rule)])


async def export_claim(journal: Journal, episode_id: str) -> ClaimFile:
    """Export the last claim of an episode, with all that is needed to check it.

    Raises:
        EpisodeNotFound: The episode is unknown.
        JournalDamaged: Its chain of digests is broken.
        InvalidRequest: It has no claim, or the claim rests on no opened spectrum.
    """
    summary = await journal.episode(episode_id)
    if summary is None:
        raise EpisodeNotFound(episode_id)
    chain, texts = Chain(), []
    async for links in journal.links(episode_id):
        for broken in chain.check(links):
            raise JournalDamaged(f"event {broken.seq} of {episode_id} {broken.message}")
        texts += [link.text for link in links]
    evidence = read_evidence([decode(text).event for text in texts])
    return claim_file(episode_id, evidence, texts, chain.digest.hex(), __version__)
