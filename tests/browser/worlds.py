"""Worlds that only tests of the pages need: a captain who writes hostile text, a panel that throws."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from spectator.environments.counting import WORLD
from spectator.observations import Observation
from spectator.policies.policy import Decision, Preset, ScriptedPolicy

MARKUP: Final = '<img src=x onerror="window.pwned=1"><script>window.pwned=2</script><b>bold</b>'
TURNED: Final = "safe\u202egnp.exe\u2066\u200b\ufeffend"
CLUSTER: Final = "👩‍👩‍👧‍👦🏏é" * 40
UNBROKEN: Final = "W" * 60_000


class HostileCaptain(ScriptedPolicy):
    """Says the right integer, in the worst words."""

    def choose(self, observation: Observation) -> Decision:
        """Be hostile."""
        number = observation.content["next"]
        words = (MARKUP + TURNED, CLUSTER, UNBROKEN)[number % 3]
        text = f"ACTION: {number} {MARKUP}{UNBROKEN[:50_000]}"
        return Decision(
            {"text": text},
            "model",
            words,
            raw_text=MARKUP + UNBROKEN,
            parse="repaired",
            fallback_reason=MARKUP,
            model=MARKUP + TURNED,
            tokens_in=900,
            tokens_out=100,
        )


HOSTILE: Final = replace(
    WORLD,
    name="hostile",
    title=f"Hostile {MARKUP}",
    captains={
        "heuristic": Preset("heuristic", MARKUP + TURNED, MARKUP, "heuristic", lambda seed: HostileCaptain())
    },
)

BROKEN: Final = replace(WORLD, name="broken", title="Broken", panel=Path(__file__).parent / "broken_panel")
