"""Commands that plan and measure."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, DeclaredOptions, choice, flag, text, whole


class CheckFlags(DeclaredOptions):
    """The properties to check for, in place of those found here."""

    cuda: str | None = text("--cuda", metavar="X.Y", help="CUDA version that the program is built for.")
    dtype: str | None = text("--dtype", metavar="NAME", help="Precision: bf16, half, fp8.")
    gpus: str | None = text("--gpus", metavar="N", help="Number of GPUs, or a share: 0.5.  [default: what it uses]")
    gpu_mem: str | None = text("--gpu-mem", metavar="SIZE", help="GPU memory granted on each GPU: 20G.")
    mig: str | None = text("--mig", metavar="PROFILE", help="Check for a MIG slice of this profile: 1g.10gb.")
    share: str | None = text("--share", metavar="MEANS", help="How the GPU is shared: mps, mig or timeslice.")
    gpu_model: str | None = text("--gpu-model", metavar="NAME", help="Check for this GPU model instead of those here.")
    driver: str | None = text("--driver", metavar="VERSION", help="Check for this driver instead of the one here.")
    vgpu_cuda: str | None = text(
        "--vgpu-cuda", metavar="X.Y", help="CUDA version that the virtual GPU layer is built for."
    )
    strict: bool = flag("--strict", help="Also reject a CUDA runtime newer than the driver's within one major version.")
    json: bool = flag("--json", help="Print JSON.")


class CheckCommand(
    DeclaredCommand,
    runs="local.check.check",
    takes=CheckFlags,
    follows=True,
    examples=(
        "corral check --gpus 2 -- vllm serve ./model -tp 2",
        "corral check --cuda 12.1 --dtype bf16",
    ),
):
    """Check whether a command can run on the GPUs here, and what to change if not.

    Reads the driver version, the CUDA runtime of the command's Python environment, the flags of vLLM, SGLang and
    torchrun, and the model's config.json. Looks for the program on the PATH, and for the script that it runs.
    Nothing is run. Exits with 1 if the command can run on no GPU model here, or if the program or the script is
    missing.
    """

    flags: CheckFlags
    command: list[str] | None = text(metavar="[[--] COMMAND...]", help="The command to check.", many=True)


class EstimateCommand(
    DeclaredCommand,
    runs="local.estimate.estimate",
    examples=("corral estimate Llama-3-70B --tp 4 --dtype fp16 --context 32k --batch 8",),
):
    """Estimate the GPU memory that a language model needs, and which GPUs here have enough.

    The estimate is computed from the model's config.json if there is one, else from the size in its name (70B), else
    for a small model. The last line of the output names the source.
    """

    model: str = text(
        metavar="MODEL",
        help="A model directory, the name of a cached model, or any name with a size in it.",
        required=True,
    )
    tp: int = whole("--tp", metavar="N", help="Tensor parallel size.", default=1, least=1)
    pp: int = whole("--pp", metavar="N", help="Pipeline parallel size.", default=1, least=1)
    dtype: str | None = text("--dtype", metavar="NAME", help="Precision: bf16, half, fp8.")
    kv_dtype: str | None = text("--kv-dtype", metavar="NAME", help="Precision of the key-value cache.")
    context: str | None = text(
        "--context", metavar="TOKENS", help="Context length: 8192, 32k.  [default: the model's maximum]"
    )
    batch: int = whole("--batch", metavar="N", help="Sequences at a time.", default=1, least=1)
    json: bool = flag("--json", help="Print JSON.")


class UsageCommand(
    DeclaredCommand,
    runs="reports.usage.usage",
    examples=(
        "corral usage --by project --since 30d",
        "corral usage --from 2026-01 --by month,user --format csv",
    ),
):
    """Show GPU-hours used, and how well the shares were enforced.

    Half a GPU for two hours is one GPU-hour. "enforced": jobs could not use more than their share. "guarded" memory:
    jobs that used more were stopped. "advisory": shares were not enforced. LOST: hours of jobs that were stopped to
    make room for others. Months are those of this machine's time zone.
    """

    by: str = text(
        "--by", metavar="KEYS", help="Add up by user, project or queue, by month, or by month,user.", default="user"
    )
    since: str | None = text("--since", metavar="TIME", help="Length of the period up to now: 12h.  [default: 7d]")
    begin: str | None = text(
        "--from", metavar="WHEN", help="Begin of the period: 2026-10, 2026-10-01, 2026-10-01T08:00."
    )
    until: str | None = text("--until", metavar="WHEN", help="End of the period, not included.  [default: now]")
    form: str = choice("--format", help="table, json or csv.", choices=("table", "json", "csv"), default="table")
    json: bool = flag("--json", help="Print JSON.")


class ReportCommand(
    DeclaredCommand,
    runs="reports.report.report",
    examples=(
        "corral report --by project,user --since 30d",
        "corral report --by model --from 2026-10 --format html > use.html",
        "corral report --by hour,weekday",
        "corral report --waste",
    ),
):
    """Show how granted GPUs were used, and what they cost.

    Half a GPU for two hours is one GPU-hour. USED: the utilization was at least 5 %; IDLE: it was less; UNMETERED: it
    was not measured. WASTED: attempts that failed or were lost, and work lost by jobs that had to make room.
    Hours and weekdays are those of the server's time zone. Prices are set in the site's settings.
    """

    by: str = text(
        "--by",
        metavar="KEYS",
        help="Group by user, project, queue, job, model, node, hour or weekday; several: user,project.",
        default="user",
    )
    since: str | None = text("--since", metavar="TIME", help="Length of the period up to now: 12h.  [default: 7d]")
    begin: str | None = text(
        "--from", metavar="WHEN", help="Begin of the period: 2026-10, 2026-10-01, 2026-10-01T08:00."
    )
    until: str | None = text("--until", metavar="WHEN", help="End of the period, not included.  [default: now]")
    waste: bool = flag(
        "--waste", help="List jobs that used less than they were granted, and the amount that would have been enough."
    )
    form: str = choice(
        "--format", help="table, csv, json or html.", choices=("table", "csv", "json", "html"), default="table"
    )
    json: bool = flag("--json", help="Print JSON.")


class KpisCommand(
    DeclaredCommand,
    runs="reports.kpis.kpis",
    examples=(
        "corral kpis",
        "corral kpis --by user --since 7d",
        "corral kpis --from 2026-10 --by means",
    ),
):
    """Show key figures: use of GPUs, how jobs fared, health.

    Without --by each figure is shown with its formula. With --by the columns are: GPU and MEM, mean utilization and
    memory in percent; USED, part of the granted GPU time in which the GPU was used; JOBS/H, jobs ended per hour;
    TAKE, time from submission to end; WAIT, time in the queue; START, time from decision to start; TEMP and POWER,
    of one GPU; ERR, part of the jobs that failed; HW, hardware failures.
    """

    by: str | None = text("--by", metavar="KEY", help="Group by user, project, queue, node or means of sharing.")
    since: str | None = text("--since", metavar="TIME", help="Length of the period up to now: 12h.  [default: 24h]")
    begin: str | None = text(
        "--from", metavar="WHEN", help="Begin of the period: 2026-10, 2026-10-01, 2026-10-01T08:00."
    )
    until: str | None = text("--until", metavar="WHEN", help="End of the period, not included.  [default: now]")
    json: bool = flag("--json", help="Print JSON.")
