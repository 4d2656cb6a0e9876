// argmax_rows, draw_rows and score_tokens.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/cpu/addresses.hpp"
#include "cpu/context.hpp"
#include "cpu/ops/argmax_rows.hpp"
#include "cpu/ops/draw_rows.hpp"
#include "cpu/ops/score_tokens.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

void bind_argmax_rows(py::module_& m) {
    m.def(
        "argmax_rows",
        [](cpu::Context& context, uintptr_t logits, uintptr_t tokens, uintptr_t is_finite, int64_t num_rows,
           int64_t num_ids, int64_t stride) {
            cpu::argmax_rows(context, {at_address<float>(logits), at_address<int64_t>(tokens),
                                       at_address<uint8_t>(is_finite), num_rows, num_ids, stride});
        },
        py::arg("context"), py::kw_only(), py::arg("logits"), py::arg("tokens"), py::arg("is_finite"),
        py::arg("num_rows"), py::arg("num_ids"), py::arg("stride"), py::call_guard<py::gil_scoped_release>());
}

void bind_draw_row(py::module_& m) {
    py::class_<cpu::DrawRow>(m, "DrawRow", "How one row's token is drawn.")
        .def(py::init([](float temperature, int64_t min_weight, double top_p, int64_t top_k, uint64_t word) {
                 return cpu::DrawRow{temperature, min_weight, top_p, top_k, word};
             }),
             py::kw_only(), py::arg("temperature"), py::arg("min_weight"), py::arg("top_p"), py::arg("top_k"),
             py::arg("word"));
}

void bind_draw_rows(py::module_& m) {
    m.def(
        "draw_rows",
        [](cpu::Context& context, uintptr_t logits, const std::vector<cpu::DrawRow>& rows, uintptr_t tokens,
           uintptr_t logprobs, int64_t num_ids, int64_t stride) {
            cpu::draw_rows(context, {at_address<float>(logits), rows.data(), at_address<int64_t>(tokens),
                                     at_address<float>(logprobs), static_cast<int64_t>(rows.size()), num_ids, stride});
        },
        py::arg("context"), py::kw_only(), py::arg("logits"), py::arg("rows"), py::arg("tokens"), py::arg("logprobs"),
        py::arg("num_ids"), py::arg("stride"), py::call_guard<py::gil_scoped_release>());
}

void bind_score_tokens(py::module_& m) {
    m.def(
        "score_tokens",
        [](cpu::Context& context, uintptr_t logits, uintptr_t tokens, uintptr_t logprobs, uintptr_t ranks,
           int64_t num_rows, int64_t num_logits, int64_t num_ids, int64_t stride) {
            cpu::score_tokens(context,
                              {at_address<float>(logits), at_address<int64_t>(tokens), at_address<float>(logprobs),
                               at_address<int64_t>(ranks), num_rows, num_logits, num_ids, stride});
        },
        py::arg("context"), py::kw_only(), py::arg("logits"), py::arg("tokens"), py::arg("logprobs"), py::arg("ranks"),
        py::arg("num_rows"), py::arg("num_logits"), py::arg("num_ids"), py::arg("stride"),
        py::call_guard<py::gil_scoped_release>());
}

}  // namespace

void bind_cpu_sampling(py::module_& m) {
    bind_argmax_rows(m);
    bind_draw_row(m);
    bind_draw_rows(m);
    bind_score_tokens(m);
}

}  // namespace deepinfer
