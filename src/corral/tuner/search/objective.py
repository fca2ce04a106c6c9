"""What a search wants to be as good as it can be, and by what that is measured. Without numpy, for those who report."""

from enum import StrEnum


class Objective(StrEnum):
    """What is to be as good as it can be."""

    LATENCY = "minimize_latency"
    THROUGHPUT = "maximize_throughput"
    TTFT = "minimize_ttft"
    TPOT = "minimize_tpot"

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics it is read from; the first one that was measured counts."""
        return {
            Objective.LATENCY: ("mean_e2e_latency", "p50_e2e_latency"),
            Objective.THROUGHPUT: ("mean_total_throughput_per_gpu", "mean_total_throughput", "mean_output_throughput"),
            Objective.TTFT: ("mean_ttft",),
            Objective.TPOT: ("mean_tpot",),
        }[self]

    @property
    def sign(self) -> int:
        """What its metric is multiplied by, so that lower is better."""
        return -1 if self is Objective.THROUGHPUT else 1
