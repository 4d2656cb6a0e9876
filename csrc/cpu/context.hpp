// What every CPU op of one engine runs with: its threads and the kernels for this machine.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/isa.hpp"
#include "cpu/kernel_table.hpp"
#include "cpu/scratch.hpp"
#include "cpu/thread_pool.hpp"
#include "cpu/trace.hpp"

namespace deepinfer::cpu {

class Context {
  public:
    // Throws std::invalid_argument for a wrong number of threads or an instruction set that is not supported here.
    Context(int num_threads, Isa isa)
        : isa_(isa),
          kernels_(kernel_table(isa)),
          pool_(num_threads),
          scratch_(static_cast<size_t>(pool_.num_threads())) {}

    Isa isa() const { return isa_; }
    const KernelTable& kernels() const { return kernels_; }
    ThreadPool& pool() { return pool_; }
    TraceRecorder& trace() { return trace_; }
    // For the first line of an op and of a native call: traced as long as it lives.
    [[nodiscard]] TraceSpan op(const char* name) { return {trace_, SpanKind::kOp, name}; }
    [[nodiscard]] TraceSpan call(const char* name) { return {trace_, SpanKind::kCall, name}; }
    // The floats of a thread of the pool, 64-byte aligned, for the part that it works on; what they held is lost.
    float* thread_scratch(int thread, int64_t num_floats) {
        return scratch_[static_cast<size_t>(thread)].floats(num_floats);
    }
    // Likewise, for the scratch of an op whose caller keeps none; lost at the next such call.
    float* call_scratch(int64_t num_floats) { return call_scratch_.floats(num_floats); }

  private:
    Isa isa_;
    const KernelTable& kernels_;
    ThreadPool pool_;
    std::vector<Scratch> scratch_;
    Scratch call_scratch_;
    TraceRecorder trace_;
};

}  // namespace deepinfer::cpu
