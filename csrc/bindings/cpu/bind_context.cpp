// Context: the threads and kernels that one engine's CPU ops run with.
#include <pybind11/pybind11.h>

#include <string>

#include "bindings/bindings.hpp"
#include "cpu/context.hpp"

namespace py = pybind11;

namespace deepinfer {

void bind_cpu_context(py::module_& m) {
    py::class_<cpu::Context>(m, "Context", "Threads and kernels of one engine's CPU ops.")
        .def(py::init([](int num_threads, const std::string& isa) {
                 return std::make_unique<cpu::Context>(num_threads, cpu::parse_isa(isa));
             }),
             py::arg("num_threads"), py::arg("isa") = "auto")
        .def_property_readonly("num_threads", [](cpu::Context& context) { return context.pool().num_threads(); })
        .def_property_readonly("isa", [](const cpu::Context& context) { return std::string(isa_name(context.isa())); });
}

}  // namespace deepinfer
