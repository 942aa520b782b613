"""An evaluation of every provider, through rate limits and two kills, is the one that nothing disturbed."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectator.cast import DEFAULT_LIVE, Cast
from spectator.clock import SystemClock
from spectator.evaluation.evaluation_run import run_evaluation
from spectator.evaluation.results import results_of
from spectator.evaluation.schedule import EvaluationRequest, plan_evaluation
from spectator.journal.contract import EpisodeFilter
from spectator.journal.sql_journal import SqlJournal
from spectator.llm.endpoints import PROVIDERS
from tests.evaluation.test_running import ROOT, wait_until
from tests.llm.brains import Brain, Said, read_situation, say
from tests.llm.endpoints import write_captains
from tests.llm.stand_in_anthropic import AnthropicStandIn
from tests.llm.stand_in_chat import RULES, ChatStandIn
from tests.llm.stand_in_gemini import GeminiStandIn, per_minute
from tests.llm.stand_ins import KEY, Asked, Refused, Served, StandIn, standing_in

TURNS, SEEDS = 6, 2
NAMES = {name: f"llm:{name.replace('.', '')}" for name in PROVIDERS}
MODELS = {"anthropic": "claude-haiku-4-5", "gemini": "gemini-3-flash"}
LIMITED = {
    "openai": Refused(
        429,
        {
            "error": {
                "message": "Rate limit reached for m-1 on requests per min.",
                "code": "rate_limit_exceeded",
            }
        },
        {"retry-after-ms": "40"},
    ),
    "anthropic": Refused(
        529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    ),
    "gemini": per_minute("0.04s"),
    "openrouter": Refused(503, {"error": {"message": "No provider now", "code": 503}}, {"Retry-After": "0"}),
    "huggingface": Refused(429, {"error": "You have reached your plan's rate limit; see billing."}),
}
"""How each provider says that it is asked too often; the others as OpenAI does."""


def slipping(every: int) -> Brain:
    """Counts, and skips a number now and then: captains are to differ."""

    def brain(body: Mapping[str, Any]) -> Said:
        following = read_situation(body)["next"]
        said = following + (following % every == 0)
        return say(body, "say", {"text": f"ACTION: {said}"}, f"{said} comes next")

    return brain


@dataclass(slots=True)
class Gate:
    """How many requests all providers together answer until it is opened wider."""

    allowed: float = math.inf
    answered: int = 0


class Quota:
    """Refuses every so manieth request as its provider does for a limit, and whatever the gate holds back."""

    def __init__(self, provider: StandIn, refusal: Refused, every: int, gate: Gate) -> None:
        self._provider, self._refusal, self._every, self._gate = provider, refusal, every, gate
        self._asked = 0

    def answer(self, asked: Asked) -> tuple[Any, Iterator[tuple[str, Any]] | None]:
        self._asked += 1
        if (self._every and self._asked % self._every == 2) or self._gate.answered >= self._gate.allowed:
            raise self._refusal
        self._gate.answered += 1
        return self._provider.answer(asked)


@asynccontextmanager
async def every_provider(limited_every: int, gate: Gate) -> AsyncIterator[dict[str, Served]]:
    """A stand-in of each provider; each so manieth request is refused, none where 0."""
    async with AsyncExitStack() as stack:
        served = {}
        for number, name in enumerate(PROVIDERS):
            brain = slipping(3 + 2 * (number % 4))
            provider: StandIn = (
                AnthropicStandIn(brain) if name == "anthropic"
                else GeminiStandIn(brain) if name == "gemini"
                else ChatStandIn(brain, RULES[name])
            )  # fmt: skip
            quota = Quota(provider, LIMITED.get(name, LIMITED["openai"]), limited_every, gate)
            served[name] = await stack.enter_async_context(standing_in(quota))
        yield served


@contextmanager
def providers(limited_every: int, gate: Gate) -> Iterator[dict[str, Served]]:
    """:func:`every_provider` on a thread of its own, which outlives whoever asks."""
    begun: list[dict[str, Served]] = []
    loop = asyncio.new_event_loop()
    over, ready = asyncio.Event(), threading.Event()

    async def run() -> None:
        async with every_provider(limited_every, gate) as served:
            begun.append(served)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=[run()], name="providers")
    thread.start()
    assert ready.wait(20), "the providers did not start"
    try:
        yield begun[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(20)
        loop.close()


def captains_file(folder: Path, served: Mapping[str, Served]) -> Path:
    """A captain of each provider; two of them with limits that all processes keep."""
    limits = {
        "openai": {"requests_per_minute": 6_000},
        "vllm": {"concurrency": 4, "tokens_per_minute": 10**7},
    }
    tables = {
        NAMES[name].removeprefix("llm:"): {
            "provider": name,
            "model": MODELS.get(name, "m-1"),
            "base_url": f"{one.url}/{'v1beta' if name == 'gemini' else 'v1'}",
            "api_key_env": "STAND_IN_KEY",
            "timeout_s": 300,
            **limits.get(name, {}),
        }
        for name, one in served.items()
    }
    folder.mkdir()
    return write_captains(folder / "captains.toml", **tables)


def command(folder: Path) -> list[str]:
    """What evaluates every provider into ``folder``."""
    return [
        sys.executable, "-m", "spectator.cli", "evaluate", "counting", "--captains", ",".join(NAMES.values()),
        "--matches", str(2 * SEEDS), "--option", f"turns={TURNS}", "--jobs", "8", "--out", str(folder),
    ]  # fmt: skip


def environment(captains: Path) -> dict[str, str]:
    """The variables that the command reads."""
    return {**os.environ, "SPECTATOR_CAPTAINS_FILE": str(captains), "STAND_IN_KEY": KEY}


def killed_once(folder: Path, captains: Path, met: Callable[[], bool]) -> None:
    """Run the evaluation as a command of its own and kill it as soon as that is so."""
    process = subprocess.Popen(command(folder), cwd=ROOT, env=environment(captains), stderr=subprocess.PIPE)
    try:
        wait_until(lambda: met() or process.poll() is not None)
        assert process.poll() is None, f"it was over before it could be killed: {process.communicate()[1]!r}"
    finally:
        process.kill()
        process.communicate()


def played_whole(folder: Path, captains: Path) -> dict[str, Any]:
    """Run it to its end, and what it found, but for names of matches, times and what providers counted."""
    clock = SystemClock()
    cast = Cast.from_file(captains, live=DEFAULT_LIVE, variables={"STAND_IN_KEY": KEY}, clock=clock)
    wanted = EvaluationRequest(
        "counting",
        tuple(NAMES.values()),
        matches=2 * SEEDS,
        options={"turns": TURNS},
        failed_decisions="random",
    )
    schedule = plan_evaluation(wanted, load=cast.load)
    done = asyncio.run(run_evaluation(schedule, folder, jobs=8, clock=clock, report=lambda *_: None))
    found = results_of(schedule, done.found, done.cut_short).model_dump(mode="json")
    for match in found["matches"]:
        del match["episode_id"]
    for captain in found["captains"]:
        del captain["measures"]["latency_s"], captain["measures"]["tokens"]  # a provider counts by its cache
        del captain["asked"]["tokens"]
    return found


async def decided(folder: Path) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    """Every decision by captain and seed: what was asked, by its digest, what came back, what was done."""
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
    try:
        made: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
        for summary in await journal.episodes(EpisodeFilter(limit=500)):
            events = [one.event for one in await journal.read(summary.episode_id)]
            made[summary.captain, summary.seed] = [
                (
                    data["source"],
                    data["action"],
                    data["raw_text"],
                    [one["request"] for one in data["exchanges"]],
                )
                for data in (event.data for event in events if event.type == "decision.made")
            ]
        return made
    finally:
        await journal.aclose()


def test_limited_and_killed_twice_an_evaluation_of_every_provider_is_the_undisturbed_one(
    tmp_path: Path,
) -> None:
    undisturbed, gate = Gate(), Gate()
    with providers(0, undisturbed) as served:
        calm = played_whole(tmp_path / "calm", captains_file(tmp_path / "calm_captains", served))
    with providers(5, gate) as served:
        captains, folder = captains_file(tmp_path / "rough_captains", served), tmp_path / "rough"
        for share in (0.25, 0.6):
            gate.allowed = share * undisturbed.answered
            killed_once(folder, captains, lambda: gate.answered >= gate.allowed)
        gate.allowed = math.inf
        rough = played_whole(folder, captains)
        assert all(one.refused for one in served.values()), "each provider refused for load"
    assert rough == calm
    made = asyncio.run(decided(folder))
    assert made == asyncio.run(decided(tmp_path / "calm"))
    assert {source for match in made.values() for source, *_ in match} == {"model"}
    assert len(made) == len(PROVIDERS) * SEEDS
    more = gate.answered - undisturbed.answered
    assert 0 <= more <= 2 * 8, "only what was under way at a kill is asked for again"
    assert_verified(tmp_path / "bundle", folder, captains)


def assert_verified(bundle: Path, folder: Path, captains: Path) -> None:
    """What was evaluated is published without asking anybody, and holds where there is no key."""
    published = subprocess.run(
        [*command(folder), "--publish", str(bundle)],
        cwd=ROOT, env=environment(captains), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert published.returncode == 0, published.stderr[-2000:]
    verified = subprocess.run(
        [sys.executable, "-m", "spectator.cli", "verify-bundle", str(bundle)],
        cwd=bundle.parent, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert verified.returncode == 0, verified.stdout[-2000:] + verified.stderr[-2000:]
    assert "verified" in verified.stdout.lower()
