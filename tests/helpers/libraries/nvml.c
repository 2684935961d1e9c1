/* A stand-in for libnvidia-ml.so.1, which answers as a text file says.
 *
 * FAKE_NVML names the file; tests/helpers/nvml_scenarios.py writes it. A line is a key, a blank and a value:
 *
 *     driver 570.86.15                          of the machine
 *     gpu.0.name NVIDIA H100 80GB HBM3          of a GPU
 *     mig.0.1.uuid MIG-...                      of a MIG device: number 1 of GPU 0
 *     fail.nvmlInitWithFlags 999                the function returns this error
 *     gpu.1.fail.nvmlDeviceGetUUID 15           the same, for one GPU
 *     hang.nvmlDeviceGetCount_v2 3.5            the function takes so many seconds
 *
 * The first line with a key counts. A fact without a line is not supported. The file is read again at each question, so
 * that a test can change a machine while a session runs on it.
 *
 * Types, signatures and error numbers are those of NVIDIA's nvml.h.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { MOST_GPUS = 16, MOST_MIG_DEVICES = 7, MOST_PROCESSES = 64, NO_MIG = -1 };

typedef unsigned int uint;
typedef unsigned long long ulonglong;

typedef struct {
    int gpu, mig; /* mig: its number, or NO_MIG for the GPU itself */
} Device;

typedef struct {
    char legacy_bus_id[16];
    uint domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} PciInfo;

typedef struct {
    ulonglong total, free, used;
} Memory;

typedef struct {
    uint gpu, memory;
} Utilization;

typedef struct {
    uint pid;
    ulonglong used_memory;
    uint gpu_instance, compute_instance;
} Process;

typedef struct {
    uint pid;
    ulonglong timestamp;
    uint sm, memory, encoder, decoder;
} ProcessUtilization;

/* The handle of each device: its address is what a caller holds. */
static Device handles[MOST_GPUS][1 + MOST_MIG_DEVICES];

static Device *handle_of(int gpu, int mig) {
    Device *device = &handles[gpu][1 + mig];
    *device = (Device){gpu, mig};
    return device;
}

/* ---- what the file says ---- */

/* The value of a key, valid until this thread asks again; NULL without a line. */
static const char *lookup(const char *format, ...) {
    static _Thread_local char line[512];
    char key[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key, sizeof key, format, arguments);
    va_end(arguments);

    const char *path = getenv("FAKE_NVML"), *value = NULL;
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return NULL;
    size_t length = strlen(key);
    while (!value && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (!strncmp(line, key, length) && line[length] == ' ') value = line + length + 1;
    }
    fclose(file);
    return value;
}

/* A fact of a device; of the machine where `device` is NULL. */
static const char *fact(const Device *device, const char *name) {
    if (!device) return lookup("%s", name);
    if (device->mig == NO_MIG) return lookup("gpu.%d.%s", device->gpu, name);
    return lookup("mig.%d.%d.%s", device->gpu, device->mig, name);
}

/* The error that a function returns for a device, after the time that it hangs. */
static int failure(const Device *device, const char *function) {
    char key[96];
    const char *value;
    if ((value = lookup("hang.%s", function))) usleep((useconds_t)(atof(value) * 1e6));
    snprintf(key, sizeof key, "fail.%s", function);
    if (device && (value = fact(device, key))) return atoi(value);
    if ((value = lookup("%s", key))) return atoi(value);
    return SUCCESS;
}

/* First line of each function: what the file wants it to return instead of an answer. */
#define FAIL_IF_WANTED(device)                       \
    do {                                             \
        int error_ = failure((device), __func__);    \
        if (error_ != SUCCESS) return error_;        \
    } while (0)

static int give_text(const char *value, char *buffer, uint size) {
    if (!value) return NOT_SUPPORTED;
    snprintf(buffer, size, "%s", value);
    return SUCCESS;
}

static int give_number(const char *value, uint *number) {
    if (!value) return NOT_SUPPORTED;
    *number = (uint)strtoul(value, NULL, 0);
    return SUCCESS;
}

static int give_long_number(const char *value, ulonglong *number) {
    if (!value) return NOT_SUPPORTED;
    *number = strtoull(value, NULL, 0);
    return SUCCESS;
}

/* "0:1b:0": domain, bus and device. */
static int give_pci(const char *value, PciInfo *pci) {
    if (!value) return NOT_SUPPORTED;
    memset(pci, 0, sizeof *pci);
    sscanf(value, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    return SUCCESS;
}

/* "4711:1000000,12:0": a number for each pid. Returns how many there are. */
static uint pairs_of(const char *value, uint pids[], ulonglong numbers[]) {
    uint count = 0;
    while (value && *value && count < MOST_PROCESSES) {
        char *end;
        pids[count] = (uint)strtoul(value, &end, 10);
        numbers[count++] = *end == ':' ? strtoull(end + 1, &end, 10) : 0;
        value = *end == ',' ? end + 1 : NULL;
    }
    return count;
}

static int is_in_mig_mode(const Device *device) {
    const char *mode = lookup("gpu.%d.mig", device->gpu);
    return mode && atoi(mode);
}

/* ---- the machine ---- */

int nvmlInitWithFlags(uint flags) {
    (void)flags;
    FAIL_IF_WANTED(NULL);
    return SUCCESS;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int error) {
    static const char *texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded",
        "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found",
        "Corrupted infoROM", "GPU is lost", "GPU requires reset", "The operating system has blocked the request.",
        "RM has detected an NVML/RM version mismatch.",
    };
    int count = sizeof texts / sizeof *texts;
    return error >= 0 && error < count ? texts[error] : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *buffer, uint size) {
    FAIL_IF_WANTED(NULL);
    return give_text(lookup("driver"), buffer, size);
}

int nvmlSystemGetCudaDriverVersion(int *version) {
    FAIL_IF_WANTED(NULL);
    return give_number(lookup("cuda"), (uint *)version);
}

static int gpu_count(void) {
    const char *value = lookup("count");
    return value ? atoi(value) : 0;
}

int nvmlDeviceGetCount_v2(uint *count) {
    FAIL_IF_WANTED(NULL);
    *count = (uint)gpu_count();
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(uint index, Device **device) {
    if (index >= (uint)gpu_count()) return NOT_FOUND;
    *device = handle_of((int)index, NO_MIG);
    FAIL_IF_WANTED(*device);
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device **device) {
    for (int gpu = 0; gpu < gpu_count(); gpu++)
        for (int mig = NO_MIG; mig < MOST_MIG_DEVICES; mig++) {
            Device *candidate = handle_of(gpu, mig);
            const char *own = fact(candidate, "uuid");
            if (!own || strcmp(own, uuid)) continue;
            FAIL_IF_WANTED(candidate);
            *device = candidate;
            return SUCCESS;
        }
    return NOT_FOUND;
}

/* ---- what a device is ---- */

int nvmlDeviceGetUUID(Device *device, char *buffer, uint size) {
    FAIL_IF_WANTED(device);
    return give_text(fact(device, "uuid"), buffer, size);
}

int nvmlDeviceGetName(Device *device, char *buffer, uint size) {
    FAIL_IF_WANTED(device);
    return give_text(fact(device, "name"), buffer, size);
}

int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
    FAIL_IF_WANTED(device);
    if (give_long_number(fact(device, "memory"), &memory->total) != SUCCESS) return NOT_SUPPORTED;
    if (give_long_number(fact(device, "memory_used"), &memory->used) != SUCCESS) memory->used = 0;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    FAIL_IF_WANTED(device);
    const char *value = fact(device, "compute_capability");
    return value && sscanf(value, "%d.%d", major, minor) == 2 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetPciInfo_v3(Device *device, PciInfo *pci) {
    FAIL_IF_WANTED(device);
    return give_pci(fact(device, "pci"), pci);
}

/* The functions that answer with one number of the file. */
#define GIVES_NUMBER(function, name)                       \
    int function(Device *device, uint *number) {           \
        FAIL_IF_WANTED(device);                            \
        return give_number(fact(device, name), number);    \
    }

GIVES_NUMBER(nvmlDeviceGetNumGpuCores, "cores")
GIVES_NUMBER(nvmlDeviceGetMemoryBusWidth, "memory_bus")
GIVES_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation")
GIVES_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width")
GIVES_NUMBER(nvmlDeviceGetMaxMigDeviceCount, "most_mig_devices")
GIVES_NUMBER(nvmlDeviceGetPowerUsage, "power")
GIVES_NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit")
GIVES_NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "default_power_limit")
GIVES_NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
GIVES_NUMBER(nvmlDeviceGetPersistenceMode, "persistence")

/* The functions that answer for a type of clock (1: SM, 2: memory) or a sensor (0). */
#define GIVES_NUMBER_OF(function, name)                          \
    int function(Device *device, int which, uint *number) {      \
        char key[64];                                            \
        FAIL_IF_WANTED(device);                                  \
        snprintf(key, sizeof key, name ".%d", which);            \
        return give_number(fact(device, key), number);           \
    }

GIVES_NUMBER_OF(nvmlDeviceGetMaxClockInfo, "max_clock")
GIVES_NUMBER_OF(nvmlDeviceGetClockInfo, "clock")
GIVES_NUMBER_OF(nvmlDeviceGetApplicationsClock, "application_clock")
GIVES_NUMBER_OF(nvmlDeviceGetDefaultApplicationsClock, "default_application_clock")
GIVES_NUMBER_OF(nvmlDeviceGetTemperature, "temperature")

/* ---- MIG, links ---- */

int nvmlDeviceGetMigMode(Device *device, uint *current, uint *pending) {
    FAIL_IF_WANTED(device);
    if (give_number(fact(device, "mig"), current) != SUCCESS) return NOT_SUPPORTED;
    *pending = *current;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, uint index, Device **mig) {
    FAIL_IF_WANTED(device);
    if (index >= MOST_MIG_DEVICES) return NOT_FOUND;
    *mig = handle_of(device->gpu, (int)index);
    return fact(*mig, "uuid") ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *mig, Device **device) {
    FAIL_IF_WANTED(mig);
    *device = handle_of(mig->gpu, NO_MIG);
    return SUCCESS;
}

/* "gpu.0.nvlink.3 2 0:c4:0": the kind and the address of the far end of link 3. */
static const char *nvlink(Device *device, uint link) {
    char key[64];
    snprintf(key, sizeof key, "nvlink.%u", link);
    return fact(device, key);
}

int nvmlDeviceGetNvLinkState(Device *device, uint link, uint *is_active) {
    FAIL_IF_WANTED(device);
    *is_active = 1;
    return nvlink(device, link) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Device *device, uint link, uint *kind) {
    FAIL_IF_WANTED(device);
    return give_number(nvlink(device, link), kind);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device *device, uint link, PciInfo *pci) {
    FAIL_IF_WANTED(device);
    const char *value = nvlink(device, link);
    return give_pci(value ? strchr(value, ' ') + 1 : NULL, pci);
}

int nvmlDeviceGetTopologyCommonAncestor(Device *device, Device *other, uint *level) {
    (void)other;
    FAIL_IF_WANTED(device);
    return give_number(lookup("common_ancestor"), level);
}

/* ---- what a device does ---- */

int nvmlDeviceGetUtilizationRates(Device *device, Utilization *rates) {
    FAIL_IF_WANTED(device);
    if (is_in_mig_mode(device)) return NOT_SUPPORTED;
    rates->memory = 0;
    return give_number(fact(device, "utilization"), &rates->gpu);
}

static int clock_reasons(Device *device, const char *function, ulonglong *reasons) {
    int error = failure(device, function);
    return error ? error : give_long_number(fact(device, "clock_reasons"), reasons);
}

/* Since R535, and under its older name. */
int nvmlDeviceGetCurrentClocksEventReasons(Device *device, ulonglong *reasons) {
    return clock_reasons(device, __func__, reasons);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, ulonglong *reasons) {
    return clock_reasons(device, __func__, reasons);
}

int nvmlDeviceGetTotalEccErrors(Device *device, int kind, int counter, ulonglong *count) {
    (void)kind, (void)counter;
    FAIL_IF_WANTED(device);
    return give_long_number(fact(device, "ecc_errors"), count);
}

/* "gpu.0.processes 4711:30000000000": a pid and its memory. */
static int processes(Device *device, const char *function, const char *name, uint *count, Process *found) {
    uint pids[MOST_PROCESSES], room = *count;
    ulonglong memory[MOST_PROCESSES];
    int error = failure(device, function);
    if (error) return error;
    *count = pairs_of(fact(device, name), pids, memory);
    if (*count && (!found || room < *count)) return INSUFFICIENT_SIZE;
    for (uint i = 0; i < *count; i++) found[i] = (Process){pids[i], memory[i], 0xffffffff, 0xffffffff};
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, uint *count, Process *found) {
    return processes(device, __func__, "processes", count, found);
}

int nvmlDeviceGetComputeRunningProcesses_v2(Device *device, uint *count, Process *found) {
    return processes(device, __func__, "processes", count, found);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device *device, uint *count, Process *found) {
    return processes(device, __func__, "mps_clients", count, found);
}

/* "gpu.0.process_utilization 4711:97": a pid and its per cent; sampled now. */
int nvmlDeviceGetProcessUtilization(Device *device, ProcessUtilization *found, uint *count, ulonglong since) {
    uint pids[MOST_PROCESSES], room = *count;
    ulonglong percent[MOST_PROCESSES];
    struct timeval now;
    (void)since;
    FAIL_IF_WANTED(device);
    if (is_in_mig_mode(device)) return NOT_SUPPORTED;
    *count = pairs_of(fact(device, "process_utilization"), pids, percent);
    if (!*count) return NOT_FOUND;
    if (!found || room < *count) return INSUFFICIENT_SIZE;
    gettimeofday(&now, NULL);
    for (uint i = 0; i < *count; i++) {
        found[i] = (ProcessUtilization){.pid = pids[i], .sm = (uint)percent[i]};
        found[i].timestamp = (ulonglong)now.tv_sec * 1000000 + (ulonglong)now.tv_usec;
    }
    return SUCCESS;
}
