"""Draw what happens in a run from its seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.nemesis.nemeses import NEMESES, Nemesis


@dataclass(frozen=True, slots=True)
class NemesisPlan:
    """What happens in a run; drawn from its seed.

    Args:
        seed: The seed.
        nemeses: The nemeses, in order.
        postgres: Whether the journal is in PostgreSQL, with two servers, or in SQLite, with one.
        episodes: Episodes that are started by POST.
        viewers: Viewers of each.
        worker: Whether a worker of rollouts plays too.
        bug: The planted bug.
    """

    seed: int
    nemeses: Sequence[Nemesis]
    postgres: bool
    episodes: int
    viewers: int
    worker: bool
    bug: str = ""

    def sentence(self) -> str:
        """Describe it in a line."""
        store = "PostgreSQL, 2 servers" if self.postgres else "SQLite"
        return f"seed {self.seed}: {store}, {', '.join(one.name for one in self.nemeses)}"


def draw(
    seed: int, allowed: Sequence[str], *, postgres: bool | None = None, most: int = 3, bug: str = ""
) -> NemesisPlan:
    """Draw a run.

    Args:
        allowed: Names of the nemeses to draw from.
        postgres: Where the journal is; drawn if omitted.
        most: Most nemeses of the run.
    """
    chance = random.Random(seed)
    stores = [store for store in (True, False) if any(_applies(name, store) for name in allowed)]
    on_server = chance.choice([True, *stores]) if postgres is None else postgres
    if on_server not in stores:
        on_server = stores[0]
    usable = [NEMESES[name] for name in allowed if _applies(name, on_server)]
    nemeses = [chance.choice(usable) for _ in range(chance.randint(1, most))]
    worker = any(one.worker for one in nemeses) or chance.random() < 0.25
    return NemesisPlan(seed, nemeses, on_server, chance.randint(1, 3), chance.randint(1, 3), worker, bug)


def _applies(name: str, postgres: bool) -> bool:
    return NEMESES[name].postgres if postgres else NEMESES[name].sqlite
