"""The origin of a browser's request: which page made it, as the browser says (RFC 6454, Fetch Metadata)."""

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from corral.core.model.errors import Forbidden

OWN_SITES = ("same-origin", "none")


def must_be_of_no_other_page(connection: HTTPConnection) -> None:
    """Raise Forbidden if a page of another site made the request: the browser would send it with its user's rights.

    A client that is not a browser sends no headers about its origin, and is allowed.
    """
    site, origin = connection.headers.get("sec-fetch-site"), connection.headers.get("origin")
    if origin is not None and _origin_place(origin) != _place(connection.headers.get("host", "")):
        raise Forbidden(f"a page of {origin!r:.80} may not do this at this server; only its own pages may")
    if site is not None and site not in OWN_SITES:
        raise Forbidden("a page of another site or port may not do this at this server; only its own pages may")


def _origin_place(origin: str) -> str | None:
    """Host and port of an origin; None if it is not a valid origin."""
    try:
        return _place(urlsplit(origin).netloc)
    except ValueError:
        return None


def _place(netloc: str) -> str:
    """Host and port in a comparable form. A proxy that ends TLS makes no difference."""
    return netloc.lower().removesuffix(":80").removesuffix(":443")


def is_from_browser(connection: HTTPConnection) -> bool:
    """Whether a page in a browser made the request. A session is valid only for requests whose browser says so."""
    return "sec-fetch-site" in connection.headers
