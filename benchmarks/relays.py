"""What a relay costs, and how late two of them are: ``python -m benchmarks.relays --viewers 500``.

A server plays one episode; a relay follows it, and another one follows the relay. All of them and their
viewers share the machine, over the loopback.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.cluster import NOTED_S, QUICK_STEP_S, compared, join, measured_servers, start
from benchmarks.crowd import crowd
from benchmarks.fanout import delays_of
from benchmarks.figures import Figure, ms, percentile, spread
from benchmarks.serving import ServerUnderTest


@contextmanager
def chain(length: int) -> Iterator[list[ServerUnderTest]]:
    """A server that plays, and relays after it, each of which follows the one before."""

    def settings_of(before: Sequence[ServerUnderTest]) -> dict[str, str]:
        return {"SPECTATOR_UPSTREAM_URL": before[-1].base} if before else {}

    with measured_servers(QUICK_STEP_S, length, settings_of) as begun:
        yield begun


def latency(viewers: int) -> Figure:
    """From the stamp of an event to its arrival: at the server that plays, and behind one relay and two."""
    with chain(3) as servers:
        episode_id = start(servers[0])
        told, delays = [], []
        for server in servers:
            with crowd() as watching:
                join(watching, server, [episode_id], viewers)
                watching.settle(0.5, patience_s=3.0)
                delays = delays_of(watching.noted(NOTED_S))
            told.append(f"median {ms(percentile(delays, 0.5))}, p99 {ms(percentile(delays, 0.99))}")
    return Figure(
        f"an event at {viewers:,} viewers behind two relays",
        f"{told[2]} of {len(delays):,}",
        "p99 < 50 ms",
        f"at the server that plays {told[0]}; behind one relay {told[1]}",
    )


def cost(viewers: int) -> Figure:
    """CPU of a write to a viewer of a relay beside one to a viewer of the server that plays."""
    with chain(2) as (player, relay), crowd() as watching:
        episode_id = start(player)
        relayed, local, step_ms, _ = compared(watching, (relay, player), episode_id, viewers)
    return Figure(
        f"CPU of a relay's write to one of {viewers:,} viewers, beside a local one",
        f"{1e6 * percentile(relayed, 0.5):.1f} us, "
        f"{spread([one / other for one, other in zip(relayed, local, strict=True)])} x a local one; "
        f"a step takes the relay {percentile(step_ms, 0.5):.1f} ms beside its writes",
        "<= 1.2 x",
        f"a local write {1e6 * percentile(local, 0.5):.1f} us",
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.relays", description=__doc__)
    parser.add_argument("--viewers", type=int, default=500)
    asked = parser.parse_args()
    for part in (latency, cost):
        sys.stderr.write(f"{part.__name__}: the load is {os.getloadavg()[0]:.1f}\n")
        print(part(asked.viewers).row(), flush=True)


if __name__ == "__main__":
    main()
