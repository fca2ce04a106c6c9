"""Headers of every answer, by which browsers make nothing of it but what it is, and keep nothing of it."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = (
    # A log is never a page, however it begins, nor is anything else that users named.
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # What one user was told is in no cache of a proxy, and in none of the browser once the session has ended.
    (b"cache-control", b"no-store"),
)


class AnswerHeaders:
    """ASGI middleware that adds these to every answer which does not say otherwise."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(each for each in _HEADERS if each[0] not in said)]
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)
