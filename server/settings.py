"""Settings of the server, and what they open to whom.

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
"""Defaults of a server that strangers reach; docs/settings.md lists them."""

Profile = Literal["open", "public"]


def profile_of(environ: Mapping[str, str]) -> Profile:
    """For whom the server's defaults are: ``public`` for strangers, on a Hugging Face Space by itself."""
    space = any(environ.get(name) for name in ("SPACE_ID", "SPACE_HOST"))
    return "public" if environ.get(f"{PREFIX}PROFILE", "public" if space else "open") == "public" else "open"


class PageSettings(BaseModel):
    """How pages are sent; part of ``server.settings.Settings``."""

    exhibition: bool = Field(
        default=True,
        description="Whether two captains who cost nothing play while there is no other match and somebody "
        "looks at the lobby or the wall. It gives its slot to anyone who wants one, counts in no limit and "
        "no standings, and keeps 3 records",
    )
    join_assets: bool = Field(
        default=True,
        description="Whether each page's scripts and styles are sent as one file each, without comments; "
        "`false` sends them as they are written, for whoever works on them",
    )


ROUTER_URL: Final = "https://router.huggingface.co/v1"


class SignInSettings(BaseModel):
    """Which models of their own visitors may bring; part of ``server.settings.Settings``."""

    public_url: PublicUrl = Field(
        default=None,
        description="Address at which browsers reach this server, such as `https://spectator.example.org`: "
        "sign-ins return there; `https://SPACE_HOST` on a Space",
    )
    router_url: BaseUrl = Field(
        default=ROUTER_URL,
        description="Router that is asked with the token of visitors who signed in with Hugging Face",
    )
    own_endpoints: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Whether a start may name a model endpoint of its own, with its key; `auto` does so in "
        "the open profile on loopback. Elsewhere private, loopback and link-local addresses are refused",
    )


@dataclass(frozen=True, slots=True)
class OpenIdProvider:
    """Where visitors sign in, as a Space's environment names it.

    Args:
        url: The provider; its metadata is at ``/.well-known/openid-configuration`` below it.
        client_id: The application's name there.
        client_secret: Its secret.
        public_url: Address of this server that the sign-in returns to, without a slash at its end.
    """

    url: str
    client_id: str
    client_secret: SecretStr
    public_url: str


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


ALLOWED_PROXIES: Final = "FORWARDED_ALLOW_IPS"
"""uvicorn's name for the proxies that are trusted."""


class Settings(CapSettings, SignInSettings, PageSettings, LimitSettings, BaseModel):
    """Everything that can be set, with its default; see docs/settings.md.

    >>> Settings.from_environ({"SPECTATOR_PORT": "9000"}).port
    9000
    >>> Settings.from_environ({"SPECTATOR_PROT": "9"})
    Traceback (most recent call last):
        ...
    spectator.errors.ConfigurationError: SPECTATOR_PROT: there is no such setting; did you mean ...
    """

    model_config = ConfigDict(extra="forbid", validate_default=True)

    _variables: Mapping[str, str] = PrivateAttr(default_factory=dict)

    profile: Profile = Field(
        default="open",
        description="Whose defaults hold: `open` for a machine of one's own, `public` for a server that "
        "strangers reach, which is the default where `SPACE_ID` or `SPACE_HOST` is set",
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one")
    data_dir: Path = Field(default=Path("data"), description="Folder for the journal and the clips")
    runs_dir: Folder = Field(
        default=Path("runs"),
        description="Folder whose folders hold runs of rollouts, to be watched at `/rollouts` by everybody "
        "who reaches this server; empty = none are",
    )
    environment: str = Field(
        default="cricket",
        pattern=r"^[a-z][a-z0-9_]*$",
        description="World that plays when none is asked for, and that the OpenEnv routes at the root serve",
    )
    operator_token: OperatorToken | None = Field(
        default=None,
        description="Bearer token, 16 characters or more, of whoever may stop or slow a match or spend "
        "money; without one, control is open (public profile: to the address that started a match alone) and "
        "nothing that costs money runs beyond this machine",
    )
    allowed_origins: Origins = Field(
        default=(),
        description="Further origins, such as https://example.org, whose pages may post and open sockets; "
        "a Space's own host is added by itself",
    )
    frame_ancestors: FrameSources = Field(
        default=("'self'", "https://huggingface.co", "https://*.hf.space"),
        description="Who may show the pages in a frame, as in the CSP directive of this name",
    )
    worlds: WordList = Field(
        default=(),
        description="Worlds that visitors without the operator's token may start; none named = all of them",
    )
    option_limits: OptionLimits = Field(
        default=(),
        description="Largest values of options for whoever lacks the operator's token, such as "
        "`max_overs=20 turns=500`, in whichever world has an option of that name",
    )
    captains_file: Path | None = Field(
        default=None,
        description="TOML file with model captains of your own, see docs/captains.md; keys are read from the "
        "variables that it names",
    )
    llm_live: str = Field(
        default=DEFAULT_LIVE,
        pattern=r"^llm:[a-z0-9._-]{1,48}$",
        description="Model captain that plays as the opponent `llm_live`",
    )
    decision_timeout_s: float = Field(default=120.0, gt=0, description="Longest wait for one decision")
    person_decision_s: float = Field(
        default=DEFAULT_PERSON_S,
        ge=5,
        le=3600,
        description="Seconds that a person has for one decision before the fallback decides; never more "
        "than `SPECTATOR_DECISION_TIMEOUT_S` leaves",
    )
    step_timeout_s: float = Field(default=30.0, gt=0, description="Longest wait for one step of a world")
    reset_timeout_s: float = Field(default=60.0, gt=0, description="Longest wait for a world to begin")
    episode_timeout_s: float = Field(
        default=6 * 3600.0, gt=0, description="Longest play of one episode, pauses left out"
    )
    episode_mb: float = Field(
        default=256,
        gt=0,
        description="Million characters of one episode's record after which it is cut short (`step_cap`)",
    )
    recorded_mb_per_hour: float = Field(
        default=0.0,
        ge=0,
        description="Million characters that the episodes of one address may record in an hour; then it may "
        "start, fork, show and reset none until less of them is so fresh; 0 = no limit",
    )
    keep_episodes: int = Field(
        default=0, ge=0, description="Ended episodes that are kept, the newest ones; 0 = all of them"
    )
    keep_days: float = Field(
        default=0, ge=0, description="Days that an episode is kept after its end; 0 = for ever"
    )
    keep_mb: float = Field(
        default=0,
        ge=0,
        description="Million bytes that the journal may take before the oldest ended episodes are removed; "
        "what has not ended may take half of them and is cut short (`step_cap`) beyond; 0 = no limit",
    )
    journal_url: JournalUrl = Field(
        default=None,
        description="PostgreSQL that holds the journal instead of a file in the folder, so that several "
        "servers share it: `postgresql://user:password@host/database`; see docs/scale.md",
    )
    journal_listen_url: ListenUrl = Field(
        default=None,
        description="Where servers that share a journal hear of each other's steps at once: the address of "
        "that PostgreSQL itself, where a pooler stands between it and `SPECTATOR_JOURNAL_URL`",
    )
    journal_patience_s: float = Field(
        default=600.0,
        gt=0,
        description="How long an episode stands still while its record cannot be written, as on a full disk, "
        "before it is ended with that reason",
    )
    journal_synchronous: Synchronous = Field(
        default="normal",
        description="Whether every step waits for the disk: normal = no, a step survives the death of the "
        "process, but a power cut may lose the last ones; full = yes, it survives that, too",
    )
    trusted_hops: int = Field(
        default=0,
        ge=0,
        le=16,
        description="Proxies between server and internet, each of which appends to `X-Forwarded-For`: "
        "the client's address is the entry that many from the right; 0 = there are none, or "
        "`SPECTATOR_TRUSTED_PROXIES` names them",
    )
    trusted_proxies: TrustedProxies = Field(
        default=(),
        description="Addresses or networks, such as 10.0.0.0/8, of the proxies whose `X-Forwarded-*` are "
        "believed: the client is the last entry that is not one of them",
    )
    shutdown_grace_s: float = Field(
        default=2.0, gt=0, le=60, description="How long requests under way may take once the server must go"
    )
    voice: VoiceName = Field(
        default="auto",
        description="Who speaks the commentary: `cartesia` (needs a key), `neural` (needs the extra "
        "`voice-neural`), `espeak` (needs espeak-ng), each viewer's `browser`, or nobody (`silent`); `auto` "
        "takes the first of these that is to be had",
    )
    voice_answers: bool = Field(
        default=True, description="Whether a second commentator answers the first one, at no cost"
    )
    voice_breathing: bool = Field(
        default=False,
        description="Whether play at the broadcast pace waits up to 2.5 s for the words at big moments",
    )
    voice_day_characters: int = Field(
        default=200_000,
        ge=0,
        description="Characters that paid voices may be sent in a day, UTC; 0 = no limit",
    )
    voice_episode_characters: int = Field(
        default=50_000,
        ge=0,
        description="Characters that paid voices may be sent for one episode; 0 = no limit",
    )
    clips_mb: int = Field(
        default=64, ge=1, description="Most megabytes of spoken clips that are kept; the least used go first"
    )
    clips_url: ClipsUrl = Field(
        default=None,
        description="Folder or bucket in which several servers share their spoken clips, as a URL of fsspec "
        "such as `s3://bucket/clips` or `file:///mnt/clips`; each keeps what it needs in its own folder, too",
    )
    cartesia_api_key: SecretStr | None = Field(
        default=None, min_length=8, description="Key for Cartesia; `CARTESIA_API_KEY` is read too"
    )
    cartesia_voice_id: str = Field(
        default=CARTESIA_VOICE, pattern=r"^[A-Za-z0-9-]{1,64}$", description="Cartesia's id of the voice"
    )
    cartesia_base_url: str = Field(
        default=CARTESIA_URL, pattern=r"^https?://[^\s/]+$", description="Where Cartesia is"
    )
    traces: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Whether decisions and model calls are traced over OTLP/HTTP (the extra `otel`); `auto` "
        "does so where `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set",
    )
    trace_content: bool = Field(
        default=False, description="Whether traces carry what models were asked and what they answered"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe kind of log line that is written"
    )
    log_format: Literal["auto", "text", "json"] = Field(
        default="auto", description="Form of the log; `auto` is text on a terminal, else one JSON a line"
    )

    @property
    def on_loopback(self) -> bool:
        """Whether the server listens only to its own machine."""
        return is_loopback(self.host)

    @property
    def openid_provider(self) -> OpenIdProvider | None:
        """Where visitors sign in; ``None`` where the environment does not name all of it."""
        names = ("OPENID_PROVIDER_URL", "OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET")
        url, client_id, secret = (self._variables.get(name, "") for name in names)
        host = self._variables.get("SPACE_HOST")
        public_url = self.public_url or (f"https://{host}" if host else None)
        if not (url and client_id and secret and public_url):
            return None
        return OpenIdProvider(url.rstrip("/"), client_id, SecretStr(secret), public_url)

    @property
    def asks_private_endpoints(self) -> bool:
        """Whether endpoints that a start names may be on this machine or in its network."""
        return self.profile == "open" and self.on_loopback

    @property
    def offers_own_endpoints(self) -> bool:
        """Whether a start may name an endpoint of its own."""
        return self.own_endpoints == "on" or (self.own_endpoints == "auto" and self.asks_private_endpoints)

    @property
    def variables(self) -> Mapping[str, str]:
        """Every variable of the process, where keys are found by name; never shown with the settings."""
        return self._variables

    def with_variables(self, variables: Mapping[str, str]) -> Self:
        """The same settings with keys in ``variables``."""
        copy = self.model_copy()
        copy._variables = dict(variables)
        return copy

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings from variables.

        Args:
            environ: All variables; those without our prefix are left alone, but for ``SPACE_HOST`` and
                ``CARTESIA_API_KEY``.

        Raises:
            ConfigurationError: Names every variable that is unknown or holds a bad value.
        """
        names = {f"{PREFIX}{name}".upper(): name for name in cls.model_fields}
        ours = [name for name in environ if name.startswith(PREFIX)]
        problems = [_unknown(name.removeprefix(PREFIX)) for name in ours if name not in names]
        if "*" in environ.get(ALLOWED_PROXIES, ""):
            problems.append(
                f"{ALLOWED_PROXIES}: * would believe any address that a client claims; set "
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
    """Whether ``host``, a name or an address, means this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_environment(**given: str | None) -> Settings:
    """The settings as the process environment has them.

    Args:
        given: Settings given otherwise, such as on a command line; those that are ``None`` are not.

    Raises:
        ConfigurationError: See :meth:`Settings.from_environ`.
    """
    overrides = {f"{PREFIX}{name.upper()}": text for name, text in given.items() if text is not None}
    return Settings.from_environ({**os.environ, **overrides})


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.upper(), [field.upper() for field in Settings.model_fields], n=1)
    hint = f"; did you mean {PREFIX}{near[0]}?" if near else "; docs/settings.md lists them all"
    return f"{PREFIX}{name}: there is no such setting{hint}"


def welcome(settings: Settings, host: str, port: int) -> str:
    """The lines that are written once the server listens.

    >>> print(welcome(Settings(), "127.0.0.1", 8000))
    Spectator is at http://127.0.0.1:8000
    open to this machine: starts (1 at once), stops and pauses by everybody; models and paid voices too
    """
    shown = f"[{host}]" if ":" in host else host
    return f"Spectator is at http://{shown}:{port}\n{_open_to(settings)}"


def _open_to(settings: Settings) -> str:
    token = settings.operator_token is not None
    whom = "this machine" if settings.on_loopback else "everybody who reaches it"
    hourly = "" if settings.profile == "open" else f", {settings.starts_per_hour} an hour"
    starts = f"starts ({settings.max_episodes} at once{hourly})"
    if settings.profile == "public":
        control = "stops and pauses by whoever started the episode" + (" and by the token" if token else "")
    else:
        control = "stops and pauses by the operator's token" if token else "stops and pauses by everybody"
    if token:
        money = "models and paid voices by the token"
    elif settings.on_loopback:
        money = "models and paid voices too"
    else:
        money = "no models and no paid voices (set SPECTATOR_OPERATOR_TOKEN)"
    profile = "" if settings.profile == "open" else "; public profile, see docs/settings.md"
    return f"open to {whom}: {starts}, {control}; {money}{profile}"
