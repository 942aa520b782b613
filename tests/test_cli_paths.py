"""Whatever path, device, pipe or key the command line is given: a sentence, never a traceback."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from spectator.cli import main
from tests.conftest import ROOT

FULL = Path("/dev/full")
PATIENCE_S = 60
ROLLOUTS = "--env counting --base-url http://127.0.0.1:9/v1 --model m".split()


def spectator(*arguments: str, cwd: Path, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """A command under way."""
    return subprocess.Popen(
        [sys.executable, "-m", "spectator.cli", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and what was said on standard error."""
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in errors and "Exception ignored" not in errors, errors
    return process.returncode, errors


def said_here(*arguments: str) -> tuple[int, str]:
    """Exit code and what was said of a command in this process; nothing but an exit may come out of it."""
    done = CliRunner().invoke(main, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stderr


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a journal of one episode, and its id."""
    folder = tmp_path_factory.mktemp("recorded")
    arguments = ("play", "counting", "--data-dir", "d", "--option", "turns=3")
    out, _ = spectator(*arguments, cwd=folder).communicate(timeout=PATIENCE_S)
    return folder, out.partition('"episode_id":"')[2].partition('"')[0]


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "ID", "--data-dir", "d", "--out", "DEVICE"),
        ("export", "ID", "--data-dir", "d", "--format", "messages", "--out", "DEVICE"),
        ("narrate", "ID", "--data-dir", "d", "--out", "DEVICE"),
        ("narrate", "ID", "--data-dir", "d", "--out", "x.mp3", "--captions", "DEVICE"),
        ("claim", "export", "ID", "--data-dir", "d", "--out", "DEVICE"),
        ("rollouts", "run", *ROLLOUTS, "--out", "DEVICE"),
        ("evaluate", "counting", "--captains", "heuristic,random", "--out", "DEVICE"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_device_is_never_replaced(
    recorded: tuple[Path, str], tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, episode_id = recorded
    monkeypatch.chdir(folder)
    device = tmp_path / "device"
    os.mkfifo(device)
    given = [{"ID": episode_id, "DEVICE": str(device)}.get(one, one) for one in arguments]
    code, errors = said_here(*given)
    assert code in (1, 2) and errors.strip(), errors
    assert stat.S_ISFIFO(device.stat().st_mode)


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", ["play", "catalog", "export", "verify", "replay"])
def test_a_full_device_is_told_in_a_sentence(recorded: tuple[Path, str], command: str) -> None:
    folder, episode_id = recorded
    given = {"play": ["counting"], "catalog": []}.get(command, [episode_id, "--data-dir", "d"])
    with FULL.open("w") as full:
        code, errors = said(spectator(command, *given, cwd=folder, stdout=full.fileno()))
    assert (code, errors.strip().splitlines()[-1]) == (1, "Error: No space left on device")


def test_folders_that_are_not_there_are_made(
    recorded: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, episode_id = recorded
    monkeypatch.chdir(folder)
    out = tmp_path / "new" / "deep" / "x.ndjson"
    assert said_here("export", episode_id, "--data-dir", "d", "--out", str(out))[0] == 0
    assert out.read_text("utf-8").count("\n") > 3


def test_a_file_where_a_folder_is_wanted_is_named(
    recorded: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, episode_id = recorded
    monkeypatch.chdir(folder)
    (tmp_path / "file").write_text("", "utf-8")
    out = tmp_path / "file" / "x.ndjson"
    code, errors = said_here("export", episode_id, "--data-dir", "d", "--out", str(out))
    assert code == 1 and str(tmp_path / "file") in errors


@pytest.mark.usefixtures("real_starts")
@pytest.mark.parametrize(
    "arguments",
    [
        ("play", "counting", "--option", "turns=1000000"),
        ("simulate", "cricket", "--matches", "100000"),
        ("evaluate", "counting", "--captains", "heuristic,random", "--out", "OUT"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_ctrl_c_is_exit_code_130(tmp_path: Path, arguments: Sequence[str]) -> None:
    given = [str(tmp_path / "out") if one == "OUT" else one for one in arguments]
    process = spectator(*given, cwd=tmp_path)
    stream = process.stderr if arguments[0] == "evaluate" else process.stdout
    assert stream is not None and stream.read(1), "it is under way"
    process.send_signal(signal.SIGINT)
    code, errors = said(process)
    assert code == 130, errors


def test_ctrl_c_while_the_command_loads_is_130_without_a_trace(tmp_path: Path) -> None:
    """At any time from its first line on: the command line is loaded here by a module that takes its time."""
    (tmp_path / "click.py").write_text(
        "import sys, time\nsys.stderr.write('.')\nsys.stderr.flush()\ntime.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", "from spectator.command import main; main()"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None and process.stderr.read(1) == ".", "it is under way"
    process.send_signal(signal.SIGINT)
    assert said(process) == (130, "")


def test_the_command_that_is_installed_is_the_one_that_loads_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"]["spectator"] == "spectator.command:main"
