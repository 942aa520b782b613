"""For whom the server's defaults are, and what those of a server are that strangers reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from .setting_types import PREFIX

PUBLIC: Final[Mapping[str, Any]] = {
    "runs_dir": None,
    "max_episodes": 3,
    "max_waiting_per_address": 4,
    "slot_hold_s": 15 * 60.0,
    "requests_per_minute": 6000,
    "starts_per_minute": 6,
    "starts_per_hour": 200,
    "episode_timeout_s": 45 * 60.0,
    "episode_mb": 16,
    "recorded_mb_per_hour": 200,
    "keep_mb": 2000,
    "max_viewers_per_address": 50,
    "openenv_sessions_per_address": 16,
    "publishes_per_minute": 6,
    "publishes_per_hour": 120,
    "resets_per_minute": 300,
    "resets_per_hour": 20_000,
    "openenv_compute_s_per_minute": 30.0,
    "option_limits": ("max_overs=20", "forecast_futures=1000", "turns=500", "payload_bytes=4096"),
    "trusted_hops": 1,
}
"""Defaults of a server that strangers reach; docs/settings.md lists them."""

Profile = Literal["open", "public"]


def profile_of(environ: Mapping[str, str]) -> Profile:
    """For whom the server's defaults are: ``public`` for strangers, on a Hugging Face Space by itself."""
    space = any(environ.get(name) for name in ("SPACE_ID", "SPACE_HOST"))
    return "public" if environ.get(f"{PREFIX}PROFILE", "public" if space else "open") == "public" else "open"
