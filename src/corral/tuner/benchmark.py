"""Measures any server as experiments are measured, for other programs."""

from corral.features.tuner.measuring.benchmark import run_benchmark_job

__all__ = ["run_benchmark_job"]
