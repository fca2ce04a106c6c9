import json

import pytest

from corral.core.model.errors import Forbidden, Refused
from corral.core.model.jobs.container import Container, parse_volume
from corral.core.model.jobs.job import Request
from corral.core.model.placing.placement_rules import TaintEffect, Toleration
from corral.engines.kubernetes.pods.site import PodSite


def test_a_job_without_an_image_has_the_sites_or_is_refused_with_what_to_write() -> None:
    assert PodSite(image="site:1").settle(None) == Container("site:1")
    assert PodSite(image="site:1").settle(Container("own:2")) == Container("own:2")
    with pytest.raises(Refused, match=r"no default image; add --image"):
        PodSite().settle(None)


@pytest.mark.parametrize("path", ["/data", "/data/sets/a", "/data/"])
def test_directories_of_the_host_are_seen_where_the_site_allows_it(path: str) -> None:
    PodSite(image="i", host_paths=("/data/",)).settle(Container(volumes=(parse_volume(f"{path}:/x"),)))


@pytest.mark.parametrize("path", ["/", "/dat", "/database", "/etc"])
def test_other_directories_of_the_host_are_refused_with_those_that_are_allowed(path: str) -> None:
    with pytest.raises(Forbidden, match=r"allowed are /data"):
        PodSite(image="i", host_paths=("/data",)).settle(Container(volumes=(parse_volume(f"{path}:/x"),)))
    with pytest.raises(Forbidden, match=r"it allows none"):
        PodSite(image="i").settle(Container(volumes=(parse_volume(f"{path}:/x"),)))


def test_a_service_account_is_the_sites_to_give() -> None:
    PodSite(image="i", service_accounts=("trainer",)).settle(Container(service_account="trainer"))
    with pytest.raises(Forbidden, match="allowed: trainer"):
        PodSite(image="i", service_accounts=("trainer",)).settle(Container(service_account="admin"))


def test_a_template_is_read_as_the_job_is_submitted() -> None:
    with pytest.raises(Forbidden, match="hostNetwork"):
        PodSite(image="i").settle(Container(pod_template='{"spec": {"hostNetwork": true}}'))
    PodSite(image="i", privileged_templates=True).settle(Container(pod_template='{"spec": {"hostNetwork": true}}'))


def test_a_job_with_gpus_is_not_kept_off_by_the_taint_that_keeps_others_off() -> None:
    site, plain = PodSite(image="i"), Container("i")
    assert site.tolerations(plain, Request(devices=2)) == (Toleration("nvidia.com/gpu"),)
    assert site.tolerations(plain, Request(devices=0)) == ()


def test_tolerations_of_a_template_count_for_the_planner() -> None:
    written = [{"key": "a", "operator": "Exists"}, {"key": "b", "value": "c", "effect": "NoSchedule"}]
    asked = Container("i", pod_template=json.dumps({"spec": {"tolerations": written}}))
    found = PodSite().tolerations(asked, Request(devices=0))
    assert found == (Toleration("a"), Toleration("b", "c", TaintEffect.NO_SCHEDULE))


@pytest.mark.parametrize(
    "written", [{"operator": "Gt", "key": "a"}, {"key": "a", "effect": "Never"}, {"value": "x"}, {"key": 5}]
)
def test_a_toleration_that_kubernetes_does_not_know_is_refused(written: dict[str, object]) -> None:
    with pytest.raises(Refused, match="a toleration has a key"):
        PodSite().settle(Container("i", pod_template=json.dumps({"spec": {"tolerations": [written]}})))
