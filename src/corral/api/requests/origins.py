"""Which page of a browser made a request, as the browser says it (RFC 6454, Fetch Metadata)."""

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from corral.core.model.errors import Forbidden

OWN_SITES = ("same-origin", "none")


def must_be_of_no_other_page(connection: HTTPConnection) -> None:
    """Raises Forbidden for a page of another site, to which a browser would lend its user's rights.

    What is no browser says nothing, and may.
    """
    site, origin = connection.headers.get("sec-fetch-site"), connection.headers.get("origin")
    if origin is not None and _origin_place(origin) != _place(connection.headers.get("host", "")):
        raise Forbidden(f"a page of {origin!r:.80} may not do this at this server; only its own pages may")
    if site is not None and site not in OWN_SITES:
        raise Forbidden("a page of another site or port may not do this at this server; only its own pages may")


def _origin_place(origin: str) -> str | None:
    """Host and port of an origin, None of one that is none."""
    try:
        return _place(urlsplit(origin).netloc)
    except ValueError:
        return None


def _place(netloc: str) -> str:
    """Host and port as they compare, whatever stands between that ends TLS."""
    return netloc.lower().removesuffix(":80").removesuffix(":443")


def is_from_browser(connection: HTTPConnection) -> bool:
    """Whether a page asks: a session counts only for requests of which the browser says so."""
    return "sec-fetch-site" in connection.headers
