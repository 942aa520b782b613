"""Settings of the server, read from the environment.

Only this module of the server reads the process environment.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, ValidationError

from spectator.cast import DEFAULT_LIVE, DEFAULT_PERSON_S
from spectator.errors import ConfigurationError
from spectator.journal.contract import Synchronous
from spectator.narration.voices import CARTESIA_URL, CARTESIA_VOICE, VoiceName
from spectator.policies.spending import CapSettings

from .setting_types import (
    PREFIX,
    BaseUrl,
    ClipsUrl,
    Folder,
    FrameSources,
    JournalUrl,
    ListenUrl,
    OperatorToken,
    OptionLimits,
    Origins,
    PublicUrl,
    TrustedProxies,
    WordList,
)

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
"""Defaults of a server on the internet; docs/settings.md lists them."""

Profile = Literal["open", "public"]


def profile_of(environ: Mapping[str, str]) -> Profile:
    """Return the profile: ``public`` if set or on a Hugging Face Space."""
    space = any(environ.get(name) for name in ("SPACE_ID", "SPACE_HOST"))
    return "public" if environ.get(f"{PREFIX}PROFILE", "public" if space else "open") == "public" else "open"


class PageSettings(BaseModel):
    """Settings of pages; part of ``server.settings.Settings``."""

    exhibition: bool = Field(
        default=True,
        description="Whether two free captains play an exhibition match while no other match runs and the "
        "lobby "
        "or the wall has visitors. It gives its slot to any client that wants one, counts in no limit and "
        "no standings, and keeps 3 records",
    )
    join_assets: bool = Field(
        default=True,
        description="Whether each page's scripts and styles are sent as one file each, without comments; "
        "`false` sends the source files, for development",
    )


ROUTER_URL: Final = "https://router.huggingface.co/v1"


class SignInSettings(BaseModel):
    """Settings of visitors' own models; part of ``server.settings.Settings``."""

    public_url: PublicUrl = Field(
        default=None,
        description="Address at which browsers reach this server, such as `https://spectator.example.org`; "
        "sign-ins return to it. `https://SPACE_HOST` on a Space",
    )
    router_url: BaseUrl = Field(
        default=ROUTER_URL,
        description="Router that is called with the token of visitors who signed in with Hugging Face",
    )
    own_endpoints: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Whether a start may name its own model endpoint, with its key; `auto` allows it in the "
        "open profile on loopback. Elsewhere private, loopback and link-local addresses are rejected",
    )


@dataclass(frozen=True, slots=True)
class OpenIdProvider:
    """The OpenID provider for visitors, from a Space's environment.

    Args:
        url: The provider; its metadata is at ``/.well-known/openid-configuration`` below it.
        public_url: Address of this server that sign-ins return to, without a trailing slash.
    """

    url: str
    client_id: str
    client_secret: SecretStr
    public_url: str


class LimitSettings(BaseModel):
    """Limits of episodes, requests, viewers and environments.

    Part of ``server.settings.Settings``.
    """

    max_episodes: int = Field(default=1, ge=1, le=1000, description="Episodes that may run at once")
    max_waiting: int = Field(
        default=64,
        ge=0,
        le=1000,
        description="Starts that may wait for a slot at once; 0 = starts cannot wait",
    )
    max_waiting_per_address: int = Field(
        default=0, ge=0, description="The same per address; 0 = no limit per address"
    )
    slot_hold_s: float = Field(
        default=0.0,
        ge=0,
        description="Seconds after which an episode is ended (`timeout`) if an address with fewer slots "
        "waits "
        "for one; 0 = never",
    )
    requests_per_minute: int = Field(
        default=0,
        ge=0,
        description="Requests that one address may send per minute, including OpenEnv messages; they start "
        "one after the other while an episode runs; 0 = no limit, all at once",
    )
    starts_per_minute: int = Field(
        default=30, ge=0, description="Episodes that one address may start per minute; 0 = no limit"
    )
    starts_per_hour: int = Field(
        default=600,
        ge=0,
        description="Episodes that all visitors together may start per hour; 0 = no limit",
    )
    publishes_per_minute: int = Field(
        default=30,
        ge=0,
        description="Own episodes that one address may publish per minute; 0 = no limit",
    )
    publishes_per_hour: int = Field(
        default=600,
        ge=0,
        description="Episodes that all visitors together may publish per hour; 0 = no limit",
    )
    notes_per_minute: int = Field(
        default=60, ge=0, description="Notes on episodes that one address may write per minute; 0 = no limit"
    )
    notes_per_hour: int = Field(
        default=1000, ge=0, description="Notes that all visitors together may write per hour; 0 = no limit"
    )
    resets_per_minute: int = Field(
        default=0,
        ge=0,
        description="Episodes that one address may begin in OpenEnv environments per minute; 0 = no limit",
    )
    resets_per_hour: int = Field(
        default=0, ge=0, description="The same for all visitors together per hour; 0 = no limit"
    )
    openenv_compute_s_per_minute: float = Field(
        default=0.0,
        ge=0,
        description="Seconds that the OpenEnv environments of one address may compute per minute; "
        "0 = no limit",
    )
    max_reads: int = Field(
        default=8,
        ge=1,
        le=1000,
        description="Records and leaderboards that may be read at once over HTTP; other requests wait up to "
        "10 s",
    )
    max_reads_per_address: int = Field(
        default=4, ge=0, description="The same per address; 0 = no limit per address"
    )
    alternatives_s_per_minute: float = Field(
        default=30.0,
        ge=0,
        description="Seconds per minute spent on evaluating alternatives for one address; 0 = no limit",
    )
    max_viewers: int = Field(default=10_000, ge=0, description="Viewers that may be connected at once")
    max_viewers_per_address: int = Field(
        default=0, ge=0, description="Viewers that may be connected at once from one address; 0 = no limit"
    )
    viewer_backlog_bytes: int = Field(
        default=1024 * 1024,
        ge=64 * 1024,
        description="Bytes that may wait for one viewer before it is closed as too slow",
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
        default=600.0,
        gt=0,
        description="Seconds without a message after which a private OpenEnv environment is closed",
    )
    openenv_max_published: int = Field(
        default=16,
        ge=0,
        description="Private OpenEnv episodes that may be shown to everyone at once, if their clients ask "
        "for "
        "it with `publish`; 0 shows none",
    )


ALLOWED_PROXIES: Final = "FORWARDED_ALLOW_IPS"
"""uvicorn's variable for trusted proxies."""


class Settings(CapSettings, SignInSettings, PageSettings, LimitSettings, BaseModel):
    """All settings with their defaults; see docs/settings.md.

    >>> Settings.from_environ({"SPECTATOR_PORT": "9000"}).port
    9000
    >>> Settings.from_environ({"SPECTATOR_PROT": "9"})
    Traceback (most recent call last):
        ...
    spectator.errors.ConfigurationError: SPECTATOR_PROT: unknown setting; did you mean ...
    """

    model_config = ConfigDict(extra="forbid", validate_default=True)

    _variables: Mapping[str, str] = PrivateAttr(default_factory=dict)

    profile: Profile = Field(
        default="open",
        description="Which defaults apply: `open` for your own machine, `public` for a server on the "
        "internet; `public` is the default if `SPACE_ID` or `SPACE_HOST` is set",
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one")
    data_dir: Path = Field(default=Path("data"), description="Folder for the journal and the clips")
    runs_dir: Folder = Field(
        default=Path("runs"),
        description="Folder with the folders of rollout runs, which everyone who reaches this server can "
        "watch at `/rollouts`; empty = none",
    )
    environment: str = Field(
        default="cricket",
        pattern=r"^[a-z][a-z0-9_]*$",
        description="Default world, which the OpenEnv routes at the root serve",
    )
    operator_token: OperatorToken | None = Field(
        default=None,
        description="Bearer token of the operator, at least 16 characters, who may control all matches and "
        "spend money. Without one everyone may control matches (public profile: only the address that "
        "started one), and only this machine may spend money",
    )
    allowed_origins: Origins = Field(
        default=(),
        description="Further origins, such as https://example.org, whose pages may post and open sockets; "
        "a Space's own host is added automatically",
    )
    frame_ancestors: FrameSources = Field(
        default=("'self'", "https://huggingface.co", "https://*.hf.space"),
        description="Sites that may show the pages in a frame, as in the CSP directive of this name",
    )
    worlds: WordList = Field(
        default=(),
        description="Worlds that visitors without the operator's token may start; empty = all",
    )
    option_limits: OptionLimits = Field(
        default=(),
        description="Largest values of options for clients without the operator's token, such as "
        "`max_overs=20 turns=500`, in every world that has the option",
    )
    captains_file: Path | None = Field(
        default=None,
        description="TOML file with your model captains, see docs/captains.md; keys are read from the "
        "variables that it names",
    )
    llm_live: str = Field(
        default=DEFAULT_LIVE,
        pattern=r"^llm:[a-z0-9._-]{1,48}$",
        description="Model captain that plays as the opponent `llm_live`",
    )
    decision_timeout_s: float = Field(
        default=120.0, gt=0, description="Longest wait for one decision, in seconds"
    )
    person_decision_s: float = Field(
        default=DEFAULT_PERSON_S,
        ge=5,
        le=3600,
        description="Seconds that a person has for one decision before the fallback decides; capped by "
        "`SPECTATOR_DECISION_TIMEOUT_S`",
    )
    step_timeout_s: float = Field(
        default=30.0, gt=0, description="Longest wait for one step of a world, in seconds"
    )
    reset_timeout_s: float = Field(
        default=60.0, gt=0, description="Longest wait for a world to begin, in seconds"
    )
    episode_timeout_s: float = Field(
        default=6 * 3600.0, gt=0, description="Longest play of one episode without pauses, in seconds"
    )
    episode_mb: float = Field(
        default=256,
        gt=0,
        description="Million characters of one episode's record after which it is cut short (`step_cap`)",
    )
    recorded_mb_per_hour: float = Field(
        default=0.0,
        ge=0,
        description="Million characters that the episodes of one address may record per hour; beyond that it "
        "cannot start, fork, publish or reset episodes until some are an hour old; 0 = no limit",
    )
    keep_episodes: int = Field(
        default=0, ge=0, description="Ended episodes that are kept, newest first; 0 = all"
    )
    keep_days: float = Field(
        default=0, ge=0, description="Days that an episode is kept after its end; 0 = forever"
    )
    keep_mb: float = Field(
        default=0,
        ge=0,
        description="Million bytes that the journal may take before the oldest ended episodes are removed; "
        "unfinished episodes may take half of that and are cut short (`step_cap`) beyond; 0 = no limit",
    )
    journal_url: JournalUrl = Field(
        default=None,
        description="PostgreSQL database of the journal, so that several servers share it, instead of a file "
        "in the data folder: `postgresql://user:password@host/database`; see docs/scale.md",
    )
    journal_listen_url: ListenUrl = Field(
        default=None,
        description="Direct address of the PostgreSQL for notices between servers, if "
        "`SPECTATOR_JOURNAL_URL` leads to a connection pooler",
    )
    journal_patience_s: float = Field(
        default=600.0,
        gt=0,
        description="Seconds that an episode waits while its record cannot be written, as on a full disk, "
        "before it is ended with that reason",
    )
    journal_synchronous: Synchronous = Field(
        default="normal",
        description="Whether every step waits for the disk: normal = no, steps survive a crash of the "
        "process, but a power failure may lose the last ones; full = yes, steps survive both",
    )
    trusted_hops: int = Field(
        default=0,
        ge=0,
        le=16,
        description="Proxies between server and internet, each of which appends to `X-Forwarded-For`: "
        "the client's address is the entry that many from the right; 0 = none, or "
        "`SPECTATOR_TRUSTED_PROXIES` names them",
    )
    trusted_proxies: TrustedProxies = Field(
        default=(),
        description="Addresses or networks, such as 10.0.0.0/8, of the proxies whose `X-Forwarded-*` headers "
        "are trusted: the client is the last entry that is not one of them",
    )
    shutdown_grace_s: float = Field(
        default=2.0, gt=0, le=60, description="Seconds that running requests may take during a shutdown"
    )
    voice: VoiceName = Field(
        default="auto",
        description="Voice of the commentary: `cartesia` (needs a key), `neural` (needs the extra "
        "`voice-neural`), `espeak` (needs espeak-ng), each viewer's `browser`, or `silent`; `auto` uses the "
        "first available one",
    )
    voice_answers: bool = Field(
        default=True, description="Whether a second, free commentator answers the first one"
    )
    voice_breathing: bool = Field(
        default=False,
        description="Whether play at the broadcast pace waits up to 2.5 s for the commentary at big moments",
    )
    voice_day_characters: int = Field(
        default=200_000,
        ge=0,
        description="Characters that paid voices may be sent per day, UTC; 0 = no limit",
    )
    voice_episode_characters: int = Field(
        default=50_000,
        ge=0,
        description="Characters that paid voices may be sent per episode; 0 = no limit",
    )
    clips_mb: int = Field(
        default=64,
        ge=1,
        description="Megabytes of spoken clips that are kept; the least recently used are removed first",
    )
    clips_url: ClipsUrl = Field(
        default=None,
        description="Folder or bucket in which several servers share spoken clips, as an fsspec URL such as "
        "`s3://bucket/clips` or `file:///mnt/clips`; each server also keeps the clips it needs in its own "
        "folder",
    )
    cartesia_api_key: SecretStr | None = Field(
        default=None, min_length=8, description="API key of Cartesia; `CARTESIA_API_KEY` is read too"
    )
    cartesia_voice_id: str = Field(
        default=CARTESIA_VOICE, pattern=r"^[A-Za-z0-9-]{1,64}$", description="Cartesia's id of the voice"
    )
    cartesia_base_url: str = Field(
        default=CARTESIA_URL, pattern=r"^https?://[^\s/]+$", description="Base URL of Cartesia"
    )
    traces: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Whether decisions and model calls are traced over OTLP/HTTP (the extra `otel`); `auto` "
        "does so if `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set",
    )
    trace_content: bool = Field(
        default=False, description="Whether traces include prompts and replies of models"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe level of log lines"
    )
    log_format: Literal["auto", "text", "json"] = Field(
        default="auto",
        description="Format of the log; `auto` is text on a terminal, otherwise one JSON object per line",
    )

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def openid_provider(self) -> OpenIdProvider | None:
        """The OpenID provider; ``None`` if the environment does not define all of it."""
        names = ("OPENID_PROVIDER_URL", "OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET")
        url, client_id, secret = (self._variables.get(name, "") for name in names)
        host = self._variables.get("SPACE_HOST")
        public_url = self.public_url or (f"https://{host}" if host else None)
        if not (url and client_id and secret and public_url):
            return None
        return OpenIdProvider(url.rstrip("/"), client_id, SecretStr(secret), public_url)

    @property
    def asks_private_endpoints(self) -> bool:
        """Whether endpoints named in a start may be on this machine or in its network."""
        return self.profile == "open" and self.on_loopback

    @property
    def offers_own_endpoints(self) -> bool:
        """Whether a start may name its own endpoint."""
        return self.own_endpoints == "on" or (self.own_endpoints == "auto" and self.asks_private_endpoints)

    @property
    def variables(self) -> Mapping[str, str]:
        """All environment variables, which hold API keys; never shown with the settings."""
        return self._variables

    def with_variables(self, variables: Mapping[str, str]) -> Self:
        """Return the same settings with these environment variables."""
        copy = self.model_copy()
        copy._variables = dict(variables)
        return copy

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings from environment variables.

        Args:
            environ: All variables; those without our prefix are ignored, except for ``SPACE_HOST`` and
                ``CARTESIA_API_KEY``.

        Raises:
            ConfigurationError: Names every variable that is unknown or invalid.
        """
        names = {f"{PREFIX}{name}".upper(): name for name in cls.model_fields}
        ours = [name for name in environ if name.startswith(PREFIX)]
        problems = [_unknown(name.removeprefix(PREFIX)) for name in ours if name not in names]
        if "*" in environ.get(ALLOWED_PROXIES, ""):
            problems.append(
                f"{ALLOWED_PROXIES}: * would trust any address that a client claims; set "
                f"{PREFIX}TRUSTED_HOPS to the number of proxies in front of the server"
            )
        given = {names[name]: environ[name] for name in ours if name in names}
        known: dict[str, Any] = dict(given)
        if profile_of(environ) == "public":
            known = {"profile": "public", **PUBLIC, **known}
            if "trusted_proxies" in known or environ.get(ALLOWED_PROXIES):
                known["trusted_hops"] = given.get("trusted_hops", 0)
            if "operator_token" not in known:
                known.setdefault("openenv_max_published", 0)
        if proxies := environ.get(ALLOWED_PROXIES):
            known.setdefault("trusted_proxies", proxies)
        if key := environ.get("CARTESIA_API_KEY"):
            known.setdefault("cartesia_api_key", key)
        if host := environ.get("SPACE_HOST"):
            known["allowed_origins"] = f"{known.get('allowed_origins', '')} https://{host}"
        if url := known.get("public_url"):
            known["allowed_origins"] = f"{known.get('allowed_origins', '')} {url}"
        try:
            settings = cls.model_validate(known)
        except ValidationError as error:
            problems += [
                f"{PREFIX}{'.'.join(map(str, problem['loc'])).upper()}: "
                f"{problem['msg'].removeprefix('Value error, ')}"
                for problem in error.errors(include_input=False)
            ]
        if problems:
            raise ConfigurationError("; ".join(problems))
        return settings.with_variables(environ)


def is_loopback(host: str) -> bool:
    """Whether ``host``, a name or an address, is loopback."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_environment(**given: str | None) -> Settings:
    """Read the settings from the process environment.

    Args:
        given: Overrides by setting, such as from a command line; ``None`` means not given.

    Raises:
        ConfigurationError: See :meth:`Settings.from_environ`.
    """
    overrides = {f"{PREFIX}{name.upper()}": text for name, text in given.items() if text is not None}
    return Settings.from_environ({**os.environ, **overrides})


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.upper(), [field.upper() for field in Settings.model_fields], n=1)
    hint = f"; did you mean {PREFIX}{near[0]}?" if near else "; docs/settings.md lists all settings"
    return f"{PREFIX}{name}: unknown setting{hint}"


def welcome(settings: Settings, host: str, port: int) -> str:
    """Return the lines that are printed once the server listens.

    >>> print(welcome(Settings(), "127.0.0.1", 8000))
    Spectator is at http://127.0.0.1:8000
    open to this machine: starts (1 at once), stops and pauses by everyone; models and paid voices too
    """
    shown = f"[{host}]" if ":" in host else host
    return f"Spectator is at http://{shown}:{port}\n{_open_to(settings)}"


def _open_to(settings: Settings) -> str:
    token = settings.operator_token is not None
    whom = "this machine" if settings.on_loopback else "everyone who reaches it"
    hourly = "" if settings.profile == "open" else f", {settings.starts_per_hour} an hour"
    starts = f"starts ({settings.max_episodes} at once{hourly})"
    if settings.profile == "public":
        control = "stops and pauses by the client that started the episode"
        control += " and by the operator" if token else ""
    else:
        control = "stops and pauses by the operator" if token else "stops and pauses by everyone"
    if token:
        money = "models and paid voices by the operator"
    elif settings.on_loopback:
        money = "models and paid voices too"
    else:
        money = "no models and no paid voices (set SPECTATOR_OPERATOR_TOKEN)"
    profile = "" if settings.profile == "open" else "; public profile, see docs/settings.md"
    return f"open to {whom}: {starts}, {control}; {money}{profile}"
