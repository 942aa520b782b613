"""Whatever happens to its record, a loop that is watched goes on, and sees only its own errors."""

from __future__ import annotations

import copy
import logging
import math
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spectator.watchable import Spectator, Watchable, WatchedLoop, watch
from spectator.watchable.recorder_client import RecorderLine
from tests.watchable.recorded import episodes_in, events_of, warnings_in

ROOT = Path(__file__).resolve().parents[2]


class Echo:
    """Returns what it is given, for three steps."""

    def __init__(self, observation: object = "here", reward: Any = 1.0) -> None:
        self.observation, self.reward, self.at = observation, reward, 0

    def reset(self, **_: Any) -> Any:
        self.at = 0
        return self.observation, {}

    def step(self, action: object) -> Any:
        self.at += 1
        return self.observation, self.reward, self.at == 3, False, {}


class Unspeakable:
    """Fails at whatever is asked of it."""

    def _fails(self, *_: object) -> Any:
        raise RuntimeError("no words")

    __repr__ = __str__ = __bool__ = __float__ = __len__ = _fails


def objects() -> Any:
    """An array of objects, one of which holds the array."""
    made = np.empty(3, object)
    made[:] = [{"a": {1, 2}}, Unspeakable, None]
    made[2] = made
    return made


@pytest.mark.parametrize(
    ("observation", "reward", "score"),
    [
        ("half \ud83d a pair", 1.0, 3.0),
        ({"\ud83d": ["\udc00", b"\xff"]}, 1.0, 3.0),
        ("here", math.nan, None),
        ("here", np.array([math.inf]), None),
        ("here", 10**400, None),
        (2**70, np.float16(0.5), 1.5),
        (objects(), 1.0, 3.0),
        (np.array([np.nan, np.inf]), 1.0, 3.0),
        (np.array(["2020-01-01"], "datetime64[s]"), 1.0, 3.0),
        (Unspeakable(), 1.0, 3.0),
        ("here", Unspeakable(), None),
        (Unspeakable(), Unspeakable(), None),
    ],
    ids=[
        "surrogates", "surrogates within", "nan", "infinite", "huge", "an integer of 70 bits", "objects",
        "an array of nan", "times", "no words", "a reward without words", "nothing at all",
    ],
)  # fmt: skip
async def test_every_value_passes_and_is_recorded(
    tmp_path: Path, observation: Any, reward: Any, score: float | None
) -> None:
    env = watch(Echo(observation, reward), tmp_path / "mine")
    assert env.reset()[0] is observation
    for _ in range(3):
        answer = env.step(observation)
        assert answer[0] is observation and answer[1] is reward
    env.close()
    (one,) = await episodes_in(tmp_path / "mine")
    assert (one.reason, one.turns, one.score) == ("finished", 3, score)
    if score is None:
        said = warnings_in(await events_of(tmp_path / "mine", one.episode_id))
        assert any("not a finite number" in words for words in said)


@pytest.mark.parametrize(
    "named", [{"environment": Unspeakable()}, {"group": Unspeakable()}, {"tools": Unspeakable()}]
)
async def test_names_that_cannot_be_read_are_described(tmp_path: Path, named: dict[str, Any]) -> None:
    with watch(tmp_path / "mine") as run, run.episode(**named) as episode:
        episode.step(reward=1.0, tokens=Unspeakable(), usage=Unspeakable(), model=Unspeakable())  # type: ignore[arg-type]
        episode.end(truncated=np.array([True, False]))  # type: ignore[arg-type]
    (one,) = await episodes_in(tmp_path / "mine")
    assert (one.reason, one.turns) == ("step_cap", 1)


class Failing(Echo):
    """Raises in its third step, its second reset and its close."""

    error = KeyError("of its own")

    def reset(self, **_: Any) -> Any:
        if self.at:
            raise self.error
        return super().reset()

    def step(self, action: object) -> Any:
        if self.at == 2:
            raise self.error
        return super().step(action)

    def close(self) -> None:
        raise self.error


async def test_errors_of_the_environment_pass_unchanged(tmp_path: Path) -> None:
    env = watch(Failing(), tmp_path / "mine")
    env.reset()
    env.step(0)
    env.step(0)
    for work in (lambda: env.step(0), env.reset, env.close):
        with pytest.raises(KeyError) as caught:
            work()
        assert caught.value is Failing.error
    (one,) = await episodes_in(tmp_path / "mine")
    assert (one.reason, one.detail, one.turns) == ("environment_error", "KeyError: 'of its own'", 2)


async def test_an_environment_of_coroutines_is_watched(tmp_path: Path) -> None:
    class Later(Echo):
        async def reset(self, **_: Any) -> Any:
            return super().reset()

        async def step(self, action: object) -> Any:
            return super().step(action)

    env = watch(Later(), tmp_path / "mine")
    await env.reset(seed=3)
    assert [(await env.step(action=0))[2] for _ in range(3)] == [False, False, True]
    env.close()
    (one,) = await episodes_in(tmp_path / "mine")
    assert (one.reason, one.turns, one.score, one.seed) == ("finished", 3, 3.0, 3)


async def test_a_watched_environment_is_its_own_kind(tmp_path: Path) -> None:
    class Room(list[int]):
        """An environment with a length, an attribute and a block."""

        doors = 2

        def __enter__(self) -> Any:
            self.doors = 3
            return self

        def __exit__(self, *error: object) -> None:
            self.doors = 0

        reset: Any = Echo.reset
        step: Any = Echo.step
        observation, reward, at = "here", 1.0, 0

    plain: Any = Room([7, 8])
    with watch(tmp_path / "mine") as run:
        with watch(plain, run) as env:
            assert isinstance(env, Room) and isinstance(env, list) and env.__class__ is Room
            assert (len(env), env[1], [*env], str(env), plain.doors) == (2, 8, [7, 8], "[7, 8]", 3)
            env.doors = 5
            assert plain.doors == 5
            twin: Any = copy.deepcopy(env)
            twin.reset()
            assert twin.env is not plain and [twin.step(0)[2] for _ in range(3)] == [False, False, True]
        assert plain.doors == 0
        again = pickle.loads(pickle.dumps(watch(Echo(), run)))
        again.reset()
        again.step(0)
        again.close()
        again._tap.run.close()
    found = await episodes_in(tmp_path / "mine")
    assert sorted((one.reason, one.turns) for one in found) == [("finished", 3), ("step_cap", 1)]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (Echo, "Echo is a class; pass an environment made of it"),
        (SimpleNamespace(reset=print, step=lambda state, action: state), "takes its state"),
        (SimpleNamespace(reset=print, step=lambda key, state, action, params: state), "takes its state"),
    ],
)
def test_what_cannot_be_watched_is_refused_before_the_loop(tmp_path: Path, what: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        watch(what, tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


LOOP = """
import resource, sys
from spectator import watch
sys.path.insert(0, {root!r})
from tests.watchable.test_never_harmed import Echo
resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes}, {bytes}))
env = watch(Echo("x" * 4000), sys.argv[1])
for _ in range(150):
    env.reset()
    while not env.step(0)[2]:
        pass
env.close()
print("done")
"""


async def test_a_full_disk_ends_the_record_and_not_the_loop(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", LOOP.format(root=str(ROOT), bytes=400_000), str(tmp_path / "mine")],
        capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("the loop continues") == 1 and len(done.stderr.splitlines()) == 1
    assert len(await episodes_in(tmp_path / "mine")) < 150


def play(env: Any) -> None:
    """An episode."""
    env.reset()
    while not env.step(0)[2]:
        pass


def killed(run: WatchedLoop, _: pytest.MonkeyPatch) -> None:
    """Kill the recorder."""
    assert run._recorder is not None
    run._recorder.kill()
    run._recorder.wait()


def without_threads(run: WatchedLoop, patch: pytest.MonkeyPatch) -> None:
    """Take away the sending thread, and let no other start, as in a process at its limit."""
    run._line.forget()
    patch.setattr(threading.Thread, "start", Unspeakable()._fails)


def without_log(run: WatchedLoop, patch: pytest.MonkeyPatch) -> None:
    """Let the log fail."""
    patch.setattr(logging.Logger, "warning", Unspeakable()._fails)
    killed(run, patch)


@pytest.mark.parametrize("happens", [killed, without_threads, without_log])
def test_a_loop_goes_on_without_its_recorder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[WatchedLoop, pytest.MonkeyPatch], None],
) -> None:
    run = watch(tmp_path / "mine")
    env = watch(Echo(reward=math.nan), run)
    play(env)
    with monkeypatch.context() as patch:
        happens(run, patch)
        for _ in range(3):
            play(env)
        env.close()
        run.close()
    assert run._recorder is not None
    run._recorder.kill()
    run._recorder.wait()


def test_no_report_is_taken_away_while_they_are_read(tmp_path: Path) -> None:
    line, read = RecorderLine(str(tmp_path / "nowhere")), [""]

    def lose_the_recorder() -> None:
        sending = threading.Thread(target=line._send_all)
        sending.start()
        sending.join(0.1)

    line._unread += [(lose_the_recorder, []), (read.append, ["the next one"])]
    line.read()
    assert line.gone and read[-1] == "the next one"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "not an address", ""])
@pytest.mark.parametrize("reward", [math.nan, 10**400, "much"])
def test_the_mixin_raises_nothing_without_a_server(
    url: str, reward: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Observation:
        def __init__(self) -> None:
            self.reward, self.done = reward, False

        def model_dump(self, mode: str) -> Any:
            raise ValueError("half \ud83d a pair cannot be encoded")

    class Plain:
        def reset(self) -> Any:
            return Observation()

        def step(self, action: Any) -> Any:
            return Observation()

        def close(self) -> None:
            pass

    class Shown(Watchable, Plain):
        spectator = Spectator(url)

    env = Shown()
    for _ in range(2):
        env.reset()
        env.step(Unspeakable())
    env.close()
    assert caplog.text and caplog.text.encode(), "a log can hold what is said"
