// Python class SchedulerStats.
#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "core/stats.hpp"

namespace py = pybind11;

namespace deepinfer {

void bind_scheduler_stats(py::module_& m) {
    using S = SchedulerStats;
    py::class_<S>(m, "SchedulerStats", "Running totals of a scheduler; see deepinfer/_C.pyi.")
        .def_readonly("num_added", &S::num_added)
        .def_readonly("num_forked", &S::num_forked)
        .def_readonly("num_finished_stop", &S::num_finished_stop)
        .def_readonly("num_finished_length", &S::num_finished_length)
        .def_readonly("num_finished_external", &S::num_finished_external)
        .def_readonly("num_aborted", &S::num_aborted)
        .def_readonly("num_preemptions", &S::num_preemptions)
        .def_readonly("num_steps", &S::num_steps)
        .def_readonly("num_prefill_steps", &S::num_prefill_steps)
        .def_readonly("num_decode_steps", &S::num_decode_steps)
        .def_readonly("num_prefill_tokens", &S::num_prefill_tokens)
        .def_readonly("num_recomputed_tokens", &S::num_recomputed_tokens)
        .def_readonly("num_decode_tokens", &S::num_decode_tokens)
        .def_readonly("num_generated_tokens", &S::num_generated_tokens)
        .def_readonly("num_verify_steps", &S::num_verify_steps)
        .def_readonly("num_verify_tokens", &S::num_verify_tokens)
        .def_readonly("num_drafts_verified", &S::num_drafts_verified)
        .def_readonly("num_drafts_accepted", &S::num_drafts_accepted)
        .def_property_readonly("verified_at",
                               [](py::object self) { return array_view(self.cast<const S&>().verified_at, self); })
        .def_property_readonly("accepted_at",
                               [](py::object self) { return array_view(self.cast<const S&>().accepted_at, self); })
        .def_readonly("num_undrafted_steps", &S::num_undrafted_steps)
        .def_readonly("num_draft_probes", &S::num_draft_probes)
        .def_readonly("cost", &S::cost);
}

}  // namespace deepinfer
