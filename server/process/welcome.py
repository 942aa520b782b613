"""What the server says when it starts: where it is, and what is open to whom."""

from __future__ import annotations

from ..settings import Settings


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
