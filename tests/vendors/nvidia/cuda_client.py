"""A CUDA program of the tests, through the driver's library alone. `alloc MIB` prints ok or the error that refused it;
`burn LAUNCHES` waits for a line on its input, keeps every multiprocessor at arithmetic, and prints the seconds it took.
"""

import ctypes
import sys
import time

OUT_OF_MEMORY = 2
BLOCKS, THREADS, ROUNDS = 8192, 256, 20_000
KERNEL = (
    b"""
.version 6.3
.target sm_70
.address_size 64
.visible .entry burn(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %p1;
    .reg .b32 %r<4>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %tid.x;
    cvt.rn.f32.u32 %f1, %r2;
    mov.f32 %f2, 0f3F800001;
    mov.u32 %r3, 0;
LOOP:
"""
    + b"    fma.rn.f32 %f1, %f1, %f2, %f2;\n" * 8
    + b"""
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra LOOP;
    cvta.to.global.u64 %rd2, %rd1;
    st.global.f32 [%rd2], %f1;
    ret;
}
\0"""
)


class Cuda:
    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        context, device = ctypes.c_void_p(), ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def status(self, name: str, *arguments: object) -> int:
        return int(getattr(self._library, name)(*arguments))

    def call(self, name: str, *arguments: object) -> None:
        status = self.status(name, *arguments)
        if status:
            sys.exit(f"{name} failed with {status}")


def alloc(cuda: Cuda, mib: int) -> None:
    pointer = ctypes.c_uint64()
    status = cuda.status("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(mib * 1024 * 1024))
    print("ok" if status == 0 else "out of memory" if status == OUT_OF_MEMORY else f"error {status}")


def burn(cuda: Cuda, launches: int) -> None:
    module, function, out = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    cuda.call("cuModuleLoadData", ctypes.byref(module), KERNEL)
    cuda.call("cuModuleGetFunction", ctypes.byref(function), module, b"burn")
    cuda.call("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(4))
    rounds = ctypes.c_uint32(ROUNDS)
    pointers = (ctypes.c_void_p * 2)(ctypes.addressof(out), ctypes.addressof(rounds))
    for phase in (5, launches):
        if phase == launches:
            print("ready", flush=True)
            sys.stdin.readline()
        began = time.monotonic()
        for _ in range(phase):
            cuda.call("cuLaunchKernel", function, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, pointers, None)
        cuda.call("cuCtxSynchronize")
    print(time.monotonic() - began, flush=True)


if __name__ == "__main__":
    action, amount = sys.argv[1], int(sys.argv[2])
    (alloc if action == "alloc" else burn)(Cuda(), amount)
