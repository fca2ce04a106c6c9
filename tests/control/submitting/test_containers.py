from dataclasses import replace

import pytest

from corral.control.submitting.containers import with_container
from corral.control.submitting.device_request import RequestRules
from corral.model.container import Container
from corral.model.errors import Refused
from corral.model.job import JobKind, Request
from corral.model.placement_rules import PlacementRules, Toleration
from corral.model.submission import Submission


class Site:
    """Runs containers, of this image unless another is asked for."""

    every_job = True

    def settle(self, asked: Container | None, *, members: int = 1) -> Container:
        return replace(asked or Container(), image=(asked and asked.image) or "site/default:1")

    def tolerations(self, container: Container, request: Request) -> tuple[Toleration, ...]:
        return (Toleration("gpu"),) if request.devices else ()


WORK = Submission(
    ("python", "train.py"),
    env={"PATH": "/home/me/bin", "SEED": "5"},
    inherited_env=("PATH",),
    workdir="/home/me",
    inherited_workdir=True,
)


class Hosts(Site):
    """Run processes, too."""

    every_job = False


def test_a_server_without_containers_refuses_one_in_words() -> None:
    with pytest.raises(Refused, match=r"runs no containers; remove --image") as refused:
        with_container(replace(WORK, container=Container("repo/train:1")), None)
    assert refused.value.field == "image"
    assert with_container(WORK, None) is WORK


def test_where_hosts_run_processes_too_a_job_that_names_no_image_is_one_as_it_was_submitted() -> None:
    assert with_container(WORK, Hosts()) is WORK
    settled = with_container(replace(WORK, container=Container("repo/train:1")), Hosts())
    assert (settled.container, settled.env, settled.workdir) == (Container("repo/train:1"), {"SEED": "5"}, "/")


def test_a_job_without_a_container_gets_the_sites() -> None:
    settled, _ = RequestRules(containers=Site()).settle(WORK, "alice")
    assert settled.container == Container("site/default:1")


def test_a_container_has_only_what_was_asked_for_and_not_its_submitters_shell() -> None:
    settled = with_container(WORK, Site())
    assert (settled.env, settled.workdir, settled.rlimits) == ({"SEED": "5"}, "/", ())
    asked = with_container(replace(WORK, inherited_workdir=False, workdir="/app"), Site())
    assert asked.workdir == "/app"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": JobKind.RESERVE, "command": ()}, "kind"),
        ({"output": "a.out"}, "output"),
        ({"error": "a.err"}, "error"),
        ({"stdin": True}, "stdin"),
        ({"script": True, "request": Request(gang_size=2)}, "gang_size"),
        ({"checkpoint_signal": "USR1"}, "checkpoint_signal"),
        ({"container": Container(image="")}, "image"),
        ({"env": {"A B": "1"}}, "env"),
    ],
)
def test_what_only_processes_have_is_refused_by_name(change: dict[str, object], field: str) -> None:
    with pytest.raises(Refused) as refused:
        with_container(replace(WORK, **change), Site())  # type: ignore[arg-type]
    assert refused.value.field == field


def test_a_container_may_be_told_by_sigterm_to_save_its_work() -> None:
    assert with_container(replace(WORK, checkpoint_signal="TERM"), Site()).checkpoint_signal == "TERM"


def test_taints_that_do_not_keep_its_container_off_do_not_keep_the_job_off() -> None:
    own = Toleration("own")
    asked = replace(WORK, request=Request(rules=PlacementRules(tolerations=(own,))))
    assert with_container(asked, Site()).request.rules == PlacementRules(tolerations=(own, Toleration("gpu")))
    assert with_container(replace(WORK, request=Request(devices=0)), Site()).request.rules is None
