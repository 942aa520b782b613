"""Why a viewer's connection ends: close codes, whether to come back, and the reason in words."""

from __future__ import annotations

from enum import Enum


class Close(Enum):
    """Why a viewer's connection ends: code, whether to come back, and the reason in words."""

    ENDED = (1000, False, "ended")
    UNENDED = (1000, False, "its record has no end, and nobody plays it on here")
    BROKEN = (1002, False, "not a WebSocket's framing")
    NOT_UTF8 = (1007, False, "not UTF-8")
    TOO_BIG = (1009, False, "message too big")
    FAILED = (1011, True, "the server failed here")
    UNRECORDED = (1011, True, "its end could not be recorded")
    SILENT = (1011, True, "no answer to a ping")
    RESTARTING = (1012, True, "the server restarts")
    NOT_FOUND = (4001, False, "no such episode")
    FOREIGN_ORIGIN = (4003, False, "a page of another site may not watch from here")
    TOO_SLOW = (4008, True, "too slow; come back and resume")
    FULL = (4029, True, "too many viewers; come back later")
    DAMAGED = (4500, False, "its record is damaged")
    BAD_MESSAGE = (4400, False, "bad message")

    def __init__(self, code: int, reconnect: bool, reason: str) -> None:
        self.code = code
        self.reconnect = reconnect
        self.reason = reason
