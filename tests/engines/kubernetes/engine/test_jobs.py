"""Jobs on a real API server, with the installed command as a user has it; a kubelet is played."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Selection
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from tests.engines.kubernetes.engine.site import PATIENCE_S, Site
from tests.engines.kubernetes.kubelet import Kubelet

pytestmark = pytest.mark.long

GPU_LABELS = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}
IMAGE = ("--image", "repo/train:1")


@pytest.fixture
def kubelet(site: Site, tmp_path: Path) -> Iterator[Kubelet]:
    kubelet = Kubelet(site.cluster, f"{site.prefix}-gpu", tmp_path / "kubelet", gpus=4)
    kubelet.start(GPU_LABELS)
    yield kubelet
    site.corral("down", status=None)
    kubelet.close()


def pods(site: Site) -> list[str]:
    return [pod["metadata"]["name"] for pod in site.cluster.list(PODS, Selection(site.namespace))]


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it does not come about that {what}"
        time.sleep(0.1)


def on(kubelet: Kubelet, *options: str) -> tuple[str, ...]:
    return (*IMAGE, "--node", kubelet.name, *options)


def waits_for(file: Path, beforehand: str = "") -> tuple[str, ...]:
    """A command that writes that it began, and ends when the file is there, with the code in it."""
    began = f"echo began >> {file}.began"
    return (
        "sh",
        "-c",
        f"{began}; {beforehand} until [ -e {file} ]; do sleep 0.05; done; echo over; exit $(cat {file})",
    )


def let_go(file: Path, code: int) -> None:
    draft = file.with_suffix(".draft")
    draft.write_text(str(code))
    draft.rename(file)


def begun(file: Path) -> int:
    path = file.with_name(f"{file.name}.began")
    return path.read_text().count("began") if path.exists() else 0


def test_a_command_runs_in_a_pod_shows_its_output_and_ends_with_its_code(site: Site, kubelet: Kubelet) -> None:
    # As clusters keep pods without GPUs off such nodes.
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    site.cluster.patch(NODES, kubelet.name, {"spec": {"taints": [taint]}})
    site.up()
    command = ("sh", "-c", "echo on $CORRAL_NODE with $CORRAL_GPUS; exit 3")
    said = site.corral("run", *on(kubelet, "--gpus", "2"), "--", *command, status=3)
    assert f"on {kubelet.name} with 2\n" in said
    assert "on " in site.corral("logs", "1")
    until(lambda: not pods(site), "the pod goes once its job has ended")


def test_a_restart_of_the_server_loses_no_job_and_runs_none_twice(site: Site, kubelet: Kubelet, tmp_path: Path) -> None:
    site.up()
    file = tmp_path / "code"
    site.corral("submit", *on(kubelet, "--gpus", "1"), "--", *waits_for(file, "echo early;"))
    site.until("ps", says="RUNNING")
    site.corral("down")
    site.up()
    assert "RUNNING" in site.until("ps", says="RUNNING")
    site.corral("down")
    let_go(file, 5)
    time.sleep(1.0)
    site.up()
    site.until("show", "1", says="exit code 5")
    assert begun(file) == 1
    assert site.corral("logs", "1").splitlines() == ["early", "over"]


def test_a_pod_that_is_deleted_by_hand_is_told_of(site: Site, kubelet: Kubelet, tmp_path: Path) -> None:
    site.up()
    site.corral("submit", *on(kubelet), "--gpus", "1", "--", *waits_for(tmp_path / "code"))
    site.until("ps", says="RUNNING")
    (name,) = pods(site)
    site.cluster.delete(PODS, name, site.namespace, grace_s=1)
    said = site.until("show", "1", says="LOST")
    assert f"its pod {site.namespace}/{name} was deleted, and not by Corral" in re.sub(r"\s+", " ", said)
    until(lambda: not pods(site), "its object goes once that is in the ledger")


def test_members_of_a_gang_are_told_of_each_other(site: Site, kubelet: Kubelet) -> None:
    site.up()
    words = "echo rank $RANK of $WORLD_SIZE meets at $MASTER_ADDR:$MASTER_PORT"
    site.corral("submit", *on(kubelet, "--gpus", "1", "--gang", "2"), "--", "sh", "-c", words)
    site.until("show", "1", says="SUCCEEDED")
    for rank in range(2):
        said = site.corral("logs", "1", "--rank", str(rank))
        assert re.search(
            rf"rank {rank} of 2 meets at corral-\w+-1-1-0\.corral-\w+-1-1\.{site.namespace}\.svc:\d+", said
        )


def test_a_job_that_is_cancelled_ends_with_its_pod(site: Site, kubelet: Kubelet, tmp_path: Path) -> None:
    site.up()
    site.corral("submit", *on(kubelet, "--gpus", "1"), "--", *waits_for(tmp_path / "code"))
    site.until("ps", says="RUNNING")
    site.corral("cancel", "1")
    site.until("show", "1", says="CANCELLED")
    until(lambda: not pods(site), "its pod goes")


def test_what_cannot_be_run_in_pods_is_refused_in_words(site: Site, kubelet: Kubelet) -> None:
    site.up()
    assert "add --image" in site.corral("submit", "--", "true", status=2)
    assert "does not show /etc" in site.corral("submit", *IMAGE, "--volume", "/etc:/x", "--", "true", status=None)
    for kind, name in (("pvc", "PersistentVolumeClaim"), ("configmap", "ConfigMap"), ("secret", "Secret")):
        said = site.corral("submit", *IMAGE, "--volume", f"{kind}/nope:/x", "--", "true", status=2)
        assert f"there is no {name} nope in namespace {site.namespace}" in said
    assert "only SIGTERM" in site.corral("submit", *IMAGE, "--checkpoint-signal", "USR1@1m", "--", "true", status=2)


def test_a_job_that_is_tried_again_has_a_pod_for_each_attempt_and_one_log(
    site: Site, kubelet: Kubelet, tmp_path: Path
) -> None:
    site.up()
    mark = tmp_path / "first"
    script = f"if [ -e {mark} ]; then echo second $CORRAL_ATTEMPT; else touch {mark}; echo first; exit 1; fi"
    site.corral("submit", *on(kubelet, "--gpus", "1", "--retries", "1"), "--", "sh", "-c", script)
    site.until("show", "1", says="SUCCEEDED")
    said = site.corral("logs", "1").splitlines()
    assert [line for line in said if not line.startswith("corral:")] == ["first", "second 2"]
    until(lambda: not pods(site), "its pods go")


def test_a_script_goes_along_into_its_container(site: Site, kubelet: Kubelet, tmp_path: Path) -> None:
    site.up()
    script = tmp_path / "job.sh"
    lines = ["#!/bin/sh", f"#CORRAL --gpus 1 --image repo/train:1 --node {kubelet.name}", "echo got $1; exit 4"]
    script.write_text("\n".join(lines))
    site.corral("submit", str(script), "words")
    script.unlink()
    said = site.until("show", "1", says="exit code 4")
    assert "job.sh" in said
    assert "repo/train:1" in said
    assert "got words" in site.corral("logs", "1")


def test_a_job_that_makes_room_saves_its_work_first_and_goes_on_later(
    site: Site, kubelet: Kubelet, tmp_path: Path
) -> None:
    site.home.mkdir(exist_ok=True)
    (site.home / "config.yaml").write_text("policies: {enable_preemption: true}\nkill_grace: 1s\n")
    site.up()
    saved, order = tmp_path / "saved", tmp_path / "order"
    saves = f"trap 'sleep 1; touch {saved}; exit 0' TERM; sleep 1000 & wait"
    script = f"echo work >> {order}; if [ ! -e {saved} ]; then {saves}; fi"
    patient = ("--checkpoint-signal", "TERM@60s", "--priority", "9")
    site.corral("submit", *on(kubelet, "--gpus", "4", *patient), "--", "sh", "-c", script)
    until(order.exists, "it works")
    urgent = ("sh", "-c", f"[ -e {saved} ] && echo urgent >> {order}")
    site.corral("submit", *on(kubelet, "--gpus", "4", "--priority", "0"), "--", *urgent)
    site.until("show", "2", says="SUCCEEDED")
    site.until("show", "1", says="SUCCEEDED")
    assert order.read_text().split() == ["work", "urgent", "work"]


def test_ps_why_and_show_say_that_an_image_cannot_be_pulled_before_the_job_fails_of_it(
    site: Site, kubelet: Kubelet
) -> None:
    site.up()
    job = site.corral("submit", "--image", "missing/image:1", "--node", kubelet.name, "--", "true").split()[0]
    for words in (("why", job), ("ps",), ("show", job)):
        site.until(*words, says="its image cannot be pulled (")
    site.corral("cancel", job)
