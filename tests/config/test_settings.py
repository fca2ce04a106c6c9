import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from corral.config import Settings, load_settings, settings
from corral.config.docker import DockerSettings
from corral.config.kubernetes import KubernetesSettings
from corral.config.mistakes import MOST_TOLD, Mistakes
from corral.config.settings import SECTIONS
from corral.config.tuner import TunerSettings
from corral.core.model.devices.device import VirtualLayer
from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.placing.split import Strategy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def refusal(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(Refused) as refused:
        load_settings(path)
    return str(refused.value)


def test_without_a_file_everything_has_its_default(path: Path) -> None:
    assert load_settings(path) == Settings()


@pytest.mark.parametrize("name", ["gpus.example.org", "gpus", "gpus.example.org:8443"])
def test_the_host_of_the_pages_is_a_name_with_or_without_a_port(path: Path, name: str) -> None:
    path.write_text(f"dashboard_host: {name}")
    assert load_settings(path).dashboard_host == name


@pytest.mark.parametrize("text", ["https://gpus.example.org", "gpus.example.org/", "a b", "gpus:", "", "-a", "[::1]"])
def test_a_host_of_the_pages_that_no_browser_sends_is_refused(path: Path, text: str) -> None:
    assert "line 1" in refusal(path, f"dashboard_host: '{text}'")


def test_a_fifo_in_the_place_of_the_settings_is_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(Refused, match="not a regular file"):
        load_settings(path)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n", "---\n"])
def test_an_empty_file_changes_nothing(path: Path, text: str) -> None:
    path.write_text(text)
    assert load_settings(path) == Settings()


def test_durations_and_sizes_have_units_and_the_rest_has_none(path: Path) -> None:
    path.write_text(
        "sample_interval: 0.5s\nstale_after: 1h30m\nlog_max: 2G\nlend_stale: true\n"
        "max_running_jobs: 64\ndefault_priority: -3\npriority_range: [-5, 7]\n"
        "kill_grace: 0s\n"
    )
    assert load_settings(path) == Settings(
        sample_interval_s=0.5,
        stale_after_s=5400.0,
        log_max_mib=2048,
        lend_stale=True,
        max_running_jobs=64,
        default_priority=-3,
        priority_range=(-5, 7),
        kill_grace_s=0.0,
    )


def test_every_setting_can_be_set() -> None:
    alone = [key.sets for name, key in settings._KEYS.items() if name not in SECTIONS]
    in_sections = [key.sets for section in SECTIONS.values() for key in section.values()]
    assert {*alone, *in_sections, "places"} == {field.name for field in dataclasses.fields(Settings)}


def test_a_typo_names_the_file_the_line_and_the_nearest_setting(path: Path) -> None:
    assert refusal(path, "# site\nkill_grace: 5s\nstale_aftr: 1h\n") == (
        f"{path}, line 3: stale_aftr is not a setting; did you mean 'stale_after'?"
    )


def test_a_word_like_no_setting_lists_them_all(path: Path) -> None:
    assert "known: accept_in_use, alerts, allocation, assume_available" in refusal(path, "zzzz: 1\n")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kill_grace: 10", "kill_grace: '10' is not a duration; write a number and a unit, such as 90s"),
        ("kill_grace: soon", "kill_grace: 'soon' is not a duration"),
        ("kill_grace: 9w", "kill_grace: 9w is out of range; write a time from 0s to 86400s"),
        ("log_max: 100", "log_max: '100' is not a memory size; write a number and a unit, such as 512M"),
        ("log_max: 9T", "log_max: 9T is out of range; write a size from 1M to 1048576M"),
        ("lend_stale: maybe", "lend_stale: 'maybe' is not allowed; write true or false"),
        (
            "max_running_jobs: many",
            "max_running_jobs: 'many' is not allowed; write a whole number from 1 to 1000000",
        ),
        ("max_running_jobs: 0", "max_running_jobs: '0' is not allowed; write a whole number from 1 to"),
        ("max_running_jobs:", "max_running_jobs: '' is not allowed"),
        ("max_running_jobs: [1, 2]", "max_running_jobs: write a single value, not a list or a group"),
        ("max_running_jobs: {a: 1}", "max_running_jobs: write a single value, not a list or a group"),
    ],
)
def test_a_wrong_value_says_where_it_is_and_what_would_be_accepted(path: Path, line: str, expected: str) -> None:
    assert refusal(path, f"\n{line}\n").startswith(f"{path}, line 2: {expected}")


def test_all_mistakes_are_told_at_once_in_lists_and_groups_too(path: Path) -> None:
    path.write_text(
        "kill_grace: 10\nqueues:\n- {name: a, wait: 3, weight: 0}\n- {weight: 1}\n- {name: b}\n- {name: b}\n"
        "policies: {enable_preemption: perhaps}\nzzz: 1\n"
    )
    with pytest.raises(Mistakes) as mistakes:
        load_settings(path)
    told = [str(one).removeprefix(f"{path}, ") for one in mistakes.value.found]
    assert [one.partition(": ")[0] for one in told] == [
        *("line 1", "line 3", "line 3", "line 2", "line 2", "line 7", "line 8")
    ]
    assert told[3:5] == [
        "line 2: queues: the queue in line 4 has no name",
        "line 2: queues: the queue b is defined twice, again in line 6; remove one of the two",
    ]
    assert all(one in str(mistakes.value) for one in told)


def test_settings_that_contradict_each_other_are_told_together(path: Path) -> None:
    said = refusal(path, "priority_range: [6, 9]\nretry_backoff: 5m\nretry_backoff_max: 1m\n")
    assert f"{path}, line 1: default_priority (5)" in said
    assert f"{path}, line 3: retry_backoff_max (60s)" in said


def test_a_file_full_of_mistakes_is_not_read_to_its_end(path: Path) -> None:
    path.write_text("".join(f"wrong_{n}: 1\n" for n in range(1000)))
    with pytest.raises(Mistakes) as mistakes:
        load_settings(path)
    assert [one.field for one in mistakes.value.found] == [f"wrong_{n}" for n in range(MOST_TOLD)]


def test_a_setting_that_is_given_twice_names_both_lines(path: Path) -> None:
    assert refusal(path, "kill_grace: 5s\nlend_stale: true\nkill_grace: 6s\n") == (
        f"{path}, line 3: kill_grace is already set in line 1; remove one of the two"
    )


@pytest.mark.parametrize("text", ["- kill_grace\n", "kill_grace\n"])
def test_a_file_that_is_no_list_of_keys_and_values_shows_what_one_looks_like(path: Path, text: str) -> None:
    assert refusal(path, text) == f"{path}, line 1: settings are lines of KEY: VALUE, such as `kill_grace: 10s`"


def test_broken_yaml_names_the_line(path: Path) -> None:
    assert refusal(path, "kill_grace: 5s\nlend_stale: [true\n").startswith(f"{path}, line 3: this is not YAML: ")


@pytest.mark.parametrize("bracket", ["[", "{", "a: "])
def test_brackets_without_end_are_refused_without_a_traceback(path: Path, bracket: str) -> None:
    assert refusal(path, bracket * 5000).startswith(str(path))


def test_bytes_that_are_no_text_are_refused_without_a_traceback(path: Path) -> None:
    path.write_bytes(b"kill_grace: \xff\xfe5s\n")
    with pytest.raises(Refused, match="this is not YAML"):
        load_settings(path)


def test_settings_that_contradict_each_other_are_refused(path: Path) -> None:
    assert "line 1: stale_sample (10s) must be at least twice sample_interval (8s)" in refusal(
        path, "sample_interval: 8s\n"
    )
    assert "line 1: node_gone_after (300s) must be at least twice node_silent_after (200s)" in refusal(
        path, "node_silent_after: 200s\n"
    )
    assert "line 2: retry_backoff_max (1s) is less than retry_backoff (5s)" in refusal(
        path, "retry_backoff: 5s\nretry_backoff_max: 1s\n"
    )


def test_a_file_that_cannot_be_read_says_why(path: Path) -> None:
    path.mkdir()
    with pytest.raises(Refused, match=f"cannot read the settings in {path}: Is a directory"):
        load_settings(path)


def test_a_server_without_a_file_of_settings_does_not_load_the_parser(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from corral.config import load_settings; "
        f"load_settings(Path({os.fspath(path)!r})); sys.exit('yaml' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_what_a_place_is_chosen_by_is_one_score_or_several_with_weights(path: Path) -> None:
    path.write_text("placement: spread\n")
    assert load_settings(path).placement == (("spread", 1.0),)
    path.write_text("placement: {pack: 1, topology: 0.5}\n")
    assert load_settings(path).placement == (("pack", 1.0), ("topology", 0.5))
    assert "line 1: placement: " in refusal(path, "placement: {pack: -1}\n")
    assert "not a list" in refusal(path, "placement: [pack]\n")


def test_how_devices_are_shared_is_one_word_or_a_line_for_each(path: Path) -> None:
    path.write_text("sharing: exclusive\n")
    assert load_settings(path).sharing == (("*", Means.EXCLUSIVE),)
    path.write_text('sharing:\n  0: mps\n  A100-80GB: timeslice\n  "*": exclusive\nsplit: fill\n')
    settings = load_settings(path)
    assert settings.sharing == (("0", Means.MPS), ("A100-80GB", Means.TIMESLICE), ("*", Means.EXCLUSIVE))
    assert settings.split is Strategy.FILL


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sharing: mpss\n", "line 1: sharing: 'mpss' is not allowed; did you mean 'mps'?"),
        ("sharing: mig\n", "mig cannot be set here"),
        ("sharing:\n  0: [mps]\n", "write lines of DEVICE: VALUE"),
        ("sharing: [mps]\n", "write a single value"),
        ("split: even\n", "did you mean 'evenly'?"),
        ("guard_grace: 10\n", "is not a duration"),
    ],
)
def test_a_way_of_sharing_that_there_is_not_is_refused(path: Path, text: str, told: str) -> None:
    assert told in refusal(path, text)


def test_a_site_gives_its_host_labels(path: Path) -> None:
    path.write_text("labels: {zone: a, rack: 12}\n")
    assert load_settings(path).labels == (("rack", "12"), ("zone", "a"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("labels:\n  zone: a\n  cuda-major-version: 12\n", "line 3: labels.cuda-major-version is set by the driver"),
        ("labels:\n  zone: a\n  zone: b\n", "line 3: labels.zone is given twice; remove one of the two"),
        ("labels:\n  zone: [a, b]\n", "line 2: labels: write lines of KEY: VALUE, such as `zone: a`"),
        ("labels:\n  zone:\n", "line 2: labels: '' cannot be part of a label; write lines such as `zone: a`"),
        ("labels: zone\n", "line 1: labels: write lines of KEY: VALUE"),
    ],
)
def test_labels_that_nobody_could_ask_for_are_refused_with_their_line(path: Path, text: str, words: str) -> None:
    assert words in refusal(path, text)


@pytest.mark.parametrize(
    "text",
    [
        "max_running_jobs: {}", "log_max: {}G", "kill_grace: {}s", "user_quota: {{gpus: {}}}",
        "placement: {{pack: {}}}",
        "queues: [{{name: a, weight: {}}}]", "policies: {{max_job_duration_hours: {}}}", "max_temperature: {}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("digits", [400, 5000])
def test_a_number_of_hundreds_of_digits_is_refused_with_its_line(path: Path, text: str, digits: int) -> None:
    said = refusal(path, text.format("9" * digits))
    assert said.startswith(f"{path}, line 1: ")
    assert len(said) < 400


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("priority_range: 5\n", "write the lowest and the highest"),
        ("priority_range: [10, 0]\n", "write the lowest and the highest"),
        ("priority_range: [0, x]\n", "'x' is not allowed"),
        ("priority_range: [6, 9]\n", r"default_priority (5) is outside priority_range (6 to 9)"),
        ("default_priority: -1\npriority_range: [0, 9]\n", "default_priority (-1) is outside priority_range (0 to 9)"),
        ("default_priority: 11\npriority_range: [0, 9]\n", "default_priority (11) is outside priority_range (0 to 9)"),
    ],
)
def test_a_range_of_priorities_has_two_ends_and_the_default_in_it(path: Path, text: str, said: str) -> None:
    assert said in refusal(path, text)


@pytest.mark.parametrize(
    ("text", "priorities"),
    [
        ("", (5, 10)),
        ("default_priority: 3\n", (3, 10)),
        ("default_priority: 20\n", (20, 20)),
        ("priority_range: [0, 10]\n", (0, 10)),
    ],
)
def test_unless_the_site_says_so_no_user_may_go_ahead_of_the_default_priority(
    path: Path, text: str, priorities: tuple[int, int]
) -> None:
    path.write_text(text)
    assert load_settings(path).priorities_of_users == priorities


def test_how_long_whom_may_be_passed_can_be_set_and_switched_off(path: Path) -> None:
    path.write_text("pass_unknown_limit: 0s\npass_unknown_until: 30m\n")
    found = load_settings(path)
    assert (found.pass_unknown_limit_s, found.pass_unknown_until_s) == (0.0, 1800.0)


@pytest.mark.parametrize(
    ("text", "vgpu"),
    [
        ("vgpu: {layer: gpu-manager, cuda: 12.2}\n", (("*", VirtualLayer("gpu-manager", (12, 2))),)),
        (
            "vgpu:\n  0: {layer: hami, cuda: 12.10}\n  A100: {layer: gpu-manager, cuda: 11.8}\n",
            (("0", VirtualLayer("hami", (12, 10))), ("A100", VirtualLayer("gpu-manager", (11, 8)))),
        ),
    ],
)
def test_a_site_says_what_makes_virtual_gpus_of_its_devices(
    path: Path, text: str, vgpu: tuple[tuple[str, VirtualLayer], ...]
) -> None:
    path.write_text(text)
    assert load_settings(path).vgpu == vgpu


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vgpu: {layer: hami}\n", "line 1: vgpu: write the layer and the CUDA version it is built for"),
        ("vgpu:\n  0: {layer: hami, cuda: 12}\n", "line 2: vgpu.cuda: '12' is not a version; write two numbers"),
        ("vgpu:\n  0: hami\n", "line 1: vgpu: write lines of KEY: VALUE"),
        ("vgpu: {layer: hami, cuda: 12.2, on: 0}\n", "line 1: vgpu.on is not a setting"),
        ("vgpu: hami\n", "line 1: vgpu: write lines of KEY: VALUE"),
        ("min_compute_capability: 8\n", "line 1: min_compute_capability: '8' is not a version; write two numbers"),
        ("availability_memory_weight: 1.5\n", "line 1: availability_memory_weight: '1.5' is not allowed"),
    ],
)
def test_what_is_no_layer_version_or_weight_is_refused_with_its_line(path: Path, text: str, words: str) -> None:
    path.write_text(text)
    with pytest.raises(Refused) as refused:
        load_settings(path)
    assert words in str(refused.value)


def test_a_site_says_how_old_a_gpu_may_be_and_what_availability_is_weighed_by(path: Path) -> None:
    path.write_text("min_compute_capability: 8.0\navailability_memory_weight: 0.25\n")
    settings = load_settings(path)
    assert (settings.min_compute, settings.availability_memory_weight) == ((8, 0), 0.25)


def test_an_engine_has_a_group_of_its_own(path: Path) -> None:
    path.write_text(
        "engine: kubernetes\n"
        "kubernetes:\n"
        "  kubeconfig: /etc/corral/kubeconfig\n"
        "  context: lab\n"
        "  namespace: jobs\n"
        "  image: repo/train:1\n"
        "  host_paths: [/data, /models]\n"
        "  prometheus_url: http://prometheus:9090\n"
        "  exec_nvidia_smi: true\n"
    )
    found = load_settings(path)
    assert found.engine == "kubernetes"
    assert found.kubernetes == KubernetesSettings(
        kubeconfig="/etc/corral/kubeconfig",
        context="lab",
        namespace="jobs",
        prometheus_url="http://prometheus:9090",
        exec_nvidia_smi=True,
        image="repo/train:1",
        host_paths=("/data", "/models"),
    )


def test_what_jobs_in_docker_may_ask_for_is_a_group_of_its_own(path: Path) -> None:
    path.write_text(
        "docker:\n  host_paths: [/data]\n  networks: [none, host]\n  any_user: true\n  max_processes: 500\n"
    )
    assert load_settings(path).docker == DockerSettings(("/data",), ("none", "host"), any_user=True, max_processes=500)
    assert "docker.max_processes" in refusal(path, "docker:\n  max_processes: 0")


def test_what_inference_servers_need_of_a_site_is_a_group_of_its_own(path: Path) -> None:
    path.write_text(
        "tuner:\n  model_root: /models\n  images: {vllm: 'registry.test:5000/vllm:1'}\n"
        "  health_paths: {vllm: /ready, of-our-own: /v1/models}\n"
    )
    assert load_settings(path).tuner == TunerSettings(
        "/models", (("vllm", "registry.test:5000/vllm:1"),), (("of-our-own", "/v1/models"), ("vllm", "/ready"))
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tuner:\n  model_root: models", "line 2: tuner.model_root: 'models' is not an absolute path"),
        ("tuner:\n  images: {vllm: 'a b'}", "line 2: tuner.images.vllm: image: 'a b' is not an image"),
        ("tuner:\n  images: vllm", "line 2: tuner.images: write lines of KEY: VALUE below it"),
        ("tuner:\n  images: {vllm: a, vllm: b}", "tuner.images.vllm is already set in line 2"),
        ("tuner:\n  health_paths: {vllm: ready}", "line 2: tuner.health_paths.vllm: 'ready' is not the path of a URL"),
        ("tuner:\n  health_paths: {vllm: '/a b'}", "is not the path of a URL"),
        ("tuner:\n  model_rot: /a", "line 2: tuner.model_rot is not a setting; did you mean 'model_root'?"),
        ("kubernetes: true", "line 1: kubernetes: write lines of KEY: VALUE below it"),
        ("kubernetes:\n  kubeconfig: conf", "line 2: kubernetes.kubeconfig: 'conf' is not an absolute path"),
        ("kubernetes:\n  kubeconfg: /a", "line 2: kubernetes.kubeconfg is not a setting; did you mean 'kubeconfig'?"),
        ("kubernetes:\n  prometheus_url: prometheus", "line 2: kubernetes.prometheus_url: 'prometheus' is not a URL"),
        ("kubernetes:\n  prometheus_url: http://[a", "is not a URL"),
        ("kubernetes:\n  host_paths: [data]", "line 2: kubernetes.host_paths: 'data' is not an absolute path"),
        ("kubernetes:\n  exec_nvidia_smi: sometimes", "write true or false"),
    ],
)
def test_a_mistake_in_what_an_engine_needs_is_placed(path: Path, text: str, words: str) -> None:
    assert words in refusal(path, text)


def test_where_devices_are_read_less_often_than_the_site_says_samples_count_for_longer() -> None:
    slower = Settings().sampled_at_most_each(10.0)
    assert (slower.sample_interval_s, slower.stale_sample_s) == (10.0, 30.0)
    said = Settings(sample_interval_s=20.0, stale_sample_s=60.0)
    assert said.sampled_at_most_each(10.0) is said
