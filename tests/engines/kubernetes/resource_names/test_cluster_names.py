"""Definitions in ConfigMaps of a real cluster are followed; what makes no sense in one is told and affects only it."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from corral.core.control.submitting.device_request import RequestRules
from corral.core.sharing.definitions import own_catalogue
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import CONFIG_MAPS
from corral.engines.kubernetes.doctor import examine
from corral.engines.kubernetes.resource_names.cluster_names import ClusterNames
from corral.engines.kubernetes.resource_names.defined import MOST_CHARACTERS, read_definition, with_definitions
from corral.engines.kubernetes.resource_names.publishing import ALL_DEFINITIONS
from corral.engines.kubernetes.resource_names.written import ENABLED_LABEL, MANAGED_BY, NAMESPACE, config_map
from corral.engines.kubernetes.shares.pod_shares import PodShares

PATIENCE_S = 60.0
KEY = "tencent.com/vcuda-core"
VCUDA = next(row for row in RequestRules().resource_names() if row.name == KEY)


def theirs(name: str = "cf-crl-theirs-vcuda-core", *, enabled: str = "true", **data: str) -> dict[str, Any]:
    """A definition that somebody else has made."""
    made = config_map(VCUDA)
    made["metadata"]["name"] = name
    made["metadata"]["labels"][ENABLED_LABEL] = enabled
    del made["metadata"]["labels"][MANAGED_BY]
    made["data"] |= data
    return made


def put_in_force(*items: Mapping[str, Any]) -> tuple[Any, list[str]]:
    read = [one for item in items if (one := read_definition(item)) is not None]
    catalogue, wrong = with_definitions(None, read)
    return catalogue, [f"{one.config_map}: {why}" for one, why in wrong]


def test_a_definition_changes_how_a_name_is_asked_for_and_not_what_it_means() -> None:
    catalogue, wrong = put_in_force(theirs(defaultValue="50", descriptionEn="ours"))
    assert wrong == []
    assert (catalogue.resources[KEY].default_value, catalogue.resources[KEY].description_en) == ("50", "ours")
    assert catalogue.resources[KEY].grants == own_catalogue().resources[KEY].grants
    disabled, _ = put_in_force(theirs(enabled="false"))
    assert KEY not in disabled.resources
    assert KEY in disabled.disabled


def test_what_corral_has_published_itself_is_no_definition_of_others() -> None:
    assert put_in_force(config_map(VCUDA)) == (own_catalogue(), [])


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (theirs(defaultValue="150"), "150 is neither below 100 nor a multiple"),
        (theirs(dataType="text"), "dataType is 'text'"),
        (theirs(key="example.com/unknown"), "nobody says what a unit of 'example.com/unknown' means"),
        (theirs(enabled="perhaps"), "is neither true nor false"),
        (theirs(descriptionEn="x" * (MOST_CHARACTERS + 1)), "descriptionEn has more than"),
        ({**theirs(), "data": None}, "nobody says what a unit of '' means"),
        ({**theirs(), "data": {"key": KEY, "limits": ["optional"]}}, "is missing"),
    ],
)
def test_nonsense_in_one_definition_is_told_and_the_others_count(item: dict[str, Any], why: str) -> None:
    memory = theirs("cf-crl-theirs-vcuda-memory", key="tencent.com/vcuda-memory", defaultValue="8")
    catalogue, wrong = put_in_force(item, memory)
    assert len(wrong) == 1
    assert why in wrong[0]
    assert catalogue.resources[KEY] == own_catalogue().resources[KEY]
    assert catalogue.resources["tencent.com/vcuda-memory"].default_value == "8"


def test_of_two_definitions_of_a_name_the_first_counts() -> None:
    catalogue, wrong = put_in_force(theirs("cf-crl-b", defaultValue="30"), theirs("cf-crl-a", defaultValue="40"))
    assert catalogue.resources[KEY].default_value == "40"
    assert wrong == [f"cf-crl-b: cf-crl-a defines {KEY}, too"]


@pytest.fixture
def names(cluster: Cluster) -> Iterator[ClusterNames]:
    following = ClusterNames(cluster, None, PodShares())
    following.start()
    yield following
    following.stop()
    for item in cluster.list(CONFIG_MAPS, ALL_DEFINITIONS):
        cluster.delete(CONFIG_MAPS, item["metadata"]["name"], NAMESPACE)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_definitions_are_in_force_as_they_come_change_and_go(
    cluster: Cluster, names: ClusterNames, caplog: pytest.LogCaptureFixture
) -> None:
    rules, name = RequestRules(names=names.in_force), "cf-crl-theirs-vcuda-core"

    def default() -> str | None:
        return next(row.default for row in rules.resource_names() if row.name == KEY)

    cluster.create(CONFIG_MAPS, theirs(defaultValue="50"), NAMESPACE)
    eventually(lambda: default() == "50")
    with caplog.at_level(logging.WARNING):
        cluster.patch(CONFIG_MAPS, name, {"data": {"defaultValue": "150"}}, NAMESPACE)
        eventually(lambda: default() == "20")
    assert f"ConfigMap {name} of kube-public changes no resource name" in caplog.text
    (found,) = [one for one in examine(cluster) if one.about == "resource names"]
    assert "1 ConfigMap without effect: cf-crl-theirs-vcuda-core: " in found.found
    cluster.patch(CONFIG_MAPS, name, {"data": {"defaultValue": "40"}}, NAMESPACE)
    eventually(lambda: default() == "40")
    cluster.delete(CONFIG_MAPS, name, NAMESPACE)
    eventually(lambda: default() == "20")
