// The parts of module deepinfer._C, one function per bound core type.
#pragma once

#include <pybind11/pybind11.h>

namespace deepinfer {

void bind_scheduler_config(pybind11::module_& m);
void bind_sequence_spec(pybind11::module_& m);
void bind_step_estimator(pybind11::module_& m);
void bind_scheduler_stats(pybind11::module_& m);
void bind_step_plan(pybind11::module_& m);
void bind_step_update(pybind11::module_& m);
void bind_draft_calibration(pybind11::module_& m);
void bind_scheduler(pybind11::module_& m);

// Into the submodule deepinfer._C.cpu.
void bind_cpu_attention(pybind11::module_& m);
void bind_cpu_context(pybind11::module_& m);
void bind_cpu_weight_stack(pybind11::module_& m);
void bind_cpu_matmul(pybind11::module_& m);
void bind_cpu_moe(pybind11::module_& m);
void bind_cpu_vectors(pybind11::module_& m);
void bind_cpu_engram(pybind11::module_& m);
void bind_cpu_hyper_connections(pybind11::module_& m);
void bind_cpu_sampling(pybind11::module_& m);
void bind_cpu_selection(pybind11::module_& m);
void bind_cpu_model_config(pybind11::module_& m);
void bind_cpu_tensors(pybind11::module_& m);
void bind_cpu_row_sampler(pybind11::module_& m);
void bind_cpu_model(pybind11::module_& m);
void bind_cpu_decoder(pybind11::module_& m);

}  // namespace deepinfer
