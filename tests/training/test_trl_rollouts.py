"""The rollout function for TRL, with an engine of letters; `grpo_with_trl.py` trains with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from spectator.errors import EpisodeError, InvalidRequest
from spectator.training.text_episode import TextEpisode
from spectator.training.trl import part_reward, score_reward, value_reward
from spectator.training.trl_rollouts import Sampled, WorldRollouts, sample_with_trainer

END = 0


class Letters:
    """A tokenizer with a token for each character; ``|`` ends a turn."""

    eos_token_id = END

    def __init__(self, *, ends: bool = True) -> None:
        self._mark = "|" if ends else "/"

    def apply_chat_template(
        self, messages: Sequence[Any], *, add_generation_prompt: bool, **_: Any
    ) -> list[int]:
        text = "".join(f"<{one['role']}>{one['content']}{self._mark}\n" for one in messages)
        return self.ids(text + ("<assistant>" if add_generation_prompt else ""))

    @staticmethod
    def ids(text: str) -> list[int]:
        return [END if one == "|" else ord(one) for one in text]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        text = "".join("|" if one == END else chr(one) for one in ids)
        return text.replace("|", "") if skip_special_tokens else text


def trainer(*, room: int = 2000, ends: bool = True, **more: Any) -> Any:
    return SimpleNamespace(
        processing_class=Letters(ends=ends), chat_template=None, chat_template_kwargs={},
        eos_token_ids=[END], max_completion_length=room, **more,
    )  # fmt: skip


def engine(*answers: Callable[[int], str]) -> Any:
    """Writes, in the conversation's nth answer, what the nth of ``answers`` makes of the next number."""

    def sample(trainer: Any, prompt_ids: Sequence[Sequence[int]], most: int) -> Sampled:
        texts = []
        for ids in prompt_ids:
            before = Letters().decode(ids)
            number = int(re.findall(r"next: (\d+)", before)[-1])
            texts.append(answers[before.count("<assistant>") - 1](number))
        said = [Letters.ids(text)[:most] for text in texts]
        return Sampled(said, [[-0.5] * len(ids) for ids in said])

    return sample


def counted(number: int) -> str:
    return json.dumps({"tool": "say", "arguments": {"text": f"ACTION: {number}"}}) + "|"


def lost(_: int) -> str:
    return "Well.|"


def prompts(rollouts: WorldRollouts, *seeds: int, **options: Any) -> list[Any]:
    return [row["prompt"] for row in rollouts.rows(seeds, **options)]


def test_the_models_tokens_are_kept_as_they_were_written_and_the_worlds_are_masked() -> None:
    rollouts = WorldRollouts("counting", {"turns": 2}, sample=engine(counted, counted))
    made = rollouts(prompts(rollouts, 1, 1), trainer())
    assert {len(rows) for rows in made.values()} == {2}  # type: ignore[arg-type]  # every value is a list
    first = Letters().decode(made["prompt_ids"][0])
    assert first.startswith("<user>You decide for 'counter'.")
    assert '"tool": "..."' in first
    assert first.endswith("|\n<assistant>")
    ids, mask, logs = made["completion_ids"][0], made["env_mask"][0], made["logprobs"][0]
    assert len(ids) == len(mask) == len(logs)
    parts = {of: Letters().decode([a for a, b in zip(ids, mask, strict=True) if b == of]) for of in (0, 1)}
    assert parts == {1: counted(1) + counted(2), 0: "\n<user>Changed:\nturn: 1\nnext: 2|\n<assistant>"}
    assert [log for log, of in zip(logs, mask, strict=True) if of] == [-0.5] * sum(mask)
    assert {log for log, of in zip(logs, mask, strict=True) if not of} == {0.0}
    told = made["environments"][0]
    assert (told.value, told.finished, told.answers, told.refused) == (1.0, True, 2, 0)


def test_rollouts_of_a_batch_end_each_for_itself() -> None:
    rollouts = WorldRollouts("counting", sample=engine(counted, lost, counted, counted))
    asked = [*prompts(rollouts, 1, turns=1), *prompts(rollouts, 1, turns=3)]
    one, other = rollouts(asked, trainer())["environments"]
    assert (one.answers, one.value, one.finished) == (1, 1.0, True)
    assert (other.answers, other.refused, other.value, other.finished) == (4, 1, 1.0, True)


def test_a_rollout_without_room_for_another_answer_is_cut_and_worth_what_it_came_to() -> None:
    rollouts = WorldRollouts("counting", {"turns": 2}, sample=engine(counted, counted))
    one = len(counted(1))
    for room, value in ((one, 0.5), (one + 20, 0.5), (one + 70, 0.0)):
        made = rollouts(prompts(rollouts, 1), trainer(room=room))
        assert len(made["completion_ids"][0]) <= room
        assert made["env_mask"][0][-1] == 1
        told = made["environments"]
        assert (told[0].finished, value_reward(told), score_reward(told)) == (False, [value], [None])
        # in the third, an answer is cut, as by a limit of its own
        assert (told[0].penalised, told[0].own_share) == ((False, 1.0) if value else (True, 0.5))


def test_an_answer_that_was_cut_is_closed_with_a_token_of_the_world() -> None:
    rollouts = WorldRollouts("counting", {"turns": 1}, answer_tokens=3, sample=engine(*[lost] * 90))
    made = rollouts(prompts(rollouts, 1), trainer(room=900))
    text = Letters().decode(made["completion_ids"][0])
    assert text.startswith("Wel|\n<user>That cannot be carried out")
    assert made["env_mask"][0][:4] == [0, 0, 0, 0], "an answer that was sent back"
    assert made["env_mask"][0][-4:] == [0, 1, 1, 1], "the answer that was penalised"
    assert made["environments"][0].refused == made["environments"][0].answers == 2
    assert (made["environments"][0].value, made["environments"][0].penalised) == (0.0, True)


@pytest.mark.parametrize(("where", "answers"), [("reset", 0), ("answer", 1)])
def test_where_the_world_failed_there_is_no_reward(where: str, answers: int) -> None:
    rollouts = WorldRollouts("counting", {"turns": 2}, sample=engine(counted, counted))
    with mock.patch.object(TextEpisode, where, side_effect=EpisodeError("the world failed")):
        made = rollouts(prompts(rollouts, 1), trainer())
    told = made["environments"]
    assert (told[0].value, told[0].finished, told[0].answers) == (None, False, answers)
    assert value_reward(told) == score_reward(told) == part_reward("said")(told) == [None]
    assert made["completion_ids"][0]
    assert len(made["completion_ids"][0]) == len(made["logprobs"][0]) == len(made["env_mask"][0])


def test_a_template_whose_turns_end_otherwise_must_keep_what_stands_before() -> None:
    rollouts = WorldRollouts("counting", {"turns": 2}, sample=engine(counted, counted))
    made = rollouts(prompts(rollouts, 1), trainer(ends=False))
    assert "turn: 1" in Letters().decode(made["completion_ids"][0])
    changing = trainer(ends=False)
    usual = changing.processing_class.apply_chat_template
    changing.processing_class.apply_chat_template = lambda messages, **how: usual(
        [{"role": str(len(messages)), "content": ""}, *messages], **how
    )
    with pytest.raises(ValueError, match="chat template"):
        rollouts(prompts(rollouts, 1), changing)


@pytest.mark.parametrize("prompt", ["Play.", "[1]", "{}", [], [{"role": "user"}], 7])
def test_a_prompt_that_names_no_episode_is_refused_by_its_field(prompt: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^prompt: must be a row"):
        WorldRollouts("counting")([prompt], trainer())


def test_a_wrong_option_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidRequest, match="turnz"):
        WorldRollouts("counting", {"turnz": 1})
    rollouts = WorldRollouts("counting")
    with pytest.raises(InvalidRequest, match="turnz"):
        rollouts(prompts(rollouts, 1, turnz=1), trainer())
    with pytest.raises(InvalidRequest, match="seed"):
        rollouts(prompts(rollouts, -1), trainer())


def test_with_vllm_the_ids_and_log_probabilities_are_its_own() -> None:
    asked: list[Any] = []

    def generate(**given: Any) -> Any:
        asked.append(given)
        return given["prompts"], [[5, END]], [[[-0.25], [None]]], [[[5], [END]]]

    engine = trainer(use_vllm=True, vllm_generation=SimpleNamespace(generate=generate))
    sampled = sample_with_trainer(engine, [(1, 2)], 9)
    assert sampled == Sampled([[5, END]], [[-0.25, None]])
    assert asked == [{"prompts": [[1, 2]], "images": None, "num_generations": 1}]
