"""A resource file is read as Backend.ai writes it, and whatever is wrong with one is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.placing.allocation import Grant
from corral.core.sharing.resource_txt import BadText, ResourceFile, parse, render, resource_file

TEXT = """\
SCRATCH_SIZE=0m
MOUNTS=/data,/home
SLOTS={"cuda.shares":"1.2","cpu":"1"}
UNIFIED_DEVICES=[]
CUDA.SHARES_SHARES=c593-01:0.6,c593-02:0.6
MEM_SHARES=root:2g
"""


def test_a_file_is_read() -> None:
    file = parse(TEXT)
    assert isinstance(file, ResourceFile)
    assert file.allocated_milli() == {"c593-01": 600, "c593-02": 600}
    assert file.mounts == ("/data", "/home")
    assert dict(file.slots) == {"cuda.shares": "1.2", "cpu": "1"}


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("UNIFIED_DEVICES=[]\n", ""),
        TEXT.rstrip("\n"),
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("/data,/home", ""),
        TEXT.replace("MEM_SHARES", "CPU_SHARES=0:1\nMEM_SHARES"),
    ],
    ids=["no unified devices", "no last newline", "other line ends", "no mounts", "more slots"],
)
def test_what_may_differ_does_not_matter(text: str) -> None:
    file = parse(text)
    assert isinstance(file, ResourceFile)
    assert file.allocated_milli() == {"c593-01": 600, "c593-02": 600}


def test_whole_devices_and_shares_are_summed_and_slices_are_not() -> None:
    slots = '{"cuda.shares":"0.5","cuda.device":"1","cuda.device:10g-mig":"1"}'
    lines = "CUDA.SHARES_SHARES=a:0.5\nCUDA.DEVICE_SHARES=b:1\nCUDA.DEVICE:10G-MIG_SHARES=c:1\n"
    file = parse(f"SCRATCH_SIZE=0m\nMOUNTS=\nSLOTS={slots}\n{lines}")
    assert isinstance(file, ResourceFile)
    assert file.allocated_milli() == {"a": 500, "b": 1000}


@pytest.mark.parametrize(
    ("find", "put", "words"),
    [
        ("SCRATCH_SIZE=0m\n", "", "SCRATCH_SIZE is missing"),
        ('"cpu":"1"}', '"cp', "SLOTS is not JSON"),
        ('{"cuda.shares":"1.2","cpu":"1"}', "[]", "not a JSON object"),
        ('"1.2"', "1.2", "not an amount in quotes"),
        ("c593-01:0.6", "c5:93-01:0.6", "has a colon, which no id may have"),
        ("c593-01:0.6", "c593-01", "is not ID:AMOUNT"),
        ("c593-02:0.6", "c593-02:0.", "'0.' of c593-02 is not an amount"),
        ("c593-02:0.6", "c593-02:-1", "is not an amount"),
        ("c593-02:0.6", "c593-02:NaN", "is not an amount"),
        ("c593-02:0.6", "c593-01:0.6", "c593-01 is there twice"),
        ("c593-02:0.6", "c593-02:0.7", "SLOTS has 1.2 of cuda.shares and its devices give 1.3"),
        ("CUDA.SHARES_SHARES=c593-01:0.6,c593-02:0.6\n", "", "no device gives it"),
        ("MEM_SHARES=root:2g\n", "MEM_SHARES=root:2g\nKERNEL=7\n", "another version"),
        ("MOUNTS=/data,/home\n", "MOUNTS\n", "line 2 is not KEY=VALUE: 'MOUNTS'"),
        ("MOUNTS=/data,/home\n", "MOUNTS=a\nMOUNTS=b\n", "MOUNTS is there twice"),
    ],
)
def test_what_cannot_be_trusted_is_said(find: str, put: str, words: str) -> None:
    bad = parse(TEXT.replace(find, put))
    assert isinstance(bad, BadText)
    assert words in bad.reason


@pytest.mark.parametrize("length", range(len(TEXT.partition("MEM")[0]) - 1))
def test_a_file_cut_anywhere_before_its_devices_are_complete_is_never_believed(length: int) -> None:
    assert isinstance(parse(TEXT[:length]), BadText)


def test_less_than_declared_is_rounding_in_a_complete_file() -> None:
    file = parse(TEXT.replace('"1.2"', '"1.25"'))
    assert isinstance(file, ResourceFile)


@pytest.mark.parametrize(
    ("grants", "line"),
    [
        ([Grant("a", 1000), Grant("b", 1000)], "CUDA.DEVICE_SHARES=a:1,b:1"),
        ([Grant("a", 600), Grant("b", 600)], "CUDA.SHARES_SHARES=a:0.6,b:0.6"),
        ([Grant("a", 1000), Grant("b", 200)], "CUDA.SHARES_SHARES=a:1,b:0.2"),
    ],
)
def test_whole_devices_are_written_as_devices_and_anything_else_as_shares(grants: list[Grant], line: str) -> None:
    assert line in render(resource_file(grants)).splitlines()


@pytest.mark.parametrize("profile", ["1g.10gb", "1g.10gb+me", "10G", "10gb"])
def test_slices_are_written_by_the_memory_of_their_profile_and_counted_where_they_are_asked_for(profile: str) -> None:
    text = render(resource_file([Grant("MIG-a/3/0", 1000), Grant("MIG-a/4/0", 1000)], mig_profile=profile))
    assert 'SLOTS={"cuda.device:10g-mig": "2"}' in text.splitlines()
    assert "CUDA.DEVICE:10G-MIG_SHARES=MIG-a/3/0:1,MIG-a/4/0:1" in text.splitlines()
    file = parse(text)
    assert isinstance(file, ResourceFile)
    assert file.allocated_milli(with_slices=True) == {"MIG-a/3/0": 1000, "MIG-a/4/0": 1000}
    assert file.allocated_milli() == {}


def test_cpu_and_memory_of_the_host_are_written_too() -> None:
    text = render(resource_file([], cpu_milli=1500, host_memory_mib=2048))
    assert text == (
        'SCRATCH_SIZE=0m\nMOUNTS=\nSLOTS={"cpu": "1.5", "mem": "2048m"}\nUNIFIED_DEVICES=[]\nMEM_SHARES=root:2048m\n'
    )


grants = st.lists(
    st.builds(Grant, st.text("abcdef0123456789-", min_size=1, max_size=36), st.integers(1, 100).map(lambda n: n * 10)),
    max_size=8,
    unique_by=lambda grant: grant.uuid,
)


@given(grants)
def test_what_is_written_is_what_is_read(grants: list[Grant]) -> None:
    file = parse(render(resource_file(grants, cpu_milli=1000)))
    assert isinstance(file, ResourceFile)
    assert file.allocated_milli() == {grant.uuid: grant.share_milli for grant in grants}


@given(st.text())
def test_no_text_at_all_raises(text: str) -> None:
    assert isinstance(parse(text), BadText | ResourceFile)
