// Module deepinfer._C: the scheduler core and the CPU kernels for Python. Conversion only, never a decision.
#include "bindings/bindings.hpp"

PYBIND11_MODULE(_C, m) {
    m.doc() = "Scheduler core and CPU kernels of DeepInfer.";
    deepinfer::bind_scheduler_config(m);
    deepinfer::bind_sequence_spec(m);
    deepinfer::bind_step_estimator(m);
    deepinfer::bind_scheduler_stats(m);
    deepinfer::bind_step_plan(m);
    deepinfer::bind_step_update(m);
    deepinfer::bind_draft_calibration(m);
    deepinfer::bind_scheduler(m);

    pybind11::module_ cpu = m.def_submodule("cpu", "CPU kernels.");
    deepinfer::bind_cpu_context(cpu);
    deepinfer::bind_cpu_weight_stack(cpu);
    deepinfer::bind_cpu_matmul(cpu);
    deepinfer::bind_cpu_moe(cpu);
    deepinfer::bind_cpu_vectors(cpu);
    deepinfer::bind_cpu_attention(cpu);
    deepinfer::bind_cpu_engram(cpu);
    deepinfer::bind_cpu_hyper_connections(cpu);
    deepinfer::bind_cpu_sampling(cpu);
    deepinfer::bind_cpu_selection(cpu);
    deepinfer::bind_cpu_model_config(cpu);
    deepinfer::bind_cpu_tensors(cpu);
    deepinfer::bind_cpu_row_sampler(cpu);
    deepinfer::bind_cpu_model(cpu);
    deepinfer::bind_cpu_decoder(cpu);
}
