"""A run of somebody else's loop that can be watched: episodes and steps in, and nothing ever out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from spectator.watchable.plain_json import finite, words_of
from spectator.watchable.recorder_line import RecorderLine
from spectator.watchable.watched_episode import WatchedEpisode

CLOSE_S: Final = 30.0
"""How long ``close`` waits for what is still to be recorded."""


class WatchedLoop:
    """A run of a loop, which a server shows at ``/rollouts`` while it is played.

    A process of its own records it, so that the loop waits for nothing. Whatever goes wrong once it is open
    is logged, once, and the loop goes on. Threads, forks and processes that it is handed to may use it alike.

    Args:
        folder: Where it is kept; made when it is not there. It stands in the server's ``SPECTATOR_RUNS_DIR``.
        name: What it is called, for people.
        environment: What is played, for episodes that do not say.
        agent: Who decides, for the same.
        episodes: How many there will be, where that is known.

    Raises:
        ConfigurationError: The folder's name fits no address, it holds something else, another process
            records in it, or no process can be begun here.
        JournalError: It cannot be written.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        name: str = "",
        environment: str = "loop",
        agent: str = "Agent",
        episodes: int | None = None,
    ) -> None:
        from spectator.following.run_folder import run_name
        from spectator.watchable.recorder_process import begin_recorder

        self.folder = Path(folder).resolve()
        """Where it is kept."""
        self.name = run_name(self.folder)
        """The run's, as the server's pages have it."""
        self._about = {"environment": environment, "agent": agent}
        self._numbers = itertools.count(1)
        self._recorder, address = begin_recorder(self.folder, {"name": name, "episodes": episodes})
        self._line = RecorderLine(address)
        self._line.send(b"{}\n", needed=True)
        self._closed = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_recorder": None, "_numbers": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _numbers=itertools.count(1))

    def __deepcopy__(self, memo: object) -> Self:
        """Itself: environments are copied with what they were made with, and there is one run."""
        return self

    def episode(
        self,
        *,
        group: object = None,
        seed: object = None,
        environment: str | None = None,
        agent: str | None = None,
        observation: object = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> WatchedEpisode:
        """Begin an episode.

        Args:
            group: Episodes with the same are compared: a prompt, a task.
            seed: A whole number from 0 to 2**53 - 1; anything else is left out.
            environment: What is played.
            agent: Who decides.
            observation: What it begins with: a text, or anything.
            tools: What a model is offered, in the form of a chat endpoint.
        """
        if self._closed:
            self._line.warn("closed", "an episode is not recorded: its run was closed")
        begin: dict[str, Any] = {
            "environment": environment or self._about["environment"],
            "agent": agent or self._about["agent"],
            "group": group if isinstance(group, str) or group is None else words_of(group),
            "seed": _whole(seed),
        }
        if tools:
            begin["tools"] = tools
        if observation is not None:
            begin["observation"] = observation
        return WatchedEpisode(self._line, next(self._numbers), begin)

    def close(self) -> None:
        """Wait until what was told is recorded; episodes without an end are ended. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        answer = self._line.close(CLOSE_S)
        if self._recorder is None:
            return
        if answer is None and not self._line.gone:
            self._line.warn("slow", f"the record of {self.folder} is not complete after {CLOSE_S:g} s")
        elif answer is not None and not answer.get("others"):
            self._recorder.wait(CLOSE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _whole(seed: object) -> int | None:
    """A whole number of whatever type."""
    known = None if seed is None else finite(seed)
    return int(known) if known is not None and known.is_integer() and known >= 0 else None
