import base64

import pytest
from fastapi import HTTPException

from fullrank.serve.guard import Guard
from serve.asgi import ask


async def echo(scope, receive, send):
    """Reads the whole body, as an endpoint does."""
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def status(guard, chunks=(b"",), **headers):
    return ask(guard, chunks=chunks, **headers)[0]


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ("Bearer sécret:1", True),
        ("bearer  sécret:1", True),
        (basic("", "sécret:1"), True),
        (basic("anybody", "sécret:1"), True),
        ("Bearer sécret:", False),
        ("Bearer sécret:12", False),
        ("sécret:1", False),
        (basic("sécret:1", ""), False),
        ("Basic %%%", False),
        ("", False),
    ],
)
def test_only_the_token_opens(given, allowed):
    guard = Guard(echo, "sécret:1", 100, 100)
    assert status(guard, authorization=given) == (200 if allowed else 401)


def test_without_a_token_everybody_is_let_in():
    assert status(Guard(echo, None, 100, 100)) == 200


def test_what_is_uploaded_is_counted_piece_by_piece():
    guard = Guard(echo, None, 100, 150)
    assert status(guard, [b"x" * 60, b"x" * 40]) == 200
    with pytest.raises(HTTPException) as refused:
        status(guard, [b"x" * 60, b"x" * 41])
    assert refused.value.status_code == 413
    assert guard.held == 0


def test_all_uploads_together_are_bounded():
    guard = Guard(echo, None, 100, 150)
    guard.held = 100  # of another request
    with pytest.raises(HTTPException) as refused:
        status(guard, [b"x" * 51])
    assert refused.value.status_code == 503
    assert refused.value.headers["Retry-After"]
    assert guard.held == 100
