"""Settings are taken on whole, or not at all with the reason in the log."""

import logging
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.config import Settings, load_settings
from corral.config.site import PoolPlan
from corral.core.access.caller import Caller
from corral.core.control.site.reloading import SiteSettings
from corral.core.control.site.remarks import clash_remarks
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.answers.site import ChangedSetting, ReloadedSettings
from corral.core.model.devices.device import Node, Silence
from corral.core.model.errors import Forbidden, Refused
from corral.core.model.fact import JobSubmitted, NodeObserved, SilenceObserved
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from corral.core.scheduling.policy import POLICIES
from tests.core.control.strategies import box, job

ROOT = Caller("root", 0, admin=True, overseer=True)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    opened = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    opened.observe([NodeObserved(box(4).nodes["box"])])
    settle(opened)
    yield opened
    opened.close()


def settle(ledger: SqlLedger) -> View:
    ledger.commit(lambda _: Decided((), None)).result()
    return ledger.view()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def test_the_view_has_what_the_file_says(ledger: SqlLedger, path: Path) -> None:
    site = SiteSettings(ledger, Settings(), lambda: load_settings(path), POLICIES)
    site.begin()
    assert sorted(settle(ledger).queues) == ["default"]
    path.write_text("policies: {max_gpus_per_user: 2}\nqueues:\n- {name: night}\n")
    assert site.reload()
    view = settle(ledger)
    assert (sorted(view.queues), view.limits.of_user.share_milli) == (["default", "night"], 2000)


@pytest.mark.parametrize("text", ["queues:\n- {nome: night}\n", "queues:\n- {name: night, policy: fastest}\n", "a: [b"])
def test_a_file_with_a_mistake_changes_nothing_and_the_log_says_why(
    ledger: SqlLedger, path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    site = SiteSettings(ledger, Settings(), lambda: load_settings(path), POLICIES)
    site.begin()
    before = settle(ledger)
    path.write_text(f"max_queue_size: 5\n{text}")
    with caplog.at_level(logging.ERROR):
        assert not site.reload()
    assert settle(ledger) == before
    assert "the settings were not reloaded; the previous ones stay in effect: " in caplog.text


def test_what_the_settings_mean_is_told_again_once_nodes_that_came_or_went_have_settled(
    ledger: SqlLedger, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(expected_gpus=8, pools=(PoolPlan("lab", ("3",), users=("bob",)),))
    site = SiteSettings(ledger, settings, lambda: load_settings(path), POLICIES)
    site.begin()
    site.look_at_nodes()
    caplog.set_level(logging.INFO)
    caplog.clear()
    ledger.observe([NodeObserved(replace(box(4).nodes["box"], name="late"))])
    assert settle(ledger).set_apart == {"lab": {"box": ("GPU-3",), "late": ("GPU-3",)}}
    site.look_at_nodes()
    assert caplog.messages == []
    site.look_at_nodes()
    unclear = (
        "pool lab: GPU 3 may be of any of the 2 nodes; write the node too, such as gpus: [box:3]. "
        "Until then every GPU that it may mean is set apart; only owners of both pools may use a device in two pools"
    )
    assert caplog.messages == [
        unclear,
        "resolved: cluster.total_gpus expects 8 GPUs, but there are 4",
    ]
    site.look_at_nodes()
    assert len(caplog.messages) == 2


def test_what_the_settings_mean_is_worked_out_once_for_nodes_and_settings(
    ledger: SqlLedger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def counted(settings: Settings, nodes: Collection[Node]) -> Iterator[str]:
        looks.append(len(nodes))
        return clash_remarks(settings, nodes)

    monkeypatch.setattr("corral.core.control.site.reloading.clash_remarks", counted)
    site = SiteSettings(ledger, Settings(), lambda: load_settings(path), POLICIES)
    site.begin()
    for _ in range(5):
        site.look_at_nodes()
    assert looks == [1]
    ledger.observe([NodeObserved(replace(box(4).nodes["box"], name="late"))])
    settle(ledger)
    for _ in range(5):
        site.look_at_nodes()
    assert looks == [1, 2]
    path.write_text("cluster: {total_gpus: 9}\n")
    assert site.reload()
    for _ in range(5):
        site.look_at_nodes()
    assert looks == [1, 2, 2]


def test_an_index_alone_is_refused_while_another_node_has_not_answered(ledger: SqlLedger, path: Path) -> None:
    ledger.observe([SilenceObserved("late", Silence(0.0, "node late has not answered yet"))])
    settle(ledger)
    settings = Settings(pools=(PoolPlan("lab", ("3",), users=("bob",)),))
    with pytest.raises(Refused, match="GPU 3 may be of any of the 2 nodes"):
        SiteSettings(ledger, settings, lambda: load_settings(path), POLICIES).begin()


def test_jobs_of_a_queue_that_is_taken_away_are_not_forgotten_silently(
    ledger: SqlLedger, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.commit(
        lambda _: Decided((JobSubmitted(job(1), at=1.0, by="alice"), JobSubmitted(job(2), at=1.0, by="alice")), None)
    ).result()
    moved = replace(job(3), spec=replace(job(3).spec, queue="night"))
    ledger.commit(lambda _: Decided((JobSubmitted(moved, at=1.0, by="alice"),), None)).result()
    SiteSettings(ledger, Settings(), lambda: load_settings(path), POLICIES).begin()
    assert "queue night was removed with 1 job in it; they stay" in caplog.text
    assert "queue default" not in caplog.text


def test_a_reload_tells_what_has_changed_and_what_waits_for_the_next_start(ledger: SqlLedger, path: Path) -> None:
    site = SiteSettings(ledger, Settings(), lambda: load_settings(path), POLICIES)
    site.begin()
    path.write_text("kill_grace: 5s\nmax_queue_size: 3\nqueues:\n- {name: night, quota: {gpus: 1.5}}\n")
    said = site.reload_for(ROOT)
    assert said == ReloadedSettings(
        (
            ChangedSetting("max_queue_size", "100000", "3"),
            ChangedSetting("queues.night", None, "defined"),
            ChangedSetting("queues.night.quota.gpus", None, "1.5"),
        ),
        (ChangedSetting("kill_grace", "10s", "5s"),),
    )
    assert ledger.view().limits.max_queue_size == 3
    # What was taken on is no change any more; what was not still waits.
    assert site.reload_for(ROOT) == ReloadedSettings((), said.after_restart)


def test_a_refused_reload_names_line_and_reason_and_changes_nothing(ledger: SqlLedger, path: Path) -> None:
    site = SiteSettings(ledger, Settings(), lambda: load_settings(path), POLICIES)
    site.begin()
    before = settle(ledger)
    path.write_text("max_queue_size: 3\nqueues:\n- {name: night, parent: dya}\n- {name: day}\n")
    with pytest.raises(Refused, match=r"config.yaml, line 3: queue night: .*dya"):
        site.reload_for(ROOT)
    assert settle(ledger) == before
    path.write_text("max_queue_size: 3\n")
    assert site.reload_for(ROOT).changed == (ChangedSetting("max_queue_size", "100000", "3"),)


def test_only_an_administrator_has_the_settings_reloaded(ledger: SqlLedger, path: Path) -> None:
    renewed: list[int] = []
    site = SiteSettings(ledger, Settings(), lambda: load_settings(path), POLICIES, renew=lambda: renewed.append(1))
    with pytest.raises(Forbidden, match="reloading the settings is for administrators"):
        site.reload_for(Caller("alice", 1000))
    assert renewed == []
    site.reload_for(ROOT)
    assert site.reload()
    assert renewed == [1, 1]


def test_what_an_administrator_should_know_is_told(ledger: SqlLedger, path: Path) -> None:
    site = SiteSettings(ledger, Settings(), lambda: load_settings(path), POLICIES)
    path.write_text("cluster: {total_gpus: 9}\n")
    assert site.reload_for(ROOT).remarks == ("cluster.total_gpus expects 9 GPUs, but there are 4",)
