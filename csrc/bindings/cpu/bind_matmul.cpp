// matmul: the products behind the ops linear, quantized_linear and grouped_linear.
#include <pybind11/pybind11.h>

#include "bindings/bindings.hpp"
#include "bindings/cpu/addresses.hpp"
#include "cpu/context.hpp"
#include "cpu/ops/matmul.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

void matmul(cpu::Context& context, uintptr_t x, const cpu::WeightStack& weight, uintptr_t out, int64_t num_rows,
            int64_t num_groups, bool quantizes_x) {
    cpu::MatmulArgs args{.x = at_address<const float>(x),
                         .x_stride = num_groups * weight.first.num_in,
                         .weight = weight.first,
                         .out = at_address<float>(out),
                         .out_stride = weight.first.num_out,
                         .num_rows = num_rows,
                         .num_groups = num_groups,
                         .quantizes_x = quantizes_x};
    args.scratch = context.call_scratch(cpu::matmul_scratch_floats(args));
    cpu::matmul(context, args);
}

}  // namespace

void bind_cpu_matmul(py::module_& m) {
    m.def("matmul", matmul, py::call_guard<py::gil_scoped_release>(), py::arg("context"), py::kw_only(), py::arg("x"),
          py::arg("weight"), py::arg("out"), py::arg("num_rows"), py::arg("num_groups"), py::arg("quantizes_x"));
}

}  // namespace deepinfer
