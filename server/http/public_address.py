"""The address of this server as others reach it, for links that are followed from elsewhere."""

from __future__ import annotations

import re
from typing import Final

from starlette.requests import Request

from spectator.errors import FieldError, InvalidRequest

from ..services import services_of

HOST: Final = re.compile(r"[A-Za-z0-9.\-]+(?::\d{1,5})?|\[[0-9A-Fa-f:.]+\](?::\d{1,5})?")
"""A host with or without a port."""


def public_root(request: Request) -> str:
    """Address of the lobby as others reach it, without a slash at its end.

    Where the address of the request is one of the origins that the settings name, such as a Space's, it is
    that one: a proxy in front may have taken the encryption off.

    Raises:
        InvalidRequest: The header ``Host`` is none.
    """
    host = request.url.netloc
    if not HOST.fullmatch(host):
        raise InvalidRequest([FieldError("Host", "must be a host name or an address")])
    origins = services_of(request).settings.allowed_origins
    known = [origin for origin in origins if origin.partition("://")[2] == host]
    origin = known[0] if known else f"{request.url.scheme}://{host}"
    return f"{origin}{request.scope.get('root_path', '')}"
