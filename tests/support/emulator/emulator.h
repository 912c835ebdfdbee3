// What the emulated CUDA runtime and the emulated NCCL share.

#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <unistd.h>

extern "C" void emulatedLaunch(void *stream, double ms);  // a kernel that keeps a stream busy
extern "C" int emulatedCapturing();
void record(std::function<void()> work);  // adds to the graph that is captured, if any

static inline int number(const char *variable, int otherwise) {
    const char *text = getenv(variable);
    return text && *text ? atoi(text) : otherwise;
}

// Adds a line to $EMULATED_CALLS.PID, where calls are to be seen.
__attribute__((format(printf, 1, 2))) static inline void note(const char *format, ...) {
    static FILE *file = [] {
        const char *path = getenv("EMULATED_CALLS");
        FILE *opened = path ? fopen((std::string(path) + "." + std::to_string(getpid())).c_str(), "a") : nullptr;
        if (opened) setvbuf(opened, nullptr, _IOLBF, 0);
        return opened;
    }();
    if (!file) return;
    va_list arguments;
    va_start(arguments, format);
    char line[256];
    vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    fputs(strcat(line, "\n"), file);  // at once, because threads write beside each other
}
