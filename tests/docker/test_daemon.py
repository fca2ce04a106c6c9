"""The dockerd of tests keeps to namespaces of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docker.daemon import why_no_dockerd

_ROOT = Path(__file__).parents[2]
_STARTED = """
import os, socket, sys
from pathlib import Path
from tests.docker.daemon import docker_daemon
with docker_daemon(Path(sys.argv[1])) as daemon:
    print("host", *(name for _, name in socket.if_nameindex()))
    with daemon.network():
        print("daemon", *(name for _, name in socket.if_nameindex()))
print("after", *(name for _, name in socket.if_nameindex()))
"""


def test_a_docker0_of_the_host_stays_while_a_dockerd_of_tests_runs(tmp_path: Path) -> None:
    lacking = why_no_dockerd()
    if lacking is not None:
        pytest.skip(lacking)
    link = 'ip link add docker0 type bridge && exec "$@"'
    command = [*("unshare", "--net", "sh", "-c", link, "sh"), sys.executable, "-c", _STARTED, str(tmp_path)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    links = {who: set(names) for who, *names in map(str.split, done.stdout.splitlines())}
    assert "docker0" in links["host"] & links["after"]
    assert "docker0" not in links["daemon"]
