"""Checks before every request: the token, and the size of uploads."""

import base64
import binascii
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import HTTPException
from fastapi.responses import JSONResponse

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class Guard:
    """Refuses requests without the token, and bodies that are too long.

    Args:
        app: The application that answers all other requests.
        token: Expected as ``Authorization: Bearer TOKEN``, or as the password of HTTP
            basic authentication, which browsers support; None for no token.
        upload: Maximum size of a body in bytes.
        memory: Maximum total size in bytes of the bodies in progress.
    """

    def __init__(self, app: App, token: str | None, upload: int, memory: int) -> None:
        self.app, self.token, self.upload, self.memory = app, token, upload, memory
        self.held = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if self.token is not None and not secrets.compare_digest(
            _given(headers.get(b"authorization", b"")), self.token.encode()
        ):
            refusal = JSONResponse(
                {"detail": "this server requires a token"},
                401,
                {"WWW-Authenticate": 'Basic realm="fullrank", charset="UTF-8"'},
            )
            await refusal(scope, receive, send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            size = len(message.get("body", b""))
            taken += size
            self.held += size
            if taken > self.upload:
                raise HTTPException(
                    413, f"a request may have at most {self.upload:,} bytes"
                )
            if self.held > self.memory:
                raise HTTPException(
                    503,
                    "too much data is being uploaded; try again",
                    {"Retry-After": "1"},
                )
            return message

        try:
            await self.app(scope, counted, send)
        finally:
            self.held -= taken


def _given(authorization: bytes) -> bytes:
    """The token in the header, or empty."""
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(value, validate=True).partition(b":")[2]
        except binascii.Error:
            return b""
    return b""
