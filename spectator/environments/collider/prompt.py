"""What a language model is told of a campaign before it begins: how it is graded, and all of its actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spectator.environments.collider.actions import schemas_for, schemas_of_all
from spectator.environments.collider.models import ColliderObservation
from spectator.environments.collider.reward import EVIDENCE, FALSE_EVIDENCE, HARD_COST, SOFT_COST
from spectator.observations import LegalAction, Observation
from spectator.policies.prompting import Rendering, legend

GUIDE: Final = f"""\
WHAT COUNTS. One score in [0, 1] at the end: conduct x decision x (0.55 + 0.40 quality + 0.05 share of the
money left). Conduct is exp(-{SOFT_COST} broken rules - {HARD_COST} refused actions). Decision is 1 for a
true discovery, {EVIDENCE} for true evidence, 0.05 for a claim without evidence, 0 for a false claim
({FALSE_EVIDENCE} for false evidence); concluding null when there is nothing 0.25 + 0.75 x how well the
window was searched, and less when there was something to find. Quality of a claim: mass 0.35 (interval
score of the quoted 68 % interval against the best error the budget allowed), spin 0.25 and channel 0.20
(Brier scores of your probabilities), honest z 0.10 (quoted against measured z_global), probability 0.10.
Quality of a null: sensitivity 0.60, limits set in every channel 0.25, probability 0.15.

UNITS. Masses, energies and thresholds in GeV (beams in TeV), luminosity in fb^-1, money in MUSD, time in
days, rates of a process in fb and of the trigger in Hz; z in standard deviations.

{legend(ColliderObservation)}"""
"""The same in every campaign."""


TOOLS: Final[Sequence[LegalAction]] = [
    LegalAction(tool=tool, arguments=schema) for tool, schema in schemas_of_all().items()
]
"""Every action of any campaign."""


def actions(observation: Observation) -> Sequence[LegalAction]:
    """Every action of this campaign."""
    task = observation.content["task"]
    given = schemas_for(
        [channel["name"] for channel in task["channels"]],
        [candle["name"] for candle in task["candles"]],
        [beam["sqrt_s_tev"] for beam in task["beams"]],
    )
    return [LegalAction(tool=tool, arguments=schema) for tool, schema in given.items()]


RENDERING: Final = Rendering(guide=GUIDE, actions=actions)
"""How a campaign is told to a language model."""
