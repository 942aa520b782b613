"""GRPO with TRL on the CPU, with a tiny model of random weights; runs where ``trl`` and torch are.

peer_trl.py

In half of its answers the model counts by rote, so that whole episodes are played and rewards differ; what
it is trained on are its own logits.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers.decoders import ByteLevel
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from spectator.training.trl import part_reward, value_reward, world_environment
from spectator.training.trl_rollouts import Sampled, WorldRollouts

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS / "training" / "trl.md", DOCS / "tutorials" / "train-a-captain.md"]

STILL = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
"""No dropout: the same tokens have the same probabilities twice."""

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


def trained(model: Any, words: Any, rows: list[dict[str, Any]], **asked: Any) -> tuple[Any, bool]:
    """A trainer after two steps, and whether its model has moved."""
    before = [one.detach().clone() for one in model.parameters()]
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder, max_steps=2, per_device_train_batch_size=2, num_generations=2,
            max_completion_length=600, report_to=[], use_cpu=True, save_strategy="no", logging_steps=1,
            learning_rate=0.01, bf16=False,
        )  # fmt: skip
        trainer = GRPOTrainer(
            model=model, processing_class=words, args=config, train_dataset=Dataset.from_list(rows), **asked
        )
        trainer.train()
    return trainer, any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def by_tools(words: Any, shape: Any) -> dict[str, Any]:
    """Train with an environment class."""
    prompt = [{"role": "user", "content": "Play."}]
    trainer, moved = trained(
        Rote(shape), words, [{"prompt": prompt, "seed": seed} for seed in range(2)],
        environment_factory=world_environment("counting", {"turns": 2}),
        reward_funcs=[part_reward("said")],
    )  # fmt: skip
    logged = [one for one in trainer.state.log_history if "reward" in one]
    return {
        "rewards": [float(one["rewards/CountingEnvironment/mean"]) for one in logged],
        "said": [float(one["rewards/said/mean"]) for one in logged],
        "calls": [float(one["tools/call_frequency"]) for one in logged],
        "tools": [one.__name__ for one in trainer.tools],
        "moved": moved,
    }


def by_rote(words: Any, wrote: list[int]) -> Any:
    """An engine that writes the next number in the first of two rollouts, and nonsense in the other."""

    def sample(trainer: Any, prompt_ids: Any, most: int) -> Sampled:
        said = []
        for place, ids in enumerate(prompt_ids):
            before = words.decode(ids)
            number = int(re.findall(r"next: (\d+)", before)[-1])
            plays = "Refused" not in before and (place == 0 or len(prompt_ids) == 1)
            action = json.dumps({"tool": "say", "arguments": {"text": f"ACTION: {number}"}})
            said.append(words(f"{action if plays else 'Well.'}<|im_end|>")["input_ids"][:most])
        wrote.append(sum(map(len, said)))
        return Sampled(said, [[-1.0] * len(ids) for ids in said])

    return sample


def by_rollouts(words: Any, shape: Any) -> dict[str, Any]:
    """Train with a rollout function, by rote and with what the model itself writes."""
    wrote: list[int] = []
    seen: list[dict[str, Any]] = []
    rollouts = WorldRollouts("counting", {"turns": 2}, sample=by_rote(words, wrote))

    def watched(prompts: Any, trainer: Any) -> Any:
        seen.append({"prompts": prompts, **rollouts(prompts, trainer)})
        return {name: rows for name, rows in seen[-1].items() if name != "prompts"}

    trainer, moved = trained(
        GPT2LMHeadModel(shape), words, rollouts.rows(range(2)),
        rollout_func=watched, reward_funcs=[value_reward, part_reward("said")],
    )  # fmt: skip
    logged = [one for one in trainer.state.log_history if "reward" in one]
    first = {name: rows[0] for name, rows in seen[0].items()}
    pairs = zip(first["completion_ids"], first["env_mask"], strict=True)
    return {
        "rewards": [float(one["rewards/value_reward/mean"]) for one in logged],
        "said": [float(one["rewards/said/mean"]) for one in logged],
        "lengths": [float(one["completions/mean_length"]) for one in logged],
        "groups": [len({json.dumps(prompt) for prompt in one["prompts"]}) for one in seen],
        "masked": [sum(map(sum, one["env_mask"])) for one in seen],
        "wrote": sum(wrote),
        "text": words.decode(first["completion_ids"]),
        "told": words.decode([one for one, of_model in pairs if not of_model]),
        "moved": moved,
        "sampled": sampled_by_the_model(trainer),
    }  # fmt: skip


def sampled_by_the_model(trainer: Any) -> dict[str, Any]:
    """What the model itself writes, against what it makes of the same tokens in one pass."""
    rollouts = WorldRollouts("counting", {"turns": 2}, answer_tokens=8)
    rows = [*rollouts.rows([3]), *rollouts.rows([4], turns=12)]  # the prompts differ in length
    made = rollouts([row["prompt"] for row in rows], trainer)
    furthest = 0.0
    for place in range(2):
        prompt, completion = made["prompt_ids"][place], made["completion_ids"][place]
        with torch.no_grad():
            logits = trainer.model(torch.tensor([[*prompt, *completion]])).logits[0]
        logs = torch.log_softmax(logits[len(prompt) - 1 : -1].float(), dim=-1)
        for at, (token, logged) in enumerate(zip(completion, made["logprobs"][place], strict=True)):
            if made["env_mask"][place][at]:
                assert logged is not None
                furthest = max(furthest, abs(float(logs[at, token]) - logged))
    return {
        "furthest": furthest,
        "lengths": list(map(len, made["completion_ids"])),
        "answers": [one.answers for one in made["environments"]],
        "refused": [one.refused for one in made["environments"]],
        "values": [one.value for one in made["environments"]],
    }


def of_the_page(words: Any, shape: Any) -> list[list[str]]:
    """Run the blocks of the pages as they are, with a tiny model: imitation for a step, the rest for none."""
    made: list[list[str]] = []

    class Tiny(GRPOTrainer):  # type: ignore[misc]  # the package has no types
        def __init__(self, model: str, **given: Any) -> None:
            super().__init__(**given | {"model": Rote(shape), "processing_class": words})

        def train(self) -> None:
            made.append(list(self.reward_func_names))

    class Student(SFTTrainer):  # type: ignore[misc]
        def __init__(self, model: str, **given: Any) -> None:
            super().__init__(model=Rote(shape), processing_class=words, **given)

    small: dict[str, Any] = {"use_cpu": True, "bf16": False, "report_to": []}
    short = {**small, "max_steps": 1, "save_strategy": "no"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        config = partial(GRPOConfig, output_dir=folder, **small)
        imitation = partial(SFTConfig, **short)
        with mock.patch.multiple(
            trl, GRPOTrainer=Tiny, GRPOConfig=config, SFTTrainer=Student, SFTConfig=imitation
        ):
            for page in PAGES:
                exec(blocks(page.read_text()), {})
    return made


def blocks(page: str) -> str:
    """The Python of a page, that for a machine with torch included."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    commands = ("pip ", "python3 ", "spectator ", "export ")
    return "\n".join(one for kind, one in found if kind != "toml" and not one.startswith(commands))


def main() -> None:
    """Train for two steps by each means."""
    torch.manual_seed(1)
    words = Rote.words = tokenizer()
    shape = GPT2Config(vocab_size=len(words), n_positions=4096, n_embd=16, n_layer=1, n_head=2, **STILL)
    with contextlib.redirect_stdout(sys.stderr):
        page = of_the_page(words, shape)
    print(json.dumps({"page": page, "tools": by_tools(words, shape), "rollouts": by_rollouts(words, shape)}))


if __name__ == "__main__":
    main()
