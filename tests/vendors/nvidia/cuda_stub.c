/* A libcuda.so.1 without a GPU behind it: the calls of Corral's own test of a GPU, on the memory of this machine.
 *
 * CUDA_STUB_FAULT is what is wrong: "memory" (a byte of the first pattern is not kept), "product" (a sum is wrong),
 * "lost" (each call but the first fails with error 999), "program" (no program can be translated). CUDA_STUB_MIB is the
 * free memory.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, NO_MEMORY = 2, INVALID_PTX = 218, UNKNOWN = 999 };

static size_t taken;
static uint32_t *corrupt;

static int fault(const char *name) {
    const char *found = getenv("CUDA_STUB_FAULT");
    return found != NULL && strcmp(found, name) == 0;
}

static size_t total(void) {
    const char *found = getenv("CUDA_STUB_MIB");
    return (size_t)atoll(found == NULL ? "800" : found) << 20;
}

int cuInit(unsigned flags) { (void)flags; return OK; }
int cuDeviceGet(int *device, int index) { *device = index; return fault("lost") ? UNKNOWN : OK; }
int cuCtxCreate_v2(void **context, unsigned flags, int device) { (void)flags; (void)device; *context = &taken; return OK; }
int cuCtxSynchronize(void) { return OK; }

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = total() - taken;
    *total_bytes = total();
    return OK;
}

int cuMemAlloc_v2(uint64_t *found, size_t size) {
    if (taken + size > total()) return NO_MEMORY;
    void *memory = malloc(size);
    if (memory == NULL) return NO_MEMORY;
    taken += size;
    *found = (uint64_t)(uintptr_t)memory;
    return OK;
}

int cuMemAllocHost_v2(void **found, size_t size) {
    *found = malloc(size);
    return *found == NULL ? NO_MEMORY : OK;
}

int cuMemsetD32_v2(uint64_t at, uint32_t value, size_t count) {
    uint32_t *words = (uint32_t *)(uintptr_t)at;
    for (size_t i = 0; i < count; i++) words[i] = value;
    if (fault("memory") && corrupt == NULL && count > 1u << 21) corrupt = words + count / 2;
    if (corrupt != NULL && corrupt >= words && corrupt < words + count) *corrupt ^= 4;
    return OK;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
    memcpy(to, (void *)(uintptr_t)from, size);
    return OK;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
    memcpy((void *)(uintptr_t)to, from, size);
    return OK;
}

int cuModuleLoadData(void **module, const char *program) {
    *module = &taken;
    return fault("program") || strstr(program, ".entry product") == NULL ? INVALID_PTX : OK;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = module;
    return strcmp(name, "product") == 0 ? OK : UNKNOWN;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
    (void)function; (void)gz; (void)bz; (void)shared; (void)stream; (void)extra;
    const float *a = (const float *)(uintptr_t) * (uint64_t *)arguments[0];
    const float *b = (const float *)(uintptr_t) * (uint64_t *)arguments[1];
    float *c = (float *)(uintptr_t) * (uint64_t *)arguments[2];
    size_t side = *(uint32_t *)arguments[3], rows = (size_t)gy * by, columns = (size_t)gx * bx;
    if (rows != side || columns != side) return UNKNOWN;
    for (size_t i = 0; i < side; i++)
        for (size_t k = 0; k < side; k++) {
            float x = a[i * side + k];
            for (size_t j = 0; j < side; j++) c[i * side + j] += x * b[k * side + j];
        }
    if (fault("product")) c[side + 1] += 1;
    return OK;
}
