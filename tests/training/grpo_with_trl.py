"""GRPO on a world by TRL, with a tiny random model; torch is large, so `make training` is a job of its own.

The name keeps it out of ``make test``, which collects ``test_*.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_trl_trains_a_tiny_model_by_whole_episodes() -> None:
    python = ROOT / ".venv-trl" / "bin" / "python"
    assert python.exists(), "TRL is not here; install it with: make trl-venv"
    done = subprocess.run(
        [str(python), str(ROOT / "tests" / "training" / "peer_trl.py")],
        capture_output=True, text=True, timeout=110, check=False,
        env={**os.environ, "TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["tools"] == ["say"]
    assert told["rewards"] == told["said"] == [0.5, 0.5]
    assert told["calls"] == [1.0, 1.0]
    assert told["moved"]
