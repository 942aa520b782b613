"""GRPO on a world by TRL, with a tiny random model; torch is large, so `make training` is a job of its own.

The name keeps it out of ``make test``, which collects ``test_*.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def told() -> Any:
    python = ROOT / ".venv-trl" / "bin" / "python"
    assert python.exists(), "TRL is not here; install it with: make trl-venv"
    done = subprocess.run(
        [str(python), str(ROOT / "tests" / "training" / "peer_trl.py")],
        capture_output=True, text=True, timeout=280, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_trl_trains_a_tiny_model_by_whole_episodes(told: Any) -> None:
    trained = told["tools"]
    assert trained["tools"] == ["say"]
    assert trained["rewards"] == trained["said"] == [0.5, 0.5]
    assert trained["calls"] == [1.0, 1.0]
    assert trained["moved"]


def test_trl_trains_on_the_tokens_of_a_rollout_function(told: Any) -> None:
    trained = told["rollouts"]
    assert trained["rewards"] == trained["said"] == [0.5, 0.5]
    assert trained["groups"] == [1, 1]
    # what the engine wrote is trained on, token for token, and nothing else; in each of the two steps one
    # answer was sent back, "Well." with the end of its turn
    assert sum(trained["masked"]) == trained["wrote"] - 2 * 6
    assert trained["lengths"] == [tokens / 2 for tokens in trained["masked"]]
    assert trained["text"].count("ACTION: ") == 2
    assert trained["told"] == (
        "\n<|im_start|>user\nChanged:\nturn: 1\nnext: 2<|im_end|>\n<|im_start|>assistant\n"
    )
    assert trained["moved"]


def test_the_trainers_of_the_page_are_made(told: Any) -> None:
    assert told["page"] == [["quality", "CricketEnvironment"], ["value_reward"], ["value_reward"]]


def test_log_probabilities_are_those_of_the_model_that_wrote(told: Any) -> None:
    sampled = told["rollouts"]["sampled"]
    assert sampled["furthest"] < 1e-4
    assert all(0 < length <= 600 for length in sampled["lengths"])
    assert sampled["answers"] == sampled["refused"]
    assert min(sampled["answers"]) > 1
    assert sampled["values"] == [0.0, 0.0]
