"""What the options of a server say over its settings, what cannot be said together, and how its process ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from corral.app.daemon import parse_options, settings_with
from corral.core.model.errors import Refused
from corral.core.model.home import Home
from tests.thread_signal import signal_another_thread

PATIENCE_S = 60.0

BUSY = """
import runpy, threading
threading.Thread(target=threading.Event().wait, args=(600,)).start()
runpy.run_module("corral.daemon", run_name="__main__", alter_sys=True)
"""
"""A server in whose process a thread works on, as one does that makes a long answer."""


def test_options_go_over_the_settings_and_leave_the_rest_of_them(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("kubernetes:\n  context: lab\n  namespace: jobs\n")
    found = settings_with(Home(tmp_path), parse_options(["--engine", "kubernetes", "--context", "site"]))
    assert (found.engine, found.kubernetes.context, found.kubernetes.namespace) == ("kubernetes", "site", "jobs")


def test_a_mock_box_is_no_cluster_whatever_the_settings_say(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("engine: kubernetes\n")
    assert settings_with(Home(tmp_path), parse_options(["--mock", "box.toml"])).engine == "host"


@pytest.mark.parametrize(
    ("settings", "options", "words"),
    [
        ("", ["--namespace", "jobs"], "--namespace names a Kubernetes cluster; give --engine kubernetes, too"),
        ("engine: kubernetes\n", ["--engine", "host", "--context", "lab"], "--context names a Kubernetes cluster"),
        ("", ["--mock", "box.toml", "--engine", "kubernetes"], "--mock describes devices in place of those of"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, settings: str, options: list[str], words: str) -> None:
    (tmp_path / "config.yaml").write_text(settings)
    with pytest.raises(Refused, match=words):
        settings_with(Home(tmp_path), parse_options(options))


def test_a_stop_does_not_wait_for_threads_whose_answers_nobody_waits_for(tmp_path: Path) -> None:
    (tmp_path / "mock.toml").write_text('slot_name = "cuda"\ndevice_plugin_name = "CUDADevice"\ndevices = []\n')
    read_fd, write_fd = os.pipe()
    options = ["--home", str(tmp_path), "--mock", str(tmp_path / "mock.toml"), "--ready-fd", str(write_fd)]
    with subprocess.Popen([sys.executable, "-c", BUSY, *options], pass_fds=[write_fd]) as server:
        os.close(write_fd)
        with os.fdopen(read_fd) as ready:
            assert ready.readline() == "ready\n"
        server.send_signal(signal.SIGTERM)
        try:
            assert server.wait(PATIENCE_S) == 0
        finally:
            server.kill()
    assert not (tmp_path / "corral.sock").exists(), "what it leaves is closed all the same"


def test_a_stop_that_another_thread_is_told_of_is_heard(tmp_path: Path) -> None:
    (tmp_path / "mock.toml").write_text('slot_name = "cuda"\ndevice_plugin_name = "CUDADevice"\ndevices = []\n')
    read_fd, write_fd = os.pipe()
    options = ["--home", str(tmp_path), "--mock", str(tmp_path / "mock.toml"), "--ready-fd", str(write_fd)]
    with subprocess.Popen([sys.executable, "-m", "corral.daemon", *options], pass_fds=[write_fd]) as server:
        os.close(write_fd)
        with os.fdopen(read_fd) as ready:
            assert ready.readline() == "ready\n"
        signal_another_thread(server.pid, signal.SIGTERM)
        try:
            assert server.wait(PATIENCE_S) == 0
        finally:
            server.kill()
