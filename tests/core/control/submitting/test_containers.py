from contextlib import suppress
from dataclasses import fields, replace
from typing import get_type_hints

import pytest

from corral.core.control.submitting.containers import NO_MPS, with_container
from corral.core.control.submitting.device_request import RequestRules
from corral.core.control.submitting.submission_checks import check
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.errors import CorralError, Refused
from corral.core.model.jobs.container import Container, Volume, VolumeKind
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.jobs.job import JobKind, Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.placement_rules import PlacementRules, Toleration
from corral.core.model.view import View
from corral.core.scheduling.explaining.impossible import refuse_impossible


class Site:
    """Runs containers, of this image unless another is asked for."""

    every_job = True
    parts = True
    reach_daemons = True
    checkpoints = False

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
    parts = True
    reach_daemons = False
    checkpoints = True


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
        ({"stdin": True, "terminal": TerminalSize(24, 80)}, "terminal"),
        ({"script": True, "request": Request(gang_size=2)}, "gang_size"),
        ({"checkpoint_signal": "USR1"}, "checkpoint_signal"),
        ({"checkpoint_signal": "TERM", "checkpoint_every_s": 600.0}, "checkpoint_every_s"),
        ({"checkpoint_dir": "/data"}, "checkpoint_dir"),
        *[
            ({"checkpoint_signal": word}, "checkpoint_signal")
            for word in ("a:b:c", "a:TERM", ":", "", "TERM\n", "B:S:TERM")
        ],
        ({"container": Container(image="")}, "image"),
        ({"env": {"A B": "1"}}, "env"),
    ],
)
def test_what_only_processes_have_is_refused_by_name(change: dict[str, object], field: str) -> None:
    with pytest.raises(Refused) as refused:
        with_container(replace(WORK, **change), Site())  # type: ignore[arg-type]
    assert refused.value.field == field


def test_who_asked_for_a_terminal_is_told_to_leave_it_out_and_not_to_redirect_input() -> None:
    with pytest.raises(Refused, match="leave out --pty") as refused:
        with_container(replace(WORK, terminal=TerminalSize(24, 80)), Site())
    assert "/dev/null" not in str(refused.value)


def test_a_container_may_be_told_by_sigterm_to_save_its_work() -> None:
    assert with_container(replace(WORK, checkpoint_signal="TERM"), Site()).checkpoint_signal == "TERM"


def on_host(**change: object) -> Submission:
    volumes = (Volume(VolumeKind.HOST_PATH, "/data", "/data"), Volume(VolumeKind.HOST_PATH, "/home/me", "/work"))
    asked = replace(WORK, container=Container("repo/train:1", volumes), inherited_workdir=False, workdir="/work")
    return with_container(replace(asked, **change), Hosts())  # type: ignore[arg-type]


def test_a_container_of_a_host_gets_signals_of_its_own_and_saves_where_the_host_sees_it() -> None:
    told = on_host(checkpoint_signal="USR1", checkpoint_every_s=600.0, checkpoint_dir="/data/%j")
    assert (told.checkpoint_signal, told.checkpoint_dir) == ("USR1", "/data/%j")
    assert on_host(checkpoint_signal="B:USR1").checkpoint_dir is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"checkpoint_signal": "S:USR1"}, "the main process of a container alone; write USR1@60s"),
        ({"checkpoint_dir": "/elsewhere"}, "/elsewhere is in no volume that the host has under the same path"),
        ({"checkpoint_dir": "/data/../etc"}, "is in no volume"),
        ({"checkpoint_dir": "here"}, "/work/here is in no volume"),
        ({"checkpoint_every_s": 60.0}, "names no signal to send"),
    ],
)
def test_what_does_not_reach_a_container_of_a_host_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(Refused, match=said):
        on_host(**change)


def test_taints_that_do_not_keep_its_container_off_do_not_keep_the_job_off() -> None:
    own = Toleration("own")
    asked = replace(WORK, request=Request(rules=PlacementRules(tolerations=(own,))))
    assert with_container(asked, Site()).request.rules == PlacementRules(tolerations=(own, Toleration("gpu")))
    assert with_container(replace(WORK, request=Request(devices=0)), Site()).request.rules is None


# A daemon of MPS is the host's

IN_IMAGE = replace(WORK, container=Container("repo/train:1"))
SHARES = (
    Request(devices=1, share_milli=500),
    Request(devices=1, share_milli=1000, split_milli=1500),
    Request(devices=1, share_milli=250, memory_mib=2048, share_of_memory=True),
)


def on_hosts(request: Request, submission: Submission = IN_IMAGE) -> Request:
    settled, _ = RequestRules(containers=Hosts()).settle(replace(submission, request=request), "alice")
    return settled.request


@pytest.mark.parametrize("share", SHARES)
def test_a_part_of_a_gpu_by_mps_is_refused_to_a_container_that_reaches_no_daemon(share: Request) -> None:
    by_mps = replace(share, means=Means.MPS)
    with pytest.raises(Refused, match=r"--share mps: a container cannot .* --gpus 1, or run the job without --image"):
        on_hosts(by_mps)
    # A process can have it, and a pod.
    assert on_hosts(by_mps, WORK).means is Means.MPS
    of_pod, _ = RequestRules(containers=Site()).settle(replace(WORK, request=by_mps), "alice")
    assert of_pod.request.means is Means.MPS


@pytest.mark.parametrize("share", SHARES)
def test_a_part_of_any_gpu_is_for_a_container_one_of_those_that_mps_does_not_share(share: Request) -> None:
    assert on_hosts(share).means is Means.TIMESLICE
    assert on_hosts(share, WORK).means is None


def test_a_packable_job_shares_as_a_part_does_and_is_refused_where_no_part_is_given() -> None:
    assert on_hosts(Request(), replace(IN_IMAGE, packable=True)).means is Means.TIMESLICE
    assert on_hosts(Request(), IN_IMAGE).means is None
    whole = Site()
    whole.parts = False
    with pytest.raises(Refused, match="remove --packable"):
        RequestRules(containers=whole).settle(replace(WORK, packable=True), "alice")


@pytest.mark.parametrize(
    "request_",
    [Request(devices=1), Request(), Request(devices=1, means=Means.MPS), Request(devices=1, mig_profile="1g.10gb")],
)
def test_what_needs_no_daemon_stays_as_it_was_asked_for(request_: Request) -> None:
    assert on_hosts(request_).means is request_.means


def test_where_mps_shares_every_gpu_a_part_in_a_container_is_refused_at_once_with_what_to_ask_for() -> None:
    device = Device("GPU-a", 0, "NVIDIA A100", 40_960, means=Means.MPS)
    view = View(nodes={"a": Node("a", (device,), 64_000, 512 * 1024)})
    rules = RequestRules(containers=Hosts())
    half, _ = rules.settle(replace(IN_IMAGE, request=SHARES[0]), "alice")
    with pytest.raises(Refused) as refused:
        refuse_impossible(view, half)
    assert rules.explained(str(refused.value), half, view).endswith(f"({NO_MPS})")
    assert NO_MPS not in rules.explained("no", replace(half, request=Request(devices=9)), view)
    as_process, _ = rules.settle(replace(WORK, request=SHARES[0]), "alice")
    refuse_impossible(view, as_process)


NASTY = (
    "",
    ":",
    "::",
    "a:b:c",
    "=",
    "a=b=c",
    "@",
    "%",
    "%j%",
    "\n",
    " ",
    "9" * 400,
    "é",
    "-",
    "--",
    "/",
    "..",
    "a,b",
    "[",
)
TEXTS = [f.name for f in fields(Submission) if get_type_hints(Submission)[f.name] in (str, str | None)]
OF_CONTAINERS = [f.name for f in fields(Container) if get_type_hints(Container)[f.name] in (str, str | None)]
SITES = {"containers alone": Site(), "hosts": Hosts(), "no containers": None}


def settled_and_checked(submission: Submission, site: Site | None) -> None:
    """As a submission is. Whatever is amiss is told in words."""
    with suppress(CorralError):
        check(RequestRules(containers=site).settle(submission, "me")[0])


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("text", NASTY)
def test_whatever_a_text_of_a_submission_says_it_is_taken_or_refused(text: str, site: str) -> None:
    assert "checkpoint_signal" in TEXTS
    for work in (WORK, replace(WORK, container=Container("an/image"))):
        for name in TEXTS:
            settled_and_checked(replace(work, **{name: text}), SITES[site])  # type: ignore[arg-type]
        settled_and_checked(replace(work, command=(text,)), SITES[site])
        settled_and_checked(replace(work, env={text: text}), SITES[site])
        settled_and_checked(replace(work, resources={text: text}), SITES[site])
    for name in OF_CONTAINERS:
        settled_and_checked(replace(WORK, container=replace(Container("an/image"), **{name: text})), SITES[site])  # type: ignore[arg-type]
