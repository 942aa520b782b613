"""Settings of how often visitors may do something, and how much of it goes on at once."""

from __future__ import annotations

from pydantic import BaseModel, Field


class LimitSettings(BaseModel):
    """How many of what: episodes, requests, viewers, environments; part of ``server.settings.Settings``."""

    max_episodes: int = Field(default=1, ge=1, le=1000, description="Episodes that may run at once")
    max_waiting: int = Field(
        default=64, ge=0, le=1000, description="Starts that may wait for a slot at once; 0 = none may"
    )
    max_waiting_per_address: int = Field(
        default=0, ge=0, description="The same of one address; 0 = no limit of its own"
    )
    slot_hold_s: float = Field(
        default=0.0,
        ge=0,
        description="Seconds after which an episode is ended (`timeout`) to make room, if an address that "
        "holds fewer slots waits for one; 0 = never",
    )
    requests_per_minute: int = Field(
        default=0,
        ge=0,
        description="Requests that one address may send in a minute, OpenEnv messages included; "
        "while something is played they begin one after the other; 0 = no limit, all at once",
    )
    starts_per_minute: int = Field(
        default=30, ge=0, description="Episodes that one address may start in a minute; 0 = no limit"
    )
    starts_per_hour: int = Field(
        default=600,
        ge=0,
        description="Episodes that all visitors together may start in an hour; 0 = no limit",
    )
    publishes_per_minute: int = Field(
        default=30,
        ge=0,
        description="Episodes of its own that one address may show here in a minute; 0 = no limit",
    )
    publishes_per_hour: int = Field(
        default=600, ge=0, description="Episodes that all may show here in an hour; 0 = no limit"
    )
    notes_per_minute: int = Field(
        default=60, ge=0, description="Notes on episodes that one address may give in a minute; 0 = no limit"
    )
    notes_per_hour: int = Field(
        default=1000, ge=0, description="Notes that all may give in an hour; 0 = no limit"
    )
    resets_per_minute: int = Field(
        default=0,
        ge=0,
        description="Episodes that one address may begin in OpenEnv environments in a minute; 0 = no limit",
    )
    resets_per_hour: int = Field(
        default=0, ge=0, description="Episodes that all may begin there in an hour; 0 = no limit"
    )
    openenv_compute_s_per_minute: float = Field(
        default=0.0,
        ge=0,
        description="Seconds that the OpenEnv environments of one address may compute in a minute; "
        "0 = no limit",
    )
    max_reads: int = Field(
        default=8,
        ge=1,
        le=1000,
        description="Records and leaderboards that may be read at once over HTTP; others wait up to 10 s "
        "for their turn",
    )
    max_reads_per_address: int = Field(
        default=4, ge=0, description="The same of one address; 0 = no limit of its own"
    )
    alternatives_s_per_minute: float = Field(
        default=30.0,
        ge=0,
        description="Seconds a minute in which decisions are weighed for one address; 0 = no limit",
    )
    max_viewers: int = Field(default=10_000, ge=0, description="Viewers that may be connected at once")
    max_viewers_per_address: int = Field(
        default=0, ge=0, description="Viewers that may be connected at once from one address; 0 = no limit"
    )
    viewer_backlog_bytes: int = Field(
        default=1024 * 1024,
        ge=64 * 1024,
        description="What may wait for one viewer before it is closed as too slow",
    )
    openenv_max_sessions: int = Field(
        default=64, ge=1, description="Private OpenEnv environments that may be open at once"
    )
    openenv_sessions_per_address: int = Field(
        default=0,
        ge=0,
        description="Sockets at `/ws`, pooled environments and MCP sessions that one address may have open "
        "at once; 0 = no limit",
    )
    openenv_session_idle_s: float = Field(
        default=600.0, gt=0, description="Silence after which a private OpenEnv environment is let go"
    )
    openenv_max_published: int = Field(
        default=16,
        ge=0,
        description="Private OpenEnv episodes that may be shown to everybody at once, where their clients "
        "ask for it with `publish`; 0 shows none",
    )
