// Decoder: the end of a decode step as one call, from the scheduler's plan to values.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <span>
#include <tuple>

#include "bindings/bindings.hpp"
#include "bindings/cpu/step_input.hpp"
#include "core/step_plan.hpp"
#include "cpu/model/decoder.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

// Decoding sequences alone, each of which gives tokens.
bool is_plain(const StepPlan& plan) {
    return plan.kind == StepKind::kDecode && plan.fork_seq_ids.empty() &&
           std::ranges::find(plan.samples, 0) == plan.samples.end();
}

cpu::DecodeInput decode_input(const StepPlan& plan, int64_t num_new_drafts, int64_t max_positions) {
    return {.step = step_input(plan),
            .seq_ids = plan.seq_ids.data(),
            .num_drafts = plan.num_drafts.data(),
            .output_indices = plan.output_indices.data(),
            .num_new_drafts = plan.make_drafts ? num_new_drafts : 0,
            .max_positions = max_positions};
}

bool takes(const cpu::Decoder& decoder, const StepPlan& plan) {
    return is_plain(plan) && decoder.is_plain(decode_input(plan, 0, 0));
}

template <typename To, typename From>
py::array_t<To> matrix_of(std::span<const From> values, py::ssize_t num_rows) {
    py::array_t<To> array({num_rows, std::ssize(values) / std::max<py::ssize_t>(num_rows, 1)});
    std::ranges::transform(values, array.mutable_data(), [](From value) { return static_cast<To>(value); });
    return array;
}

py::object sample(cpu::Decoder& decoder, const StepPlan& plan, int64_t num_new_drafts, int64_t max_positions) {
    const cpu::DecodeInput input = decode_input(plan, num_new_drafts, max_positions);
    cpu::DecodeResult result;
    bool is_done = false;
    {
        const py::gil_scoped_release release;
        is_done = decoder.sample(input, result);
    }
    if (!is_done) return py::none();
    py::object ids = py::none(), scores = py::none();
    if (input.num_new_drafts > 0) {
        ids = matrix_of<int32_t, int64_t>(result.draft_ids, plan.num_seqs());
        scores = matrix_of<float, float>(result.draft_scores, plan.num_seqs());
    }
    return py::make_tuple(result.tokens, ids, scores, std::make_tuple(result.sample_ms, result.draft_ms));
}

}  // namespace

void bind_cpu_decoder(py::module_& m) {
    py::class_<cpu::Decoder>(m, "Decoder", "The end of decode steps as one call each; see deepinfer/_C/cpu.pyi.")
        .def(py::init<cpu::Context&, cpu::Model&, cpu::RowSampler&>(), py::arg("context"), py::arg("model"),
             py::arg("sampler"), py::keep_alive<1, 2>(), py::keep_alive<1, 3>(), py::keep_alive<1, 4>())
        .def("takes", &takes, py::arg("plan"))
        .def("sample", &sample, py::arg("plan"), py::arg("num_new_drafts"), py::arg("max_positions"));
}

}  // namespace deepinfer
