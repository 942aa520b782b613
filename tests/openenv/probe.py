"""Owns the probe in ``validation/runtime.json``: a match of one over, named tools only, legal to the end.

Write it again after the ball model has changed: ``python -m tests.openenv.probe > validation/runtime.json``.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from spectator.episodes.single_agent import SingleAgent

SEED: Final = 7
EPISODE_ID: Final = "probe-1"
OPTIONS: Final[dict[str, Any]] = {"max_overs": 1}
PREFERRED: Final = ("play_delivery", "bowl_delivery")


def plan() -> dict[str, Any]:
    """The plan that the validator plays."""
    agent = SingleAgent("cricket")
    seen = agent.reset(SEED, EPISODE_ID, options=OPTIONS)
    actions: list[dict[str, Any]] = []
    while not seen.done:
        legal = [one["tool"] for one in seen.legal_actions]
        actions.append({"tool": next((tool for tool in PREFERRED if tool in legal), legal[0])})
        seen = agent.step(actions[-1])
    return {
        "plan_schema_version": "1",
        "reset": {"episode_id": EPISODE_ID, "seed": SEED, "options": OPTIONS},
        "actions": actions,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(plan(), indent=1) + "\n")
