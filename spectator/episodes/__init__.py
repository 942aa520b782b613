"""Play, record, replay and host episodes."""

from __future__ import annotations
