// RowSampler: native sampling of rows whose logits nothing changes.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "cpu/model/row_sampler.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

using Floats = py::array_t<float, py::array::c_style>;

std::vector<int64_t> sample(cpu::RowSampler& sampler, cpu::Context& context, const Floats& logits,
                            const std::vector<int64_t>& seq_ids, const std::vector<int64_t>& output_indices) {
    const auto num_rows = static_cast<py::ssize_t>(seq_ids.size());
    if (logits.ndim() != 2 || logits.shape(0) != num_rows || output_indices.size() != seq_ids.size())
        throw std::invalid_argument("sample: logits, seq_ids and output_indices differ in their number of rows");
    std::vector<int64_t> tokens(seq_ids.size());
    sampler.sample(context, {logits.data(), logits.shape(1)}, seq_ids, output_indices, tokens);
    return tokens;
}

}  // namespace

void bind_cpu_row_sampler(py::module_& m) {
    py::class_<cpu::RowSampler>(m, "RowSampler", "Greedy and filtered draws from plain logits.")
        .def(py::init<int64_t>(), py::arg("num_ids"))
        .def(
            "add_greedy",
            [](cpu::RowSampler& sampler, int64_t seq_id, std::optional<int64_t> plain_from,
               std::vector<int64_t> stop_ids) {
                sampler.add(seq_id, {.filters = {},
                                     .plain_from = plain_from.value_or(cpu::SamplingRule::kNever),
                                     .stop_ids = std::move(stop_ids)});
            },
            py::arg("seq_id"), py::kw_only(), py::arg("plain_from"), py::arg("stop_ids"))
        .def(
            "add",
            [](cpu::RowSampler& sampler, int64_t seq_id, std::pair<uint64_t, uint64_t> key, float temperature,
               int64_t min_weight, double top_p, int64_t top_k, std::optional<int64_t> plain_from,
               std::vector<int64_t> stop_ids) {
                sampler.add(seq_id, {.takes_argmax = false,
                                     .filters = {temperature, min_weight, top_p, top_k, 0},
                                     .seed = key.first,
                                     .prompt_hash = key.second,
                                     .plain_from = plain_from.value_or(cpu::SamplingRule::kNever),
                                     .stop_ids = std::move(stop_ids)});
            },
            py::arg("seq_id"), py::arg("key"), py::kw_only(), py::arg("temperature"), py::arg("min_weight"),
            py::arg("top_p"), py::arg("top_k"), py::arg("plain_from"), py::arg("stop_ids"))
        .def("remove", &cpu::RowSampler::remove, py::arg("seq_id"))
        .def("sample", &sample, py::arg("context"), py::arg("logits"), py::arg("seq_ids"), py::arg("output_indices"));
}

}  // namespace deepinfer
