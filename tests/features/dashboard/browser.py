"""Requests as a browser sends them from a page of the server."""

import http.client
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.api.world import PATIENCE_S, Answer, Served, exchange

OWN = {"sec-fetch-site": "same-origin"}


class Browser:
    """Keeps the cookie that the server at `url` gave it. `opened` is one whose link was opened."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.cookie: str | None = None

    @classmethod
    def opened(cls, served: Served) -> "Browser":
        link = urlsplit(link_of(served))
        browser = cls(f"{link.scheme}://{link.netloc}")
        answer = browser.call("POST", "/session", {"code": link.fragment})
        assert answer.status == 200, answer.data
        return browser

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """A request of the page itself, unless `headers` say otherwise."""
        sent = {**OWN, **({} if method == "GET" else {"origin": self.url}), **(headers or {})}
        if self.cookie is not None:
            sent["cookie"] = self.cookie
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE_S)
        try:
            answer = exchange(connection, method, path, body, sent)
        finally:
            connection.close()
        if (given := answer.headers["set-cookie"]) is not None:
            self.cookie = None if "Max-Age=0" in given else given.partition(";")[0]
        return answer


def link_of(served: Served) -> str:
    answer = served.call("POST", "/dashboard")
    assert answer.status == 201, answer.data
    url: str = answer.data["url"]
    return url
