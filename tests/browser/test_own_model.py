"""A visitor signs in with Hugging Face in a real browser and plays: in a tab, and from a frame."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PHONE, WIDE, Opener
from tests.llm.brains import Said, counter
from tests.serving import Serving, free_port, serve, test_settings
from tests.stand_in_hub import MODEL, StandInHub, running


def saying_why(body: Any) -> Said:
    """Counts, and gives a reason that no scripted captain gives."""
    said = counter(body)
    (name, arguments), *rest = said.calls
    return replace(said, calls=[(name, {**arguments, "reason": "Because it follows."}), *rest])


@pytest.fixture(scope="module")
def browser(launch: Callable[..., Browser]) -> Iterator[Browser]:
    """One Chromium that keeps no cookies of frames of other sites, as its users may choose."""
    with launch("--test-third-party-cookie-phaseout") as browser:
        yield browser


@contextmanager
def framing(address: str, port: int) -> Iterator[str]:
    """The page of another site that shows a page in a frame."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = (
                f"<!doctype html><title>Another site</title><iframe src='{address}' width=1200 height=1400>"
            )
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def hub() -> Iterator[StandInHub]:
    with running(StandInHub(saying_why)) as one:
        yield one


@pytest.fixture(scope="module")
def outside() -> int:
    """Port of another site, which may show the pages in a frame."""
    return free_port()


@pytest.fixture(scope="module")
def app(hub: StandInHub, outside: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    port = free_port()
    settings = test_settings(
        tmp_path_factory.mktemp("data"),
        port=port,
        public_url=f"http://127.0.0.1:{port}",
        frame_ancestors=("'self'", f"http://localhost:{outside}"),
        operator_token="a-token-of-the-operator",
        max_episodes=4,
        own_endpoints="on",
    )
    with serve(hub.offered_by(settings)) as one:
        yield one


def signs_in(page: Page) -> None:
    """From the consent on, until a model is to be named."""
    page.locator("#allow").click()
    expect(page.get_by_text("Signed in with Hugging Face as ada")).to_be_visible()


def plays(page: Page) -> None:
    """Names a model, starts, and sees what it thinks."""
    model = page.get_by_label("Model of the captain")
    expect(page.locator(f"#own-models option[value='{MODEL}']")).to_be_attached()
    model.fill(MODEL)
    page.get_by_role("button", name="Start the match").click()
    page.wait_for_url("**/watch/**")
    expect(page.locator(".mind").get_by_text("Because it follows.").first).to_be_visible()
    expect(page.locator(".mind").get_by_text(MODEL).first).to_be_visible()


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_visitor_signs_in_and_sees_what_the_model_thinks(
    app: Serving, open_page: Opener, viewport: Any
) -> None:
    page = open_page(app.base_url, viewport=viewport)
    expect(page.get_by_text("Your token pays for your captain's requests")).to_be_visible()
    page.get_by_role("link", name="Sign in with Hugging Face").click()
    signs_in(page)
    assert page.url == f"{app.base_url}/#start"
    plays(page)
    page.goto(app.base_url)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("link", name="Sign in with Hugging Face")).to_be_visible()
    assert page.locator("option[value='hf:']").count() == 0


def test_from_a_frame_the_sign_in_opens_in_a_tab_of_its_own(
    app: Serving, outside: int, open_page: Opener
) -> None:
    with framing(app.base_url, outside) as site:
        page = open_page(site)
        frame = page.frame_locator("iframe")
        expect(frame.get_by_text("a page inside another site cannot keep a sign-in")).to_be_visible()
        with page.context.expect_page() as opened:
            frame.get_by_role("link", name="Sign in with Hugging Face").click()
        tab = opened.value
        signs_in(tab)
        assert tab.url == f"{app.base_url}/#start"
        plays(tab)
        page.reload()  # the frame knows nothing of the tab's sign-in
        expect(frame.get_by_role("link", name="Sign in with Hugging Face")).to_be_visible()


def test_a_sign_in_that_is_over_is_said(app: Serving, hub: StandInHub, open_page: Opener) -> None:
    page = open_page(app.base_url)
    cookie = {"name": "spectator-visitor", "value": "of-a-server-before", "url": app.base_url}
    page.context.add_cookies([cookie])  # type: ignore[list-item]
    page.reload()
    expect(page.get_by_text("Your Hugging Face sign-in expired; sign in again")).to_be_visible()


def test_a_visitor_who_denies_is_told_so(app: Serving, hub: StandInHub, open_page: Opener) -> None:
    hub.denies = True
    page = open_page(app.base_url, forgive=("403",))
    page.get_by_role("link", name="Sign in with Hugging Face").click()
    page.locator("#allow").click()
    expect(page.get_by_text("You did not allow the sign-in")).to_be_visible()
    hub.denies = False


def test_an_endpoint_of_ones_own_is_asked_for_by_field(app: Serving, open_page: Opener) -> None:
    page = open_page(app.base_url, forgive=("422",))
    page.get_by_label("Captain", exact=True).select_option("own:")
    page.get_by_label("Endpoint of the captain").fill("https://user:key@example.org/v1")
    page.get_by_label("Model name").fill("qwen3:4b")
    page.get_by_role("button", name="Start the match").click()
    expect(page.get_by_text("Endpoint of the captain must look like https://host/v1")).to_be_visible()
    expect(page.get_by_label("Endpoint of the captain")).to_have_attribute("aria-invalid", "true")
