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
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, SecretStr, ValidationError

from spectator.cast import DEFAULT_LIVE, DEFAULT_PERSON_S
from spectator.errors import ConfigurationError
from spectator.journal.contract import Synchronous
from spectator.narration.voices import CARTESIA_URL, CARTESIA_VOICE, VoiceName
from spectator.policies.cap_settings import CapSettings

from .setting_types import (
    PREFIX,
    BaseUrl,
    ClipsUrl,
    Folder,
    FrameSources,
    HostNames,
    JournalUrl,
    ListenUrl,
    LogLevel,
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
    "max_connections_per_address": 256,
    "openenv_sessions_per_address": 16,
    "publishes_per_minute": 6,
    "publishes_per_hour": 120,
    "resets_per_minute": 300,
    "resets_per_hour": 20_000,
    "openenv_compute_s_per_minute": 30.0,
    "option_limits": ("max_overs=20", "forecast_futures=1000", "turns=500", "payload_bytes=4096"),
    "trusted_hops": 1,
    "league": True,
}
"""Defaults of a server on the internet; docs/settings.md lists them."""

Profile = Literal["open", "public"]


def profile_of(environ: Mapping[str, str]) -> Profile:
    """Return the profile: ``public`` if set or on a Hugging Face Space."""
    space = any(environ.get(name) for name in ("SPACE_ID", "SPACE_HOST"))
    return "public" if environ.get(f"{PREFIX}PROFILE", "public" if space else "open") == "public" else "open"


ROUTER_URL: Final = "https://router.huggingface.co/v1"


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


ALLOWED_PROXIES: Final = "FORWARDED_ALLOW_IPS"
"""uvicorn's variable for trusted proxies."""


class Settings(CapSettings):
    """All settings with their defaults; see docs/settings.md.

    >>> Settings.from_environ({"SPECTATOR_PORT": "9000"}).port
    9000
    >>> Settings.from_environ({"SPECTATOR_PROT": "9"})
    Traceback (most recent call last):
        ...
    spectator.errors.ConfigurationError: SPECTATOR_PROT: unknown setting; did you mean ...
    """

    model_config = ConfigDict(
        extra="forbid", validate_default=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    _variables: Mapping[str, str] = PrivateAttr(default_factory=dict)

    profile: Profile = "open"
    """Which defaults apply: `open` for your own machine, `public` for a server on the internet; `public` is
    the default if `SPACE_ID` or `SPACE_HOST` is set."""
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 takes a free one."""
    data_dir: Path = Path("data")
    """Folder for the journal and the clips."""
    runs_dir: Folder = Path("runs")
    """Folder with the folders of rollout runs, which everyone who reaches this server can watch at
    `/rollouts`; empty = none."""
    environment: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] = "cricket"
    """Default world, which the OpenEnv routes at the root serve."""
    operator_token: OperatorToken | None = None
    """Bearer token of the operator, at least 16 characters, who may control all matches and spend money.
    Without one everyone may control matches (public profile: only the address that started one), and only
    this machine may spend money."""
    allowed_origins: Origins = ()
    """Further origins, such as https://example.org, whose pages may post and open sockets; a Space's own host
    is added automatically."""
    allowed_hosts: HostNames = ()
    """Further host names at which clients may reach this server, such as `spectator.example.org
    *.example.org`; `*` = any, the default in the public profile unless `SPECTATOR_PUBLIC_URL` is set.
    Addresses, the machine's own name, names without a dot, `*.localhost`, `*.local`, `*.internal` and the
    hosts of allowed origins are always allowed. Other names are rejected, since a foreign page could make its
    own name resolve to this server."""
    frame_ancestors: FrameSources = ("'self'", "https://huggingface.co", "https://*.hf.space")
    """Sites that may show the pages in a frame, as in the CSP directive of this name."""
    worlds: WordList = ()
    """Worlds that visitors without the operator's token may start; empty = all."""
    option_limits: OptionLimits = ()
    """Largest values of options for clients without the operator's token, such as `max_overs=20 turns=500`,
    in every world that has the option."""
    captains_file: Path | None = None
    """TOML file with your model captains, see docs/captains.md; keys are read from the variables that it
    names."""
    llm_live: Annotated[str, Field(pattern=r"^llm:[a-z0-9._-]{1,48}$")] = DEFAULT_LIVE
    """Model captain that plays as the opponent `llm_live`."""
    decision_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    """Longest wait for one decision, in seconds."""
    person_decision_s: Annotated[float, Field(ge=5, le=3600)] = DEFAULT_PERSON_S
    """Seconds that a person has for one decision before the fallback decides; capped by
    `SPECTATOR_DECISION_TIMEOUT_S`."""
    step_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    """Longest wait for one step of a world, in seconds."""
    reset_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """Longest wait for a world to begin, in seconds."""
    episode_timeout_s: Annotated[float, Field(gt=0)] = 6 * 3600.0
    """Longest play of one episode without pauses, in seconds."""
    episode_mb: Annotated[float, Field(gt=0)] = 256
    """Million characters of one episode's record after which it is cut short (`step_cap`)."""
    recorded_mb_per_hour: Annotated[float, Field(ge=0)] = 0.0
    """Million characters that the episodes of one address may record per hour; beyond that it cannot start,
    fork, publish or reset episodes until some are an hour old; 0 = no limit."""
    keep_episodes: Annotated[int, Field(ge=0)] = 0
    """Ended episodes that are kept, newest first; 0 = all."""
    keep_days: Annotated[float, Field(ge=0)] = 0
    """Days that an episode is kept after its end; 0 = forever."""
    keep_mb: Annotated[float, Field(ge=0)] = 0
    """Million bytes that the journal may take before the oldest ended episodes are removed; unfinished
    episodes may take half of that and are cut short (`step_cap`) beyond; 0 = no limit."""
    journal_url: JournalUrl = None
    """PostgreSQL database of the journal, so that several servers share it, instead of a file in the data
    folder: `postgresql://user:password@host/database`; see docs/scale.md."""
    journal_listen_url: ListenUrl = None
    """Direct address of the PostgreSQL for notices between servers, if `SPECTATOR_JOURNAL_URL` leads to a
    connection pooler."""
    journal_patience_s: Annotated[float, Field(gt=0)] = 600.0
    """Seconds that an episode waits while its record cannot be written, as on a full disk, before it is ended
    with that reason."""
    journal_synchronous: Synchronous = "normal"
    """Whether every step waits for the disk: normal = no, steps survive a crash of the process, but a power
    failure may lose the last ones; full = yes, steps survive both."""
    trusted_hops: Annotated[int, Field(ge=0, le=16)] = 0
    """Proxies between server and internet, each of which appends to `X-Forwarded-For`: the client's address
    is the entry that many from the right; 0 = none, or `SPECTATOR_TRUSTED_PROXIES` names them."""
    trusted_proxies: TrustedProxies = ()
    """Addresses or networks, such as 10.0.0.0/8, of the proxies whose `X-Forwarded-*` headers are trusted:
    the client is the last entry that is not one of them."""
    shutdown_grace_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    """Seconds that running requests may take during a shutdown."""
    voice: VoiceName = "auto"
    """Voice of the commentary: `cartesia` (needs a key), `neural` (needs the extra `voice-neural`), `espeak`
    (needs espeak-ng), each viewer's `browser`, or `silent`; `auto` uses the first available one."""
    voice_answers: bool = True
    """Whether a second, free commentator answers the first one."""
    voice_breathing: bool = False
    """Whether play at the broadcast pace waits up to 2.5 s for the commentary at big moments."""
    voice_day_characters: Annotated[int, Field(ge=0)] = 200_000
    """Characters that paid voices may be sent per day, UTC; 0 = no limit."""
    voice_episode_characters: Annotated[int, Field(ge=0)] = 50_000
    """Characters that paid voices may be sent per episode; 0 = no limit."""
    clips_mb: Annotated[int, Field(ge=1)] = 64
    """Megabytes of spoken clips that are kept; the least recently used are removed first."""
    clips_url: ClipsUrl = None
    """Folder or bucket in which several servers share spoken clips, as an fsspec URL such as
    `s3://bucket/clips` or `file:///mnt/clips`; each server also keeps the clips it needs in its own
    folder."""
    cartesia_api_key: Annotated[SecretStr | None, Field(min_length=8)] = None
    """API key of Cartesia; `CARTESIA_API_KEY` is read too."""
    cartesia_voice_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")] = CARTESIA_VOICE
    """Cartesia's id of the voice."""
    cartesia_base_url: Annotated[str, Field(pattern=r"^https?://[^\s/]+$")] = CARTESIA_URL
    """Base URL of Cartesia."""
    traces: Literal["auto", "on", "off"] = "auto"
    """Whether decisions and model calls are traced over OTLP/HTTP (the extra `otel`); `auto` does so if
    `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set."""
    trace_content: bool = False
    """Whether traces include prompts and replies of models."""
    log_level: LogLevel = "info"
    """Least severe level of log lines."""
    log_format: Literal["auto", "text", "json"] = "auto"
    """Format of the log; `auto` is text on a terminal, otherwise one JSON object per line."""
    max_episodes: Annotated[int, Field(ge=1, le=1000)] = 1
    """Episodes that may run at once."""
    max_waiting: Annotated[int, Field(ge=0, le=1000)] = 64
    """Starts that may wait for a slot at once; 0 = starts cannot wait."""
    max_waiting_per_address: Annotated[int, Field(ge=0)] = 0
    """The same per address; 0 = no limit per address."""
    slot_hold_s: Annotated[float, Field(ge=0)] = 0.0
    """Seconds after which an episode is ended (`timeout`) if an address with fewer slots waits for one; 0 =
    never."""
    requests_per_minute: Annotated[int, Field(ge=0)] = 0
    """Requests that one address may send per minute, including OpenEnv messages; they start one after the
    other while an episode runs; 0 = no limit, all at once."""
    starts_per_minute: Annotated[int, Field(ge=0)] = 30
    """Episodes that one address may start per minute; 0 = no limit."""
    starts_per_hour: Annotated[int, Field(ge=0)] = 600
    """Episodes that all visitors together may start per hour; 0 = no limit."""
    publishes_per_minute: Annotated[int, Field(ge=0)] = 30
    """Own episodes that one address may publish per minute; 0 = no limit."""
    publishes_per_hour: Annotated[int, Field(ge=0)] = 600
    """Episodes that all visitors together may publish per hour; 0 = no limit."""
    notes_per_minute: Annotated[int, Field(ge=0)] = 60
    """Notes on episodes that one address may write per minute; 0 = no limit."""
    notes_per_hour: Annotated[int, Field(ge=0)] = 1000
    """Notes that all visitors together may write per hour; 0 = no limit."""
    votes_per_minute: Annotated[int, Field(ge=0)] = 60
    """Votes on decisions that viewers at one address may give per minute; 0 = no limit."""
    resets_per_minute: Annotated[int, Field(ge=0)] = 0
    """Episodes that one address may begin in OpenEnv environments per minute; 0 = no limit."""
    resets_per_hour: Annotated[int, Field(ge=0)] = 0
    """The same for all visitors together per hour; 0 = no limit."""
    openenv_compute_s_per_minute: Annotated[float, Field(ge=0)] = 0.0
    """Seconds that the OpenEnv environments of one address may compute per minute; 0 = no limit."""
    max_reads: Annotated[int, Field(ge=1, le=1000)] = 8
    """Records and leaderboards that may be read at once over HTTP; other requests wait up to 10 s."""
    max_reads_per_address: Annotated[int, Field(ge=0)] = 4
    """The same per address; 0 = no limit per address."""
    alternatives_s_per_minute: Annotated[float, Field(ge=0)] = 30.0
    """Seconds per minute spent on evaluating alternatives for one address; 0 = no limit."""
    max_viewers: Annotated[int, Field(ge=0)] = 10_000
    """Viewers that may be connected at once."""
    max_viewers_per_address: Annotated[int, Field(ge=0)] = 0
    """Viewers that may be connected at once from one address; 0 = no limit."""
    max_connections_per_address: Annotated[int, Field(ge=0)] = 0
    """HTTP connections of one address, besides its viewers; its oldest idle one is closed for another. 0 = no
    limit; not applied to loopback and behind proxies."""
    viewer_backlog_bytes: Annotated[int, Field(ge=64 * 1024)] = 1024 * 1024
    """Bytes that may wait for one viewer before it is closed as too slow."""
    openenv_max_sessions: Annotated[int, Field(ge=1)] = 64
    """Private OpenEnv environments that may be open at once."""
    openenv_sessions_per_address: Annotated[int, Field(ge=0)] = 0
    """Sockets at `/ws`, pooled environments and MCP sessions that one address may have open at once; 0 = no
    limit."""
    openenv_session_idle_s: Annotated[float, Field(gt=0)] = 600.0
    """Seconds without a message after which a private OpenEnv environment is closed."""
    openenv_max_published: Annotated[int, Field(ge=0)] = 16
    """Private OpenEnv episodes that may be shown to everyone at once, if their clients ask for it with
    `publish`; 0 shows none."""
    exhibition: bool = True
    """Whether two free captains play an exhibition match while no other match runs and the lobby or the wall
    has visitors. It gives its slot to any client that wants one, counts in no limit and no standings, and
    keeps 3 records."""
    league: bool = False
    """Whether captains play a league instead of exhibitions, with or without visitors; on in the public
    profile. Its matches give their slot to any client that wants one and are then played again, and the
    records of two seasons are kept; see docs/operator.md."""
    league_captains: WordList = ()
    """Captains of the league, 2 to 16, such as `planner trained llm:ollama`; models count in the limits of a
    day. Empty = the world's own captains worth watching, all free of charge."""
    league_legs: Annotated[int, Field(ge=1, le=2)] = 2
    """How often each captain of the league meets each other one in a season, in swapped seats."""
    league_pace: Literal["broadcast", "fast", "max"] = "broadcast"
    """Pace of the league's matches."""
    join_assets: bool = True
    """Whether each page's scripts and styles are sent as one file each, without comments; `false` sends the
    source files, for development."""
    public_url: PublicUrl = None
    """Address at which browsers reach this server, such as `https://spectator.example.org`; sign-ins return
    to it, and cards and embedded strips name it. `https://SPACE_HOST` on a Space."""
    router_url: BaseUrl = ROUTER_URL
    """Router that is called with the token of visitors who signed in with Hugging Face."""
    own_endpoints: Literal["auto", "on", "off"] = "auto"
    """Whether a start may name its own model endpoint, with its key; `auto` allows it in the open profile on
    loopback. Elsewhere private, loopback and link-local addresses are rejected."""

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def openid_provider(self) -> OpenIdProvider | None:
        """The OpenID provider; ``None`` if the environment does not define all of it."""
        names = ("OPENID_PROVIDER_URL", "OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET")
        url, client_id, secret = (self._variables.get(name, "") for name in names)
        if not (url and client_id and secret and self.canonical_url):
            return None
        return OpenIdProvider(url.rstrip("/"), client_id, SecretStr(secret), self.canonical_url)

    @property
    def canonical_url(self) -> str | None:
        """The address at which browsers reach this server, if it is known."""
        host = self._variables.get("SPACE_HOST")
        return self.public_url or (f"https://{host}" if host else None)

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
            if not known.get("public_url"):
                known.setdefault("allowed_hosts", "*")
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
    return host.lower() == "localhost" or (
        is_address(host) and ipaddress.ip_address(host.strip("[]")).is_loopback
    )


def is_address(host: str) -> bool:
    """Whether ``host`` is an IP address, not a name."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def read_environment(**given: str | None) -> Settings:
    """Read the settings from the process environment.

    Args:
        given: Overrides by setting, such as from a command line; ``None`` means not given.
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
