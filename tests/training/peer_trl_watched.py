"""GRPO with TRL on the CPU, in groups of eight whose episodes are recorded while they are played.

python -m tests.training.peer_trl_watched FOLDER GROUPS
"""

from __future__ import annotations

import sys
import tempfile

from datasets import Dataset
from transformers import GPT2Config
from trl import GRPOConfig, GRPOTrainer

from spectator.training.recorded_run import RecordedRun
from spectator.training.trl import world_environment
from tests.training.peer_trl import STILL, Rote, tokenizer


def main(folder: str, groups: int) -> None:
    """Train for a step a group."""
    words = Rote.words = tokenizer()
    shape = GPT2Config(vocab_size=len(words), n_positions=4096, n_embd=16, n_layer=1, n_head=2, **STILL)
    prompt = [{"role": "user", "content": "Play."}]
    rows = Dataset.from_list([{"prompt": prompt, "seed": seed} for seed in range(groups)])
    with (
        tempfile.TemporaryDirectory() as output,
        RecordedRun(folder, group_size=8, model="Tiny GPT-2") as run,
    ):
        config = GRPOConfig(
            output_dir=output, max_steps=groups, per_device_train_batch_size=8, num_generations=8,
            max_completion_length=600, report_to=[], use_cpu=True, save_strategy="no", bf16=False,
            learning_rate=0.01,
        )  # fmt: skip
        GRPOTrainer(
            model=Rote(shape), processing_class=words, args=config, train_dataset=rows, reward_funcs=[],
            environment_factory=world_environment("counting", {"turns": 2}, run=run),
        ).train()  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
