"""A training run whose rewards grow with the version of the weights, with words, tokens and failures."""

from __future__ import annotations

import random
from array import array
from pathlib import Path
from typing import Any

from spectator.llm.chat import ChatAnswer, Usage
from spectator.training.recorded_run import RecordedRun
from spectator.training.text_episode import TextEpisode

SIZE, TURNS = 4, 3


def play_training(
    folder: Path,
    *,
    versions: int = 6,
    groups: int = 2,
    luck: int = 1,
    versioned: bool = True,
    skill: float = 0.9,
) -> None:
    """Play ``groups`` groups of :data:`SIZE` episodes of counting with each version of the weights.

    Args:
        folder: The run's folder.
        versions: How many versions there are, from ``step-10`` in steps of 10.
        groups: Groups for each of them.
        luck: Seed of the answers.
        versioned: Whether the versions are recorded.
        skill: Share of right answers that the last version comes to.
    """
    chance = random.Random(luck)
    with RecordedRun(folder, group_size=SIZE, model="Qwen3-0.6B") as run:
        for version in range(1, versions + 1):
            run.weight_version = f"step-{10 * version}" if versioned else None
            able = 0.3 + (skill - 0.3) * version / versions
            for group in range(groups):
                for _ in range(SIZE):
                    episode = TextEpisode("counting", {"turns": TURNS}, run=run)
                    _play(episode, 100 * version + group, able, chance)


def _play(episode: TextEpisode, seed: int, able: float, chance: random.Random) -> None:
    episode.reset(seed=seed)
    leaves_early = chance.random() < 0.06
    for turn in range(1, TURNS + 1):
        if leaves_early and turn == TURNS:
            episode.reset(seed=seed + 50)
            break
        if episode.done:
            break
        if chance.random() < 0.12 * (1.2 - able):
            episode.answer(said("I would rather not say, and I will go on about it.", able, chance, "length"))
            continue
        number = turn if chance.random() < able else 9
        words = "I count one further. " * chance.randint(1, 3)
        answer = f'{words}{{"tool": "say", "arguments": {{"text": "ACTION: {number}"}}}}'
        episode.answer(said(answer, able, chance))


def said(text: str, able: float, chance: random.Random, finish: str = "stop") -> ChatAnswer:
    """An answer with a token for each four letters; the more able, the surer."""
    count = max(1, len(text) // 4)
    logprobs = array("d", [-chance.expovariate(1.0 + 2.0 * able) for _ in range(count)])
    more: dict[str, Any] = {"token_ids": array("q", range(count)), "prompt_token_ids": array("q", range(40))}
    usage = Usage(40, count, 0, 0)
    return ChatAnswer(text=text, finish_reason=finish, usage=usage, logprobs=logprobs, **more)
