"""Writes docs/settings.md: ``python -m server.settings_page > docs/settings.md``."""

from __future__ import annotations

import sys

from spectator.policies.caps import CapSettings

from .public_profile import PUBLIC
from .setting_types import PREFIX
from .settings import Settings


def settings_page() -> str:
    """The page docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Environment variables, read once at the start. An unknown `SPECTATOR_*` and a bad value are",
        "refused by name.",
        "This page is written by `python -m server.settings_page > docs/settings.md`.",
        "",
        "| variable | default | what it sets |",
        "|---|---|---|",
    ]
    inherited_last = sorted(Settings.model_fields.items(), key=lambda one: one[0] in CapSettings.model_fields)
    for name, field in inherited_last:
        lines.append(f"| `{PREFIX}{name.upper()}` | {_shown(field.default)} | {field.description} |")
    lines += [
        "",
        "## A public server",
        "With `SPECTATOR_PROFILE=public`, the default on a Hugging Face Space, these hold instead.",
        "Without an operator's token nobody shows episodes of their own there",
        "(`SPECTATOR_OPENENV_MAX_PUBLISHED=0`), and whoever has the token may start whatever they like.",
        "",
        "| variable | default |",
        "|---|---|",
        *(f"| `{PREFIX}{name.upper()}` | {_shown(value)} |" for name, value in PUBLIC.items()),
        "",
        "The other commands read only `SPECTATOR_CAPTAINS_FILE`, `SPECTATOR_LLM_LIVE`, `SPECTATOR_MODEL_*`.",
        "`FORWARDED_ALLOW_IPS` is uvicorn's own name for `SPECTATOR_TRUSTED_PROXIES`; `*` is refused.",
        "`SPACE_HOST` is set by Hugging Face; its origin is allowed too.",
        "",
    ]
    return "\n".join(lines)


def _shown(default: object) -> str:
    if default is None or default == ():
        return "none"
    if isinstance(default, tuple):
        return f"`{' '.join(map(str, default))}`"
    return f"`{default}`"


if __name__ == "__main__":
    sys.stdout.write(settings_page())
