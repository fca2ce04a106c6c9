"""Messages of NCCL and PyTorch's process groups if GPUs cannot communicate. Many follow from the end of one rank.

Wording: NCCL's bootstrap.cc, socket.cc and init.cc; PyTorch's ProcessGroupNCCL.cpp and NCCLUtils.hpp.
"""

import re

from corral.core.diagnosis.failure import Diagnosis, Failure
from corral.core.diagnosis.rule import Case, Rule, always, rule
from corral.core.model.units import format_duration

_OTHER_RANKS = "look at the other ranks' output first: one of them failed, or never reached that call"


def _timeout(match: re.Match[str], _case: Case) -> Diagnosis:
    waited = format_duration(int(match[2]) / 1000)
    what = f"a rank waited {waited} for the others in {match[1].strip('_')}"
    return Diagnosis(what, f"{_OTHER_RANKS}; if it was only slow, init_process_group(timeout=...) waits longer")


def _debug(failure: Failure) -> str:
    return f"{failure.audience.env('NCCL_DEBUG=INFO')} shows which"


def _connect(match: re.Match[str], case: Case) -> Diagnosis:
    why = match[2].strip().lower()
    what = f"NCCL cannot connect to {match[1]}: {why}"
    interface = case.failure.audience.env("NCCL_SOCKET_IFNAME=NAME")
    return Diagnosis(what, f"{interface} picks the interface by which nodes reach each other (`ip -br addr`)")


def _duplicate(match: re.Match[str], case: Case) -> Diagnosis:
    what = f"ranks {match[1]} and {match[2]} use the same GPU"
    devices = case.failure.devices
    if devices:
        fix = f"torch.cuda.set_device(LOCAL_RANK) in each rank, and no more ranks than GPUs: --nproc-per-node {devices}"
        return Diagnosis(what, fix)
    return Diagnosis(what, "torch.cuda.set_device(LOCAL_RANK) in each rank, and no more ranks than GPUs")


_NO_INTERFACE = always(
    "NCCL finds no network interface of the given name",
    "leave NCCL_SOCKET_IFNAME out, or set it to one of this node's (`ip -br addr`)",
)
_ROOM = "lower the batch size, or the program's own part of the GPU's memory"
_ERROR = r"NCCL error in: [^,]{1,200}, "

RULES: tuple[Rule, ...] = (
    rule(
        r"Cuda failure(?: \d{1,4})? 'out of memory'",
        always("NCCL found no GPU memory for its buffers", _ROOM),
        bare=True,
    ),
    rule(r"Bootstrap : no socket interface found$", _NO_INTERFACE, bare=True),
    rule(r"(?:Duplicate GPU detected : rank (\d{1,6}) and rank (\d{1,6}) both on CUDA device)", _duplicate, bare=True),
    rule(r"socketStartConnect: Connect to ([\w.:%-]{1,80})<\d{1,5}> failed : ([A-Za-z ]{1,60})$", _connect, bare=True),
    rule(
        r"(?:\[[\w ()]{1,80}\] ){0,2}Watchdog caught collective operation timeout: "
        r"WorkNCCL\(SeqNum=\d{1,12}, OpType=([A-Z_]{1,40}), .{0,120}\) ran for (\d{1,12}) milliseconds",
        _timeout,
        consequence=True,
    ),
    rule(
        _ERROR + "remote process exited or there was a network error",
        always("another rank ended, and NCCL lost its connection", _OTHER_RANKS),
        consequence=True,
    ),
    rule(
        _ERROR + "unhandled system error",
        always(
            "NCCL failed with a system error, of sockets or shared memory",
            lambda failure: f"{_debug(failure)}; a full /dev/shm is one",
        ),
        consequence=True,
    ),
    rule(
        _ERROR + "unhandled cuda error",
        always(
            "NCCL failed with an error of CUDA",
            lambda failure: f"{_debug(failure)}; a build of PyTorch for another CUDA, or a full GPU, are some",
        ),
        consequence=True,
    ),
)
