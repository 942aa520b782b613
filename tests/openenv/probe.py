"""The probe in ``validation/runtime.json``: a match of one over, whatever its balls bring.

Its captain knows nothing but the names of five tools and tries them in turn: those that are legal carry the
match to its end, the others show that a refusal is an observation too.
``python -m tests.openenv.probe > validation/runtime.json`` writes it.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

TOOLS: Final = ("call_toss", "select_batter", "select_bowler", "play_delivery", "bowl_delivery")
MOST_ACTIONS: Final = 100
"""Most actions that the validator takes."""


def plan() -> dict[str, Any]:
    """The plan that the validator plays."""
    return {
        "plan_schema_version": "1",
        "reset": {"episode_id": "probe-1", "seed": 7, "options": {"max_overs": 1, "super_over": False}},
        "actions": [{"tool": TOOLS[number % len(TOOLS)]} for number in range(MOST_ACTIONS)],
    }


def text() -> str:
    """The plan as it is kept: one action a line."""
    actions = ",\n  ".join(json.dumps(action) for action in plan()["actions"])
    head = json.dumps({**plan(), "actions": []}, indent=1)
    return head.replace('"actions": []', f'"actions": [\n  {actions}\n ]') + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
