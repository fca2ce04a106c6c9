"""A port is found once, and kept until the server that is to have it listens there."""

import errno
import http.client
import socket
import subprocess
import sys
import time

import pytest

from corral.features.tuner.deployments.port_holder import CANNOT_RUN, NOT_FOUND, SAYS, own_address, place

HOLDER = [sys.executable, "-I", "-m", "corral.features.tuner.deployments.port_holder", place()]
PATIENCE_S = 60.0


def test_nobody_else_gets_the_port_before_the_server_listens_there() -> None:
    wait = "import sys, time; print(sys.argv[1], flush=True); time.sleep(600)"
    with subprocess.Popen([*HOLDER, sys.executable, "-c", wait, "{port}"], stdout=subprocess.PIPE, text=True) as held:
        try:
            assert held.stdout is not None
            host, _, port = held.stdout.readline().strip().removeprefix(SAYS).partition(":")
            assert host == "127.0.0.1"
            assert held.stdout.readline() == f"{port}\n"
            with socket.socket() as other, pytest.raises(OSError) as refused:
                other.bind((host, int(port)))
            assert refused.value.errno == errno.EADDRINUSE
        finally:
            held.kill()


def test_the_server_listens_at_the_port_that_was_said() -> None:
    server = [sys.executable, "-m", "corral.features.tuner.engines.stand_in_server", "--port", "{port}"]
    with subprocess.Popen([*HOLDER, *server], stdout=subprocess.PIPE, text=True) as held:
        try:
            assert held.stdout is not None
            host, _, port = held.stdout.readline().strip().removeprefix(SAYS).partition(":")
            assert host == "127.0.0.1"
            assert held.stdout.readline() == f"serving stand-in at port {port}\n"
            connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
            connection.request("GET", "/health")
            assert connection.getresponse().status == 200
            connection.close()
        finally:
            held.kill()


def test_a_server_in_another_place_than_its_tuner_listens_where_others_reach_it() -> None:
    try:
        own = own_address()
    except OSError as error:
        pytest.skip(f"this machine is on no network: {error}")
    say = "import sys; print(sys.argv[1])"
    elsewhere = [*HOLDER[:-1], "another-boot/net:[1]", sys.executable, "-c", say, "{host}"]
    ended = subprocess.run(elsewhere, capture_output=True, text=True, timeout=PATIENCE_S)
    said, host = ended.stdout.splitlines()
    assert said.removeprefix(SAYS).rpartition(":")[0] == host == own


def test_without_a_network_nobody_waits_for_the_server() -> None:
    apart = ["unshare", "--map-root-user", "--net", *HOLDER, "true"]
    ended = subprocess.run(apart, capture_output=True, text=True, timeout=PATIENCE_S)
    if "unshare" in ended.stderr:
        pytest.skip(ended.stderr)
    assert (ended.returncode, "there is no network here" in ended.stderr) == (CANNOT_RUN, True)


def test_a_program_that_is_not_there_is_named() -> None:
    began = time.monotonic()
    ended = subprocess.run([*HOLDER, "no-such-server", "{port}"], capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == NOT_FOUND
    assert "no-such-server cannot be run: No such file or directory; install it there" in ended.stderr
    assert time.monotonic() - began < PATIENCE_S
