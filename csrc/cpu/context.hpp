// What every CPU op of one engine runs with: its threads and the kernels for this machine.
#pragma once

#include "cpu/isa.hpp"
#include "cpu/kernel_table.hpp"
#include "cpu/scratch_pool.hpp"
#include "cpu/thread_pool.hpp"

namespace deepinfer::cpu {

class Context {
  public:
    // Throws std::invalid_argument for a wrong number of threads or an instruction set that is not supported here.
    Context(int num_threads, Isa isa)
        : isa_(isa), kernels_(kernel_table(isa)), pool_(num_threads), scratch_(num_threads) {}

    Isa isa() const { return isa_; }
    const KernelTable& kernels() const { return kernels_; }
    ThreadPool& pool() { return pool_; }
    ScratchPool& scratch() { return scratch_; }

  private:
    Isa isa_;
    const KernelTable& kernels_;
    ThreadPool pool_;
    ScratchPool scratch_;
};

}  // namespace deepinfer::cpu
