"""Commands that plan and measure."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, DeclaredOptions, flag, text, whole


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

    The estimate is computed from the model's config.json if there is one, else by its name: the published size of a
    known model, else the size in the name (70B). A name that tells no size is refused. The last line of the output
    names the source.
    """

    model: str = text(
        metavar="MODEL",
        help="A model directory, the name of a cached or known model, or any name with a size in it.",
        required=True,
    )
    tp: int = whole("--tp", metavar="N", help="Tensor parallel size.", default=1, least=1)
    pp: int = whole("--pp", metavar="N", help="Pipeline parallel size.", default=1, least=1)
    dtype: str | None = text("--dtype", metavar="NAME", help="Precision: bf16, half, fp8.")
    kv_dtype: str | None = text("--kv-dtype", metavar="NAME", help="Precision of the key-value cache.")
    context: str | None = text(
        "--context",
        metavar="TOKENS",
        help="Context length: 8192, 32k.  [default: the model's maximum; 4096 where config or known name has none]",
    )
    batch: int = whole("--batch", metavar="N", help="Sequences at a time.", default=1, least=1)
    json: bool = flag("--json", help="Print JSON.")
