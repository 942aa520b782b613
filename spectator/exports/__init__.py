"""Recorded episodes as files: events, model calls, token rows, groups, preference pairs, logs."""

from __future__ import annotations
