// Python classes LayerShape, ModelShape, SequenceRows, StepCost and StepEstimator.
#include "bindings/bindings.hpp"
#include "core/step_estimator.hpp"

#include <pybind11/stl.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace deepinfer {

namespace {

YocoMode yoco_mode(const std::string& name) {
    if (name == "off") return YocoMode::kOff;
    if (name == "mask") return YocoMode::kMask;
    if (name == "compact") return YocoMode::kCompact;
    throw std::invalid_argument("yoco is '" + name + "'; it must be off, mask or compact");
}

void bind_layer_shape(py::module_& m) {
    using L = LayerShape;
    py::class_<L>(m, "LayerShape", "Roles of one target layer; see deepinfer/_C.pyi.")
        .def(py::init([](int64_t ratio, bool owns_kv, bool owns_index, bool uses_candidates, bool has_engram,
                         bool is_draft_target) {
                 return L{ratio, owns_kv, owns_index, uses_candidates, has_engram, is_draft_target};
             }),
             py::kw_only(), py::arg("ratio"), py::arg("owns_kv"), py::arg("owns_index"), py::arg("uses_candidates"),
             py::arg("has_engram"), py::arg("is_draft_target"));
}

void bind_model_shape(py::module_& m) {
    using S = ModelShape;
    py::class_<S>(m, "ModelShape", "Sizes that decide what a step costs; see deepinfer/_C.pyi.")
        .def(py::init<>())
        .def_readwrite("layers", &S::layers)
        .def_readwrite("first_consumer", &S::first_consumer)
        .def_readwrite("vocab_size", &S::vocab_size)
        .def_readwrite("hidden_size", &S::hidden_size)
        .def_readwrite("num_streams", &S::num_streams)
        .def_readwrite("num_heads", &S::num_heads)
        .def_readwrite("head_dim", &S::head_dim)
        .def_readwrite("q_lora_rank", &S::q_lora_rank)
        .def_readwrite("o_lora_rank", &S::o_lora_rank)
        .def_readwrite("o_groups", &S::o_groups)
        .def_readwrite("sliding_window", &S::sliding_window)
        .def_readwrite("index_heads", &S::index_heads)
        .def_readwrite("index_dim", &S::index_dim)
        .def_readwrite("index_topk", &S::index_topk)
        .def_readwrite("candidate_blocks", &S::candidate_blocks)
        .def_readwrite("candidate_block_size", &S::candidate_block_size)
        .def_readwrite("num_experts", &S::num_experts)
        .def_readwrite("experts_per_token", &S::experts_per_token)
        .def_readwrite("expert_width", &S::expert_width)
        .def_readwrite("engram_lookups", &S::engram_lookups)
        .def_readwrite("engram_width", &S::engram_width)
        .def_readwrite("num_drafts", &S::num_drafts)
        .def_readwrite("draft_stages", &S::draft_stages)
        .def_readwrite("draft_experts", &S::draft_experts)
        .def_readwrite("draft_experts_per_token", &S::draft_experts_per_token)
        .def_readwrite("markov_rank", &S::markov_rank)
        .def_readwrite("activation_bytes", &S::activation_bytes)
        .def_readwrite("main_bytes", &S::main_bytes)
        .def_readwrite("index_bytes", &S::index_bytes)
        .def_readwrite("window_bytes", &S::window_bytes)
        .def_readwrite("compressor_bytes", &S::compressor_bytes)
        .def_readwrite("window_ring", &S::window_ring)
        .def_readwrite("rollback", &S::rollback);
}

void bind_step_cost(py::module_& m) {
    using C = StepCost;
    py::class_<C>(m, "StepCost", "Multiply-adds and bytes of a step; see deepinfer/_C.pyi.")
        .def_readonly("fp8", &C::fp8)
        .def_readonly("experts", &C::experts)
        .def_readonly("index", &C::index)
        .def_readonly("bf16", &C::bf16)
        .def_readonly("fp32", &C::fp32)
        .def_readonly("attention", &C::attention)
        .def_readonly("weight_bytes", &C::weight_bytes)
        .def_readonly("cache_read_bytes", &C::cache_read_bytes)
        .def_readonly("cache_written_bytes", &C::cache_written_bytes)
        .def_readonly("activation_bytes", &C::activation_bytes)
        .def_property_readonly("macs", &C::macs)
        .def_property_readonly("flops", &C::flops)
        .def_property_readonly("bytes", &C::bytes)
        .def_property_readonly("fp8_equivalent_flops", &C::fp8_equivalent_flops);
}

}  // namespace

void bind_step_estimator(py::module_& m) {
    bind_layer_shape(m);
    bind_model_shape(m);
    bind_step_cost(m);
    using R = SequenceRows;
    py::class_<R>(m, "SequenceRows", "Rows of one sequence in a step; see deepinfer/_C.pyi.")
        .def(py::init([](int64_t context_len, int64_t num_rows, int64_t consumer_start, int64_t num_logit_rows,
                         int64_t window_start, int64_t entry_start) {
                 return R{context_len, num_rows, consumer_start, num_logit_rows, window_start, entry_start};
             }),
             py::kw_only(), py::arg("context_len"), py::arg("num_rows"), py::arg("consumer_start") = 0,
             py::arg("num_logit_rows") = 0, py::arg("window_start") = 0, py::arg("entry_start") = 0);
    using E = StepEstimator;
    py::class_<E, std::shared_ptr<E>>(m, "StepEstimator", "Counts what a step costs; see deepinfer/_C.pyi.")
        .def(py::init([](const ModelShape& shape, const std::string& yoco) {
                 return std::make_shared<E>(shape, yoco_mode(yoco));
             }),
             py::arg("shape"), py::arg("yoco") = "off")
        .def(
            "target_pass", [](const E& self, const std::vector<R>& sequences) { return self.target_pass(sequences); },
            py::arg("sequences"))
        .def(
            "draft_pass",
            [](const E& self, const std::vector<int64_t>& last_positions) { return self.draft_pass(last_positions); },
            py::arg("last_positions"))
        .def("plan_cost", &E::plan_cost, py::arg("plan"));
}

}  // namespace deepinfer
