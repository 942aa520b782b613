"""What a claim rests on, as event data: a selection was frozen, data were opened, a claim was made."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from spectator.events import EventData

FROZEN = "collider.selection_frozen"
UNBLINDED = "collider.unblinded"
CLAIMED = "collider.claim_made"
"""Event types of the three facts."""

ClaimKind = Literal["discovery", "evidence", "null"]
"""5 sigma global, 3 sigma global, or nothing there but a limit."""


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
        from spectator.environments.collider.analysis.backgrounds import BACKGROUNDS

        if self.background not in BACKGROUNDS:
            raise ValueError(f"background is one of {', '.join(BACKGROUNDS)}, not {self.background!r}")
        for name, (low, high) in (("window_gev", self.window_gev), ("fit_window_gev", self.fit_window_gev)):
            if not 0 <= low < high:
                raise ValueError(f"{name} ascends from 0 or more, unlike {low:g} to {high:g}")
        return self


class SelectionFrozen(EventData):
    """A selection was frozen; from here on it cannot be changed."""

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
                f"a claim of {self.kind} states mass, its error, and local and global significance"
            )
        if (self.signal_limit is None) != (self.limit_mass_gev is None):
            raise ValueError("a limit states its mass, and a mass of a limit the limit")
        return self
