"""A rollout function for TRL's ``GRPOTrainer``: plays whole episodes on the engine's own tokens."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from spectator.errors import EpisodeError, FieldError, InvalidRequest
from spectator.llm.chat import ChatAnswer
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.training.text_episode import TextEpisode

if TYPE_CHECKING:
    from spectator.training.recorded_run import RecordedRun


_DUMMY: Final = [{"role": "user", "content": "."}, {"role": "assistant", "content": "."}]
"""A conversation before a message, to find the tokens that a chat template gives the message."""


class Sampled(NamedTuple):
    """The answers of an engine, one per prompt."""

    token_ids: Sequence[Sequence[int]]
    """Tokens of each answer, with the end-of-turn token if there is one."""
    logprobs: Sequence[Sequence[float | None]]
    """Log probability of each token as sampled; ``None`` if unknown."""


Sample = Callable[[Any, Sequence[Sequence[int]], int], Sampled]
"""An engine; arguments: the trainer, token ids of the prompts, maximum tokens of an answer."""


@dataclass(frozen=True, slots=True)
class RolledOutEpisode:
    """The result of an episode for reward functions, in ``environments``.

    Args:
        value: Value so far, at its end the score; ``None`` if the world failed.
        rubric: The parts of the score so far; empty if the world failed.
        finished: Whether it finished without being cut short.
        answers: Number of answers.
        refused: Number of rejected answers.
        own_share: Share of its decisions that the model made itself; ``None`` if there was none.
        penalised: Whether its value is the penalty of an answer that was not an action.
    """

    value: float | None
    rubric: dict[str, float]
    finished: bool
    answers: int
    refused: int
    own_share: float | None = None
    penalised: bool = False


class RolloutRows(TypedDict):
    """The result of a rollout function for TRL, one row per prompt."""

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    """All tokens after the prompt: answers, and the world's texts between them."""
    logprobs: list[list[float | None]]
    """Log probabilities as sampled; 0.0 for tokens of the world."""
    env_mask: list[list[int]]
    """1 for tokens of the model, which are trained on; 0 for tokens of the world."""
    environments: list[RolledOutEpisode]


@dataclass(slots=True)
class _Rollout:
    """One episode in progress, with its tokens."""

    episode: TextEpisode
    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    answers: int = 0
    last: int = 0
    """Tokens of the last answer."""
    refused: int = 0
    failed: bool = False

    def extend(self, ids: Sequence[int], logprobs: Sequence[float | None], mask: int) -> None:
        self.completion_ids += ids
        self.logprobs += logprobs
        self.mask += [mask] * len(ids)

    def judge(self) -> None:
        """Mask the last answer if it was sent back, unless it is the one that was penalised."""
        trained = self.episode.penalised or not self.episode.sent_back
        self.mask[len(self.mask) - self.last :] = [int(trained)] * self.last

    def result(self) -> RolledOutEpisode:
        episode, finished = self.episode, self.episode.done and not self.episode.truncated
        if self.failed:
            return RolledOutEpisode(None, {}, False, self.answers, self.refused)
        return RolledOutEpisode(
            episode.value, episode.rubric, finished, self.answers, self.refused, episode.own.share,
            episode.penalised,
        )  # fmt: skip


class WorldRollouts:
    """A ``rollout_func``: plays one episode per prompt, all of a batch in parallel.

    An answer is the text of an action; the world's text after it is the next user message. The tokens of an
    answer are those that the engine sampled, never tokenized again. A rollout is cut when
    ``max_completion_length`` tokens, including those of the world, leave no room for another answer; its
    reward is the value so far. If the world failed, ``value`` is ``None``, which TRL ignores.

    Args:
        world: Name in the catalogue.
        options: The world's options, for every episode.
        opponent: Preset for all other seats.
        answer_tokens: Maximum tokens of one answer; ``None`` for the remaining tokens.
        sample: The engine; default: :func:`sample_with_trainer`.
        run: Run that records the episodes, so that a server can show them.
        invalid: What an answer that is not an action does; see :class:`TextEpisode`. Tokens of an answer that
            was sent back are masked, as in exports; those of one that was penalised are not.

    Raises:
        InvalidRequest: The world is unknown, or an option is invalid.
    """

    def __init__(
        self,
        world: str,
        options: Mapping[str, Any] | None = None,
        *,
        opponent: str | None = None,
        answer_tokens: int | None = None,
        sample: Sample | None = None,
        run: RecordedRun | None = None,
        invalid: InvalidAnswers | None = None,
    ) -> None:
        self._world, self._options, self._opponent = world, dict(options or {}), opponent
        self._answer_tokens = answer_tokens
        self._sample = sample or sample_with_trainer
        self._run = run
        self._invalid = invalid
        episode = TextEpisode(world, self._options, opponent=opponent, invalid=invalid)
        episode.reset(seed=0)
        episode.close()

    def rows(self, seeds: Iterable[int], **options: Any) -> list[dict[str, Any]]:
        """Return rows of a data set, one per seed; the ``prompt`` describes the episode.

        Args:
            seeds: The seeds; the rollouts of one row are a group of TRL.
            options: Further options of the world, for these rows.

        >>> WorldRollouts("counting").rows([7], turns=3)
        [{'prompt': [{'role': 'user', 'content': '{"seed": 7, "turns": 3}'}]}]
        """
        return [
            {"prompt": [{"role": "user", "content": json.dumps({"seed": seed, **options})}]} for seed in seeds
        ]

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> RolloutRows:
        """Play the episodes.

        Args:
            prompts: Prompts from :meth:`rows`; equal prompts are a group.
            trainer: The ``GRPOTrainer``.

        Raises:
            InvalidRequest: A prompt is not from :meth:`rows`, or an option is invalid.
        """
        template = _Template(trainer)
        rollouts = [self._begin(prompt, template) for prompt in prompts]
        try:
            self._play(rollouts, template, trainer)
            results = [one.result() for one in rollouts]
        finally:
            for one in rollouts:
                one.episode.close()
        return {
            "prompt_ids": [one.prompt_ids for one in rollouts],
            "completion_ids": [one.completion_ids for one in rollouts],
            "logprobs": [one.logprobs for one in rollouts],
            "env_mask": [one.mask for one in rollouts],
            "environments": results,
        }

    def _begin(self, prompt: Any, template: _Template) -> _Rollout:
        options = _options_of(prompt)
        episode = TextEpisode(
            self._world, self._options, opponent=self._opponent, run=self._run, invalid=self._invalid
        )
        rollout = _Rollout(episode)
        try:
            text = rollout.episode.reset(options.pop("seed"), options)
        except EpisodeError:
            rollout.failed, text = True, "The world failed."
        rollout.prompt_ids = template.opening(f"{text}\n\n{episode.form}")
        episode.open_with([{"role": "user", "content": f"{text}\n\n{episode.form}"}])
        if rollout.failed:  # TRL requires a completion for every rollout
            rollout.extend([template.end], [0.0], 0)
        return rollout

    def _play(self, rollouts: Sequence[_Rollout], template: _Template, trainer: Any) -> None:
        active = [one for one in rollouts if not one.failed]
        while active:
            rooms = [trainer.max_completion_length - len(one.completion_ids) for one in active]
            rooms = [min(room, self._answer_tokens or room) for room in rooms]
            before = [one.prompt_ids + one.completion_ids for one in active]
            token_ids, logprobs = self._sample(trainer, before, max(rooms))
            version = _weight_version(trainer)
            for one, prompt, ids, logs, room in zip(active, before, token_ids, logprobs, rooms, strict=True):
                ids, logs = list(ids)[:room], list(logs)[:room]
                one.extend(ids, logs, 1)
                one.last = len(ids)
                answer = ChatAnswer(
                    text=template.text(ids),
                    finish_reason="stop" if ids and template.ends(ids[-1]) else "length",
                    token_ids=array("q", ids),
                    prompt_token_ids=array("q", prompt),
                    logprobs=array("d", [math.nan if log is None else log for log in logs]),
                    weight_versions=[] if version is None else [(version, len(ids))],
                )
                self._carry_out(one, answer)
            active = [one for one in active if self._continue(one, template, trainer.max_completion_length)]

    def _carry_out(self, rollout: _Rollout, answer: ChatAnswer) -> None:
        rollout.answers += 1
        try:
            rollout.episode.answer(answer)
        except EpisodeError:
            rollout.failed = True
            return
        rollout.refused += rollout.episode.observation.refused is not None
        rollout.judge()

    def _continue(self, rollout: _Rollout, template: _Template, most: int) -> bool:
        """Append the world's text if another answer fits; return whether it does."""
        if rollout.failed or rollout.episode.done:
            return False
        ids = template.following(rollout.episode.text, ended=template.ends(rollout.completion_ids[-1]))
        if len(rollout.completion_ids) + len(ids) >= most:
            if rollout.episode.sent_back:
                rollout.episode.stop("there is no room to ask again")
                rollout.judge()
            return False
        rollout.extend(ids, [0.0] * len(ids), 0)
        return True


def _weight_version(trainer: Any) -> str | None:
    """Return the trainer's step, the version of its weights."""
    step = getattr(getattr(trainer, "state", None), "global_step", None)
    return None if step is None else str(step)


class _Template:
    """Tokens of messages in the trainer's chat template.

    Args:
        trainer: The trainer.
    """

    def __init__(self, trainer: Any) -> None:
        self._tokenizer = trainer.processing_class
        self._options = {"chat_template": trainer.chat_template, **trainer.chat_template_kwargs}
        self.end: int = self._tokenizer.eos_token_id
        self._ends = {self.end, *trainer.eos_token_ids}
        before = self._rendered(_DUMMY, opening=False)
        self._turns = before.count(self.end)
        self._before = before

    def opening(self, text: str) -> list[int]:
        """Return the tokens of a conversation that begins with ``text``."""
        return self._rendered([{"role": "user", "content": text}], opening=True)

    def following(self, text: str, *, ended: bool) -> list[int]:
        """Return the tokens from one answer to the next, with ``text`` as user message.

        Args:
            text: The message.
            ended: Whether the answer before it has its end-of-turn token.

        Raises:
            ValueError: The chat template changes earlier messages.
        """
        full = self._rendered([*_DUMMY, {"role": "user", "content": text}], opening=True)
        if self._turns:
            places = [place for place, one in enumerate(full) if one == self.end]
            ids = full[places[self._turns - 1] + 1 :]
            return ids if ended else [self.end, *ids]
        if full[: len(self._before)] != self._before:
            raise ValueError("the chat template changes earlier messages; use one that only appends")
        return full[len(self._before) :]

    def text(self, ids: Sequence[int]) -> str:
        """Return an answer as text."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))

    def ends(self, token: int) -> bool:
        """Whether the token ends a turn."""
        return token in self._ends

    def _rendered(self, messages: Sequence[Mapping[str, str]], *, opening: bool) -> list[int]:
        made = self._tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=opening, tokenize=True, return_dict=False, **self._options
        )
        return list(made)


def _options_of(prompt: Any) -> dict[str, Any]:
    """Return seed and options in a prompt from :meth:`WorldRollouts.rows`."""
    try:
        options = json.loads(prompt if isinstance(prompt, str) else prompt[-1]["content"])
        if isinstance(options, dict) and "seed" in options:
            return options
    except (IndexError, KeyError, TypeError, ValueError):
        pass
    raise InvalidRequest([FieldError("prompt", "must be a row of WorldRollouts.rows")])


def sample_with_trainer(trainer: Any, prompt_ids: Sequence[Sequence[int]], most: int) -> Sampled:
    """Sample with the trainer's engine: vLLM with ``use_vllm``, or the model itself.

    The model itself keeps the scores of all tokens of an answer in memory, vocabulary size times tokens. With
    vLLM, the maximum number of tokens is that of the trainer's configuration.

    Args:
        trainer: The ``GRPOTrainer``.
        prompt_ids: Token ids of the prompts.
        most: Maximum tokens of an answer.
    """
    prompts = [list(ids) for ids in prompt_ids]
    if trainer.use_vllm:
        _, written, logprobs, _ = trainer.vllm_generation.generate(
            prompts=prompts, images=None, num_generations=1
        )
        return Sampled(written, [[one[0] for one in row] for row in logprobs])
    return _sample_with_model(trainer, prompts, most)


def _sample_with_model(trainer: Any, prompts: list[list[int]], most: int) -> Sampled:
    import torch
    from trl.models import unwrap_model_for_generation

    given = trainer.processing_class.pad(
        {"input_ids": prompts}, padding_side="left", return_attention_mask=True, return_tensors="pt"
    ).to(trainer.accelerator.device)
    config = deepcopy(trainer.generation_config)
    config.update(max_new_tokens=most, return_dict_in_generate=True, output_scores=True)
    with (
        unwrap_model_for_generation(
            trainer.model_wrapped,
            trainer.accelerator,
            gather_deepspeed3_params=trainer.args.ds3_gather_for_generation,
            generation_kwargs=trainer.generation_kwargs,
            gradient_checkpointing_kwargs=trainer.args.gradient_checkpointing_kwargs,
        ) as model,
        torch.no_grad(),
    ):
        made = model.generate(**given, generation_config=config)
        scores = model.compute_transition_scores(made.sequences, made.scores, normalize_logits=True)
    written = made.sequences[:, given["input_ids"].size(1) :].tolist()
    lengths = [_until_end(row, trainer.eos_token_ids) for row in written]
    cut = [row[:length] for row, length in zip(written, lengths, strict=True)]
    return Sampled(cut, [row[:length] for row, length in zip(scores.tolist(), lengths, strict=True)])


def _until_end(ids: Sequence[int], ends: Iterable[int]) -> int:
    """Return the number of tokens up to and including the first that ends a turn."""
    stops = set(ends)
    return next((place + 1 for place, one in enumerate(ids) if one in stops), len(ids))
