"""What programs really print when they fail is understood; what they merely print is not taken for it."""

import re
import signal
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.diagnosis.diagnose import RULES, diagnose
from corral.core.diagnosis.failure import Failure
from corral.core.diagnosis.log_end import MAX_LINES, TAIL_BYTES, lines_of, missing_bytes
from corral.core.diagnosis.rule import Case
from corral.core.model.audience import Audience
from tests.core.diagnosis.recorded import RECORDED, Recorded
from tests.host.runtimes.process.supervisor_parts import TAIL_BYTES as KEPT_BYTES

FAILED = Failure(exit_code=1)
OOM = RECORDED[0].log
HAD = (
    FAILED,
    Failure(
        1, workdir="/w", devices=1, share_milli=500, memory_mib=12288, host_memory_mib=4, model="A30", compute=(8, 0)
    ),
    Failure(127, devices=8, device_memory_mib=81920, largest_device_mib=81920, cuda=(12, 4)),
)
UNKNOWN = "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\nKeyError: 'loss'\n"
CHAINED = "\nDuring handling of the above exception, another exception occurred:\n\n"


def said(log: str | bytes, failure: Failure = FAILED) -> str | None:
    found = diagnose(failure, log if isinstance(log, bytes) else log.encode())
    return None if found is None else found.line


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded.source)
def test_a_recorded_message_gets_its_line(recorded: Recorded) -> None:
    failure = replace(FAILED, **recorded.had)
    assert said(f"epoch 3\n{recorded.log}\n", failure) == recorded.line


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded.source)
def test_a_job_that_ended_well_has_nothing_to_diagnose(recorded: Recorded) -> None:
    assert said(recorded.log, replace(FAILED, **{**recorded.had, "exit_code": 0})) is None


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded.source)
def test_the_same_words_within_a_sentence_are_not_an_error(recorded: Recorded) -> None:
    chat = "".join(f"the model answers: {line.strip()}\n" for line in recorded.log.splitlines())
    assert said(chat, replace(FAILED, **recorded.had)) is None


OPTIONS = re.compile(
    r"--(gpus|gpu-mem|gpu-model|min-memory|min-compute|host-memory|workdir|env|shm-size|mig|node)\b|you submit|profile"
)
"""What only somebody at a command line can follow, about a program of the host's."""


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded.source)
@pytest.mark.parametrize("audience", [Audience.POD, Audience.PAGE])
def test_who_has_no_command_line_is_told_nothing_that_needs_one(recorded: Recorded, audience: Audience) -> None:
    failure = replace(FAILED, **recorded.had, audience=audience, in_container=True)
    line = said(recorded.log, failure)
    assert line is not None
    assert OPTIONS.search(line) is None, line
    assert line.partition(";")[0] or recorded.line


@pytest.mark.parametrize(
    ("log", "failure", "advice"),
    [
        (
            "",
            Failure(127, reason="command not found in the image i:1: x"),
            "give its full path there, or take an image",
        ),
        ("sh: 1: x: not found\n", Failure(127), "give its full path, or take an image that has it"),
        ("ModuleNotFoundError: No module named 'torch'\n", Failure(1), "take an image that has it"),
        (
            "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error\n",
            Failure(1),
            "fewer workers (num_workers), or --shm-size",
        ),
    ],
)
def test_of_a_container_its_image_is_told_and_no_environment_of_the_submitters(
    log: str, failure: Failure, advice: str
) -> None:
    line = said(log, replace(failure, in_container=True))
    assert line is not None
    assert advice in line
    assert "activate" not in line


def test_who_wrote_a_manifest_is_told_fields_of_it() -> None:
    limit = "the kernel killed a process of it for memory (OOMKilled): the job may have 4096 MiB (--host-memory)"
    pod = Failure(137, reason=limit, audience=Audience.POD, in_container=True)
    line = said("", pod)
    assert line is not None
    assert line.startswith("out of host memory: the kernel ended it at its 4G; a memory limit of 8Gi, or hold less")


def test_an_error_of_another_kind_after_it_means_that_the_job_got_over_it() -> None:
    assert said(f"{OOM}\nretrying with batch size 8\n{UNKNOWN}") is None


def test_an_error_that_led_to_another_is_the_one_that_counts() -> None:
    assert said(f"{OOM}\n{CHAINED}{UNKNOWN}") == said(OOM)


def test_what_fails_while_python_ends_hides_nothing() -> None:
    ending = (
        "Exception ignored in: <function Pool.__del__ at 0x7f>\nTraceback (most recent call last):\nTypeError: no\n"
    )
    assert said(f"{OOM}\n{ending}") == said(OOM)


def test_the_last_of_two_known_errors_counts() -> None:
    assert said(f"{OOM}\nModuleNotFoundError: No module named 'apex'\n") == said(
        "ModuleNotFoundError: No module named 'apex'\n"
    )


def test_launchers_that_tell_of_the_error_hide_nothing() -> None:
    launcher = (
        "[2024-03-18 17:38:50,208] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 1)\n"
        "Traceback (most recent call last):\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "============\ntrain.py FAILED\nFailures:\n  <NO_OTHER_FAILURES>\n"
    )
    assert said(f"[rank1]: {OOM}\n{launcher}") == said(OOM)


def test_the_rank_that_failed_goes_before_those_that_lost_it() -> None:
    lost = (
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: /pytorch/ProcessGroupNCCL.cpp:1333, remote "
        "process exited or there was a network error, NCCL version 2.18.6\n"
    )
    assert said(f"{lost}[rank3]: {OOM}\n{lost}") == said(OOM)


def test_a_warning_is_no_error() -> None:
    assert said(f"WARNING: {OOM}\nW tensorflow/x.cc:64] Could not load dynamic library 'libcudart.so.11.0'\n") is None


def test_an_unknown_failure_has_no_diagnosis() -> None:
    assert said(UNKNOWN) is None
    assert said("") is None


def test_a_command_that_was_not_found_in_passing_is_not_why_the_job_failed() -> None:
    assert said("train.sh: line 2: module: command not found\n", replace(FAILED, exit_code=3)) is None


def test_what_the_kernel_did_is_surer_than_the_log() -> None:
    reason = "the kernel killed 2 processes of it for memory: the job may have 4096 MiB (--host-memory)"
    assert said(OOM, replace(FAILED, exit_code=137, signal=9, reason=reason)) == (
        "out of host memory: the kernel ended it at its 4G; "
        "--host-memory 8G, or hold less at once (fewer loader workers, smaller batches)"
    )


def test_sigkill_from_elsewhere_is_told_with_what_it_mostly_is() -> None:
    told = said("epoch 3\n", replace(FAILED, exit_code=137, signal=9))
    assert told is not None
    assert told.startswith("something other than Corral killed it (SIGKILL), most often the kernel")


def test_a_full_disk_of_its_output_is_why_a_job_failed_unless_the_log_says_more() -> None:
    full = replace(FAILED, reason="the disk of its output /data/out.txt is full")
    assert said("corral: standard output goes to /data/out.txt\n", full) == (
        "its output no longer fits on that disk; its last lines may be missing; make room there, or write elsewhere"
    )
    assert said(OOM, full) == said(OOM)


def test_a_kill_that_has_its_reason_gets_no_guess() -> None:
    assert said("epoch 3\n", replace(FAILED, exit_code=137, signal=9, reason="cancelled by ann")) is None


@pytest.mark.parametrize("number", [4, 6, 7, 8, 11])
@pytest.mark.parametrize("of_itself", [True, False])
def test_a_crash_without_a_word_is_told_with_what_to_do(number: int, of_itself: bool) -> None:
    told = said("epoch 3\n", replace(FAILED, exit_code=128 + number, signal=number if of_itself else None))
    assert told is not None
    # That is told with the exit code.
    assert signal.Signals(number).name not in told
    assert "PYTHONFAULTHANDLER=1" in told


def test_a_crash_whose_python_lines_are_in_the_log_is_told_where_to_look() -> None:
    told = said('Fatal Python error: Segmentation fault\n\n  File "a.py", line 1\n', replace(FAILED, exit_code=139))
    assert told is not None
    assert told.endswith("; its log shows where, below Fatal Python error")


def test_a_crash_that_the_log_explains_or_the_runtime_has_a_reason_for_gets_no_guess() -> None:
    crashed = replace(FAILED, exit_code=134, signal=6)
    assert said(OOM, crashed) == said(OOM)
    assert said("epoch 3\n", replace(crashed, reason="rank 1 failed")) is None


@pytest.mark.parametrize("number", [1, 13, 15])
def test_a_signal_that_someone_sent_has_no_diagnosis(number: int) -> None:
    assert said("epoch 3\n", replace(FAILED, exit_code=128 + number, signal=number)) is None


def test_the_numbers_in_the_example_of_the_handbook() -> None:
    log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 24.00 "
    log += "GiB of which 1.10 GiB is free. Including non-PyTorch memory, this process has 22.90 GiB memory in use."
    assert said(log, replace(FAILED, devices=1, share_milli=500)) == (
        "out of GPU memory: tried 2.5G with 1.1G free of 24G; ask for --gpu-mem 28G or lower the batch size"
    )


A40 = replace(FAILED, devices=1, device_memory_mib=46068, largest_device_mib=81559)
"""On a node with an H100, too."""


def test_what_needs_more_memory_than_the_largest_gpu_has_is_not_sent_to_a_larger_one() -> None:
    log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {} GiB. GPU 0 has a total capacity of 44.43 "
    log += "GiB of which 4.43 GiB is free. Including non-PyTorch memory, this process has 40.00 GiB memory in use."
    beyond = (
        "no GPU here has more than 79.6G: split the model over several (--gpus), lower the precision, or lower the "
        "batch size"
    )
    told = "out of GPU memory: tried {}G with 4.4G free of 44.4G; {}"
    assert said(log.format(217), A40) == told.format(217, beyond)
    assert said(log.format(39), A40) == told.format(39, "ask for --min-memory 79G or lower the batch size")
    assert said(log.format(5), A40) == told.format(5, "ask for --min-memory 50G or lower the batch size")
    on_the_largest = replace(A40, device_memory_mib=81559)
    assert said(log.format(5), on_the_largest) == told.format(5, beyond)


def test_what_tells_no_numbers_is_not_sent_to_a_larger_gpu_from_the_largest() -> None:
    no_numbers = "RuntimeError: CUDA error: out of memory"
    assert said(no_numbers, A40) == (
        "out of GPU memory; lower the batch size, or ask for more than the 45G of this GPU by --min-memory"
    )
    no_cache = "ValueError: No available memory for the cache blocks."
    assert "GPU memory (--min-memory)" in (said(no_cache, A40) or "")
    on_the_largest = replace(A40, device_memory_mib=81559)
    assert "no GPU here has more than 79.6G" in (said(no_numbers, on_the_largest) or "")
    assert "ask for more GPUs (--gpus, --tensor-parallel-size)" in (said(no_cache, on_the_largest) or "")


def test_lines_of_corral_itself_are_not_the_jobs() -> None:
    assert said("corral: ModuleNotFoundError: No module named 'x'\n") is None


def test_what_an_attempt_before_said_is_not_why_this_one_failed() -> None:
    assert said(f"{OOM}\ncorral: attempt 1 failed with exit code 1\nepoch 1\n") is None
    assert said(f"epoch 1\n{OOM}\ncorral: attempt 2 failed with exit code 1\n") == said(OOM)


CUT = "corral: {} bytes of output are missing here (the log is limited to 64 bytes); what follows is its end\n"


def test_what_was_said_before_the_log_was_cut_was_said_long_before() -> None:
    assert said(f"{OOM}\n{CUT.format(7_000_000)}epoch 3\n") is None
    assert said(f"epoch 1\n{CUT.format(7_000_000)}{OOM}\n") == said(OOM)
    assert said(f"{OOM}\n{CUT.format(200)}") == said(OOM)


def test_of_a_log_that_was_cut_all_is_read_that_was_kept_of_its_end() -> None:
    filler = "epoch 3 loss 0.25, of a model whose name is long enough for the line to be a usual one, and so on\n"
    kept = f"{OOM}\n{filler * 630}"
    assert len(kept) < KEPT_BYTES
    assert said("x" * 1_000_000 + f"\n{CUT.format(9)}{kept}corral: attempt 1 failed with exit code 1\n") == said(OOM)


def test_the_end_of_a_log_says_how_much_is_missing_in_it() -> None:
    assert missing_bytes(f"{OOM}\n".encode()) == 0
    assert missing_bytes(f"{CUT.format(70)}epoch 1\n{CUT.format(8)}".encode()) == 78
    assert missing_bytes(f"the model says {CUT.format(70)}\xff".encode("latin-1")) == 0


def test_colours_and_progress_bars_are_looked_through() -> None:
    assert said(f"\x1b[31m{OOM}\x1b[0m\n") == said(OOM)
    assert said(f" 10%|# | 1/10\r 20%|## | 2/10\r{OOM}\r\n") == said(OOM)


def test_an_error_is_found_at_the_end_of_a_long_log_and_not_far_before_it() -> None:
    chatter = "epoch 3 loss 0.25\n"
    assert said(chatter * 100_000 + OOM) == said(OOM)
    assert said(OOM + "\n" + chatter * MAX_LINES) is None


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: Out of memory allocating ,,, bytes (allocated so far: 1 bytes).",
        "RuntimeError: OOM when allocating tensor with shape[,,,] and type float on /GPU:0",
        "the model answers: CUDA_ERROR_UNKNOWN",
        "CUDA_ERROR_UNKNOWN_TO_US",
        "Error: no answer, trying again",
    ],
)
def test_what_only_looks_like_an_error_has_no_diagnosis(line: str) -> None:
    assert said(f"{line}\n") is None


@given(st.binary(max_size=300), st.sampled_from([r.log.encode() for r in RECORDED]), st.binary(max_size=300))
def test_any_bytes_give_one_printable_line_or_none(before: bytes, log: bytes, after: bytes) -> None:
    told = said(before + log + after)
    assert told is None or (told.isprintable() and len(told) < 600)


@given(st.sampled_from([r.log for r in RECORDED]), st.integers(0, 600), st.integers(0, 60), st.text(max_size=9))
def test_a_message_that_is_cut_and_changed_anywhere_gives_one_printable_line_or_none(
    log: str, start: int, gap: int, change: str
) -> None:
    told = said(log[:start] + change + log[start + gap :])
    assert told is None or told.isprintable()


ODD_NUMBERS = (
    "",
    ",",
    ",,,",
    ".",
    "0",
    "0.0",
    "0,0",
    "9" * 15,
    "9,999,999,999,999",
    "999999999.999999",
    "\u0663",
    "-1",
    "NaN",
)


@pytest.mark.parametrize("odd", ODD_NUMBERS)
def test_no_number_of_a_message_can_be_such_that_nothing_can_be_said_of_it(odd: str) -> None:
    for recorded in RECORDED:
        for number in re.finditer(r"\d[\d.,]*", recorded.log):
            for had in HAD:
                told = said(recorded.log[: number.start()] + odd + recorded.log[number.end() :], had)
                assert told is None or told.isprintable()


def test_architectures_that_are_run_together_are_still_told_apart() -> None:
    log = (
        "The current PyTorch install supports CUDA capabilities sm_75sm_80 sm_90\nRuntimeError: CUDA error: no kernel "
    )
    log += "image is available for execution on the device\n"
    assert "only for 7.5 to 9.0" in (said(log) or "")


@pytest.mark.parametrize(
    "unit",
    [
        "x", ":", " ", "[0]: ", "a.", "Error: ", "CUDA error", "(((", "\x1b[", "[rank0]:", "NCCL error in: a", "ERROR ",
        "OOM when allocating tensor with shape[9,", "'", "{{a", "1.", "lib.so.1", "RuntimeError: CUDA error: ", "\xff",
    ],
)  # fmt: skip
def test_no_log_takes_long(unit: str) -> None:
    for log in (unit * TAIL_BYTES, (unit * (900 // len(unit)) + "\n") * 200, f"RuntimeError: {unit * 300}\n" * 200):
        before = time.process_time()
        said(log[: 2 * TAIL_BYTES])
        assert time.process_time() - before < 5.0


@pytest.mark.parametrize(
    "unit", ["a", "_A", "CUDA error: ", "CUDA_ERROR_", "cuInit failed: ", "a: ", "0,", "[1,1]<stdout>: "]
)
def test_twice_as_much_of_a_log_takes_about_twice_as_long(unit: str) -> None:
    def cpu_s(lines: int) -> float:
        log = f"ERROR: {unit * 60}"[:120] + "\n"
        before = time.thread_time()
        said(log * lines)
        return time.thread_time() - before

    assert min(cpu_s(800) for _ in range(3)) < 6 * min(cpu_s(200) for _ in range(3)) + 0.02


def test_every_rule_is_reached_by_some_recorded_message() -> None:
    cases = [Case(replace(FAILED, **r.had), lines_of(r.log.encode())) for r in RECORDED]
    dead = [
        rule.pattern.pattern
        for rule in RULES
        if not any(rule.applies(line, case) is not None for case in cases for line in case.lines)
    ]
    assert dead == []
