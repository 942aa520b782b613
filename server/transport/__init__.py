"""Viewers' connections: WebSockets taken over from uvicorn, event streams, compiled sends.

The rest of the server imports only this package, not its modules.
"""

from .capacity import Capacity, open_files
from .delivery import EventStream, abort_of, protocol_of, serve_viewer
from .fast_path import choose_protocols, choose_sends, stop_listening
from .keepalive import Keepalive, TransportPorts

__all__ = [
    "Capacity", "EventStream", "Keepalive", "TransportPorts", "abort_of", "choose_protocols", "choose_sends",
    "open_files", "protocol_of", "serve_viewer", "stop_listening",
]  # fmt: skip
