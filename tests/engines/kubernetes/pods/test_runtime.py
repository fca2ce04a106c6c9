"""What befalls pods on a real API server, and what becomes of their launches."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
import yaml

from corral.core.model.errors import BackendFailed, Conflict, NodeUnreachable, Refused
from corral.core.model.jobs.container import Container, parse_volume
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.placement_rules import PlacementRules, Toleration
from corral.core.model.runs.launch import Launch, LaunchPhase
from corral.core.ports.runtime import InnerCommand
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.connection import ResponseStream
from corral.engines.kubernetes.cluster.errors import ClusterUnreachable, MissingRight, NoSuchObject
from corral.engines.kubernetes.cluster.resource import EVENTS, NODES, PODS, SERVICES, ResourceType
from corral.engines.kubernetes.pods import pod_report, runtime, warnings
from corral.engines.kubernetes.pods.manifest import pod_of, service_of
from corral.engines.kubernetes.pods.names import ENDING, FINALIZER, REASON
from corral.engines.kubernetes.pods.site import PodSite
from tests.certificates import needs_openssl
from tests.engines.kubernetes.control_plane import ADMIN, NOBODY, ControlPlane
from tests.engines.kubernetes.fault_proxy import BAD_DAY, FaultProxy
from tests.engines.kubernetes.kubelet import Kubelet
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node
from tests.engines.kubernetes.pods.conftest import StartKubelet
from tests.engines.kubernetes.pods.launches import IMAGE, launch_of
from tests.engines.kubernetes.pods.rig import PodRig
from tests.engines.kubernetes.refusing_webhook import WORDS, refusing_webhook

UNTIL_LET_GO = "until [ -e $DIRECTORY/$NAME.code ]; do sleep 0.02; done"

EXEC_VERSION = "client.authentication.k8s.io/v1"
ROLES = ResourceType("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = ResourceType("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
LIMIT_RANGES = ResourceType("", "v1", "limitranges", "LimitRange")


@pytest.fixture
def kubelet(start_kubelet: StartKubelet) -> Kubelet:
    return start_kubelet(gpus=4)


@pytest.fixture
def rig(cluster: Cluster, namespace: str, kubelet: Kubelet, tmp_path: Path) -> Iterator[PodRig]:
    rig = PodRig(cluster, namespace, kubelet, tmp_path)
    yield rig
    rig.close()


def changed(launch: Launch, **spec: Any) -> Launch:
    return replace(launch, job=replace(launch.job, spec=replace(launch.job.spec, **spec)))


def running(rig: PodRig, script: str, **spec: Any) -> Launch:
    """A launch of a script, once it runs."""
    launch = changed(rig.launch_of(), command=("sh", "-c", script), **spec)
    rig.runtime.launch(launch)
    rig.until(lambda: rig.report(launch).phase is LaunchPhase.RUNNING)
    return launch


def pod_name(rig: PodRig, launch: Launch) -> str:
    return rig.names.pod(launch.id)


def test_a_program_that_is_not_in_its_image_is_told_apart(rig: PodRig) -> None:
    launch = changed(rig.launch_of(), command=("no-such-program",))
    rig.runtime.launch(launch)
    end = rig.end_of(launch)
    assert (end.ending, end.exit_code) == (Phase.FAILED, 127)
    assert "no-such-program" in (end.reason or "")


@needs_openssl
def test_a_pod_that_a_webhook_refuses_is_refused_in_its_words(
    rig: PodRig, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    refused = refusing_webhook(cluster, namespace, tmp_path, group="", resource="pods")
    with refused, pytest.raises(Refused, match=WORDS):
        rig.runtime.launch(rig.launch_of())
    assert not cluster.list(PODS, Selection(namespace))


def test_words_of_a_command_come_as_they_were_written(rig: PodRig) -> None:
    launch = changed(rig.launch_of(), command=("printf", "%s|", "$(HOME)", "$$", "a b", "$(PATH"))
    rig.runtime.launch(launch)
    rig.end_of(launch)
    assert rig.log(launch) == "$(HOME)|$$|a b|$(PATH|"


def test_a_pod_that_was_deleted_by_hand_is_noticed(rig: PodRig, cluster: Cluster, namespace: str) -> None:
    launch = running(rig, "sleep 100")
    cluster.delete(PODS, pod_name(rig, launch), namespace, grace_s=1)
    end = rig.end_of(launch)
    assert end.phase is LaunchPhase.DEAD
    assert "was deleted, and not by Corral" in (end.reason or "")
    rig.runtime.forget(launch.id)
    rig.until(lambda: gone(cluster, namespace, pod_name(rig, launch)))


def test_a_pod_that_was_deleted_while_no_server_ran_is_noticed_with_its_exit_code(
    rig: PodRig, cluster: Cluster, namespace: str
) -> None:
    launch = running(rig, "trap 'exit 7' TERM; sleep 100 & wait")
    rig.restart(meanwhile=lambda: cluster.delete(PODS, pod_name(rig, launch), namespace, grace_s=20))
    end = rig.end_of(launch)
    assert (end.phase, end.exit_code) == (LaunchPhase.DEAD, 7)


def test_an_end_that_the_watch_has_not_told_yet_can_be_looked_up(rig: PodRig) -> None:
    launch = running(rig, "sleep 1")
    rig.stop_watching()

    def ended() -> bool:
        rig.runtime.look(launch.id)
        return rig.runtime.report(launch.id).phase is LaunchPhase.EXITED

    rig.until(ended)
    assert rig.runtime.report(launch.id).exit_code == 0


def test_an_image_that_cannot_be_pulled_fails_the_job_with_its_words(
    rig: PodRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_report, "IMAGE_TROUBLE_S", 0.5)
    launch = changed(rig.launch_of(), container=Container("missing/image:1"))
    rig.runtime.launch(launch)
    end = rig.end_of(launch)
    assert (end.phase, end.ending) == (LaunchPhase.EXITED, Phase.FAILED)
    assert 'Back-off pulling image "missing/image:1"' in (end.reason or "")
    rig.restart()
    assert rig.report(launch).reason == end.reason


def test_a_node_whose_gpus_are_taken_sends_the_job_back(rig: PodRig, cluster: Cluster, namespace: str) -> None:
    body = {
        "metadata": {"name": "other"},
        "spec": {
            "nodeName": rig.kubelet.name,
            "containers": [
                {
                    "name": "a",
                    "image": "i",
                    "command": ["sleep", "100"],
                    "resources": {"limits": {"nvidia.com/gpu": "4"}},
                }
            ],
        },
    }
    cluster.create(PODS, body, namespace)
    rig.until(lambda: cluster.get(PODS, "other", namespace)["status"].get("phase") == "Running")
    launch = launch_of(1, gpus=1, node=rig.kubelet.name)
    rig.runtime.launch(launch)
    end = rig.end_of(launch)
    assert end.phase is LaunchPhase.DECLARED_LOST
    assert "UnexpectedAdmissionError" in (end.reason or "")


def test_a_claim_that_nobody_can_place_sends_the_job_back(rig: PodRig, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = changed(rig.launch_of(), container=Container("i", (parse_volume("pvc/none:/x"),)))
    monkeypatch.setattr(pod_report, "UNSCHEDULABLE_S", 0.5)
    rig.runtime.launch(launch)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no claim none"}
    rig.kubelet.set_status(rig.runtime.namespace, pod_name(rig, launch), {"conditions": [condition]})
    end = rig.end_of(launch)
    assert end.phase is LaunchPhase.DECLARED_LOST
    assert "no claim none" in (end.reason or "")
    assert rig.begun(launch) == 0


def test_a_job_saves_its_work_on_sigterm_within_its_grace(rig: PodRig) -> None:
    script = "trap 'sleep 2; echo saved; exit 0' TERM; echo ready; sleep 100 & wait"
    launch = running(rig, script, checkpoint_signal="TERM", checkpoint_grace_s=30.0)
    rig.until(lambda: "ready" in rig.log(launch))
    rig.runtime.signal(launch.id, "TERM")
    assert rig.end_of(launch).ending is Phase.CANCELLED
    assert "saved" in rig.log(launch)
    with pytest.raises(Refused, match="SIGTERM can"):
        rig.runtime.signal(launch.id, "USR1")


def test_a_stop_ends_what_does_not_end_by_itself(rig: PodRig) -> None:
    launch = running(rig, "trap '' TERM; while :; do sleep 0.1; done", checkpoint_signal="TERM", checkpoint_grace_s=600)
    rig.runtime.signal(launch.id, "TERM")
    rig.runtime.stop(launch.id)
    end = rig.end_of(launch)
    assert (end.ending, end.exit_code) == (Phase.CANCELLED, 137)


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
def test_a_time_limit_holds_whatever_the_nodes_clock_says(rig: PodRig, ahead_s: float) -> None:
    rig.kubelet.clock_ahead_s = ahead_s
    launch = running(rig, "sleep 100")
    rig.runtime.set_time_limit(launch.id, 600.0)
    time.sleep(1.5)
    assert rig.report(launch).phase is LaunchPhase.RUNNING
    rig.runtime.set_time_limit(launch.id, 1.0)
    assert rig.end_of(launch).ending is Phase.TIMED_OUT


def test_a_log_can_be_read_while_it_is_written_and_after_its_pod_has_gone(
    rig: PodRig, cluster: Cluster, namespace: str
) -> None:
    launch = changed(rig.launch_of(), command=("sh", "-c", f"echo one; {UNTIL_LET_GO}; echo two; printf three"))
    rig.runtime.launch(replace(launch, notes=("a note",)))
    rig.until(lambda: "one" in rig.log(launch))
    rig.let_go(launch, 0)
    rig.end_of(launch)
    rig.runtime.forget(launch.id)
    rig.until(lambda: gone(cluster, namespace, pod_name(rig, launch)))
    assert rig.log(launch) == "corral: a note\none\ntwo\nthree"


def test_a_launch_that_does_not_begin_has_the_warnings_of_its_cluster(
    rig: PodRig, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warnings, "LOOK_S", 0.1)
    node = f"empty-{namespace}"
    make_node(cluster, node)
    launch = replace(rig.launch_of(), node=node)
    rig.runtime.launch(launch)
    assert rig.report(launch).reason == f"node {node} has not taken its pod yet"
    pod = cluster.get(PODS, pod_name(rig, launch), namespace)["metadata"]
    about = {"kind": "Pod", "namespace": namespace, "name": pod["name"], "uid": pod["uid"]}
    told = [("10:00:00", "FailedMount", 'secret "keys" not found'), ("09:00:00", "Old", "before")]
    for at, reason, message in told:
        event = {"involvedObject": about, "type": "Warning", "reason": reason, "message": message}
        event |= {"metadata": {"name": reason.lower()}, "lastTimestamp": f"2026-11-22T{at}Z"}
        cluster.create(EVENTS, event, namespace)
    rig.until(lambda: 'FailedMount: secret "keys" not found' in (rig.report(launch).reason or ""))
    cluster.delete(NODES, node)


def test_what_a_pod_writes_after_it_was_told_to_end_is_in_its_log(rig: PodRig) -> None:
    launch = running(rig, "trap 'echo last; printf words; exit 0' TERM; echo ready; sleep 100 & wait")
    rig.runtime.stop(launch.id)
    rig.end_of(launch)
    assert rig.log(launch) == "ready\nlast\nwords"


def test_so_is_what_it_writes_after_somebody_else_has_deleted_it(rig: PodRig, cluster: Cluster, namespace: str) -> None:
    launch = running(rig, "trap 'sleep 2; echo saved; exit 0' TERM; echo ready; sleep 100 & wait")
    cluster.delete(PODS, pod_name(rig, launch), namespace, grace_s=60)
    rig.end_of(launch)
    rig.runtime.forget(launch.id)
    assert rig.log(launch) == "ready\nsaved\n"


def test_a_log_is_neither_lost_nor_doubled_by_a_restart_of_the_server(rig: PodRig) -> None:
    launch = changed(rig.launch_of(), command=("sh", "-c", f"seq 1 500; {UNTIL_LET_GO}; seq 501 1000"))
    rig.runtime.launch(launch)
    rig.until(lambda: "\n500\n" in rig.log(launch))
    rig.restart()
    rig.let_go(launch, 0)
    rig.end_of(launch)
    assert rig.log(launch).split() == [str(number) for number in range(1, 1001)]


def test_a_pod_that_has_ended_stays_until_its_log_could_be_read(
    rig: PodRig, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = changed(rig.launch_of(), command=("echo", "once"))
    rig.runtime.launch(launch)
    rig.end_of(launch)
    read_log, failed = cluster.read_log, list[str]()

    def fail_twice(pod: str, *where: str, **more: Any) -> ResponseStream:
        if len(failed) < 2:
            failed.append(pod)
            raise ClusterUnreachable("the node has not answered")
        return read_log(pod, *where, **more)

    monkeypatch.setattr(cluster, "read_log", fail_twice)
    rig.runtime.forget(launch.id)
    rig.until(lambda: gone(cluster, namespace, pod_name(rig, launch)))
    assert rig.log(launch) == "once\n"
    assert len(failed) == 2


def test_a_pod_is_not_removed_while_its_log_is_read(
    rig: PodRig, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = changed(rig.launch_of(), command=("echo", "once"))
    rig.runtime.launch(launch)
    rig.end_of(launch)
    read_log, rounds = cluster.read_log, list[Thread]()

    def read_late(pod: str, *where: str, **more: Any) -> ResponseStream:
        if not rounds:
            rounds.append(Thread(target=rig.runtime.remove_forgotten))
            rounds[0].start()
            rounds[0].join(timeout=3.0)
        return read_log(pod, *where, **more)

    monkeypatch.setattr(cluster, "read_log", read_late)
    rig.runtime.forget(launch.id)
    rounds[0].join()
    rig.until(lambda: gone(cluster, namespace, pod_name(rig, launch)))
    assert rig.log(launch) == "once\n"


def test_a_log_that_cannot_be_read_at_all_says_so(
    rig: PodRig, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LOG_PATIENCE_S", 0.5)
    launch = changed(rig.launch_of(), command=("echo", "once"))
    rig.runtime.launch(launch)
    rig.end_of(launch)

    def fail(*where: str, **more: Any) -> ResponseStream:
        raise ClusterUnreachable("the node has not answered")

    monkeypatch.setattr(cluster, "read_log", fail)
    rig.runtime.forget(launch.id)
    rig.until(lambda: gone(cluster, namespace, pod_name(rig, launch)))
    assert rig.log(launch) == "corral: the rest of the log is lost: the node has not answered\n"


def test_a_log_is_not_doubled_by_reading_it_while_its_pod_goes(rig: PodRig, cluster: Cluster, namespace: str) -> None:
    launch = changed(rig.launch_of(), command=("echo", "once"))
    rig.runtime.launch(launch)
    rig.end_of(launch)
    name = pod_name(rig, launch)
    # It is there for longer than Corral keeps it, as where its node does not answer.
    cluster.patch(PODS, name, {"metadata": {"finalizers": [FINALIZER, "example.test/slow"]}}, namespace)
    pod = rig.runtime.pods.get(launch.id)
    assert pod is not None
    rig.runtime.logs.finish(pod)
    assert rig.log(launch) == "once\n"
    rig.runtime.forget(launch.id)
    assert rig.log(launch) == "once\n"
    rig.restart()
    rig.until(lambda: rig.runtime.pods.newest(launch.job.id, launch.rank) is not None)
    assert rig.log(launch) == "once\n"
    cluster.patch(PODS, name, {"metadata": {"finalizers": None}}, namespace)


def test_members_of_a_gang_have_a_service_as_long_as_they_are_there(
    rig: PodRig, cluster: Cluster, namespace: str
) -> None:
    members = [rig.start(rig.launch_of(rank=rank, members=2)) for rank in range(2)]
    service = cluster.get(SERVICES, rig.names.service("1.1"), namespace)
    labels = cluster.get(PODS, pod_name(rig, members[1]), namespace)["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert (
        rig.runtime.rendezvous("1.1-1").address
        == f"{pod_name(rig, members[0])}.{service['metadata']['name']}.{namespace}.svc"
    )
    for launch in members:
        rig.let_go(launch, 0)
        rig.end_of(launch)
        rig.runtime.forget(launch.id)
    with pytest.raises(NoSuchObject):
        cluster.get(SERVICES, rig.names.service("1.1"), namespace)


def test_a_gang_whose_first_pod_was_never_made_leaves_no_service(
    rig: PodRig, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = rig.launch_of(rank=0, members=2)
    cluster.create(SERVICES, service_of(launch, rig.names, namespace), namespace)
    assert rig.runtime.declare_lost(launch.id)
    monkeypatch.setattr(runtime, "LATE_REQUEST_S", 0.0)
    rig.runtime.forget(launch.id)
    rig.until(lambda: gone(cluster, namespace, pod_name(rig, launch)))
    rig.until(lambda: not cluster.list(SERVICES, Selection(namespace)))


def test_what_the_api_server_does_not_accept_is_refused_in_its_words(
    rig: PodRig, cluster: Cluster, namespace: str
) -> None:
    least = {"type": "Container", "max": {"memory": "64Mi"}}
    cluster.create(LIMIT_RANGES, {"metadata": {"name": "small"}, "spec": {"limits": [least]}}, namespace)
    # An API server takes a moment to apply a limit.
    rig.until(lambda: refused(cluster, namespace))
    launch = replace(rig.launch_of(), host_memory_mib=1024)
    with pytest.raises(Refused, match="maximum memory usage per Container is 64Mi"):
        rig.runtime.launch(launch)
    assert rig.report(launch).phase is LaunchPhase.UNKNOWN


def refused(cluster: Cluster, namespace: str) -> bool:
    """Whether a pod with much memory is not let in."""
    probe = pod(f"probe-{uuid4().hex[:8]}", namespace)
    probe["spec"]["containers"][0]["resources"] = {"limits": {"memory": "1Gi"}}
    try:
        cluster.create(PODS, probe, namespace)
    except Refused:
        return True
    return False


def test_all_that_a_pod_can_have_is_valid_to_a_real_api_server(rig: PodRig, cluster: Cluster, namespace: str) -> None:
    template = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "imagePullSecrets": [{"name": "registry"}],
            "securityContext": {"runAsUser": 1000, "fsGroup": 100},
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
            "containers": [{"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}],
        },
    }
    texts = ["/data:/data:ro", "configmap/c:/c", "secret/s:/s:ro", "pvc/models:/models"]
    for volumes in (texts, texts[:-1]):
        asked = Container(IMAGE, tuple(map(parse_volume, volumes)), "trainer", json.dumps(template))
        rules = PlacementRules(tolerations=(Toleration("a"), Toleration()))
        request = Request(cpu_milli=1500, host_memory_mib=2048, disk_mib=1024, rules=rules)
        launch = launch_of(9, gpus=2, members=2, container=asked, workdir="/app", user="träger", request=request)
        launch = replace(launch, cpu_milli=1500, host_memory_mib=2048)
        site = PodSite(host_paths=("/data",), service_accounts=("trainer",))
        body = pod_of(launch, rig.names, namespace, site, kill_grace_s=10.0)
        made = cluster.create(PODS, body, namespace, dry_run=True)
        assert made["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"


def test_a_server_without_rights_says_which_one_it_lacks(
    control_plane: ControlPlane, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    nobody = control_plane.connect(tmp_path, NOBODY)
    try:
        with pytest.raises(MissingRight, match=r"list.*pods"):
            PodRig(nobody, namespace, kubelet, tmp_path)
    finally:
        nobody.close()


def test_a_command_without_the_right_to_run_it_is_refused_with_its_name(
    control_plane: ControlPlane, cluster: Cluster, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    verbs = ["get", "list", "watch", "create", "patch", "delete"]
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    cluster.create(ROLES, {"metadata": {"name": "no-exec"}, "rules": rules}, namespace)
    role = {"apiGroup": ROLES.group, "kind": "Role", "name": "no-exec"}
    subject = {"apiGroup": ROLES.group, "kind": "User", "name": NOBODY}
    cluster.create(ROLE_BINDINGS, {"metadata": {"name": "no-exec"}, "roleRef": role, "subjects": [subject]}, namespace)
    nobody = control_plane.connect(tmp_path, NOBODY)
    rig = PodRig(nobody, namespace, kubelet, tmp_path)
    try:
        launch = running(rig, UNTIL_LET_GO)
        with pytest.raises(MissingRight, match=r"pods/exec in namespace"):
            rig.runtime.execute(launch.id, InnerCommand(("true",)))
        rig.let_go(launch, 0)
    finally:
        rig.close()
        nobody.close()


def test_a_command_runs_in_a_pod_that_runs_and_in_no_other(rig: PodRig) -> None:
    with pytest.raises(Conflict, match="has ended"):
        rig.runtime.execute(rig.launch_of(2).id, InnerCommand(("true",)))
    launch = running(rig, UNTIL_LET_GO)
    execution = rig.runtime.execute(launch.id, InnerCommand(("sh", "-c", "echo in; exit 3")))
    pieces = [execution.read(0)]

    def ended() -> bool:
        pieces.append(execution.read(pieces[-1].sequence))
        return pieces[-1].exit_code is not None

    rig.until(ended)
    assert (b"".join(piece.stdout for piece in dict.fromkeys(pieces)), pieces[-1].exit_code) == (b"in\n", 3)
    execution.close()
    rig.let_go(launch, 0)
    rig.end_of(launch)
    with pytest.raises(Conflict, match="has ended"):
        rig.runtime.execute(launch.id, InnerCommand(("true",)))


@pytest.mark.parametrize("program", ["false", "echo no credential", 'printf "$GIVES" nobody-knows'])
def test_a_server_that_is_not_known_for_a_while_blames_no_job(
    control_plane: ControlPlane, namespace: str, kubelet: Kubelet, tmp_path: Path, program: str
) -> None:
    login, user = tmp_path / "login", {"apiVersion": EXEC_VERSION, "command": "sh", "args": [str(tmp_path / "login")]}
    given = {"apiVersion": EXEC_VERSION, "status": {"token": "%s", "expirationTimestamp": "2001-01-01T00:00:00Z"}}
    gives = f"GIVES='{json.dumps(given)}'\n"
    login.write_text(gives + f'printf "$GIVES" {ADMIN}')
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig")
    content = yaml.safe_load(kubeconfig.read_text())
    content["users"][0]["user"] = {"exec": {**user, "interactiveMode": "Never"}}
    kubeconfig.write_text(yaml.safe_dump(content))
    cluster = Cluster.connect(str(kubeconfig))
    rig = PodRig(cluster, namespace, kubelet, tmp_path)
    try:
        launch = rig.launch_of()
        login.write_text(gives + program)
        with pytest.raises(NodeUnreachable):
            rig.runtime.launch(launch)
        with pytest.raises(NodeUnreachable):
            rig.runtime.declare_lost(launch.id)
        login.write_text(gives + f'printf "$GIVES" {ADMIN}')
        rig.start(launch)
    finally:
        rig.close()
        cluster.close()


def test_a_pod_that_others_made_to_look_like_a_launchs_counts_for_nothing(
    rig: PodRig, cluster: Cluster, namespace: str
) -> None:
    launch = rig.start(rig.launch_of())
    made = cluster.get(PODS, pod_name(rig, launch), namespace)["metadata"]
    fake = {
        "metadata": {"name": "fake", "labels": made["labels"], "annotations": made["annotations"]},
        "spec": {"schedulerName": "none", "containers": [{"name": "a", "image": "i"}]},
    }
    cluster.create(PODS, fake, namespace)
    second = rig.start(rig.launch_of(2))
    assert rig.runtime.launches() == (launch.id, second.id)


def test_an_answer_that_comes_late_hides_nothing_that_the_watch_told_since(
    rig: PodRig, cluster: Cluster, namespace: str
) -> None:
    launch = rig.start(rig.launch_of())
    late = cluster.get(PODS, pod_name(rig, launch), namespace)
    late["metadata"]["resourceVersion"], late["status"] = "1", {"phase": "Pending"}
    rig.runtime.pods.answered(late)
    assert rig.report(launch).phase is LaunchPhase.RUNNING


def test_an_end_that_an_earlier_server_only_wrote_down_is_finished(
    rig: PodRig, cluster: Cluster, namespace: str
) -> None:
    launch = rig.start(rig.launch_of())
    marks = {"metadata": {"annotations": {ENDING: "TIMED_OUT", REASON: "too long"}}}
    rig.restart(meanwhile=lambda: cluster.patch(PODS, pod_name(rig, launch), marks, namespace))
    end = rig.end_of(launch)
    assert (end.ending, end.reason) == (Phase.TIMED_OUT, "too long")


def test_a_name_that_somebody_else_has_taken_is_said(rig: PodRig, cluster: Cluster, namespace: str) -> None:
    launch = rig.launch_of()
    body = {"metadata": {"name": pod_name(rig, launch)}, "spec": {"containers": [{"name": "a", "image": "i"}]}}
    cluster.create(PODS, body, namespace)
    with pytest.raises(BackendFailed, match="is there already, and is not of launch"):
        rig.runtime.launch(launch)


def test_a_tombstone_keeps_the_name_until_no_late_request_can_come(
    rig: PodRig, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = rig.launch_of()
    assert rig.runtime.declare_lost(launch.id)
    monkeypatch.setattr(runtime, "LATE_REQUEST_S", 2.0)
    rig.runtime.forget(launch.id)
    assert rig.report(launch).phase is LaunchPhase.UNKNOWN
    assert rig.runtime.launches() == ()
    rig.runtime.launch(launch)
    assert cluster.get(PODS, pod_name(rig, launch), namespace)["metadata"]["labels"]["corral.dev/tombstone"] == "true"
    rig.until(lambda: gone(cluster, namespace, pod_name(rig, launch)))
    assert rig.begun(launch) == 0


def test_on_a_bad_day_nothing_runs_twice_and_everything_ends(
    control_plane: ControlPlane, cluster: Cluster, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    proxy = FaultProxy(control_plane, BAD_DAY, seed=12)
    proxy.start()
    client = control_plane.connect(tmp_path, url=proxy.url)
    rig = PodRig(client, namespace, kubelet, tmp_path)
    try:
        launches = [rig.launch_of(number) for number in range(1, 9)]
        for launch in launches:
            rig.let_go(launch, launch.job.sequence % 3)
            insist(rig.runtime.launch, launch)
        for launch in launches[::5]:
            insist(rig.runtime.stop, launch.id)
        late = changed(rig.launch_of(99), time_limit_s=2.0)
        insist(rig.runtime.launch, late)
        assert rig.end_of(late).ending is Phase.TIMED_OUT
        rig.runtime.forget(late.id)
        for number, launch in enumerate(launches):
            end = rig.end_of(launch)
            assert rig.begun(launch) <= 1
            if number % 5:
                assert (rig.begun(launch), end.exit_code) == (1, launch.job.sequence % 3)
            rig.runtime.forget(launch.id)
        rig.until(lambda: not cluster.list(PODS, Selection(namespace)))
        assert sum(proxy.counts.values()) > proxy.counts["requests"]
    finally:
        rig.close()
        client.close()
        proxy.stop()


def insist(act: Any, *arguments: Any) -> None:
    """Ask again as long as the API server does not answer, as the recheck does."""
    for _ in range(20):
        try:
            act(*arguments)
            return
        except NodeUnreachable:
            time.sleep(0.1)
    raise AssertionError(f"{act} was not done")


def gone(cluster: Cluster, namespace: str, name: str) -> bool:
    try:
        cluster.get(PODS, name, namespace)
    except NoSuchObject:
        return True
    return False
