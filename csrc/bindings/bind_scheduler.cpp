// Python class Scheduler.
#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "core/scheduler.hpp"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace py = pybind11;

namespace deepinfer {

namespace {

using Unlocked = py::call_guard<py::gil_scoped_release>;

std::vector<CostPoint> cost_points(const std::vector<std::pair<int64_t, double>>& pairs) {
    std::vector<CostPoint> points;
    for (const auto& [size, ms] : pairs) points.push_back({size, ms});
    return points;
}

StepUpdate update(Scheduler& scheduler, int64_t step_id, const py::object& tokens, const py::object& cu_tokens,
                  const py::object& draft_ids, const py::object& confidences) {
    const std::vector<int32_t> token_vector = int32_vector(tokens, "tokens");
    const std::vector<int32_t> cu_vector = int32_vector(cu_tokens, "cu_tokens");
    const int64_t num_drafts = scheduler.config().num_drafts;
    const std::vector<int32_t> draft_vector = int32_rows(draft_ids, num_drafts, "draft_ids");
    const std::vector<float> confidence_vector = float_rows(confidences, num_drafts, "confidences");
    const py::gil_scoped_release unlocked;
    return scheduler.update(step_id, token_vector, cu_vector, {draft_vector, confidence_vector});
}

// Python has no const; the class has nothing that changes a plan.
std::shared_ptr<StepPlan> shared(std::shared_ptr<const StepPlan> plan) {
    return std::const_pointer_cast<StepPlan>(std::move(plan));
}

std::shared_ptr<StepPlan> scheduled(Scheduler& scheduler, const std::optional<std::string>& kind) {
    if (kind.has_value() && *kind != "prefill" && *kind != "decode")
        throw std::invalid_argument("kind = " + *kind + ": expected prefill, decode or None");
    std::optional<StepKind> agreed;
    if (kind.has_value()) agreed = *kind == "prefill" ? StepKind::kPrefill : StepKind::kDecode;
    const py::gil_scoped_release unlocked;
    return shared(scheduler.schedule(agreed));
}

py::array_t<int32_t> token_ids(const Scheduler& scheduler, int64_t seq_id) {
    const std::vector<int32_t> ids = scheduler.token_ids(seq_id);
    return py::array_t<int32_t>(static_cast<py::ssize_t>(ids.size()), ids.data());
}

py::array_t<int32_t> prefix_token_ids(const Scheduler& scheduler, int64_t prefix_id) {
    const std::vector<int32_t> ids = scheduler.prefix_token_ids(prefix_id);
    return py::array_t<int32_t>(static_cast<py::ssize_t>(ids.size()), ids.data());
}

}  // namespace

void bind_scheduler(py::module_& m) {
    using S = Scheduler;
    py::class_<S>(m, "Scheduler", "Decides which tokens are computed in each step; see deepinfer/_C.pyi.")
        .def(py::init<const SchedulerConfig&>(), py::arg("config"))
        .def("add", &S::add, py::arg("spec"))
        .def("abort", &S::abort, py::arg("seq_id"), Unlocked())
        .def("finish", &S::finish, py::arg("seq_id"), py::arg("keep_tokens"), Unlocked())
        .def(
            "schedule", [](S& self, const std::optional<std::string>& kind) { return scheduled(self, kind); },
            py::arg("kind") = py::none())
        .def("vote",
             [](const S& self) {
                 const StepVote vote = self.vote();
                 return std::pair(vote.can_continue_prefill || vote.can_start_prefill, vote.can_decode);
             })
        .def(
            "settled", [](const S& self, int64_t step_id) { return shared(self.settled(step_id)); }, py::arg("step_id"),
            Unlocked())
        .def("update", &update, py::arg("step_id"), py::arg("tokens"), py::arg("cu_tokens"),
             py::arg("draft_ids") = py::none(), py::arg("confidences") = py::none())
        .def(
            "set_cost_curves",
            [](S& self, const std::vector<std::pair<int64_t, double>>& step_points,
               const std::vector<std::pair<int64_t, double>>& draft_points, bool is_guess) {
                self.set_cost_curves(CostCurve(cost_points(step_points)), CostCurve(cost_points(draft_points)),
                                     is_guess);
            },
            py::arg("step_points"), py::arg("draft_points"), py::arg("is_guess") = false)
        .def(
            "observe_step_ms",
            [](S& self, int64_t step_id, double forward, double sample, double draft) {
                self.observe_step_ms(step_id, {forward, sample, draft});
            },
            py::arg("step_id"), py::arg("forward"), py::arg("sample"), py::arg("draft"))
        .def("draft_calibration", &S::draft_calibration)
        .def(
            "set_estimator",
            [](S& self, std::shared_ptr<StepEstimator> estimator) { self.set_estimator(std::move(estimator)); },
            py::arg("estimator").none(true))
        .def("discard", &S::discard, py::arg("step_id"), Unlocked())
        .def("save_prefix", &S::save_prefix, py::arg("seq_id"), Unlocked())
        .def("close_prefix", &S::close_prefix, py::arg("prefix_id"), Unlocked())
        .def("prefix_token_ids", &prefix_token_ids, py::arg("prefix_id"))
        .def("is_in_caches", &S::is_in_caches, py::arg("seq_id"))
        .def_property_readonly("steps_in_flight", &S::steps_in_flight)
        .def("has_unfinished", &S::has_unfinished)
        .def_property_readonly("num_waiting", &S::num_waiting)
        .def_property_readonly("num_running", &S::num_running)
        .def_property_readonly("num_free_blocks", &S::num_free_blocks)
        .def_property_readonly("num_free_state_slots", &S::num_free_state_slots)
        .def_property_readonly("num_saved_blocks", &S::num_saved_blocks)
        .def_property_readonly("capacity_tokens", &S::capacity_tokens)
        .def_property_readonly("config", &S::config, py::return_value_policy::reference_internal)
        .def("stats", &S::stats)
        .def("token_ids", &token_ids, py::arg("seq_id"))
        .def("check", &S::check, Unlocked());
}

}  // namespace deepinfer
