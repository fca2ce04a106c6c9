"""Asks a Prometheus."""

import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from corral.core.model.errors import BackendFailed, Refused
from corral.engines.kubernetes.cluster.json_text import read_json

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

_MOST_BYTES = 64 << 20


def ask_prometheus(url: str, asked: Mapping[str, str], timeout_s: float) -> Any:
    """Return Prometheus' answer to a query and its parameters. Variables for proxies are ignored (decision 65).

    Raises Refused for an address that cannot be one, and BackendFailed.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise Refused(f"{url!r} is no address of a Prometheus, such as http://prometheus:9090", field="prometheus_url")
    try:
        with _direct.open(f"{url.rstrip('/')}/api/v1/query?{urlencode(asked)}", timeout=timeout_s) as answer:
            return read_json(answer.read(_MOST_BYTES))
    except (OSError, ValueError) as error:
        raise BackendFailed(f"Prometheus at {url} does not tell of GPUs: {error}") from None
