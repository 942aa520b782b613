"""Settings of the models that visitors bring: by a sign-in, or at endpoints of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, Field, SecretStr

from .setting_types import BaseUrl, PublicUrl

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
