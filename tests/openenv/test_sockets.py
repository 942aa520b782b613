"""The session socket: one private environment each, one answer to each message, and slots that come back."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.by_hand import masked
from tests.gate import Gate
from tests.openenv.conftest import PATIENCE_S, Client, open_client
from tests.serving import Serving

Start = Callable[..., Serving]


def say(number: int) -> dict[str, str]:
    return {"text": f"ACTION: {number}"}


def play(client: Client, turns: int, seed: int = 1) -> list[Any]:
    """A whole count; everything that was shown."""
    seen = [client.ask("reset", {"seed": seed, "turns": turns})]
    while not seen[-1]["done"]:
        seen.append(client.ask("step", say(seen[-1]["observation"]["next"])))
    return seen


def until_open(serving: Serving, path: str = "/ws") -> Client:
    """A client that got an environment, once there is room."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        client = open_client(serving, path)
        answer = client.send({"type": "reset"})
        if answer["type"] == "observation":
            return client
        assert answer["data"]["code"] == "CAPACITY_REACHED", answer
        client.socket.close()
        assert time.monotonic() < deadline, "the slot never came back"
        time.sleep(0.02)


def handshake(serving: Serving) -> socket.socket:
    """A peer that has shaken hands and does nothing by itself."""
    address = urlsplit(serving.base_url)
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.connect((address.hostname, address.port))
    peer.sendall(
        f"GET /ws HTTP/1.1\r\nHost: {address.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert b"101" in peer.recv(1024)
    return peer


# The contract


def test_a_whole_episode(client: Client) -> None:
    seen = play(client, 4)
    assert [one["reward"] for one in seen] == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert [one["done"] for one in seen] == [False] * 4 + [True]
    last = {"rubric": {"correct": 1.0, "said": 1.0, "score": 1.0}, "value": 1.0}
    assert seen[-1]["metadata"] == seen[-1]["observation"]["metadata"] == last
    assert [one["metadata"]["value"] for one in seen] == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_the_state_echoes_the_id_and_counts_every_step_once(client: Client) -> None:
    client.ask("reset", {"seed": 7, "episode_id": "ep-1", "turns": 2})
    counts = [client.ask("state")["step_count"]]
    for action in (say(1), {"text": "refused"}, say(2), say(3)):
        client.ask("step", action)
        state = client.ask("state")
        assert state["episode_id"] == "ep-1"
        counts.append(state["step_count"])
    assert counts == [0, 1, 2, 3, 4]
    client.ask("reset", {"episode_id": "ep-2"})
    assert client.ask("state")["step_count"] == 0


def test_a_refusal_is_an_observation(client: Client) -> None:
    client.ask("reset")
    refused = client.ask("step", {"text": "no number"})
    assert refused["observation"]["refused"]["rule"] == "action.text"
    assert (refused["reward"], refused["done"], refused["observation"]["turn"]) == (0.0, False, 0)


def test_the_seed_that_was_drawn_is_told_and_gives_the_same_episode_again(client: Client) -> None:
    begun = client.ask("reset", {"turns": 3, "episode_id": "same"})
    seed = begun["metadata"]["seed"]
    assert client.ask("reset", {"turns": 3, "episode_id": "same", "seed": seed}) == begun


def test_metadata_in_an_action_is_allowed_and_not_read(client: Client) -> None:
    client.ask("reset")
    assert client.ask("step", {**say(1), "metadata": {"tokens": [1, 2]}})["observation"]["turn"] == 1


def test_close_is_answered_with_a_clean_close(client: Client) -> None:
    client.socket.send('{"type":"close"}')
    with pytest.raises(ConnectionClosed) as closed:
        client.socket.recv(timeout=PATIENCE_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000


def test_environments_are_private(shared: Serving) -> None:
    with contextlib.ExitStack() as stack:
        clients = [open_client(shared) for _ in range(8)]
        for one in clients:
            stack.enter_context(one.socket)
        for number, one in enumerate(clients):
            one.ask("reset", {"seed": number, "episode_id": f"ep-{number}", "turns": 20})
        for step in range(1, 5):
            for number, one in enumerate(clients):
                for _ in range(number % 3):
                    one.ask("step", say(step))
        states = [one.ask("state") for one in clients]
    assert [state["episode_id"] for state in states] == [f"ep-{number}" for number in range(8)]
    assert [state["step_count"] for state in states] == [4 * (number % 3) for number in range(8)]


def test_every_world_has_its_own_socket(shared: Serving) -> None:
    with open_client(shared, "/envs/counting/ws").socket as plain:
        assert Client(plain).ask("reset")["observation"]["actor"] == "counter"
    with open_client(shared, "/envs/cricket/ws").socket as plain:
        assert Client(plain).ask("reset", {"max_overs": 1})["observation"]["phase"] == "toss"


def test_an_unknown_world_is_refused_before_the_handshake(shared: Serving) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(f"{shared.ws_url}/envs/nope/ws")
    assert refused.value.response.status_code == 404
    assert "use one of" in json.loads(refused.value.response.body or b"")["detail"]


def test_a_page_of_another_site_cannot_open_one(shared: Serving) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(f"{shared.ws_url}/ws", additional_headers={"Origin": "https://elsewhere.example"})
    assert refused.value.response.status_code == 403


# Bad messages are answered, and change nothing

BOMB = "[" * 200_000
WRONG = [
    ("{", "INVALID_JSON", "not JSON"),
    ("", "INVALID_JSON", "not JSON"),
    (b"\x00\xff", "INVALID_JSON", "as text"),
    (b'{"type":"state"}', "INVALID_JSON", "as text"),
    (BOMB, "INVALID_JSON", "deep"),
    ('{"type":"step","data":{"text":' + "[" * 40 + "]" * 40 + "}}", "INVALID_JSON", "deeper than 32"),
    ('{"type":"reset","data":{"seed":NaN}}', "INVALID_JSON", "NaN"),
    ('{"type":"step","data":{"text":"\\ud800"}}', "INVALID_JSON", "surrogate"),
    ("9" * 5000, "INVALID_JSON", "not JSON"),
    ("[1,2]", "VALIDATION_ERROR", "object"),
    ("null", "VALIDATION_ERROR", "object"),
    ('"reset"', "VALIDATION_ERROR", "object"),
    ("{}", "UNKNOWN_TYPE", "None"),
    ({"type": "nope"}, "UNKNOWN_TYPE", "'nope'"),
    ({"type": ["reset"]}, "UNKNOWN_TYPE", "known: reset"),
    ({"type": "x" * 10_000}, "UNKNOWN_TYPE", "xxx"),
    ({"type": "step"}, "VALIDATION_ERROR", "data"),
    ({"type": "step", "data": [1]}, "VALIDATION_ERROR", "dict"),
    ({"type": "state", "request_id": "1"}, "VALIDATION_ERROR", "request_id"),
    ({"type": "reset", "data": {"seed": -1}}, "VALIDATION_ERROR", "seed"),
    ({"type": "reset", "data": {"seed": 2**53}}, "VALIDATION_ERROR", "seed"),
    ({"type": "reset", "data": {"seed": "7"}}, "VALIDATION_ERROR", "seed"),
    ({"type": "reset", "data": {"seed": True}}, "VALIDATION_ERROR", "seed"),
    ({"type": "reset", "data": {"seed": 1.5}}, "VALIDATION_ERROR", "seed"),
    ({"type": "reset", "data": {"episode_id": "x" * 256}}, "VALIDATION_ERROR", "episode_id"),
    ({"type": "reset", "data": {"turns": 0}}, "VALIDATION_ERROR", "turns"),
    ({"type": "reset", "data": {"turns": "3"}}, "VALIDATION_ERROR", "turns"),
    ({"type": "reset", "data": {"splits": 1}}, "VALIDATION_ERROR", "splits"),
    ({"type": "reset", "data": {"eval_pack_id": "nope"}}, "VALIDATION_ERROR", "eval_pack_id"),
    ({"type": "reset", "data": {"opponent_choice": "nope"}}, "VALIDATION_ERROR", "opponent_choice"),
]


@pytest.mark.parametrize(
    ("message", "code", "told"), WRONG, ids=[f"{code}-{n}" for n, (_, code, _) in enumerate(WRONG)]
)
def test_a_wrong_message_is_answered_and_the_episode_goes_on(
    client: Client, message: Any, code: str, told: str
) -> None:
    client.ask("reset", {"seed": 3, "episode_id": "mine"})
    client.ask("step", say(1))
    before = client.ask("state")
    error = client.fail(message)
    assert error["code"] == code
    assert told in error["message"]
    assert len(error["message"]) < 2100
    assert client.ask("state") == before
    assert client.ask("step", say(2))["observation"]["turn"] == 2


def test_wrong_fields_are_listed(client: Client) -> None:
    error = client.fail({"type": "reset", "data": {"seed": -1, "episode_id": 4, "opponent_choice": 1}})
    assert [wrong["field"] for wrong in error["errors"]] == ["seed", "episode_id", "opponent_choice"]


def test_without_an_episode_there_is_nothing_to_step(client: Client) -> None:
    for message in ({"type": "state"}, {"type": "step", "data": say(1)}):
        error = client.fail(message)
        assert (error["code"], "reset first" in error["message"]) == ("EXECUTION_ERROR", True)


def test_a_message_of_almost_a_mebibyte_is_read_and_one_of_two_is_not(shared: Serving) -> None:
    client = open_client(shared)
    client.ask("reset")
    long = json.dumps({"type": "step", "data": {"text": "ACTION: 1", "pad": "x" * (1024 * 1024 - 100)}})
    assert client.send(long)["data"]["observation"]["refused"]["rule"] == "action.shape"
    announced = b"\x81\xff" + (2 * 1024 * 1024).to_bytes(8, "big") + bytes(4)
    client.socket.socket.sendall(announced)  # the header alone: it is refused by its length
    with pytest.raises(ConnectionClosed) as closed:
        client.hear()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


def test_ten_thousand_garbage_messages_are_answered_and_slow_nobody_down(shared: Serving) -> None:
    client = open_client(shared)

    def garbage() -> None:
        for _ in range(10_000):
            client.socket.send("garbage")

    sender = threading.Thread(target=garbage)
    sender.start()
    codes = []
    for number in range(10_000):
        codes.append(client.hear()["data"]["code"])
        if number % 500 == 0:
            assert shared.client.get("/health").json() == {"status": "healthy"}
    sender.join()
    assert codes == ["INVALID_JSON"] * 10_000
    assert client.ask("reset")["done"] is False
    client.socket.close()


# Capacity


def test_capacity_is_told_and_a_closed_socket_makes_room(start: Start) -> None:
    serving = start(openenv_max_sessions=2)
    one, two = open_client(serving), open_client(serving)
    one.ask("reset")
    two.ask("reset")
    refused = open_client(serving)
    answer = refused.hear()
    assert answer["data"]["code"] == "CAPACITY_REACHED"
    assert (answer["data"]["active_sessions"], answer["data"]["max_sessions"]) == (2, 2)
    with pytest.raises(ConnectionClosed):
        refused.hear()
    assert one.ask("step", say(1))["observation"]["turn"] == 1
    one.socket.close()
    until_open(serving).socket.close()
    two.socket.close()


def test_one_who_falls_silent_is_told_and_makes_room(start: Start) -> None:
    serving = start(openenv_max_sessions=1, openenv_session_idle_s=1.5)
    silent = open_client(serving)
    silent.ask("reset")
    error = silent.hear()["data"]
    assert (error["code"], "no message for 1.5 s" in error["message"]) == ("SESSION_ERROR", True)
    until_open(serving).socket.close()


def test_one_who_comes_back_to_an_expired_environment_is_told_that_it_expired(start: Start) -> None:
    serving = start(openenv_max_sessions=2, openenv_session_idle_s=0.5)
    fresh = open_client(serving)
    step = {"type": "step", "data": {"text": "ACTION: 1"}}
    assert "expired" not in fresh.fail(step)["message"]
    assert fresh.hear()["data"]["code"] == "SESSION_ERROR"
    again = open_client(serving)
    late = again.fail(step)
    assert late["code"] == "EXECUTION_ERROR"
    assert "expired after 0.5 s without a message" in late["message"]
    again.socket.close()


def test_one_whose_connection_is_cut_makes_room(start: Start) -> None:
    serving = start(openenv_max_sessions=1)
    client = open_client(serving)
    client.ask("reset")
    client.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.socket.close()
    until_open(serving).socket.close()


def test_half_open_connections_make_room(start: Start) -> None:
    """Peers that shook hands and then never answer: no pong, no close, nothing read."""
    serving = start(openenv_max_sessions=3, openenv_session_idle_s=1.5)
    dead = [handshake(serving) for _ in range(3)]
    clients = [until_open(serving) for _ in range(3)]
    for client in clients:
        client.socket.close()
    for peer in dead:
        peer.close()


def test_one_who_asks_and_never_reads_makes_room(start: Start) -> None:
    """A peer that sends requests for long answers and reads none of them."""
    serving = start(openenv_max_sessions=1, openenv_session_idle_s=1.5)
    peer = handshake(serving)
    peer.settimeout(0.2)
    request = masked(b'{"type":"reset"}')
    with contextlib.suppress(TimeoutError, OSError):
        for _ in range(50_000):
            peer.sendall(request)
    until_open(serving).socket.close()
    peer.close()


# Worlds that misbehave


def test_a_world_that_cannot_be_built_is_told_and_holds_no_slot(start: Start) -> None:
    serving = start(openenv_max_sessions=1)
    for _ in range(3):
        client = open_client(serving, "/envs/unbuildable/ws")
        error = client.hear()["data"]
        assert (error["code"], error["factory_name"]) == ("FACTORY_ERROR", "unbuildable")
        assert "secret" not in json.dumps(error)
        with pytest.raises(ConnectionClosed):
            client.hear()
    until_open(serving).socket.close()


@pytest.mark.parametrize("world", ["raising", "not_a_number"])
def test_a_world_that_fails_ends_its_episode_not_the_session(start: Start, world: str) -> None:
    serving = start()
    with open_client(serving, f"/envs/{world}/ws").socket as plain:
        client = Client(plain)
        for _ in range(2):
            client.ask("reset", {"turns": 5})
            errors = []
            for number in range(1, 4):
                answer = client.send({"type": "step", "data": say(number)})
                errors += [answer["data"]] if answer["type"] == "error" else []
            assert errors[0]["code"] == "EXECUTION_ERROR"
            assert "secret" not in json.dumps(errors)
            assert "reset first" in client.fail({"type": "step", "data": say(3)})["message"]


def test_an_answer_beyond_a_mebibyte_is_never_sent(start: Start) -> None:
    with open_client(start(), "/envs/huge/ws").socket as plain:
        client = Client(plain)
        client.ask("reset")
        assert "the limit is" in client.fail({"type": "step", "data": say(1)})["message"]
        assert client.ask("reset")["done"] is False


def test_a_world_that_exits_takes_nobody_with_it(start: Start) -> None:
    serving = start()
    with open_client(serving, "/envs/shy/ws").socket as plain:
        client = Client(plain)
        client.ask("reset")
        assert client.fail({"type": "state"})["code"] == "EXECUTION_ERROR"
        assert client.ask("step", say(1))["observation"]["turn"] == 1
    assert serving.client.get("/health").status_code == 200


def test_a_slow_constructor_holds_nobody_up(start: Start, gate: Gate) -> None:
    serving = start()
    slow = open_client(serving, "/envs/slow/ws")
    assert gate.reached.wait(PATIENCE_S)
    assert serving.client.get("/health").status_code == 200
    with open_client(serving).socket as plain:
        assert Client(plain).ask("reset")["done"] is False
    slow.socket.send('{"type":"reset"}')
    gate.open()
    assert slow.hear()["type"] == "observation"
    slow.socket.close()


def test_a_step_that_hangs_is_given_up_and_its_slot_comes_back(start: Start, gate: Gate) -> None:
    serving = start(openenv_max_sessions=1, step_timeout_s=0.3)
    client = open_client(serving, "/envs/hanging/ws")
    client.ask("reset")
    client.socket.send(json.dumps({"type": "step", "data": say(1)}))
    assert gate.reached.wait(PATIENCE_S)
    assert serving.client.get("/health").status_code == 200
    error = client.hear()["data"]
    assert (error["code"], "did not answer within 0.3 s" in error["message"]) == ("EXECUTION_ERROR", True)
    with pytest.raises(ConnectionClosed) as closed:
        client.hear()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000
    until_open(serving).socket.close()
    hung = [thread for thread in threading.enumerate() if thread.name.startswith("openenv-")]
    gate.open()
    for thread in hung:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_steps_that_hang_hold_no_other_environment_up(start: Start, gate: Gate) -> None:
    """More of them than may compute at once."""
    serving = start()
    with contextlib.ExitStack() as stack:
        for _ in range(9):
            client = open_client(serving, "/envs/hanging/ws")
            stack.callback(client.socket.close)
            client.ask("reset")
            client.socket.send(json.dumps({"type": "step", "data": say(1)}))
        assert gate.reached.wait(PATIENCE_S)
        other = open_client(serving)
        stack.callback(other.socket.close)
        assert play(other, 20)[-1]["reward"] == 1.0
        gate.open()


def test_threads_end_with_their_sessions(shared: Serving) -> None:
    for _ in range(5):
        with open_client(shared).socket as plain:
            Client(plain).ask("reset")
    until_open(shared).socket.close()
    deadline = time.monotonic() + PATIENCE_S
    while any(thread.name.startswith("openenv-") for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "a thread outlives its session"
        time.sleep(0.02)


def test_the_server_stops_with_sessions_open(start: Start) -> None:
    serving = start()
    client = open_client(serving)
    client.ask("reset")
    serving.server.should_exit = True
    with pytest.raises(ConnectionClosed):
        client.hear()


def keys(count: int) -> str:
    return ",".join(f'"k{number}":1' for number in range(count))


LARGE = {
    "commas": '{"type":"step","data":{"text":"x","p":[' + "[]," * 330_000 + "[]]}}",
    "lists": '{"type":"step","data":{"text":"x","p":[' + "[],          " * 80_000 + "[]]}}",
    "values": '{"type":"state",' + keys(80_000) + "}",
    "action": '{"type":"step","data":{' + keys(9_900) + "}}",
    "options": '{"type":"reset","data":{' + keys(9_900) + "}}",
    "frame": '{"type":"state",' + keys(9_900) + "}",
    "text": '{"type":"step","data":{"text":1,"p":"' + "\\u0041" * 170_000 + '"}}',
}
"""Messages that are slow to read, the largest almost a mebibyte."""


@pytest.mark.parametrize("name", LARGE)
def test_large_messages_hold_nobody_up(shared: Serving, name: str) -> None:
    """Others are answered meanwhile, and what is refused is answered shortly."""
    with contextlib.ExitStack() as stack:
        clients = [open_client(shared) for _ in range(3)]
        for client in clients:
            stack.callback(client.socket.close)
            client.ask("reset")
            for _ in range(3):
                client.socket.send(LARGE[name])
        with ThreadPoolExecutor(1) as beside:
            heard = beside.submit(lambda: [client.hear() for client in clients for _ in range(3)])
            while not heard.done():
                assert shared.client.get("/health").status_code == 200
        answers = [answer["data"] for answer in heard.result()]
        refused = [one["observation"]["refused"]["rule"] for one in answers if "observation" in one]
        assert set(refused) <= {"action.shape"}
        codes = {one["code"] for one in answers if "observation" not in one}
        assert codes <= {"VALIDATION_ERROR", "INVALID_JSON"}
        assert all(len(json.dumps(one)) < 20_000 for one in answers)
        assert clients[0].ask("step", say(1))["observation"]["turn"] == 1
