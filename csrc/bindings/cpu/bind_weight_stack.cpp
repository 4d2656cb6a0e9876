// WeightStack: matrices of the checkpoint as the CPU kernels read them.
#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>

#include "bindings/bindings.hpp"
#include "bindings/cpu/addresses.hpp"
#include "cpu/ops/weight_matrix.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

cpu::WeightFormat parse_format(const std::string& name) {
    if (name == "f32") return cpu::WeightFormat::kF32;
    if (name == "bf16") return cpu::WeightFormat::kBf16;
    if (name == "fp8_block32") return cpu::WeightFormat::kFp8Block32;
    if (name == "fp4_row32") return cpu::WeightFormat::kFp4Row32;
    throw std::invalid_argument("weight format '" + name + "': expected f32, bf16, fp8_block32 or fp4_row32");
}

}  // namespace

void bind_cpu_weight_stack(py::module_& m) {
    py::class_<cpu::WeightStack>(m, "WeightStack", "Equal matrices one behind the other, where they lie in memory.")
        .def(py::init([](const std::string& format, uintptr_t data, uintptr_t scales, int64_t count, int64_t num_out,
                         int64_t num_in) {
                 return cpu::WeightStack{{.format = parse_format(format),
                                          .data = at_address<const void>(data),
                                          .scales = at_address<const uint8_t>(scales),
                                          .num_out = num_out,
                                          .num_in = num_in},
                                         count};
             }),
             py::kw_only(), py::arg("format"), py::arg("data"), py::arg("scales"), py::arg("count"), py::arg("num_out"),
             py::arg("num_in"));
}

}  // namespace deepinfer
