"""Routes of the sign-in with Hugging Face: begin, callback, status, sign out."""

from __future__ import annotations

import re
from math import floor
from typing import Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from ..security.faults import Refused, documented, problem, too_many
from ..security.openid import CALLBACK, FAILED, FORGOTTEN, NO_SIGN_IN, SignIn
from ..security.requests import address_of
from ..services import Services, ServicesDep
from .pages import error_page
from .templates import Templates

START: Final = "/sign-in"

LOCAL: Final = re.compile(r"/(?![/\\])[!-~]{0,500}")
"""A path on this server."""

PROMISE: Final = (
    "Your token pays for your captain's requests; it stays in this server's memory until you sign out or it "
    "expires."
)


class Visitor(BaseModel):
    """The visitor's sign-in, and the models they may bring."""

    sign_in_url: str | None = Field(description="Where to sign in with Hugging Face; null if not available")
    promise: str = Field(description="What the sign-in is for, for people")
    user: str | None = Field(description="The signed-in account; null for none")
    left_s: int | None = Field(description="Seconds until the sign-in expires")
    expired: bool = Field(description="Whether a sign-in has expired, or is on another server")
    own_endpoints: bool = Field(description="Whether a start may name its own endpoint")


class SignedOut(BaseModel):
    """The answer to signing out."""

    signed_out: bool = Field(description="Whether there was a sign-in")


class ListedModel(BaseModel):
    """A model available with a sign-in."""

    id: str
    tools: bool = Field(description="Whether it can call tools; otherwise it is asked for JSON")
    context: int = Field(description="Size of its context in tokens; 0 if unknown")


class ListedModels(BaseModel):
    """The router's chat models; empty if the list is unavailable."""

    models: list[ListedModel]


visitor_router = APIRouter()
"""Who is signed in, and which models they may bring."""


@visitor_router.get("/custom/visitor", tags=["control"])
async def visitor(request: Request, response: Response, services: ServicesDep) -> Visitor:
    """Report who is signed in, and which models they may bring."""
    response.headers["Cache-Control"] = "no-store"
    session, entrance = services.visitor_sessions.of(request), services.sign_in
    lent = None if session is None or not session.signed_in else session.lent
    url = None if entrance is None else f"{entrance.provider.public_url}{START}"
    return Visitor(
        sign_in_url=url,
        promise=PROMISE,
        user=None if session is None or lent is None else session.user,
        left_s=None if lent is None else floor(lent.left_s or 0.0),
        expired=lent is None and _was_signed_in(request, services),
        own_endpoints=services.settings.offers_own_endpoints,
    )


@visitor_router.post("/custom/sign_out", tags=["control"])
async def sign_out(request: Request, response: Response, services: ServicesDep) -> SignedOut:
    """Delete the token immediately; its seats use the fallback from then on."""
    response.headers["Cache-Control"] = "no-store"
    session = services.visitor_sessions.of(request)
    if session is not None:
        services.visitor_sessions.end(session)
    services.visitor_sessions.take_cookie(response, request)
    return SignedOut(signed_out=session is not None)


@visitor_router.get("/custom/models", tags=["control"], responses=documented(NO_SIGN_IN))
async def models(services: ServicesDep) -> ListedModels:
    """List the chat models available with a sign-in, as `captain_preset: hf:ID`."""
    _entrance(services)
    listed = await services.router_models.listed()
    return ListedModels(
        models=[ListedModel(id=one.id, tools=one.tools, context=one.context) for one in listed]
    )


def sign_in_router(templates: Templates) -> APIRouter:
    """Return the routes; errors of the sign-in are shown as a page."""
    router = APIRouter()

    @router.get(START, include_in_schema=False)
    async def sign_in(request: Request, services: ServicesDep, next: str = "/") -> Response:
        try:
            entrance = _entrance(services)
            if (wait_s := entrance.begun.take(address_of(request))) > 0:
                raise too_many(wait_s, "sign-ins")
            session = services.visitor_sessions.begin()
            session.after = next if LOCAL.fullmatch(next) else "/"
            answer = await entrance.begin(request, session)
        except Refused as refused:
            return await _refusal(request, templates, refused)
        services.visitor_sessions.give_cookie(answer, request, session)
        answer.headers["Cache-Control"] = "no-store"
        return answer

    @router.get(CALLBACK, include_in_schema=False)
    async def signed_in(request: Request, services: ServicesDep) -> Response:
        try:
            entrance, session = _entrance(services), services.visitor_sessions.of(request)
            if session is None:
                raise Refused(FAILED, FORGOTTEN)
            user, key = await entrance.finish(request, session)
        except Refused as refused:
            return await _refusal(request, templates, refused)
        after = session.after
        session = services.visitor_sessions.sign_in(session, user, key)
        answer = RedirectResponse(f"{entrance.provider.public_url}{after}", status_code=303)
        services.visitor_sessions.give_cookie(answer, request, session)
        answer.headers["Cache-Control"] = "no-store"
        return answer

    router.include_router(visitor_router)
    return router


def _entrance(services: Services) -> SignIn:
    if services.sign_in is None:
        detail = "This server offers no sign-in with Hugging Face; see docs/sign-in.md to set it up."
        raise Refused(NO_SIGN_IN, detail)
    return services.sign_in


def _was_signed_in(request: Request, services: Services) -> bool:
    session = services.visitor_sessions.of(request)
    return services.visitor_sessions.cookie_of(request) != "" and (
        session is None or session.lent is not None
    )


async def _refusal(request: Request, templates: Templates, refused: Refused) -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        return problem(refused.kind, refused.detail, instance=request.url.path, headers=refused.headers)
    kind = refused.kind
    answer = await run_in_threadpool(error_page, request, templates, kind.title, refused.detail, kind.status)
    answer.headers["Cache-Control"] = "no-store"
    return answer
