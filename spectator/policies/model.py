"""A language model as a policy, for any world.

Its snapshot is plain JSON: the part of the conversation that the next prompt contains, and the state of its
fallback. It is much smaller than the record, which has every prompt of every decision.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from spectator.clock import Clock
from spectator.errors import (
    EndpointError,
    EndpointOverflow,
    EndpointResting,
    EndpointUnavailable,
    FailureClass,
    PolicyError,
)
from spectator.llm.chat import ChatAnswer, ChatEndpoint, ChatRequest, DeltaKind, Message, OnDelta
from spectator.llm.constraint import FAILED_STATUS, REJECTED_STATUSES, Constraint, answer_schema, weaker
from spectator.llm.exchanges import answered, call_answered, call_failed, failed
from spectator.llm.schema import UnsupportedSchema
from spectator.llm.tool_calls import CallRejected, ParsedCall, WrittenCall, check_call
from spectator.observations import Observation
from spectator.policies.action_catalogue import strict_tools
from spectator.policies.dialogue import LinePrompts
from spectator.policies.model_settings import ModelSettings
from spectator.policies.policy import THOUGHT_LIMIT, Decision, Restorable, ScriptedPolicy, Thought
from spectator.policies.prompts import EDITION, Briefing, call_text
from spectator.policies.recorded_endpoint import PATIENCE_S, RecordedEndpoint, at_once
from spectator.policies.request_spending import BudgetSpent, RequestSpending
from spectator.policies.short_prompts import stepped_actions
from spectator.policies.spending import SpendLimit, Spent
from spectator.policies.turns import (
    DecisionInProgress,
    Turn,
    read_calls,
    rejected,
    stated_reasoning,
    with_ids,
)
from spectator.text import clean_text

logger = logging.getLogger(__name__)

EditPrompt = Callable[[Sequence[Message], Observation, int], Awaitable[Sequence[Message]]]
"""Changes the conversation of a decision, given its observation and its number from 1."""

MARGIN_S: Final = 1.0
"""Part of a decision's deadline reserved for the fallback, seconds; at most a fifth of it."""

MIN_REQUEST_S: Final = 0.05
"""Shortest remaining time for a further request."""

MIN_REST_S: Final = 0.5
"""Shortest wait for a paused endpoint that another request is probing."""

NAME_LIMIT: Final = 120
"""Maximum characters of a model's name."""

SHORT_REFUSALS: Final = 4
"""Actions in a row that the world may reject before the fallback decides, for models with a short prompt.

Rejected tools are not offered again until an action is carried out."""

REASON_SHOWN: Final = 120
"""Characters of the fallback's reason in the next prompt."""

REASON_LIMIT: Final = 500
"""Maximum characters of the reason for a fallback."""


class ModelPolicy:
    """Asks a language model for decisions; if that fails, a scripted policy decides.

    After an invalid answer, the model gets the rule that it broke and another chance, ``retries`` times.

    Args:
        client: Client of the endpoint; closed by :meth:`aclose` if ``closes_client``.
        briefing: Description of the seat.
        fallback: Decides if the model gives no usable answer; its decisions are marked.
        seed: Sampling seed, if the endpoint accepts one.
        session: Name for endpoints that route by session.
        closes_client: Whether this policy is the client's only user.
        edit: Changes each conversation before it is sent and recorded, given the observation and the number
            of the decision; optional. It is not called while a record is replayed.
        retries: How often the model is asked again after an invalid answer, in a row.
    """

    def __init__(
        self,
        client: ChatEndpoint,
        settings: ModelSettings,
        briefing: Briefing,
        *,
        fallback: ScriptedPolicy,
        seed: int,
        clock: Clock,
        session: str | None = None,
        closes_client: bool = True,
        edit: EditPrompt | None = None,
        retries: int = 1,
    ) -> None:
        self._client: ChatEndpoint = client
        self._settings = settings
        self._briefing = briefing
        self._scripted = fallback
        self._fallback: ScriptedPolicy | RecordedEndpoint = fallback
        self._seed = seed
        self._clock = clock
        self._session = session
        self._closes_client = closes_client
        self._edit = edit
        self._retries = retries
        self._prompts = LinePrompts(settings, briefing)
        self._planned: list[WrittenCall] = []
        self._turn: Turn | None = None
        self._refused = 0
        self._decisions = 0
        self._constraint = self._strongest()
        self._avoided: list[str] = []
        self._listener: Callable[[Thought], None] | None = None
        self._spending = RequestSpending(settings, self._prompts)

    def stream_thoughts(self, listener: Callable[[Thought], None] | None) -> None:
        """See :class:`StreamsThoughts`."""
        self._listener = listener

    def spend_from(self, budget: SpendLimit) -> None:
        """See :class:`Spends`."""
        self._spending.budget = budget

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        """See :meth:`Policy.decide`. Cancelling closes the request at once."""
        self._decisions += 1
        self._note_outcome(observation)
        if self._planned and (planned := self._next_planned(observation)) is not None:
            return planned
        limit = min(deadline - min(MARGIN_S, deadline / 5), self._settings.timeout_s)
        asking = DecisionInProgress(observation, self._clock.monotonic(), limit, avoided=tuple(self._avoided))
        most = SHORT_REFUSALS if self._settings.prompt == "short" else self._retries
        if self._refused > most:
            reason = f"refused: {self._refused} actions in a row by the world's rules"
            return self._fall_back(asking, reason, "illegal_action")
        try:
            calls = await self._ask(asking)
        except BudgetSpent as error:
            return self._fall_back(asking, f"spent: {error}", "spent")
        except EndpointError as error:
            return self._fall_back(asking, f"{error.kind}: {error}", error.failure_class)
        except CallRejected as error:
            asking.parse = "failed"
            ignored = self._ignored(asking, error)
            return self._fall_back(asking, f"unusable: {error}{ignored}", error.failure_class)
        except UnsupportedSchema as error:
            asking.parse = "failed"
            return self._fall_back(asking, f"unusable: {error}", "env_infra")
        return self._decided(asking, calls)

    def remember(self, observation: Observation, decided: Mapping[str, Any]) -> RecordedEndpoint:
        """Replay a recorded decision; see :class:`Remembers`.

        If the record does not have the model's reply, the text in the event replaces it.

        Returns:
            The replayed decision, with whether its requests were those of the record.
        """
        recorded = RecordedEndpoint(decided, self._scripted)
        saved = self._client, self._spending.budget, self._fallback, self._listener, self._edit
        self._client = self._spending.budget = self._fallback = recorded
        self._listener = self._edit = None
        try:
            recorded.note(at_once(self.decide(observation, deadline=PATIENCE_S)))
        finally:
            self._client, self._spending.budget, self._fallback, self._listener, self._edit = saved
        if decided["source"] == "model" and not recorded.same_decisions:
            self._remember_text(observation, decided)
        return recorded

    def snapshot(self) -> dict[str, Any]:
        """See :class:`Restorable`.

        Raises:
            PolicyError: The state of the fallback cannot be saved, or an ``edit`` function changes the
                prompts. The policy must then be restored by replaying its record.
        """
        if self._edit is not None:
            raise PolicyError("prompts are changed by an edit function, whose state cannot be saved")
        turn = self._turn
        return {
            "prompts": self._prompts.snapshot(),
            "planned": [asdict(call) for call in self._planned],
            "turn": None if turn is None else turn.snapshot(),
            "is_last": turn is not None and turn is self._prompts.last,
            "refused": self._refused,
            "decisions": self._decisions,
            "constraint": self._constraint,
            "avoided": list(self._avoided),
            "fallback": self._restorable().snapshot(),
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """See :class:`Restorable`.

        Raises:
            PolicyError: The state of the fallback cannot be restored.
        """
        scripted = self._restorable()
        self._prompts = self._spending.prompts = LinePrompts(self._settings, self._briefing)
        self._prompts.restore(snapshot["prompts"])
        scripted.restore(snapshot["fallback"])
        own = None if snapshot["turn"] is None else Turn.of_snapshot(snapshot["turn"])
        self._turn = self._prompts.last if snapshot["is_last"] else own  # shared: it shows its outcomes
        self._planned = [WrittenCall(**call) for call in snapshot["planned"]]
        self._refused, self._decisions = snapshot["refused"], snapshot["decisions"]
        self._constraint, self._avoided = snapshot["constraint"], list(snapshot["avoided"])

    def _restorable(self) -> Restorable:
        if not isinstance(self._scripted, Restorable):
            raise PolicyError("the state of the fallback policy cannot be saved")
        return self._scripted

    def _remember_text(self, observation: Observation, decided: Mapping[str, Any]) -> None:
        """Add a decision of which only the text and the action are known."""
        self._turn = self._prompts.recall(observation, decided["raw_text"] or "", decided["action"])
        self._planned.clear()
        self._prompts.note = ""

    async def aclose(self) -> None:
        """Close the client, unless it is shared."""
        if self._closes_client:
            await self._client.aclose()

    def _note_outcome(self, observation: Observation) -> None:
        """Record whether the world rejected the last action."""
        refused = observation.refused
        self._refused = 0 if refused is None else self._refused + 1
        if refused is None:
            self._avoided.clear()
        else:
            self._planned.clear()
            if self._turn is not None and self._turn.made:
                self._avoided.append(self._turn.made[0].tool)
        if self._turn is not None and self._turn.outcomes and refused is not None:
            self._turn.outcomes[-1] = f"refused: {refused.message}"

    def _next_planned(self, observation: Observation) -> Decision | None:
        try:
            call = check_call(self._planned.pop(0), self._briefing.legal(observation))
        except (CallRejected, UnsupportedSchema):
            self._planned.clear()
            return None
        if self._turn is not None:
            self._turn.outcomes.append("carried out")
        reasoning = call.reason or "Planned in the answer before."
        action = self._briefing.as_action(call.tool, call.arguments)
        return Decision(
            action,
            "model",
            reasoning,
            parse="ok",
            model=self._settings.model,
            prompt=EDITION,
            constraint=None if self._constraint == "none" else self._constraint,
        )

    async def _ask(self, asking: DecisionInProgress) -> list[ParsedCall]:
        """Ask the model, twice if needed; return its calls, the first one checked."""
        legal = self._briefing.legal(asking.observation)
        in_text, most = self._briefing.text_field, self._settings.actions_per_answer
        messages: Sequence[Message] = self._prompts.messages(asking)
        if self._edit is not None:
            messages = await self._edit(messages, asking.observation, self._decisions)
        failed_by: CallRejected | None = None
        for retries in range(self._retries, -1, -1):
            try:
                answer = await self._complete(asking, messages)
            except BudgetSpent:
                if failed_by is None:
                    raise
                raise failed_by from None
            try:
                calls = read_calls(answer, legal, in_text, most)
            except CallRejected as broken:
                if not retries or asking.left(self._clock) < MIN_REQUEST_S:
                    raise
                messages = [*messages, *rejected(answer, str(broken), self._prompts.form)]
                failed_by = broken
            else:
                asking.parse = "ok" if retries == self._retries else "repaired"
                return calls
        raise AssertionError("the last answer is taken or rejected")

    def _strongest(self) -> Constraint:
        """Return the constraint to try first; free text and given conversations have none."""
        briefing = self._briefing
        unconstrained = briefing.text_field is not None or briefing.conversation is not None
        return "none" if unconstrained else self._settings.strongest

    def _request(
        self, asking: DecisionInProgress, messages: Sequence[Message], constraint: Constraint
    ) -> ChatRequest:
        settings, schema, tools = self._settings, None, asking.tools
        legal = stepped_actions(asking.legal) if settings.prompt == "short" else asking.legal
        if constraint == "json_schema":
            schema = answer_schema(legal, settings.subset, settings.actions_per_answer)
        elif constraint == "tools":
            tools = strict_tools(legal, settings.subset)
        return ChatRequest(
            model=settings.model,
            messages=messages,
            tools=tools,
            tool_choice=settings.tool_choice,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            max_tokens_field=settings.max_tokens_field,
            seed=(self._seed + self._decisions) % 2**31 if settings.send_seed else None,
            logprobs=settings.tokens,
            token_ids=settings.tokens,
            stream=settings.stream,
            constraint=constraint,
            schema=schema,
            extra=settings.extra,
        )

    async def _complete(self, asking: DecisionInProgress, messages: Sequence[Message]) -> ChatAnswer:
        """Return an answer; if the endpoint rejects the constraint, ask with the next weaker one."""
        constraint = self._constraint
        while True:
            request = self._request(asking, messages, constraint)
            asking.constraint = None if constraint == "none" else constraint
            try:
                answer = await self._complete_once(asking, request)
            except EndpointError as error:
                if constraint == "none" or not self._rejects_constraint(error):
                    raise
                if self._settings.constraint != "auto":
                    rule = f"with constraint = {constraint}; set constraint to auto or none"
                    raise type(error)(f"{error}, {rule}", status=error.status, detail=error.detail) from error
                constraint = weaker(constraint, self._settings.subset)
                if asking.left(self._clock) < MIN_REQUEST_S:
                    raise
                logger.warning(
                    "the endpoint of %s rejected constraint = %s; asking with %s: %s",
                    self._settings.model, asking.constraint, constraint, error.detail or error,
                )  # fmt: skip
            else:
                self._constraint = constraint
                return answer

    def _rejects_constraint(self, error: EndpointError) -> bool:
        """Whether the endpoint may have rejected the form of asking, as opposed to the prompt's length.

        Some servers answer a schema that they cannot read with :data:`FAILED_STATUS`, which otherwise
        means a failure; so it counts in the first decision only.
        """
        if error.status == FAILED_STATUS:
            return self._settings.constraint == "auto" and self._decisions == 1
        return error.status in REJECTED_STATUSES and not isinstance(error, EndpointOverflow)

    def _ignored(self, asking: DecisionInProgress, error: CallRejected) -> str:
        """Return a remark if the endpoint answered against the constraint that it had accepted."""
        if asking.constraint not in ("json_schema", "tools") or error.failure_class != "unparsable":
            return ""
        return f" (the endpoint accepted constraint = {asking.constraint} but ignored it)"

    async def _complete_once(self, asking: DecisionInProgress, request: ChatRequest) -> ChatAnswer:
        settings = self._settings
        most = await self._spending.hold(asking.left(self._clock))
        began = self._clock.monotonic()
        try:
            answer = await self._answered(asking, request, self._delta_listener(asking, most))
        except EndpointResting:
            raise
        except (EndpointError, asyncio.CancelledError) as error:
            if asking.written:
                self._spending.lose(asking)
            if isinstance(error, EndpointError):
                asking.calls.append(call_failed(request, settings.recorded))
                asking.exchanges.append(failed(asking.calls[-1], error))
            raise
        finally:
            self._spending.release(most, self._clock.monotonic() - began)
        asking.calls.append(call_answered(request, answer, settings.recorded))
        asking.exchanges.append(answered(asking.calls[-1]))
        self._spending.count(asking, answer)
        if answer.usage is not None and not asking.answers:
            self._prompts.estimate.learn(self._prompts.characters, answer.usage.tokens_in)
        if not settings.send_back:
            answer = replace(
                answer, verbatim={}, tool_calls=[replace(c, verbatim={}) for c in answer.tool_calls]
            )
        asking.answers.append(answer)
        return answer

    async def _answered(
        self, asking: DecisionInProgress, request: ChatRequest, on_delta: OnDelta | None
    ) -> ChatAnswer:
        """Return the answer; if the settings say so, wait for a paused endpoint."""
        while True:
            try:
                return await self._client.complete(
                    request, deadline=asking.left(self._clock), session=self._session, on_delta=on_delta
                )
            except EndpointResting as error:
                if not self._settings.waits_for_rest or error.status is not None:
                    raise
                wait = max(MIN_REST_S, error.retry_after_s or 0.0)
                if wait + MIN_REQUEST_S >= asking.left(self._clock):
                    raise
            await self._clock.sleep(wait)

    def _delta_listener(self, asking: DecisionInProgress, most: Spent) -> OnDelta:
        actor, decision = asking.observation.actor or "", self._decisions
        listener = self._listener if self._settings.stream else None
        asking.written = 0
        if asking.answers and listener is not None:
            listener(Thought(actor, decision, "restart", ""))

        def hear(kind: DeltaKind, text: str) -> None:
            if kind == "lost":
                return self._spending.lose(asking, text)
            if kind == "restart":
                if asking.written:
                    self._spending.lose(asking)
                if self._spending.overdrawn(most):
                    raise EndpointUnavailable("the endpoint failed, and the cap covers no further request")
            asking.written += len(text)
            if listener is not None:
                listener(Thought(actor, decision, kind, clean_text(text, THOUGHT_LIMIT)))

        return hear

    def _decided(self, asking: DecisionInProgress, calls: Sequence[ParsedCall]) -> Decision:
        first, answer = calls[0], asking.answers[-1]
        self._planned.clear()
        for call in calls[1:]:
            self._planned.append(WrittenCall(call.tool, call.arguments, call.reason, call.id))
        self._turn = Turn(
            text=answer.text,
            calls=with_ids(calls) if answer.tool_calls else (),
            verbatim=answer.verbatim,
            outcomes=["carried out"],
            made=calls,
        )
        self._prompts.add(self._turn)
        self._prompts.note = ""
        return asking.decision(
            self._clock,
            self._briefing.as_action(first.tool, first.arguments),
            "model",
            stated_reasoning(first, answer) if self._briefing.text_field is None else answer.thought,
            model=clean_text(answer.model or self._settings.model, NAME_LIMIT),
        )

    def _in_form(self, observation: Observation, own: Decision) -> str:
        """Return the fallback's action in the form that the model is asked for."""
        tool, arguments = own.action.get("tool"), own.action.get("arguments")
        if (field := self._briefing.text_field) is not None:
            return str((arguments if isinstance(arguments, Mapping) else own.action).get(field, ""))
        if not isinstance(tool, str) or not isinstance(arguments, Mapping):
            tool, arguments = self._briefing.legal(observation)[0]["tool"], own.action
        settings, reason = self._settings, own.reasoning[:REASON_SHOWN]
        return call_text(settings.style, tool, arguments, reason, listed=settings.listed)

    def _fall_back(self, asking: DecisionInProgress, reason: str, failure_class: FailureClass) -> Decision:
        """Return the fallback's decision, with the reason (the recorded one in a replay)."""
        self._planned.clear()
        self._turn = None
        self._refused = 0
        own = self._fallback.choose(asking.observation)
        reason = own.fallback_reason or clean_text(reason, REASON_LIMIT)
        done = self._in_form(asking.observation, own)
        self._prompts.note = f"Your last turn could not be used ({reason}). Done in your place: {done}"
        if asking.parse == "ok":
            asking.parse = None
        return asking.decision(
            self._clock,
            own.action,
            "fallback",
            own.reasoning,
            model=self._settings.model,
            fallback_reason=reason,
            failure_class=own.failure_class or failure_class,
        )
