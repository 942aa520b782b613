"""Routes of the sign-in: to Hugging Face and back, who is signed in, and out again."""

from __future__ import annotations

import re
from math import floor
from typing import Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from ..security.faults import Refused, documented, problem, too_many
from ..security.openid import CALLBACK, FAILED, FORGOTTEN, NO_SIGN_IN, SignIn
from ..security.requests import address_of
from ..services import Services, ServicesDep
from .pages import ErrorPage, Templates, static_path

START: Final = "/sign-in"

LOCAL: Final = re.compile(r"/(?![/\\])[!-~]{0,500}")
"""An address on this server."""

PROMISE: Final = (
    "Your token pays for your captain's requests; it stays in this server's memory until you sign out or it "
    "expires."
)


class Visitor(BaseModel):
    """What the sender of the request may bring, and as whom."""

    sign_in_url: str | None = Field(description="Where to sign in with Hugging Face; null where one cannot")
    promise: str = Field(description="What the sign-in is for, in a sentence for people")
    user: str | None = Field(description="The account that is signed in; null for none")
    left_s: int | None = Field(description="Seconds that the sign-in still lasts")
    expired: bool = Field(
        description="Whether there was a sign-in that is over, or that another server holds"
    )
    own_endpoints: bool = Field(description="Whether a start may name an endpoint of its own")


class SignedOut(BaseModel):
    """The token is forgotten."""

    signed_out: bool = Field(description="Whether there was a sign-in")


class ListedModel(BaseModel):
    """A model that can be asked with a sign-in."""

    id: str
    tools: bool = Field(description="Whether it can call tools; else it is asked for JSON")
    context: int = Field(description="Tokens of prompt and answer that it takes; 0 if not known")


class ListedModels(BaseModel):
    """The router's chat models; empty while they cannot be listed."""

    models: list[ListedModel]


def sign_in_router(templates: Templates) -> APIRouter:
    """The routes; what goes wrong on the way to Hugging Face and back is said on a page."""
    router = APIRouter()

    @router.get(START, include_in_schema=False)
    async def sign_in(request: Request, services: ServicesDep, next: str = "/") -> Response:
        """Begin to sign in."""
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
        """Take in what Hugging Face sent the visitor back with."""
        try:
            entrance, session = _entrance(services), services.visitor_sessions.of(request)
            if session is None:
                raise Refused(FAILED, FORGOTTEN)
            found = await entrance.finish(request, session)
        except Refused as refused:
            return await _refusal(request, templates, refused)
        after = session.after
        session = services.visitor_sessions.sign_in(session, found.user, found.lent)
        answer = RedirectResponse(f"{entrance.provider.public_url}{after}", status_code=303)
        services.visitor_sessions.give_cookie(answer, request, session)
        answer.headers["Cache-Control"] = "no-store"
        return answer

    @router.get("/custom/visitor", tags=["control"])
    async def visitor(request: Request, response: Response, services: ServicesDep) -> Visitor:
        """Who is signed in, and what may be brought to a match."""
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

    @router.post("/custom/sign_out", tags=["control"])
    async def sign_out(request: Request, response: Response, services: ServicesDep) -> SignedOut:
        """Forget the token at once; a seat that it plays falls back from then on."""
        response.headers["Cache-Control"] = "no-store"
        session = services.visitor_sessions.of(request)
        if session is not None:
            services.visitor_sessions.end(session)
        services.visitor_sessions.take_cookie(response, request)
        return SignedOut(signed_out=session is not None)

    @router.get("/custom/models", tags=["control"], responses=documented(NO_SIGN_IN))
    async def models(services: ServicesDep) -> ListedModels:
        """The chat models that can be asked with a sign-in, as `captain_preset: hf:ID`."""
        _entrance(services)
        listed = await services.router_models.listed()
        return ListedModels(
            models=[ListedModel(id=one.id, tools=one.tools, context=one.context) for one in listed]
        )

    return router


def _entrance(services: Services) -> SignIn:
    if services.sign_in is None:
        detail = "This server offers no sign-in with Hugging Face; docs/sign-in.md says how it would."
        raise Refused(NO_SIGN_IN, detail)
    return services.sign_in


def _was_signed_in(request: Request, services: Services) -> bool:
    session = services.visitor_sessions.of(request)
    return services.visitor_sessions.cookie_of(request) != "" and (
        session is None or session.lent is not None
    )


async def _refusal(request: Request, templates: Templates, refused: Refused) -> Response:
    """Show a refusal as a page to browsers, as a problem document to others."""
    if "text/html" not in request.headers.get("accept", ""):
        return problem(refused.kind, refused.detail, instance=request.url.path, headers=refused.headers)
    root = "../" * (urlsplit(str(request.url)).path.count("/") - 1) or "./"
    page = ErrorPage(
        root=root,
        static=f"{root}{static_path(request)}",
        title=refused.kind.title,
        status=refused.kind.status,
        message=refused.detail,
    )
    answer = await run_in_threadpool(templates.render, "error.html", page, status=page.status)
    answer.headers["Cache-Control"] = "no-store"
    return answer
