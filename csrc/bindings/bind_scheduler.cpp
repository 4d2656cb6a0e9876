// Python class Scheduler.
#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "core/scheduler.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

using Unlocked = py::call_guard<py::gil_scoped_release>;

StepUpdate update(Scheduler& scheduler, int64_t step_id, const py::object& tokens, const py::object& cu_tokens) {
    const std::vector<int32_t> token_vector = int32_vector(tokens, "tokens");
    const std::vector<int32_t> cu_vector = int32_vector(cu_tokens, "cu_tokens");
    const py::gil_scoped_release unlocked;
    return scheduler.update(step_id, token_vector, cu_vector);
}

py::array_t<int32_t> token_ids(const Scheduler& scheduler, int64_t seq_id) {
    const std::vector<int32_t> ids = scheduler.token_ids(seq_id);
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
        .def("schedule", &S::schedule, Unlocked())
        .def("update", &update, py::arg("step_id"), py::arg("tokens"), py::arg("cu_tokens"))
        .def("discard", &S::discard, py::arg("step_id"), Unlocked())
        .def("has_unfinished", &S::has_unfinished)
        .def_property_readonly("num_waiting", &S::num_waiting)
        .def_property_readonly("num_running", &S::num_running)
        .def_property_readonly("num_free_blocks", &S::num_free_blocks)
        .def_property_readonly("num_free_state_slots", &S::num_free_state_slots)
        .def_property_readonly("capacity_tokens", &S::capacity_tokens)
        .def_property_readonly("config", &S::config, py::return_value_policy::reference_internal)
        .def("stats", &S::stats)
        .def("token_ids", &token_ids, py::arg("seq_id"))
        .def("check", &S::check, Unlocked());
}

}  // namespace deepinfer
