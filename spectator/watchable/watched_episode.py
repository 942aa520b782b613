"""An episode of a loop that is watched: what it is told is sent on, and never raises."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from spectator.watchable.plain_json import attempted, encoded, finite, words_of
from spectator.watchable.recorder_line import RecorderLine

MOST_MESSAGE: Final = 4 * 1024 * 1024
"""Bytes of one step as JSON."""


class WatchedEpisode:
    """An episode that is recorded as it is played; nothing that it is told ever raises.

    As a context manager it ends with its block: with all its rewards, or as failed where an exception passes,
    which goes on untouched.

    Args:
        line: Where it is sent.
        number: Its own, in this process.
        begin: What is told of its beginning.
    """

    def __init__(self, line: RecorderLine, number: int, begin: Mapping[str, Any]) -> None:
        self._line = line
        self._number = number
        self._process = os.getpid()
        self._steps = self._left_out = 0
        self._total: float | None = None
        self._at = time.monotonic()
        self.over = False
        """Whether nothing more of it is recorded."""
        self._brief = line.busy
        if not self._send("begin", begin, needed=True):
            self.over = True
            if not line.gone:
                line.warn("full", "an episode is not recorded: the loop is faster than its recorder")

    def step(
        self,
        *,
        observation: object = None,
        action: object = None,
        reward: object = None,
        reply: object = None,
        messages: object = None,
        tokens: object = None,
        logprobs: object = None,
        prompt_tokens: object = None,
        model: str | None = None,
        usage: object = None,
    ) -> None:
        """Record a step.

        Args:
            observation: What came of it, as an environment's ``step`` returns it.
            action: What was done.
            reward: What it earned: a finite number; left out where nobody knows.
            reply: What a model answered: a text, or a message of the assistant.
            messages: What it was asked, whole: a text, or messages. Without ``reply`` its last is the answer.
            tokens: Ids of the answer's tokens, shape ``(n,)``.
            logprobs: Their log probabilities in nats, shape ``(n,)``.
            prompt_tokens: Ids of the prompt's tokens.
            model: Which model answered.
            usage: ``prompt_tokens`` and ``completion_tokens``, where counted.
        """
        if not self._open("a step"):
            return
        now = time.monotonic()
        told: dict[str, Any] = {"took_s": round(now - self._at, 6)}
        self._at = now
        self._steps += 1
        given = {
            "observation": observation, "action": action, "reply": reply, "messages": messages,
            "tokens": tokens, "logprobs": logprobs, "prompt_tokens": prompt_tokens, "model": model,
            "usage": usage,
        }  # fmt: skip
        told |= {name: value for name, value in given.items() if value is not None}
        if reward is not None:
            self._earn(reward, told)
        if self._brief or not self._send("step", told):
            self._left_out += 1
            if not self._line.gone:
                self._line.warn("busy", "the loop is faster than its recorder: some steps are not recorded")

    def end(self, *, truncated: str | bool = False, result: str | None = None) -> None:
        """End it, with the sum of its rewards. What it is told afterwards is not recorded.

        Args:
            truncated: Whether it was cut short, or why.
            result: What came of it, in words.
        """
        if not self._open("an end"):
            return
        if truncated:
            self._end("step_cap", truncated if isinstance(truncated, str) else "the loop cut it short")
        else:
            self._end("finished", None, result)

    def fail(self, error: BaseException | str) -> None:
        """End it without a verdict.

        Args:
            error: What went wrong.
        """
        if not self._open("a failure"):
            return
        words = error if isinstance(error, str) else f"{type(error).__name__}: {words_of(error)}"
        self._end("environment_error", words)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.over:
            return
        if error is None:
            self.end()
        else:
            self.fail(error)

    def _open(self, what: str) -> bool:
        """Whether it is recorded here, and not over yet."""
        if self._process != os.getpid():
            self._line.warn(
                "fork", f"{what} of an episode is not recorded: another process began the episode"
            )
            return False
        if self.over and not self._line.gone:
            self._line.warn("over", f"{what} of an episode is not recorded: the episode is over")
        return not self.over

    def _end(self, reason: str, detail: str | None, result: str | None = None) -> None:
        told = {"reason": reason, "detail": detail, "result": result, "total": self._total}
        self._send("end", {**told, "steps": self._steps, "left_out": self._left_out}, needed=True)
        self.over = True

    def _earn(self, reward: object, told: dict[str, Any]) -> None:
        earned = finite(reward)
        if earned is None:
            words = (
                f"the reward of step {self._steps} is {words_of(reward)}, not a finite number: it has none"
            )
            told["notes"] = [words]
            self._line.warn("reward", words)
        else:
            told["reward"] = earned
            self._total = (self._total or 0.0) + earned

    def _send(self, kind: str, told: Mapping[str, Any], *, needed: bool = False) -> bool:
        """Have it sent; what no JSON can be made of is replaced by a sentence that says so."""
        message = {"episode": self._number, kind: told}
        line, error = attempted(encoded, message, MOST_MESSAGE)
        if line is not None:
            return self._line.send(line, needed=needed)
        words = f"a part of an episode ({kind}) cannot be shown whole: {words_of(error)}"
        self._line.warn("json", words)
        kept = ("reward", "took_s", "reason", "steps", "total", "left_out", "environment", "agent", "group")
        short = {name: told[name] for name in kept if name in told} | {"notes": [words]}
        return self._line.send(encoded({"episode": self._number, kind: short}, MOST_MESSAGE), needed=needed)
