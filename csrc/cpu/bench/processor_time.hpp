// How long a call takes.
#pragma once

#include <algorithm>
#include <ctime>
#include <functional>

namespace deepinfer::cpu {

inline double cpu_seconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Processor time of one call, the least of several measurements: other jobs of the machine count little.
inline double seconds(const std::function<void()>& call) {
    const auto measure = [&](int repeats) {
        const double begin = cpu_seconds();
        for (int i = 0; i < repeats; ++i) call();
        return cpu_seconds() - begin;
    };
    int repeats = 1;
    while (measure(repeats) < 0.005 && repeats < 1 << 24) repeats *= 2;
    double least = measure(repeats);
    for (int i = 0; i < 10; ++i) least = std::min(least, measure(repeats));
    return least / repeats;
}

}  // namespace deepinfer::cpu
