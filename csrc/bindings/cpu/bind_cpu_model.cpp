// Model: the native forward pass, its head and its draft pass. Plans are read where they lie.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/cpu/step_input.hpp"
#include "cpu/model/model.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

using Ints = py::array_t<int32_t, py::array::c_style | py::array::forcecast>;
using Longs = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;

// The arrays of a plan, held while the model reads them.
struct PlanArrays {
    Ints cu_seqlens_q, context_lens, state_slots, block_ids, cu_blocks, token_ids, lookback_ids;
    Ints window_starts, entry_starts, consumer_starts;
    Longs wanted_rows;
    bool keeps_draft_context;

    PlanArrays(py::handle plan, Longs wanted)
        : cu_seqlens_q(plan.attr("cu_seqlens_q")),
          context_lens(plan.attr("context_lens")),
          state_slots(plan.attr("state_slots")),
          block_ids(plan.attr("block_ids")),
          cu_blocks(plan.attr("cu_blocks")),
          token_ids(plan.attr("token_ids")),
          lookback_ids(plan.attr("lookback_ids")),
          window_starts(plan.attr("window_starts")),
          entry_starts(plan.attr("entry_starts")),
          consumer_starts(plan.attr("consumer_starts")),
          wanted_rows(std::move(wanted)),
          keeps_draft_context(plan.attr("keeps_draft_context").cast<bool>()) {}

    cpu::StepInput input() const {
        return {.num_seqs = context_lens.size(),
                .num_rows = token_ids.size(),
                .num_lookback = lookback_ids.ndim() == 2 ? lookback_ids.shape(1) : 0,
                .num_wanted = wanted_rows.size(),
                .keeps_draft_context = keeps_draft_context,
                .cu_seqlens_q = cu_seqlens_q.data(),
                .context_lens = context_lens.data(),
                .state_slots = state_slots.data(),
                .block_ids = block_ids.data(),
                .cu_blocks = cu_blocks.data(),
                .token_ids = token_ids.data(),
                .lookback_ids = lookback_ids.data(),
                .window_starts = window_starts.data(),
                .entry_starts = entry_starts.data(),
                .consumer_starts = consumer_starts.data(),
                .wanted_rows = wanted_rows.data()};
    }
};

// A scheduler's own plan needs no conversion.
void forward_plan(cpu::Model& model, const StepPlan& plan, const Longs& wanted_rows) {
    cpu::StepInput input = step_input(plan);
    input.num_wanted = wanted_rows.size();
    input.wanted_rows = wanted_rows.data();
    const py::gil_scoped_release release;
    model.forward(input);
}

void forward(cpu::Model& model, py::handle plan, Longs wanted_rows) {
    const PlanArrays arrays(plan, std::move(wanted_rows));
    const cpu::StepInput input = arrays.input();
    const py::gil_scoped_release release;
    model.forward(input);
}

// A view of logits that lie in the model.
py::array logits_view(std::span<const float> values, py::ssize_t num_rows, py::object owner) {
    const py::ssize_t width = num_rows > 0 ? std::ssize(values) / num_rows : 0;
    return py::array(py::dtype::of<float>(), {num_rows, width}, values.data(), owner);
}

py::array logits(py::object self, const std::vector<int64_t>& wanted) {
    auto& model = self.cast<cpu::Model&>();
    std::span<const float> values;
    {
        const py::gil_scoped_release release;
        values = model.logits(wanted);
    }
    return logits_view(values, std::ssize(wanted), self);
}

cpu::DraftModel& draft_of(cpu::Model& model) {
    if (model.draft() == nullptr) throw std::invalid_argument("this model was loaded without its draft model");
    return *model.draft();
}

void run_drafts(cpu::Model& model, const std::vector<int64_t>& anchors, const std::vector<int64_t>& last_positions,
                const std::vector<int64_t>& state_slots, int64_t num_drafts) {
    if (last_positions.size() != anchors.size() || state_slots.size() != anchors.size() || num_drafts < 1)
        throw std::invalid_argument("run_drafts: anchors, last_positions and state_slots differ in their number");
    const py::gil_scoped_release release;
    draft_of(model).run({anchors, last_positions, state_slots, num_drafts});
}

py::tuple adjust(py::object self, int64_t row, const std::vector<int64_t>& previous) {
    auto& model = self.cast<cpu::Model&>();
    py::array_t<float> scores(std::ssize(previous));
    const std::span<float> into(scores.mutable_data(), previous.size());
    const std::span<const float> values = draft_of(model).adjust(row, previous, into);
    return py::make_tuple(logits_view(values, std::ssize(previous), self), scores);
}

py::tuple draw_drafts(cpu::Model& model, cpu::RowSampler& sampler, const std::vector<int64_t>& seq_ids,
                      const std::vector<int64_t>& output_indices) {
    cpu::DraftModel& draft = draft_of(model);
    const auto num_requests = draft.num_requests(), num_drafts = draft.num_drafts();
    if (std::ssize(seq_ids) != num_requests || std::ssize(output_indices) != num_requests)
        throw std::invalid_argument("draw_drafts: expected seq_ids and output_indices of the requests of run_drafts");
    py::array_t<int64_t> ids({num_requests, num_drafts});
    py::array_t<float> scores({num_requests, num_drafts});
    const std::span<int64_t> into(ids.mutable_data(), static_cast<size_t>(ids.size()));
    const std::span<float> scores_into(scores.mutable_data(), static_cast<size_t>(scores.size()));
    {
        const py::gil_scoped_release release;
        draft.draw(sampler, {seq_ids, output_indices}, into, scores_into);
    }
    return py::make_tuple(ids, scores);
}

}  // namespace

void bind_cpu_model(py::module_& m) {
    py::class_<cpu::Model>(m, "Model", "The whole model as native calls.")
        .def(py::init<cpu::Context&, cpu::ModelConfig, const cpu::TensorTable&, cpu::Caches>(), py::arg("context"),
             py::arg("config"), py::arg("tensors"), py::arg("caches"), py::keep_alive<1, 2>())
        .def("forward", &forward_plan, py::arg("plan"), py::arg("wanted_rows"))
        .def("forward", &forward, py::arg("plan"), py::arg("wanted_rows"))
        .def("logits", &logits, py::arg("wanted"))
        .def("run_drafts", &run_drafts, py::arg("anchors"), py::arg("last_positions"), py::arg("state_slots"),
             py::arg("num_drafts"))
        .def("adjust", &adjust, py::arg("row"), py::arg("previous"))
        .def("draw_drafts", &draw_drafts, py::arg("sampler"), py::arg("seq_ids"), py::arg("output_indices"));
}

}  // namespace deepinfer
