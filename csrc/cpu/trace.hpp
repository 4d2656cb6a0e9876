// When native calls and the ops inside them began and ended: a recorder that somebody may attach, and costs a
// comparison otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace deepinfer::cpu {

enum class SpanKind : uint8_t { kCall, kOp };

struct TraceEvent {
    const char* name;  // a literal
    SpanKind kind;
    int64_t begin_ns;  // of the monotonic clock, as Python's time.perf_counter_ns on Linux
    int64_t end_ns;
};

// Events in the order of their ends. Written by the thread that calls the ops, never by the pool's others.
class TraceRecorder {
  public:
    // Begins a recording of at most `capacity` events; all memory is taken here.
    void start(size_t capacity);
    // Ends the recording; spans that are open now are lost.
    std::vector<TraceEvent> stop();
    bool is_on() const { return is_on_; }
    void add(const TraceEvent& event) noexcept;
    // Events beyond the capacity, since `start`.
    int64_t num_lost() const { return num_lost_; }

  private:
    bool is_on_ = false;
    int64_t num_lost_ = 0;
    std::vector<TraceEvent> events_;
};

int64_t monotonic_ns();

// Records its own lifetime.
class TraceSpan {
  public:
    TraceSpan(TraceRecorder& recorder, SpanKind kind, const char* name)
        : recorder_(recorder), name_(name), kind_(kind), begin_ns_(recorder.is_on() ? monotonic_ns() : 0) {}
    ~TraceSpan() {
        if (begin_ns_ != 0) recorder_.add({name_, kind_, begin_ns_, monotonic_ns()});
    }
    TraceSpan(const TraceSpan&) = delete;
    TraceSpan& operator=(const TraceSpan&) = delete;

  private:
    TraceRecorder& recorder_;
    const char* name_;
    SpanKind kind_;
    int64_t begin_ns_;
};

}  // namespace deepinfer::cpu
