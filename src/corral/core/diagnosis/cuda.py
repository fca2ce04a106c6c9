"""Messages of the CUDA driver, its runtime and libraries above if program, driver and device do not fit together."""

import re
from collections.abc import Mapping

from corral.core.diagnosis.failure import Diagnosis, Failure
from corral.core.diagnosis.rule import Case, Rule, Says, always, returned_by_driver, rule
from corral.core.model.audience import Option
from corral.core.model.units import count_of
from corral.core.model.version import Version, dotted

_ARCHITECTURES = re.compile(r"The current PyTorch install supports CUDA capabilities ((?:sm_\d{2,3} ?){1,30})")


def _trace(failure: Failure) -> str:
    return f"{failure.audience.env('CUDA_LAUNCH_BLOCKING=1')} shows the call that did it"


def _build_for_driver(case: Case) -> str:
    cuda = case.failure.cuda
    known = (
        "no newer than the driver's CUDA"
        if cuda is None
        else (f"for CUDA {dotted(cuda)} or older, the driver's version")
    )
    return f"install a build {known} ({case.failure.audience.look('corral check')} checks that beforehand)"


def _version(number: str) -> Version:
    return int(number[:-1]), int(number[-1])


def _no_kernel(_match: re.Match[str], case: Case) -> Diagnosis:
    compute = case.failure.compute
    what = f"the program has no code for {case.failure.gpu}"
    audience = case.failure.audience
    model = audience.option(Option.GPU_MODEL)
    found = next((match for line in case.lines if (match := _ARCHITECTURES.match(line.text))), None)
    if found is None:
        return Diagnosis(what, f"install a build for this GPU, or ask for one that it was built for: {model}")
    known = sorted(_version(number) for number in re.findall(r"sm_(\d{2,3})", found[1]))
    what += f", only for {dotted(known[0])} to {dotted(known[-1])}"
    if compute is not None and compute < known[0]:
        return Diagnosis(what, f"ask for {_compute(case, dotted(known[0]))}, or install an older build of PyTorch")
    return Diagnosis(what, f"install a build of PyTorch for a newer CUDA, or ask for an older GPU: {model}")


def _compute(case: Case, least: str) -> str:
    return case.failure.audience.option(Option.MIN_COMPUTE, least)


def _unknown(_match: re.Match[str], case: Case) -> Diagnosis:
    what = "the driver failed with CUDA_ERROR_UNKNOWN (999), as when a program's CUDA is newer than the driver"
    return Diagnosis(what, f"{_build_for_driver(case)}; where it is not newer, an administrator loads nvidia-uvm again")


def _invalid_image(_match: re.Match[str], case: Case) -> Diagnosis:
    return Diagnosis(
        "the driver cannot load the program's GPU code: it was built for another CUDA version", _build_for_driver(case)
    )


def _ptx(_match: re.Match[str], case: Case) -> Diagnosis:
    what = "the program's GPU code was compiled by a CUDA newer than the driver"
    return Diagnosis(what, f"{_build_for_driver(case)}; or compile for the GPU itself (-arch=sm_XX)")


def _old_driver(_match: re.Match[str], case: Case) -> Diagnosis:
    has = "" if case.failure.cuda is None else f", which knows CUDA {dotted(case.failure.cuda)}"
    return Diagnosis(f"the program's CUDA is newer than the driver{has}", _build_for_driver(case))


def _ordinal(_match: re.Match[str], case: Case) -> Diagnosis:
    devices = case.failure.devices
    what = f"the program uses a GPU number beyond the {count_of(devices, 'GPU')} that the job has"
    more = case.failure.audience.option(Option.GPUS)
    return Diagnosis(what, f"a job's own GPUs count from cuda:0, whatever nvidia-smi shows; or ask for more: {more}")


def _no_gpu(_match: re.Match[str], case: Case) -> Diagnosis:
    if case.failure.devices == 0:
        one = case.failure.audience.option(Option.GPUS, "1")
        return Diagnosis("the program looks for a GPU and the job asked for none", f"ask for one: {one}")
    what = f"the program sees none of its {count_of(case.failure.devices, 'GPU')}"
    doctor = case.failure.audience.look("corral doctor")
    return Diagnosis(what, f"leave CUDA_VISIBLE_DEVICES as Corral sets it; {doctor} checks the driver")


def _format(match: re.Match[str], case: Case) -> Diagnosis:
    """Diagnose a number format that the GPU lacks, by a message of vLLM or of the accelerator suite."""
    name, needed = match[1].lower(), match[2]
    has = re.search(r"compute capability (\d{1,2}\.\d)", match.string[match.end() :])
    of_gpu = "" if has is None else f" and this one has {has[1]}"
    other = "--dtype=float32" if name == "float16" else "--dtype=half"
    return Diagnosis(
        f"{name} needs a GPU of compute capability {needed}{of_gpu}", f"{other}, or ask for {_compute(case, needed)}"
    )


def _quantization(match: re.Match[str], case: Case) -> Diagnosis:
    needed, has = dotted(_version(match[2])), dotted(_version(match[3]))
    what = f"{match[1]} needs a GPU of compute capability {needed} and this one has {has}"
    return Diagnosis(what, f"ask for {_compute(case, needed)}, or take weights quantized by another method")


def _ampere(match: re.Match[str], case: Case) -> Diagnosis:
    fix = f"ask for {_compute(case, '8.0')}, or " + (
        "attn_implementation='sdpa'" if match[1] == "Flash" else "use fp16"
    )
    name = "FlashAttention" if match[1] == "Flash" else "bf16"
    return Diagnosis(f"{name} needs a GPU of compute capability 8.0, and this is {case.failure.gpu}", fix)


def _library(match: re.Match[str], case: Case) -> Diagnosis:
    name = match.groups()[-1]
    if name.startswith("libcuda.so"):
        what = "the NVIDIA driver's library libcuda is not to be found on this node"
        return Diagnosis(
            what,
            f"{case.failure.audience.look('corral doctor')} checks the driver; "
            "in a container, it must be given the driver's files",
        )
    what = f"the library {name} is missing"
    path = f"add its directory to LD_LIBRARY_PATH (find / -name '{name.partition('.so')[0]}.so*' 2>/dev/null)"
    cuda = re.match(
        r"lib(cudart|cublas\w{0,3}|cufft|curand|cusolver|cusparse|nvrtc|cudnn\w{0,40}|nccl)\.so(?:\.(\d+))?", name
    )
    if cuda is None:
        return Diagnosis(what, f"install what it belongs to, or {path}")
    part, major = cuda[1], cuda[2]
    if part.startswith("cudnn"):
        return Diagnosis(what, f"install cuDNN {major or ''}".rstrip() + f" beside the program, or {path}")
    if part == "nccl":
        return Diagnosis(what, f"install NCCL beside the program, or {path}")
    runtime = "CUDA" if major is None else f"CUDA {major}"
    return Diagnosis(what, f"the program was built for {runtime}: install its runtime or another build, or {path}")


_NAME = r"(lib[\w+-]{1,60}\.so(?:\.\d{1,4}){0,3})"
_MISSING = r": cannot open shared object file: No such file or directory"

_OF_CODES: Mapping[str, tuple[str, Says]] = {
    "NO_BINARY_FOR_GPU": ("no kernel image is available", _no_kernel),
    "INVALID_IMAGE": ("device kernel image is invalid", _invalid_image),
    "UNSUPPORTED_PTX_VERSION": ("the provided PTX was compiled with an unsupported", _ptx),
    "SYSTEM_DRIVER_MISMATCH": ("CUDA driver version is insufficient", _old_driver),
    "UNKNOWN": ("unknown error", _unknown),
    "ILLEGAL_ADDRESS": (
        "an illegal memory access was encountered",
        always(
            "a GPU kernel reached beyond its memory",
            lambda failure: f"{_trace(failure)}; on a virtual GPU its layer may know another CUDA",
        ),
    ),
    "LAUNCH_FAILED": (
        "unspecified launch failure",
        always("a GPU kernel failed, mostly because it reached beyond its memory", _trace),
    ),
    "ASSERT": (
        "device-side assert triggered",
        always("a check in a GPU kernel failed, mostly an index or a label out of its range", _trace),
    ),
    "ECC_UNCORRECTABLE": (
        "uncorrectable ECC error",
        always("the GPU's memory is at fault", "submit it again; an administrator looks at `nvidia-smi -q -d ECC`"),
    ),
    "INVALID_DEVICE": ("invalid device ordinal", _ordinal),
    "NO_DEVICE": ("no CUDA-capable device is detected", _no_gpu),
}
"""The driver's names of errors, with the text of driver and runtime, and the diagnosis."""

_SAYS_BY_WORDS = {words: says for name, (text, says) in _OF_CODES.items() for words in (name, text)}
_NAMES = "|".join(_OF_CODES)
_TEXTS = "|".join(text for text, _ in _OF_CODES.values())


def _of_code(match: re.Match[str], case: Case) -> Diagnosis | None:
    return _SAYS_BY_WORDS[match["name"] or match["text"]](match, case)


RULES: tuple[Rule, ...] = (
    # The error as the driver, the runtime or a library above names it, within the first words of a line. One pattern
    # for all of them: a job may write a thousand lines that nearly match.
    rule(
        rf".{{0,160}}?(?:CUDA_ERROR_(?P<name>{_NAMES})\b|"
        rf"(?i:cuda(?: runtime)? (?:error|failure)) ?(?:\(?\d{{1,4}}\)?)?[ :,]{{0,4}}(?P<text>{_TEXTS}))",
        _of_code,
    ),
    rule(returned_by_driver(f"(?P<name>{_NAMES})", f"(?P<text>{_TEXTS})"), _of_code, bare=True),
    rule(r"The NVIDIA driver on your system is too old", _old_driver),
    rule(r"CUDA unknown error - this may be due to an incorrectly set up environment", _unknown),
    rule(r"No CUDA GPUs are available", _no_gpu),
    rule(
        r"((?:b?float16/)?[Bb]?[Ff]loat16|[Ff][Pp]8) is only supported on GPUs with compute capability "
        r"(?:of )?at least (\d{1,2}\.\d)",
        _format,
    ),
    rule(
        r"The quantization method (\w{1,40}) is not supported for the current GPU\. Minimum capability: (\d{2,3})\. "
        r"Current capability: (\d{2,3})",
        _quantization,
    ),
    rule(r"(Flash)Attention only supports Ampere GPUs or newer", _ampere),
    rule(r"(Your setup) doesn't support bf16/gpu", _ampere),
    rule(_NAME + _MISSING, _library),
    rule(rf"Could not load library {_NAME}\. Error: {_NAME}{_MISSING}", _library, bare=True),
    rule(
        rf"[^:\s]{{1,200}}: error while loading shared libraries: {_NAME}{_MISSING}",
        _library,
        bare=True,
        exit_codes=(127,),
    ),
)
