"""The configuration of a kube-scheduler that asks Corral."""

from corral.engines.kubernetes.extender.scheduler_file import GROUP, KIND, SchedulerFiles, extender_entry, merged

GPU, CORE = "nvidia.com/gpu", "tencent.com/vcuda-core"
ENTRY = extender_entry("https://corral:7443", SchedulerFiles("a", "b", "c", "d"), (GPU, CORE))


def managed(*others: dict[str, object]) -> list[str]:
    document = {"kind": KIND, "apiVersion": f"{GROUP}v1", "extenders": list(others)}
    own = merged(document, ENTRY, yields=(CORE,))["extenders"][-1]
    return [one["name"] for one in own["managedResources"]]


def test_parts_that_another_extender_gives_out_are_left_to_it() -> None:
    theirs: dict[str, object] = {"urlPrefix": "https://theirs", "managedResources": [{"name": CORE}, {"name": GPU}]}
    assert managed() == [GPU, CORE]
    assert managed(theirs) == [GPU]
    assert managed({"urlPrefix": "https://theirs", "managedResources": "nonsense"}) == [GPU, CORE]
    assert managed({**theirs, "urlPrefix": ENTRY["urlPrefix"]}) == [GPU, CORE]
