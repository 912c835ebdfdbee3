// NCCL between processes of one host, over shared memory and on the host: a call returns when its data has arrived.
//
// The ranks of a communicator share a header, a slot per rank for collectives, and a box per pair for messages.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <vector>

#include "emulator.h"

namespace {

constexpr size_t PAGE = 4096, SLOT = 4 << 20, BOX = 256 << 10;
constexpr double COLLECTIVE_MS = 0.012, BYTES_PER_MS = 2e8;
constexpr int WAITS = 6000;  // of 10 ms, for the other ranks of a communicator

size_t wholePages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

struct Header {
    std::atomic<uint32_t> entered, generation;
};

struct Box {
    std::atomic<uint32_t> isFull;
    uint32_t bytes;
    char data[BOX];
};

}  // namespace

struct ncclComm {
    int size, rank;
    char *memory;

    static size_t bytesOf(int size) { return PAGE + size * SLOT + wholePages(sizeof(Box)) * size * size; }
    Header *header() const { return reinterpret_cast<Header *>(memory); }
    char *slot(int rank) const { return memory + PAGE + rank * SLOT; }
    Box *box(int from, int to) const {
        return reinterpret_cast<Box *>(memory + PAGE + size * SLOT + wholePages(sizeof(Box)) * (from * size + to));
    }
    void barrier() const {
        const uint32_t generation = header()->generation;
        if (header()->entered.fetch_add(1) + 1 == static_cast<uint32_t>(size)) {
            header()->entered = 0;
            ++header()->generation;
        } else {
            while (header()->generation == generation) sched_yield();
        }
    }
};

namespace {

// ---- numbers ----

size_t bytesOf(ncclDataType_t type) {
    switch (type) {
        case ncclFloat16: case ncclBfloat16: return 2;
        case ncclInt32: case ncclUint32: case ncclFloat32: return 4;
        case ncclInt64: case ncclUint64: case ncclFloat64: return 8;
        default: return 1;
    }
}

float ofHalf(uint16_t bits) { _Float16 value; memcpy(&value, &bits, 2); return static_cast<float>(value); }
uint16_t toHalf(float number) { _Float16 value = static_cast<_Float16>(number); uint16_t bits; memcpy(&bits, &value, 2); return bits; }
float ofBrain(uint16_t bits) { const uint32_t wide = static_cast<uint32_t>(bits) << 16; float value; memcpy(&value, &wide, 4); return value; }

uint16_t toBrain(float number) {
    uint32_t bits;
    memcpy(&bits, &number, 4);
    if (std::isnan(number)) return 0x7fc0;
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to the nearest, ties to even
}

template <class T> T combined(T one, T other, ncclRedOp_t op) {
    switch (op) {
        case ncclProd: return one * other;
        case ncclMax: return std::max(one, other);
        case ncclMin: return std::min(one, other);
        default: return one + other;  // a sum, also for an average
    }
}

template <class Stored, class T = Stored>
void reduceAs(const ncclComm *ranks, char *out, size_t count, ncclRedOp_t op,
              T (*read)(Stored) = [](Stored value) { return static_cast<T>(value); },
              Stored (*written)(T) = [](T value) { return static_cast<Stored>(value); }) {
    for (size_t i = 0; i < count; ++i) {
        T value = read(reinterpret_cast<Stored *>(ranks->slot(0))[i]);
        for (int rank = 1; rank < ranks->size; ++rank)
            value = combined(value, read(reinterpret_cast<Stored *>(ranks->slot(rank))[i]), op);
        if (op == ncclAvg) value = value / static_cast<T>(ranks->size);
        reinterpret_cast<Stored *>(out)[i] = written(value);
    }
}

// Reduces what is in the slots of all ranks.
void reduceSlots(const ncclComm *ranks, char *out, size_t count, ncclDataType_t type, ncclRedOp_t op) {
    switch (type) {
        case ncclInt8: return reduceAs<int8_t>(ranks, out, count, op);
        case ncclInt32: return reduceAs<int32_t>(ranks, out, count, op);
        case ncclUint32: return reduceAs<uint32_t>(ranks, out, count, op);
        case ncclInt64: return reduceAs<int64_t>(ranks, out, count, op);
        case ncclUint64: return reduceAs<uint64_t>(ranks, out, count, op);
        case ncclFloat32: return reduceAs<float>(ranks, out, count, op);
        case ncclFloat64: return reduceAs<double>(ranks, out, count, op);
        case ncclFloat16: return reduceAs<uint16_t, float>(ranks, out, count, op, ofHalf, toHalf);
        case ncclBfloat16: return reduceAs<uint16_t, float>(ranks, out, count, op, ofBrain, toBrain);
        default: return reduceAs<uint8_t>(ranks, out, count, op);
    }
}

// ---- groups: what is called between ncclGroupStart and ncclGroupEnd runs at the end, messages together ----

struct Message {
    ncclComm *ranks;
    bool isSent;
    int peer;
    char *data;
    size_t left;
};

thread_local int depth = 0;
thread_local std::vector<std::function<void()>> collectives;
thread_local std::vector<Message> messages;

bool move(Message &message) {
    ncclComm *ranks = message.ranks;
    Box *box = message.isSent ? ranks->box(ranks->rank, message.peer) : ranks->box(message.peer, ranks->rank);
    if (box->isFull.load(std::memory_order_acquire) == message.isSent) return false;
    const size_t bytes = message.isSent ? std::min(message.left, BOX) : box->bytes;
    if (message.isSent) {
        memcpy(box->data, message.data, bytes);
        box->bytes = bytes;
    } else {
        memcpy(message.data, box->data, bytes);
    }
    box->isFull.store(message.isSent, std::memory_order_release);
    message.data += bytes;
    message.left -= bytes;
    return true;
}

// Moves all messages; those of one pair and direction one after the other, as they were called.
void exchange(std::vector<Message> pending) {
    while (!pending.empty()) {
        bool hasMoved = false;
        std::vector<const Message *> first;
        for (Message &message : pending) {
            const bool waits = std::any_of(first.begin(), first.end(), [&](const Message *other) {
                return other->ranks == message.ranks && other->peer == message.peer && other->isSent == message.isSent;
            });
            if (waits) continue;
            first.push_back(&message);
            hasMoved |= move(message);
        }
        pending.erase(std::remove_if(pending.begin(), pending.end(), [](const Message &each) { return !each.left; }), pending.end());
        if (!hasMoved) sched_yield();
    }
}

void run(std::function<void()> work) {
    if (emulatedCapturing())
        record(std::move(work));
    else
        work();
}

void runGroup() {
    for (auto &each : collectives) run(std::move(each));
    collectives.clear();
    if (!messages.empty()) run([pending = std::move(messages)] { exchange(pending); });
    messages.clear();
}

void occupy(cudaStream_t stream, size_t bytes) { emulatedLaunch(stream, COLLECTIVE_MS + bytes / BYTES_PER_MS); }

ncclResult_t collective(const char *name, size_t bytes, cudaStream_t stream, std::function<void()> work) {
    note("%s %zu", name, bytes);
    occupy(stream, bytes);
    if (depth)
        collectives.push_back(std::move(work));
    else
        run(std::move(work));
    return ncclSuccess;
}

ncclResult_t message(bool isSent, const void *data, size_t bytes, int peer, ncclComm_t ranks, cudaStream_t stream) {
    note("%s %zu, peer %d of %d", isSent ? "send" : "receive", bytes, peer, ranks->size);
    occupy(stream, bytes);
    if (!bytes) return ncclSuccess;
    messages.push_back({ranks, isSent, peer, static_cast<char *>(const_cast<void *>(data)), bytes});
    if (!depth) runGroup();
    return ncclSuccess;
}

// Calls `part(offset, bytes)` for parts that fit into a slot, with all ranks' slots filled by `fill`.
void inSlots(const ncclComm *ranks, size_t bytes, size_t item, const std::function<void(size_t, size_t)> &fill,
             const std::function<void(size_t, size_t)> &part) {
    const size_t most = SLOT / item * item;
    for (size_t offset = 0; offset < bytes; offset += most) {
        const size_t length = std::min(most, bytes - offset);
        fill(offset, length);
        ranks->barrier();
        part(offset, length);
        ranks->barrier();
    }
}

char *shared(const char *name, int size, bool creates) {
    const size_t bytes = ncclComm::bytesOf(size);
    int file = -1;
    for (int wait = 0; wait < WAITS && file < 0; ++wait) {
        file = shm_open(name, creates ? O_RDWR | O_CREAT : O_RDWR, 0600);
        if (file < 0) usleep(10000);
    }
    if (file < 0 || (creates && ftruncate(file, bytes))) return nullptr;
    struct stat found = {};
    for (int wait = 0; wait < WAITS && static_cast<size_t>(found.st_size) < bytes; ++wait) {
        fstat(file, &found);
        if (static_cast<size_t>(found.st_size) < bytes) usleep(10000);
    }
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? nullptr : static_cast<char *>(memory);
}

std::atomic<int> allReduces{0};

}  // namespace

extern "C" {

// ---- communicators ----

ncclResult_t ncclGetVersion(int *version) { *version = 23007; return ncclSuccess; }

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    static std::atomic<int> number{0};
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/benchkit-emulated-%d-%ld-%d", getpid(), t.tv_nsec, number++);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *made, int size, ncclUniqueId id, int rank, ncclConfig_t *) {
    note("ncclCommInitRank rank %d of %d", rank, size);
    auto *ranks = new ncclComm{size, rank, shared(id.internal, size, rank == 0)};
    if (!ranks->memory) return ncclSystemError;
    int own;
    cudaGetDevice(&own);
    cudaDeviceGetPCIBusId(ranks->slot(rank), 32, own);
    char host[32] = {};  // each network namespace is a host
    if (readlink("/proc/self/ns/net", host, sizeof host - 1) > 0) strcat(ranks->slot(rank), host);
    ranks->barrier();
    bool isShared = false;
    for (int other = 0; other < size; ++other)
        isShared |= other != rank && !strcmp(ranks->slot(other), ranks->slot(rank)) && !getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    ranks->barrier();
    if (rank == 0) shm_unlink(id.internal);
    *made = ranks;
    if (isShared) fprintf(stderr, "Duplicate GPU detected\n");
    return isShared ? ncclInvalidUsage : ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *made, int size, ncclUniqueId id, int rank) {
    return ncclCommInitRankConfig(made, size, id, rank, nullptr);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t *made, int size, int rank, int, ncclUniqueId *ids, ncclConfig_t *config) {
    return ncclCommInitRankConfig(made, size, ids[0], rank, config);
}

ncclResult_t ncclCommCount(const ncclComm_t ranks, int *size) { *size = ranks->size; return ncclSuccess; }
ncclResult_t ncclCommUserRank(const ncclComm_t ranks, int *rank) { *rank = ranks->rank; return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t) { note("ncclCommDestroy"); return ncclSuccess; }
ncclResult_t ncclCommAbort(ncclComm_t) { note("ncclCommAbort"); return ncclSuccess; }

ncclResult_t ncclCommGetAsyncError(ncclComm_t ranks, ncclResult_t *error) {
    static const int at = number("EMULATED_ERROR_AT", -1);
    *error = at >= 0 && allReduces >= at && ranks->rank == 1 ? ncclRemoteError : ncclSuccess;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
    switch (result) {
        case ncclSuccess: return "no error";
        case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
        case ncclRemoteError: return "remote process exited or there was a network error";
        default: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    }
}

const char *ncclGetLastError(ncclComm_t) { return "a link of the emulated network is down"; }

ncclResult_t ncclGroupStart() { ++depth; return ncclSuccess; }

ncclResult_t ncclGroupEnd() {
    if (--depth == 0) runGroup();
    return ncclSuccess;
}

// ---- collectives ----

ncclResult_t ncclAllReduce(
    const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t ranks, cudaStream_t stream) {
    static const int hanging = number("EMULATED_HANG_AT", -1);
    const size_t item = bytesOf(type), bytes = count * item;
    if (++allReduces == hanging) {
        emulatedLaunch(stream, 1e9);
        return ncclSuccess;
    }
    return collective("all_reduce", bytes, stream, [=] {
        std::vector<char> result;
        inSlots(
            ranks, bytes, item,
            [&](size_t offset, size_t length) { memcpy(ranks->slot(ranks->rank), static_cast<const char *>(in) + offset, length); },
            [&](size_t offset, size_t length) {
                result.resize(length);
                reduceSlots(ranks, result.data(), length / item, type, op);
                memcpy(static_cast<char *>(out) + offset, result.data(), length);
            });
    });
}

ncclResult_t ncclReduce(
    const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t ranks, cudaStream_t stream) {
    const size_t item = bytesOf(type), bytes = count * item;
    return collective("reduce", bytes, stream, [=] {
        inSlots(
            ranks, bytes, item,
            [&](size_t offset, size_t length) { memcpy(ranks->slot(ranks->rank), static_cast<const char *>(in) + offset, length); },
            [&](size_t offset, size_t length) {
                if (ranks->rank == root) reduceSlots(ranks, static_cast<char *>(out) + offset, length / item, type, op);
            });
    });
}

ncclResult_t ncclBroadcast(
    const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t ranks, cudaStream_t stream) {
    const size_t bytes = count * bytesOf(type);
    return collective("broadcast", bytes, stream, [=] {
        inSlots(
            ranks, bytes, 1,
            [&](size_t offset, size_t length) {
                if (ranks->rank == root) memcpy(ranks->slot(root), static_cast<const char *>(in) + offset, length);
            },
            [&](size_t offset, size_t length) { memcpy(static_cast<char *>(out) + offset, ranks->slot(root), length); });
    });
}

ncclResult_t ncclBcast(void *data, size_t count, ncclDataType_t type, int root, ncclComm_t ranks, cudaStream_t stream) {
    return ncclBroadcast(data, data, count, type, root, ranks, stream);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t ranks, cudaStream_t stream) {
    const size_t bytes = count * bytesOf(type);
    return collective("all_gather", bytes, stream, [=] {
        inSlots(
            ranks, bytes, 1,
            [&](size_t offset, size_t length) { memcpy(ranks->slot(ranks->rank), static_cast<const char *>(in) + offset, length); },
            [&](size_t offset, size_t length) {
                for (int rank = 0; rank < ranks->size; ++rank)
                    memcpy(static_cast<char *>(out) + rank * bytes + offset, ranks->slot(rank), length);
            });
    });
}

ncclResult_t ncclReduceScatter(
    const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t ranks, cudaStream_t stream) {
    const size_t item = bytesOf(type), bytes = count * item;
    return collective("reduce_scatter", bytes, stream, [=] {
        for (int owner = 0; owner < ranks->size; ++owner)
            inSlots(
                ranks, bytes, item,
                [&](size_t offset, size_t length) {
                    memcpy(ranks->slot(ranks->rank), static_cast<const char *>(in) + owner * bytes + offset, length);
                },
                [&](size_t offset, size_t length) {
                    if (ranks->rank == owner) reduceSlots(ranks, static_cast<char *>(out) + offset, length / item, type, op);
                });
    });
}

// ---- messages ----

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t ranks, cudaStream_t stream) {
    return message(true, data, count * bytesOf(type), peer, ranks, stream);
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t ranks, cudaStream_t stream) {
    return message(false, data, count * bytesOf(type), peer, ranks, stream);
}

ncclResult_t ncclAlltoAll(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t ranks, cudaStream_t stream) {
    const size_t bytes = count * bytesOf(type);
    ncclGroupStart();
    for (int peer = 0; peer < ranks->size; ++peer) {
        ncclSend(static_cast<const char *>(in) + peer * bytes, count, type, peer, ranks, stream);
        ncclRecv(static_cast<char *>(out) + peer * bytes, count, type, peer, ranks, stream);
    }
    return ncclGroupEnd();
}

ncclResult_t ncclGather(
    const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t ranks, cudaStream_t stream) {
    const size_t bytes = count * bytesOf(type);
    ncclGroupStart();
    ncclSend(in, count, type, root, ranks, stream);
    for (int peer = 0; ranks->rank == root && peer < ranks->size; ++peer)
        ncclRecv(static_cast<char *>(out) + peer * bytes, count, type, peer, ranks, stream);
    return ncclGroupEnd();
}

ncclResult_t ncclScatter(
    const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t ranks, cudaStream_t stream) {
    const size_t bytes = count * bytesOf(type);
    ncclGroupStart();
    for (int peer = 0; ranks->rank == root && peer < ranks->size; ++peer)
        ncclSend(static_cast<const char *>(in) + peer * bytes, count, type, peer, ranks, stream);
    ncclRecv(out, count, type, root, ranks, stream);
    return ncclGroupEnd();
}

}  // extern "C"
