"""What every test stands on: a home, a server and a driver of its own, and real GPUs only where it asks for them."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from corral.client.connecting import server_home
from tests import host_state
from tests.docker.daemon import DockerDaemon, docker_daemon, why_no_dockerd
from tests.loaded import end_loaded
from tests.vendors.nvidia.nvml_stub import unload_driver

# How long an example takes, to draw or to run, says more about the machine than about the code.
# Tests draw half as many as by default, and `make soak` ten times that.
_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("corral", _MACHINE, max_examples=50)
settings.register_profile("soak", _MACHINE, max_examples=500)
settings.load_profile("corral")

# In a run in the background Ctrl-C is ignored, and would be by every command that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of all that tests of this process start, so that none reads or writes the developer's.

    Nor do commands buffer less than a user's, or compile each time what they import, because the developer's do.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONUNBUFFERED", raising=False)
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("HOME", str(home := tmp_path_factory.mktemp("home")))
        yield home


@pytest.fixture(scope="session", autouse=True)
def _loaded_servers(_home: Path) -> Iterator[None]:
    """The process that forks servers ends with the tests: what a run has started ends with it."""
    yield
    end_loaded()


@pytest.fixture(scope="session")
def dockerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerDaemon]:
    """The one dockerd of all tests of this process. What others have left of containers is there, and ends with it."""
    lacking = why_no_dockerd()
    if lacking is not None:
        pytest.skip(lacking)
    with docker_daemon(tmp_path_factory.mktemp("dockerd")) as daemon:
        yield daemon


@pytest.fixture(autouse=True)
def _no_server_of_the_developer(_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test that forgets to name its home must not submit to, or stop, the server of whoever runs it.

    Nor may it leave a server to the tests after it.
    """
    for name in sorted(os.environ):
        if name.startswith("CORRAL_") and name != "CORRAL_BENCH_DATA":
            monkeypatch.delenv(name)
    monkeypatch.setattr(server_home, "SYSTEM_HOME", Path("/nowhere/corral"))
    monkeypatch.setattr(server_home, "_found", {})
    yield
    assert not (_home / ".corral").exists(), "this test, or what it uses, has written to ~/.corral: name another home"


@pytest.fixture(autouse=True)
def _no_gpu_of_the_developer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test finds no driver in its process but the one that it brings.

    A library that one test has loaded is found by its name by all that come later.
    """
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    if request.node.get_closest_marker("gpu") is None:
        unload_driver(monkeypatch)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that all users may work in, with a short path."""
    path = Path(tempfile.mkdtemp(prefix="open-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(host_state)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays, so the garbage collector need not look at it, now or after any test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    if Path("/dev/nvidiactl").exists():
        return
    no_gpu = pytest.mark.skip(reason="this machine has no NVIDIA driver (/dev/nvidiactl is missing)")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(no_gpu)
