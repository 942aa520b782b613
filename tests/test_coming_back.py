"""The viewer of tests that comes back says where it was, as the page does."""

from __future__ import annotations

import json
import threading
from typing import Any

from websockets.sync.server import ServerConnection, serve

from tests.coming_back import watch

BEGUN = ({"frame": "hello", "epoch": "e1"}, {"frame": "snapshot", "seq": 7, "state": {}})
FURTHER = {"frame": "event", "seq": 8, "patch": {}}
OVER = {"frame": "bye", "code": 1000}


def test_whoever_lost_the_connection_says_where_it_was_also_when_it_saw_no_event_yet() -> None:
    """A server that goes away right after the snapshot gave a second one to whoever did not."""
    tells: list[tuple[dict[str, Any], ...]] = [BEGUN, (FURTHER,), (OVER,)]
    asked: list[str] = []

    def tell(connection: ServerConnection) -> None:
        assert connection.request is not None
        frames = tells[len(asked)]
        asked.append(connection.request.path)
        for frame in frames:
            connection.send(json.dumps(frame))
        connection.close(1012)

    with serve(tell, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        seen = watch([f"http://127.0.0.1:{server.socket.getsockname()[1]}"], "ep-1")
        server.shutdown()
        thread.join()
    assert asked == ["/live/ep-1", "/live/ep-1?epoch=e1&seq=7", "/live/ep-1?epoch=e1&seq=8"]
    assert (seen.snapshots, seen.numbers) == (1, [8])
