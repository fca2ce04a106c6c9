"""What a script gets from `scontrol`, run as jobs find it."""

import subprocess
from pathlib import Path

import pytest

from corral.host.runtimes.process.srun.programs import install


@pytest.fixture(scope="module")
def scontrol(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("home") / "bin")[1]


def asked(scontrol: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([scontrol, *words], env=env, capture_output=True, text=True, check=False)


def test_it_lists_the_nodes_of_a_list_or_of_the_job_a_line_each(scontrol: Path) -> None:
    job = {"SLURM_JOB_NODELIST": "b,a", "CORRAL_NODES": "x"}
    assert asked(scontrol, "show", "hostnames", "gpu-[01-02],login").stdout == "gpu-01\ngpu-02\nlogin\n"
    assert asked(scontrol, "show", "hostnames", **job).stdout == "b\na\n"
    assert asked(scontrol, "show", "hostname", CORRAL_NODES="a,a,b").stdout == "a\nb\n"
    assert asked(scontrol, "show", "hostnames", CORRAL_NODE="a").stdout == "a\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "job", "7"], "knows only `show hostnames [LIST]`; `corral show ID`"),
        (["update", "jobid=7"], "knows only `show hostnames [LIST]`"),
        ([], "knows only `show hostnames [LIST]`"),
        (["show", "hostnames", "a[1"], "'a[1' is not a list of nodes"),
        (["show", "hostnames"], "there is no list of nodes"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(scontrol: Path, words: list[str], said: str) -> None:
    done = asked(scontrol, *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("scontrol: ")
    assert said in done.stderr
