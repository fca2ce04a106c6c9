"""Real processes that are bound to NUMA nodes. The machine may have one; what the kernel refuses is then to be said."""

import os
import re
from pathlib import Path
from typing import Any

from tests.host.runtimes.process.conftest import Machine

SHOW = "grep Cpus_allowed_list /proc/self/status; sh -c 'head -n 1 /proc/self/numa_maps'"


def one_cpu() -> int:
    return max(os.sched_getaffinity(0))


def told_by_a_job(machine: Machine, **binding: Any) -> str:
    launch = machine.launch("sh", "-c", SHOW, **binding)
    end = machine.wait(launch).exit
    assert end is not None
    assert end.exit_code == 0
    return machine.log(launch).decode()


def test_a_job_and_what_it_starts_run_on_the_cpus_of_its_numa_node_with_its_memory_first(machine: Machine) -> None:
    told = told_by_a_job(machine, numa_nodes=(0,), numa_cpus=(one_cpu(),))
    assert re.search(rf"Cpus_allowed_list:\s+{one_cpu()}\n", told)
    assert re.search(r" prefer( \(many\)|=relative)?:0 ", told) or not Path("/proc/self/numa_maps").exists()
    assert "warning" not in told


def test_a_job_that_is_not_bound_may_run_anywhere(machine: Machine) -> None:
    own = re.search(r"Cpus_allowed_list:.*", Path("/proc/self/status").read_text())
    assert own is not None
    assert own[0] in told_by_a_job(machine)


def test_a_job_that_cannot_be_bound_runs_all_the_same_and_its_log_says_why(machine: Machine) -> None:
    for node, cpu in ((0, 4095), (1023, one_cpu()), (5000, one_cpu())):
        told = told_by_a_job(machine, numa_nodes=(node,), numa_cpus=(cpu,))
        assert f"not bound to NUMA node {node}, which is nearest to its GPUs: " in told
