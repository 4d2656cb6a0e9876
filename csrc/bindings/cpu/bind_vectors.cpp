// round_vectors, encode_vectors, decode_vectors.
#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>

#include "bindings/bindings.hpp"
#include "bindings/cpu/addresses.hpp"
#include "cpu/context.hpp"
#include "cpu/ops/decode_vectors.hpp"
#include "cpu/ops/encode_vectors.hpp"
#include "cpu/ops/round_vectors.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

using Guard = py::call_guard<py::gil_scoped_release>;

cpu::VectorRounding parse_rounding(const std::string& name) {
    if (name == "none") return cpu::VectorRounding::kNone;
    if (name == "fp8_group32") return cpu::VectorRounding::kFp8Group32;
    if (name == "fp4_group32") return cpu::VectorRounding::kFp4Group32;
    if (name == "fp4_group16") return cpu::VectorRounding::kFp4Group16;
    throw std::invalid_argument("rounding '" + name + "': expected none, fp8_group32, fp4_group32 or fp4_group16");
}

void round_vectors(cpu::Context& context, uintptr_t x, uintptr_t out, int64_t num_rows, int64_t dim,
                   const std::string& rounding) {
    cpu::round_vectors(context, {.x = at_address<const float>(x),
                                 .x_stride = dim,
                                 .out = at_address<float>(out),
                                 .out_stride = dim,
                                 .num_rows = num_rows,
                                 .dim = dim,
                                 .rounding = parse_rounding(rounding)});
}

void encode_vectors(cpu::Context& context, uintptr_t x, uintptr_t out, int64_t num_rows, int64_t dim,
                    const std::string& rounding_name) {
    const cpu::VectorRounding rounding = parse_rounding(rounding_name);
    cpu::encode_vectors(context, {.x = at_address<const float>(x),
                                  .x_stride = dim,
                                  .out = at_address<uint8_t>(out),
                                  .out_stride = cpu::packed_bytes(rounding, dim),
                                  .num_rows = num_rows,
                                  .dim = dim,
                                  .rounding = rounding});
}

void decode_vectors(cpu::Context& context, uintptr_t data, uintptr_t out, int64_t num_rows, int64_t dim,
                    const std::string& rounding_name) {
    const cpu::VectorRounding rounding = parse_rounding(rounding_name);
    cpu::decode_vectors(context, {.data = at_address<const uint8_t>(data),
                                  .data_stride = cpu::packed_bytes(rounding, dim),
                                  .out = at_address<float>(out),
                                  .out_stride = dim,
                                  .num_rows = num_rows,
                                  .dim = dim,
                                  .rounding = rounding});
}

}  // namespace

void bind_cpu_vectors(py::module_& m) {
    m.def("round_vectors", round_vectors, Guard(), py::arg("context"), py::kw_only(), py::arg("x"), py::arg("out"),
          py::arg("num_rows"), py::arg("dim"), py::arg("rounding"));
    m.def("encode_vectors", encode_vectors, Guard(), py::arg("context"), py::kw_only(), py::arg("x"), py::arg("out"),
          py::arg("num_rows"), py::arg("dim"), py::arg("rounding"));
    m.def("decode_vectors", decode_vectors, Guard(), py::arg("context"), py::kw_only(), py::arg("data"), py::arg("out"),
          py::arg("num_rows"), py::arg("dim"), py::arg("rounding"));
}

}  // namespace deepinfer
