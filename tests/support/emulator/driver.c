// The CUDA driver, as far as torch asks for it.

#include <stdlib.h>

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }

int cuDeviceGetCount(int *count) {
    const char *text = getenv("EMULATED_GPUS");
    *count = text ? atoi(text) : 2;
    return 0;
}

int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)1; return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *flags = 0; *active = 1; return 0; }
int cuPointerGetAttribute(void *data, int attribute, unsigned long pointer) { return 1; }
int cuGetErrorString(int error, const char **text) { *text = "an error of the emulator"; return 0; }
int __cudaGetProcAddress(void) { return 0; }
