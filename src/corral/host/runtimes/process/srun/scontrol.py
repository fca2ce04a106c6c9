"""`scontrol show hostnames`, by which scripts for Slurm list the nodes of their job. Other parts of scontrol are
missing.
"""

import os
import sys
from typing import NoReturn

from corral.core.model.devices.host_list import expand_hosts
from corral.core.model.errors import Refused

_OTHERWISE = (
    "this is Corral's scontrol, which knows only `show hostnames [LIST]`; `corral show ID` tells about a job, "
    "`corral nodes` about nodes, and `corral update`, `hold`, `release` and `requeue` change jobs"
)


def main(words: list[str]) -> NoReturn:
    """Print the nodes of a list, or of the job, a line each."""
    if words[:1] != ["show"] or words[1:2] not in (["hostnames"], ["hostname"]):
        _fail(_OTHERWISE)
    given = ",".join(words[2:]) or _of_the_job()
    if not given:
        _fail("there is no list of nodes, and no SLURM_JOB_NODELIST; write scontrol show hostnames gpu-[01-03]")
    try:
        print(*expand_hosts(given, field="show hostnames"), sep="\n")
    except Refused as refused:
        _fail(str(refused))
    sys.exit(0)


def _of_the_job() -> str:
    names = ("SLURM_JOB_NODELIST", "CORRAL_NODES", "CORRAL_NODE")
    return next((value for name in names if (value := os.environ.get(name))), "")


def _fail(why: str) -> NoReturn:
    sys.stderr.write(f"scontrol: {why}\n")
    sys.exit(1)
