"""The formats that can be imported, each as a declaration. `docs/import.md` lists them from here.

To add one, add a declaration, and rows of it to `tests/importing/generated.py`.
"""

from __future__ import annotations

from typing import Final

from spectator.importing.declaration import DeclaredFormat

_OPENAI_USAGE: Final = {
    "turn.model": "model", "turn.tokens_in": "usage.prompt_tokens || usage.input_tokens || usage.input",
    "turn.tokens_out": "usage.completion_tokens || usage.output_tokens || usage.output",
}  # fmt: skip

_CHAT: Final = {
    "environment": "environment || env_name || env_id || task || source",
    "agent": "model || model_name || metadata.model",
    "id": "id || uuid || conversation_id || session_id",
    "group": "text('{}', group_id || prompt_id || task_id || instance_id || example_id)",
    "reward": "not_null(reward, score, reward_score, metadata.reward, info.reward)",
    "rubric": "metrics || scores || rewards",
    "error": "error",
    "tools": "json(tools) || functions",
    "began": "timestamp || created_at || created",
    **_OPENAI_USAGE,
}  # fmt: skip

_TRACE: Final = {
    "id": "{0}id && ['trace', {0}id]",
    "environment": "env.name || env.id || {0}task.type || 'verifiers'",
    "agent": "{0}agent.config.model",
    "messages": "attached({0}nodes, {0}calls)",
    "message": "message",
    "parent": "parent",
    "own": "sampled",
    "group": "group.id || {0}task.key || {0}task.hash",
    "seed": "{0}task.data.seed",
    "reward": "weighted({0}rewards)",
    "rubric": "parts({0}rewards)",
    "error": "unless({0}ok != `false`, {0}errors || errors || 'it did not complete')",
    "cut": "contains(['max_turns', 'max_input_tokens', 'max_output_tokens', 'max_total_tokens', "
    "'compaction_failed'], {0}stop_condition || '') && {0}stop_condition",
    "ended": "{0}is_completed",
    "result": "{0}stop_condition",
    "began": "{0}nodes[].timestamp | [0] || {0}timing.start",
    "tools": "{0}tools || {0}nodes[0].tools",
    "turn.model": "call.model",
    "turn.finish": "call.finish_reason",
    "turn.tokens_in": "plus(call.usage.prompt_tokens, call.usage.cached_input_tokens)",
    "turn.tokens_out": "call.usage.completion_tokens",
    "turn.at": "timestamp",
    "turn.latency": "span(call.time)",
    "turn.token_ids": "token_ids",
    "turn.mask": "mask",
    "turn.logprobs": "logprobs",
}  # fmt: skip
"""Traces of verifiers; ``{0}`` is where one is."""


def _trace(place: str) -> dict[str, str]:
    return {name: one.replace("{0}", place) for name, one in _TRACE.items()}


_RESULT: Final = {
    "environment": "env_id || beside.env_id || task", "agent": "model || beside.model",
    "group": "text('example-{}', not_null(example_id, id))", "group_prompt": "prompt", "reward": "reward",
    "rubric": "metrics", "error": "error", "ended": "is_completed", "result": "stop_condition",
    "cut": "is_truncated == `true` && (stop_condition || 'a limit')", "began": "timing.start_time",
    "tools": "tool_defs", "order": "order(not_null(example_id, id), `4294967296`, `1`)",
    "only.tokens_in": "token_usage.input_tokens", "only.tokens_out": "token_usage.output_tokens",
}  # fmt: skip
"""Rows of verifiers' results."""

_NEMO: Final = {
    "unique": "_ng_rollout_index", "environment": "response.env_id || agent_ref.name || 'nemo-gym'",
    "agent": "response.model || responses_create_params.model", "join": "`1`", "reward": "reward",
    "group": "text('task-{}', not_null(_ng_task_index, response.group_id))",
    "group_prompt": "responses_create_params.input", "rubric": "response.metrics", "error": "response.error",
    "cut": "response.incomplete_details.reason", "began": "response.created_at",
    "tools": "responses_create_params.tools", "order": "order(_ng_task_index, `4294967296`, `1`)",
    "turn.token_ids": "generation_token_ids", "turn.prompt_token_ids": "prompt_token_ids",
    "turn.logprobs": "generation_log_probs",
}  # fmt: skip

_LANGFUSE: Final = {
    "asked": "model_prompt(json(input))", "reply": "json(output)", "turn.model": "model",
    "turn.began": "startTime", "turn.at": "endTime",
    "turn.tokens_in": "usageDetails.input || usage.input || usage.promptTokens",
    "turn.tokens_out": "usageDetails.output || usage.output || usage.completionTokens",
}  # fmt: skip


FORMATS: Final[tuple[DeclaredFormat, ...]] = (
    DeclaredFormat(
        name="ndjson", files="events that `spectator export` writes", entry="what it was",
        match=("v episode_id epoch seq type data",),
    ),
    DeclaredFormat(
        name="claude-code", files="session files of Claude Code, `~/.claude/projects/*/*.jsonl`",
        entry="a session, or one of its agents",
        match=("sessionId uuid type message", "type=summary leafUuid", "type=file-history-snapshot snapshot"),
        key="sessionId && [sessionId, agentId || '']", sort="timestamp || ''", row_id="uuid",
        aside="unless(message.role, type)",
        reads={
            "id": "[first.sessionId, first.agentId || '']", "message": "message",
            "join": "message.id || requestId", "environment": "'claude-code'",
            "title": "rows[?type=='user' && type(message.content)=='string'].message.content | [0]",
            "agent": "rows[?message.model].message.model | [0]",
            "result": "'the session as it was saved'", "turn.model": "message.model",
            "turn.finish": "message.stop_reason", "turn.at": "timestamp",
            "turn.tokens_in": "plus(plus(message.usage.input_tokens, message.usage.cache_read_input_tokens), "
            "message.usage.cache_creation_input_tokens)",
            "turn.tokens_out": "message.usage.output_tokens",
        },
    ),
    DeclaredFormat(
        name="codex", files="session files of Codex, `~/.codex/sessions/**/rollout-*.jsonl`",
        entry="a `session_meta` line with the lines after it",
        match=("type=session_meta payload", "type=response_item payload", "type=turn_context payload"),
        begins="type == 'session_meta'",
        aside="unless(type == 'response_item' && payload.type != 'ghost_snapshot', "
        "contains(['session_meta', 'turn_context'], type) && 'head' || payload.type || type)",
        reads={
            "id": "first.payload.id", "message": "payload", "join": "payload && `1`",
            "environment": "'codex'", "agent": "rows[?type=='turn_context'].payload.model | [0]",
            "title": "rows[?payload.type=='user_message'].payload.message | [0]",
            "began": "first.payload.timestamp || first.timestamp",
            "result": "'the session as it was saved'", "turn.at": "timestamp",
        },
    ),
    DeclaredFormat(
        name="hf-traces", files="session traces of the Hugging Face Hub, and of Pi",
        entry="a `session` line with its `message` lines",
        match=("type=session harness|cwd", "type=message message.role"), begins="type == 'session'",
        aside="unless(type == 'message', type == 'session' && 'head' || type || 'other')",
        reads={
            "id": "first.id && [first.environment || first.harness || 'hf-traces', "
            "first.harness || 'hf-traces', first.id]",
            "message": "message", "environment": "first.environment || first.harness || 'hf-traces'",
            "title": "first.name || first.harness || 'hf-traces'",
            "agent": "first.model || (rows[?message.role=='assistant'].message.model | [0]) || first.harness "
            "|| 'hf-traces'",
            "group": "first.groupId", "seed": "first.seed", "reward": "first.reward",
            "error": "unless(!(first.reason) || first.reason == 'finished' || "
            "first.failureClass == 'truncated', join(': ', [first.reason || '', first.failureClass || '']))",
            "cut": "first.failureClass == 'truncated' && first.reason",
            "result": "unless(first.reward != `null`, 'the session as it was saved')",
            "began": "first.timestamp", "turn.reward": "reward", "turn.at": "timestamp || message.timestamp",
            "turn.model": "message.model", "turn.tokens_in": "message.usage.input",
            "turn.tokens_out": "message.usage.output",
        },
    ),
    DeclaredFormat(
        name="nemo-gym", match=("responses_create_params response",), label="response.output", entry="a line",
        condition="type(response.output[0]) == 'array'", reads={**_NEMO, "turns": "response.output"},
    ),
    DeclaredFormat(
        name="nemo-gym", files="rollouts that NeMo Gym collects, JSON Lines", entry="a line",
        match=("responses_create_params response",), label="response.output",
        reads={
            **_NEMO, "prompt": "prompt_of(responses_create_params)", "messages": "response.output",
            "only.tokens_in": "response.usage.input_tokens",
            "only.tokens_out": "response.usage.output_tokens",
        },
    ),
    DeclaredFormat(
        name="messages", files="model calls that `spectator export --format messages` writes",
        entry="the calls of an episode", match=("episode_id seq call messages reply",),
        key="episode_id", sort="[seq, call]", aside="unless(reply && decided, 'calls that decided nothing')",
        reads={
            "id": "first.episode_id", "environment": "first.environment", "group": "first.group_id",
            "asked": "messages",
            "reply": "completion[0] || {role: 'assistant', content: reply.content || ''}",
            "reward": "last.episode_reward", "ended": "last.episode_reason != `null`",
            "error": "unless(!(last.episode_failure) || last.episode_failure == 'truncated', "
            "join(': ', [last.episode_reason || '', last.episode_failure || '']))",
            "cut": "last.episode_failure == 'truncated' && last.episode_reason", "tools": "first.tools",
            "turn.reward": "reward", "turn.model": "reply.model", "turn.finish": "reply.finish_reason",
            "turn.tokens_in": "reply.usage.tokens_in", "turn.tokens_out": "reply.usage.tokens_out",
            "turn.latency": "measured.latency_s", "turn.prompt_token_ids": "prompt_token_ids",
            "turn.token_ids": "token_ids", "turn.logprobs": "logprobs",
        },
    ),
    DeclaredFormat(
        name="groups", files="groups that `spectator export --format groups` writes",
        entry="a member of a group", match=("group_id completions rewards prompt",),
        each="zip([completions, rewards, episode_ids, truncated])",
        reads={
            "id": "it[2]", "content": "[[environment, group_id, seed, prompt], it[0], it[1]]",
            "environment": "environment", "group": "group_id", "prompt": "prompt", "messages": "it[0]",
            "seed": "seed", "reward": "it[1]", "cut": "it[3] && 'truncated'", "tools": "tools",
        },
    ),
    DeclaredFormat(
        name="episode-record", files="`EpisodeRecord` of OpenEnv, and our export of it",
        match=("episode_id messages tool_trace reward",), entry="a line",
        reads={
            "id": "episode_id", "messages": "messages",
            "environment": "task.environment || task.name || 'openenv'", "agent": "extra.model",
            "group": "extra.group_id", "seed": "task.seed", "reward": "reward", "rubric": "verify_metrics",
            "cut": "metrics.truncated == `true` && 'truncated'",
        },
    ),
    DeclaredFormat(
        name="collector", files="what `save_episodes_jsonl` writes, and the files of its predecessor",
        match=("format=spectator.collector", "seed steps total_reward"), entry="a line",
        version=("version", (1,)), label="steps",
        reads={
            "id": "episode_id", "environment": "environment || 'collector'", "agent": "model",
            "turns": "grown(steps)", "asked": "asked", "goes_on": "goes_on", "reply": "answer",
            "seed": "seed", "reward": "total_reward",
            "rubric": "{terminal_reward: terminal_reward, discovered: discovered, correct_mass: "
            "correct_mass, correct_channel: correct_channel, correct_spin: correct_spin}",
            "cut": "(truncated == `null` && steps[-1].done == `false` || truncated == `true`) && "
            "(end_reason || 'step_cap')",
            "error": "unless(total_reward != `null` || !end_reason || truncated == `true`, "
            "failure_class && join(': ', [end_reason, failure_class]) || end_reason)",
            "began": "started_at",
            "notes": "[replaced(steps), truth && 'the hidden truth in its file is not imported' || '']",
            "turn.reward": "unless(parsed_ok == `false` || !contains([`null`, 'model'], source), reward)",
            "turn.token_ids": "token_ids", "turn.logprobs": "logprobs", "turn.tokens_in": "tokens_in",
            "turn.tokens_out": "tokens_out", "turn.latency": "latency_s",
        },
    ),
    DeclaredFormat(
        name="steps", entry="the lines of a session",
        files="rows of pooled rollout systems with `session_id`, `step_id`, `messages`, `response`",
        match=("session_id step_id messages response",), key="session_id && [env_name || '', session_id]",
        sort="step_id", lacking="a step needs a session_id and a step_id of at least 0",
        reads={
            "id": "[first.env_name || '', first.session_id]",
            "environment": "first.env_name", "agent": "first.llm_model", "group": "first.group_id",
            "asked": "decoded(messages)", "reply": "decoded(response)",
            "reward": "total(rows[].step_reward)",
            "cut": "!flag(last, 'is_terminal terminated') && flag(last, 'is_truncated truncated') && "
            "'truncated'",
            "ended": "flag(last, 'is_terminal terminated is_truncated truncated is_session_completed')",
            "began": "first.created_at", "turn.reward": "step_reward", "turn.model": "llm_model",
            "turn.version": "json(env_state).weight_version", "turn.at": "created_at",
        },
    ),
    *(
        DeclaredFormat(
            name=name, named="verifiers", files=files, entry="a trace", each=each, beside="metadata.json",
            match=match, condition=condition, version=("version", (1,)), reads=_trace(place), label="nodes",
        )
        for name, files in (
            ("verifiers", "`traces.jsonl`, `results.jsonl` of earlier releases"),
            ("prime-rl", "`rollouts/step_*/**/traces.jsonl`, which verifiers writes"),
        )
        for each, place, match, condition in (
            ("traces", "it.", ("traces task",), "traces != `[]`"), ("", "", ("nodes task",), "!traces"),
        )
    ),
    DeclaredFormat(
        name="verifiers", match=("traces task",), condition="traces == `[]`", entry="a trace",
        reads={
            "id": "['episode', id || '', task]",
            "environment": "env.name || env.id || task.type || 'verifiers'",
            "group": "group.id || task.key || task.hash", "error": "errors || 'no agent started'",
        },
    ),
    DeclaredFormat(
        name="verifiers", match=("example_id trajectory", "id generation_ms trajectory"), label="trajectory",
        condition="trajectory[0]", beside="metadata.json",
        reads={
            **_RESULT, "turns": "trajectory", "asked": "prompt", "reply": "completion",
            "turn.reward": "reward",
            "turn.prompt_token_ids": "tokens.prompt_ids", "turn.token_ids": "tokens.completion_ids",
            "turn.logprobs": "tokens.completion_logprobs",
        },
    ),
    DeclaredFormat(
        name="verifiers", beside="metadata.json", label="completion",
        match=("example_id completion", "id generation_ms completion", "example_id trajectory"),
        reads={**_RESULT, "prompt": "prompt", "messages": "completion"},
    ),
    DeclaredFormat(
        name="trl", files="`completions_*.parquet` of `log_completions`, or JSON Lines of its columns",
        match=("step prompt completion",), condition="type(step) == 'number' && step >= `0`",
        label="completion",
        not_rewards=frozenset(
            ("step", "prompt", "completion", "advantage", "reward", "mode", "completion_ids", "prompt_ids",
             "logprobs", "image", "images", "tools", "num_turns")
        ),
        reads={
            "environment": "'trl'", "agent": "text('policy at step {}', step)", "title": "'TRL completions'",
            "prompt": "prompt", "messages": "completion", "group": "text('step-{}', step)",
            "group_prompt": "prompt", "reward": "reward",
            "result": "advantage != `null` && text('advantage {}, as computed by TRL', signed(advantage))",
            "order": "order(step, `16777216`, `1048576`)", "only.token_ids": "completion_ids",
            "only.prompt_token_ids": "prompt_ids", "only.logprobs": "logprobs",
        },
    ),
    DeclaredFormat(
        name="inspect", files="logs of inspect_ai, `.eval` and `.json` (versions 2 and 3)",
        entry="a sample in one epoch", match=("eval.task samples", "eval.task status", "eval.task version"),
        version=("version", (2, 3)), each="samples", label="messages",
        unread=("events", "store", "timelines", "events_data"),
        archive=(("header.json", "_journal/start.json"), "samples/"),
        reads={
            "id": "[it.uuid || (eval.run_id || eval.eval_id) && [eval.run_id || '', eval.eval_id || ''] || "
            "`null`, "
            "needed(it, 'id'), it.epoch || `1`]",
            "content": "[eval.task, it.id, it.epoch, it.messages, it.scores]",
            "messages": "resolved(needed(it, 'messages'), it.attachments)",
            "environment": "last_part(eval.task) || 'inspect'",
            "title": "eval.task_display_name || eval.task", "agent": "it.output.model || eval.model",
            "group": "text('sample-{}', it.id)", "group_prompt": "it.input", "group_within": "eval.task",
            "seed": "it.metadata.seed",
            "reward": "values(scores(it.scores, eval.scorers)) | [0]",
            "rubric": "scores(it.scores, eval.scorers)", "invalid": "it.invalidation", "error": "it.error",
            "cut": "it.limit && text('the limit of {}', it.limit.type || 'its log')",
            "result": "values(it.scores || `{}`)[0] | answer || explanation",
            "began": "it.started_at || eval.created", "order": "it.epoch || `1`", "turn.model": "model",
            "turn.reward": "metadata.reward", "only.tokens_in": "it.output.usage.input_tokens",
            "only.tokens_out": "it.output.usage.output_tokens",
            "last.finish": "it.output.choices[0].stop_reason",
        },
    ),
    DeclaredFormat(
        name="lm-eval", files="`samples_*.jsonl` of lm-evaluation-harness (`--log_samples`)",
        entry="a row: a document and a filter", match=("doc_id doc target resps filtered_resps",),
        reads={
            "environment": "task_of(file, filter)", "prompt": "lm_prompt(arguments)",
            "messages": "lm_answer(resps, filtered_resps)", "group": "text('doc-{}', doc_id)",
            "group_prompt": "lm_prompt(arguments)", "rubric": "lm_metrics(@)",
            "reward": "values(lm_metrics(@)) | [0]", "order": "order(doc_id, `4294967296`, `1`)",
            "result": "text('target: {}', target)",
        },
    ),
    DeclaredFormat(
        name="tau-bench", files="result arrays of tau-bench, and its historical trajectories", entry="a row",
        match=("task_id reward traj",), label="traj",
        reads={
            "environment": "'tau-bench'", "messages": "traj", "group": "text('task-{}', task_id)",
            "group_prompt": "[traj[0], info.task.instruction]", "reward": "reward", "error": "info.error",
            "order": "order(task_id, `4294967296`, `1`)",
        },
    ),
    DeclaredFormat(
        name="tau2-bench", files="simulations of tau2-bench", entry="a simulation",
        match=("simulations tasks|info",), each="simulations", label="messages",
        reads={
            "id": "it.id", "environment": "info.environment_info.domain_name || 'tau2-bench'",
            "agent": "info.agent_info.llm", "messages": "it.messages",
            "group": "text('task-{}', it.task_id)", "seed": "it.seed", "reward": "it.reward_info.reward",
            "rubric": "it.reward_info.reward_breakdown", "began": "it.start_time",
            "cut": "contains(it.termination_reason || '', 'max_') && it.termination_reason",
            "error": "contains(it.termination_reason || '', 'error') && it.termination_reason",
            "result": "it.termination_reason", "turn.at": "timestamp", **_OPENAI_USAGE,
        },
    ),
    DeclaredFormat(
        name="atif", files="ATIF, the trajectory format of Harbor",
        match=("schema_version session_id|agent steps",),
        entry="a file", beside="../result.json", label="steps",
        reads={
            "id": "[session_id || trajectory_id, trajectory_id || '']", "messages": "steps",
            "environment": "beside.source || beside.task_name || agent.name",
            "agent": "agent.model_name || agent.name", "title": "beside.task_name || agent.name",
            "group": "beside.task_name", "reward": "values(beside.verifier_result.rewards || `{}`) | [0]",
            "rubric": "beside.verifier_result.rewards", "error": "beside.exception_info.exception_message",
            "result": "notes", "tools": "agent.tool_definitions", "turn.model": "model_name",
            "turn.at": "timestamp", "turn.tokens_in": "metrics.prompt_tokens",
            "turn.tokens_out": "metrics.completion_tokens", "turn.token_ids": "metrics.completion_token_ids",
            "turn.prompt_token_ids": "metrics.prompt_token_ids", "turn.logprobs": "metrics.logprobs",
        },
    ),
    DeclaredFormat(
        name="swe-agent", files="`.traj` files of SWE-agent", entry="a file",
        match=("trajectory info", "history trajectory", "history info", "history.0.message_type"),
        label="history",
        reads={
            "environment": "'swe-agent'", "title": "file", "agent": "json(replay_config).agent.model.name",
            "messages": "history || (trajectory[].[{role: 'assistant', content: response}, "
            "{role: 'user', content: observation}][])",
            "own": "!is_demo", "group": "file", "cut": "starts_with(info.exit_status || '', 'exit_') && "
            "!contains(info.exit_status, 'error') && info.exit_status",
            "error": "contains(info.exit_status || '', 'error') && info.exit_status",
            "result": "info.exit_status", "only.tokens_in": "info.model_stats.tokens_sent",
            "only.tokens_out": "info.model_stats.tokens_received",
        },
    ),
    DeclaredFormat(
        name="mini-swe-agent", files="`.traj.json` files of mini-swe-agent", entry="a file",
        match=("messages trajectory_format", "messages info.exit_status"), label="messages",
        reads={
            "id": "instance_id && [instance_id, info.mini_version || '', info.config.model.model_name || '']",
            "content": "messages", "environment": "'mini-swe-agent'", "title": "instance_id || file",
            "agent": "info.config.model.model_name", "messages": "messages", "group": "instance_id",
            "cut": "contains(['LimitsExceeded', 'TimeExceeded'], info.exit_status || '') && info.exit_status",
            "error": "unless(!(info.exit_status) || contains(['Submitted', 'LimitsExceeded', "
            "'TimeExceeded'], info.exit_status), info.exit_status)",
            "result": "info.exit_status", "turn.model": "extra.response.model", "turn.at": "extra.timestamp",
            "turn.tokens_in": "extra.response.usage.prompt_tokens",
            "turn.tokens_out": "extra.response.usage.completion_tokens",
        },
    ),
    DeclaredFormat(
        name="langsmith", files="runs that LangSmith exports, JSON Lines or Parquet", entry="a trace",
        match=("run_type trace_id inputs", "run_type dotted_order inputs"),
        key="trace_id", sort="start_time || dotted_order", row_id="id",
        aside="unless(run_type == 'llm', run_type || 'other')",
        reads={
            "id": "first.trace_id", "environment": "first.session_name || first.name",
            "asked": "model_prompt(json(inputs))", "reply": "json(outputs) || error",
            "group": "text('{}', rows[?!parent_run_id].reference_example_id | [0])",
            "reward": "values(averages(rows)) | [0]", "rubric": "averages(rows)",
            "error": "rows[?!parent_run_id && error].error | [0]", "began": "first.start_time",
            "turn.model": "extra.metadata.ls_model_name || extra.invocation_params.model || "
            "json(extra).metadata.ls_model_name", "turn.began": "start_time", "turn.at": "end_time",
            "turn.tokens_in": "prompt_tokens", "turn.tokens_out": "completion_tokens",
        },
    ),
    DeclaredFormat(
        name="langfuse", files="traces of Langfuse with their observations", entry="a trace",
        match=("id observations input|output|name",), label="observations",
        condition="type(observations[0]) == 'object'",
        reads={
            "id": "id", "environment": "name || environment", "agent": "observations[?model].model | [0]",
            "turns": "sort_by(observations[?type=='GENERATION'], &startTime)", **_LANGFUSE,
            "group": "text('{}', sessionId)", "reward": "values(named_scores(scores)) | [0]",
            "rubric": "named_scores(scores)", "began": "timestamp",
        },
    ),
    DeclaredFormat(
        name="langfuse", files="observations that Langfuse exports", entry="the observations of a trace",
        match=("id traceId type startTime",), key="traceId", sort="startTime", row_id="id",
        aside="unless(type == 'GENERATION', type || 'other')",
        reads={
            "id": "first.traceId", "environment": "first.traceName || first.environment || first.name",
            **_LANGFUSE, "reward": "values(named_scores(first.scores)) | [0]",
            "rubric": "named_scores(first.scores)",
            "began": "first.startTime",
        },
    ),
    *(
        DeclaredFormat(
            name="otel", files="GenAI spans of OpenTelemetry in JSON, with the content of messages",
            entry="a trace", match=match, each=each, key=key, sort=sort, row_id=own,
            aside="unless(attributes.\"gen_ai.input.messages\" || attributes.\"gen_ai.output.messages\" || "
            "attributes.\"gen_ai.prompt\" || attributes.\"llm.input_messages\", name || 'span')",
            reads={
                "id": f"first.{key}", "environment": "first.attributes.\"gen_ai.agent.name\" || first.name",
                "asked": "span_prompt(attributes)", "reply": "span_answer(attributes)",
                "error": "rows[?status.code==`2` || status.code=='STATUS_CODE_ERROR' || "
                "status.status_code=='ERROR'] | [0] | not_null(status.message, status.description, name)",
                "turn.model": "attributes.\"gen_ai.response.model\" || "
                "attributes.\"gen_ai.request.model\" || "
                "attributes.\"llm.model_name\"",
                "turn.finish": "attributes.\"gen_ai.response.finish_reasons\"[0]",
                "turn.began": f"digits({sort})", "turn.at": "digits(endTimeUnixNano || end_time)",
                "turn.tokens_in": "attributes.\"gen_ai.usage.input_tokens\" || "
                "attributes.\"gen_ai.usage.prompt_tokens\" || attributes.\"llm.token_count.prompt\"",
                "turn.tokens_out": "attributes.\"gen_ai.usage.output_tokens\" || "
                "attributes.\"gen_ai.usage.completion_tokens\" || attributes.\"llm.token_count.completion\"",
            },
        )
        for match, each, key, sort, own in (
            (("resourceSpans",), "resourceSpans[].scopeSpans[].spans[].attributes(@)", "traceId",
             "startTimeUnixNano", "spanId"),
            (("context.trace_id attributes name",), "[attributes(@)]", "context.trace_id", "start_time",
             "context.span_id"),
        )
    ),
    DeclaredFormat(
        name="sharegpt", files="ShareGPT: `conversations` of `from` and `value`", match=("conversations",),
        condition="type(conversations) == 'array'",
        label="conversations",
        reads={**_CHAT, "prompt": "system && [{role: 'system', content: system}]",
        "messages": "conversations"},
    ),
    DeclaredFormat(
        name="chatml", files="messages of OpenAI's chat API, with a `reward` if there is one",
        match=("messages",),
        condition="type(messages) == 'array' && !tool_trace", label="messages",
        reads={**_CHAT, "messages": "messages"},
    ),
    DeclaredFormat(
        name="chatml", files="a message per line", entry="a file", match=("role content",), begins="`false`",
        reads={"messages": "rows", **_OPENAI_USAGE, "began": "first.timestamp"},
    ),
)  # fmt: skip
"""All formats; the first that matches a row is used."""
