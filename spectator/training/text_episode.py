"""One episode as a trainer plays it: answers or tool calls in, text out, and what it is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spectator.episodes.single_agent import NoEpisode, SingleAgent
from spectator.llm.tool_calls import CallRejected
from spectator.observations import LegalAction, Observation
from spectator.policies.policy import Action
from spectator.policies.turns import action_in

if TYPE_CHECKING:
    from spectator.training.recorded_run import RecordedEpisode, RecordedRun


class TextEpisode:
    """A world as a language model meets it in training; one episode at a time, from one thread.

    Args:
        world: Name in the catalogue.
        options: The world's options, for every episode; those left out take their defaults.
        opponent: Preset that takes every other seat; ``None`` for the world's default.
        pack: Evaluation pack.
        run: Where its episodes are recorded while they are played; nowhere when left out.

    Raises:
        InvalidRequest: There is no such world.

    >>> episode = TextEpisode("counting", {"turns": 2})
    >>> prompt = episode.reset(seed=1)
    >>> episode.use("say", {"text": "ACTION: 1"})
    'Changed:\\nturn: 1\\nnext: 2'
    >>> said = episode.answer('{"tool": "say", "arguments": {"text": "ACTION: 2"}}')
    >>> episode.value, episode.done
    (1.0, True)
    """

    def __init__(
        self,
        world: str,
        options: Mapping[str, Any] | None = None,
        *,
        opponent: str | None = None,
        pack: str = "default",
        run: RecordedRun | None = None,
    ) -> None:
        self._agent = SingleAgent(world)
        self._options = dict(options or {})
        self._opponent = opponent
        self._pack = pack
        self._run = run
        self._recorded: RecordedEpisode | None = None
        self._seen: Observation | None = None
        self.world = self._agent.world
        """What is played."""

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> str:
        """Begin an episode.

        Args:
            seed: 0 .. 2**53 - 1; ``None`` has one drawn.
            options: Further options, for this episode.

        Returns:
            The brief and the whole situation, as text.

        Raises:
            InvalidRequest: An option is wrong; the episode under way goes on.
            EpisodeError: The opponent or the world failed.
        """
        asked = {**self._options, **(options or {})}
        told = self._run is not None
        self._seen = self._agent.reset(
            seed, options=asked, opponent=self._opponent, pack=self._pack, observe="text", tell=told
        )
        if self._run is not None:
            self._leave("another episode was begun")
            self._recorded = self._run.begin(self._agent.plan)
            self._record()
        return self.text

    @property
    def observation(self) -> Observation:
        """The last observation, whole.

        Raises:
            NoEpisode: ``reset`` was not called.
        """
        return self._agent.observation

    @property
    def text(self) -> str:
        """The last observation as the model reads it."""
        return str(self._agent.shown["text"])

    @property
    def done(self) -> bool:
        """Whether the episode is over, or none was begun."""
        return self._seen is None or self._seen.done

    @property
    def truncated(self) -> bool:
        """Whether it was cut short."""
        return self._seen is not None and "truncated" in self._seen.metadata

    @property
    def value(self) -> float:
        """What it is worth so far; at its own end the score."""
        return 0.0 if self._seen is None else float(self._seen.metadata["value"])

    @property
    def rubric(self) -> dict[str, float]:
        """The parts of the score so far."""
        return {} if self._seen is None else dict(self._seen.metadata["rubric"])

    @property
    def tools(self) -> Sequence[LegalAction]:
        """Every tool of the world: what it declares, or else what is legal at the beginning of an episode."""
        world = self.world
        if world.standing or world.tools:
            return world.standing or world.tools
        if self._seen is None:
            self.reset(seed=0)
        return self.observation.legal_actions

    @property
    def playable(self) -> Sequence[LegalAction]:
        """The tools that may become legal in this episode, each with its widest schema.

        Raises:
            NoEpisode: ``reset`` was not called.
        """
        actions = self.world.briefing.rendering.actions
        return self.tools if actions is None else actions(self.observation)

    @property
    def functions(self) -> list[dict[str, Any]]:
        """:attr:`playable` as a chat endpoint takes tools.

        Raises:
            NoEpisode: ``reset`` was not called.
        """
        return [_function(one["tool"], one["arguments"]) for one in self.playable]

    def use(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Use a tool; one that is illegal or malformed is refused and counted, and the text says why.

        Returns:
            What has changed, as text.

        Raises:
            NoEpisode: ``reset`` was not called.
            EpisodeError: The opponent or the world failed.
        """
        return self.act(self.world.briefing.as_action(tool, arguments))

    def answer(self, said: str) -> str:
        """Carry out what an answer in text means; one that names no legal action is refused and counted."""
        try:
            action = action_in(said, self.world.briefing, self.observation)
        except (CallRejected, IndexError):
            action = {}
        return self.act(action)

    def act(self, action: Action) -> str:
        """Carry out an action of the world, whatever it is; returns what has changed, as text."""
        try:
            self._seen = self._agent.step(action)
        except Exception as error:
            if self._recorded is not None and not isinstance(error, NoEpisode):
                self._recorded.break_off(str(error))
            raise
        self._record()
        return self.text

    def break_off(self, detail: str) -> None:
        """Whoever decides failed: where it is recorded, it ends without a verdict.

        Args:
            detail: Why, in words.
        """
        if self._recorded is not None:
            self._recorded.break_off(detail)

    def close(self) -> None:
        """Let go of everything. Safe to call twice."""
        self._leave("the agent was closed")
        self._agent.close()

    def _record(self) -> None:
        if self._recorded is not None:
            reward = self._agent.observation.reward or 0.0
            self._recorded.take(self._agent.take_recorded(), reward, self.value)

    def _leave(self, detail: str) -> None:
        if self._recorded is not None:
            self._recorded.leave(detail)
            self._recorded = None


def _function(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", **{rule: told for rule, told in schema.items() if rule != "description"}}
    about = str(schema.get("description", name))
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
