"""The log of a long command: bounded, beside the screen, and never the reason why a command fails."""

from __future__ import annotations

import errno
import io
import logging
from pathlib import Path

import pytest

from spectator.cli.rollouts_run import RunLog

logger = logging.getLogger("spectator.somewhere")


class FullDisk(io.StringIO):
    """A file that takes nothing, not even when it is closed."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        self.flush()


def test_warnings_go_into_the_file_and_nothing_else_makes_one(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "run.log")
    logger.warning("before")
    log.begin()
    logger.info("too little to say")
    assert not (tmp_path / "run.log").exists()
    logger.warning("it fails")
    log.end()
    logger.warning("after")
    assert log.taken == 1
    assert "WARNING spectator.somewhere: it fails" in (tmp_path / "run.log").read_text()


def test_a_full_disk_loses_warnings_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunLog, "_open", lambda self: FullDisk())
    log = RunLog(tmp_path / "run.log")
    log.begin()
    logger.warning("it fails")
    log.end()
    assert log.taken == 1
    assert log not in logging.getLogger("spectator").handlers
