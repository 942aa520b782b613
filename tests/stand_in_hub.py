"""A stand-in for Hugging Face: its OpenID provider and its router of models, on one real socket.

It follows the documented flow: discovery, code with PKCE, token, keys, userinfo; chat completions
with a bearer token. By hand: ``python -m tests.stand_in_hub --port 9900``.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from server.settings import Settings
from tests.llm.brains import Brain, obedient
from tests.llm.fake_server import streamed_answer, whole_answer

CLIENT_ID, CLIENT_SECRET = "a-client", "a-client-secret-4711"
MODEL = "maker/Quick-1-Instruct"


@dataclass
class StandInHub:
    """See the module.

    Args:
        brain: Answers for every model.
        lasts_s: Seconds that a token lasts, as it says itself.
        scope: What it grants.
        denies: Whether consent is denied.
        down: Paths that answer 503.
        statuses: What chat completions are answered with, by model, where that is not 200.
        models: The body of the list of models.
        pause_s: Before each piece of a streamed answer.
    """

    brain: Brain = obedient
    lasts_s: int = 3600
    scope: str = "openid profile inference-api"
    denies: bool = False
    down: set[str] = field(default_factory=set)
    statuses: dict[str, int] = field(default_factory=dict)
    models: bytes = json.dumps(
        {
            "object": "list",
            "data": [
                {
                    "id": MODEL,
                    "providers": [{"provider": "fast", "supports_tools": True, "context_length": 32768}],
                },
                {"id": "maker/Plain-7B", "providers": [{"provider": "slow"}]},
                {"id": "maker/Draws", "architecture": {"output_modalities": ["image"]}, "providers": []},
            ],
        }
    ).encode()
    pause_s: float = 0.0
    nonce_in_token: str | None = None
    tokens: set[str] = field(default_factory=set)
    issued: list[str] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    asked_with: list[str] = field(default_factory=list)
    base_url: str = ""

    def __post_init__(self) -> None:
        self._key = RSAKey.generate_key(2048, {"kid": "one"}, private=True)
        self._codes: dict[str, dict[str, str]] = {}

    @property
    def router_url(self) -> str:
        """What the router's addresses begin with."""
        return f"{self.base_url}/v1"

    def variables(self) -> dict[str, str]:
        """What a Space would have in its environment."""
        return {
            "OPENID_PROVIDER_URL": self.base_url,
            "OAUTH_CLIENT_ID": CLIENT_ID,
            "OAUTH_CLIENT_SECRET": CLIENT_SECRET,
        }

    def offered_by(self, settings: Settings) -> Settings:
        """The same settings with this sign-in; the server must listen where ``public_url`` says."""
        return settings.model_copy(update={"router_url": self.router_url}).with_variables(self.variables())

    def app(self) -> Starlette:
        """The application."""
        routes = [
            Route("/.well-known/openid-configuration", self._metadata),
            Route("/oauth/authorize", self._authorize),
            Route("/oauth/token", self._token, methods=["POST"]),
            Route("/oauth/userinfo", self._userinfo),
            Route("/oauth/jwks", self._jwks),
            Route("/v1/models", self._models),
            Route("/v1/chat/completions", self._complete, methods=["POST"]),
        ]
        return Starlette(routes=routes)

    async def _metadata(self, request: Request) -> Response:
        if "metadata" in self.down:
            return Response("down", 503)
        at = self.base_url
        return JSONResponse(
            {
                "issuer": at,
                "authorization_endpoint": f"{at}/oauth/authorize",
                "token_endpoint": f"{at}/oauth/token",
                "userinfo_endpoint": f"{at}/oauth/userinfo",
                "jwks_uri": f"{at}/oauth/jwks",
                "id_token_signing_alg_values_supported": ["RS256"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def _authorize(self, request: Request) -> Response:
        query = request.query_params
        assert query["client_id"] == CLIENT_ID
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert query["scope"].split() == ["openid", "profile", "inference-api"]
        if "consent" not in query:  # a page, so that a browser shows where it is
            yes = f"{request.url}&consent=yes"
            return HTMLResponse(
                f"<title>Hub</title><link rel=icon href=data:,><h1>Hub</h1><a id=allow href='{yes}'>Allow</a>"
            )
        answer = {"state": query["state"]}
        if self.denies:
            answer |= {"error": "access_denied", "error_description": "denied <b>by</b> the user"}
        else:
            code = secrets.token_urlsafe(16)
            self._codes[code] = dict(query)
            answer["code"] = code
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(answer)}", 302)

    async def _token(self, request: Request) -> Response:
        if "token" in self.down:
            return Response("down", 503)
        form = dict(parse_qsl((await request.body()).decode()))
        basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if request.headers.get("authorization") != f"Basic {basic}":
            return JSONResponse({"error": "invalid_client"}, 401)
        asked = self._codes.pop(str(form.get("code")), None)
        digest = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != form["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        token = f"hf_oauth_{secrets.token_urlsafe(24)}"
        self.tokens.add(token)
        self.issued.append(token)
        now = int(time.time())
        claims = {
            "iss": self.base_url, "sub": "id-1", "aud": CLIENT_ID, "iat": now, "exp": now + 600,
            "nonce": self.nonce_in_token or asked["nonce"],
        }  # fmt: skip
        return JSONResponse(
            {
                "access_token": token,
                "token_type": "bearer",
                "expires_in": self.lasts_s,
                "scope": self.scope,
                "id_token": jwt.encode({"alg": "RS256", "kid": "one"}, claims, self._key),
            }
        )

    async def _userinfo(self, request: Request) -> Response:
        if not self._knows(request):
            return JSONResponse({"error": "invalid_token"}, 401)
        return JSONResponse({"sub": "id-1", "preferred_username": "ada", "name": "Ada"})

    async def _jwks(self, request: Request) -> Response:
        return JSONResponse({"keys": [self._key.as_dict(private=False)]})

    async def _models(self, request: Request) -> Response:
        return Response(self.models, media_type="application/json")

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        sent = request.headers.get("authorization", "")
        self.asked_with.append(sent)
        if not self._knows(request):
            return JSONResponse({"error": f"Invalid credentials: {sent}"}, 401)
        status = self.statuses.get(body["model"], 200)
        if status != 200:
            return JSONResponse({"error": {"message": f"status {status} for {sent}"}}, status)
        said = self.brain(body)
        if not body.get("stream"):
            return JSONResponse(whole_answer(said, body))

        async def pieces() -> AsyncIterator[bytes]:
            for event in streamed_answer(said, body, 8):
                await asyncio.sleep(self.pause_s)
                yield b"data: " + event + b"\n\n"
            yield b"data: [DONE]\n\n"

        return StreamingResponse(pieces(), media_type="text/event-stream")

    def _knows(self, request: Request) -> bool:
        return request.headers.get("authorization", "").removeprefix("Bearer ") in self.tokens


@contextmanager
def running(hub: StandInHub, port: int = 0) -> Iterator[StandInHub]:
    """Serve a stand-in on a thread."""
    server = uvicorn.Server(uvicorn.Config(hub.app(), port=port, log_config=None, lifespan="off"))
    sockets = [server.config.bind_socket()]
    hub.base_url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    thread = threading.Thread(target=server.run, kwargs={"sockets": sockets}, name="stand-in hub")
    thread.start()
    try:
        yield hub
    finally:
        server.should_exit = True
        thread.join(20)
        sockets[0].close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=9900)
    with running(StandInHub(), parser.parse_args().port) as shown:
        print(shown.base_url, shown.variables())
        threading.Event().wait()
