"""Evaluation packs: named, versioned sets of matches, with development seeds.

A development seed is below 2**52; a sealed one (``spectator.environments.seeds.sealed_seeds``) has it set
and comes from a phrase that is kept outside this repository, so the two can share none.
"""

from __future__ import annotations

from typing import Any, Final

from spectator.environments.cricket.match.circumstances import VARIED
from spectator.environments.seeds import SEALED_BIT, derive_seed
from spectator.environments.world import Pack

SEEDS_A_PACK: Final = 40


def development_seeds(name: str, version: str) -> tuple[int, ...]:
    """The seeds of a pack that anybody may look at."""
    return tuple(
        derive_seed(number, "cricket", "development", name, version) % SEALED_BIT
        for number in range(SEEDS_A_PACK)
    )


def _pack(name: str, version: str, summary: str, **options: Any) -> Pack:
    return Pack(name, version, summary, options, development_seeds(name, version))


PACKS: Final[dict[str, Pack]] = {
    pack.name: pack
    for pack in (
        Pack("default", "1", "A whole match from the toss, any seed, as long as asked."),
        _pack("powerplay", "1", "Bat first from the first ball of ten overs: use the powerplay.",
              start="bat_first", max_overs=10),
        _pack("chase", "1", "Bat second: the first innings is played, the target stands.", start="chase"),
        _pack("defend", "1", "Field second: your side has batted, hold them to it.", start="defend"),
        _pack("death", "1", "Bat first with a quarter of the overs to come, then defend.", start="death"),
        _pack("super-over", "1", "The match is tied: one over each decides it.", start="super_over"),
        _pack("varied", "1", "A whole match with ground, form, tired bowlers and uneven squads all on.",
              **VARIED),
        _pack("collapse", "1", "Bat first with early wickets gone: make a total of it.", start="collapse"),
    )
}  # fmt: skip
"""Packs by name."""
