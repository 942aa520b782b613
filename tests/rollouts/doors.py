"""Every way in which a model is asked: each plays one episode and says what it came to."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from spectator.collector.collector import collect_episode
from spectator.journal.contract import EpisodeFilter
from spectator.journal.outline import EpisodeOutline, outline_of
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.training.recorded_run import RecordedRun
from spectator.training.text_episode import TextEpisode
from spectator.training.trl import world_environment
from spectator.training.trl_rollouts import Sampled, WorldRollouts
from tests.commands import spectator
from tests.llm.brains import Said, counter, read_situation
from tests.llm.endpoints import endpoint, write_captains
from tests.training.stand_ins import harness_sessions
from tests.training.test_trl_rollouts import Letters, prompts, trainer

LOREM: Final = "lorem ipsum dolor sit amet"
TURNS: Final = 4


def said(number: int) -> str:
    """An answer that counts."""
    return json.dumps({"reason": "", "tool": "say", "arguments": {"text": f"ACTION: {number}"}})


class Verdict(NamedTuple):
    """What an episode came to."""

    reward: float | None
    own_share: float | None
    refusals: int
    penalised: bool


@dataclass(frozen=True)
class Episode:
    """An episode in which a model gives so many actions, and then none."""

    folder: Path
    good: int = 0
    invalid: InvalidAnswers = field(default_factory=InvalidAnswers)
    world: str = "counting"
    options: Mapping[str, Any] = field(default_factory=lambda: {"turns": TURNS})
    run: RecordedRun | None = None

    def numbers(self) -> Callable[[], int | None]:
        """What the model says at its next answer; ``None`` for nonsense."""
        due = itertools.chain(range(1, self.good + 1), itertools.repeat(None))
        return lambda: next(due)

    def answers(self) -> Callable[[], str]:
        """The same as answers in text."""
        number = self.numbers()
        return lambda: LOREM if (one := number()) is None else said(one)

    def text_episode(self) -> TextEpisode:
        """The episode, begun."""
        episode = TextEpisode(self.world, self.options, run=self.run, invalid=self.invalid)
        episode.reset(seed=1)
        return episode


def verdict_of(episode: TextEpisode) -> Verdict:
    """What an adapter's episode came to, of the world and the rule alone."""
    return Verdict(episode.value, episode.own.share, episode.own.refused, episode.penalised)


def outlines(journal_in: Path) -> list[EpisodeOutline]:
    """The outlines of all episodes of a folder."""

    async def read() -> list[EpisodeOutline]:
        journal = await SqlJournal.open(f"sqlite:///{journal_in / 'journal.db'}", writable=False)
        try:
            found = await journal.episodes(EpisodeFilter(limit=1000))
            while len(found) % 1000 == 0 and found:
                more = await journal.episodes(EpisodeFilter(before=found[-1].episode_id, limit=1000))
                if not more:
                    break
                found = [*found, *more]
            return [await outline_of(journal, one) for one in found]
        finally:
            await journal.aclose()

    return asyncio.run(read())


def of_record(outline: EpisodeOutline) -> Verdict:
    """What a record says of its episode."""
    return Verdict(outline.reward, outline.own.share, outline.own.refused, outline.penalised)


def collector(asked: Episode) -> Verdict:
    answer = asked.answers()
    record = collect_episode(
        asked.world, 1, None, None, lambda messages: "prompt", lambda prompt, config: answer(),
        options=asked.options, invalid=asked.invalid,
    ).record  # fmt: skip
    return Verdict(record.total_reward, record.own_share, record.refusals, record.penalised)


def text_episode(asked: Episode) -> Verdict:
    episode, answer = asked.text_episode(), asked.answers()
    while not episode.done:
        episode.answer(answer())
    found = verdict_of(episode)
    episode.close()
    return found


def recorded_run(asked: Episode) -> Verdict:
    """What the record of a trainer's loop says."""
    with RecordedRun(asked.folder) as run:
        text_episode(Episode(asked.folder, asked.good, asked.invalid, asked.world, asked.options, run))
    (outline,) = outlines(asked.folder)
    return of_record(outline)


def gymnasium(asked: Episode) -> Verdict:
    module = import_module("spectator.training.gymnasium_env")
    env, answer = module.SpectatorEnv(asked.world, invalid=asked.invalid, **asked.options), asked.answers()
    env.reset(seed=1)
    total, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, info = env.step(answer())
        total, over = total + reward, terminated or truncated
    env.close()
    if info["value"] is not None:
        assert total == info["value"], "the rewards add up to what the episode counts for"
    return Verdict(info["value"], info["own_share"], info["refusals"], info["penalised"])


def trl_rollouts(asked: Episode) -> Verdict:
    answer = asked.answers()

    def sample(trainer: Any, prompt_ids: Sequence[Sequence[int]], most: int) -> Sampled:
        ids = [Letters.ids(f"{answer()}|") for _ in prompt_ids]
        return Sampled(ids, [[-0.5] * len(one) for one in ids])

    rollouts = WorldRollouts(asked.world, asked.options, sample=sample, run=asked.run, invalid=asked.invalid)
    (one,) = rollouts(prompts(rollouts, 1), trainer(room=100_000))["environments"]
    return Verdict(one.value, one.own_share, one.refused, one.penalised)


def trl_environment(asked: Episode) -> Verdict:
    """TRL calls methods: what the model can get wrong there is the arguments, or calling none."""
    environment: Any = world_environment(asked.world, asked.options, invalid=asked.invalid)()
    environment.reset(seed=1)
    number, episode = asked.numbers(), environment._episode
    while not episode.done and hasattr(environment, "say"):
        one = number()
        environment.say(text=LOREM if one is None else f"ACTION: {one}")
    return Verdict(environment.get_reward(), episode.own.share, episode.own.refused, environment.penalised)


def harness(asked: Episode) -> Verdict:
    factory = harness_sessions().WorldSessionFactory(asked.world, asked.options, invalid=asked.invalid)
    session, number, done = factory.create(None, seed=1), asked.numbers(), False
    while not done:
        one = number()
        text = LOREM if one is None else f"ACTION: {one}"
        done = session.call_tool("lorem" if one is None else "say", {"text": text}).done
    verified = session.verify([{"role": "tool", "content": ""}])
    session.close()
    stated = verified.metrics
    assert verified.env_reward == stated["value"]
    return Verdict(verified.env_reward, stated["own_share"], stated["refusals"], stated["penalised"])


def verifiers(asked: Episode) -> Verdict:
    module, answer = import_module("spectator.training.verifiers_env"), asked.answers()
    played = module.PlayedEpisode(asked.text_episode())
    while not played.episode.done:
        played.take(SimpleNamespace(tool_calls=None, content=answer()), None)
    stated = played.info()
    return Verdict(stated["value"], stated["own_share"], played.refused, stated["penalised"])


Door = Callable[[Episode], Verdict]

IN_PROCESS: Final[Sequence[Door]] = [
    collector, text_episode, recorded_run, gymnasium, trl_rollouts, trl_environment, harness,
    *([verifiers] if find_spec("verifiers") else []),
]  # fmt: skip
"""All but fleets and evaluations, which ask an endpoint; verifiers is too large for the tests to need it."""


def evaluated(folder: Path, brain: Callable[[Mapping[str, Any]], Said], *more: str) -> list[EpisodeOutline]:
    """The matches of a model in an evaluation."""
    with endpoint(brain) as fake:
        table = write_captains(folder / "captains.toml", fake={"base_url": fake.base_url})
        command = ["evaluate", "counting", "--captains", "llm:fake,heuristic", "--jobs", "1", *more]
        done = spectator(*command, "--out", folder / "out", env={"SPECTATOR_CAPTAINS_FILE": str(table)})
    assert done.exit_code == 0, done.output
    return [one for one in outlines(folder / "out") if one.summary.captain == "llm:fake"]


def counts_to(good: int) -> Callable[[Mapping[str, Any]], Said]:
    """A model that gives so many actions, and then none."""
    return lambda body: counter(body) if good and read_situation(body)["next"] <= good else Said(text=LOREM)
