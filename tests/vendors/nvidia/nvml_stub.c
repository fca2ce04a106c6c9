/* A libnvidia-ml.so.1 without a GPU behind it: the calls that Corral makes, answered from a control file.
 *
 * NVML_STUB_CONTROL names the file; it is read again whenever it changes. Its lines, each optional:
 *   devices N               GPUs that the driver counts (8)
 *   init CODE               what nvmlInit returns (0)
 *   locked 1                a call that hangs holds the driver's lock: calls about any GPU hang as long
 *   generation N            another number than at the last nvmlInit means that the driver was reloaded since
 *   nvswitch 1              NVLinks end in a switch, not in the peer
 *   gpu I KEY VALUE         util %, used MiB, temp C, power mW (-1: not supported), ecc errors, lost 0|1, hang 0|1, mig 0|1
 *   gpu I KEY VALUE         sm, mem clock MHz (-1: not supported), throttle bits, xid N (an event at each change), events 0|1
 *   gpu I fixed 1           its driver names no range of power limits; gpu I refuses CODE: what setting one returns
 *   gpu I KEY VALUE         remap_pending 0|1, remap_failed 0|1, remapped rows, recovery ACTION (-1: not supported),
 *                           lanes, generation of PCIe, replays of it, link_replays, link_recoveries, link_down N (the Nth
 *                           link), margin C (-100: a GPU before Ada, which has thresholds: 95 and 100 C)
 *   gpu I process PID MIB   a compute process (MIB -1: unknown), as often as there are processes
 *   gpu I uses PID PERCENT  how much that process used the GPU a second ago; without: not at all
 *   gpu I used_before PID PERCENT  the same, an hour ago
 * Without a file: eight idle A100.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, LOST = 15 };
enum { MAX_GPUS = 64, MAX_PROCESSES = 32, LINKS = 12, SLICES = 2 };

typedef struct { unsigned pid; long long mib; } process_t;
typedef struct { unsigned pid; int percent; int ago_s; } use_t;
typedef struct gpu {
    int index, util, used, temp, power, ecc, lost, hang, mig, sm, mem, throttle, xid, events, fixed, refuses;
    int remap_pending, remap_failed, remapped, recovery, lanes, generation, replays, link_replays, link_recoveries;
    int link_down, margin;
    int slice; /* 0: the whole device; n: its nth MIG instance */
    int processes, uses;
    process_t process[MAX_PROCESSES];
    use_t use[MAX_PROCESSES];
} gpu_t;

typedef struct { char busIdLegacy[16]; unsigned domain, bus, device, pciDeviceId, pciSubSystemId; char busId[32]; } pci_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned pid; unsigned long long used; unsigned gpuInstance, computeInstance; } process_info_t;
typedef struct { struct gpu *device; unsigned long long type, data; unsigned gpuInstance, computeInstance; } event_t;

static const unsigned long long MIB = 1024 * 1024, TOTAL_MIB = 81920, RESERVED_MIB = 600;
static int told_xid[MAX_GPUS], heard[MAX_GPUS], event_sets;
static gpu_t gpus[MAX_GPUS], slices[MAX_GPUS][SLICES];
static int devices, init_code, generation, nvswitch, locked, opened_generation = -1, loaded_generation, sessions;
static unsigned limit_mw[MAX_GPUS]; /* what was set, as long as the driver is loaded; 0: as at its start */
static struct timespec read_at;
static off_t read_size = -1;
static ino_t read_inode;

static void set(int i, const char *key, long long value, long long second) {
    gpu_t *g = &gpus[i];
    if (i < 0 || i >= MAX_GPUS) return;
    if (!strcmp(key, "util")) g->util = value;
    if (!strcmp(key, "used")) g->used = value;
    if (!strcmp(key, "temp")) g->temp = value;
    if (!strcmp(key, "power")) g->power = value;
    if (!strcmp(key, "ecc")) g->ecc = value;
    if (!strcmp(key, "lost")) g->lost = value;
    if (!strcmp(key, "hang")) g->hang = value;
    if (!strcmp(key, "mig")) g->mig = value;
    if (!strcmp(key, "sm")) g->sm = value;
    if (!strcmp(key, "mem")) g->mem = value;
    if (!strcmp(key, "throttle")) g->throttle = value;
    if (!strcmp(key, "xid")) g->xid = value;
    if (!strcmp(key, "events")) g->events = value;
    if (!strcmp(key, "fixed")) g->fixed = value;
    if (!strcmp(key, "refuses")) g->refuses = value;
    if (!strcmp(key, "remap_pending")) g->remap_pending = value;
    if (!strcmp(key, "remap_failed")) g->remap_failed = value;
    if (!strcmp(key, "remapped")) g->remapped = value;
    if (!strcmp(key, "recovery")) g->recovery = value;
    if (!strcmp(key, "lanes")) g->lanes = value;
    if (!strcmp(key, "generation")) g->generation = value;
    if (!strcmp(key, "replays")) g->replays = value;
    if (!strcmp(key, "link_replays")) g->link_replays = value;
    if (!strcmp(key, "link_recoveries")) g->link_recoveries = value;
    if (!strcmp(key, "link_down")) g->link_down = value;
    if (!strcmp(key, "margin")) g->margin = value;
    if (!strcmp(key, "process") && g->processes < MAX_PROCESSES) {
        g->process[g->processes].pid = value;
        g->process[g->processes++].mib = second;
    }
    if ((!strcmp(key, "uses") || !strcmp(key, "used_before")) && g->uses < MAX_PROCESSES)
        g->use[g->uses++] = (use_t){value, second, key[3] == 's' ? 1 : 3600};
}

static void reset(void) {
    devices = 8, init_code = generation = nvswitch = locked = 0;
    for (int i = 0; i < MAX_GPUS; i++) {
        gpus[i] = (gpu_t){.index = i, .temp = 30 + i, .power = 60000 + 1000 * i, .sm = 1410, .mem = 1593, .events = 1,
                          .recovery = -1, .lanes = 16, .generation = 4, .link_down = -1, .margin = -100};
        for (int s = 0; s < SLICES; s++) slices[i][s] = (gpu_t){.index = i, .slice = s + 1};
    }
}

static void refresh(void) {
    const char *path = getenv("NVML_STUB_CONTROL");
    struct stat status;
    if (!path || stat(path, &status)) {
        if (!devices) reset();
        return;
    }
    /* Two files within a tick of the clock may be of one size, but not one file. */
    if (status.st_ino == read_inode && status.st_size == read_size && !memcmp(&status.st_mtim, &read_at, sizeof read_at))
        return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    read_inode = status.st_ino, read_size = status.st_size, read_at = status.st_mtim;
    reset();
    char line[256], key[32];
    while (fgets(line, sizeof line, file)) {
        int i;
        long long value, second = -1;
        if (sscanf(line, "gpu %d %31s %lld %lld", &i, key, &value, &second) >= 3) set(i, key, value, second);
        else if (sscanf(line, "%31s %lld", key, &value) == 2) {
            if (!strcmp(key, "devices")) devices = value;
            if (!strcmp(key, "init")) init_code = value;
            if (!strcmp(key, "generation")) generation = value;
            if (!strcmp(key, "nvswitch")) nvswitch = value;
            if (!strcmp(key, "locked")) locked = value;
        }
    }
    fclose(file);
}

static int session(void) {
    refresh();
    return opened_generation == generation ? OK : UNINITIALIZED;
}

static int lock_is_held(void) {
    int hangs = 0;
    for (int i = 0; locked && i < devices; i++) hangs |= gpus[i].hang;
    return hangs;
}

static int reach(gpu_t *g) {
    int code = session();
    while (lock_is_held()) { usleep(5000); refresh(); }
    return code ? code : gpus[g->index].lost ? LOST : OK;
}

#define REACH(g) do { int code_ = reach(g); if (code_) return code_; } while (0)

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    refresh();
    if (init_code) return init_code;
    if (opened_generation != generation) sessions = 0;
    if (loaded_generation != generation) loaded_generation = generation, memset(limit_mw, 0, sizeof limit_mw);
    opened_generation = generation, sessions++;
    return OK;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

/* Only the last of the sessions of a process ends it. */
int nvmlShutdown(void) {
    int code = session();
    if (code || --sessions <= 0) opened_generation = -1, sessions = 0;
    return code;
}

const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "stub error"; }

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    int code = session();
    if (!code) snprintf(text, length, "550.54.15");
    return code;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return session(); }
int nvmlDeviceGetCount_v2(unsigned *count) { int code = session(); *count = devices; return code; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu_t **device) {
    int code = session();
    if (code) return code;
    if ((int)index >= devices) return INVALID;
    *device = &gpus[index];
    return reach(*device);
}

int nvmlDeviceGetUUID(gpu_t *g, char *text, unsigned length) {
    REACH(g);
    if (g->slice) snprintf(text, length, "MIG-57ab0000-0000-4000-8000-0000000000%d%d", g->index, g->slice);
    else snprintf(text, length, "GPU-57ab0000-0000-4000-8000-00000000000%x", g->index);
    return OK;
}

int nvmlDeviceGetName(gpu_t *g, char *text, unsigned length) {
    REACH(g);
    snprintf(text, length, "NVIDIA A100-SXM4-80GB%s", g->slice ? " MIG 3g.40gb" : "");
    return OK;
}

static void bus(int index, pci_t *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", 0x10 + index);
}

int nvmlDeviceGetPciInfo_v3(gpu_t *g, pci_t *pci) { REACH(g); bus(g->index, pci); return OK; }

int nvmlDeviceGetMemoryInfo(gpu_t *g, memory_t *m) {
    REACH(g);
    m->total = (g->slice ? TOTAL_MIB / 2 : TOTAL_MIB) * MIB;
    m->used = (g->used + RESERVED_MIB) * MIB;
    m->free = m->total - m->used;
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(gpu_t *g, memory_v2_t *m) {
    REACH(g);
    m->total = (g->slice ? TOTAL_MIB / 2 : TOTAL_MIB) * MIB;
    m->reserved = RESERVED_MIB * MIB;
    m->used = g->used * MIB;
    m->free = m->total - m->used - m->reserved;
    return OK;
}

int nvmlDeviceGetUtilizationRates(gpu_t *g, utilization_t *u) {
    REACH(g);
    while (gpus[g->index].hang) { usleep(5000); refresh(); }
    if (g->mig) return UNSUPPORTED;
    u->gpu = g->util, u->memory = g->util / 2;
    return OK;
}

int nvmlDeviceGetTemperature(gpu_t *g, int sensor, unsigned *c) { (void)sensor; REACH(g); *c = g->temp; return OK; }

int nvmlDeviceGetPowerUsage(gpu_t *g, unsigned *mw) {
    REACH(g);
    *mw = g->power;
    return g->power < 0 ? UNSUPPORTED : OK;
}

static unsigned limit_of(gpu_t *g) { return limit_mw[g->index] ? limit_mw[g->index] : 400000; }
int nvmlDeviceGetEnforcedPowerLimit(gpu_t *g, unsigned *mw) { REACH(g); *mw = limit_of(g); return OK; }
int nvmlDeviceGetPowerManagementLimit(gpu_t *g, unsigned *mw) { REACH(g); *mw = limit_of(g); return OK; }

int nvmlDeviceGetPowerManagementLimitConstraints(gpu_t *g, unsigned *least_mw, unsigned *most_mw) {
    REACH(g);
    *least_mw = 100000, *most_mw = 400000;
    return g->fixed ? UNSUPPORTED : OK;
}

int nvmlDeviceSetPowerManagementLimit(gpu_t *g, unsigned mw) {
    REACH(g);
    if (g->refuses) return g->refuses;
    if (mw < 100000 || mw > 400000) return INVALID;
    limit_mw[g->index] = mw;
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, gpu_t **device) {
    int code = session(), index = -1;
    if (code) return code;
    if (sscanf(uuid, "GPU-57ab0000-0000-4000-8000-%x", &index) != 1 || index < 0 || index >= devices) return NOT_FOUND;
    *device = &gpus[index];
    return reach(*device);
}

int nvmlDeviceGetPersistenceMode(gpu_t *g, int *mode) { REACH(g); *mode = 1; return OK; }
int nvmlDeviceGetEccMode(gpu_t *g, int *now, int *next) { REACH(g); *now = *next = 1; return OK; }

int nvmlDeviceGetTotalEccErrors(gpu_t *g, int type, int counter, unsigned long long *count) {
    REACH(g);
    *count = type == 1 && counter == 0 ? g->ecc : 0;
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(gpu_t *g, int *major, int *minor) { REACH(g); *major = 8, *minor = 0; return OK; }
int nvmlDeviceGetMigMode(gpu_t *g, unsigned *now, unsigned *next) { REACH(g); *now = *next = g->mig; return OK; }
int nvmlDeviceGetMaxMigDeviceCount(gpu_t *g, unsigned *count) { REACH(g); *count = 7; return OK; }

/* Not the index: the driver numbers its device files in an order of its own. */
int nvmlDeviceGetMinorNumber(gpu_t *g, unsigned *minor) {
    if (g->slice) return UNSUPPORTED;
    *minor = (unsigned)(200 - g->index);
    return OK;
}

int nvmlDeviceGetGpuInstanceId(gpu_t *g, unsigned *id) {
    *id = (unsigned)g->slice;
    return g->slice ? OK : UNSUPPORTED;
}

int nvmlDeviceGetComputeInstanceId(gpu_t *g, unsigned *id) {
    *id = 0;
    return g->slice ? OK : UNSUPPORTED;
}

int nvmlDeviceGetMigDeviceHandleByIndex(gpu_t *g, unsigned index, gpu_t **slice) {
    REACH(g);
    if (index >= SLICES) return NOT_FOUND;
    *slice = &slices[g->index][index];
    return OK;
}

/* A GPU has twelve links, two to each of the first six others. */
static int peer_of(int index, unsigned link) {
    int peer = link / 2;
    return peer >= index ? peer + 1 : peer;
}

int nvmlDeviceGetNvLinkState(gpu_t *g, unsigned link, unsigned *active) {
    REACH(g);
    if (link >= LINKS) return INVALID;
    *active = (int)link != g->link_down && (nvswitch || peer_of(g->index, link) < devices);
    return OK;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu_t *g, unsigned link, pci_t *pci) {
    REACH(g);
    bus(nvswitch ? 0xA0 : peer_of(g->index, link), pci);
    return OK;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(gpu_t *g, unsigned link, int *type) {
    (void)link;
    REACH(g);
    *type = nvswitch ? 2 : 0;
    return OK;
}

int nvmlDeviceGetTopologyCommonAncestor(gpu_t *g, gpu_t *peer, int *level) {
    REACH(g);
    REACH(peer);
    *level = g->index / 4 == peer->index / 4 ? 30 : 50;
    return OK;
}

static int list(gpu_t *g, unsigned *count, process_info_t *out) {
    REACH(g);
    unsigned room = *count;
    *count = g->processes;
    if (!g->processes) return OK;
    if (!out || room < *count) return INSUFFICIENT_SIZE;
    for (int i = 0; i < g->processes; i++) {
        unsigned long long used = g->process[i].mib < 0 ? ~0ULL : g->process[i].mib * MIB;
        out[i] = (process_info_t){g->process[i].pid, used, ~0U, ~0U};
    }
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(gpu_t *g, unsigned *n, process_info_t *out) { return list(g, n, out); }
int nvmlDeviceGetComputeRunningProcesses_v2(gpu_t *g, unsigned *n, process_info_t *out) { return list(g, n, out); }

typedef struct { unsigned pid; unsigned long long at_us; unsigned sm, memory, encoder, decoder; } process_use_t;

int nvmlDeviceGetProcessUtilization(gpu_t *g, process_use_t *out, unsigned *count, unsigned long long after_us) {
    REACH(g);
    if (g->mig || g->slice) return UNSUPPORTED;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned room = *count;
    *count = 0;
    for (int i = 0; i < g->uses; i++) {
        unsigned long long at_us = (now.tv_sec - g->use[i].ago_s) * 1000000ULL;
        if (at_us <= after_us) continue;
        if (out && *count < room) out[*count] = (process_use_t){g->use[i].pid, at_us, g->use[i].percent, 0, 0, 0};
        ++*count;
    }
    return !*count ? NOT_FOUND : *count > room ? INSUFFICIENT_SIZE : OK;
}

int nvmlDeviceGetClockInfo(gpu_t *g, int which, unsigned *mhz) {
    REACH(g);
    int clock = which == 1 ? g->sm : which == 2 ? g->mem : -1;
    *mhz = clock;
    return clock < 0 ? UNSUPPORTED : OK;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(gpu_t *g, unsigned long long *bits) { REACH(g); *bits = g->throttle; return OK; }
int nvmlDeviceGetCurrentClocksEventReasons(gpu_t *g, unsigned long long *bits) { REACH(g); *bits = g->throttle; return OK; }

int nvmlDeviceGetCurrPcieLinkWidth(gpu_t *g, unsigned *lanes) { REACH(g); *lanes = g->lanes; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(gpu_t *g, unsigned *lanes) { REACH(g); *lanes = 16; return OK; }
int nvmlDeviceGetCurrPcieLinkGeneration(gpu_t *g, unsigned *n) { REACH(g); *n = g->generation; return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(gpu_t *g, unsigned *n) { REACH(g); *n = 4; return OK; }

int nvmlDeviceGetTemperatureThreshold(gpu_t *g, int which, unsigned *c) {
    REACH(g);
    *c = which == 0 ? 100 : 95;
    return g->margin == -100 && which < 2 ? OK : UNSUPPORTED;
}

typedef struct { unsigned version; int margin; } margin_t;

int nvmlDeviceGetMarginTemperature(gpu_t *g, margin_t *margin) {
    REACH(g);
    margin->margin = g->margin;
    return g->margin == -100 ? UNSUPPORTED : OK;
}

typedef struct {
    unsigned id, scope;
    long long timestamp, latency;
    int type, code;
    union { double d; unsigned u; unsigned long long ull; int i; } value;
} field_t;

int nvmlDeviceGetFieldValues(gpu_t *g, int count, field_t *fields) {
    REACH(g);
    for (int i = 0; i < count; i++) {
        field_t *f = &fields[i];
        f->code = OK, f->type = 1, f->value.ull = 0;
        switch (f->id) {
        case 52: f->type = 3, f->value.ull = g->link_replays; break;
        case 59: f->type = 3, f->value.ull = g->link_recoveries; break;
        case 94: f->value.u = g->replays; break;
        case 143: f->value.u = g->remapped; break;
        case 144: f->value.u = g->remap_pending; break;
        case 145: f->value.u = g->remap_failed; break;
        case 193: case 194:
            f->type = 5, f->value.i = f->id == 193 ? -8 : -2;
            if (g->margin == -100) f->code = UNSUPPORTED;
            break;
        case 230: f->value.u = g->recovery; if (g->recovery < 0) f->code = UNSUPPORTED; break;
        default: f->code = INVALID;
        }
    }
    return OK;
}

/* One event set at a time, which lives until it is freed. */
int nvmlEventSetCreate(int **set) {
    int code = session();
    if (code) return code;
    memset(heard, 0, sizeof heard);
    event_sets++, *set = &event_sets;
    return OK;
}

int nvmlEventSetFree(int *set) { int code = session(); if (!code) --*set; return code; }

int nvmlDeviceRegisterEvents(gpu_t *g, unsigned long long types, int *set) {
    (void)set;
    REACH(g);
    if (types != 8 || !g->events) return UNSUPPORTED;
    heard[g->index] = 1, told_xid[g->index] = g->xid;
    return OK;
}

int nvmlEventSetWait_v2(int *set, event_t *event, unsigned timeout_ms) {
    (void)set, (void)timeout_ms;
    int code = session();
    if (code) return code;
    for (int i = 0; i < devices; i++) {
        if (!heard[i] || gpus[i].xid == told_xid[i]) continue;
        told_xid[i] = gpus[i].xid;
        *event = (event_t){&gpus[i], 8, gpus[i].xid, ~0U, ~0U};
        return OK;
    }
    return TIMEOUT;
}
