"""What inspect_ai itself reads of our log; runs where it is installed. The only argument is the log."""

from __future__ import annotations

import json
import sys

from inspect_ai.log import read_eval_log
from inspect_ai.model import ChatMessageAssistant, ContentReasoning


def main(path: str) -> None:
    head = read_eval_log(path, header_only=True)
    log = read_eval_log(path)
    samples = []
    for sample in log.samples or []:
        said = [message for message in sample.messages if isinstance(message, ChatMessageAssistant)]
        samples.append(
            {
                "id": sample.id,
                "reward": None if not sample.scores else sample.scores["reward"].value,
                "roles": [message.role for message in sample.messages],
                "thoughts": sum(
                    isinstance(part, ContentReasoning)
                    for message in said
                    if isinstance(message.content, list)
                    for part in message.content
                ),
                "calls": [call.arguments for message in said for call in message.tool_calls or ()],
                "tokens": sum(usage.total_tokens for usage in sample.model_usage.values()),
            }
        )
    metrics = {name: metric.value for score in log.results.scores for name, metric in score.metrics.items()}
    told = {
        "status": log.status, "task": head.eval.task, "model": head.eval.model,
        "head_has_samples": bool(head.samples), "total": log.results.total_samples, "metrics": metrics,
        "samples": samples,
        "tokens": sum(usage.total_tokens for usage in head.stats.model_usage.values()),
    }  # fmt: skip
    print(json.dumps(told))


main(sys.argv[1])
