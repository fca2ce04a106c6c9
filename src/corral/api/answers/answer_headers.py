"""The security headers of every answer: browsers must not reinterpret, embed or cache it."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = (
    # A browser must not take a log, or any other content of users, for a page, whatever its first bytes are.
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # No proxy may cache an answer to a user, and the browser must not keep it after the session has ended.
    (b"cache-control", b"no-store"),
)


class AnswerHeaders:
    """ASGI middleware that adds these headers to every answer. A header that the answer has already stays."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(each for each in _HEADERS if each[0] not in said)]
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)
