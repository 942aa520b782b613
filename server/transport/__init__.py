"""Viewers' connections: uvicorn's sockets taken over after the handshake, event streams, the compiled sends.

The rest of the server imports this package only, none of its modules.
"""

from .event_stream import EventStream
from .fast_path import choose_protocols, stop_listening
from .keepalive import Keepalive
from .ports import TransportPorts
from .sends import choose_sends
from .takeover import cut_of, last_message_of, send_now_of
from .upgrade import serve_viewer

__all__ = [
    "EventStream",
    "Keepalive",
    "TransportPorts",
    "choose_protocols",
    "choose_sends",
    "cut_of",
    "last_message_of",
    "send_now_of",
    "serve_viewer",
    "stop_listening",
]
