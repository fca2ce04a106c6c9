"""The chart's objects, as helm makes them without a cluster, and the values that it refuses."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.config.kubernetes import _KEYS as KUBERNETES_KEYS
from corral.config.settings import _KEYS as KEYS
from corral.config.settings import load_settings
from corral.engines.kubernetes.agent.program import options_of
from tests.engines.kubernetes.chart.helm import CHART, SYSTEM, one, refused, rendered, run

RIGHTS = CHART.parents[1] / "kubernetes/rights.yaml"
AUTHORITY = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
EVERYTHING = {
    "rights": {"podsOfOthers": True, "commandsInJobs": True, "modelServices": True},
    "agents": {"enabled": True, "nodeLabels": True, "runtimeClassName": "nvidia"},
    "extender": {"enabled": True, "clientCA": AUTHORITY},
    "webhook": {"enabled": True, "clientCA": AUTHORITY},
    "serviceMonitor": {"enabled": True},
    "dashboards": {"enabled": True},
}
COMPONENT = "app.kubernetes.io/component"
ROLES = ("Role", "ClusterRole")


def rules(objects: Iterable[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Each right alone: (group, resource, verb)."""
    return {
        (group, resource, verb)
        for item in objects
        if item["kind"] in ROLES
        for rule in item["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_helm_has_no_complaints() -> None:
    assert "0 chart(s) failed" in run("helm", "lint", "--strict", str(CHART), "--namespace", SYSTEM)


def test_the_chart_has_the_release_that_it_installs() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    release = (CHART.parents[2] / "src/corral/__init__.py").read_text()
    assert f'RELEASE = "{chart["appVersion"]}"' in release
    assert chart["version"] == chart["appVersion"]


def test_with_all_switches_on_its_rights_are_those_of_the_manifest() -> None:
    server = (item for item in rendered(values=EVERYTHING) if COMPONENT not in item["metadata"]["labels"])
    assert rules(server) == rules(yaml.safe_load_all(RIGHTS.read_text()))


def test_the_manifest_is_what_the_page_shows() -> None:
    assert RIGHTS.read_text() in (CHART.parents[2] / "docs/kubernetes.md").read_text()


def test_each_rule_is_justified_in_a_comment() -> None:
    lines = (CHART / "templates/rights.yaml").read_text().splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("- {apiGroups", "- apiGroups")):
            before = next(one for one in reversed(lines[:number]) if not one.startswith(("- ", "  ", "{{")))
            assert before.startswith("#"), line


@pytest.mark.parametrize(
    ("switched", "right"),
    [
        ({"agents": {"enabled": False}}, ("authentication.k8s.io", "tokenreviews", "create")),
        ({"agents": {"enabled": True, "nodeLabels": False}}, ("", "nodes", "patch")),
        ({"rights": {"podsOfOthers": False}, "webhook": {}}, ("", "pods/binding", "create")),
        ({"rights": {"commandsInJobs": False}}, ("", "pods/exec", "create")),
        ({"rights": {"modelServices": False}}, ("", "secrets", "create")),
        ({"settings": {"kubernetes": {"prometheus_url": "http://prometheus:9090"}}}, ("", "pods/proxy", "get")),
    ],
)
def test_what_is_switched_off_is_not_granted(switched: dict[str, Any], right: tuple[str, str, str]) -> None:
    assert right in rules(rendered(values=EVERYTHING))
    assert right not in rules(rendered(values=EVERYTHING | switched))


def test_nothing_of_pods_is_written_in_all_namespaces_but_for_pods_of_others() -> None:
    everywhere = rules([one(rendered(values={"rights": {"podsOfOthers": False}}), "ClusterRole")])
    assert {verb for _, _, verb in everywhere} == {"get", "list", "watch"}


def test_pods_are_restricted_as_kubernetes_says() -> None:
    """The rules of the restricted level of Pod Security Standards that concern what the chart has."""
    for item in rendered(values=EVERYTHING):
        if item["kind"] != "StatefulSet":
            continue
        spec = item["spec"]["template"]["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        allowed = {"name", "configMap", "secret", "emptyDir", "projected", "persistentVolumeClaim"}
        assert all(set(volume) <= allowed for volume in spec["volumes"])
        for container in (*spec["initContainers"], *spec["containers"]):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["readOnlyRootFilesystem"] is True
            assert not any("hostPort" in port for port in container.get("ports", []))


def test_agents_have_no_more_of_a_node_than_its_processes_and_the_kubelets_socket() -> None:
    spec = one(rendered(values=EVERYTHING), "DaemonSet")["spec"]["template"]["spec"]
    assert [volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume] == [
        "/var/lib/kubelet/pod-resources"
    ]
    assert spec["hostPID"] is True
    assert not {"hostNetwork", "hostIPC"} & set(spec)
    (container,) = spec["containers"]
    context = container["securityContext"]
    assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert all(mount["readOnly"] for mount in container["volumeMounts"] if mount["name"] != "tmp")


def test_agents_that_give_gpus_have_what_the_manifests_for_it_say() -> None:
    manifests = CHART.parents[1] / "kubernetes"
    wanted = yaml.safe_load((manifests / "device-plugin-patch.yaml").read_text())["spec"]["template"]["spec"]
    plugin = {"enabled": True, "sharing": {"*": "mps"}}
    objects = rendered(values=EVERYTHING | {"agents": {"enabled": True, "devicePlugin": plugin}})
    spec = one(objects, "DaemonSet")["spec"]["template"]["spec"]
    assert spec["hostIPC"] is wanted["hostIPC"] is True
    paths = [{one["hostPath"]["path"] for one in pod["volumes"] if "hostPath" in one} for pod in (spec, wanted)]
    assert paths[0] == paths[1] | {"/var/lib/kubelet/pod-resources"}
    (container,), (asked,) = spec["containers"], wanted["containers"]
    assert {mount["mountPath"] for mount in asked["volumeMounts"]} <= {
        mount["mountPath"] for mount in container["volumeMounts"]
    }
    assert {"--device-plugin", "--config=/etc/corral-node/config.yaml"} <= set(container["args"])
    assert asked["env"][0] in container["env"]
    given = options_of(container["args"][2:])
    assert (given.server, given.device_plugin) == ("https://corral.corral-system.svc:7443", True)
    assert one(objects, "ConfigMap", "corral-agent")["data"]["config.yaml"].strip() == 'sharing: {"*":"mps"}'
    role = rules([one(objects, "ClusterRole", "corral-agent")])
    assert role == rules(yaml.safe_load_all((manifests / "device-plugin.yaml").read_text()))


def test_the_server_knows_the_agents_by_their_account_and_they_know_it_by_its_certificate(tmp_path: Path) -> None:
    objects = rendered(values=EVERYTHING)
    file = tmp_path / "config.yaml"
    file.write_text(one(objects, "ConfigMap", "corral")["data"]["config.yaml"])
    settings = load_settings(file).kubernetes
    spec = one(objects, "DaemonSet")["spec"]["template"]["spec"]
    assert settings is not None
    assert settings.agent_account == f"{SYSTEM}/{spec['serviceAccountName']}"
    assert "--server=https://corral.corral-system.svc:7443" in spec["containers"][0]["args"]
    tokens = next(volume for volume in spec["volumes"] if volume["name"] == "token")["projected"]["sources"]
    assert tokens[0]["serviceAccountToken"]["audience"] == "corral"


def test_settings_are_those_that_the_server_reads(tmp_path: Path) -> None:
    given = {
        "max_queue_size": 9_000_000,
        "availability_memory_weight": 0.5,
        "queues": [{"name": "urgent", "quota": {"gpus": 2}}],
        "kubernetes": {"image": "repo/train:1"},
    }
    file = tmp_path / "config.yaml"
    file.write_text(one(rendered(values={"settings": given}), "ConfigMap")["data"]["config.yaml"])
    found = load_settings(file)
    assert (found.engine, found.max_queue_size) == ("kubernetes", 9_000_000)
    assert found.kubernetes is not None
    assert (found.kubernetes.namespace, found.kubernetes.image) == ("corral-jobs", "repo/train:1")


def test_the_schema_knows_every_setting_but_those_of_hosts_and_those_that_the_chart_sets() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]["settings"]
    assert schema["propertyNames"]["enum"] == sorted({*KEYS} - {"engine", "hosts", "ssh_config", "docker"})
    known = schema["properties"]["kubernetes"]["propertyNames"]["enum"]
    assert known == sorted({*KUBERNETES_KEYS} - {"kubeconfig", "context", "namespace", "agent_account"})


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replicas": 3}, "replicas"),
        ({"settings": {"engine": "host"}}, "engine"),
        ({"settings": {"kill_grave": "1s"}}, "kill_grave"),
        ({"settings": {"kubernetes": {"namespace": "x"}}}, "namespace"),
        ({"jobs": {"namespace": "Jobs"}}, "namespace"),
        ({"jobs": {"namespace": "kube-system"}}, "namespace"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"server": {"volume": {"size": "20"}}}, "size"),
        ({"service": {"port": 70000}}, "port"),
        ({"rights": {"podsOfOthers": "yes"}}, "podsOfOthers"),
        ({"extender": {"enabled": True, "clientCA": "/etc/ca.pem"}}, "clientCA"),
        ({"extender": {"enabled": True}}, "clientCA"),
        ({"webhook": {"enabled": True, "clientCA": "/etc/ca.pem"}}, "clientCA"),
        ({"webhook": {"enabled": True}}, "admission_without_certificate"),
        ({"webhook": {"enabled": True, "clientCA": AUTHORITY}, "tls": {"secretName": "own"}}, "the secret own in"),
        ({"webhook": {"enabled": True, "clientCA": AUTHORITY}, "rights": {"podsOfOthers": False}}, "podsOfOthers"),
        ({"agents": {"devicePlugin": {"sharing": {"*": "magic"}}}}, "sharing"),
        ({"serviceMonitor": {"interval": "often"}}, "interval"),
    ],
)
def test_nonsense_is_refused_with_its_name(values: dict[str, Any], named: str) -> None:
    assert named in refused(values)


def test_another_namespace_is_refused_with_the_options_that_are_meant() -> None:
    said = run("helm", "template", "corral", str(CHART), "--namespace", "default", status=1)
    assert "--namespace corral-system --create-namespace" in said


@pytest.mark.parametrize("asked", ["extender", "webhook"])
def test_callers_without_tokens_show_certificates_of_the_authority(asked: str) -> None:
    objects = rendered(values={asked: {"enabled": True, "clientCA": AUTHORITY}})
    (container,) = one(objects, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert "--tls-client-ca=/etc/corral/client-ca.pem" in container["args"]
    assert one(objects, "ConfigMap", "corral")["data"]["client-ca.pem"] == AUTHORITY


def test_the_authorities_of_all_callers_are_trusted() -> None:
    other = AUTHORITY.replace("MIIB", "MIIC")
    objects = rendered(values=EVERYTHING | {"webhook": {"enabled": True, "clientCA": other}})
    assert one(objects, "ConfigMap", "corral")["data"]["client-ca.pem"] == AUTHORITY + other


def test_no_api_server_asks_unless_the_switch_is_on() -> None:
    assert not any(item["kind"].endswith("WebhookConfiguration") for item in rendered())


def test_the_api_server_asks_as_the_command_says(tmp_path: Path) -> None:
    values = {"webhook": {"enabled": True}, "settings": {"kubernetes": {"admission_without_certificate": True}}}
    objects = rendered(values=values)
    authority = tmp_path / "ca.crt"
    authority.write_bytes(base64.b64decode(one(objects, "Secret")["data"]["ca.crt"]))
    url = f"https://corral.{SYSTEM}.svc:{one(objects, 'Service')['spec']['ports'][0]['port']}"
    command = [str(Path(sys.executable).parent / "corral"), "kubernetes", "webhook-config", url, "--ca", str(authority)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    for printed in yaml.safe_load_all(done.stdout):
        made = one(objects, printed["kind"])
        del made["metadata"]["labels"]
        for webhook in made["webhooks"]:
            service = webhook["clientConfig"].pop("service")
            address = f"https://{service['name']}.{service['namespace']}.svc:{service['port']}"
            webhook["clientConfig"]["url"] = address + service["path"]
        assert made == printed


def test_dashboards_are_the_files_of_the_repository() -> None:
    found = [item for item in rendered(values=EVERYTHING) if item["metadata"]["labels"].get("grafana_dashboard")]
    files = {name: text for item in found for name, text in item["data"].items()}
    assert files == {path.name: path.read_text() for path in (CHART.parents[1] / "grafana").glob("*.json")}


def test_prometheus_finds_the_service_by_its_labels_and_trusts_its_certificate() -> None:
    objects = rendered(values=EVERYTHING)
    monitor, service = one(objects, "ServiceMonitor")["spec"], one(objects, "Service")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["tlsConfig"]["ca"]["secret"]["name"] == one(objects, "Secret")["metadata"]["name"]


def test_the_policy_leaves_the_port_of_the_service_open_alone() -> None:
    objects = rendered(values={"networkPolicy": {"from": [{"podSelector": {}}]}})
    policy, pod = one(objects, "NetworkPolicy", "corral")["spec"], one(objects, "StatefulSet")["spec"]["template"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": "https"}], "from": [{"podSelector": {}}]}]
