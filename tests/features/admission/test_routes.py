"""Who shows no certificate is told nothing unless the site says so, and without a cluster nobody is."""

import http.client
from pathlib import Path

import pytest

from tests.api.world import Served, World


@pytest.mark.parametrize("path", ["/admission/mutate", "/admission/validate"])
def test_the_webhook_refuses_strangers_and_servers_without_a_cluster(path: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    served = Served(world)
    try:
        with served.connection() as connection:
            connection.request("POST", path, b"{}")
            assert connection.getresponse().status == 409
        stranger = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        stranger.request("POST", path, b"{}")
        refused = stranger.getresponse()
        assert refused.status == 403
        assert refused.headers["content-type"].startswith("text/plain")
        assert b"kubernetes.admission_callers" in refused.read()
        stranger.close()
    finally:
        served.stop()
        world.close()
