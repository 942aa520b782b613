"""TRL's ``GRPOTrainer``: environment class, rollout function, reward functions.

The environment class has one method per tool of a world. The rollout function plays whole episodes on the
engine's own tokens.
"""

from __future__ import annotations

import inspect
import json
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypedDict

from spectator.errors import EpisodeError, FieldError, InvalidRequest
from spectator.observations import LegalAction
from spectator.policies.prompts import TEXT_ALONE, answer_form
from spectator.training.text_episode import TextEpisode

if TYPE_CHECKING:
    from spectator.training.recorded_run import RecordedRun


class TrainedEpisode(Protocol):
    """What a reward function reads of an episode."""

    @property
    def value(self) -> float | None:
        """What it is worth so far, at its own end the score; ``None`` where its world failed."""
        ...

    @property
    def rubric(self) -> dict[str, float]:
        """The parts of the score so far."""
        ...

    @property
    def finished(self) -> bool:
        """Whether it came to its own end."""
        ...


def value_reward(environments: Sequence[TrainedEpisode], **_: Any) -> list[float | None]:
    """What each episode is worth: the score of a finished one, what one that was cut short had come to.

    ``None``, which TRL leaves out, where the world failed.
    """
    return [one.value for one in environments]


def score_reward(environments: Sequence[TrainedEpisode], **_: Any) -> list[float | None]:
    """The score of each finished episode; ``None``, which TRL leaves out, where it was cut short."""
    return [one.value if one.finished else None for one in environments]


def part_reward(part: str) -> Any:
    """A reward function of one part of the rubric, for a weight of its own; ``None`` where a world lacks it.

    >>> part_reward("conduct").__name__
    'conduct'
    """

    def reward(environments: Sequence[TrainedEpisode], **_: Any) -> list[float | None]:
        return [one.rubric.get(part) for one in environments]

    reward.__name__ = part
    return reward


_TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "number": float,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}


class WorldEnvironment:
    """Base of the classes that :func:`world_environment` makes; TRL constructs it without arguments.

    Every public method but ``reset`` and ``get_reward`` is a tool.
    """

    _world = ""
    _options: Mapping[str, Any] = {}
    _opponent: str | None = None
    _run: RecordedRun | None = None

    def __init__(self) -> None:
        self._episode = TextEpisode(self._world, self._options, opponent=self._opponent, run=self._run)

    def reset(self, seed: int | None = None, **row: Any) -> str:
        """Begin an episode.

        Args:
            seed: Its seed, a column of the data set; rows of one group share it. ``None`` has one drawn.
            row: The other columns; those that name options of the world are taken as such.

        Returns:
            The brief and the whole situation, which TRL appends to the prompt.
        """
        known = self._episode.world.options_type.model_fields
        return self._episode.reset(seed, {name: value for name, value in row.items() if name in known})

    def get_reward(self) -> float:
        """What the episode is worth: its score, or what it had come to where it was cut short."""
        return self._episode.value

    @property
    def value(self) -> float:
        """See :meth:`get_reward`."""
        return self._episode.value

    @property
    def rubric(self) -> dict[str, float]:
        """The parts of the score so far."""
        return self._episode.rubric

    @property
    def finished(self) -> bool:
        """Whether the episode came to its own end."""
        return self._episode.done and not self._episode.truncated

    def _use(self, tool: str, arguments: Mapping[str, Any]) -> str:
        if self._episode.done:
            raise ValueError("The episode is over.")
        given = {name: value for name, value in arguments.items() if value is not None}
        return self._episode.use(tool, given)


def world_environment(
    world: str,
    options: Mapping[str, Any] | None = None,
    *,
    opponent: str | None = None,
    run: RecordedRun | None = None,
) -> type[WorldEnvironment]:
    """A class for ``environment_factory``.

    Args:
        world: Name in the catalogue.
        options: The world's options, for every episode.
        opponent: Preset that takes every other seat.
        run: Where episodes are recorded while they are played, so that a server shows them.

    Raises:
        InvalidRequest: There is no such world, or an option is wrong.

    >>> Counting = world_environment("counting", {"turns": 1})
    >>> environment = Counting()
    >>> prompt = environment.reset(seed=1)
    >>> said = environment.say(text="ACTION: 1")
    >>> environment.get_reward()
    1.0
    """
    episode = TextEpisode(world, options, opponent=opponent)
    episode.reset(seed=0)
    members: dict[str, Any] = {"_world": world, "_options": dict(options or {}), "_opponent": opponent}
    members["_run"] = run
    members["__doc__"] = f"{episode.world.title}, a method for each tool."
    members |= {one["tool"]: _method(one) for one in _playable(episode)}
    episode.close()
    name = "".join(part.title() for part in world.split("_")) + "Environment"
    return type(name, (WorldEnvironment,), members)


def _playable(episode: TextEpisode) -> Sequence[LegalAction]:
    """The tools that may become legal in these episodes."""
    tools = episode.playable
    wrong = [one["tool"] for one in tools if not one["tool"].isidentifier() or keyword.iskeyword(one["tool"])]
    if wrong:
        raise ValueError(f"no method can be called {wrong[0]!r}")
    return tools


def _method(tool: LegalAction) -> Callable[..., str]:
    """A method with the signature, the annotations and the docstring from which TRL makes a schema."""
    name, schema = tool["tool"], tool["arguments"]
    rules: Mapping[str, Any] = schema.get("properties", {})
    required = [one for one in schema.get("required", ()) if one in rules]
    names = [*required, *(one for one in rules if one not in required)]

    def method(self: WorldEnvironment, *given: Any, **named: Any) -> str:
        bound = signature.bind(self, *given, **named).arguments
        return self._use(name, {one: value for one, value in bound.items() if one != "self"})

    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    types = {one: _type_of(rules[one], optional=one not in required) for one in names}
    signature = inspect.Signature(
        [first, *(_parameter(one, types[one], optional=one not in required) for one in names)],
        return_annotation=str,
    )
    method.__name__ = method.__qualname__ = name
    method.__annotations__ = {**types, "return": str}
    method.__signature__ = signature  # type: ignore[attr-defined]
    method.__doc__ = _docstring(name, schema, names)
    return method


def _parameter(name: str, kind: Any, *, optional: bool) -> inspect.Parameter:
    default = None if optional else inspect.Parameter.empty
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)


def _type_of(rule: Mapping[str, Any], *, optional: bool) -> Any:
    kind = _TYPES.get(str(rule.get("type")), str)
    return kind | None if optional else kind


def _docstring(name: str, schema: Mapping[str, Any], names: Sequence[str]) -> str:
    about = _line(str(schema.get("description", name)))
    lines = [about, "", "Args:"] if names else [about]
    for one in names:
        rule = schema["properties"][one]
        told = _line(str(rule.get("description", one)))
        if "enum" in rule:
            told += f" One of {', '.join(map(str, rule['enum']))}."
        elif "minimum" in rule and "maximum" in rule:
            told += f" From {rule['minimum']:g} to {rule['maximum']:g}."
        lines.append(f"    {one}: {told}")
    return "\n".join([*lines, "", "Returns:", "    What has changed, as text."])


def _line(text: str) -> str:
    """One line without colons, which the readers of docstrings take for the name of an argument."""
    return " ".join(text.split()).replace(":", ",")


_DUMMY: Final = [{"role": "user", "content": "."}, {"role": "assistant", "content": "."}]
"""A conversation before a message, to find out which tokens a chat template gives the message."""


class Sampled(NamedTuple):
    """What an engine wrote, for each prompt."""

    token_ids: Sequence[Sequence[int]]
    """Tokens of the answer, with its end-of-turn token where it came to one."""
    logprobs: Sequence[Sequence[float | None]]
    """Log probability of each, as it was sampled; ``None`` where the engine told none."""


Sample = Callable[[Any, Sequence[Sequence[int]], int], Sampled]
"""An engine: takes the trainer, token ids of prompts, and the most tokens of an answer."""


@dataclass(frozen=True, slots=True)
class RolledOutEpisode:
    """What reward functions read of an episode, under ``environments``.

    Args:
        value: What it is worth so far, at its own end the score; ``None`` where the world failed.
        rubric: The parts of the score so far; empty where the world failed.
        finished: Whether it came to its own end.
        answers: How many answers were carried out or refused.
        refused: How many were refused.
    """

    value: float | None
    rubric: dict[str, float]
    finished: bool
    answers: int
    refused: int


class RolloutRows(TypedDict):
    """What TRL takes of a rollout function, one row for each prompt."""

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    """All after the prompt: answers, and the texts of the world between them."""
    logprobs: list[list[float | None]]
    """As they were sampled; 0.0 for tokens of the world."""
    env_mask: list[list[int]]
    """1 for tokens of the model, which are trained on, 0 for those of the world."""
    environments: list[RolledOutEpisode]


@dataclass(slots=True)
class _Rollout:
    """One episode under way, with its tokens."""

    episode: TextEpisode
    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    answers: int = 0
    refused: int = 0
    failed: bool = False

    def extend(self, ids: Sequence[int], logprobs: Sequence[float | None], mask: int) -> None:
        self.completion_ids += ids
        self.logprobs += logprobs
        self.mask += [mask] * len(ids)

    def told(self) -> RolledOutEpisode:
        episode, over = self.episode, self.episode.done and not self.episode.truncated
        if self.failed:
            return RolledOutEpisode(None, {}, False, self.answers, self.refused)
        return RolledOutEpisode(episode.value, episode.rubric, over, self.answers, self.refused)


class WorldRollouts:
    """A ``rollout_func``: plays an episode for each prompt, all of a batch side by side.

    An answer is the text of an action; what follows it is the next message of the user. The tokens of an
    answer are those that the engine wrote, never made again from text. A rollout is cut where
    ``max_completion_length`` tokens, those of the world included, leave no room for another answer; it is
    worth then what it had come to. Where the world failed, ``value`` is ``None`` and TRL leaves it out.

    Args:
        world: Name in the catalogue.
        options: The world's options, for every episode.
        opponent: Preset that takes every other seat.
        answer_tokens: The most tokens of one answer; ``None`` for all that there is room for.
        sample: The engine; :func:`sample_with_trainer` when left out.
        run: Where episodes are recorded while they are played, so that a server shows them.

    Raises:
        InvalidRequest: There is no such world, or an option is wrong.
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
    ) -> None:
        self._world, self._options, self._opponent = world, dict(options or {}), opponent
        self._answer_tokens = answer_tokens
        self._sample = sample or sample_with_trainer
        self._run = run
        episode = TextEpisode(world, self._options, opponent=opponent)
        episode.reset(seed=0)
        episode.close()

    def rows(self, seeds: Iterable[int], **options: Any) -> list[dict[str, Any]]:
        """Rows of a data set, one a seed: the ``prompt`` names the episode, which is all that TRL hands on.

        Args:
            seeds: Their seeds; TRL's group is the rollouts of one row.
            options: Further options of the world, for these rows.

        >>> WorldRollouts("counting").rows([7], turns=3)
        [{'prompt': [{'role': 'user', 'content': '{"seed": 7, "turns": 3}'}]}]
        """
        return [
            {"prompt": [{"role": "user", "content": json.dumps({"seed": seed, **options})}]} for seed in seeds
        ]

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> RolloutRows:
        """Play.

        Args:
            prompts: As :meth:`rows` makes them; the same one several times is a group.
            trainer: The ``GRPOTrainer``.

        Raises:
            InvalidRequest: A prompt names no episode, or an option is wrong.
        """
        template = _Template(trainer)
        rollouts = [self._begin(prompt, template) for prompt in prompts]
        try:
            self._play(rollouts, template, trainer)
            told = [one.told() for one in rollouts]
        finally:
            for one in rollouts:
                one.episode.close()
        return {
            "prompt_ids": [one.prompt_ids for one in rollouts],
            "completion_ids": [one.completion_ids for one in rollouts],
            "logprobs": [one.logprobs for one in rollouts],
            "env_mask": [one.mask for one in rollouts],
            "environments": told,
        }

    def _begin(self, prompt: Any, template: _Template) -> _Rollout:
        asked = _episode_of(prompt)
        rollout = _Rollout(TextEpisode(self._world, self._options, opponent=self._opponent, run=self._run))
        try:
            text = rollout.episode.reset(asked.pop("seed"), asked)
        except EpisodeError:
            rollout.failed, text = True, "The world failed."
        free = rollout.episode.world.briefing.text_field is not None
        form = TEXT_ALONE if free else answer_form("json", several=False)
        rollout.prompt_ids = template.opening(f"{text}\n\n{form}")
        if rollout.failed:  # TRL wants a completion of every rollout
            rollout.extend([template.end], [0.0], 0)
        return rollout

    def _play(self, rollouts: Sequence[_Rollout], template: _Template, trainer: Any) -> None:
        active = [one for one in rollouts if not one.failed]
        while active:
            rooms = [trainer.max_completion_length - len(one.completion_ids) for one in active]
            rooms = [min(room, self._answer_tokens or room) for room in rooms]
            before = [one.prompt_ids + one.completion_ids for one in active]
            token_ids, logprobs = self._sample(trainer, before, max(rooms))
            for one, ids, logs, room in zip(active, token_ids, logprobs, rooms, strict=True):
                one.extend(list(ids)[:room], list(logs)[:room], 1)
                self._answered(one, ids[:room], template)
            active = [one for one in active if self._goes_on(one, template, trainer.max_completion_length)]

    def _answered(self, rollout: _Rollout, ids: Sequence[int], template: _Template) -> None:
        rollout.answers += 1
        try:
            rollout.episode.answer(template.text(ids))
        except EpisodeError:
            rollout.failed = True
            return
        rollout.refused += rollout.episode.observation.refused is not None

    def _goes_on(self, rollout: _Rollout, template: _Template, most: int) -> bool:
        """Whether there is another answer to be given; if so, the world's text stands before it."""
        if rollout.failed or rollout.episode.done:
            return False
        ids = template.following(rollout.episode.text, ended=template.ends(rollout.completion_ids[-1]))
        if len(rollout.completion_ids) + len(ids) >= most:
            return False
        rollout.extend(ids, [0.0] * len(ids), 0)
        return True


class _Template:
    """The tokens of messages by the trainer's chat template.

    Args:
        trainer: The trainer.
    """

    def __init__(self, trainer: Any) -> None:
        self._tokenizer = trainer.processing_class
        self._asked = {"chat_template": trainer.chat_template, **trainer.chat_template_kwargs}
        self.end: int = self._tokenizer.eos_token_id
        self._ends = {self.end, *trainer.eos_token_ids}
        before = self._rendered(_DUMMY, opening=False)
        self._turns = before.count(self.end)
        self._before = before

    def opening(self, text: str) -> list[int]:
        """The tokens of a conversation that begins with ``text``."""
        return self._rendered([{"role": "user", "content": text}], opening=True)

    def following(self, text: str, *, ended: bool) -> list[int]:
        """The tokens between an answer and the next one, with ``text`` as the user's message.

        Args:
            text: The message.
            ended: Whether the answer before it came to its own end.

        Raises:
            ValueError: The chat template does not keep what stands before a message as it was.
        """
        full = self._rendered([*_DUMMY, {"role": "user", "content": text}], opening=True)
        if self._turns:
            places = [place for place, one in enumerate(full) if one == self.end]
            ids = full[places[self._turns - 1] + 1 :]
            return ids if ended else [self.end, *ids]
        if full[: len(self._before)] != self._before:
            raise ValueError("the chat template does not keep what stands before a message as it was")
        return full[len(self._before) :]

    def text(self, ids: Sequence[int]) -> str:
        """An answer as text."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))

    def ends(self, token: int) -> bool:
        """Whether it ends a turn."""
        return token in self._ends

    def _rendered(self, messages: Sequence[Mapping[str, str]], *, opening: bool) -> list[int]:
        made = self._tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=opening, tokenize=True, return_dict=False, **self._asked
        )
        return list(made)


def _episode_of(prompt: Any) -> dict[str, Any]:
    try:
        said = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        asked = json.loads(said)
        if isinstance(asked, dict) and "seed" in asked:
            return asked
    except (IndexError, KeyError, TypeError, ValueError):
        pass
    raise InvalidRequest([FieldError("prompt", "must be a row of WorldRollouts.rows")])


def sample_with_trainer(trainer: Any, prompt_ids: Sequence[Sequence[int]], most: int) -> Sampled:
    """What the trainer's own engine writes: vLLM with ``use_vllm``, else the model itself.

    The model itself keeps the scores of an answer until it is written, vocabulary times tokens of it. With
    vLLM the most tokens are those of the trainer's configuration.

    Args:
        trainer: The ``GRPOTrainer``.
        prompt_ids: Token ids of the prompts.
        most: The most tokens of an answer.
    """
    prompts = [list(ids) for ids in prompt_ids]
    if trainer.use_vllm:
        _, written, told, _ = trainer.vllm_generation.generate(
            prompts=prompts, images=None, num_generations=1
        )
        return Sampled(written, [[one[0] for one in row] for row in told])
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
    """How many tokens there are up to the first that ends a turn, it included."""
    stops = set(ends)
    return next((place + 1 for place, one in enumerate(ids) if one in stops), len(ids))
