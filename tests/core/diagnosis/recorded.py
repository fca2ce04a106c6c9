"""Messages as programs have printed them, each with where it was recorded, and what is to be said of it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Recorded(NamedTuple):
    source: str
    log: str
    line: str
    had: Mapping[str, Any] = MappingProxyType({})


SHARE = {"share_milli": 500, "memory_mib": 12 * 1024, "device_memory_mib": 24 * 1024, "devices": 1}
V100 = {"model": "Tesla V100-SXM2-32GB", "compute": (7, 0), "devices": 1}

GPU_MEMORY = [
    Recorded(
        "pytorch/pytorch#16417, March 2024",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.00 MiB. GPU 0 has a total capacity of "
        "23.65 GiB of which 11.06 MiB is free. Including non-PyTorch memory, this process has 23.60 GiB memory in "
        "use. Of the allocated memory 22.90 GiB is allocated by PyTorch, and 194.87 MiB is reserved by PyTorch but "
        "unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
        "Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
        "out of GPU memory: tried 22M with 11M free of 23.7G; ask for --min-memory 26G or lower the batch size",
    ),
    Recorded(
        "antgroup/echomimic_v2#115, January 2025",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.22 GiB. GPU 0 has a total capacity of 15.69 "
        "GiB of which 3.71 GiB is free. Including non-PyTorch memory, this process has 11.14 GiB memory in use. Of "
        "the allocated memory 10.14 GiB is allocated by PyTorch, and 771.43 MiB is reserved by PyTorch but "
        "unallocated.",
        "out of GPU memory: tried 4.2G with 3.7G free of 15.7G, 860M of it in use by other processes; `corral "
        "devices` shows who else uses it; or lower the batch size",
    ),
    Recorded(
        "kerrj/lerf#73, February 2024, on a share",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacty of "
        "23.65 GiB of which 1.66 GiB is free. Including non-PyTorch memory, this process has 20.81 GiB memory in "
        "use. Of the allocated memory 12.09 GiB is allocated by PyTorch, and 2.84 GiB is reserved by PyTorch but "
        "unallocated.",
        "out of GPU memory: tried 3G with 1.7G free of 23.7G, 1.2G of it in use by other processes; ask for "
        "--gpu-mem 27G or lower the batch size",
        SHARE,
    ),
    Recorded(
        "the same, on a whole GPU and with the 4.84 GiB that it really had in pieces",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacty of "
        "23.65 GiB of which 1.66 GiB is free. Including non-PyTorch memory, this process has 21.91 GiB memory in "
        "use. Of the allocated memory 12.09 GiB is allocated by PyTorch, and 4.84 GiB is reserved by PyTorch but "
        "unallocated.",
        "out of GPU memory: tried 3G with 1.7G free of 23.7G; it has 4.8G in pieces that it does not use: --env "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    ),
    Recorded(
        "FoundationVision/GenerateU#10, May 2024: the process itself, by its number outside of its container",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 496.00 MiB. GPU 0 has a total capacty of "
        "14.75 GiB of which 235.06 MiB is free. Process 20398 has 14.52 GiB memory in use. Of the allocated memory "
        "14.06 GiB is allocated by PyTorch, and 330.42 MiB is reserved by PyTorch but unallocated.",
        "out of GPU memory: tried 496M with 235M free of 14.8G; ask for --min-memory 17G or lower the batch size",
    ),
    Recorded(
        "bkkblue/GenerativeGraph#5, March 2019, PyTorch 1.0",
        "RuntimeError: CUDA out of memory. Tried to allocate 1024.00 KiB (GPU 0; 11.17 GiB total capacity; 10.90 GiB "
        "already allocated; 576.00 KiB free; 30.96 MiB cached)",
        "out of GPU memory: tried 1M with less than 1M free of 11.2G; ask for --min-memory 12G or lower the batch size",
    ),
    Recorded(
        "CompVis/stable-diffusion#702, April 2023",
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 192.00 MiB (GPU 0; 4.00 GiB total capacity; 3.38 "
        "GiB already allocated; 0 bytes free; 3.47 GiB reserved in total by PyTorch) If reserved memory is >> "
        "allocated",
        "out of GPU memory: tried 192M with 0M free of 4G; ask for --min-memory 5G or lower the batch size",
    ),
    Recorded(
        "Kwai-Keye/Keye#11, July 2025",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 13535.27 GiB. GPU 0 has a total capacity of "
        "79.14 GiB of which 61.76 GiB is free. Including non-PyTorch memory, this process has 17.37 GiB memory in "
        "use.",
        "out of GPU memory: tried 13535.3G with 61.8G free of 79.1G; no GPU has so much: lower the batch size, or "
        "look for a wrong size",
    ),
    Recorded(
        "jax-ml/jax#22755, July 2024",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 3743729664 "
        "bytes.",
        "out of GPU memory: tried 3.5G; JAX takes 75% of a GPU at its start: --env "
        "XLA_PYTHON_CLIENT_MEM_FRACTION=0.45; then lower the batch size, or ask for more than its 12G by --gpu-mem",
        SHARE,
    ),
    Recorded(
        "onpix/LLNeRF#9, November 2023",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 20029400304 bytes.",
        "out of GPU memory: tried 18.7G; lower the batch size, or ask for more than the 16G of this GPU by "
        "--min-memory",
        {"device_memory_mib": 16384, "devices": 1},
    ),
    Recorded(
        "tensorflow/models#7142, July 2019",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with "
        "shape[500,17,17,4032] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
        "out of GPU memory: tried 2.2G; lower the batch size, or ask for more by --min-memory",
    ),
    Recorded(
        "Azure/MachineLearningNotebooks#880",
        "ResourceExhaustedError: 2 root error(s) found.\n  (0) Resource exhausted: OOM when allocating tensor with "
        "shape[16,112,112,147] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator "
        "GPU_0_bfc\n\t [[{{node resnet_v1_50/conv1/ExtractImagePatches}}]]\nHint: If you want to see a list of "
        "allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions for current "
        "allocation info.",
        "out of GPU memory: tried 113M; lower the batch size, or ask for more by --min-memory",
    ),
    Recorded(
        "tensorflow/tensorflow#30912, July 2019",
        "2019-07-21 23:23:06.228049: E tensorflow/stream_executor/cuda/cuda_driver.cc:828] failed to allocate 32.00M "
        "(33554432 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "out of GPU memory: tried 32M; lower the batch size, or ask for more by --min-memory",
    ),
    Recorded(
        "PaddlePaddle/Paddle#42228, April 2022; fix: the accelerator suite's handbook",
        "RuntimeError: ResourceExhaustedError:\n\nOut of memory error on GPU 0. Cannot allocate 98.000244MB memory "
        "on GPU 0, 6.000000GB memory has been allocated and available memory is only 0.000000B.\n\nPlease check "
        "whether there is any other process using GPU 0.\n1. If yes, please stop them, or start PaddlePaddle on "
        "another GPU.\n2. If no, please decrease the batch size of your model.\n",
        "out of GPU memory: tried 98M with 0M free of 24G; --env FLAGS_allocator_strategy=naive_best_fit, then ask "
        "for --gpu-mem 7G or lower the batch size",
        SHARE,
    ),
    Recorded(
        "PaddlePaddle/PaddleOCR#645, September 2020",
        "ResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate 3.125000GB memory on GPU 0, "
        "available memory is only 117.750000MB.\n\n at "
        "(/paddle/paddle/fluid/memory/allocation/cuda_allocator.cc:69)\n*** Check failure stack trace: ***\n    @    "
        " 0x7fd50846780d  google::LogMessage::Fail()\n",
        "out of GPU memory: tried 3.1G with 118M free; lower the batch size, or ask for more by --min-memory",
    ),
    Recorded(
        "vllm-project/vllm#20305, June 2025",
        "ERROR 06-30 13:53:19 [core.py:515] ValueError: Free memory on device (31.44/47.38 GiB) on startup is less "
        "than desired GPU memory utilization (0.95, 45.01 GiB). Decrease GPU memory utilization or reduce GPU memory "
        "used by other processes.\nRuntimeError: Engine core initialization failed. See root cause above. Failed "
        "core proc(s): {}",
        "vLLM wants 45G and 31.4G of the GPU's 47.4G are free; --gpu-memory-utilization 0.64, or ask for a GPU that "
        "nobody else uses",
    ),
    Recorded(
        "vllm-project/vllm-omni#276, December 2025",
        "ValueError: Free memory on device (0.49/79.32 GiB) on startup is less than desired GPU memory utilization "
        "(0.6, 47.59 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        "vLLM wants 47.6G and 502M of the GPU's 79.3G are free; `corral devices` shows who else uses the GPU",
    ),
    Recorded(
        "vllm-project/vllm#2248, December 2023",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine.",
        "vLLM has no GPU memory left for its cache beside the model's weights; raise --gpu-memory-utilization, ask "
        "for more GPU memory (--min-memory), or quantize the model",
    ),
    Recorded(
        "vllm-project/vllm#2418, January 2024",
        "ValueError: The model's max seq len (4096) is larger than the maximum number of tokens that can be stored "
        "in KV cache (3664). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing "
        "the engine.",
        "a context of 4096 tokens does not fit into vLLM's cache, which takes 3664; --max-model-len 3664, or a "
        "higher --gpu-memory-utilization",
    ),
    Recorded(
        "a benchmark's record of vLLM, August 2026",
        "ValueError: To serve at least one request with the model's max seq len (4096), (1.0 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (0.58 GiB). Based on the available memory, the estimated "
        "maximum model length is 2368. Try increasing `gpu_memory_utilization`",
        "a context of 4096 tokens needs 1G of cache and vLLM has 594M; --max-model-len 2368, or more GPU memory "
        "(--min-memory)",
    ),
    Recorded(
        "CuPy 13",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 4,294,967,296 bytes (allocated so far: "
        "8,589,934,592 bytes).",
        "out of GPU memory: tried 4G; lower the batch size, or ask for more by --min-memory",
    ),
    Recorded(
        "llama.cpp, 2024",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4807.06 MiB on device 0: cudaMalloc failed: out of "
        "memory\nllama_model_load: error loading model: unable to allocate backend buffer",
        "out of GPU memory: tried 4.7G; offload fewer layers, or ask for more by --min-memory",
    ),
    Recorded(
        "PyTorch, without its allocator",
        "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other "
        "API call, so the stacktrace below might be incorrect.",
        "out of GPU memory; lower the batch size, or ask for more by --min-memory",
    ),
    Recorded(
        "PyTorch, as cuBLAS starts",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuBLAS found no GPU memory to begin with, so the GPU is full; lower the batch size, or ask for more by "
        "--min-memory",
    ),
    Recorded(
        "cryoem-uoft/cryosparc-issues#124, pycuda",
        "MemoryError: cuMemAlloc failed: out of memory",
        "out of GPU memory; lower the batch size, or ask for more by --min-memory",
    ),
    Recorded(
        "a program that prints what the driver's API returns",
        "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "out of GPU memory; lower the batch size, or ask for more by --min-memory",
    ),
    Recorded(
        "a program in C++ that prints what the runtime says",
        "CUDA error: out of memory",
        "out of GPU memory; lower the batch size, or ask for more by --min-memory",
    ),
]

CUDA = [
    Recorded(
        "inducer/pycuda#276, March 2021",
        "pycuda._driver.Error: cuInit failed: unknown error",
        "the driver failed with CUDA_ERROR_UNKNOWN (999), as when a program's CUDA is newer than the driver; install "
        "a build no newer than the driver's CUDA (`corral check` checks that beforehand); where it is not newer, an "
        "administrator loads nvidia-uvm again",
    ),
    Recorded(
        "ratt-ru/PyMORESANE#22, December 2017",
        "Error: cuInit failed: unknown error",
        "the driver failed with CUDA_ERROR_UNKNOWN (999), as when a program's CUDA is newer than the driver; install "
        "a build no newer than the driver's CUDA (`corral check` checks that beforehand); where it is not newer, an "
        "administrator loads nvidia-uvm again",
    ),
    Recorded(
        "StanfordLegion/legion#660, October 2019",
        "CU: cuModuleLoadDataEx = 200 (CUDA_ERROR_INVALID_IMAGE): device kernel image is invalid",
        "the driver cannot load the program's GPU code: it was built for another CUDA version; install a build "
        "no newer than the "
        "driver's CUDA (`corral check` checks that beforehand)",
    ),
    Recorded(
        "the accelerator suite's handbook, alone on a line",
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        "the program's GPU code was compiled by a CUDA newer than the driver; install a build no newer than the "
        "driver's CUDA (`corral check` checks that beforehand); or compile for the GPU itself (-arch=sm_XX)",
    ),
    Recorded(
        "the same",
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "a GPU kernel reached beyond its memory; --env CUDA_LAUNCH_BLOCKING=1 shows the call that did it; on a "
        "virtual GPU its layer may know another CUDA",
    ),
    Recorded(
        "Turoad/CLRNet#83, December 2022",
        "/home/u/.local/lib/python3.8/site-packages/torch/cuda/__init__.py:104: UserWarning: \nNVIDIA GeForce RTX "
        "3090 with CUDA capability sm_86 is not compatible with the current PyTorch installation.\nThe current "
        "PyTorch install supports CUDA capabilities sm_37 sm_50 sm_60 sm_70.\nRuntimeError: CUDA error: no kernel "
        "image is available for execution on the device",
        "the program has no code for NVIDIA GeForce RTX 3090 (8.6), only for 3.7 to 7.0; install a build of PyTorch "
        "for a newer CUDA, or ask for an older GPU: --gpu-model",
        {"model": "NVIDIA GeForce RTX 3090", "compute": (8, 6), "devices": 1},
    ),
    Recorded(
        "the same words on a GPU that is too old for the build",
        "The current PyTorch install supports CUDA capabilities sm_75 sm_80 sm_86 sm_90 sm_100 "
        "sm_120.\ntorch.AcceleratorError: CUDA error: no kernel image is available for execution on the device\nCUDA "
        "kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
        "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n",
        "the program has no code for Tesla V100-SXM2-32GB (7.0), only for 7.5 to 12.0; ask for --min-compute 7.5, or "
        "install an older build of PyTorch",
        V100,
    ),
    Recorded(
        "OpenBMB/cpm_kernels#6, May 2023",
        "RuntimeError: CUDA Error: no kernel image is available for execution on the device",
        "the program has no code for the GPU; install a build for this GPU, or ask for one that it was built for: "
        "--gpu-model",
    ),
    Recorded(
        "StanfordLegion/legion#660, October 2019; JAX words its own so too (jax-ml/jax#16764)",
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to load PTX text as a module: "
        "CUDA_ERROR_INVALID_IMAGE: device kernel image is invalid",
        "the driver cannot load the program's GPU code: it was built for another CUDA version; install a build "
        "for CUDA 12.4 or older, the driver's version (`corral check` checks that beforehand)",
        {"cuda": (12, 4)},
    ),
    Recorded(
        "numba/numba#8638, November 2022",
        "numba.cuda.cudadrv.error.CudaSupportError: Error at driver init: Call to cuInit results in "
        "CUDA_ERROR_UNKNOWN (999)",
        "the driver failed with CUDA_ERROR_UNKNOWN (999), as when a program's CUDA is newer than the driver; install "
        "a build no newer than the driver's CUDA (`corral check` checks that beforehand); where it is not newer, an "
        "administrator loads nvidia-uvm again",
    ),
    Recorded(
        "PaddlePaddle/PaddleDetection#5565, April 2022",
        "ExternalError: CUDA error(999), unknown error.",
        "the driver failed with CUDA_ERROR_UNKNOWN (999), as when a program's CUDA is newer than the driver; install "
        "a build for CUDA 11.4 or older, the driver's version (`corral check` checks that beforehand); where it is "
        "not newer, "
        "an administrator loads nvidia-uvm again",
        {"cuda": (11, 4)},
    ),
    Recorded(
        "NVIDIA/FasterTransformer#551, April 2023",
        "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
        "the program's GPU code was compiled by a CUDA newer than the driver; install a build for CUDA 11.4 or "
        "older, the driver's version (`corral check` checks that beforehand); or compile for the GPU itself "
        "(-arch=sm_XX)",
        {"cuda": (11, 4)},
    ),
    Recorded(
        "BobLiu20/YOLOv3_PyTorch#12, July 2018",
        "RuntimeError: cuda runtime error (35) : CUDA driver version is insufficient for CUDA runtime version at "
        "/opt/conda/conda-bld/pytorch_1524586445097/work/aten/src/THC/THCGeneral.cpp:70",
        "the program's CUDA is newer than the driver, which knows CUDA 9.0; install a build for CUDA 9.0 or "
        "older, the driver's version (`corral check` checks that beforehand)",
        {"cuda": (9, 0)},
    ),
    Recorded(
        "hiyouga/LlamaFactory#4960, July 2024",
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla "
        "V100-SXM2-32GB GPU has compute capability 7.0. You can use float16 instead by explicitly setting the`dtype` "
        "flag in CLI, for example: --dtype=half.",
        "bfloat16 needs a GPU of compute capability 8.0 and this one has 7.0; --dtype=half, or ask for --min-compute "
        "8.0",
    ),
    Recorded(
        "the accelerator suite's handbook",
        "ValueError: bfloat16 is only supported on GPUs with compute capability at least 8.0. Current GPU: Tesla "
        "V100-PCIE-16GB, compute capability 7.0",
        "bfloat16 needs a GPU of compute capability 8.0 and this one has 7.0; --dtype=half, or ask for --min-compute "
        "8.0",
    ),
    Recorded(
        "vllm-project/vllm#4327",
        "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 90. "
        "Current capability: 86.",
        "fp8 needs a GPU of compute capability 9.0 and this one has 8.6; ask for --min-compute 9.0, or take weights "
        "quantized by another method",
    ),
    Recorded(
        "CannyLab/tsne-cuda#126, September 2023",
        "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
        "the library libcudart.so.11.0 is missing; the program was built for CUDA 11: install its runtime or another "
        "build, or add its directory to LD_LIBRARY_PATH (find / -name 'libcudart.so*' 2>/dev/null)",
    ),
    Recorded(
        "AlexeyAB/darknet#8601, July 2022",
        "Could not load library libcudnn_ops_infer.so.8. Error: libcublas.so.11: cannot open shared object file: No "
        "such file or directory",
        "the library libcublas.so.11 is missing; the program was built for CUDA 11: install its runtime or another "
        "build, or add its directory to LD_LIBRARY_PATH (find / -name 'libcublas.so*' 2>/dev/null)",
    ),
    Recorded(
        "microsoft/onnxruntime-genai#344, April 2024",
        "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory",
        "the library libcudnn.so.8 is missing; install cuDNN 8 beside the program, or add its directory to "
        "LD_LIBRARY_PATH (find / -name 'libcudnn.so*' 2>/dev/null)",
    ),
    Recorded(
        "FlashAttention 2",
        "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
        "FlashAttention needs a GPU of compute capability 8.0, and this is Tesla V100-SXM2-32GB (7.0); ask for "
        "--min-compute 8.0, or attn_implementation='sdpa'",
        V100,
    ),
    Recorded(
        "Hugging Face Transformers, TrainingArguments",
        "ValueError: Your setup doesn't support bf16/gpu. You need torch>=1.10, using Ampere GPU with cuda>=11.0",
        "bf16 needs a GPU of compute capability 8.0, and this is Tesla V100-SXM2-32GB (7.0); ask for --min-compute "
        "8.0, or use fp16",
        V100,
    ),
    Recorded(
        "PyTorch, torch.cuda",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
        "driver by downloading and installing a new version",
        "the program's CUDA is newer than the driver, which knows CUDA 11.4; install a build for CUDA 11.4 or "
        "older, the driver's version (`corral check` checks that beforehand)",
        {"cuda": (11, 4)},
    ),
    Recorded(
        "pytorch/pytorch#49327, December 2020",
        "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env "
        "variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.",
        "the driver failed with CUDA_ERROR_UNKNOWN (999), as when a program's CUDA is newer than the driver; install "
        "a build no newer than the driver's CUDA (`corral check` checks that beforehand); where it is not newer, an "
        "administrator loads nvidia-uvm again",
    ),
    Recorded(
        "PyTorch",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "a GPU kernel reached beyond its memory; --env CUDA_LAUNCH_BLOCKING=1 shows the call that did it; on a "
        "virtual GPU its layer may know another CUDA",
    ),
    Recorded(
        "PyTorch",
        "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: an illegal memory "
        "access was encountered",
        "a GPU kernel reached beyond its memory; --env CUDA_LAUNCH_BLOCKING=1 shows the call that did it; on a "
        "virtual GPU its layer may know another CUDA",
    ),
    Recorded(
        "PyTorch",
        "RuntimeError: CUDA error: device-side assert triggered",
        "a check in a GPU kernel failed, mostly an index or a label out of its range; --env CUDA_LAUNCH_BLOCKING=1 "
        "shows the call that did it",
    ),
    Recorded(
        "PyTorch",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "the GPU's memory is at fault; submit it again; an administrator looks at `nvidia-smi -q -d ECC`",
    ),
    Recorded(
        "PyTorch",
        "RuntimeError: CUDA error: invalid device ordinal",
        "the program uses a GPU number beyond the 2 GPUs that the job has; a job's own GPUs count from cuda:0, "
        "whatever "
        "nvidia-smi shows; or ask for more: --gpus",
        {"devices": 2},
    ),
    Recorded(
        "numba",
        "numba.cuda.cudadrv.error.CudaSupportError: Error at driver init: [100] Call to cuInit results in "
        "CUDA_ERROR_NO_DEVICE",
        "the program sees none of its 1 GPU; leave CUDA_VISIBLE_DEVICES as Corral sets it; `corral doctor` "
        "checks the driver",
        {"devices": 1},
    ),
    Recorded(
        "PyTorch",
        "RuntimeError: No CUDA GPUs are available",
        "the program looks for a GPU and the job asked for none; ask for one: --gpus 1",
    ),
]

NCCL = [
    Recorded(
        "EvolvingLMMs-Lab/open-r1-multimodal#7, February 2025",
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: "
        "/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2588, internal error - please report this issue "
        "to the NCCL developers, NCCL version 2.21.5\n[rank0]: ncclInternalError: Internal check failed.\n[rank0]: "
        "Last error:\n[rank0]: Bootstrap : no socket interface found\n",
        "NCCL finds no network interface of the given name; leave NCCL_SOCKET_IFNAME out, or set it to "
        "one of this node's (`ip -br addr`)",
    ),
    Recorded(
        "pytorch/pytorch#29482, November 2019",
        "gpu617:22841:22841 [0] bootstrap.cc:37 NCCL WARN Bootstrap : no socket interface found\ngpu617:22841:22841 "
        "[0] NCCL INFO init.cc:128 -> 3\n",
        "NCCL finds no network interface of the given name; leave NCCL_SOCKET_IFNAME out, or set it to "
        "one of this node's (`ip -br addr`)",
    ),
    Recorded(
        "hkproj/pytorch-transformer-distributed#1, March 2024",
        "torch.distributed.DistBackendError: NCCL error in: "
        "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, unhandled system error (run with NCCL_DEBUG=INFO "
        "for details), NCCL version 2.18.6\nncclSystemError: System call (e.g. socket, malloc) or external library "
        "call failed or device error. \nLast error:\nsocketStartConnect: Connect to 192.168.19.14<52822> failed : No "
        "route to host\n[2024-03-18 17:38:50,208] torch.distributed.elastic.multiprocessing.api: [ERROR] failed",
        "NCCL cannot connect to 192.168.19.14: no route to host; --env NCCL_SOCKET_IFNAME=NAME picks the interface "
        "by which nodes reach each other (`ip -br addr`)",
    ),
    Recorded(
        "pytorch/pytorch#38702, May 2020",
        "RuntimeError: NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:410, unhandled system error, NCCL "
        "version 2.4.8",
        "NCCL failed with a system error, of sockets or shared memory; --env NCCL_DEBUG=INFO shows which; a full "
        "/dev/shm is one",
    ),
    Recorded(
        "hiyouga/LlamaFactory#7396, March 2025",
        "[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) "
        "ran for 600060 milliseconds before timing out.",
        "a rank waited 10m for the others in ALLREDUCE; look at the other ranks' output first: one of them "
        "failed, or never reached that call; if it was only slow, init_process_group(timeout=...) waits longer",
    ),
    Recorded(
        "a record of NCCL 2.14.3, September 2023",
        "torch.distributed.DistBackendError: NCCL error in: "
        "/soft/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1275, internal error, NCCL version "
        "2.14.3\nncclInternalError: Internal check failed.\nLast error:\nDuplicate GPU detected : rank 0 and rank 4 "
        "both on CUDA device 7000\n",
        "ranks 0 and 4 use the same GPU; torch.cuda.set_device(LOCAL_RANK) in each rank, and no more ranks than "
        "GPUs: --nproc-per-node 4",
        {"devices": 4},
    ),
    Recorded(
        "deepspeedai/DeepSpeedExamples#845, January 2024",
        "torch.distributed.DistBackendError: NCCL error in: "
        "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, remote process exited or there was a network "
        "error, NCCL version 2.18.6",
        "another rank ended, and NCCL lost its connection; look at the other ranks' output first: one of them "
        "failed, or never reached that call",
    ),
    Recorded(
        "PyTorch 2.1",
        "torch.distributed.DistBackendError: NCCL error in: "
        "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1331, unhandled cuda error (run with NCCL_DEBUG=INFO "
        "for details), NCCL version 2.18.1\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda "
        "failure 'out of memory'",
        "NCCL found no GPU memory for its buffers; lower the batch size, or the program's own part of the GPU's memory",
    ),
]

HOST = [
    Recorded(
        "pytorch/pytorch#108861, September 2023",
        "RuntimeError: DataLoader worker (pid 11011) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory. Please try to raise your shared memory limit",
        "a DataLoader worker found /dev/shm full; fewer workers (num_workers), or a larger /dev/shm",
    ),
    Recorded(
        "numpy 2",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 29.8 GiB for an array with shape (2000, "
        "2000000) and data type float64",
        "out of host memory: tried 29.8G for one array; it may have 8G; ask for more by --host-memory, or hold less "
        "at once (fewer loader workers, smaller batches)",
        {"host_memory_mib": 8192},
    ),
    Recorded(
        "CPython 3.12",
        'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\nMemoryError',
        "out of host memory; ask for more by --host-memory, or hold less at once (fewer loader workers, smaller "
        "batches)",
    ),
    Recorded(
        "CPython 3.12",
        "OSError: [Errno 28] No space left on device: '/scratch/u/ckpt.pt'",
        "the disk of /scratch/u/ckpt.pt is full; remove what is not needed there, or write elsewhere; $TMPDIR moves "
        "temporary files",
    ),
    Recorded(
        "GNU coreutils 9",
        "cp: error writing '/tmp/full/big': No space left on device",
        "the disk of /tmp/full/big is full; remove what is not needed there, or write elsewhere; $TMPDIR moves "
        "temporary files",
    ),
    Recorded(
        "bash 5.2",
        "run.sh: line 3: echo: write error: No space left on device",
        "a disk is full; `df -h` shows which; $TMPDIR moves temporary files",
    ),
    Recorded(
        "CPython 3.12",
        "ModuleNotFoundError: No module named 'torch'",
        "this Python has no module torch; activate the environment that has it before you submit, or name its python "
        "by its path in the command",
    ),
    Recorded(
        "CPython 3.12, python -m",
        "/usr/bin/python3: No module named torch.distributed",
        "this Python has no module torch.distributed; activate the environment that has it before you submit, or "
        "name its python by its path in the command",
    ),
    Recorded(
        "bash 5.2",
        "train.sh: line 2: torchrun: command not found",
        "torchrun: no such command; give its full path, or load its environment in the script: the shell that "
        "ran it read no profile",
        {"exit_code": 127},
    ),
    Recorded(
        "dash 0.5",
        "/bin/sh: 1: nvcc: not found",
        "nvcc: no such command; give its full path, or load its environment in the script: the shell that ran it "
        "read no profile",
        {"exit_code": 127},
    ),
    Recorded(
        "bash 5.2",
        "/bin/bash: line 1: ./train.sh: Permission denied",
        "./train.sh is not executable for the job's user; chmod +x ./train.sh, or run it by its interpreter",
        {"exit_code": 126},
    ),
    Recorded(
        "glibc 2.39",
        "./infer: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such "
        "file or directory",
        "the library libcudart.so.12 is missing; the program was built for CUDA 12: install its runtime or another "
        "build, or add its directory to LD_LIBRARY_PATH (find / -name 'libcudart.so*' 2>/dev/null)",
        {"exit_code": 127},
    ),
    Recorded(
        "CPython 3.12",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'",
        "there is no data/train.csv in /home/u/exp, where it ran; --workdir DIR, or a path from / on",
        {"workdir": "/home/u/exp"},
    ),
    Recorded(
        "CPython 3.12",
        "PermissionError: [Errno 13] Permission denied: '/data/private/x.bin'",
        "the job's user may not open /data/private/x.bin; `ls -ld /data/private/x.bin` on the node shows who may",
    ),
    Recorded(
        "pytorch/pytorch, alloc_cpu.cpp",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:83] err == 0. DefaultCPUAllocator: can't allocate memory: you "
        "tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)",
        "out of host memory: tried 64G; ask for more by --host-memory, or hold less at once (fewer loader workers, "
        "smaller batches)",
    ),
    Recorded(
        "libstdc++",
        "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc",
        "out of host memory; ask for more by --host-memory, or hold less at once (fewer loader workers, smaller "
        "batches)",
    ),
    Recorded(
        "CPython 3.12",
        "OSError: [Errno 12] Cannot allocate memory",
        "out of host memory; ask for more by --host-memory, or hold less at once (fewer loader workers, smaller "
        "batches)",
    ),
    Recorded(
        "CPython 3.12",
        "OSError: [Errno 122] Disk quota exceeded: '/home/u/ckpt.pt'",
        "your disk quota at /home/u/ckpt.pt is used up; `quota -s` shows your usage; remove files, or write elsewhere",
    ),
    Recorded(
        "bash 5.2",
        "bash: ./train.sh: /bin/bash^M: bad interpreter: No such file or directory",
        "the first line of ./train.sh names an interpreter that is not there; name an interpreter of this node; a "
        "file from Windows needs its line ends changed (dos2unix)",
        {"exit_code": 126},
    ),
    Recorded(
        "CPython 3.12",
        "OSError: [Errno 98] Address already in use",
        "its port is taken by another program; torchrun --standalone picks a free one; or set another port",
    ),
    Recorded(
        "PyTorch, TCPStore",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
        "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        "its port is taken by another program; torchrun --standalone picks a free one; or set another port",
    ),
    Recorded(
        "bash 5.2, exit code 127",
        "bash: ./train.sh: cannot execute: required file not found",
        "the first line of ./train.sh names an interpreter that is not there; name an interpreter of this node; a "
        "file from Windows needs its line ends changed (dos2unix)",
        {"exit_code": 127},
    ),
    Recorded(
        "bash 5.2, exit code 127",
        "bash: ./train.sh: No such file or directory",
        "there is no program ./train.sh in /home/u; name it by its full path, or give --workdir DIR",
        {"exit_code": 127, "workdir": "/home/u"},
    ),
    Recorded(
        "dash 0.5.12, exit code 2",
        "sh: 0: cannot open train.sh: No such file",
        "there is no program train.sh in /home/u; name it by its full path, or give --workdir DIR",
        {"exit_code": 2, "workdir": "/home/u"},
    ),
    Recorded(
        "dash 0.5.12, exit code 127",
        "/var/lib/corral/launches/7/script: 3: ./train.sh: not found",
        "there is no program ./train.sh in /home/u; name it by its full path, or give --workdir DIR",
        {"exit_code": 127, "workdir": "/home/u"},
    ),
    Recorded(
        "zsh 5.9, exit code 127",
        "zsh: can't open input file: train.sh",
        "there is no program train.sh in /home/u; name it by its full path, or give --workdir DIR",
        {"exit_code": 127, "workdir": "/home/u"},
    ),
    Recorded(
        "Python 3.11, exit code 2",
        "python3: can't open file '/home/u/train.py': [Errno 2] No such file or directory",
        "there is no script /home/u/train.py; it ran in /home/u; --workdir DIR, or the script's path from / on",
        {"exit_code": 2, "workdir": "/home/u"},
    ),
]

RECORDED = [*GPU_MEMORY, *CUDA, *NCCL, *HOST]
