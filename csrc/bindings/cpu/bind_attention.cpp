// apply_rope, compress_pairs, sparse_attention and route.
#include <pybind11/pybind11.h>

#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/cpu/addresses.hpp"
#include "cpu/context.hpp"
#include "cpu/ops/apply_rope.hpp"
#include "cpu/ops/compress_pairs.hpp"
#include "cpu/ops/route.hpp"
#include "cpu/ops/sparse_attention.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

void bind_apply_rope(py::module_& m) {
    m.def(
        "apply_rope",
        [](cpu::Context& context, uintptr_t x, uintptr_t cos, uintptr_t sin, uintptr_t out, int64_t num_rows,
           int64_t num_heads, int64_t dim, int64_t rotated, bool inverse, bool rounds_bf16) {
            cpu::apply_rope(context, {at_address<float>(x), at_address<float>(cos), at_address<float>(sin), nullptr,
                                      at_address<float>(out), num_rows, num_heads, dim, rotated, inverse, rounds_bf16});
        },
        py::arg("context"), py::kw_only(), py::arg("x"), py::arg("cos"), py::arg("sin"), py::arg("out"),
        py::arg("num_rows"), py::arg("num_heads"), py::arg("dim"), py::arg("rotated"), py::arg("inverse"),
        py::arg("rounds_bf16"), py::call_guard<py::gil_scoped_release>());
}

void bind_compress_pairs(py::module_& m) {
    m.def(
        "compress_pairs",
        [](cpu::Context& context, uintptr_t pairs, uintptr_t out, int64_t num_pairs, int64_t dim) {
            std::vector<const float*> first, second;
            for (int64_t i = 0; i < num_pairs; ++i) {
                first.push_back(at_address<float>(pairs) + i * 4 * dim);
                second.push_back(first.back() + 2 * dim);
            }
            cpu::compress_pairs(context, {first.data(), second.data(), at_address<float>(out), num_pairs, dim, false});
        },
        py::arg("context"), py::kw_only(), py::arg("pairs"), py::arg("out"), py::arg("num_pairs"), py::arg("dim"),
        py::call_guard<py::gil_scoped_release>());
}

void bind_route(py::module_& m) {
    m.def(
        "route",
        [](cpu::Context& context, uintptr_t logits, uintptr_t bias, uintptr_t ids, uintptr_t weights, uintptr_t margin,
           int64_t num_rows, int64_t num_experts, int64_t top_k, float scaling, bool normalizes) {
            cpu::route(context, {at_address<float>(logits), at_address<float>(bias), at_address<int64_t>(ids),
                                 at_address<float>(weights), at_address<float>(margin), num_rows, num_experts, top_k,
                                 scaling, normalizes});
        },
        py::arg("context"), py::kw_only(), py::arg("logits"), py::arg("bias"), py::arg("ids"), py::arg("weights"),
        py::arg("margin"), py::arg("num_rows"), py::arg("num_experts"), py::arg("top_k"), py::arg("scaling"),
        py::arg("normalizes"), py::call_guard<py::gil_scoped_release>());
}

// Entries come as float32 rows of their own: one view for each row.
void bind_sparse_attention(py::module_& m) {
    m.def(
        "sparse_attention",
        [](cpu::Context& context, uintptr_t q, uintptr_t window, uintptr_t window_index, uintptr_t entries,
           uintptr_t picks, uintptr_t sink, uintptr_t out, int64_t num_rows, int64_t num_heads, int64_t dim,
           int64_t window_size, int64_t num_picks, float scale, bool rounds_bf16) {
            std::vector<cpu::EntryView> views;
            for (int64_t row = 0; entries != 0 && row < num_rows; ++row)
                views.push_back({at_address<uint8_t>(entries) + row * num_picks * dim * 4, nullptr, 0, 4 * dim});
            cpu::sparse_attention(context, {.q = at_address<float>(q),
                                            .window = at_address<float>(window),
                                            .window_index = at_address<int64_t>(window_index),
                                            .views = views.empty() ? nullptr : views.data(),
                                            .picks = at_address<int64_t>(picks),
                                            .sink = at_address<float>(sink),
                                            .out = at_address<float>(out),
                                            .num_rows = num_rows,
                                            .num_heads = num_heads,
                                            .dim = dim,
                                            .window_size = window_size,
                                            .num_picks = num_picks,
                                            .scale = scale,
                                            .rounds_bf16 = rounds_bf16});
        },
        py::arg("context"), py::kw_only(), py::arg("q"), py::arg("window"), py::arg("window_index"), py::arg("entries"),
        py::arg("picks"), py::arg("sink"), py::arg("out"), py::arg("num_rows"), py::arg("num_heads"), py::arg("dim"),
        py::arg("window_size"), py::arg("num_picks"), py::arg("scale"), py::arg("rounds_bf16"),
        py::call_guard<py::gil_scoped_release>());
}

}  // namespace

void bind_cpu_attention(py::module_& m) {
    bind_apply_rope(m);
    bind_compress_pairs(m);
    bind_route(m);
    bind_sparse_attention(m);
}

}  // namespace deepinfer
