"""Over a plain connection no report is taken, and a server without a cluster takes none."""

import http.client
from pathlib import Path

from tests.api.world import Served, World

PATH = "/api/v1/agent-reports"


def test_a_plain_connection_and_a_server_without_a_cluster_are_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    served = Served(world)
    try:
        with served.connection() as connection:
            connection.request("POST", PATH, b"{}", {"authorization": "Bearer a.b.c"})
            assert connection.getresponse().status == 409
        plain = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        plain.request("POST", PATH, b"{}", {"authorization": "Bearer a.b.c"})
        answer = plain.getresponse()
        assert answer.status == 403
        assert b"agents send their reports over HTTPS" in answer.read()
        plain.close()
    finally:
        served.stop()
        world.close()
