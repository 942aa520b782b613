"""The trained captain as a preset of the catalogue."""

from __future__ import annotations

from typing import Final

from spectator.environments.cricket.captaincy.captains import CAPTAINS
from spectator.environments.cricket.trained.network import card_of, missing_weights
from spectator.policies.base import Policy, Preset

NAME: Final = "trained"
TASK: Final = (
    "A network of 6.5 million parameters that learnt this game on this world: it reads the situation and "
    "says its order in a sentence, of which every clause is a fact of the situation."
)


def _build(seed: int) -> Policy:
    """A new policy; what it needs is imported here, because the catalogue is read at every start."""
    from spectator.clock import SystemClock
    from spectator.environments.cricket.trained.endpoint import TrainedEndpoint
    from spectator.policies.base import ScriptedPolicy
    from spectator.policies.model import ModelPolicy
    from spectator.policies.model_settings import ModelSettings
    from spectator.policies.prompting import Briefing

    endpoint, card = TrainedEndpoint(), card_of()
    settings = ModelSettings(
        model="cricket-captain" if card is None else card.name,
        style="json",
        max_tokens=128,
        context_tokens=1024,
        actions_per_answer=2,
        timeout_s=30.0,
        tokens=True,
    )
    fallback = CAPTAINS["heuristic"].build(seed)
    assert isinstance(fallback, ScriptedPolicy)
    return ModelPolicy(
        endpoint,
        settings,
        Briefing(TASK, conversation=endpoint.conversation),
        fallback=fallback,
        seed=seed,
        clock=SystemClock(),
    )


def trained_captain(world_version: str) -> Preset:
    """The preset, by what is installed here.

    Args:
        world_version: Version of the world that it is to play.
    """
    summary = "A small language model that learnt this game by itself: it thinks in words and needs no key."
    card = card_of()
    if card is not None and card.world != world_version:
        summary += (
            f" It was trained on version {card.world} of this world, not {world_version}: its orders stay "
            "legal, but may be weaker."
        )
    return Preset(NAME, "Asha (trained here)", summary, "model", _build, missing=missing_weights())
