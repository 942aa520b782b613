"""The action that an answer in text means."""

from __future__ import annotations

from spectator.llm.chat import ChatAnswer
from spectator.llm.parsing import check_call, find_calls
from spectator.observations import Observation
from spectator.policies.base import Action
from spectator.policies.decision_in_progress import free_text, no_call
from spectator.policies.prompting import Briefing


def action_in(said: str, briefing: Briefing, observation: Observation) -> Action:
    """The last legal action that ``said`` names: as a tool call in JSON or in marks, or the text itself.

    Args:
        said: The whole answer.
        briefing: What is known of the seat.
        observation: What it was asked about.

    Raises:
        CallRefused: It names none.

    >>> from spectator.observations import LegalAction
    >>> legal = LegalAction(tool="hit", arguments={"type": "object", "properties": {}})
    >>> seen = Observation("home", [legal], {})
    >>> action_in('I go: {"tool": "hit", "arguments": {}}', Briefing("Hit it."), seen)
    {'tool': 'hit', 'arguments': {}}
    """
    legal, answer = briefing.legal(observation), ChatAnswer(text=said)
    if briefing.text_field is not None:
        written = [free_text(answer, legal[0]["tool"], briefing.text_field)]
    else:
        written = find_calls(answer, legal)
    if not written:
        raise no_call(answer)
    call = check_call(written[-1], legal)
    return briefing.as_action(call.tool, call.arguments)
