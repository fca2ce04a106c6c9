"""A second server on the same GPUs is noticed."""

import os
import subprocess
import sys
import uuid

from corral.device_claims import Holder, claimed, holder_of, warning_of_others

MARKER = """
import sys
from corral.device_claims import claimed
with claimed(sys.argv[1:]):
    print("marked", flush=True)
    sys.stdin.read()
"""


def a_gpu() -> str:
    return f"GPU-{uuid.uuid4()}"


def marking(*gpus: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", MARKER, *gpus], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "marked\n"
    return process


def test_a_mark_names_its_process_and_ends_with_it() -> None:
    gpu = a_gpu()
    assert holder_of(gpu) is None
    other = marking(gpu)
    found = holder_of(gpu)
    assert found is not None
    assert found.pid == other.pid
    other.kill()
    other.communicate()
    assert holder_of(gpu) is None


def test_the_gpus_that_another_server_manages_are_named_with_whose_it_is() -> None:
    first, second, free = a_gpu(), a_gpu(), a_gpu()
    other = marking(first, second)
    gpus = {first: 0, second: 1, free: 2}
    with claimed(gpus):
        warning = warning_of_others(gpus, os.getpid())
        assert warning is not None
        assert f"GPU 0, 1 to the one of {user()} (process {other.pid})" in warning
        assert holder_of(free) == Holder(os.getpid(), user())
    other.communicate("")
    with claimed(gpus):
        assert warning_of_others(gpus, os.getpid()) is None


def test_a_mark_that_nobody_answers_for_holds_nobody_up() -> None:
    gpu = a_gpu()
    other = marking(gpu)
    found = [holder_of(gpu) for _ in range(300)]
    assert found[0] is not None
    other.communicate("")


def test_a_uuid_of_any_length_and_text_is_taken() -> None:
    for odd in ("x" * 500, "\udcff\0", ""):
        with claimed([odd]):
            assert holder_of(odd) in (None, Holder(os.getpid(), user()))


def user() -> str:
    return subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip()
