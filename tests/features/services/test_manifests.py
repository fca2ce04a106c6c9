"""What OME and KServe get of a deployment."""

from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.features.services.manifests import (
    NodeWish,
    PodPlacing,
    ServiceShape,
    checked_name,
    kserve_service,
    ome_service,
    runtime_gpus,
    service_shape,
)
from corral.features.services.service_wanted import ServiceWanted

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

OME_RUNTIME: dict[str, Any] = {
    "spec": {
        "engineConfig": {
            "tolerations": [{"key": "team", "operator": "Exists"}],
            "runner": {
                "name": "ome-container",
                "command": ["python3", "-m", "server"],
                "args": ["--port=8080"],
                "resources": {"limits": {"nvidia.com/gpu": 4}},
            },
        }
    }
}
KSERVE_RUNTIME: dict[str, Any] = {
    "metadata": {"name": "hf"},
    "spec": {"supportedModelFormats": [{"name": "huggingface"}], "containers": [{"name": "kserve-container"}]},
}


def wanted(model: str = "llama", **parameters: Any) -> ServiceWanted:
    return ServiceWanted("chat", "team", model, "rt", {key.replace("_", "-"): val for key, val in parameters.items()})


def test_ome_gets_the_model_the_runtime_and_the_runtimes_own_arguments_with_those_added() -> None:
    made = ome_service(wanted(tp_size=2), OME_RUNTIME, PodPlacing(NodeWish("node-1", "host-1")))
    assert made["spec"]["model"] == {"name": "llama", "kind": "ClusterBaseModel", "apiGroup": "ome.io"}
    assert made["spec"]["runtime"] == {"name": "rt", "kind": "ClusterServingRuntime", "apiGroup": "ome.io"}
    engine = made["spec"]["engine"]
    assert engine["runner"]["args"] == ["--port=8080", "--tp-size=2"]
    assert engine["runner"]["name"] == "ome-container"
    assert (
        engine["runner"]["resources"]["limits"] == engine["runner"]["resources"]["requests"] == {"nvidia.com/gpu": "2"}
    )
    assert "preferredDuringSchedulingIgnoredDuringExecution" in engine["affinity"]["nodeAffinity"]
    assert made["metadata"]["annotations"] == {"corral.dev/gpus": "2", "corral.dev/node": "node-1"}


def test_without_parameters_and_node_the_runtime_stays_as_it_is() -> None:
    made = ome_service(wanted(), OME_RUNTIME)
    assert made["spec"]["engine"] == {"minReplicas": 1, "maxReplicas": 1}
    assert made["metadata"]["annotations"] == {"corral.dev/gpus": "4"}


def test_gpus_of_the_runtime_count_for_kserve_too_unless_the_service_names_some() -> None:
    limits = {"resources": {"limits": {"nvidia.com/gpu": "4"}}}
    runtime = {"spec": {**KSERVE_RUNTIME["spec"], "containers": [{"name": "kserve-container", **limits}]}}
    made = kserve_service(wanted(), runtime)
    assert made["metadata"]["annotations"]["corral.dev/gpus"] == "4"
    assert "resources" not in made["spec"]["predictor"]["model"]
    assert kserve_service(wanted(tp_size=2), runtime)["metadata"]["annotations"]["corral.dev/gpus"] == "2"


def test_kserve_gets_the_runtimes_model_format_and_only_what_is_added() -> None:
    made = kserve_service(
        wanted("hf://meta/llama", tp_size=2), KSERVE_RUNTIME, PodPlacing(NodeWish("n", "host-1", required=True))
    )
    predictor = made["spec"]["predictor"]
    assert predictor["model"] == {
        "modelFormat": {"name": "huggingface"},
        "runtime": "rt",
        "storageUri": "hf://meta/llama",
        "args": ["--tp-size=2"],
        "resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}},
    }
    assert "requiredDuringSchedulingIgnoredDuringExecution" in predictor["affinity"]["nodeAffinity"]
    assert made["metadata"]["annotations"]["serving.kserve.io/deploymentMode"] == "Standard"


def test_a_model_that_is_no_uri_is_the_runtimes_own_for_kserve() -> None:
    assert "storageUri" not in kserve_service(wanted("llama"), KSERVE_RUNTIME)["spec"]["predictor"]["model"]


@pytest.mark.parametrize("runtime", [{}, {"spec": None}, {"spec": {"supportedModelFormats": [{"name": 7}, 3]}}])
def test_a_runtime_that_supports_nothing_is_refused_for_kserve(runtime: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="no model format"):
        kserve_service(wanted(), runtime)


def test_what_kserve_would_read_as_a_template_is_refused() -> None:
    with pytest.raises(Refused, match="template"):
        kserve_service(wanted(chat="{{.Name}}"), KSERVE_RUNTIME)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("My_Task-exp1", "my-task-exp1"),
        ("a.b", "a-b"),
        ("x" * 60, "x" * 50),
        ("a-", "such as a"),
        ("7", "letter first"),
    ],
)
def test_a_name_that_no_service_can_have_is_refused_with_one_that_it_could(name: str, hint: str) -> None:
    with pytest.raises(Refused, match=hint):
        checked_name(name)
    assert checked_name("my-task-exp1") == "my-task-exp1"


def test_the_gpus_that_a_runtime_asks_for_itself_are_counted() -> None:
    assert runtime_gpus(OME_RUNTIME["spec"]["engineConfig"]) == 4
    assert runtime_gpus({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "x"}}}]}) is None


OVER_NODES: dict[str, Any] = {
    "spec": {
        "engineConfig": {
            "leader": {"runner": {"name": "ome-container", "command": ["serve"], "args": ["--rank=0"]}},
            "worker": {
                "size": 1,
                "tolerations": [{"key": "team", "operator": "Exists"}],
                "runner": {"name": "ome-container", "command": ["serve"], "args": ["--rank=1"]},
            },
        }
    }
}


def test_a_leader_and_its_workers_share_the_gpus_and_go_to_the_chosen_nodes() -> None:
    wish = NodeWish("node-1", "host-1", required=True, hostnames_beside=("host-2",))
    engine = ome_service(wanted(tp_size=16), OVER_NODES, PodPlacing(wish))["spec"]["engine"]
    assert "runner" not in engine
    for part, rank in (("leader", 0), ("worker", 1)):
        assert engine[part]["runner"]["args"] == [f"--rank={rank}", "--tp-size=16"]
        assert engine[part]["runner"]["resources"]["limits"] == {"nvidia.com/gpu": "8"}
        (term,) = engine[part]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == ["host-1", "host-2"]
    assert engine["worker"]["size"] == 1


def test_pods_that_a_server_binds_name_its_scheduler_leader_and_workers_too() -> None:
    placing = PodPlacing(scheduler="corral", annotations={"corral.dev/name": "chat"})
    engine = ome_service(wanted(tp_size=16), OVER_NODES, placing)["spec"]["engine"]
    assert engine["annotations"] == {"corral.dev/name": "chat"}
    assert (engine["leader"]["schedulerName"], engine["worker"]["schedulerName"]) == ("corral", "corral")
    assert ome_service(wanted(), OME_RUNTIME, placing)["spec"]["engine"]["schedulerName"] == "corral"
    made = kserve_service(wanted(), KSERVE_RUNTIME, placing)
    assert made["spec"]["predictor"]["schedulerName"] == "corral"
    assert made["metadata"]["annotations"]["serving.kserve.io/deploymentMode"] == "Standard"


@pytest.mark.parametrize(
    ("gpus", "worker", "words"),
    [
        (15, {"size": 1}, "15 GPUs cannot be shared evenly by the 2 pods"),
        (8, {"size": 0}, "0 workers"),
        (8, {"size": "many"}, "'many' workers"),
        (8, {"size": 10**9}, "workers: 1 to 255 can be placed"),
    ],
)
def test_gpus_that_the_pods_of_a_service_cannot_share_are_refused(gpus: int, worker: Any, words: str) -> None:
    with pytest.raises(Refused, match=words):
        service_shape(gpus, {"worker": worker})


def test_a_runtime_without_workers_has_one_pod_and_one_with_them_names_its_gpus_itself() -> None:
    assert service_shape(4, {}) == ServiceShape(4)
    assert service_shape(None, {}) == ServiceShape(1)
    own = {"runner": {"resources": {"limits": {"nvidia.com/gpu": 8}}}}
    assert service_shape(None, own) == ServiceShape(8)
    assert service_shape(2, own) == ServiceShape(2)
    assert service_shape(None, {"worker": {"size": 3, **own}}) == ServiceShape(8, 4)
