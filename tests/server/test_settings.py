"""Settings: every wrong variable is refused by name, and the page about them is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.setting_types import PREFIX
from server.settings import Settings, is_loopback
from spectator.errors import ConfigurationError
from tools.settings_page import settings_page

ROOT = Path(__file__).resolve().parent.parent.parent


def test_nothing_set_is_the_default() -> None:
    variables = {"HOME": "/", "PATH": "/bin"}
    settings = Settings.from_environ(variables)
    assert settings == Settings().with_variables(variables)
    assert (settings.host, settings.port, settings.environment) == ("127.0.0.1", 8000, "cricket")
    assert settings.on_loopback


def test_variables_are_read_by_type() -> None:
    settings = Settings.from_environ(
        {
            "SPECTATOR_PORT": "81",
            "SPECTATOR_MAX_EPISODES": "3",
            "SPECTATOR_STEP_TIMEOUT_S": "1.5",
            "SPECTATOR_ALLOWED_ORIGINS": "https://a.example, http://B.example:81",
            "SPECTATOR_OPERATOR_TOKEN": "0123456789abcdef",
            "SPECTATOR_LOG_LEVEL": "WARNING",
        }
    )
    assert settings.log_level == "warning"
    assert (settings.port, settings.max_episodes, settings.step_timeout_s) == (81, 3, 1.5)
    assert settings.allowed_origins == ("https://a.example", "http://b.example:81")
    assert settings.operator_token is not None
    assert "0123456789abcdef" not in repr(settings)


def test_only_one_kind_of_proxy_is_trusted() -> None:
    assert Settings.from_environ({"FORWARDED_ALLOW_IPS": "10.0.0.1,10.1.0.0/16"}).trusted_proxies == (
        "10.0.0.1",
        "10.1.0.0/16",
    )
    with pytest.raises(
        ConfigurationError, match="SPECTATOR_TRUSTED_PROXIES: contradicts SPECTATOR_TRUSTED_H"
    ):
        Settings.from_environ({"SPECTATOR_TRUSTED_HOPS": "1", "SPECTATOR_TRUSTED_PROXIES": "10.0.0.1"})


def test_the_host_of_a_space_is_an_allowed_origin() -> None:
    settings = Settings.from_environ(
        {"SPACE_HOST": "me-app.hf.space", "SPECTATOR_ALLOWED_ORIGINS": "https://a.example"}
    )
    assert settings.allowed_origins == ("https://a.example", "https://me-app.hf.space")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("SPECTATOR_PROT", "1", "SPECTATOR_PROT: unknown setting; did you mean SPECTATOR_PORT?"),
        ("SPECTATOR_port", "1", "SPECTATOR_port: unknown setting; did you mean SPECTATOR_PORT?"),
        ("SPECTATOR_", "1", "SPECTATOR_: unknown setting"),
        ("SPECTATOR_PORT", "eighty", "SPECTATOR_PORT: Input should be a valid integer"),
        ("SPECTATOR_PORT", "70000", "SPECTATOR_PORT: Input should be less than or equal to 65535"),
        ("SPECTATOR_PORT", "", "SPECTATOR_PORT: Input should be a valid integer"),
        ("SPECTATOR_MAX_EPISODES", "0", "SPECTATOR_MAX_EPISODES: Input should be greater than or equal to 1"),
        ("SPECTATOR_STEP_TIMEOUT_S", "nan", "SPECTATOR_STEP_TIMEOUT_S: Input should be"),
        ("SPECTATOR_STEP_TIMEOUT_S", "1e999", "SPECTATOR_STEP_TIMEOUT_S: Input should be a finite number"),
        ("SPECTATOR_ALLOWED_HOSTS", "a.example:80", "SPECTATOR_ALLOWED_HOSTS: 'a.example:80' is not a host"),
        ("SPECTATOR_LOG_LEVEL", "LOUD", "SPECTATOR_LOG_LEVEL: Input should be 'debug', 'info'"),
        ("SPECTATOR_STEP_TIMEOUT_S", "-1", "SPECTATOR_STEP_TIMEOUT_S: Input should be greater than 0"),
        ("SPECTATOR_OPERATOR_TOKEN", "", "SPECTATOR_OPERATOR_TOKEN: must be 16 to 512"),
        ("SPECTATOR_OPERATOR_TOKEN", "too short", "SPECTATOR_OPERATOR_TOKEN: must be 16 to 512"),
        (
            "SPECTATOR_TRUSTED_PROXIES",
            "10.0.0.0/33",
            "SPECTATOR_TRUSTED_PROXIES: '10.0.0.0/33' is not an address",
        ),
        ("SPECTATOR_TRUSTED_HOPS", "-1", "SPECTATOR_TRUSTED_HOPS: Input should be greater"),
        ("FORWARDED_ALLOW_IPS", "*", "FORWARDED_ALLOW_IPS: * would trust any address"),
        ("FORWARDED_ALLOW_IPS", "nobody", "SPECTATOR_TRUSTED_PROXIES: 'nobody' is not an address"),
        ("SPECTATOR_ALLOWED_ORIGINS", "*", "SPECTATOR_ALLOWED_ORIGINS: '*' is not an origin"),
        ("SPECTATOR_ALLOWED_ORIGINS", "https://a.example/path", "SPECTATOR_ALLOWED_ORIGINS: 'https://a.ex"),
        ("SPECTATOR_FRAME_ANCESTORS", "x;script-src *", "SPECTATOR_FRAME_ANCESTORS: 'x;script-src' is not"),
        (
            "SPECTATOR_FRAME_ANCESTORS",
            "'none' https://x",
            "SPECTATOR_FRAME_ANCESTORS: 'none' must be the only",
        ),
        ("SPECTATOR_FRAME_ANCESTORS", "https://*.*", "SPECTATOR_FRAME_ANCESTORS: 'https://*.*' is not"),
        ("SPECTATOR_LOG_LEVEL", "loud", "SPECTATOR_LOG_LEVEL: Input should be 'debug'"),
        ("SPECTATOR_ENVIRONMENT", "../x", "SPECTATOR_ENVIRONMENT: String should match pattern"),
    ],
)
def test_a_wrong_variable_is_refused_by_name_and_rule(name: str, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Settings.from_environ({name: text})
    assert said in str(refused.value)


def test_every_wrong_variable_is_named_at_once_and_no_secret_is_shown() -> None:
    with pytest.raises(ConfigurationError) as refused:
        Settings.from_environ(
            {"SPECTATOR_PORT": "x", "SPECTATOR_HOTS": "y", "SPECTATOR_OPERATOR_TOKEN": "my secret"}
        )
    assert all(f"SPECTATOR_{name}:" in str(refused.value) for name in ("PORT", "HOTS", "OPERATOR_TOKEN"))
    assert "my secret" not in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.8.8.8"])
def test_loopback_is_known_by_name_and_address(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example", "127.0.0.1.example", ""])
def test_what_others_can_reach_is_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_the_page_about_settings_is_what_the_code_says() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == settings_page(), "run: python -m tools.settings_page > docs/settings.md"
    assert all(f"`{PREFIX}{name.upper()}`" in page for name in Settings.model_fields)
    assert all(field.description for field in Settings.model_fields.values())
