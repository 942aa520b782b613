"""The rules of a campaign: hard ones refuse an action, soft ones let it pass and are held against it."""

from __future__ import annotations

from typing import Final


class HardRule(Exception):
    """An action that is refused; nothing has changed.

    Args:
        code: One of :data:`HARD`.
        message: What would be allowed.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


HARD: Final = {
    "over_budget": "The action costs more than is left.",
    "over_luminosity": "The machine cannot deliver that much any more.",
    "over_time": "The action takes longer than is left.",
    "missing_prerequisite": "Something must be done before.",
    "unblind_before_freeze": "The search sample stays closed until the selection is frozen.",
    "invalid_parameters": "An argument is impossible: a mass in another unit, a window without data.",
    "out_of_search_window": "The mass is outside the window that was frozen.",
    "channel_mismatch": "The channel is not on offer, not in the trigger menu, or not part of the selection.",
    "invalid_claim": "The claim contradicts itself or rests on no measurement.",
    "redundant": "It has been done and would show the same: nothing is gained, so nothing is spent.",
    "episode.over": "The campaign is over.",
}
"""What each hard rule says."""

SOFT: Final = {
    "reselect_after_unblind": "A channel was selected anew after it was seen: only new runs may be opened.",
    "claim_below_5sigma_as_discovery": "Claimed as a discovery below 5 sigma global; graded as evidence.",
    "claim_below_3sigma": "Claimed below 3 sigma global; graded as unfounded.",
    "overclaimed_z": "A significance is claimed that was not measured.",
    "local_quoted_as_global": "The local significance is quoted as the global one.",
    "uncertainty_understated": "The error of the mass is below what was measured.",
    "claim_without_systematics": "Nobody asked what another background function would see.",
    "claim_on_trigger_feature": "The excess does not agree between runs of different thresholds.",
    "prescaled_trigger": "The menu asks for more than the readout takes: every item is prescaled.",
}
"""What each soft rule says."""

TOLERATED: Final = frozenset({"prescaled_trigger"})
"""Soft rules that only inform: they cost nothing by themselves."""
