"""What every test stands on: no server but its own, and real GPUs only where there are any."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from corral.client import server_home

# How long an example takes, to draw or to run, says more about the machine than about the code.
settings.register_profile("corral", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("corral")

# In a run in the background Ctrl-C is ignored, and would be by every command that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_server_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that forgets to name its home must not submit to, or stop, the server of whoever runs it."""
    for name in sorted(os.environ):
        if name.startswith("CORRAL_") and name != "CORRAL_BENCH_DATA":
            monkeypatch.delenv(name)
    monkeypatch.setattr(server_home, "SYSTEM_HOME", Path("/nowhere/corral"))
    monkeypatch.setattr(server_home, "_found", {})
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that all users may work in, with a short path."""
    path = Path(tempfile.mkdtemp(prefix="open-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if Path("/dev/nvidiactl").exists():
        return
    no_gpu = pytest.mark.skip(reason="this machine has no NVIDIA driver (/dev/nvidiactl is missing)")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(no_gpu)
