// index_scores, restrict_to_blocks, select_blocks and select_topk.
#include <pybind11/pybind11.h>

#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/cpu/addresses.hpp"
#include "cpu/context.hpp"
#include "cpu/ops/index_scores.hpp"
#include "cpu/ops/restrict_to_blocks.hpp"
#include "cpu/ops/select_blocks.hpp"
#include "cpu/ops/select_topk.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

// Keys come as float32 [num_groups, num_entries, dim]: one view for each group.
void bind_index_scores(py::module_& m) {
    m.def(
        "index_scores",
        [](cpu::Context& context, uintptr_t q, uintptr_t head_weights, uintptr_t keys, uintptr_t row_group,
           uintptr_t num_visible, uintptr_t out, int64_t num_rows, int64_t num_heads, int64_t dim, int64_t num_groups,
           int64_t num_entries, float scale, bool rounds_bf16) {
            std::vector<cpu::EntryView> views;
            for (int64_t group = 0; group < num_groups; ++group)
                views.push_back({at_address<uint8_t>(keys) + group * num_entries * dim * 4, nullptr, 0, 4 * dim});
            cpu::index_scores(context, {.q = at_address<float>(q),
                                        .head_weights = at_address<float>(head_weights),
                                        .views = views.data(),
                                        .row_view = at_address<int64_t>(row_group),
                                        .num_visible = at_address<int64_t>(num_visible),
                                        .out = at_address<float>(out),
                                        .num_rows = num_rows,
                                        .num_heads = num_heads,
                                        .dim = dim,
                                        .num_entries = num_entries,
                                        .scale = scale,
                                        .rounds_bf16 = rounds_bf16});
        },
        py::arg("context"), py::kw_only(), py::arg("q"), py::arg("head_weights"), py::arg("keys"), py::arg("row_group"),
        py::arg("num_visible"), py::arg("out"), py::arg("num_rows"), py::arg("num_heads"), py::arg("dim"),
        py::arg("num_groups"), py::arg("num_entries"), py::arg("scale"), py::arg("rounds_bf16"),
        py::call_guard<py::gil_scoped_release>());
}

void bind_restrict_to_blocks(py::module_& m) {
    m.def(
        "restrict_to_blocks",
        [](cpu::Context& context, uintptr_t scores, uintptr_t blocks, uintptr_t out, int64_t num_rows,
           int64_t num_entries, int64_t num_blocks, int64_t block_size) {
            cpu::restrict_to_blocks(context, {at_address<float>(scores), at_address<int64_t>(blocks),
                                              at_address<float>(out), num_rows, num_entries, num_blocks, block_size});
        },
        py::arg("context"), py::kw_only(), py::arg("scores"), py::arg("blocks"), py::arg("out"), py::arg("num_rows"),
        py::arg("num_entries"), py::arg("num_blocks"), py::arg("block_size"), py::call_guard<py::gil_scoped_release>());
}

void bind_select_blocks(py::module_& m) {
    m.def(
        "select_blocks",
        [](cpu::Context& context, uintptr_t scores, uintptr_t num_visible, uintptr_t blocks, int64_t num_rows,
           int64_t num_entries, int64_t block_size, int64_t num_blocks) {
            cpu::select_blocks(context, {at_address<float>(scores), at_address<int64_t>(num_visible),
                                         at_address<int64_t>(blocks), num_rows, num_entries, block_size, num_blocks});
        },
        py::arg("context"), py::kw_only(), py::arg("scores"), py::arg("num_visible"), py::arg("blocks"),
        py::arg("num_rows"), py::arg("num_entries"), py::arg("block_size"), py::arg("num_blocks"),
        py::call_guard<py::gil_scoped_release>());
}

void bind_select_topk(py::module_& m) {
    m.def(
        "select_topk",
        [](cpu::Context& context, uintptr_t scores, uintptr_t picks, int64_t num_rows, int64_t num_entries, int64_t k) {
            cpu::select_topk(context,
                             {at_address<float>(scores), at_address<int64_t>(picks), num_rows, num_entries, k});
        },
        py::arg("context"), py::kw_only(), py::arg("scores"), py::arg("picks"), py::arg("num_rows"),
        py::arg("num_entries"), py::arg("k"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace

void bind_cpu_selection(py::module_& m) {
    bind_index_scores(m);
    bind_restrict_to_blocks(m);
    bind_select_blocks(m);
    bind_select_topk(m);
}

}  // namespace deepinfer
