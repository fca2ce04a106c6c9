"""The dashboards are what Grafana imports, at any site: they name no data source, and no server, of their own."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.test_prometheus import METRIC
from tests.e2e.prometheus_site import DEPLOY

GRAFANA = DEPLOY / "grafana"
FILES = sorted(GRAFANA.glob("*.json"))
PAGE = DEPLOY.parent / "docs" / "metrics.md"
CHOSEN = {"type": "prometheus", "uid": "${datasource}"}
PANELS = {"bargauge", "row", "stat", "state-timeline", "table", "timeseries"}
COLUMNS = 24


def loaded(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (panel for panel in dashboard["panels"] if panel["type"] != "row")


def test_there_are_four_and_each_is_known_by_its_file() -> None:
    assert [file.stem for file in FILES] == ["corral-devices", "corral-jobs", "corral-pool", "corral-server"]
    assert [loaded(file)["uid"] for file in FILES] == [file.stem for file in FILES]
    assert len({loaded(file)["title"] for file in FILES}) == 4


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_grafana_finds_what_it_needs(file: Path) -> None:
    dashboard = loaded(file)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", dashboard["uid"])
    assert (dashboard["id"], dashboard["schemaVersion"] >= 36, dashboard["title"] > "") == (None, True, True)
    assert {"time", "templating", "annotations", "panels", "timezone", "editable"} <= set(dashboard)
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels(dashboard):
        assert panel["type"] in PANELS
        assert panel["title"]
        assert {"fieldConfig", "options", "gridPos"} <= set(panel)
        assert panel["targets"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_panels_stand_beside_each_other_and_not_on_each_other(file: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in loaded(file)["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= COLUMNS
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_data_source_is_chosen_at_the_head_and_nowhere_else(file: Path) -> None:
    dashboard = loaded(file)
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    asked = [target for panel in panels(dashboard) for target in panel["targets"]]
    queries = [variable for variable in variables.values() if variable["type"] == "query"]
    assert all(part["datasource"] == CHOSEN for part in (*panels(dashboard), *asked, *queries))
    text = file.read_text()
    used = set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval", "__all"}
    assert used == set(variables)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_metric_of_a_panel_is_one_that_the_page_tells_of(file: Path) -> None:
    expressions = [target["expr"] for panel in panels(loaded(file)) for target in panel["targets"]]
    names = {re.sub("_(bucket|sum|count)$", "", name) for text in expressions for name in METRIC.findall(text)}
    assert len(names) > 4
    page = PAGE.read_text()
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_the_provisioning_examples_are_what_grafana_reads() -> None:
    (provider,) = yaml.safe_load((GRAFANA / "provisioning/dashboards/corral.yml").read_text())["providers"]
    assert (provider["type"], provider["options"]["path"]) == ("file", "/var/lib/grafana/dashboards/corral")
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"]
    assert (source["type"], source["access"]) == ("prometheus", "proxy")
