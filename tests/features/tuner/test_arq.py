"""Tasks that are enqueued for a worker of ARQ, in a real Redis."""

import asyncio
import os
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.features.tuner.facts import TaskStarted
from tests.api.conftest import home, served, world  # noqa: F401
from tests.api.world import PATIENCE_S, Served
from tests.features.tuner.test_tuning_routes import a_task, row_of, tried

# ARQ closes its connections by a name that its client of Redis has another one for.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated close:DeprecationWarning")

arq_worker = pytest.importorskip("arq.worker", reason="ARQ is not installed")


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server here")
    with_libraries = Path(program).parents[1] / "lib" / (sysconfig.get_config_var("MULTIARCH") or "")
    # A socket's path is short.
    directory = Path(subprocess.check_output(["mktemp", "-d", "/tmp/corral-redis-XXXXXX"], text=True).strip())
    socket = directory / "redis.sock"
    process = subprocess.Popen(
        [program, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(directory)],
        env={**os.environ, "LD_LIBRARY_PATH": str(with_libraries)},
        stdout=subprocess.DEVNULL,
    )
    try:
        give_up_at = time.monotonic() + PATIENCE_S
        while not socket.exists():
            assert process.poll() is None
            assert time.monotonic() < give_up_at
            time.sleep(0.02)
        yield f"unix://{socket}"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        shutil.rmtree(directory)


@pytest.fixture
def settings(redis_url: str, served: Served, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: F811
    from arq.connections import RedisSettings

    from corral.features.tuner.other_names import arq

    monkeypatch.setenv("CORRAL_HOME", str(served.world.home.root))
    monkeypatch.setattr(arq, "LOOK_S", 0.02)
    monkeypatch.setattr(arq.WorkerSettings, "redis_settings", RedisSettings.from_dsn(redis_url))
    return arq.WorkerSettings


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S))


async def delivered(settings: Any, task_id: str, times: int, meanwhile: Any) -> list[dict[str, Any]]:
    """The results of so many jobs for one task, of a worker that ends once all are done."""
    from arq.connections import create_pool

    pool = await create_pool(settings.redis_settings)
    jobs = [await pool.enqueue_job("run_autotuning_task", int(task_id)) for _ in range(times)]
    worker = arq_worker.create_worker(settings, burst=True, poll_delay=0.02, handle_signals=False)
    working = asyncio.create_task(worker.main())
    await asyncio.to_thread(meanwhile)
    await working
    results = [await job.result(timeout=PATIENCE_S, poll_delay=0.02) for job in jobs if job is not None]
    await worker.close()
    await pool.aclose(close_connection_pool=True)
    return results


def starts(served: Served, task_id: str) -> int:  # noqa: F811
    facts = [entry.fact for entry in served.world.ledger.journal(after=0, limit=1000)]
    return sum(isinstance(fact, TaskStarted) and fact.task.id == task_id for fact in facts)


def test_a_task_that_is_delivered_twice_runs_once_and_both_jobs_tell_how_it_ended(
    settings: Any,
    served: Served,  # noqa: F811
) -> None:
    task_id = a_task(served)

    def play_the_tuner() -> None:
        give_up_at = time.monotonic() + PATIENCE_S
        while row_of(served, task_id)["status"] != "running":
            assert time.monotonic() < give_up_at
            time.sleep(0.02)
        tried(served, task_id, 1, status="success", objective_score=0.5)
        served.call("POST", f"/tasks/{task_id}/end", {"status": "completed"})

    results = run(delivered(settings, task_id, 2, play_the_tuner))
    assert [(one["status"], one["successful_experiments"]) for one in results] == [("completed", 1)] * 2
    assert starts(served, task_id) == 1
    assert served.call("GET", f"/tasks/{task_id}").data["config"]["gpu_wait_timeout_s"] == 300
    assert (settings.max_jobs, settings.job_timeout, settings.keep_result) == (5, 30 * 86400, 3600)


def test_a_job_for_a_task_that_had_failed_has_it_go_on_and_one_delivered_again_does_not(
    settings: Any,
    served: Served,  # noqa: F811
) -> None:
    from datetime import UTC, datetime

    from corral.features.tuner.other_names import arq

    task_id = a_task(served, started=True)
    tried(served, task_id, 1, status="failed")
    served.call("POST", f"/tasks/{task_id}/end", {"status": "failed", "error_message": "no GPUs"})
    ended_at = row_of(served, task_id)["completed_at"]
    before = {"enqueue_time": datetime.fromtimestamp(ended_at - 1, UTC)}
    told = run(arq.run_autotuning_task(before, task_id))
    assert (told["status"], told["error"], starts(served, task_id)) == ("failed", "no GPUs", 1)

    async def again() -> Any:
        waiting = asyncio.create_task(
            arq.run_autotuning_task({"enqueue_time": datetime.fromtimestamp(ended_at + 1, UTC)}, task_id)
        )
        while starts(served, task_id) < 2:
            await asyncio.sleep(0.02)
        await asyncio.to_thread(served.call, "POST", f"/tasks/{task_id}/cancel")
        return await waiting

    assert run(again())["status"] == "cancelled"
