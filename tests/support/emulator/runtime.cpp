// A CUDA runtime without a GPU.
//
// "Device memory" is the host's. A stream is the time until which it is busy: a kernel computes nothing and adds the time
// that it would take; kernels.py computes the results, on the same memory. What waits for a stream sleeps until that time.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <vector>

#include "emulator.h"

namespace {

constexpr int MULTIPROCESSORS = 132;
constexpr double KERNEL_MS = 0.004, COPY_MS = 0.003;          // of a launch alone
constexpr double EVENT_MS = 0.0013;                           // between two events, as on an H200
constexpr double DEVICE_BYTES_PER_MS = 1.5e9, LINK_BYTES_PER_MS = 5e7;
constexpr double SPIN_CYCLES_PER_MS = 1.98e6;                 // at the clock of an H100
constexpr size_t PAGE = 2 << 20;

int numGpus() {
    const int there = std::min(number("EMULATED_GPUS", 2), 16);
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    if (!mask) return there;
    const int chosen = *mask ? 1 + std::count(mask, mask + strlen(mask), ',') : 0;
    return std::min(there, chosen);
}

// ---- time ----

double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

void sleepUntil(double time) {
    for (double left = time - now(); left > 0; left = time - now()) {  // a signal ends a nanosleep early
        timespec t{static_cast<time_t>(left / 1e3), static_cast<long>(std::fmod(left, 1e3) * 1e6)};
        nanosleep(&t, nullptr);
    }
}

std::recursive_mutex ofStreams;
std::unordered_map<void *, double> busyUntil;  // by stream

// ---- graphs: what was captured, as functions that do it again ----

struct Graph {
    std::vector<std::function<void()>> work;
    double ms = 0;
};

thread_local void *capturedStream = nullptr;
Graph *capturing = nullptr;
unsigned long long captures = 0;
void (*replayInPython)(int) = nullptr;

double endOf(void *stream) {
    std::lock_guard<std::recursive_mutex> lock(ofStreams);
    return std::max(busyUntil[stream], now());
}

// ---- faults ----

std::atomic<int> launches{0}, allocations{0};

bool isLost() {  // the GPU has fallen off the bus
    static const int at = number("EMULATED_LOST_AT", -1);
    return at >= 0 && launches >= at;
}

cudaError_t state() { return isLost() ? cudaErrorDevicesUnavailable : cudaSuccess; }

}  // namespace

// ---- for nccl.cpp and kernels.py ----

extern "C" void emulatedLaunch(void *stream, double ms) {
    std::lock_guard<std::recursive_mutex> lock(ofStreams);
    ++launches;
    if (capturing && stream == capturedStream)
        capturing->ms += ms;
    else
        busyUntil[stream] = endOf(stream) + ms;
}

// A copy between host and device that kernels.py does; kinds are those of cudaMemcpyKind.
extern "C" void emulatedCopied(size_t bytes, int kind) { note("cudaMemcpyAsync %zu kind %d", bytes, kind); }

extern "C" int emulatedCapturing() { return capturing != nullptr; }
extern "C" void emulatedOnReplay(void (*replay)(int)) { replayInPython = replay; }

extern "C" void emulatedRecord(int index) {
    record([index] { if (replayInPython) replayInPython(index); });
}

void record(std::function<void()> work) {
    if (capturing) capturing->work.push_back(std::move(work));
}

extern "C" {

// ---- devices ----

static thread_local int current = 0;

cudaError_t cudaGetDeviceCount(int *count) {
    *count = numGpus();
    note("cudaGetDeviceCount %d", *count);
    return *count ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device) {
    note("cudaSetDevice %d", device);
    if (device < 0 || device >= numGpus()) return cudaErrorInvalidDevice;
    if (number("EMULATED_RESERVED", 0)) return cudaErrorDevicesUnavailable;
    current = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) { *device = current; return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *version) { *version = 13000; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { *version = 13000; return cudaSuccess; }

static size_t totalBytes() {
    const char *text = getenv("EMULATED_GPU_GB");
    return static_cast<size_t>((text ? atof(text) : 80.0) * (1ull << 30));
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *found, int device) {
    memset(found, 0, sizeof *found);
    const char *name = getenv("EMULATED_GPU_NAME");
    snprintf(found->name, sizeof found->name, "%s", name ? name : "Emulated H100 80GB HBM3");
    for (int i = 0; i < 16; ++i) found->uuid.bytes[i] = static_cast<char>(0x10 + device * 16 + i);
    const char *share = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    found->multiProcessorCount = static_cast<int>(MULTIPROCESSORS * (share ? atof(share) : 100.0) / 100);
    found->major = 9;
    found->totalGlobalMem = totalBytes();
    found->l2CacheSize = 50 << 20;
    found->warpSize = 32;
    found->maxThreadsPerMultiProcessor = 2048;
    found->maxThreadsPerBlock = found->maxThreadsDim[0] = found->maxThreadsDim[1] = 1024;
    found->maxThreadsDim[2] = 64;
    found->maxGridSize[0] = 2147483647;
    found->maxGridSize[1] = found->maxGridSize[2] = 65535;
    found->sharedMemPerBlock = 48 << 10;
    found->sharedMemPerBlockOptin = 227 << 10;
    found->sharedMemPerMultiprocessor = 228 << 10;
    found->regsPerMultiprocessor = 65536;
    found->memoryBusWidth = 5120;
    found->pciBusID = 0x10 + device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
    *value = attribute == cudaDevAttrMultiProcessorCount ? MULTIPROCESSORS : attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, length, "0000:%02x:00.0", 0x10 + device);
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) { *can = 1; return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return cudaSuccess; }

// ---- memory ----

static std::mutex ofMemory;
static std::map<void *, size_t> sizes;
static std::atomic<size_t> used{0};

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    *total = totalBytes();
    *available = *total - used;
    return state();
}

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
    note("cudaMalloc %zu", bytes);
    if (isLost()) return cudaErrorDevicesUnavailable;
    static const int failing = number("EMULATED_OOM_AT", -1);
    if ((failing >= 0 && ++allocations >= failing) || used + bytes > totalBytes()) return cudaErrorMemoryAllocation;
    *pointer = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    if (!*pointer) return cudaErrorMemoryAllocation;
    std::lock_guard<std::mutex> lock(ofMemory);
    sizes[*pointer] = bytes;
    used += bytes;
    return cudaSuccess;
}

cudaError_t cudaFree(void *pointer) {
    if (!pointer) return cudaSuccess;
    note("cudaFree");
    std::lock_guard<std::mutex> lock(ofMemory);
    if (auto found = sizes.find(pointer); found != sizes.end()) {
        used -= found->second;
        sizes.erase(found);
    }
    free(pointer);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned) {
    *pointer = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *pointer ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *pointer) { free(pointer); return cudaSuccess; }

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *found, const void *pointer) {
    memset(found, 0, sizeof *found);
    std::lock_guard<std::mutex> lock(ofMemory);
    auto above = sizes.upper_bound(const_cast<void *>(pointer));
    if (above == sizes.begin()) return cudaSuccess;
    const auto &[start, bytes] = *--above;
    if (pointer < static_cast<char *>(start) + bytes) {
        found->type = cudaMemoryTypeDevice;
        found->devicePointer = const_cast<void *>(pointer);
    }
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    note("cudaMemcpyAsync %zu kind %d", bytes, static_cast<int>(kind));
    const bool onDevice = kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDeviceToHost) sleepUntil(endOf(stream));
    memmove(to, from, bytes);
    emulatedLaunch(stream, COPY_MS + bytes / (onDevice ? DEVICE_BYTES_PER_MS : LINK_BYTES_PER_MS));
    if (onDevice) record([=] { memmove(to, from, bytes); });
    return state();
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) { memmove(to, from, bytes); return state(); }
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) { memset(to, value, bytes); return state(); }
cudaError_t cudaMemset(void *to, int value, size_t bytes) { memset(to, value, bytes); return state(); }

// ---- streams and events ----

cudaError_t cudaStreamCreate(cudaStream_t *stream) { *stream = static_cast<cudaStream_t>(malloc(8)); return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamGetPriority(cudaStream_t, int *priority) { *priority = 0; return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return now() >= endOf(stream) - 1e-6 ? state() : cudaErrorNotReady; }

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    note("cudaStreamSynchronize");
    if (capturing) return cudaErrorStreamCaptureUnsupported;
    sleepUntil(endOf(stream));
    return state();
}

cudaError_t cudaDeviceSynchronize() {
    note("cudaDeviceSynchronize");
    double last = 0;
    {
        std::lock_guard<std::recursive_mutex> lock(ofStreams);
        for (const auto &[stream, end] : busyUntil) last = std::max(last, end);
    }
    sleepUntil(last);
    return state();
}

struct Event {
    double time = 0;
};

static double &timeOf(cudaEvent_t event) { return reinterpret_cast<Event *>(event)->time; }

cudaError_t cudaEventCreate(cudaEvent_t *event) { *event = reinterpret_cast<cudaEvent_t>(new Event); return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { delete reinterpret_cast<Event *>(event); return cudaSuccess; }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    note("cudaEventRecord %p", static_cast<void *>(event));
    timeOf(event) = endOf(stream);
    if (!capturing) emulatedLaunch(stream, EVENT_MS);
    return state();
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) { return cudaEventRecord(event, stream); }
cudaError_t cudaEventQuery(cudaEvent_t event) { return now() >= timeOf(event) ? state() : cudaErrorNotReady; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { note("cudaEventSynchronize"); sleepUntil(timeOf(event)); return state(); }

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    note("cudaEventElapsedTime %p %p", static_cast<void *>(start), static_cast<void *>(end));
    *ms = static_cast<float>(timeOf(end) - timeOf(start));
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    std::lock_guard<std::recursive_mutex> lock(ofStreams);
    if (!capturing) busyUntil[stream] = std::max(busyUntil[stream], timeOf(event));
    return state();
}

cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void *data) { function(data); return cudaSuccess; }

// ---- kernels ----

static std::unordered_map<const void *, std::string> kernels;  // names by address

static cudaError_t launch(const void *kernel, void **arguments, void *stream) {
    const auto found = kernels.find(kernel);
    const std::string name = found == kernels.end() ? "?" : found->second;
    const bool spins = name.find("spin_kernel") != std::string::npos;
    const double ms = spins ? *static_cast<long long *>(arguments[0]) / SPIN_CYCLES_PER_MS : KERNEL_MS;
    note("kernel %.60s %.3f ms", name.c_str(), ms);
    emulatedLaunch(stream, ms);
    return state();
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3, dim3, void **arguments, size_t, cudaStream_t stream) {
    return launch(kernel, arguments, stream);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void **arguments, size_t, cudaStream_t stream) {
    return launch(reinterpret_cast<const void *>(kernel), arguments, stream);
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
    *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void *>(function));
    return cudaSuccess;
}

void __cudaRegisterFunction(void **, const char *host, char *, const char *name, int, void *, void *, void *, void *, int *) {
    kernels[host] = name;
}

void **__cudaRegisterFatBinary(void *) {
    static void *handle[1];
    return handle;
}

static thread_local struct { dim3 grid, block; size_t shared; void *stream; } configuration;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
    configuration = {grid, block, shared, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    *grid = configuration.grid;
    *block = configuration.block;
    *shared = configuration.shared;
    *static_cast<void **>(stream) = configuration.stream;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *found, const void *) {
    memset(found, 0, sizeof *found);
    found->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *, int, size_t, unsigned) {
    *blocks = 1;
    return cudaSuccess;
}

// ---- graphs ----

static Graph *graphOf(void *graph) { return static_cast<Graph *>(graph); }

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    note("cudaStreamBeginCapture");
    capturedStream = stream;
    capturing = new Graph;
    ++captures;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph) {
    note("cudaStreamEndCapture %zu", capturing->work.size());
    *graph = reinterpret_cast<cudaGraph_t>(capturing);
    capturing = nullptr;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    *status = capturing && stream == capturedStream ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
    const cudaGraphNode_t **, const cudaGraphEdgeData **, size_t *) {
    cudaStreamIsCapturing(stream, status);
    if (id) *id = *status == cudaStreamCaptureStatusActive ? captures : 0;
    if (graph) *graph = reinterpret_cast<cudaGraph_t>(capturing);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long) {
    *made = reinterpret_cast<cudaGraphExec_t>(new Graph(*graphOf(graph)));
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiate(made, graph, flags);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *, size_t *count) {
    *count = graphOf(graph)->work.size();
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    note("cudaGraphLaunch");
    for (const auto &again : graphOf(graph)->work) again();
    emulatedLaunch(stream, graphOf(graph)->ms);
    return state();
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { delete graphOf(graph); return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { delete graphOf(graph); return cudaSuccess; }

// ---- errors and the driver ----

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
        case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
        case cudaErrorDevicesUnavailable: return "cudaErrorDevicesUnavailable";
        default: return "cudaErrorOfTheEmulator";
    }
}

const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaErrorMemoryAllocation: return "out of memory";
        case cudaErrorInvalidDevice: return "invalid device ordinal";
        case cudaErrorNoDevice: return "no CUDA-capable device is detected";
        case cudaErrorDevicesUnavailable: return "CUDA-capable device(s) is/are busy or unavailable";
        case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
        default: return "an error of the emulator";
    }
}

static int isNotSupported() { return 801; }  // CUDA_ERROR_NOT_SUPPORTED

// Gives the functions of driver.c, and for the others one that refuses: torch asks for all that it may ever need at once.
cudaError_t cudaGetDriverEntryPointByVersion(
    const char *symbol, void **function, unsigned, unsigned long long, cudaDriverEntryPointQueryResult *result) {
    static void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    void *found = driver ? dlsym(driver, symbol) : nullptr;
    *function = found ? found : reinterpret_cast<void *>(isNotSupported);
    if (result) *result = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

}  // extern "C"
