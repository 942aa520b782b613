"""The container: what its Dockerfile says, and that its result runs under any user with a read-only root."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from server.setting_types import PREFIX
from server.settings import Settings
from tests.deploy.conftest import Models, play_with_both
from tests.openenv.dockerfile import Context, Stage, build, read
from tests.serving import ROOT, free_port
from tests.stand_in_hub import MODEL, StandInHub
from tests.stand_in_hub import running as hub_running

pytestmark = pytest.mark.timeout(600)  # the first test waits for the build

TOKEN = "a-token-of-the-operator"
READY_S = 30.0
"""How long the validator waits for ``/health``."""


@pytest.fixture(scope="module")
def stages() -> list[Stage]:
    return read(ROOT / "Dockerfile")


# What the files say


def test_it_has_two_stages_and_the_last_builds_nothing(stages: list[Stage]) -> None:
    first, last = stages
    assert first.base == last.base
    assert re.fullmatch(r"python:3\.\d+-slim", last.base)
    assert " --compile-bytecode " in first.all("RUN")[-1].text, "no user may write the bytecode later"
    runs = [one.text for one in last.all("RUN")]
    assert not any(word in text for text in runs for word in ("pip", "gcc", "build-essential"))
    installing = [text for text in runs if "apt-get" in text]
    assert len(installing) == 1
    assert "--no-install-recommends espeak-ng" in installing[0]
    assert installing[0].endswith("rm -rf /var/lib/apt/lists/*")
    assert [one.text.split()[0] for one in last.all("COPY")] == [f"--from={first.name}"]


def test_it_runs_as_nobody_special_on_the_port_that_everything_names(stages: list[Stage]) -> None:
    last, port = stages[-1], "8000"
    assert last.only("USER").text == "1000"
    assert last.only("EXPOSE").text == last.variables()["SPECTATOR_PORT"] == port
    assert f"\nport: {port}\n" in (ROOT / "openenv.yaml").read_text()
    readme = (ROOT / "README.md").read_text()
    if readme.startswith("---\n"):
        assert f"\napp_port: {port}\n" in readme.split("---")[1]


def test_its_settings_are_settings(stages: list[Stage]) -> None:
    variables = stages[-1].variables()
    assert variables["ENABLE_WEB_INTERFACE"] == "false"
    settings = Settings.from_environ(
        {name: text for name, text in variables.items() if name.startswith(PREFIX)}
    )
    assert (settings.host, settings.port, str(settings.data_dir)) == ("0.0.0.0", 8000, "/tmp/spectator")


def test_its_health_check_is_python_and_its_command_is_one_process(stages: list[Stage]) -> None:
    last = stages[-1]
    check = last.only("HEALTHCHECK").text
    assert '["python", "-c"' in check
    assert "/health" in check
    assert last.only("CMD").words() == ["server"]


def test_the_context_holds_what_is_needed_and_no_more() -> None:
    context = Context(ROOT)
    for needed in ("pyproject.toml", "README.md", "LICENSE", "server/app.py", "static/icon.svg"):
        assert context.lets_through(needed), needed
    for other in (
        ".git/config",
        ".venv/bin/python",
        ".venv-openenv/bin/python",
        "data/journal.db",
        "tests/conftest.py",
        "server/__pycache__/app.cpython-311.pyc",
        "spectator/a/__pycache__/b.pyc",
        "spectator/old.pyc",
        ".env",
    ):
        assert not context.lets_through(other), other


# What it builds


@dataclass
class Image:
    """What the Dockerfile builds.

    Args:
        root: Stands for the root of its file system.
        stage: Its last stage.
    """

    root: Path
    stage: Stage

    def variables(self, temp: Path, port: int) -> dict[str, str]:
        """Its environment; below ``temp`` is its /tmp."""
        told = self.stage.variables()
        told["PATH"] = told["PATH"].replace("/opt/", f"{self.root}/opt/").replace("$PATH", "/usr/bin:/bin")
        return told | {"SPECTATOR_DATA_DIR": str(temp / "spectator"), "SPECTATOR_PORT": str(port)}


@pytest.fixture(scope="module")
def image(stages: list[Stage]) -> Iterator[Image]:
    """Built in a folder that every user can read and none but root can write, with a server's bytecode."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="spectator-image-") as folder:
        root = Path(folder)
        source = build(stages[0], Context(ROOT), root)
        shutil.rmtree(source)
        python = root / "opt" / "spectator" / "bin" / "python"
        subprocess.run([python, "-I", "-c", "import spectator.server.app"], check=True, cwd="/")
        root.chmod(0o755)
        yield Image(root, stages[-1])


@contextmanager
def running(
    image: Image,
    temp: Path,
    user: int,
    variables: Mapping[str, str],
    *,
    locked: bool = False,
    port: int | None = None,
) -> Iterator[http.client.HTTPConnection]:
    """Its command under ``user``, from another folder; ``locked`` where the root cannot be written."""
    port = port or free_port()
    variables = image.variables(temp, port) | dict(variables)
    command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
    command += ["--bounding-set=-all", "--inh-caps=-all", *image.stage.only("CMD").words()]
    if locked:
        mounts = f"mount -o remount,bind,ro / && mount -t tmpfs -o mode=1777,size=64m none {temp}"
        command = ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh", *command]
    environ = {**variables, "PATH": f"{variables['PATH']}:/usr/sbin:/sbin"}
    process = subprocess.Popen(command, cwd="/", env=environ, stderr=subprocess.PIPE, text=True)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        _wait(process, connection)
        yield connection
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        connection.close()
        if process.poll() is None:
            process.kill()
            process.wait(20)
        assert process.stderr is not None
        process.stderr.close()


def _wait(process: subprocess.Popen[str], connection: http.client.HTTPConnection) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            assert process.stderr is not None
            pytest.fail(f"it ended with {process.returncode}: {process.stderr.read()[-3000:]}")
        try:
            if ask(connection, "GET", "/health") == {"status": "healthy"}:
                return
        except OSError:
            connection.close()
            time.sleep(0.05)
    pytest.fail(f"not healthy within {READY_S:g} s")


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: object = None) -> object:
    headers = {} if body is None else {"Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    return json.loads(connection.getresponse().read())


def as_root() -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        reason = "needs root and setpriv (util-linux) to become another user"
        pytest.fail(reason) if os.environ.get("REQUIRE_ALL") == "1" else pytest.skip(reason)


def can_lock() -> bool:
    """Whether this machine lets us make a mount namespace."""
    probe = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        "mount -o remount,bind,ro / && ! touch /spectator-probe 2>/dev/null",
    ]
    return (
        shutil.which("unshare") is not None
        and subprocess.run(probe, capture_output=True, check=False).returncode == 0
    )


@pytest.fixture(scope="module")
def readable_models(image: Image, models: Models) -> Models:
    """The model captains, where every user of the image can read of them."""
    folder = image.root / "models"
    folder.mkdir()
    for path in models.folder.iterdir():
        shutil.copyfile(path, folder / path.name)
    return Models(folder)


@pytest.mark.parametrize(("user", "root_is_read_only"), [(1000, False), (65532, True)])
def test_it_runs_under_any_user_and_writes_below_its_temp_folder_alone(
    image: Image, readable_models: Models, user: int, root_is_read_only: bool
) -> None:
    """A model plays in it over HTTP and HTTPS."""
    as_root()
    locked = root_is_read_only and can_lock()
    with tempfile.TemporaryDirectory(prefix="spectator-temp-") as folder:
        temp = Path(folder)
        if not locked:
            os.chown(temp, user, user)
        temp.chmod(0o700 if not locked else 0o755)
        variables = {**readable_models.variables(), "SPECTATOR_OPERATOR_TOKEN": TOKEN}
        with running(image, temp, user, variables, locked=locked) as connection:
            begun = ask(connection, "POST", "/reset", {"seed": 7, "episode_id": "e"})
            assert isinstance(begun, dict)
            assert begun["done"] is False
            base_url = f"http://127.0.0.1:{connection.port}"
            operator = {"Authorization": f"Bearer {TOKEN}"}
            with httpx.Client(base_url=base_url, timeout=READY_S, headers=operator) as client:
                play_with_both(client)
            connection.request("GET", "/")
            page = connection.getresponse()
            assert (page.status, b"<html" in page.read()) == (200, True)
            check = health_check(image, image.variables(temp, connection.port))
            assert check == 0
        written = {path.name for path in temp.iterdir()}
        assert written == (set() if locked else {"spectator"})


def test_a_visitor_signs_in_and_plays_with_a_model(image: Image) -> None:
    """As on a Space: a user without rights runs it, strangers reach it, and they bring their own model."""
    as_root()
    with tempfile.TemporaryDirectory(prefix="spectator-temp-") as folder, hub_running(StandInHub()) as hub:
        os.chown(folder, 1000, 1000)
        port = free_port()
        variables = hub.variables() | {
            "SPECTATOR_PROFILE": "public",
            "SPECTATOR_OPERATOR_TOKEN": TOKEN,
            "SPECTATOR_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "SPECTATOR_ROUTER_URL": hub.router_url,
            "SPECTATOR_TRUSTED_HOPS": "0",
        }
        with (
            running(image, Path(folder), 1000, variables, port=port),
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as visitor,
        ):
            there = visitor.get("/sign-in").headers["location"]
            back = httpx.get(f"{there}&consent=yes").headers["location"]
            assert visitor.get(back).status_code == 303
            body = {"environment": "cricket", "captain_preset": f"hf:{MODEL}", "max_overs": 1, "pace": "max"}
            started = visitor.post("/custom/start_episode", json=body)
            assert started.status_code == 202, started.text
            address = f"/live/{started.json()['episode_id']}/events"
            with visitor.stream("GET", address, headers={"Accept": "text/event-stream"}) as stream:
                lines = (line.removeprefix("data: ") for line in stream.iter_lines() if line[:6] == "data: ")
                events = [json.loads(line) for line in until_the_end(lines)]
    assert events[-1]["data"]["reason"] == "finished"
    made = [one["data"] for one in events if one.get("type") == "decision.made"]
    by_model = [one for one in made if one["source"] == "model"]
    assert by_model and {one["model"] for one in by_model} == {MODEL}
    assert set(hub.asked_with) == {f"Bearer {hub.issued[0]}"}


def until_the_end(lines: Iterator[str]) -> Iterator[str]:
    """Lines up to and with that of the episode's end."""
    for line in lines:
        yield line
        if '"type":"episode.ended"' in line:
            return


def health_check(image: Image, variables: dict[str, str]) -> int:
    """The exit code of the image's own health check."""
    command = json.loads(image.stage.only("HEALTHCHECK").text.partition("CMD ")[2])
    return subprocess.run(command, env=variables, cwd="/", check=False, timeout=20).returncode


def test_the_health_check_fails_when_nothing_answers(image: Image, tmp_path: Path) -> None:
    assert health_check(image, image.variables(tmp_path, free_port())) != 0


def test_the_image_has_no_test_and_no_peer(image: Image) -> None:
    python = image.root / "opt" / "spectator" / "bin" / "python"
    code = "import json, importlib.metadata as m; print(json.dumps([d.name for d in m.distributions()]))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    names = json.loads(done.stdout)
    assert "openenv-spectator" in names
    assert not {"openenv", "pytest", "playwright", "gradio", "ruff", "mypy"} & set(names)
