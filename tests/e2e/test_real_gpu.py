"""A CUDA job on a real GPU, through the driver's own library: it gets the GPU it was given, and is seen there."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.box import Box

pytestmark = pytest.mark.gpu

HOLD_MIB = 512
CUDA_JOB = f"""
import ctypes, json, time
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, f"{{name}}: CUDA error {{code}}"
count, context, memory, uuid = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64(), (ctypes.c_ubyte * 16)()
call("cuInit", 0)
call("cuDeviceGetCount", ctypes.byref(count))
call("cuDeviceGetUuid", uuid, 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t({HOLD_MIB} << 20))
print(json.dumps({{"count": count.value, "uuid": bytes(uuid).hex()}}), flush=True)
time.sleep(600)
"""


@pytest.fixture
def box(new_box: Callable[[str], Box]) -> Box:
    """A server on the GPUs of this machine."""
    box = new_box("")
    box.ok("up", "--detach")
    return box


def test_a_cuda_job_sees_the_one_gpu_that_it_was_given_and_is_seen_on_it(box: Box, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(CUDA_JOB)
    job = box.submit("--", sys.executable, str(script))
    box.until(lambda: box.run("logs", job).stdout.strip() != "")
    seen = json.loads(box.ok("logs", job))
    given = next(row for row in box.json("ps", "--json") if row["id"] == job)["devices"]
    assert seen["count"] == 1
    assert [seen["uuid"]] == [uuid.removeprefix("GPU-").replace("-", "") for uuid in given]

    def row() -> dict[str, Any]:
        return next(row for row in box.json("status", "--json") if row["uuid"] == given[0])

    box.until(lambda: row()["memory_used_mib"] >= HOLD_MIB)
    assert row()["state"] == "allocated"
    for process in row()["processes"]:  # a container may hide from NVML whose process it is
        assert process["job"] == job
    box.ok("cancel", job)
    box.until(lambda: row()["memory_used_mib"] < HOLD_MIB)
