import json
from pathlib import Path
from typing import Any

import pytest

from corral.client.submitting.options import RequestOptions
from corral.client.submitting.request import submission
from corral.core.model.errors import Refused
from corral.core.model.jobs.container import Container, parse_volume


def asked(**options: Any) -> Container | None:
    given: RequestOptions = {**options}  # type: ignore[typeddict-item]
    return submission(["true"], given).container


def test_a_job_that_names_nothing_of_a_container_leaves_it_to_the_site() -> None:
    assert asked(gpus=1) is None


def test_image_volumes_and_account_are_sent_as_they_are_written() -> None:
    sent = asked(image="repo/train:1", volume=["pvc/data:/data:ro", "/scratch:/s"], service_account="trainer")
    volumes = (parse_volume("pvc/data:/data:ro"), parse_volume("/scratch:/s"))
    assert sent == Container("repo/train:1", volumes, "trainer")


def test_a_pod_template_is_read_from_yaml_or_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("spec:\n  tolerations:\n  - {key: gpu, operator: Exists}\n")
    template = {"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}
    for given in (file, str(file), template):
        sent = asked(pod_template=given)
        assert sent is not None
        assert json.loads(sent.pod_template or "") == template


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1", "has no pod template"),
        ("a: 1\nb: ]", "is not YAML: line 2: expected the node content, but found ']'$"),
        ("a: 2001-01-01", "made of texts"),
        ("", "has no pod"),
    ],
)
def test_a_file_that_is_no_template_is_refused_with_why(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(text)
    with pytest.raises(Refused, match=message):
        asked(pod_template=file)


def test_a_template_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="No such file"):
        asked(pod_template=tmp_path / "none.yaml")


def test_what_is_only_the_shells_is_told_apart_from_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_SHELL", "1")
    sent = submission(["true"], {"env": {"SEED": 5}, "workdir": "/app"})
    assert "FROM_SHELL" in sent.inherited_env
    assert "SEED" not in sent.inherited_env
    assert not sent.inherited_workdir
    assert submission(["true"], {}).inherited_workdir
