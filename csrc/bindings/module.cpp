// Module deepinfer._C: the scheduler core for Python. Conversion only; every decision is in csrc/core.
#include "bindings/bindings.hpp"

PYBIND11_MODULE(_C, m) {
    m.doc() = "Scheduler core of DeepInfer.";
    deepinfer::bind_scheduler_config(m);
    deepinfer::bind_sequence_spec(m);
    deepinfer::bind_scheduler_stats(m);
    deepinfer::bind_step_plan(m);
    deepinfer::bind_step_update(m);
    deepinfer::bind_scheduler(m);
}
