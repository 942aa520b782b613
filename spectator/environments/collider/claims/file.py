"""The claim file: one JSON document that holds a claim and all that is needed to check it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from spectator.environments.collider.claims.recompute import Measured
from spectator.environments.collider.claims.records import ClaimMade, SelectionFrozen, Unblinded


class ClaimFile(BaseModel):
    """A claim with its place in the episode's digest chain.

    Everything but ``events`` and ``digest`` can be derived from the events; the check derives it again.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal["spectator.collider.claim/1"] = "spectator.collider.claim/1"
    episode_id: str = Field(description="Whose claim it is")
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
