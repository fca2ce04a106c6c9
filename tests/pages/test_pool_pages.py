"""The pages about the pool as people use them: alerts, comparison, and what who is no administrator is offered."""

import os
import pwd
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from getpass import getuser

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.box import SETTINGS, Box, described, serving, uuid
from tests.pages.conftest import Visit, visiting
from tests.pages.forwarded import forwarded

NOBODY = pwd.getpwuid(65534)

ALERTING = """alerts:
  - {name: on-site, when: "temperature_c > 1", severity: warning}
currency: EUR
prices:
  - gpu_hour: 1.20
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[Box]:
    """A box of three GPUs with an alert about each."""
    with serving(described(3), SETTINGS + ALERTING) as box:
        box.until(lambda: len(box.json("alerts", "--json")["alerts"]) == 3)
        yield box


@pytest.fixture(scope="module")
def _shared_visit(chromium: Browser, pool: Box) -> Iterator[Visit]:
    with visiting(chromium, pool) as visit:
        yield visit


@pytest.fixture
def pool_visit(_shared_visit: Visit) -> Visit:
    """An administrator's visit."""
    _shared_visit.leave()
    return _shared_visit


def test_an_alert_is_acknowledged_and_counts_no_more(pool_visit: Visit, pool: Box) -> None:
    page = pool_visit.go("/alerts")
    alert = page.get_by_role("listitem").filter(has_text="GPU 0:")
    count = page.get_by_role("link", name="Alerts").locator(".tag")
    expect(count).to_contain_text("3")
    alert.get_by_role("button", name="Acknowledge").click()
    expect(alert).to_contain_text("acknowledged by")
    expect(alert.get_by_role("button", name="Acknowledge")).to_have_count(0)
    expect(count).to_contain_text("2")
    known = [row["acknowledged_by"] for row in pool.json("alerts", "--json")["alerts"]]
    assert sorted(map(bool, known)) == [False, False, True]
    assert pool_visit.errors == []


def test_a_silence_is_made_and_ended_and_a_mistake_in_it_is_told(pool_visit: Visit, pool: Box) -> None:
    page = pool_visit.go("/alerts")
    page.get_by_role("button", name="New silence").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Alerts", exact=True).fill("colour=red")
    dialog.get_by_label("Duration").select_option(label="1h")
    page.keyboard.press("Tab")
    dialog.get_by_label("Reason").fill("<b>fans</b>")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("colour")
    dialog.get_by_label("Alerts", exact=True).fill("gpu=1")
    page.keyboard.press("Enter")
    row = page.get_by_role("row").filter(has_text="gpu=1")
    expect(row).to_contain_text("<b>fans</b>")
    expect(page.get_by_role("listitem").filter(has_text="GPU 1:")).to_contain_text("silenced")
    assert [each["match"] for each in pool.json("alerts", "silences", "--json")] == ["gpu=1"]
    row.get_by_role("button", name="End").click()
    expect(page.get_by_text("No alerts are silenced")).to_be_visible()
    assert pool.json("alerts", "silences", "--json") == []


def test_devices_are_compared_as_the_address_says(pool_visit: Visit) -> None:
    page = pool_visit.go(f"/compare?what=devices&ids={uuid(0)},{uuid(1)}&range=30m")
    chart = page.get_by_role("img", name="Utilization of")
    expect(chart).to_be_visible()
    expect(page.get_by_role("button", name="Leave out")).to_have_count(2)
    page.get_by_label("Add devices").select_option(value=uuid(2))
    page.wait_for_url(lambda url: uuid(2) in url)
    page.get_by_role("button", name="Leave out").first.click()
    page.wait_for_url(lambda url: uuid(0) not in url)
    expect(page.get_by_role("button", name="Leave out")).to_have_count(2)
    page.get_by_role("button", name="7d").click()
    page.wait_for_url("**range=7d**")
    page.get_by_role("button", name="from … to").click()
    page.wait_for_url(re.compile(r"range=\d+-\d+"))
    begin, end = page.get_by_label("From", exact=True), page.get_by_label("To", exact=True)
    chosen = f"{datetime.now().astimezone() - timedelta(hours=1):%Y-%m-%dT%H:%M}"
    begin.fill(chosen)
    end.focus()
    page.wait_for_url(re.compile(rf"range={int(datetime.fromisoformat(chosen).timestamp())}-\d+"))
    expect(begin).to_have_value(chosen)
    expect(page.get_by_role("img", name=re.compile("Utilization of .* from .* to "))).to_be_visible()
    assert pool_visit.errors == []


def test_a_device_is_cordoned_with_a_reason_and_its_page_tells_so(pool_visit: Visit, pool: Box) -> None:
    page = pool_visit.go(f"/devices/{uuid(2)}")
    page.get_by_role("button", name="Cordon", exact=True).click()
    page.get_by_label("Reason, visible to everybody").fill("loud fan")
    page.keyboard.press("Enter")
    expect(page.get_by_role("listitem").filter(has_text=f"cordoned by {getuser()}: loud fan")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="on-site")).to_be_visible()
    page.get_by_role("button", name="Uncordon").click()
    expect(page.get_by_role("button", name="Cordon", exact=True)).to_be_visible()
    assert [row["state"] for row in pool.json("devices", "--json")] == ["free"] * 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_who_is_no_administrator_sees_all_and_is_offered_what_they_may_do(
    chromium: Browser, pool_visit: Visit, pool: Box
) -> None:
    offered = {"/alerts": "Silence", f"/devices/{uuid(0)}": "Cordon", f"/nodes/{_node(pool)}": "Drain"}
    for path, name in offered.items():
        expect(pool_visit.go(path).get_by_role("button", name=name).first).to_be_visible()
    token = pool.json("token", "create", "--user", NOBODY.pw_name, "--scope", "submit", "--json")["token"]
    with visiting(chromium, pool) as visit, forwarded(NOBODY.pw_uid, visit.base) as address:
        visit.sign_in_again(token, address)
        expect(visit.page.get_by_text(NOBODY.pw_name, exact=True)).to_be_visible()
        for path, name in offered.items():
            page = visit.go(path)
            expect(page.get_by_text("on-site" if path == "/alerts" else "free").first).to_be_visible()
            assert page.get_by_role("button", name=name, exact=True).count() == 0, path
        page = visit.go("/alerts")
        expect(page.get_by_text("on-site").first).to_be_visible()
        expect(page.get_by_role("button", name="Acknowledge")).to_have_count(0)
        page.get_by_role("button", name="New silence").click()
        expect(page.get_by_role("dialog")).to_contain_text("only alerts about your own jobs")


def test_usage_tells_what_was_granted_and_each_key_figure_with_what_it_is(pool_visit: Visit, pool: Box) -> None:
    pool.ended(pool.submit("--gpus", "1", "--", "sleep", "1"))
    # A report is of whole seconds, and does not have the one that is not over.
    pool.until(lambda: pool.json("report", "--json")["rows"])
    page = pool_visit.go("/usage")
    hours = page.get_by_role("region", name="GPU-hours", exact=True)
    expect(hours.get_by_role("row").filter(has_text=getuser())).to_contain_text("100 %")
    expect(hours).to_contain_text("Cost EUR")
    figures = page.get_by_role("region", name="Key figures")
    expect(figures.get_by_role("row").filter(has_text="Error rates")).to_contain_text("part of the ended jobs")
    hours_by_project = page.get_by_role("button", name="project")
    hours_by_project.click()
    expect(hours.get_by_role("row").filter(has_text="default")).to_be_visible()
    assert pool_visit.errors == []


def test_fair_shares_are_told_with_how_they_are_made(pool_visit: Visit, pool: Box) -> None:
    pool.ended(pool.submit("--gpus", "1", "--", "sleep", "1"))
    shares = pool_visit.go("/usage").get_by_role("region", name="Fair shares", exact=True).first
    expect(shares.get_by_role("row").filter(has_text=getuser())).to_contain_text("default")
    expect(shares).to_contain_text("what has ended, worth half after 7d")
    expect(shares).to_contain_text("No queue has the policy fair-share")


def test_a_device_that_falls_ill_is_seen_at_once_on_its_page_and_on_the_overview(visit: Visit, box: Box) -> None:
    page = visit.go(f"/devices/{uuid(2)}")
    happened = page.get_by_role("region", name="Events")
    expect(happened).to_be_visible()
    try:
        box.describe(described(4, extra="ecc_errors = 1"))
        expect(happened).to_contain_text("unhealthy: 1 uncorrectable memory error since")
        page.get_by_role("link", name="Overview").click()
        expect(page.locator(".figure").filter(has_text="Out of order")).to_contain_text("4")
        box.describe(described(4))
        for index in range(4):
            box.run("health", "trust", str(index))
        expect(page.locator(".figure").filter(has_text="Out of order")).to_contain_text("0")
        page.go_back()
        expect(happened).to_contain_text("healthy by root")
    finally:
        box.describe(described(4))
        for index in range(4):
            box.run("health", "trust", str(index))
        box.until(lambda: all(device["state"] == "free" for device in box.json("devices", "--json")))
    assert visit.errors == []


def test_nodes_are_filtered_by_what_their_devices_are_for(pool_visit: Visit, pool: Box) -> None:
    page = pool_visit.go("/nodes")
    node = page.get_by_role("row").filter(has_text=_node(pool))
    expect(node).to_be_visible()
    page.get_by_label("Means").select_option(label="MIG")
    expect(page.get_by_text("No node matches")).to_be_visible()
    page.wait_for_url("**means=mig**")


def _node(box: Box) -> str:
    name: str = box.json("nodes", "--json")[0]["name"]
    return name
