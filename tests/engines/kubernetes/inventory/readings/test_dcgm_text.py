"""What dcgm-exporter and Prometheus say of GPUs is read, and their blank values are no values."""

from typing import Any

import pytest

from corral.engines.kubernetes.inventory.readings.dcgm_text import (
    POWER,
    UTILIZATION,
    query_over_time,
    readings_of_exporter,
    readings_of_queries,
    readings_over_time,
)

TEXT = """\
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA H100",Hostname="n1"} 12
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",modelName="a \\"quoted\\" } name",Hostname="n1",pod="x"} 9223372036854775794
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a"} 1000
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a"} 80000
DCGM_FI_DEV_FB_RESERVED{gpu="0",UUID="GPU-a"} 559
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 41 1700000000000
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a"} 311.5
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a"} 1980
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"} 99
DCGM_FI_DEV_MEM_COPY_UTIL{gpu="0",UUID="GPU-a"} 77
"""


def test_the_readings_of_a_node_are_those_of_its_exporter() -> None:
    first, second = readings_of_exporter(TEXT)
    assert (first.index, first.uuid, first.utilization_pct, first.temperature_c) == (0, "GPU-a", 12, 41)
    assert (first.memory_used_mib, first.memory_total_mib) == (1000, 81559)
    assert (first.power_w, first.sm_clock_mhz) == (311.5, 1980)
    assert first.memory_used_pct == pytest.approx(100 * 1000 / 81559)
    assert (second.uuid, second.utilization_pct, second.memory_used_pct) == ("GPU-b", None, None)


@pytest.mark.parametrize(
    "value",
    ["9223372036854775792", "9223372036854775795", "2147483632", "140737488355328", "NaN", "+Inf", "-1", "x", "101"],
)
def test_a_blank_or_impossible_value_is_none(value: str) -> None:
    (reading,) = readings_of_exporter(f'DCGM_FI_DEV_GPU_UTIL{{gpu="3"}} {value}\n')
    assert (reading.index, reading.utilization_pct) == (3, None)


@pytest.mark.parametrize(
    "line", ['{gpu="x"} 1', '{gpu="99999"} 1', "{} 1", '{gpu="0"', '{gpu="-1"} 1', '{gpu="0"} ', ""]
)
def test_lines_that_make_no_sense_give_nothing(line: str) -> None:
    assert readings_of_exporter(f"DCGM_FI_DEV_GPU_UTIL{line}\nhello\n") == ()


def series(value: str, name: str = "DCGM_FI_DEV_GPU_UTIL", **labels: str) -> dict[str, Any]:
    return {"metric": {"__name__": name, "gpu": "0", **labels}, "value": [1700000000.0, value]}


def test_prometheus_tells_the_nodes_of_its_series() -> None:
    rows = [series("5", Hostname="n1"), series("6", node="n2", Hostname="pod-x"), series("7")]
    found = readings_of_queries(
        [(UTILIZATION, {"status": "success", "data": {"resultType": "vector", "result": rows}})]
    )
    assert {node: one[0].utilization_pct for node, one in found.items()} == {"n1": 5, "n2": 6}


@pytest.mark.parametrize(
    "answer", [None, [], {"data": 1}, {"data": {"result": 3}}, {"data": {"result": [1, {"metric": 2}]}}]
)
def test_what_is_no_answer_of_prometheus_gives_nothing(answer: Any) -> None:
    assert readings_of_queries([(UTILIZATION, answer)]) == {}


@pytest.mark.parametrize(
    ("labels", "pod"),
    [
        ('namespace="ml",pod="train"', ("ml", "train")),
        ('namespace="gpu",pod="dcgm-x",exported_namespace="ml",exported_pod="train"', ("ml", "train")),
        ('namespace="",pod=""', None),
        ('pod="train"', None),
    ],
)
def test_a_gpu_is_the_pods_that_its_exporter_names_and_not_the_exporters_own(
    labels: str, pod: tuple[str, str] | None
) -> None:
    (reading,) = readings_of_exporter(f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",{labels}}} 5\n')
    assert reading.pod == pod


def test_a_gpu_that_several_pods_share_is_no_pods() -> None:
    rows = [f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",namespace="ml",pod="{pod}"}} 5' for pod in ("a", "b")]
    (reading,) = readings_of_exporter("\n".join(rows))
    assert reading.pod is None


def over_time(name: str, values: dict[float, str], **labels: str) -> dict[str, Any]:
    metric = {"__name__": name, "gpu": "0", "Hostname": "n1", **labels}
    return {"metric": metric, "values": [[at, value] for at, value in values.items()]}


def matrix(*rows: Any) -> Any:
    return {"status": "success", "data": {"resultType": "matrix", "result": list(rows)}}


def told(answer: Any) -> list[tuple[float, float | None, float | None]]:
    return [
        (at, gpu.utilization_pct, gpu.power_w)
        for at, by_node in readings_over_time(answer)
        for gpus in by_node.values()
        for gpu in gpus
    ]


def test_each_scrape_has_its_own_readings() -> None:
    answer = matrix(
        over_time(UTILIZATION, {10.0: "5", 25.0: "90"}),
        over_time(POWER, {10.0: "60.5", 25.0: "9223372036854775794"}),
        over_time(UTILIZATION, {10.0: "99"}, GPU_I_ID="7"),
    )
    assert told(answer) == [(10.0, 5, 60.5), (25.0, 90, None)]


def test_what_two_scrapes_say_of_one_gpu_counts_once_and_an_exporter_may_be_replaced() -> None:
    twice = matrix(
        over_time(UTILIZATION, {11.0: "6", 26.0: "91"}, job="other"),
        over_time(UTILIZATION, {10.0: "5", 25.0: "90", 40.0: "80"}, job="dcgm"),
    )
    assert told(twice) == [(10.0, 5, None), (25.0, 90, None), (40.0, 80, None)]
    replaced = matrix(
        over_time(UTILIZATION, {10.0: "5", 25.0: "90"}, instance="a"),
        over_time(UTILIZATION, {40.0: "80"}, instance="b"),
    )
    assert told(replaced) == [(10.0, 5, None), (25.0, 90, None), (40.0, 80, None)]


def test_a_query_names_its_series_exactly() -> None:
    query = query_over_time({"pod": 'a"b'}, 90)
    assert query.startswith('{__name__=~"DCGM_FI_DEV_GPU_UTIL|')
    assert query.endswith(',pod="a\\"b"}[90s]')


@pytest.mark.parametrize(
    "rows",
    [[None], [{"metric": 1, "values": 2}], [over_time(UTILIZATION, {}, node="")], [{"metric": {}, "values": []}]],
)
def test_what_is_no_answer_over_time_gives_nothing(rows: list[Any]) -> None:
    assert readings_over_time(matrix(*rows)) == readings_over_time(None) == []
    values = [[1], "x", ["t", "1"], [10**400, "1"], [float("nan"), "1"], [2, "7"]]
    odd = {"metric": {"__name__": UTILIZATION, "gpu": "0", "node": "n"}, "values": values}
    assert told(matrix(odd)) == [(2.0, 7, None)]
