// ngram_rows, engram_lookup and engram_gate.
#include <pybind11/pybind11.h>

#include "bindings/bindings.hpp"
#include "bindings/cpu/addresses.hpp"
#include "cpu/context.hpp"
#include "cpu/ops/engram_gate.hpp"
#include "cpu/ops/engram_lookup.hpp"
#include "cpu/ops/ngram_rows.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

void bind_engram_gate(py::module_& m) {
    m.def(
        "engram_gate",
        [](cpu::Context& context, uintptr_t streams, uintptr_t keys, uintptr_t value, uintptr_t q_weight,
           uintptr_t k_weight, uintptr_t out, int64_t num_rows, int64_t num_streams, int64_t dim, float eps,
           float dot_scale, bool rounds_bf16) {
            cpu::engram_gate(
                context, {at_address<float>(streams), at_address<float>(keys), at_address<float>(value),
                          at_address<float>(q_weight), at_address<float>(k_weight), at_address<float>(out), num_rows,
                          num_streams, dim, num_streams * dim, dim, eps, dot_scale, rounds_bf16});
        },
        py::arg("context"), py::kw_only(), py::arg("streams"), py::arg("keys"), py::arg("value"), py::arg("q_weight"),
        py::arg("k_weight"), py::arg("out"), py::arg("num_rows"), py::arg("num_streams"), py::arg("dim"),
        py::arg("eps"), py::arg("dot_scale"), py::arg("rounds_bf16"), py::call_guard<py::gil_scoped_release>());
}

void bind_engram_lookup(py::module_& m) {
    m.def(
        "engram_lookup",
        [](cpu::Context& context, uintptr_t rows, uintptr_t codes, uintptr_t scales, uintptr_t out, int64_t num_rows,
           int64_t dim) {
            cpu::engram_lookup(context, {at_address<int64_t>(rows), at_address<uint8_t>(codes),
                                         at_address<uint8_t>(scales), at_address<float>(out), num_rows, dim});
        },
        py::arg("context"), py::kw_only(), py::arg("rows"), py::arg("codes"), py::arg("scales"), py::arg("out"),
        py::arg("num_rows"), py::arg("dim"), py::call_guard<py::gil_scoped_release>());
}

void bind_ngram_rows(py::module_& m) {
    m.def(
        "ngram_rows",
        [](cpu::Context& context, uintptr_t ids, uintptr_t multipliers, uintptr_t primes, uintptr_t offsets,
           uintptr_t rows, int64_t num_tokens, int64_t n, int64_t num_heads) {
            cpu::ngram_rows(context,
                            {at_address<int64_t>(ids), at_address<int64_t>(multipliers), at_address<int64_t>(primes),
                             at_address<int64_t>(offsets), at_address<int64_t>(rows), num_tokens, n, num_heads});
        },
        py::arg("context"), py::kw_only(), py::arg("ids"), py::arg("multipliers"), py::arg("primes"),
        py::arg("offsets"), py::arg("rows"), py::arg("num_tokens"), py::arg("n"), py::arg("num_heads"),
        py::call_guard<py::gil_scoped_release>());
}

}  // namespace

void bind_cpu_engram(py::module_& m) {
    bind_engram_gate(m);
    bind_engram_lookup(m);
    bind_ngram_rows(m);
}

}  // namespace deepinfer
