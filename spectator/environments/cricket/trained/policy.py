"""The trained captain as a policy: a model policy whose endpoint is the network in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spectator.clock import Clock, SystemClock
from spectator.environments.cricket.captaincy.captains import CAPTAINS
from spectator.environments.cricket.trained.card import FOLDER, card_of, check_weights
from spectator.environments.cricket.trained.endpoint import TrainedEndpoint
from spectator.policies.base import ScriptedPolicy
from spectator.policies.model import ModelPolicy
from spectator.policies.model_settings import ModelSettings
from spectator.policies.prompting import Briefing
from spectator.policies.spending import SpendLimit

TASK: Final = (
    "You captain one side of a limited-overs cricket match. Read the situation, and say your order in a "
    "sentence of which every clause is a fact of the situation."
)
ACTIONS: Final = 2
"""Actions of an answer at most: where balls are decided one by one, a change and the ball."""


class TrainedPolicy(ModelPolicy):
    """A seat of the trained captain.

    Args:
        seed: Draws its wording.
        clock: Time.
        folder: Holds its weights.

    Raises:
        ConfigurationError: They are missing or damaged.
    """

    def __init__(self, seed: int, clock: Clock, folder: Path = FOLDER) -> None:
        check_weights(folder)
        endpoint, card = TrainedEndpoint(folder), card_of(folder)
        fallback = CAPTAINS["heuristic"].build(seed)
        assert isinstance(fallback, ScriptedPolicy)
        settings = ModelSettings(
            model="cricket-captain" if card is None else card.name,
            style="json",
            max_tokens=128,
            context_tokens=1024,
            actions_per_answer=ACTIONS,
            timeout_s=30.0,
            tokens=True,
        )
        briefing = Briefing(TASK, conversation=endpoint.conversation)
        super().__init__(endpoint, settings, briefing, fallback=fallback, seed=seed, clock=clock)

    def spend_from(self, budget: SpendLimit) -> None:
        """Pay nothing: it runs here, so no cap on models holds it back."""


def build(seed: int) -> TrainedPolicy:
    """A new policy for one seat."""
    return TrainedPolicy(seed, SystemClock())
