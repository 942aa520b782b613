"""GRPO with TRL on the CPU, with a tiny model of random weights; runs where ``trl`` and torch are.

peer_trl.py

In half of its answers the model counts by rote, so that whole episodes are played and rewards differ; what
it is trained on are its own logits.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers.decoders import ByteLevel
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from spectator.training.rewards import part_reward
from spectator.training.trl_env import world_environment

TEMPLATE = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"


def tokenizer() -> Any:
    """A tokenizer of bytes, made here."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = ByteLevel()
    special = ["<|im_end|>", "<|im_start|>", "<|pad|>"]
    letters = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        ["tool"], trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=letters)
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|pad|>", padding_side="left"
    )
    fast.chat_template = TEMPLATE.read_text()
    return fast


class Rote(GPT2LMHeadModel):  # type: ignore[misc]  # the package has no types
    """A model of which every second answer is the next number, as a tool call."""

    words: Any = None

    def generate(self, input_ids: Any, **_: Any) -> Any:
        """The prompts, each with an answer."""
        said = []
        for place, row in enumerate(input_ids):
            text = self.words.decode(row)
            number = text.count("<tool_response>") + 1
            call = json.dumps({"name": "say", "arguments": {"text": f"ACTION: {number}"}})
            plays = (place % 2 == 0 or number > 1) and number <= 2
            said.append(f"<tool_call>\n{call}\n</tool_call><|im_end|>" if plays else "Done.<|im_end|>")
        answers = self.words(said, return_tensors="pt", padding=True, padding_side="right")["input_ids"]
        return torch.cat([input_ids, answers.to(input_ids.device)], dim=1)


def main() -> None:
    """Train for two steps."""
    torch.manual_seed(1)
    words = Rote.words = tokenizer()
    shape = GPT2Config(vocab_size=len(words), n_positions=4096, n_embd=16, n_layer=1, n_head=2)
    model = Rote(shape)
    before = [one.detach().clone() for one in model.parameters()]
    prompt = [{"role": "user", "content": "Play."}]
    rows = Dataset.from_list([{"prompt": prompt, "seed": seed} for seed in range(2)])
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder, max_steps=2, per_device_train_batch_size=2, num_generations=2,
            max_completion_length=600, report_to=[], use_cpu=True, save_strategy="no", logging_steps=1,
            learning_rate=0.01, bf16=False,
        )  # fmt: skip
        trainer = GRPOTrainer(
            model=model, processing_class=words, args=config, train_dataset=rows,
            environment_factory=world_environment("counting", {"turns": 2}),
            reward_funcs=[part_reward("said")],
        )  # fmt: skip
        trainer.train()
    logged = [one for one in trainer.state.log_history if "reward" in one]
    told = {
        "rewards": [float(one["rewards/CountingEnvironment/mean"]) for one in logged],
        "said": [float(one["rewards/said/mean"]) for one in logged],
        "calls": [float(one["tools/call_frequency"]) for one in logged],
        "tools": [one.__name__ for one in trainer.tools],
        "moved": any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
