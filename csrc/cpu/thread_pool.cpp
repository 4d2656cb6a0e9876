#include "cpu/thread_pool.hpp"

#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace deepinfer::cpu {

namespace {

constexpr int kMaxThreads = 1024;
constexpr int kSpins = 2000;  // looks at a flag, some microseconds, before a thread goes to sleep

void pause() {
    __builtin_ia32_pause();
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
    {
        std::lock_guard lock(mutex_);
        stops_ = true;
        generation_.fetch_add(1);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

bool ThreadPool::is_in_forked_child() const {
    return getpid() != process_;
}

void ThreadPool::run(const Job& job) {
    if (is_in_forked_child()) return job.call(job.closure, Range{0, job.num_items}, 0);
    {
        std::lock_guard lock(mutex_);
        job_ = job;
        error_ = nullptr;
        next_.store(0);
        num_busy_.store(static_cast<int>(workers_.size()));
        generation_.fetch_add(1);
    }
    wake_.notify_all();
    take_parts(job, 0);
    for (int i = 0; i < kSpins && num_busy_.load() != 0; ++i) pause();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return num_busy_.load() == 0; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::work(int thread) {
    uint64_t seen = 0;
    while (true) {
        for (int i = 0; i < kSpins && generation_.load() == seen; ++i) pause();
        Job job;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [&] { return generation_.load() != seen; });
            seen = generation_.load();
            if (stops_) return;
            job = job_;
        }
        take_parts(job, thread);
        if (num_busy_.fetch_sub(1) == 1) {
            std::lock_guard lock(mutex_);  // the caller is either before its check or asleep
            done_.notify_one();
        }
    }
}

void ThreadPool::take_parts(const Job& job, int thread) {
    try {
        for (int64_t begin; (begin = next_.fetch_add(job.grain)) < job.num_items;)
            job.call(job.closure, Range{begin, std::min(begin + job.grain, job.num_items)}, thread);
    } catch (...) {
        std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_.store(job.num_items);
    }
}

}  // namespace deepinfer::cpu
