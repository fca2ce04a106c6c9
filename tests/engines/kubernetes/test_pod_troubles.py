"""Known troubles of pods with GPUs, by objects as an API server gives them."""

from typing import Any

import pytest

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.node_facts import read_node
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.doctor import examine
from corral.engines.kubernetes.pod_troubles import Troubles, keep_for_troubles
from corral.formatting.check_result import OK, WARNING, CheckResult
from tests.engines.kubernetes.manifests import node
from tests.engines.kubernetes.nodes import make_node

V100 = {"nvidia.com/gpu.product": "Tesla-V100-PCIE-16GB", "nvidia.com/gpu.compute.major": "7"}
V100 |= {"nvidia.com/gpu.compute.minor": "0"}
CUDA_12_4 = {"nvidia.com/cuda.runtime-version.major": "12", "nvidia.com/cuda.runtime-version.minor": "4"}
CUDA_11_4 = {"nvidia.com/cuda.runtime-version.major": "11", "nvidia.com/cuda.runtime-version.minor": "4"}
P100 = {
    "nvidia.com/gpu.product": "Tesla-P100",
    "nvidia.com/gpu.compute.major": "6",
    "nvidia.com/gpu.compute.minor": "0",
}


def pod(*, env: dict[str, str] | None = None, gpus: dict[str, str] | None = None, **container: Any) -> dict[str, Any]:
    """A pod that runs on the node n."""
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
    one = {
        "name": "main",
        "image": "serve:1",
        "env": variables,
        "resources": {"limits": gpus or {"nvidia.com/gpu": "1"}},
    }
    return {
        "metadata": {"namespace": "team-a", "name": "p"},
        "spec": {"nodeName": "n", "containers": [one | container]},
        "status": {"phase": "Running"},
    }


def plugin(name: str, status: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "kube-system",
            "name": f"{name}-x",
            "ownerReferences": [{"kind": "DaemonSet", "name": name}],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "main"}]},
        "status": status,
    }


def found(
    about: str, *pods: dict[str, Any], labels: dict[str, str] | None = None, offers: dict[str, str] | None = None
) -> CheckResult:
    wanted = node("n", gpus=0 if offers else 4, labels=labels)
    for amounts in ("capacity", "allocatable"):
        wanted["status"][amounts] |= offers or {}
    kept = [one for item in pods for one in keep_for_troubles(item) or ()]
    return Troubles({"n": read_node(wanted)}, kept).results()[about]()


def test_bfloat16_on_a_gpu_before_ampere_is_told_with_the_flag_to_use() -> None:
    args = ["--model=meta-llama/Llama-2-7b-chat-hf", "--dtype=bfloat16"]
    said = found("precision", pod(command=["vllm", "serve"], args=args), labels=V100)
    assert said.state == WARNING
    assert "team-a/p: the program asks for bfloat16 and Tesla-V100-PCIE-16GB has compute capability 7.0" in said.found
    assert "--dtype=half" in said.advice
    half = pod(command=["vllm", "serve"], args=["--dtype=half"])
    assert found("precision", half, labels=V100).state == OK


@pytest.mark.parametrize("env", [{"CUDA_VERSION": "13.0.1"}, {"NVIDIA_REQUIRE_CUDA": "cuda>=13.0 driver>=550"}])
def test_a_runtime_newer_than_the_driver_is_told(env: dict[str, str]) -> None:
    said = found("runtimes", pod(env=env), labels=CUDA_12_4)
    assert said.state == WARNING
    assert "CUDA 13.0 and the driver is for CUDA 12.4" in said.found
    assert "CUDA_ERROR_UNKNOWN" in said.found
    assert found("runtimes", pod(env={"CUDA_VERSION": "12.1"}), labels=CUDA_12_4).state == OK


def test_a_part_of_gpu_manager_is_for_cuda_below_12_4_and_a_whole_gpu_for_any() -> None:
    def asked(core: str) -> CheckResult:
        part = pod(env={"CUDA_VERSION": "12.4"}, gpus={"tencent.com/vcuda-core": core})
        return found("runtimes", part, labels=CUDA_12_4, offers={"tencent.com/vcuda-core": "400"})

    assert "CUDA below 12.4 only" in asked("50").found
    assert asked("100").state == OK


@pytest.mark.parametrize(
    "how", [{"image": "site/paddlepaddle:2.6"}, {"command": ["python", "-m", "paddle.distributed.launch"]}]
)
def test_paddles_growing_allocator_on_a_part_of_a_gpu_is_told(how: dict[str, Any]) -> None:
    part = {"tencent.com/vcuda-core": "50"}
    said = found("allocator", pod(gpus=part, **how), offers={"tencent.com/vcuda-core": "400"})
    assert said.state == WARNING
    assert "FLAGS_allocator_strategy=naive_best_fit" in said.advice
    mended = pod(gpus=part, env={"FLAGS_allocator_strategy": "naive_best_fit"}, **how)
    assert found("allocator", mended).state == OK
    assert found("allocator", pod(**how)).state == OK


@pytest.mark.parametrize(
    ("labels", "offers", "told"),
    [
        (P100, {"nvidia.com/mps-core": "100"}, "Volta"),
        (V100 | CUDA_11_4, {"nvidia.com/mps-core": "100"}, "CUDA 11.5"),
        (V100, {"nvidia.com/mps-core": "100", "nvidia.com/mig-1g.5gb": "7"}, "MIG"),
        (
            V100,
            {"tencent.com/vcuda-core": "100", "nvidia.com/mig-1g.5gb": "7"},
            "GPU-Manager cannot divide",
        ),
    ],
)
def test_nodes_that_offer_parts_which_they_cannot_give_are_told(
    labels: dict[str, str], offers: dict[str, str], told: str
) -> None:
    assert told in found("sharing", labels=labels, offers=offers).found


def test_nodes_that_can_give_parts_are_well() -> None:
    assert found("sharing", labels=V100 | CUDA_12_4, offers={"nvidia.com/mps-core": "100"}).state == OK


def test_labels_of_another_cuda_than_the_drivers_are_told_with_the_command_that_mends_them() -> None:
    wrong = {"cuda-major-version": "11", "cuda-minor-version": "8"}
    said = found("version labels", labels=CUDA_12_4 | wrong)
    assert "n says 11.8 and its driver runs 12.4" in said.found
    assert said.advice == "kubectl label node n --overwrite cuda-major-version=12 cuda-minor-version=4"
    right = {"cuda-major-version": "12", "cuda-minor-version": "4"}
    assert found("version labels", labels=CUDA_12_4 | right).state == OK
    assert found("version labels", labels=wrong).state == OK


@pytest.mark.parametrize(
    "name", ["nvidia-device-plugin-ds", "nvidia-mps-device-plugin-daemonset", "gpu-manager-daemonset"]
)
def test_a_plugin_that_does_not_run_is_told_with_its_reason(name: str) -> None:
    crashing = {"ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    said = found("plugins", plugin(name, {"phase": "Running", "containerStatuses": [crashing]}))
    assert f"kube-system/{name}-x on n: CrashLoopBackOff" in said.found
    running = {"phase": "Running", "containerStatuses": [{"ready": True, "state": {"running": {}}}]}
    assert found("plugins", plugin(name, running)).state == OK


@pytest.mark.parametrize(
    "nonsense",
    [
        {},
        {"spec": {"nodeName": "n", "containers": "none"}},
        {
            "spec": {
                "nodeName": "n",
                "containers": [{"command": {"a": 1}, "resources": {"limits": {"nvidia.com/gpu": []}}}],
            }
        },
        {"spec": {"nodeName": "n"}, "metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": []}]}},
        pod(command=[{"x": "\x1b[2J"}, None, 7], args=["--dtype", "\udc80"] * 2000),
    ],
)
def test_a_pod_of_nonsense_hides_no_other(nonsense: dict[str, Any]) -> None:
    args = ["--dtype=bfloat16"]
    assert found("precision", nonsense, pod(command=["vllm", "serve"], args=args), labels=V100).state == WARNING


def test_doctor_tells_them_of_a_real_cluster(cluster: Cluster, namespace: str) -> None:
    name = f"a-{namespace}"
    make_node(cluster, name, labels=V100)
    wanted = pod(command=["vllm", "serve"], args=["--dtype=bfloat16"])
    wanted["metadata"] = {"name": "brain"}
    wanted["spec"]["nodeName"] = name
    del wanted["status"]
    cluster.create(PODS, wanted, namespace)
    told = {result.about: result for result in examine(cluster)}
    assert told["precision"].state == WARNING
    assert {"runtimes", "allocator", "sharing", "version labels", "plugins"} <= told.keys()
