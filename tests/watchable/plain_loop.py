"""A plain Python loop that is watched: ``python -m tests.watchable.plain_loop FOLDER``.

It plays a guessing game in groups of four, a part of it for each line on its input.
"""

from __future__ import annotations

import random
import sys

from spectator.watchable import WatchedEpisode, watch

HTML = "<img src=x onerror=\"document.title='taken'\">"

STEPS = 6

GAME = 107505301260286111
"""An id past 2^53, which a page must show with all its digits."""


def guess(chance: random.Random, episode: WatchedEpisode, target: int, step: int) -> None:
    """One guess, with what a small model was asked and answered."""
    said = str(chance.randint(1, 20))
    asked = [
        {"role": "system", "content": "You guess a number from 1 to 20."},
        {"role": "user", "content": f"Guess {step + 1} of {STEPS}. {HTML}"},
    ]
    far = abs(int(said) - target)
    episode.step(
        messages=asked, reply=f"I say {said}.", tokens=[40, 910, 100 + int(said), 13],
        logprobs=[-0.01, -0.3, -1.0 - far / 10, -0.002], model="tiny-guesser",
        action={"guess": int(said), "game": GAME}, reward=round(1 / (1 + far) / STEPS, 4),
        observation=f"{said} is {'right' if not far else 'too high' if int(said) > target else 'too low'}.",
    )  # fmt: skip


def main(folder: str) -> None:
    """Play three groups, wait, begin an episode, wait, go on with it, wait, end all."""
    chance = random.Random(4)
    with watch(
        folder, name="a guessing loop", environment="guessing", agent="tiny-guesser", episodes=16
    ) as run:
        for number in range(12):
            try:
                with run.episode(group=f"prompt-{number // 4}", seed=number // 4) as episode:
                    for step in range(STEPS):
                        guess(chance, episode, 3 + 5 * (number // 4), step)
                        if number == 6 and step == 2:
                            raise RuntimeError(f"the grader broke {HTML}")
            except RuntimeError:
                pass
        sys.stdin.readline()
        live = run.episode(group="prompt-3", seed=3)
        guess(chance, live, 9, 0)
        sys.stdin.readline()
        for step in range(1, STEPS):
            guess(chance, live, 9, step)
        sys.stdin.readline()
        live.end()
        for _ in range(3):
            with run.episode(group="prompt-3", seed=3) as episode:
                for step in range(STEPS):
                    guess(chance, episode, 9, step)
        sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1])
