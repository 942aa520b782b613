"""What a played and journalled call in an evaluation takes: ``python -m benchmarks.evaluated_call``.

Counted is the processor time of the whole process, start and end of the matches and their figures included;
the endpoint is a process of its own.
"""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from benchmarks.scripted_model import scripted_model
from spectator.cast import DEFAULT_LIVE, Cast
from spectator.clock import SystemClock
from spectator.evaluation.running import run_evaluation
from spectator.evaluation.schedule import EvaluationRequest, plan_evaluation
from spectator.policies.model_presets import preload

JOBS = 8
TURNS = 60
MATCHES = 32

CAPTAIN = '[captains.{0}]\nlabel = "{0}"\nmodel = "m"\nbase_url = "{1}"\nstream = false\n'


async def milliseconds_a_call(folder: Path, url: str) -> float:
    """Processor time of a call: milliseconds."""
    file = folder / "captains.toml"
    file.write_text("".join(CAPTAIN.format(name, url) for name in ("a", "b")), encoding="utf-8")
    cast = Cast.from_file(file, live=DEFAULT_LIVE, variables={}, clock=SystemClock())
    wanted = EvaluationRequest("counting", ("llm:a", "llm:b"), matches=MATCHES, options={"turns": TURNS})
    schedule = plan_evaluation(wanted, load=cast.load)
    began = time.process_time()
    played = await run_evaluation(
        schedule, folder / "out", jobs=JOBS, clock=SystemClock(), report=lambda *_: None
    )
    took = time.process_time() - began
    return 1e3 * took / sum(seat.decisions for match in played.found.values() for seat in match.seats)


def main() -> None:
    """Measure and print."""
    preload()
    gc.freeze()
    with TemporaryDirectory() as folder, scripted_model() as url:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            taken = runner.run(milliseconds_a_call(Path(folder), url))
    print(f"a played and journalled call of an evaluation, {JOBS} at once: {taken:.2f} ms of processor")


if __name__ == "__main__":
    main()
