"""Begins the process that records a watched loop."""

from __future__ import annotations

import json
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from spectator.errors import ConfigurationError, JournalError

OPEN_S: Final = 60.0
"""How long it may take."""

LONGEST_ADDRESS: Final = 90
"""Characters that the path of a socket may have, with some to spare."""

_PROGRAM: Final = (
    "import sys; sys.path[:] = {path!r}; from spectator.watchable.recorder import main; main({told!r})"
)


def begin_recorder(folder: Path, about: Mapping[str, Any]) -> tuple[subprocess.Popen[bytes], str]:
    """Begin the process that records, and wait until it listens.

    Args:
        folder: The run's.
        about: What the run says of itself.

    Returns:
        The process, and the path of its socket.

    Raises:
        ConfigurationError: Another process records in the folder, or none can be begun here.
        JournalError: The folder cannot be written.
    """
    room = Path(tempfile.mkdtemp(prefix="spectator-"))
    if len(str(room)) > LONGEST_ADDRESS:
        room.rmdir()
        room = Path(tempfile.mkdtemp(prefix="spectator-", dir="/tmp"))
    address = str(room / "line")
    told = json.dumps({"folder": str(folder), "address": address, "about": about})
    program = _PROGRAM.format(path=sys.path, told=told)
    try:
        recorder = subprocess.Popen(
            [sys.executable, "-P", "-c", program],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        assert recorder.stdout is not None
        with recorder.stdout as output:
            heard = select.select([output], [], [], OPEN_S)[0]
            answer = json.loads(output.readline() or b"{}") if heard else {}
    except (OSError, ValueError) as error:
        shutil.rmtree(room, ignore_errors=True)
        raise ConfigurationError(f"no process can be begun to record {folder}: {error}") from error
    if "ready" in answer:
        return recorder, address
    shutil.rmtree(room, ignore_errors=True)
    recorder.kill()
    recorder.wait()
    problem = answer.get("problem", "its recorder did not begin")
    wrong = JournalError if answer.get("kind") == "JournalError" else ConfigurationError
    raise wrong(f"{folder} cannot be recorded: {problem}")
