"""One episode for a trainer: answers or tool calls in, text and values out."""

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
    """A world for a model in training: one episode at a time, from one thread.

    Args:
        world: Name in the catalogue.
        options: The world's options, for every episode; omitted ones have their defaults.
        opponent: Preset for all other seats; ``None`` for the world's default.
        pack: Evaluation pack.
        run: Run that records the episodes; optional.

    Raises:
        InvalidRequest: The world is unknown.

    >>> episode = TextEpisode("counting", {"turns": 2})
    >>> prompt = episode.reset(seed=1)
    >>> episode.use("say", {"text": "ACTION: 1"})
    'Changed:\\nturn: 1\\nnext: 2'
    >>> text = episode.answer('{"tool": "say", "arguments": {"text": "ACTION: 2"}}')
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
        """The world."""

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> str:
        """Begin an episode.

        Args:
            seed: 0 .. 2**53 - 1; ``None`` for a random one.
            options: Further options, for this episode.

        Returns:
            The brief and the whole situation, as text.

        Raises:
            InvalidRequest: An option is invalid; the current episode continues.
            EpisodeError: The opponent or the world failed.
        """
        recorded = self._run is not None
        self._seen = self._agent.reset(
            seed,
            options={**self._options, **(options or {})},
            opponent=self._opponent,
            pack=self._pack,
            observe="text",
            tell=recorded,
        )
        if self._run is not None:
            self._leave("another episode was started")
            self._recorded = self._run.begin(self._agent.plan)
            self._record()
        return self.text

    @property
    def observation(self) -> Observation:
        """The complete last observation.

        Raises:
            NoEpisode: ``reset`` was not called.
        """
        return self._agent.observation

    @property
    def text(self) -> str:
        """The last observation as text for the model."""
        return str(self._agent.shown["text"])

    @property
    def done(self) -> bool:
        """Whether the episode is over, or none was started."""
        return self._seen is None or self._seen.done

    @property
    def truncated(self) -> bool:
        """Whether the episode was cut short."""
        return self._seen is not None and "truncated" in self._seen.metadata

    @property
    def value(self) -> float:
        """Value of the episode so far; at its end the score."""
        return 0.0 if self._seen is None else float(self._seen.metadata["value"])

    @property
    def rubric(self) -> dict[str, float]:
        """The parts of the score so far."""
        return {} if self._seen is None else dict(self._seen.metadata["rubric"])

    @property
    def tools(self) -> Sequence[LegalAction]:
        """Every tool of the world, by default those that are legal at the beginning."""
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
        """:attr:`playable` in the form of chat completions.

        Raises:
            NoEpisode: ``reset`` was not called.
        """
        return [_function(one["tool"], one["arguments"]) for one in self.playable]

    def use(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Use a tool; illegal calls are rejected and counted, and the text says why.

        Returns:
            The changes, as text.

        Raises:
            NoEpisode: ``reset`` was not called.
            EpisodeError: The opponent or the world failed.
        """
        return self.act(self.world.briefing.as_action(tool, arguments))

    def answer(self, text: str) -> str:
        """Carry out the action in a text; texts without one are rejected and counted."""
        try:
            action = action_in(text, self.world.briefing, self.observation)
        except (CallRejected, IndexError):
            action = {}
        return self.act(action)

    def act(self, action: Action) -> str:
        """Carry out an action, which need not be legal; return the changes as text."""
        try:
            self._seen = self._agent.step(action)
        except Exception as error:
            if self._recorded is not None and not isinstance(error, NoEpisode):
                self._recorded.fail(str(error))
            raise
        self._record()
        return self.text

    def fail(self, detail: str) -> None:
        """If the episode is recorded, record an end as failed, without a score.

        Args:
            detail: The error, as text.
        """
        if self._recorded is not None:
            self._recorded.fail(detail)

    def close(self) -> None:
        """Release all resources. Safe to call twice."""
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
    rules = {name: rule for name, rule in schema.items() if name != "description"}
    parameters = {"type": "object", **rules}
    about = str(schema.get("description", name))
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
