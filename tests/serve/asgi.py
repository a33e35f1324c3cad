"""Ask an application without a server."""

import asyncio


def ask(app, method="GET", path="/", chunks=(b"",), **headers):
    """The status, the headers and the content of an answer."""
    sent = []
    waiting = list(chunks)

    async def receive():
        if not waiting:
            await asyncio.Event().wait()  # the connection stays open
        body = waiting.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [
            (k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()
        ],
    }
    asyncio.run(app(scope, receive, send))
    start, *rest = sent
    names = {key.decode(): value.decode() for key, value in start["headers"]}
    return start["status"], names, b"".join(part.get("body", b"") for part in rest)
