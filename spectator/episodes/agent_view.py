"""What an agent is shown of an episode: every observation whole, what changed since the last, or as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from spectator.merge_patch import make_patch
from spectator.observations import Observation
from spectator.policies.action_catalogue import ActionCatalogue
from spectator.policies.prompting import Briefing
from spectator.policies.situation_lines import (
    READING,
    SituationLines,
    all_lines,
    changed_lines,
    refusal_in_words,
)

Observe = Literal["full", "delta", "text"]
"""How observations are shown.

``full``: every one whole. ``delta``: the first whole, each later one as a merge patch (RFC 7396) of the one
before. ``text``: the world's own rendering, whole at first, then the lines that changed.
"""

OBSERVE: Final[tuple[Observe, ...]] = get_args(Observe)
"""Every way to show observations, the default first."""


class AgentView:
    """Shows the observations of one episode to its agent, one after the other.

    Args:
        briefing: What is known of the agent's seat.
        observe: How they are shown.

    >>> from spectator.catalog import load_world
    >>> from spectator.observations import Observation
    >>> view = AgentView(load_world("counting").briefing, "delta")
    >>> first = view.shown(Observation("counter", (), {"turn": 0, "turns": 2, "next": 1}))
    >>> view.shown(Observation("counter", (), {"turn": 1, "turns": 2, "next": 2}))
    {'changed': {'turn': 1, 'next': 2}}
    """

    def __init__(self, briefing: Briefing, observe: Observe = "full") -> None:
        self._briefing = briefing
        self.observe = observe
        """How they are shown."""
        self._before: dict[str, Any] | None = None
        self._opening: str | None = None
        self._tools: dict[str, Mapping[str, Any]] = {}
        self._telling = SituationLines(briefing)
        self._told: dict[str, str] = {}
        self._catalogue: ActionCatalogue | None = None

    def shown(self, observation: Observation) -> dict[str, Any]:
        """The next observation as the agent sees it, reward, end and metadata beside it left out.

        Returns:
            ``full``: the observation's own members. ``delta``: ``{"whole": members}`` at first, then
            ``{"changed": patch}``. The members are the named lines of the world's rendering where it has
            some, with ``opening`` for what never changes, and else those of the observation, without those
            that are null; beside them ``legal`` names what is legal, ``tools`` holds the JSON schema of
            every tool that was legal so far, as it was last, and ``refused`` why the last action was
            refused. ``text``: ``{"text": text}``.
        """
        match self.observe:
            case "full":
                return observation.to_json()
            case "delta":
                return self._delta(observation)
            case "text":
                return {"text": self._text(observation)}

    def _delta(self, observation: Observation) -> dict[str, Any]:
        legal, refused = observation.legal_actions, observation.refused
        self._tools = {**self._tools, **{one["tool"]: one["arguments"] for one in legal}}
        now = self._members(observation)
        if refused is not None:
            now["refused"] = refused.to_json()
        if self._tools:
            now |= {"legal": [one["tool"] for one in legal], "tools": _without_null(self._tools)}
        before, self._before = self._before, now
        return {"whole": now} if before is None else {"changed": make_patch(before, now)}

    def _members(self, observation: Observation) -> dict[str, Any]:
        """What is told as members: the world's own lines, or else the observation's, null ones left out."""
        rendering = self._briefing.rendering
        if rendering.lines is None:
            members: dict[str, Any] = _without_null({"actor": observation.actor, **observation.content})
            return members
        if self._opening is None:
            self._opening = "" if rendering.opening is None else rendering.opening(observation)
        lines = {"opening": self._opening, **rendering.lines(observation)}
        return {name: text for name, text in lines.items() if text and name not in rendering.in_full}

    def _text(self, observation: Observation) -> str:
        rendering = self._briefing.rendering
        legal = () if self._briefing.text_field is not None else self._briefing.legal(observation)
        lines = self._telling.lines(observation)
        refused = refusal_in_words(observation)
        if self._catalogue is not None:
            new = self._catalogue.learn(legal)
            lines |= {**new, **self._catalogue.lines(legal)}
            parts = [refused, changed_lines(self._told, lines, rendering.in_full)]
        else:
            known = () if rendering.actions is None else rendering.actions(observation)
            self._catalogue = ActionCatalogue(known or legal)
            self._catalogue.learn(legal)
            lines |= self._catalogue.lines(legal) if legal else {}
            parts = [*self._beginning(observation, self._catalogue.listed), refused, all_lines(lines)]
        self._told |= lines
        return "\n\n".join(part for part in parts if part)

    def _beginning(self, observation: Observation, listed: str) -> list[str]:
        """What stands before the first situation."""
        briefing = self._briefing
        opening = briefing.rendering.opening
        return [
            f"You decide for {observation.actor or ''!r}. {briefing.task}",
            briefing.rendering.guide,
            READING,
            f"Actions, each with the JSON schema of its arguments:\n{listed}" if listed else "",
            opening(observation) if opening is not None else "",
        ]


def _without_null(value: Any) -> Any:
    """``value`` without the members of objects that are null; a merge patch takes null for removal."""
    if isinstance(value, Mapping):
        return {name: _without_null(member) for name, member in value.items() if member is not None}
    return value


def brief_of(briefing: Briefing) -> dict[str, str]:
    """What an agent is told once: its ``task``, and the ``legend`` of what it is shown."""
    return {"task": briefing.task, "legend": briefing.rendering.guide}
