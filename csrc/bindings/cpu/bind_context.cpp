// Context: the threads and kernels that one engine's CPU ops run with.
#include <pybind11/pybind11.h>

#include <string>

#include "bindings/bindings.hpp"
#include "cpu/context.hpp"
#include "cpu/machine_limits.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

// Events as tuples (name, whether it is a native call and not an op, begin and end in nanoseconds).
py::list stop_trace(cpu::Context& context) {
    py::list events;
    for (const cpu::TraceEvent& event : context.trace().stop())
        events.append(py::make_tuple(event.name, event.kind == cpu::SpanKind::kCall, event.begin_ns, event.end_ns));
    return events;
}

py::tuple measure_limits(cpu::Context& context) {
    const py::gil_scoped_release release;
    const cpu::MachineLimits limits = cpu::measure_limits(context);
    const py::gil_scoped_acquire acquire;
    return py::make_tuple(limits.read_bytes_per_second, limits.multiply_adds_per_second);
}

}  // namespace

void bind_cpu_context(py::module_& m) {
    py::class_<cpu::Context>(m, "Context", "Threads and kernels of one engine's CPU ops.")
        .def(py::init([](int num_threads, const std::string& isa) {
                 return std::make_unique<cpu::Context>(num_threads, cpu::parse_isa(isa));
             }),
             py::arg("num_threads"), py::arg("isa") = "auto")
        .def_property_readonly("num_threads", [](cpu::Context& context) { return context.pool().num_threads(); })
        .def(
            "start_trace", [](cpu::Context& context, size_t capacity) { context.trace().start(capacity); },
            py::arg("capacity"))
        .def("stop_trace", &stop_trace)
        .def_property_readonly("num_lost_events", [](cpu::Context& context) { return context.trace().num_lost(); })
        .def("measure_limits", &measure_limits)
        .def_property_readonly("isa", [](const cpu::Context& context) { return std::string(isa_name(context.isa())); });
}

}  // namespace deepinfer
