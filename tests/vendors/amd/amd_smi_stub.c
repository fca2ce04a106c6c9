/* A libamd_smi.so without a GPU behind it: the calls that Corral makes, answered from a control file.
 *
 * AMDSMI_STUB_CONTROL names the file; it is read at each call. Its lines, each optional:
 *   devices N            GPUs that the driver counts (2)
 *   partitions N MODE    each is N devices of its own, in this compute partition mode (1 SPX)
 *   init CODE            what amdsmi_init returns (0)
 *   same_uuid 1          the partitions of a GPU have one UUID
 *   gpu I KEY VALUE      util %, used MiB, temp C, power W (-1: not supported), ecc errors, lost 0|1
 *   gpu I KEY VALUE      pending, unreservable, reserved pages of memory, lanes, replays of PCIe, xgmi errors (0 to 2)
 *   gpu I KEY VALUE      speed of PCIe in MT/s; prochot, hot, capped: how much of the time they lower the clocks in %
 *   gpu I fault PID      an event, once: a page fault of this process, whose name is no text; gpu I reset 1: a reset
 *   gpu I process PID MIB  a process
 *   gpu I refuses CODE   what setting a power limit returns; gpu I fixed 1: there is no range of limits
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 1, UNSUPPORTED = 2, IO = 12, NOT_INIT = 32, NO_DATA = 40, MAX = 64, TOTAL_MIB = 196608 };

typedef struct { int index, util, used, temp, power, ecc, lost, pending, unreservable, reserved, lanes, replays, xgmi, speed, prochot, hot, capped, fault, reset, refuses, fixed, processes; struct { unsigned pid; uint64_t mib; } process[8]; } gpu_t;
typedef struct { char name[256]; uint32_t vendor; char maker[256]; uint32_t subvendor; uint64_t device; uint32_t rev; char serial[256];
    uint32_t oam, units; uint64_t target; uint32_t subsystem, reserved[21]; } asic_t;
typedef struct { uint32_t render, card, hsa, hip; char uuid[256]; } enumeration_t;
typedef struct { uint32_t total, used, reserved[2]; } usage_t;
typedef struct { uint32_t type; char maker[256]; uint64_t size; uint32_t width; uint64_t bandwidth, reserved[37]; } vram_t;
typedef struct { uint32_t gfx, umc, mm, reserved[13]; } activity_t;
typedef struct { uint32_t clock, least, most; uint8_t locked, sleep; uint32_t reserved[4]; } clock_info_t;
typedef struct { uint64_t correctable, uncorrectable, deferred, reserved[5]; } errors_t;
typedef struct { char version[256], date[256], name[256]; } driver_t;
typedef struct { uint64_t socket; uint32_t current, average; uint64_t volts[3]; uint32_t limit; uint64_t reserved[18]; } power_t;
typedef struct { uint64_t cap, usual, dpm, least, most, reserved[3]; } cap_t;
typedef struct { char name[256]; uint32_t pid; uint64_t memory; struct { uint64_t gfx, enc; uint32_t reserved[12]; } engine;
    struct { uint64_t gtt, cpu, vram; uint32_t reserved[10]; } used; char container[256]; uint32_t units, reserved[11]; } process_t;

static gpu_t gpus[MAX];
static int devices, partitions, init_code, same_uuid, opened;
static char mode[8];
static uint64_t caps[MAX]; /* in microwatts, as they were set; 0: as at the driver's start */

static void set(int i, const char *key, long value) {
    gpu_t *g = &gpus[i];
    if (!strcmp(key, "util")) g->util = value;
    if (!strcmp(key, "used")) g->used = value;
    if (!strcmp(key, "temp")) g->temp = value;
    if (!strcmp(key, "power")) g->power = value;
    if (!strcmp(key, "ecc")) g->ecc = value;
    if (!strcmp(key, "lost")) g->lost = value;
    if (!strcmp(key, "refuses")) g->refuses = value;
    if (!strcmp(key, "fixed")) g->fixed = value;
    if (!strcmp(key, "pending")) g->pending = value;
    if (!strcmp(key, "unreservable")) g->unreservable = value;
    if (!strcmp(key, "reserved")) g->reserved = value;
    if (!strcmp(key, "lanes")) g->lanes = value;
    if (!strcmp(key, "replays")) g->replays = value;
    if (!strcmp(key, "xgmi")) g->xgmi = value;
    if (!strcmp(key, "speed")) g->speed = value;
    if (!strcmp(key, "prochot")) g->prochot = value;
    if (!strcmp(key, "hot")) g->hot = value;
    if (!strcmp(key, "capped")) g->capped = value;
    if (!strcmp(key, "fault")) g->fault = value;
    if (!strcmp(key, "reset")) g->reset = value;
}

static void read_control(void) {
    char line[256], key[32];
    const char *path = getenv("AMDSMI_STUB_CONTROL");
    FILE *file = path ? fopen(path, "r") : NULL;
    int i;
    long value, second;
    devices = 2, partitions = 1, init_code = same_uuid = 0;
    strcpy(mode, "SPX");
    memset(gpus, 0, sizeof gpus);
    for (i = 0; i < MAX; i++) gpus[i].index = i, gpus[i].temp = 40, gpus[i].power = 90, gpus[i].lanes = 16, gpus[i].speed = 32000;
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "devices %d", &devices);
        sscanf(line, "partitions %d %7s", &partitions, mode);
        sscanf(line, "init %d", &init_code);
        sscanf(line, "same_uuid %d", &same_uuid);
        if (sscanf(line, "gpu %d process %ld %ld", &i, &value, &second) == 3 && i < MAX && gpus[i].processes < 8) {
            gpus[i].process[gpus[i].processes].pid = value;
            gpus[i].process[gpus[i].processes++].mib = second;
        } else if (sscanf(line, "gpu %d %31s %ld", &i, key, &value) == 3 && i < MAX) {
            set(i, key, value);
        }
    }
    if (file) fclose(file);
}

static int look(const gpu_t *g) {
    read_control();
    if (!opened) return NOT_INIT;
    return g->lost ? IO : OK;
}

#define LOOK(g) do { int code = look(g); if (code) return code; } while (0)

int amdsmi_init(uint64_t flags) { (void)flags; read_control(); opened = !init_code; return init_code; }
int amdsmi_shut_down(void) { opened = 0; return OK; }

int amdsmi_get_socket_handles(uint32_t *count, void **handles) {
    read_control();
    if (!opened) return NOT_INIT;
    *count = devices;
    for (int i = 0; handles && i < devices; i++) handles[i] = &gpus[i * partitions];
    return OK;
}

int amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles) {
    *count = partitions;
    for (int i = 0; handles && i < partitions; i++) handles[i] = (gpu_t *)socket + i;
    return OK;
}

int amdsmi_get_gpu_enumeration_info(gpu_t *g, enumeration_t *told) {
    LOOK(g);
    memset(told, 0, sizeof *told);
    told->render = 128 + g->index;
    sprintf(told->uuid, "GPU-a3d0000000000%03x", same_uuid ? g->index / partitions : g->index);
    return OK;
}

int amdsmi_get_gpu_device_bdf(gpu_t *g, uint64_t *bdf) {
    LOOK(g);
    *bdf = g->index % partitions | (uint64_t)(0x10 + g->index / partitions) << 8;
    return OK;
}

int amdsmi_get_gpu_asic_info(gpu_t *g, asic_t *told) {
    LOOK(g);
    memset(told, 0, sizeof *told);
    strcpy(told->name, "AMD Instinct MI300X");
    sprintf(told->serial, "5e%04x", g->index / partitions);
    return OK;
}

int amdsmi_get_gpu_vram_usage(gpu_t *g, usage_t *told) { LOOK(g); told->total = TOTAL_MIB; told->used = g->used; return OK; }
int amdsmi_get_gpu_vram_info(gpu_t *g, vram_t *told) { LOOK(g); memset(told, 0, sizeof *told); told->size = TOTAL_MIB; return OK; }
int amdsmi_get_gpu_activity(gpu_t *g, activity_t *told) { LOOK(g); told->gfx = g->util; told->umc = g->util / 2; told->mm = 0xffff; return OK; }
int amdsmi_get_clock_info(gpu_t *g, int kind, clock_info_t *told) { LOOK(g); memset(told, 0, sizeof *told); told->clock = kind ? 1300 : 2100; return OK; }
int amdsmi_get_gpu_total_ecc_count(gpu_t *g, errors_t *told) { LOOK(g); memset(told, 0, sizeof *told); told->uncorrectable = g->ecc; return OK; }

int amdsmi_get_gpu_driver_info(gpu_t *g, driver_t *told) {
    LOOK(g);
    memset(told, 0, sizeof *told);
    strcpy(told->version, "6.10.5");
    strcpy(told->name, "amdgpu");
    return OK;
}

int amdsmi_get_power_info(gpu_t *g, power_t *told) {
    LOOK(g);
    if (g->power < 0) return UNSUPPORTED;
    memset(told, 0, sizeof *told);
    told->current = g->power;
    told->average = 0xffff;
    return OK;
}

int amdsmi_get_power_cap_info(gpu_t *g, uint32_t sensor, cap_t *told) {
    (void)sensor;
    LOOK(g);
    memset(told, 0, sizeof *told);
    told->cap = caps[g->index] ? caps[g->index] : 750000000;
    if (!g->fixed) told->least = 200000000, told->most = 750000000;
    return OK;
}

int amdsmi_set_power_cap(gpu_t *g, uint32_t sensor, uint64_t cap) {
    LOOK(g);
    if (sensor || cap < 200000000 || cap > 750000000) return INVALID;
    if (g->refuses) return g->refuses;
    caps[g->index] = cap;
    return OK;
}

int amdsmi_get_temp_metric(gpu_t *g, int sensor, int metric, int64_t *told) {
    LOOK(g);
    if (sensor != 1) return UNSUPPORTED;
    *told = metric == 5 ? 100 : metric == 7 ? 105 : g->temp;
    return OK;
}

typedef struct { uint64_t address, size; uint32_t status, padding; } page_t;

int amdsmi_get_gpu_bad_page_info(gpu_t *g, uint32_t *count, page_t *pages) {
    LOOK(g);
    *count = g->pending + g->unreservable + g->reserved;
    for (uint32_t i = 0; pages && i < *count; i++)
        pages[i].status = (int)i < g->pending ? 1 : (int)i < g->pending + g->unreservable ? 2 : 0;
    return OK;
}

typedef struct { struct { uint16_t most, pad; uint32_t speed, version, slot, newest, pad2; uint64_t reserved[9]; } fixed;
    struct { uint16_t width, pad; uint32_t speed, bandwidth, pad2; uint64_t replays, more[4]; uint32_t other, pad3;
    uint64_t reserved[12]; } now; uint64_t reserved[32]; } pcie_t;

int amdsmi_get_pcie_info(gpu_t *g, pcie_t *told) {
    LOOK(g);
    memset(told, 0, sizeof *told);
    told->fixed.most = 16;
    told->now.width = g->lanes;
    told->now.speed = g->speed;
    told->now.replays = g->replays;
    return OK;
}

#pragma pack(push, 1)
typedef struct { uint8_t before[424]; uint64_t steps, prochot, ppt, socket, regulators, memory; uint8_t after[4072]; } metrics_t;
#pragma pack(pop)

int amdsmi_get_gpu_metrics_info(gpu_t *g, metrics_t *told) {
    static uint64_t steps[MAX], prochot[MAX], hot[MAX], capped[MAX];
    LOOK(g);
    memset(told, 0, sizeof *told);
    told->steps = steps[g->index] += 100;
    told->prochot = prochot[g->index] += g->prochot;
    told->memory = hot[g->index] += g->hot;
    told->ppt = capped[g->index] += g->capped;
    told->socket = UINT64_MAX; /* as of a device that does not count it */
    return OK;
}

typedef struct { void *handle; uint32_t kind; char message[260]; } event_t;

static uint64_t heard[MAX];
static int faults_told[MAX], resets_told[MAX];

int amdsmi_init_gpu_event_notification(gpu_t *g) { LOOK(g); heard[g->index] = 0; return OK; }
int amdsmi_set_gpu_event_notification_mask(gpu_t *g, uint64_t mask) { heard[g->index] = mask; return OK; }
int amdsmi_stop_gpu_event_notification(gpu_t *g) { heard[g->index] = 0; return OK; }

int amdsmi_get_gpu_event_notification(int wait_ms, uint32_t *count, event_t *told) {
    read_control();
    if (!opened) return NOT_INIT;
    if (wait_ms || *count < 1) return INVALID;
    *count = 1;
    for (int i = 0; i < MAX; i++) {
        int fault = gpus[i].fault && gpus[i].fault != faults_told[i], reset = gpus[i].reset && gpus[i].reset != resets_told[i];
        faults_told[i] = gpus[i].fault;
        resets_told[i] = gpus[i].reset;
        told->handle = &gpus[i];
        told->kind = fault ? 1 : 3;
        sprintf(told->message, fault ? "%x:\xff\xfe" : "%x", fault ? gpus[i].fault : gpus[i].reset);
        if (fault || reset) return heard[i] >> (told->kind - 1) & 1 ? OK : NO_DATA;
    }
    *count = 0;
    return NO_DATA;
}

int amdsmi_gpu_xgmi_error_status(gpu_t *g, uint32_t *status) { LOOK(g); *status = g->xgmi; return OK; }

int amdsmi_get_gpu_process_list(gpu_t *g, uint32_t *most, process_t *told) {
    LOOK(g);
    *most = g->processes;
    memset(told, 0, *most * sizeof *told);
    for (int i = 0; i < g->processes; i++) {
        told[i].pid = g->process[i].pid;
        told[i].used.vram = g->process[i].mib * 1024 * 1024;
    }
    return OK;
}

int amdsmi_get_gpu_compute_partition(gpu_t *g, char *told, uint32_t length) {
    LOOK(g);
    snprintf(told, length, "%s", mode);
    return OK;
}

int amdsmi_topo_get_link_type(gpu_t *from, gpu_t *to, uint64_t *hops, uint32_t *kind) {
    (void)to;
    LOOK(from);
    *hops = 1;
    *kind = 2;
    return OK;
}
