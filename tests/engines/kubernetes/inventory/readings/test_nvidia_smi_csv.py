"""What nvidia-smi says in pods is read as the GPUs of their node."""

from corral.engines.kubernetes.inventory.readings.nvidia_smi_csv import readings_of_nvidia_smi


def test_each_gpu_that_pods_see_counts_once_numbered_by_uuid() -> None:
    texts = [
        "GPU-b, 12, 1000, 81559, 40, 300.5, 1410\n",
        "GPU-a, 7, 0, 81559, 35, 60, 210\nGPU-b, 12, 1000, 81559, 40, 300.5, 1410\n",
        "",
    ]
    first, second = readings_of_nvidia_smi([(("ml", str(number)), text) for number, text in enumerate(texts)])
    assert (first.index, first.uuid, first.utilization_pct, first.temperature_c) == (0, "GPU-a", 7, 35)
    assert (second.index, second.memory_used_mib, second.memory_total_mib) == (1, 1000, 81559)
    assert (second.power_w, second.sm_clock_mhz) == (300.5, 1410)
    assert (first.pod, second.pod) == (("ml", "1"), None)


def test_what_it_cannot_tell_is_none_and_nonsense_is_nothing() -> None:
    text = (
        "GPU-a, [N/A], [Not Supported], nan, -1, [N/A], N/A\nFailed\nGPU-b\nx, 1, 2, 3, 4, 5\nGPU-c, 900, 1, 2, 3, 4, 5"
    )
    first, second = readings_of_nvidia_smi([(("ml", "a"), text)])
    assert (first.utilization_pct, first.memory_used_mib, first.memory_total_mib, first.temperature_c) == (None,) * 4
    assert (first.power_w, first.sm_clock_mhz) == (None, None)
    assert (second.uuid, second.utilization_pct) == ("GPU-c", None)
