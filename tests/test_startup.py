"""What a server loads as it starts: what it does not need yet costs its start, and memory for as long as it runs."""

import subprocess
import sys

import pytest

NOT_NEEDED = (
    "alembic",  # where nothing has to migrate
    "apprise",  # which only the processes load that send to channels
    "corral.host.node.agent",  # where there is one host, and no agents are spawned and spoken to
    "corral.host.node.remote",
    "corral.features.tuner.deployments",  # before the first task
    "corral.api.openapi",  # before somebody asks for the description of the API
    "numpy",  # while nothing was placed by worth
    "pydantic",
    "sqlalchemy.dialects.postgresql",
    "wsproto",  # before the first WebSocket
)


def test_a_server_loads_only_what_it_needs_at_its_start() -> None:
    code = f"import sys, corral.app.server; print([m for m in {NOT_NEEDED} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_the_threads_of_a_server_share_the_memory_of_the_c_library() -> None:
    """An arena of a thread is mapped at a multiple of 64 MiB. Here twelve threads need memory at once."""
    code = """
import ctypes, sys, threading
from corral.app.daemon import limit_arenas
if not limit_arenas():
    print("no limit"); sys.exit()
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
ready, found = threading.Barrier(12), set()
def need():
    ready.wait()
    found.add(malloc(4096) >> 26)
    ready.wait()
threads = [threading.Thread(target=need) for _ in range(12)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(found))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    if said == "no limit":
        pytest.skip("this C library has no such limit")
    assert int(said) <= 4, "12 threads had as many arenas"
