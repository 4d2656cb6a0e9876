// The threads of one engine's CPU kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "cpu/range.hpp"

namespace deepinfer::cpu {

// Elementwise work below this many elements is not worth a second thread.
inline constexpr int64_t kGrainElements = 1 << 14;

// Splits ranges over a fixed number of threads, the caller being one of them. Who computes which item never changes a
// result: an item is computed whole by one thread. One call at a time; the caller waits for its end, but not for
// threads that come too late to find work. A thread without work looks for some for a while before it goes to sleep, so
// that it is there for the next op and, between two steps, for the next step.
class ThreadPool {
  public:
    // Throws std::invalid_argument unless 1 <= num_threads <= 1024.
    explicit ThreadPool(int num_threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

    // Calls body(Range) or body(Range, thread) for parts of [0, num_items) until all are done; a part has at least
    // `grain` items but for the last. Runs on the caller alone when there is only one part. `thread` is 0 (the caller)
    // to num_threads() - 1. The first exception of a part is thrown again here.
    template <typename Body>
    void for_ranges(int64_t num_items, int64_t grain, const Body& body) {
        if (num_items <= 0) return;
        if (workers_.empty() || num_items <= grain) return call(body, Range{0, num_items}, 0);
        run({[](const void* closure, Range part, int thread) {
                 call(*static_cast<const Body*>(closure), part, thread);
             },
             &body, num_items, grain});
    }

  private:
    template <typename Body>
    static void call(const Body& body, Range part, int thread) {
        if constexpr (std::is_invocable_v<const Body&, Range, int>)
            body(part, thread);
        else
            body(part);
    }

    struct Job {
        void (*call)(const void*, Range, int) = nullptr;
        const void* closure = nullptr;
        int64_t num_items = 0;
        int64_t grain = 1;
    };

    // State of the pool in one word: the number of workers inside the job, whether more may enter, and the number of
    // the job (which wraps: a worker that slept through all others misses one job).
    static constexpr uint32_t kInside = 0xFFFF;
    static constexpr uint32_t kOpen = kInside + 1;
    static constexpr uint32_t kNextJob = kOpen << 1;
    static uint32_t job_number(uint32_t state) { return state / kNextJob; }

    // A forked child has none of its parent's threads; its jobs do well without.
    bool is_in_forked_child() const;
    void run(const Job& job);
    void work(int thread);
    uint32_t wait_for_job(uint32_t seen);
    bool enter(uint32_t& state);
    void leave();
    void wait_until_left();
    void take_parts(const Job& job, int thread);

    int process_;
    std::vector<std::thread> workers_;
    std::mutex error_mutex_;
    std::exception_ptr error_;
    std::atomic<int> num_asleep_{0};
    std::atomic<bool> caller_sleeps_{false};
    std::atomic<bool> stops_{false};
    // What a worker needs to begin comes in one cache line.
    alignas(64) std::atomic<uint32_t> state_{0};
    Job job_;  // written while nobody is inside and nobody may enter
    std::atomic<int64_t> next_{0};
};

}  // namespace deepinfer::cpu
