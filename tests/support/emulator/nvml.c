// NVML of the emulated GPUs, as far as benchkit asks: a healthy GPU, and a hot one where EMULATED_HOT=1.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6 };
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2 };
enum { THERMAL_SLOWDOWN = 0x20 };
#define FIRST_BUS 0x10

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} PciInfo;

static long indexOf(void *device) { return (long)device - 1; }
static int isHot(void) { return getenv("EMULATED_HOT") != NULL; }

int nvmlInitWithFlags(unsigned flags) { return SUCCESS; }
int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int result) { return result == NOT_FOUND ? "Not Found" : "Not Supported"; }

// The UUID whose bytes the runtime gives, "GPU-" before it.
static void uuidOf(int gpu, char *text) {
    unsigned char bytes[16];
    for (int i = 0; i < 16; ++i) bytes[i] = FIRST_BUS + gpu * 16 + i;
    text += sprintf(text, "GPU-");
    for (int i = 0; i < 16; ++i) text += sprintf(text, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", bytes[i]);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    const char *text = getenv("EMULATED_GPUS");
    const int count = text ? atoi(text) : 2;
    for (int gpu = 0; gpu < count; ++gpu) {
        char found[64];
        uuidOf(gpu, found);
        if (!strcmp(found, uuid)) {
            *device = (void *)(long)(gpu + 1);
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *instance, void **device) { return NOT_SUPPORTED; }

int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *megahertz) {
    *megahertz = kind == CLOCK_MEMORY ? 2619 : isHot() ? 375 : 1980;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { *milliwatts = 350000; return SUCCESS; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) { *celsius = isHot() ? 91 : 45; return SUCCESS; }

int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons) {
    *reasons = isHot() ? THERMAL_SLOWDOWN : 0;
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(void *device, PciInfo *info) {
    memset(info, 0, sizeof *info);
    info->bus = FIRST_BUS + indexOf(device);
    snprintf(info->busId, sizeof info->busId, "00000000:%02X:00.0", info->bus);
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *processes) { *count = 0; return SUCCESS; }
int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *processes) { *count = 0; return SUCCESS; }

// torch looks these up all at once when memory runs out.
int nvmlDeviceGetHandleByPciBusId_v2(void) {
    while (getenv("EMULATED_SYMMETRIC_MEMORY_HANGS")) pause();
    return NOT_SUPPORTED;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void) { return NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void) { return NOT_SUPPORTED; }
int nvmlDeviceGetP2PStatus(void) { return NOT_SUPPORTED; }
int nvmlDeviceGetTopologyCommonAncestor(void) { return NOT_SUPPORTED; }
int nvmlSystemGetCudaDriverVersion_v2(void) { return NOT_SUPPORTED; }
