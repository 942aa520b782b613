"""The tasks of verifiers: one seeded episode of a world each, scored by the world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Self

import verifiers.v1 as vf
from pydantic import Field, model_validator

from spectator.environments.seeds import MAX_SEED
from spectator.errors import InvalidRequest
from spectator.training.recorded_run import RecordedRun
from spectator.training.text_episode import TextEpisode

INFO: Final = "spectator"
"""Where ``trace.info`` has what became of the episode."""

_NAMES: Final = {"environment": "world", "opponent_choice": "opponent", "eval_pack_id": "pack"}
"""Fields of a request as the configuration calls them."""

Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


class WorldTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]  # the package is not where types are checked
    """Which world, and which of its episodes: ``--env.taskset.*``, or ``[env.taskset]`` in TOML.

    Raises:
        ValidationError: There is no such world, opponent or pack, or an option or a seed is wrong.
    """

    world: str = "counting"
    """Name in the catalogue."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The world's options, for every episode; those left out take their defaults."""
    opponent: str | None = None
    """Preset that takes every other seat; ``None`` for the world's default."""
    pack: str = "default"
    """Evaluation pack."""
    num_tasks: int = Field(64, ge=1)
    """How many episodes, one task each; their seeds count up from ``first_seed``."""
    first_seed: Seed = 0
    """Seed of the first episode."""
    seeds: list[Seed] | None = Field(None, min_length=1)
    """The seeds themselves; then ``num_tasks`` and ``first_seed`` do not count."""

    @model_validator(mode="after")
    def _can_be_played(self) -> Self:
        if self.seeds is not None and len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: must be different from one another")
        if self.chosen_seeds()[-1] > MAX_SEED:
            raise ValueError(f"num_tasks: the last seed is beyond {MAX_SEED}")
        try:
            self.begin(self.chosen_seeds()[0])[0].close()
        except InvalidRequest as error:
            wrong = (f"{_NAMES.get(one.field, one.field)}: {one.rule}" for one in error.fields)
            raise ValueError("; ".join(wrong)) from None
        return self

    def chosen_seeds(self) -> Sequence[int]:
        """The seed of each task."""
        return self.seeds or range(self.first_seed, self.first_seed + self.num_tasks)

    def begin(self, seed: int) -> tuple[TextEpisode, str]:
        """An episode that has begun, and its prompt.

        Raises:
            InvalidRequest: A field is wrong.
        """
        episode = TextEpisode(self.world, self.options, opponent=self.opponent, pack=self.pack)
        return episode, episode.reset(seed)


class WorldTaskData(vf.TaskData):  # type: ignore[misc]  # the same
    """One episode, as its trace keeps it."""

    world: str
    options: dict[str, Any]
    opponent: str | None
    pack: str
    seed: int

    def episode(self, run: RecordedRun | None = None) -> TextEpisode:
        """The episode, not yet begun; recorded in ``run`` where there is one."""
        return TextEpisode(self.world, self.options, opponent=self.opponent, pack=self.pack, run=run)


class WorldTask(vf.Task[WorldTaskData, vf.State, vf.TaskConfig]):  # type: ignore[misc]  # the same
    """A task that is scored by its world.

    A rollout that failed has no reward, for then verifiers calls none of these.
    """

    @property
    def key(self) -> str:
        """The same for the same episode, wherever it stands among the tasks."""
        return str(self.with_data(idx=None).hash)

    @vf.reward  # type: ignore[untyped-decorator]  # the same
    async def value(self, trace: Any) -> float:
        """The score; where the episode was cut short, what it is worth so far."""
        return float(trace.info[INFO]["value"])

    @vf.metric  # type: ignore[untyped-decorator]  # the same
    async def parts(self, trace: Any) -> Mapping[str, float]:
        """The parts of the score; whether the episode came to its own end; how many actions were refused."""
        told = trace.info[INFO]
        return {**told["rubric"], "finished": float(told["finished"]), "refused": float(told["refused"])}


class WorldTaskset(vf.Taskset[WorldTask, WorldTasksetConfig]):  # type: ignore[misc]  # the same
    """One task a seed; all rollouts of a task are episodes of its seed."""

    def load(self) -> Iterator[WorldTask]:
        """The tasks; the prompt is the brief and the whole situation."""
        for seed in self.config.chosen_seeds():
            episode, prompt = self.config.begin(seed)
            episode.close()
            data = WorldTaskData(
                name=f"{self.config.world}#{seed}",
                prompt=prompt,
                world=self.config.world,
                options=self.config.options,
                opponent=self.config.opponent,
                pack=self.config.pack,
                seed=seed,
            )
            yield WorldTask(data, self.config.task)
