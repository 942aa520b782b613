"""Write docs/settings.md: ``python -m tools.settings_page > docs/settings.md``."""

from __future__ import annotations

import sys

from pydantic.fields import FieldInfo

from server.setting_types import PREFIX
from server.settings import PUBLIC, Settings
from spectator.policies.cap_settings import CapSettings


def settings_page() -> str:
    """Return the page docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Environment variables, read once at the start. Unknown `SPECTATOR_*` variables and invalid values",
        "are rejected by name.",
        "This page is written by `python -m tools.settings_page > docs/settings.md`.",
        "",
        "| variable | default | what it sets |",
        "|---|---|---|",
    ]
    for name, field in _in_order():
        lines.append(f"| `{PREFIX}{name.upper()}` | {_shown(field.default)} | {_said(field)} |")
    lines += [
        "",
        "## A public server",
        "With `SPECTATOR_PROFILE=public`, the default on a Hugging Face Space, these defaults apply.",
        "Only operators can publish OpenEnv sessions there (`SPECTATOR_OPENENV_MAX_PUBLISHED=0`), and",
        "operators can start anything.",
        "",
        "| variable | default |",
        "|---|---|",
        *(f"| `{PREFIX}{name.upper()}` | {_shown(value)} |" for name, value in PUBLIC.items()),
        "",
        "The other commands read only `SPECTATOR_CAPTAINS_FILE`, `SPECTATOR_LLM_LIVE`, `SPECTATOR_MODEL_*`.",
        "`FORWARDED_ALLOW_IPS` is uvicorn's own name for `SPECTATOR_TRUSTED_PROXIES`; `*` is rejected.",
        "`SPACE_HOST` is set by Hugging Face; its origin is allowed too.",
        "`OPENID_PROVIDER_URL`, `OAUTH_CLIENT_ID` and `OAUTH_CLIENT_SECRET`, which Hugging Face sets too,",
        "enable sign-in: see [sign-in.md](sign-in.md).",
        "",
    ]
    return "\n".join(lines)


def _in_order() -> list[tuple[str, FieldInfo]]:
    """Return every setting, spending caps last."""
    caps = CapSettings.model_fields
    own = [name for name in Settings.model_fields if name not in caps]
    return [(name, Settings.model_fields[name]) for name in (*own, *caps)]


def _said(field: FieldInfo) -> str:
    return " ".join((field.description or "").split()).removesuffix(".")


def _shown(default: object) -> str:
    if default is None or default == ():
        return "none"
    if isinstance(default, tuple):
        return f"`{' '.join(map(str, default))}`"
    return f"`{default}`"


if __name__ == "__main__":
    sys.stdout.write(settings_page())
