// Python class StepPlan. Its arrays are read-only views that keep the plan alive; the plan shares nothing.
#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "core/resolve_plan.hpp"
#include "core/step_plan.hpp"

#include <memory>

namespace py = pybind11;

namespace deepinfer {

namespace {

const char* kind_name(const StepPlan& plan) {
    switch (plan.kind) {
        case StepKind::kPrefill:
            return "prefill";
        case StepKind::kDecode:
            return "decode";
        default:
            return "empty";
    }
}

template <typename T>
auto view_of(std::vector<T> StepPlan::* field) {
    return [field](py::object self) { return array_view(self.cast<const StepPlan&>().*field, self); };
}

auto pairs_of(std::vector<int32_t> StepPlan::* field) {
    return [field](py::object self) {
        const std::vector<int32_t>& values = self.cast<const StepPlan&>().*field;
        return array_view(values, self, py::dtype::of<int32_t>(), {static_cast<py::ssize_t>(values.size() / 2), 2});
    };
}

py::array lookback_ids(py::object self) {
    const auto& plan = self.cast<const StepPlan&>();
    return array_view(plan.lookback_ids, self, py::dtype::of<int32_t>(), {plan.num_seqs(), plan.num_lookback});
}

py::array samples(py::object self) {
    const auto& plan = self.cast<const StepPlan&>();
    return array_view(plan.samples, self, py::dtype::of<bool>(), {plan.num_seqs()});
}

StepPlan resolve(const StepPlan& plan, const StepPlan& previous, const py::object& tokens, const py::object& cu_tokens,
                 const py::object& draft_ids, const py::object& confidences) {
    const auto num_drafts = static_cast<int64_t>(plan.rate_factors.size());
    const std::vector<int32_t> token_vector = int32_vector(tokens, "tokens");
    const std::vector<int32_t> cu_vector = int32_vector(cu_tokens, "cu_tokens");
    const std::vector<int32_t> draft_vector = int32_rows(draft_ids, num_drafts, "draft_ids");
    const std::vector<float> confidence_vector = float_rows(confidences, num_drafts, "confidences");
    const py::gil_scoped_release unlocked;
    return resolve_plan(plan, previous, {token_vector, cu_vector, {draft_vector, confidence_vector}});
}

}  // namespace

void bind_step_plan(py::module_& m) {
    using P = StepPlan;
    py::class_<P, std::shared_ptr<P>>(m, "StepPlan", "What the worker is to compute in one step; see deepinfer/_C.pyi.")
        .def_readonly("step_id", &P::step_id)
        .def_readonly("previous_step_id", &P::previous_step_id)
        .def_property_readonly("kind", &kind_name)
        .def_property_readonly("num_seqs", &P::num_seqs)
        .def_property_readonly("num_tokens", &P::num_tokens)
        .def_property_readonly("seq_ids", view_of(&P::seq_ids))
        .def_property_readonly("cu_seqlens_q", view_of(&P::cu_seqlens_q))
        .def_property_readonly("context_lens", view_of(&P::context_lens))
        .def_property_readonly("prompt_lens", view_of(&P::prompt_lens))
        .def_property_readonly("window_starts", view_of(&P::window_starts))
        .def_property_readonly("entry_starts", view_of(&P::entry_starts))
        .def_property_readonly("consumer_starts", view_of(&P::consumer_starts))
        .def_property_readonly("state_slots", view_of(&P::state_slots))
        .def_property_readonly("block_ids", view_of(&P::block_ids))
        .def_property_readonly("cu_blocks", view_of(&P::cu_blocks))
        .def_property_readonly("token_ids", view_of(&P::token_ids))
        .def_property_readonly("positions", view_of(&P::positions))
        .def_property_readonly("lookback_ids", &lookback_ids)
        .def_property_readonly("samples", &samples)
        .def_property_readonly("output_indices", view_of(&P::output_indices))
        .def_property_readonly("num_drafts", view_of(&P::num_drafts))
        .def_property_readonly("draft_caps", view_of(&P::draft_caps))
        .def_property_readonly("max_lens", view_of(&P::max_lens))
        .def_property_readonly("remap", view_of(&P::remap))
        .def_readonly("num_draft_rows", &P::num_draft_rows)
        .def_property_readonly("rate_factors", view_of(&P::rate_factors))
        .def_readonly("make_drafts", &P::make_drafts)
        .def_readonly("keeps_draft_context", &P::keeps_draft_context)
        .def_property_readonly("fork_seq_ids", view_of(&P::fork_seq_ids))
        .def_property_readonly("cu_forks", view_of(&P::cu_forks))
        .def_property_readonly("slot_copies", pairs_of(&P::slot_copies))
        .def_property_readonly("block_copies", pairs_of(&P::block_copies))
        .def_property_readonly("preempted_seq_ids", view_of(&P::preempted_seq_ids))
        .def("resolve", &resolve, py::arg("previous"), py::arg("tokens"), py::arg("cu_tokens"),
             py::arg("draft_ids") = py::none(), py::arg("confidences") = py::none());
}

}  // namespace deepinfer
