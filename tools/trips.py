"""Counts what eight trips through the code take: the files and functions of ours that each enters.

``python -m tools.trips`` makes the trips that docs/architecture.md tells, in this process, over real sockets
and a journal on the disk, each after a first time that is not counted. ``python -m tools.trips fork`` also
lists what that trip enters, in order. Only functions of ``spectator`` and ``server`` count, each once;
comprehensions and lambdas are part of the function that they stand in. What other tasks of the server do
meanwhile (:data:`ELSEWHERE`) is not part of a trip. Of trips of milliseconds, in which a timer may go off,
the shortest of some counts.
"""

from __future__ import annotations

import http.server
import inspect
import json
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, Final

from click.testing import CliRunner
from websockets.sync.client import connect

from tests.serving import Serving, serve, serve_process, test_settings

ROOT: Final = Path(__file__).resolve().parent.parent
OURS: Final = (f"{ROOT}/spectator/", f"{ROOT}/server/")
PATIENCE_S: Final = 60.0
SHORT_TRIPS: Final = 3
"""How many trips of milliseconds are made after the first."""

SETTLE_S: Final = 1.5
"""What an episode leaves to be done after its end takes less."""

TOKEN: Final = "-of-sixteen-or-more-"
ENDLESS: Final = {"environment": "counting", "options": {"turns": 1_000_000}}
COUNTER: Final = {"tool": "say", "arguments": {"text": "ACTION: 1"}}

ELSEWHERE: Final = re.compile(
    r":(Housekeeper|Keepalive|LongRecords|LoopLag|Narration|Scorekeeper)\.|:SlotQueue\.run$"
    r"|\b(open_services|lifespan)$"
)
"""Functions that begin what is no part of a trip: the opening of the server's other rooms, and the tasks that
tidy the record, go through long ones, keep the standings, look after slots, measure the loop, speak, and ping
viewers. What they call is not counted either, unless the beginning of the trip stands between."""

Step = tuple[str, str]
"""File, from the root, and qualified name of a function."""


class Trip:
    """The functions entered while it is on, in order.

    Args:
        begins: Pattern of ``file:function``; the trip begins where one is entered, or at once for ``None``.
        ends: Likewise, for the end; ``None`` ends with the context.
    """

    def __init__(self, begins: str | None = None, ends: str | None = None) -> None:
        self.steps: dict[Step, None] = {}
        self.over = threading.Event()
        self._begins, self._ends = begins, ends
        self._on = begins is None

    def enter(self, frame: FrameType) -> None:
        """Take note that a function was entered."""
        code = frame.f_code
        name = _name_of(code)
        step = _step_of(code)
        where = ":".join(step)
        if not self._on and self._begins is not None and re.search(self._begins, where):
            self._on = True
        elif self._on and self._ends is not None and re.search(self._ends, where):
            self._on = False
            self.over.set()
        is_function = code.co_flags & inspect.CO_OPTIMIZED and not name.endswith(
            ">"
        )  # no module, no class body
        if self._on and is_function and not self._elsewhere(frame):
            self.steps[step] = None

    def _elsewhere(self, frame: FrameType | None) -> bool:
        """Whether one of :data:`ELSEWHERE` called it more nearly than the beginning of the trip, or is it."""
        while frame is not None:
            if frame.f_code.co_filename.startswith(OURS):
                where = ":".join(_step_of(frame.f_code))
                if self._begins is not None and re.search(self._begins, where):
                    return False
                if ELSEWHERE.search(where):
                    return True
            frame = frame.f_back
        return False

    @property
    def files(self) -> list[str]:
        """The files, in the order in which they are first entered."""
        return list(dict.fromkeys(file for file, _ in self.steps))


def _name_of(code: CodeType) -> str:
    return code.co_qualname if sys.version_info >= (3, 11) else code.co_name


@cache
def _step_of(code: CodeType) -> Step:
    return str(Path(code.co_filename).relative_to(ROOT)), _name_of(code).replace(".<locals>", "")


_current: list[Trip] = []


def _hook(frame: FrameType, event: str, _: Any) -> None:
    if event == "call" and frame.f_code.co_filename.startswith(OURS):
        for trip in tuple(_current):  # another thread may end it here
            trip.enter(frame)


@contextmanager
def taking(trip: Trip) -> Iterator[Trip]:
    """Count what is entered inside, on every thread that began after :func:`main` did."""
    _current.append(trip)
    try:
        yield trip
    finally:
        _current.clear()


def recorded(folder: Path, episode_id: str, kind: str) -> int:
    """How many events of a type the journal holds, read past all code of ours."""
    with closing(sqlite3.connect(f"file:{folder / 'journal.db'}?mode=ro", uri=True)) as database:
        query = "SELECT count(*) FROM events WHERE episode_id = ? AND text LIKE ?"
        return int(database.execute(query, (episode_id, f'%"type":"{kind}"%')).fetchone()[0])


def wait_for(folder: Path, episode_id: str, kind: str, count: int) -> None:
    """Wait until so many are recorded."""
    deadline = time.monotonic() + PATIENCE_S
    while recorded(folder, episode_id, kind) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} of {kind} were not recorded")
        time.sleep(0.002)


def stop(serving: Serving, episode_id: str) -> None:
    """End an episode, and let its figures be taken up in the standings."""
    serving.client.post("/custom/stop_episode", json={"episode_id": episode_id})
    serving.finish(episode_id)
    time.sleep(SETTLE_S)


def start_and_play(folder: Path) -> Trip:
    """POST to first steps: from the request to the second recorded step, nobody watching."""
    with serve(test_settings(folder)) as serving:
        for trip in (Trip(), Trip()):
            with taking(trip):
                episode_id = serving.start(**ENDLESS)
                wait_for(folder, episode_id, "step.taken", 2)
            stop(serving, episode_id)
    return trip


class _Endpoint(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # endpoints of models keep connections alive

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": json.dumps(COUNTER)}
        body = json.dumps({"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def model_captain(folder: Path) -> Iterator[Path]:
    """A captain ``llm:trip`` whose model answers at once; gives the file that names it."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Endpoint) as endpoint:
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        path = folder / "captains.toml"
        url = f"http://127.0.0.1:{endpoint.server_port}/v1"
        path.write_text(f'[captains.trip]\nlabel = "T"\nbase_url = "{url}"\nmodel = "m"\nstyle = "json"\n')
        try:
            yield path
        finally:
            endpoint.shutdown()


def decide(folder: Path) -> Trip:
    """A model's decision: from the question to the policy until it is asked the next one."""
    asked = r"policies/model\.py:ModelPolicy\._hear_outcome$"
    trip = Trip(begins=asked, ends=asked)
    with model_captain(folder) as path:
        settings = test_settings(folder, captains_file=path, operator_token=TOKEN)
        with serve(settings) as serving:
            serving.client.headers["Authorization"] = f"Bearer {TOKEN}"
            episode_id = serving.start(**ENDLESS, captain_preset="llm:trip")
            wait_for(folder, episode_id, "step.taken", 2)
            with taking(trip):
                trip.over.wait(PATIENCE_S)
            stop(serving, episode_id)
    return trip


def command(*arguments: str) -> None:
    """Run a command of ours in this process."""
    from spectator.cli import main as run

    result = CliRunner().invoke(run, arguments)
    if result.exit_code:
        raise RuntimeError(f"spectator {' '.join(arguments)}: {result.output} {result.exception!r}")


def resume(folder: Path) -> Trip:
    """A viewer resumes: from its handshake to the event that it had missed."""
    with serve(test_settings(folder)) as serving:
        episode_id = serving.start(**{**ENDLESS, "pace": "broadcast"})
        trips = [Trip() for _ in range(1 + SHORT_TRIPS)]
        for trip in trips:
            with connect(f"{serving.ws_url}/live/{episode_id}") as viewer:
                last = heard(viewer, "event")
            wait_for(folder, episode_id, "step.taken", recorded(folder, episode_id, "step.taken") + 1)
            time.sleep(0.1)
            with (
                taking(trip),
                connect(
                    f"{serving.ws_url}/live/{episode_id}?epoch={last['epoch']}&seq={last['seq']}"
                ) as viewer,
            ):
                heard(viewer, "event")
                _current.clear()
        stop(serving, episode_id)
    return shortest(trips[1:])


def shortest(trips: list[Trip]) -> Trip:
    """The one that entered fewest functions."""
    return min(trips, key=lambda trip: len(trip.steps))


def heard(viewer: Any, frame: str) -> dict[str, Any]:
    """The next frame of a kind."""
    while True:
        message: dict[str, Any] = json.loads(viewer.recv(timeout=PATIENCE_S))
        if message.get("frame") == frame:
            return message


def openenv_step(folder: Path) -> Trip:
    """An OpenEnv step: from the message to the observation."""
    with serve(test_settings(folder)) as serving, connect(f"{serving.ws_url}/ws") as session:
        step = {"type": "step", "data": {"text": "ACTION: 1"}}
        trips = []
        for message in ({"type": "reset", "data": {"seed": 1}}, *(1 + SHORT_TRIPS) * (step,)):
            with taking(Trip()) as trip:
                session.send(json.dumps(message))
                session.recv(timeout=PATIENCE_S)
            trips.append(trip)
    return shortest(trips[2:])


def fork(folder: Path) -> Trip:
    """A fork: from the request to the second step that it plays itself."""
    with serve(test_settings(folder)) as serving:
        parent = serving.start(environment="counting", options={"turns": 10})
        serving.finish(parent)
        time.sleep(SETTLE_S)
        at = next(one["seq"] for one in serving.events(parent) if one["turn"] == 5)
        body = {"episode_id": parent, "seq": at - 1, "pace": "broadcast"}
        for trip in (Trip(), Trip()):
            with taking(trip):
                answer = serving.client.post("/custom/fork", json=body)
                assert answer.status_code == 202, answer.text
                wait_for(folder, answer.json()["episode_id"], "step.taken", 6)
            stop(serving, answer.json()["episode_id"])
    return trip


def recover(folder: Path) -> Trip:
    """Kill to play on: from the first look at an unended episode to its next step."""
    for trip in (Trip(begins=r":Recovery\.run$"), Trip(begins=r":Recovery\.run$")):
        with serve_process(folder) as process:
            import httpx

            body = {**ENDLESS, "pace": "fast"}
            answer = httpx.post(f"{process.base_url}/custom/start_episode", json=body)
            episode_id = answer.json()["episode_id"]
            wait_for(folder, episode_id, "step.taken", 3)
            process.kill()
        played = recorded(folder, episode_id, "step.taken")
        with taking(trip), serve(test_settings(folder), ready=False) as serving:
            wait_for(folder, episode_id, "step.taken", played + 1)
            _current.clear()
            stop(serving, episode_id)
    return trip


def ball(_: Path) -> tuple[Trip, Trip]:
    """A ball: what the rules do with it, and what viewers are shown of it."""
    from spectator.catalog import load_world
    from spectator.events import Event
    from spectator.merge_patch import apply_patch

    world = load_world("cricket")
    environment = world.environment()
    options = world.options_type().model_dump()
    seen = environment.reset(seed=7, episode_id="ep-1", options=options)
    captains = {actor: world.captains["heuristic"].build(1) for actor in world.actors}
    state: dict[str, Any] = {"world": {}, "feed": {}, "decisions": {}}
    balls = 0
    while True:
        rules, view = Trip(), Trip()
        action = captains[seen.actor].choose(seen).action  # type: ignore[index, attr-defined]
        with taking(rules):
            seen = environment.step(action)
            facts = environment.facts()
        for fact in facts:
            event = Event("ep-1", "e", 1, "", 1, fact.type, fact.data)
            with taking(view):
                patch = world.projection(state, event)
            state = apply_patch(state, {"world": patch})
            with taking(view):
                world.commentator(event, state)
        balls += action["tool"] == "play_delivery"
        if balls == 8 and action["tool"] == "play_delivery":
            return rules, view


def evaluate(folder: Path) -> Trip:
    """An evaluation of two matches: the whole command."""
    for trip in (Trip(), Trip()):
        with taking(trip), TemporaryDirectory(dir=folder) as out:
            command(
                *("evaluate", "counting", "--captains", "heuristic,random", "--matches", "2", "--jobs", "1"),
                *("--out", out),
            )
    return trip


TRIPS: Final[dict[str, Callable[[Path], Trip | tuple[Trip, ...]]]] = {
    "post to first steps": start_and_play,
    "model decision to journal": decide,
    "viewer resumes": resume,
    "openenv step": openenv_step,
    "fork": fork,
    "kill to play on": recover,
    "ball": ball,
    "evaluation of two matches": evaluate,
}


def main(arguments: list[str]) -> None:
    """Make the trips and print what they took; those named are listed as well."""
    threading.setprofile(_hook)
    sys.setprofile(_hook)
    for name, make in TRIPS.items():
        wanted = not arguments or any(argument in name for argument in arguments)
        if not wanted:
            continue
        with TemporaryDirectory() as scratch:
            made = make(Path(scratch))
        for trip in made if isinstance(made, tuple) else (made,):
            print(f"{name:28} {len(trip.files):3} files {len(trip.steps):4} hops")
            for file, function in trip.steps if arguments else ():
                print(f"    {file}:{function}")
    sys.setprofile(None)
    threading.setprofile(None)


if __name__ == "__main__":
    main(sys.argv[1:])
