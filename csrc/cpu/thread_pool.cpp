#include "cpu/thread_pool.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

namespace deepinfer::cpu {

namespace {

constexpr int kMaxThreads = 1024;
constexpr int kSpins = 500;                          // looks at a flag, some microseconds, between two ops
constexpr std::chrono::microseconds kPatience{200};  // then others may run in between, from one step to the next

// Whether `is_done` came true within a short time.
template <typename Condition>
bool spin_until(const Condition& is_done) {
    for (int i = 0; i < kSpins; ++i) {
        if (is_done()) return true;
        __builtin_ia32_pause();
    }
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
        if (is_done()) return true;
        std::this_thread::yield();
    }
    return false;
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) : process_(getpid()) {
    if (num_threads < 1 || num_threads > kMaxThreads)
        throw std::invalid_argument("num_threads = " + std::to_string(num_threads) + ": expected 1 to 1024");
    for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
    if (is_in_forked_child()) {
        for (std::thread& worker : workers_) worker.detach();  // there is nobody to wait for
        return;
    }
    stops_.store(true);
    state_.fetch_add(kNextJob);
    state_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

bool ThreadPool::is_in_forked_child() const {
    return getpid() != process_;
}

void ThreadPool::run(const Job& job) {
    job_ = job;
    error_ = nullptr;
    next_.store(0);
    state_.store((job_number(state_.load()) + 1) * kNextJob + kOpen);
    if (num_asleep_.load() != 0) state_.notify_all();
    take_parts(job, 0);
    state_.fetch_and(~kOpen);
    wait_until_left();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::wait_until_left() {
    const auto has_left = [this] { return (state_.load() & kInside) == 0; };
    if (spin_until(has_left)) return;
    caller_sleeps_.store(true);
    for (uint32_t state; ((state = state_.load()) & kInside) != 0;) state_.wait(state);
    caller_sleeps_.store(false);
}

void ThreadPool::work(int thread) {
    uint32_t state = 0;
    while (true) {
        state = wait_for_job(state);
        if (stops_.load()) return;
        if (!enter(state)) continue;
        take_parts(job_, thread);
        leave();
    }
}

// The state with another job than that of `seen`.
uint32_t ThreadPool::wait_for_job(uint32_t seen) {
    uint32_t state = seen;
    const auto has_come = [&] { return job_number(state = state_.load()) != job_number(seen); };
    if (spin_until(has_come)) return state;
    num_asleep_.fetch_add(1);
    while (!has_come()) state_.wait(state);
    num_asleep_.fetch_sub(1);
    return state;
}

// Whether this worker is inside the job now; if not, the job is over. `state` is brought up to date.
bool ThreadPool::enter(uint32_t& state) {
    while ((state & kOpen) != 0)
        if (state_.compare_exchange_weak(state, state + 1)) return true;
    return false;
}

void ThreadPool::leave() {
    const uint32_t before = state_.fetch_sub(1);
    if ((before & kInside) == 1 && caller_sleeps_.load()) state_.notify_all();
}

void ThreadPool::take_parts(const Job& job, int thread) {
    try {
        for (int64_t begin; (begin = next_.fetch_add(job.grain)) < job.num_items;)
            job.call(job.closure, Range{begin, std::min(begin + job.grain, job.num_items)}, thread);
    } catch (...) {
        std::lock_guard lock(error_mutex_);
        if (!error_) error_ = std::current_exception();
        next_.store(job.num_items);
    }
}

}  // namespace deepinfer::cpu
