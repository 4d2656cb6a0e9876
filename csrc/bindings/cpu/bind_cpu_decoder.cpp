// Decoder: a decode step as one call, from the scheduler's plan to values.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <span>
#include <tuple>

#include "bindings/bindings.hpp"
#include "core/step_plan.hpp"
#include "cpu/model/decoder.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

cpu::StepInput step_input(const StepPlan& plan) {
    return {.num_seqs = plan.num_seqs(),
            .num_rows = plan.num_tokens(),
            .num_lookback = plan.num_lookback,
            .keeps_draft_context = plan.keeps_draft_context,
            .cu_seqlens_q = plan.cu_seqlens_q.data(),
            .context_lens = plan.context_lens.data(),
            .state_slots = plan.state_slots.data(),
            .block_ids = plan.block_ids.data(),
            .cu_blocks = plan.cu_blocks.data(),
            .token_ids = plan.token_ids.data(),
            .lookback_ids = plan.lookback_ids.data(),
            .window_starts = plan.window_starts.data(),
            .entry_starts = plan.entry_starts.data(),
            .consumer_starts = plan.consumer_starts.data()};
}

// Decoding sequences alone, and nothing to be done before their rows.
bool is_plain(const StepPlan& plan) {
    return plan.kind == StepKind::kDecode && plan.fork_seq_ids.empty() && plan.slot_copies.empty() &&
           plan.block_copies.empty() && std::ranges::find(plan.samples, 0) == plan.samples.end();
}

template <typename To, typename From>
py::array_t<To> matrix_of(std::span<const From> values, py::ssize_t num_rows) {
    py::array_t<To> array({num_rows, std::ssize(values) / std::max<py::ssize_t>(num_rows, 1)});
    std::ranges::transform(values, array.mutable_data(), [](From value) { return static_cast<To>(value); });
    return array;
}

py::object decode(cpu::Decoder& decoder, const StepPlan& plan, int64_t num_new_drafts, int64_t max_positions) {
    if (!is_plain(plan)) return py::none();
    const cpu::DecodeInput input{.step = step_input(plan),
                                 .seq_ids = plan.seq_ids.data(),
                                 .num_drafts = plan.num_drafts.data(),
                                 .output_indices = plan.output_indices.data(),
                                 .num_new_drafts = plan.make_drafts ? num_new_drafts : 0,
                                 .max_positions = max_positions};
    cpu::DecodeResult result;
    bool is_done = false;
    {
        const py::gil_scoped_release release;
        is_done = decoder.decode(input, result);
    }
    if (!is_done) return py::none();
    py::object ids = py::none(), scores = py::none();
    if (input.num_new_drafts > 0) {
        ids = matrix_of<int32_t, int64_t>(result.draft_ids, plan.num_seqs());
        scores = matrix_of<float, float>(result.draft_scores, plan.num_seqs());
    }
    return py::make_tuple(result.tokens, ids, scores,
                          std::make_tuple(result.forward_ms, result.sample_ms, result.draft_ms));
}

}  // namespace

void bind_cpu_decoder(py::module_& m) {
    py::class_<cpu::Decoder>(m, "Decoder", "Decode steps as one call each; see deepinfer/_C/cpu.pyi.")
        .def(py::init<cpu::Context&, cpu::Model&, cpu::RowSampler&>(), py::arg("context"), py::arg("model"),
             py::arg("sampler"), py::keep_alive<1, 2>(), py::keep_alive<1, 3>(), py::keep_alive<1, 4>())
        .def("decode", &decode, py::arg("plan"), py::arg("num_new_drafts"), py::arg("max_positions"));
}

}  // namespace deepinfer
