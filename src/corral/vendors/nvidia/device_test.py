"""Corral's own test of an NVIDIA GPU, run as a program: memory patterns, and products of matrices that are known.

It needs the driver's library alone, and tests the only GPU that it sees. Exit status 0 is a pass; else the last line of
its output says what failed.
"""

import ctypes
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

from corral.core.model.units import format_memory

LIBRARY = "libcuda.so.1"
MIB = 1024 * 1024
BLOCK_MIB = 256
CHUNK_MIB = 64
LEFT_MIB = 512
"""The memory that is not tested: the driver needs some for the context and the program."""

PATTERNS = (0xA5A5_5A5A, 0x5A5A_A5A5)
"""Each bit is tested as 0 and as 1."""

SIDE = 1024
"""Rows and columns of the matrices."""

PRODUCTS_S = 2.0
_THREADS = 16
_NO_PROGRAM = frozenset({209, 218, 221, 222})
"""The driver's errors for a program that it cannot translate for the GPU: these say nothing of the GPU."""


class Failed(Exception):
    """The GPU has failed the test."""


class Cuda:
    """The calls of the driver's library. A call that fails raises Failed, with the driver's number."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise Failed(f"the driver's library cannot be loaded: {error}") from error

    def code(self, name: str, *arguments: Any) -> int:
        """Make a call, and return the driver's error number."""
        return int(getattr(self._library, name)(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        """Make a call that must succeed."""
        code = self.code(name, *arguments)
        if code:
            raise Failed(f"{name} failed with CUDA error {code}")

    def pointer(self, size: int) -> ctypes.c_uint64:
        """Return newly allocated memory of the GPU."""
        found = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(found), ctypes.c_size_t(size))
        return found


def open_device(cuda: Cuda) -> None:
    """Begin to use the GPU."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    cuda.call("cuInit", 0)
    cuda.call("cuDeviceGet", ctypes.byref(device), 0)
    cuda.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)


def check_memory(cuda: Cuda) -> int:
    """Write patterns into the free memory and read them back. Return the MiB that were tested."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cuda.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    blocks = list(_blocks(cuda, free.value // MIB - LEFT_MIB))
    host = ctypes.c_void_p()
    cuda.call("cuMemAllocHost_v2", ctypes.byref(host), ctypes.c_size_t(CHUNK_MIB * MIB))
    for pattern in PATTERNS:
        # A value of its own in each chunk shows an address that leads to another.
        for number, chunk in enumerate(blocks):
            value = ctypes.c_uint32(pattern ^ number)
            cuda.call("cuMemsetD32_v2", chunk, value, ctypes.c_size_t(CHUNK_MIB * MIB // 4))
        for number, chunk in enumerate(blocks):
            cuda.call("cuMemcpyDtoH_v2", host, chunk, ctypes.c_size_t(CHUNK_MIB * MIB))
            if ctypes.string_at(host, CHUNK_MIB * MIB) != _chunk_of(pattern ^ number):
                raise Failed(f"the memory at {number * CHUNK_MIB} MiB does not keep {pattern:#010x}")
    return len(blocks) * CHUNK_MIB


def _chunk_of(value: int) -> bytes:
    return value.to_bytes(4, sys.byteorder) * (CHUNK_MIB * MIB // 4)


def _blocks(cuda: Cuda, free_mib: int) -> Iterator[ctypes.c_uint64]:
    """Yield chunks of newly allocated memory, as much as there is of this. Memory may be in pieces."""
    for _ in range(free_mib // BLOCK_MIB):
        block = ctypes.c_uint64()
        if cuda.code("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(BLOCK_MIB * MIB)):
            return
        for offset in range(0, BLOCK_MIB, CHUNK_MIB):
            yield ctypes.c_uint64(block.value + offset * MIB)


def check_products(cuda: Cuda) -> int | None:
    """Multiply matrices for a while, and compare each product. Return their number; None if the driver cannot translate
    the program.
    """
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    program = files(__package__).joinpath("device_test.ptx").read_bytes()
    code = cuda.code("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(program))
    if code in _NO_PROGRAM:
        return None
    if code:
        raise Failed(f"cuModuleLoadData failed with CUDA error {code}")
    cuda.call("cuModuleGetFunction", ctypes.byref(function), module, b"product")
    size = ctypes.c_size_t(SIDE * SIDE * 4)
    left, right, product = (cuda.pointer(size.value) for _ in range(3))
    for pointer, rows in ((left, factor(1)), (right, factor(3))):
        cuda.call("cuMemcpyHtoD_v2", pointer, ctypes.c_char_p(rows), size)
    expected, read = product_of(1, 3), ctypes.create_string_buffer(size.value)
    count, until = 0, time.monotonic() + PRODUCTS_S
    while count == 0 or time.monotonic() < until:
        cuda.call("cuMemsetD32_v2", product, ctypes.c_uint32(0), ctypes.c_size_t(SIDE * SIDE))
        _launch(cuda, function, (left, right, product, ctypes.c_uint32(SIDE)))
        cuda.call("cuMemcpyDtoH_v2", read, product, size)
        count += 1
        if read.raw != expected:
            raise Failed(f"product {count} of two matrices is wrong")
    return count


def _launch(cuda: Cuda, function: ctypes.c_void_p, arguments: Sequence[Any]) -> None:
    pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))
    grid = SIDE // _THREADS
    cuda.call("cuLaunchKernel", function, grid, grid, 1, _THREADS, _THREADS, 1, 0, None, pointers, None)
    cuda.call("cuCtxSynchronize")


def element(step: int, row: int, column: int) -> int:
    """An element of a factor: a small number, so that all sums are exact."""
    return 1 + (row + step * column) % 4


def factor(step: int) -> bytes:
    """A factor as float32, row by row. Its rows repeat after four."""
    rows = [array("f", (element(step, row, column) for column in range(SIDE))).tobytes() for row in range(4)]
    return b"".join(rows) * (SIDE // 4)


def product_of(left: int, right: int) -> bytes:
    """The product of two factors. Its rows and columns repeat after four."""
    rows = []
    for row in range(4):
        sums = [
            float(sum(element(left, row, k) * element(right, k, column) for k in range(SIDE))) for column in range(4)
        ]
        rows.append(array("f", sums).tobytes() * (SIDE // 4))
    return b"".join(rows) * (SIDE // 4)


def main() -> int:
    """Test the GPU, and return the exit status."""
    try:
        cuda = Cuda()
        open_device(cuda)
        products = check_products(cuda)
        told = "this driver cannot multiply matrices" if products is None else f"{products} products are right"
        print(f"{told}; {format_memory(check_memory(cuda))} of memory keep their patterns")
    except Failed as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
