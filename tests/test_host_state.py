"""A run of tests that changes the machine fails, and says what has changed. What others do meanwhile does not count."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_CONFTEST = """
import sys
sys.path.insert(0, {root!r})
from tests import host_state

host_state.PATIENCE_S = 0.5

def pytest_configure(config):
    config.pluginmanager.register(host_state)
"""


def run(directory: Path, test: str, *within: str) -> subprocess.CompletedProcess[str]:
    """A run of this one test by itself, in a command such as `unshare`."""
    (directory / "conftest.py").write_text(_CONFTEST.format(root=str(_ROOT)))
    (directory / "test_it.py").write_text(f"import os, subprocess, sys\n\ndef test_it(tmp_path):\n    {test}\n")
    env = {name: value for name, value in os.environ.items() if name != "RUN_OF_CORRAL_TESTS"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", str(directory)]
    return subprocess.run([*within, *command], cwd=directory, env=env, capture_output=True, text=True)


def test_a_run_that_changes_nothing_passes_whatever_others_do(tmp_path: Path) -> None:
    # This is not of that run, although of this one.
    with subprocess.Popen(["sleep", "600"]) as other:
        done = run(tmp_path, "subprocess.run(['true'], check=True)")
        other.kill()
    assert done.returncode == 0, done.stdout


def test_a_process_that_is_left_is_told(tmp_path: Path) -> None:
    done = run(tmp_path, "subprocess.run(['sh', '-c', 'sleep 600 <&- >&- 2>&- &'], check=True)")
    pid = int(done.stdout.partition("process is new: ")[2].split()[0])
    os.kill(pid, signal.SIGKILL)
    assert done.returncode == 1
    assert f"process is new: {pid} sleep 600" in done.stdout


@pytest.mark.parametrize(
    ("prepared", "test", "said"),
    [
        (
            "ip link add docker0 type bridge",
            "subprocess.run(['ip', 'link', 'del', 'docker0'], check=True)",
            "link is gone: docker0",
        ),
        (
            "mount --make-rprivate /",
            "subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', '/run'], check=True)",
            "mount is new: /run (tmpfs /)",
        ),
        ("true", "open('/proc/sys/net/ipv4/conf/all/route_localnet', 'w').write('1')", "route_localnet = 1"),
    ],
)
def test_what_a_daemon_would_do_to_the_host_is_told(tmp_path: Path, prepared: str, test: str, said: str) -> None:
    """In namespaces of its own, which stand for the host."""
    namespaces = ("unshare", "--net", "--mount")
    tried = subprocess.run([*namespaces, "sh", "-c", prepared], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no namespaces may be made here, or no such links: {tried.stderr.strip()}")
    done = run(tmp_path, test, *namespaces, "sh", "-c", f'{prepared}; exec "$@"', "sh")
    assert done.returncode == 1, done.stdout
    assert said in done.stdout
