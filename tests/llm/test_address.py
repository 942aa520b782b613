"""Base URLs: fixed, by session, and what neither may hold."""

from __future__ import annotations

import pytest

from spectator.errors import ConfigurationError
from spectator.llm.endpoints import SessionAddress, StaticAddress


def test_a_static_address_is_the_same_for_every_session() -> None:
    address = StaticAddress("https://example.org/v1/")
    assert address.url(None) == address.url("s-1") == "https://example.org/v1/chat/completions"
    assert not address.by_session


def test_a_session_becomes_part_of_the_address() -> None:
    address = SessionAddress("http://127.0.0.1:8001/v1")
    assert address.url("ep-01K.a_b~c") == "http://127.0.0.1:8001/v1/ep-01K.a_b~c/chat/completions"
    assert address.by_session


def test_a_session_is_required() -> None:
    with pytest.raises(ConfigurationError, match="pass a session"):
        SessionAddress("http://127.0.0.1:8001/v1").url(None)


@pytest.mark.parametrize(
    "session", ["", ".", "..", "../admin", "a/b", "a?b", "a#b", "a b", "a%2fb", "ä", "x" * 129, "a\n"]
)
def test_a_session_cannot_leave_its_place_in_the_path(session: str) -> None:
    with pytest.raises(ConfigurationError):
        SessionAddress("http://127.0.0.1:8001/v1").url(session)


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "example.org/v1",
        "ftp://example.org",
        "file:///etc/passwd",
        "http://",
        "http:///v1",
        "http://example.org:99999/v1",
        "http://example.org:0/v1",
        "https://user:hunter2@example.org/v1",
        "https://hunter2@example.org/v1",
        "https://example.org/v1?key=hunter2",
        "https://example.org/v1#hunter2",
        "https://example.org/v1\r\nX: hunter2",
    ],
)
def test_a_bad_base_url_is_refused_without_being_repeated(base_url: str) -> None:
    for kind in (StaticAddress, SessionAddress):
        with pytest.raises(ConfigurationError) as refused:
            kind(base_url)
        assert "hunter2" not in str(refused.value)
