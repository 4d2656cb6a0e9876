// The threads of one engine's CPU kernels.
#pragma once

#include <atomic>
#include <condition_variable>
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
// result: an item is computed whole by one thread. One call at a time; the caller waits for its end.
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

    // A forked child has none of its parent's threads.
    bool is_in_forked_child() const;
    void run(const Job& job);
    void work(int thread);
    void take_parts(const Job& job, int thread);

    int process_;
    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable done_;
    Job job_;
    std::exception_ptr error_;
    std::atomic<int64_t> next_{0};
    std::atomic<uint64_t> generation_{0};  // jobs begun
    std::atomic<int> num_busy_{0};
    bool stops_ = false;
};

}  // namespace deepinfer::cpu
