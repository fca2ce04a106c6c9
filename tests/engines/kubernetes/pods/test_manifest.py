import json
from dataclasses import replace

import pytest

from corral.core.model.errors import BackendFailed, Forbidden
from corral.core.model.jobs.container import Container, parse_volume
from corral.core.model.jobs.job import Request
from corral.core.model.placing.placement_rules import PlacementRules, TaintEffect, Toleration
from corral.core.model.runs.launch import Launch
from corral.engines.kubernetes.pods.manifest import literal, pod_of, service_of, tombstone_of
from corral.engines.kubernetes.pods.names import FINALIZER, Names
from corral.engines.kubernetes.pods.site import PodSite
from corral.engines.kubernetes.pods.state import keep
from tests.engines.kubernetes.pods.launches import IMAGE, launch_of

NAMES = Names("abc123")


def made(launch: Launch, site: PodSite | None = None) -> dict[str, object]:
    return pod_of(launch, NAMES, "ml", site or PodSite(), kill_grace_s=10.0)


def part(pod: object, *keys: str | int) -> object:
    for key in keys:
        pod = pod[key]  # type: ignore[index]
    return pod


def container(pod: dict[str, object]) -> dict[str, object]:
    return part(pod, "spec", "containers", 0)  # type: ignore[return-value]


def env(pod: dict[str, object]) -> dict[str, str]:
    return {one["name"]: one.get("value") for one in container(pod)["env"]}  # type: ignore[attr-defined]


def test_a_launch_is_a_pod_on_its_node_that_runs_its_command_once() -> None:
    pod = made(launch_of(17, gpus=2, command=("python", "train.py"), queue="night", project="nlp"))
    assert part(pod, "metadata", "name") == "corral-abc123-17-1-0"
    assert part(pod, "metadata", "finalizers") == [FINALIZER]
    labels = part(pod, "metadata", "labels")
    assert isinstance(labels, dict)
    assert labels["corral.dev/user"] == "alice"
    assert (labels["corral.dev/queue"], labels["corral.dev/project"]) == ("night", "nlp")
    spec = part(pod, "spec")
    assert isinstance(spec, dict)
    assert (spec["nodeName"], spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("gpu-01", "Never", 10)
    assert spec["automountServiceAccountToken"] is False
    one = container(pod)
    assert (one["image"], one["command"]) == (IMAGE, ["python", "train.py"])
    assert "workingDir" not in one
    assert one["resources"] == {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}}


def test_the_state_that_is_kept_knows_the_launch_again() -> None:
    kept = keep(made(launch_of(17, rank=1, members=3, checkpoint_signal="TERM", checkpoint_grace_s=90.0)))
    assert kept is not None
    assert (kept.launch_id, kept.members, kept.node, kept.held) == ("17.1-1", 3, "gpu-01", True)
    assert (kept.checkpoint_grace_s, kept.tombstone, kept.over, kept.has_run) == (90, False, False, False)


def test_a_pod_without_gpus_sees_none_even_where_its_image_would_see_all() -> None:
    assert env(made(launch_of()))["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "NVIDIA_VISIBLE_DEVICES" not in env(made(launch_of(gpus=1)))
    assert "CUDA_VISIBLE_DEVICES" not in env(made(launch_of(gpus=1)))


def test_cpus_and_memory_are_limits_and_the_disk_is_only_counted() -> None:
    launch = replace(launch_of(request=Request(disk_mib=1024)), cpu_milli=1500, host_memory_mib=2048)
    held = {"cpu": "1500m", "memory": "2048Mi"}
    assert container(made(launch))["resources"] == {
        "limits": held,
        "requests": {**held, "ephemeral-storage": "1024Mi"},
    }


def test_kubernetes_puts_no_variables_in_place_of_what_a_user_wrote() -> None:
    launch = replace(launch_of(command=("sh", "-c", "echo $(HOME) $$ $X")), env=(("A", "$(B)"),))
    pod = made(launch)
    assert container(pod)["command"] == ["sh", "-c", "echo $$(HOME) $$$$ $$X"]
    assert env(pod)["A"] == "$$(B)"
    assert literal("plain") == "plain"


def test_members_of_a_gang_find_each_other_by_a_service() -> None:
    launch = launch_of(17, rank=1, members=2)
    spec, service = part(made(launch), "spec"), service_of(launch, NAMES, "ml")
    assert isinstance(spec, dict)
    assert (spec["hostname"], spec["subdomain"]) == ("corral-abc123-17-1-1", "corral-abc123-17-1")
    assert part(service, "metadata", "name") == spec["subdomain"]
    assert part(service, "spec", "clusterIP") == "None"
    labels = part(made(launch), "metadata", "labels")
    assert isinstance(labels, dict)
    selector = part(service, "spec", "selector")
    assert isinstance(selector, dict)
    assert selector.items() <= labels.items()


def test_volumes_are_mounted_where_the_user_says() -> None:
    texts = ["/data:/data:ro", "pvc/models:/models", "configmap/c:/c", "secret/s:/s:ro"]
    pod = made(launch_of(container=Container(IMAGE, tuple(map(parse_volume, texts)))))
    assert part(pod, "spec", "volumes")[1:] == [  # type: ignore[index]
        {"name": "corral-0", "hostPath": {"path": "/data", "type": "Directory"}},
        {"name": "corral-1", "persistentVolumeClaim": {"claimName": "models"}},
        {"name": "corral-2", "configMap": {"name": "c"}},
        {"name": "corral-3", "secret": {"secretName": "s"}},
    ]
    mounts = container(pod)["volumeMounts"]
    assert isinstance(mounts, list)
    assert mounts[1] == {"name": "corral-0", "mountPath": "/data", "readOnly": True}


def test_a_pod_with_a_claim_is_bound_by_the_clusters_scheduler_on_the_node_that_was_chosen() -> None:
    spec = part(made(launch_of(container=Container(IMAGE, (parse_volume("pvc/m:/m"),)))), "spec")
    assert isinstance(spec, dict)
    assert "nodeName" not in spec
    assert "gpu-01" in json.dumps(spec["affinity"])


def test_a_template_is_under_what_corral_decides() -> None:
    template = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {
            "tolerations": [{"operator": "Exists"}],
            "volumes": [{"name": "shm", "emptyDir": {}}],
            "containers": [
                {
                    "name": "mine",
                    "env": [{"name": "CORRAL_JOB_ID", "value": "x"}, {"name": "B", "value": "$(C)"}],
                    "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                }
            ],
        },
    }
    asked = Container(IMAGE, (parse_volume("secret/s:/s"),), pod_template=json.dumps(template))
    pod = made(launch_of(5, container=asked))
    assert part(pod, "metadata", "labels", "team") == "a"
    assert container(pod)["name"] == "main"
    assert env(pod)["CORRAL_JOB_ID"] == "5"
    assert env(pod)["B"] == "$(C)"
    assert len(part(pod, "spec", "volumes")) == len(container(pod)["volumeMounts"]) == 3  # type: ignore[arg-type]
    assert part(pod, "spec", "restartPolicy") == "Never"


def test_a_template_that_the_site_no_longer_allows_is_refused_at_the_launch() -> None:
    asked = Container(IMAGE, pod_template='{"spec": {"hostPID": true}}')
    made(launch_of(container=asked), PodSite(privileged_templates=True))
    with pytest.raises(Forbidden):
        made(launch_of(container=asked))


def test_names_that_users_chose_are_labels_in_part_and_annotations_in_full() -> None:
    pod = made(launch_of(name="träin/é " * 30))
    labels, annotations = part(pod, "metadata", "labels"), part(pod, "metadata", "annotations")
    assert isinstance(labels, dict)
    assert isinstance(annotations, dict)
    assert len(labels["corral.dev/job-name"]) <= 63
    assert annotations["corral.dev/job-name"] == "träin/é " * 30


def test_a_slice_where_all_gpus_are_offered_as_slices_is_asked_for_as_a_gpu() -> None:
    pod = made(launch_of(gpus=2, request=Request(devices=2, mig_profile="1g.10gb")))
    assert part(pod, "spec", "containers", 0, "resources", "limits") == {"nvidia.com/gpu": "2"}


def test_a_part_of_a_gpu_and_a_gpu_that_is_gone_are_no_pod() -> None:
    with pytest.raises(BackendFailed, match="gives whole GPUs now, and this job asks for a part of one"):
        made(launch_of(gpus=1, request=Request(share_milli=500)))
    with pytest.raises(BackendFailed, match="only 1 of the 2 GPUs"):
        made(replace(launch_of(gpus=2), uses=launch_of(gpus=1).uses))


def test_a_tombstone_has_the_name_of_a_launchs_pod_and_no_scheduler_that_would_bind_it() -> None:
    tombstone = tombstone_of("17_3.1-2", NAMES, "ml", PodSite(), ran=False)
    kept = keep(tombstone)
    assert kept is not None
    assert (kept.launch_id, kept.tombstone, kept.name) == ("17_3.1-2", True, NAMES.pod("17_3.1-2"))
    assert part(tombstone, "spec", "schedulerName") == "corral.dev-nobody"
    assert "nodeName" not in part(tombstone, "spec")  # type: ignore[operator]


def test_what_the_request_tolerates_its_pod_does() -> None:
    rules = PlacementRules(tolerations=(Toleration("a"), Toleration("b", "c", TaintEffect.NO_EXECUTE), Toleration()))
    assert part(made(launch_of(request=Request(rules=rules))), "spec", "tolerations") == [
        {"key": "a", "operator": "Exists"},
        {"key": "b", "operator": "Equal", "value": "c", "effect": "NoExecute"},
        {"operator": "Exists"},
    ]


def test_each_pod_has_a_directory_of_its_own_for_what_it_does_not_keep() -> None:
    pod = made(launch_of())
    assert part(pod, "spec", "volumes") == [{"name": "corral-scratch", "emptyDir": {}}]
    assert container(pod)["volumeMounts"] == [{"name": "corral-scratch", "mountPath": "/corral/scratch"}]
    assert env(pod)["CORRAL_SCRATCH"] == "/corral/scratch"
