import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.errors import Refused
from corral.core.model.units import (
    count_of,
    format_bytes,
    format_duration,
    format_memory,
    format_share,
    parse_duration_s,
    parse_memory_mib,
    parse_share_milli,
    parse_slurm_time_s,
    parse_time_limit_s,
)


@pytest.mark.parametrize(
    ("text", "mib"),
    [("20G", 20480), ("20GiB", 20480), ("20gb", 20480), ("512M", 512), ("1.5G", 1536), ("1T", 1048576), ("2048K", 2)],
)
def test_a_memory_size_is_read_in_powers_of_1024(text: str, mib: int) -> None:
    assert parse_memory_mib(text) == mib


@pytest.mark.parametrize("text", ["20", "", "G", "-1G", "0G", "1K", "20X", "nanG", "1e3G"])
def test_a_memory_size_without_a_unit_or_above_nothing_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="--min-memory"):
        parse_memory_mib(text, field="--min-memory")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("2h", 7200), ("1d12h", 129600), ("1h 30m", 5400), ("0.5h", 1800), ("1w", 604800)],
)
def test_a_duration_is_a_sum_of_numbers_with_units(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["90", "", "h", "2 hours ago", "-2h", "0s", "1h30"])
def test_a_duration_without_a_unit_is_refused_because_90_could_be_anything(text: str) -> None:
    with pytest.raises(Refused, match=r"90s, 30m, 2h or 1d12h|above 0s"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400), ("1:30", 90), ("2:00:00", 7200), ("1-12", 129600), ("1-2:30", 95400), ("1-02:03:04", 93784)],
)
def test_a_slurm_time_is_read_as_sbatch_reads_it(text: str, seconds: float) -> None:
    assert parse_slurm_time_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2h", 7200), ("1d12h", 129600), ("1:00:00", 3600), ("10:30", 630), ("1-12", 129600), (" 1-00:30:00 ", 88200)],
)
def test_a_time_limit_has_units_or_is_written_as_for_slurm(text: str, seconds: float) -> None:
    assert parse_time_limit_s(text) == seconds


def test_a_number_alone_is_no_time_limit_and_is_told_what_it_would_be_in_slurm() -> None:
    with pytest.raises(
        Refused, match=r"^--time: '90' is not a duration; .*; 90m is 90 minutes, as a number alone is in"
    ):
        parse_time_limit_s("90", field="--time")


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "0:00", "1h:30", "1-", "٣:00"])
def test_what_is_no_time_limit_is_refused(text: str) -> None:
    with pytest.raises(Refused, match=r"^--time: "):
        parse_time_limit_s(text, field="--time")


@pytest.mark.parametrize("text", ["", "2h", "1:2:3:4", "-5", "0", "a-1", "1-"])
def test_what_is_no_slurm_time_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        parse_slurm_time_s(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(45, "45s"), (200, "3m 20s"), (7500, "2h 5m"), (86400, "1d"), (None, "-"), (0.25, "<1s"), (0, "0s")],
)
def test_a_duration_is_shown_in_its_two_largest_units(seconds: float | None, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(min_value=1, max_value=10**7))
def test_what_is_shown_of_a_memory_size_is_right_to_a_twentieth(mib: int) -> None:
    assert parse_memory_mib(format_memory(mib)) == pytest.approx(mib, rel=0.05)


def test_shares_and_counts_read_like_words() -> None:
    assert [format_share(milli) for milli in (1000, 250, 333, 10)] == ["1", "0.25", "0.333", "0.01"]
    assert [count_of(1, "GPU"), count_of(3, "GPU")] == ["1 GPU", "3 GPUs"]


@pytest.mark.parametrize("digits", ["9" * 400, "9" * 5000, "0." + "9" * 400, "²", "٣"])
def test_what_no_person_means_by_a_number_is_refused_before_it_overflows(digits: str) -> None:
    for read, text in (
        (parse_memory_mib, f"{digits}G"),
        (parse_duration_s, f"{digits}h"),
        (parse_slurm_time_s, digits),
        (parse_slurm_time_s, f"{digits}-01:00"),
        (parse_share_milli, digits),
    ):
        with pytest.raises(Refused) as refused:
            read(text, field="--flag")
        assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (65536, "64 KiB"),
        (1536, "1.5 KiB"),
        (4 * 2**20, "4 MiB"),
        (2**30, "1024 MiB"),
    ],
)
def test_a_number_of_bytes_is_told_in_the_largest_unit(count: int, text: str) -> None:
    assert format_bytes(count) == text
