"""A cluster's description as people write it, and what is wrong in it is told with its line."""

from pathlib import Path

import pytest

from corral.config import Settings, load_settings
from corral.config.site import PoolPlan, PoolStrategy
from corral.core.model.errors import Refused
from corral.core.model.queues.queue import Project, Queue, Quota

DESCRIPTION = """\
cluster:
  name: "GPU-Cluster-01"
  total_gpus: 32

allocation:
  strategy: "hybrid"
  reserved_ratio: 0.3

scheduling:
  algorithm: "fair-share"
  max_queue_size: 1000
  default_priority: 5

monitoring:
  interval_seconds: 5
  metrics_retention_days: 30
  alert_thresholds:
    temperature: 85
    utilization: 95
    memory: 90

policies:
  max_gpus_per_user: 8
  max_job_duration_hours: 48
  enable_preemption: true

fault_tolerance:
  enable_checkpointing: true
  checkpoint_interval_minutes: 10
  auto_retry_failed_jobs: true
  max_retries: 3
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def read(path: Path, text: str) -> Settings:
    path.write_text(text)
    return load_settings(path)


def refusal(path: Path, text: str) -> str:
    with pytest.raises(Refused) as refused:
        read(path, text)
    return str(refused.value)


def test_each_line_of_a_cluster_description_takes_effect(path: Path) -> None:
    settings = read(path, DESCRIPTION)
    assert settings == Settings(
        cluster_name="GPU-Cluster-01",
        expected_gpus=32,
        strategy=PoolStrategy.HYBRID,
        reserved_ratio=0.3,
        algorithm="fair-share",
        max_queue_size=1000,
        default_priority=5,
        sample_interval_s=5.0,
        metrics_retention_days=30,
        max_milli_per_user=8000,
        max_job_duration_s=48 * 3600.0,
        enable_preemption=True,
        auto_retry_failed_jobs=True,
        max_retries=3,
        alert_thresholds=(("memory", 90.0), ("temperature", 85.0), ("utilization", 95.0)),
        enable_checkpointing=True,
        checkpoint_interval_s=600.0,
    )
    assert (settings.default_retries, settings.default_checkpoint_every_s) == (3, 600.0)


def test_retries_are_the_default_only_where_failed_jobs_are_to_be_retried(path: Path) -> None:
    assert read(path, "fault_tolerance:\n  max_retries: 3\n").default_retries == 0


def test_running_jobs_are_told_to_save_only_where_checkpoints_are_enabled(path: Path) -> None:
    text = "fault_tolerance:\n  checkpoint_interval_minutes: 0.5\n"
    assert read(path, text).default_checkpoint_every_s is None
    assert read(path, text + "  enable_checkpointing: true\n").default_checkpoint_every_s == 30.0
    assert "from 0.1 to 10080" in refusal(path, "fault_tolerance:\n  checkpoint_interval_minutes: 0\n")


def test_sections_stand_beside_settings_that_stand_alone(path: Path) -> None:
    settings = read(path, "kill_grace: 5s\ncluster:\n  name: box\n")
    assert (settings.kill_grace_s, settings.cluster_name) == (5.0, "box")


def test_what_is_said_alone_and_in_a_section_names_both_lines(path: Path) -> None:
    assert refusal(path, "max_queue_size: 5\nscheduling:\n  max_queue_size: 6\n") == (
        f"{path}, line 3: scheduling.max_queue_size is already set in line 1, as max_queue_size; remove one of the two"
    )


def test_a_users_quota_has_what_any_quota_has_but_loans(path: Path) -> None:
    settings = read(path, "user_quota: {gpus: 4, devices: 6, memory: 80G, waiting: 9, gpu_hours: 40, period: 7d}\n")
    assert settings.user_quota == Quota(6, 4000, 81_920, None, 9, 40.0, 7 * 86400.0)
    assert "line 1: user_quota: a user cannot borrow" in refusal(path, "user_quota: {gpus: 4, borrow: 1}\n")
    assert "gpu_hours and period go together" in refusal(path, "user_quota: {gpu_hours: 4}\n")


def test_a_users_gpus_are_said_in_one_place(path: Path) -> None:
    twice = "policies: {max_gpus_per_user: 8}\nuser_quota: {gpus: 4}\n"
    assert refusal(path, twice) == (
        f"{path}, line 2: user_quota.gpus is already set as policies.max_gpus_per_user; remove one of the two"
    )
    assert read(path, "policies: {max_gpus_per_user: 8}\nuser_quota: {running: 4}\n").user_quota == Quota(running=4)


def test_queues_projects_and_pools_are_lists(path: Path) -> None:
    settings = read(
        path,
        """\
queues:
  - name: research
    quota: {gpus: 8, waiting: 100}
  - name: night
    parent: research
    policy: fair-share
    weight: 2
    preempts: true
    backfill: conservative
    spared: 10m
    quota: {gpus: 2.5, borrow: 4, memory: 100G, running: 3, gpu_hours: 40, period: 7d}
projects:
  - {name: nlp, weight: 1.5, users: [alice, bob], user_weights: {bob: 0.5}}
pools:
  - {name: lab, gpus: [0, GPU-abc], projects: nlp, lends: true}
""",
    )
    assert settings.queues == (
        Queue("research", quota=Quota(share_milli=8000, waiting=100)),
        Queue(
            "night",
            "fair-share",
            2.0,
            "research",
            Quota(None, 2500, 102_400, 3, None, 40.0, 7 * 86400.0, 4000),
            preempts=True,
            backfill="conservative",
            spared_s=600.0,
        ),
    )
    assert settings.projects == (Project("nlp", 1.5, ("alice", "bob"), user_weights=(("bob", 0.5),)),)
    assert settings.pools == (PoolPlan("lab", ("0", "GPU-abc"), (), ("nlp",), True),)


@pytest.mark.parametrize(
    ("gpu", "read_as"),
    [
        ("6", "6"),
        ("06", "6"),
        ("gpu-07:06", "gpu-07:6"),
        ("gpu-07:*", "gpu-07:*"),
        ("GPU-abc", "GPU-abc"),
        ("MIG-GPU-abc/1/0", "MIG-GPU-abc/1/0"),
        ("H100 NVL", "H100 NVL"),
    ],
)
def test_a_pool_names_gpus_by_index_place_node_uuid_or_model(path: Path, gpu: str, read_as: str) -> None:
    (pool,) = read(path, f"pools:\n- {{name: lab, users: [bob], gpus: ['{gpu}']}}\n").pools
    assert pool.gpus == (read_as,)


@pytest.mark.parametrize("gpu", ["*", ":6", ":*", "gpu-07:", "gpu-07:a", "gpu-07:1-3", "gpu-07:GPU-abc"])
def test_a_word_that_can_name_no_gpu_sets_nothing_apart_and_is_refused(path: Path, gpu: str) -> None:
    with pytest.raises(Refused, match=r"line 2: pool\.gpus: .*names no GPU; write a UUID, NODE:INDEX, NODE:"):
        read(path, f"pools:\n- {{name: lab, users: [bob], gpus: ['{gpu}']}}\n")


@pytest.mark.parametrize("name", ["a\\nb", "\\e[31mred", " a", "a" * 65, "a\\u202eb"])
def test_the_name_of_a_cluster_is_one_line_that_can_be_read(path: Path, name: str) -> None:
    assert "cluster.name: " in refusal(path, f'cluster: {{name: "{name}"}}\n')


def test_a_queue_that_names_no_policy_has_the_sites(path: Path) -> None:
    queues = "queues: [{name: vision}, {name: speech, policy: sjf}, {name: night, policy: priority}, {name: default}]\n"
    for text in ("scheduling: {algorithm: fair-share}\n" + queues, queues + "scheduling: {algorithm: fair-share}\n"):
        policies = {queue.name: queue.policy for queue in read(path, text).queues}
        assert policies == {"vision": "fair-share", "speech": "sjf", "night": "priority", "default": "fair-share"}
    assert {queue.policy for queue in read(path, queues).queues} == {"priority", "sjf"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("polices:\n  a: 1\n", "line 1: polices is not a setting; did you mean 'policies'?"),
        (
            "policies:\n  max_gpu_per_user: 8\n",
            "line 2: policies.max_gpu_per_user is not a setting; did you mean 'max_gpus_per_user'?",
        ),
        (
            "allocation:\n  strategy: hybird\n",
            "line 2: allocation.strategy: 'hybird' is not allowed; did you mean 'hybrid'?",
        ),
        ("cluster: box\n", "line 1: cluster: write lines of KEY: VALUE"),
        ("cluster:\n  name: [a]\n", "line 2: cluster.name: write a single value, not a list or a group"),
        (
            "monitoring:\n  alert_thresholds:\n    heat: 5\n",
            "line 3: monitoring.alert_thresholds.heat is not a setting",
        ),
        ("queues: night\n", "line 1: queues: write a list; begin each queue with `- name: ...`"),
        ("queues:\n  - policy: fcfs\n", "line 1: queues: the queue in line 2 has no name"),
        ("queues:\n  - name: a\n  - name: a\n", "line 1: queues: the queue a is defined twice, again in line 3"),
        (
            "queues:\n  - name: a\n    weight: -1\n",
            "line 3: queue.weight: '-1' is not allowed; write a number above 0",
        ),
        ("queues:\n  - name: a\n    quota: {gpu: 1}\n", "line 3: quota.gpu is not a setting; did you mean 'gpus'?"),
        ("queues:\n  - name: a\n    quota: {gpus: -1}\n", "line 3: quota.gpus: '-1' is not a number of GPUs"),
        (
            "projects:\n  - {name: a, quota: {gpus: 1, borrow: 1}}\n",
            "line 2: project.quota: a project cannot borrow; set borrow in the quota of a queue with a parent",
        ),
        ("pools:\n  - {name: a, gpus: [[1]]}\n", "line 2: pool.gpus: write a list of single values, such as [a, b]"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_what_would_do(path: Path, text: str, expected: str) -> None:
    assert refusal(path, text).startswith(f"{path}, {expected}")
