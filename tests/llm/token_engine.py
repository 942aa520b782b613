"""An engine that takes prompts as token ids, as vLLM does, with a tokenizer that anyone can read.

A byte is one token. A model samples each byte of its answer as another token, so that its answers never are
the tokens of their text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.llm.brains import Brain
from tests.llm.fake_server import Received

END, NEW_LINE, SAMPLED = 300, 10, 1000
ROLES = {"system": 301, "user": 302, "assistant": 303}


def tokens_of(messages: Sequence[Any], opens_answer: bool) -> list[int]:
    """A conversation as the chat template writes it."""
    ids: list[int] = []
    for message in messages:
        ids += [ROLES[message["role"]], *message["content"].encode(), END, NEW_LINE]
    return [*ids, ROLES["assistant"]] if opens_answer else ids


def messages_of(ids: Sequence[int]) -> list[dict[str, str]]:
    """The conversation of a prompt."""
    names, messages, text = {token: role for role, token in ROLES.items()}, [], bytearray()
    for token in ids:
        if token in names:
            messages.append({"role": names[token], "content": ""})
            text = bytearray()
        elif token == END:
            messages[-1]["content"] = text.decode()
        else:
            text.append(token - SAMPLED if token >= SAMPLED else token)
    return messages[:-1]


@dataclass(slots=True)
class TokenEngine:
    """Answers ``/tokenize`` and ``/completions``.

    Args:
        brain: Decides.
        gives_ids: Whether it returns token ids.
        shifted: Added to the prompt's ids that it reports.
    """

    brain: Brain
    gives_ids: bool = True
    shifted: int = 0
    prompts: list[list[int]] = field(default_factory=list)
    sampled: list[list[int]] = field(default_factory=list)

    def __call__(self, request: Received) -> tuple[int, dict[str, Any]] | None:
        """Answer a request; ``None`` if it is another one."""
        body = request.body
        if request.path == "/tokenize":
            return 200, {"tokens": tokens_of(body["messages"], body["add_generation_prompt"])}
        if request.path != "/v1/completions":
            return None
        said = self.brain({**body, "messages": messages_of(body["prompt"])})
        ids = [SAMPLED + byte for byte in said.text.encode()] + [END]
        self.prompts.append(body["prompt"])
        self.sampled.append(ids)
        choice: dict[str, Any] = {
            "index": 0, "text": said.text, "finish_reason": "stop",
            "logprobs": {"tokens": list(map(str, ids)), "token_logprobs": [-0.5] * len(ids)},
        }  # fmt: skip
        if self.gives_ids:
            shown = [one + self.shifted for one in body["prompt"]]
            choice |= {"token_ids": ids, "prompt_token_ids": shown}
        return 200, {"id": "c", "object": "text_completion", "model": "m", "choices": [choice]}
