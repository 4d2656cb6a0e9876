// ModelConfig and LayerRole: what the native model has to know of a checkpoint's config. Plain fields.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>
#include <string>

#include "bindings/bindings.hpp"
#include "cpu/model/model_config.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

cpu::YocoMode yoco_mode(const std::string& name) {
    if (name == "off") return cpu::YocoMode::kOff;
    if (name == "mask") return cpu::YocoMode::kMask;
    if (name == "compact") return cpu::YocoMode::kCompact;
    throw std::invalid_argument("yoco mode '" + name + "': expected off, mask or compact");
}

void bind_layer_role(py::module_& m) {
    using R = cpu::LayerRole;
    py::class_<R>(m, "LayerRole", "What one target layer does.")
        .def(py::init<>())
        .def_readwrite("ratio", &R::ratio)
        .def_readwrite("kv_source", &R::kv_source)
        .def_readwrite("index_source", &R::index_source)
        .def_readwrite("owns_kv", &R::owns_kv)
        .def_readwrite("owns_index", &R::owns_index)
        .def_readwrite("is_candidate_source", &R::is_candidate_source)
        .def_readwrite("uses_candidates", &R::uses_candidates)
        .def_readwrite("has_engram", &R::has_engram)
        .def_readwrite("draft_target", &R::draft_target)
        .def_readwrite("is_boundary", &R::is_boundary);
}

}  // namespace

void bind_cpu_model_config(py::module_& m) {
    using C = cpu::ModelConfig;
    bind_layer_role(m);
    py::class_<C>(m, "ModelConfig", "Sizes and flags of a model.")
        .def(py::init<>())
        .def_readwrite("vocab_size", &C::vocab_size)
        .def_readwrite("hidden_size", &C::hidden_size)
        .def_readwrite("max_positions", &C::max_positions)
        .def_readwrite("num_streams", &C::num_streams)
        .def_readwrite("sinkhorn_iters", &C::sinkhorn_iters)
        .def_readwrite("hc_eps", &C::hc_eps)
        .def_readwrite("norm_eps", &C::norm_eps)
        .def_readwrite("num_heads", &C::num_heads)
        .def_readwrite("head_dim", &C::head_dim)
        .def_readwrite("rope_dim", &C::rope_dim)
        .def_readwrite("q_lora_rank", &C::q_lora_rank)
        .def_readwrite("o_lora_rank", &C::o_lora_rank)
        .def_readwrite("o_groups", &C::o_groups)
        .def_readwrite("window", &C::window)
        .def_readwrite("softmax_scale", &C::softmax_scale)
        .def_readwrite("index_heads", &C::index_heads)
        .def_readwrite("index_dim", &C::index_dim)
        .def_readwrite("index_topk", &C::index_topk)
        .def_readwrite("index_scale", &C::index_scale)
        .def_readwrite("candidate_blocks", &C::candidate_blocks)
        .def_readwrite("candidate_block_size", &C::candidate_block_size)
        .def_readwrite("num_experts", &C::num_experts)
        .def_readwrite("num_picked", &C::num_picked)
        .def_readwrite("intermediate_size", &C::intermediate_size)
        .def_readwrite("normalizes_weights", &C::normalizes_weights)
        .def_readwrite("routed_scaling", &C::routed_scaling)
        .def_readwrite("swiglu_limit", &C::swiglu_limit)
        .def_readwrite("ngram_pad", &C::ngram_pad)
        .def_readwrite("num_ngrams", &C::num_ngrams)
        .def_readwrite("engram_heads", &C::engram_heads)
        .def_readwrite("engram_dim", &C::engram_dim)
        .def_readwrite("engram_scale", &C::engram_scale)
        .def_readwrite("num_draft_stages", &C::num_draft_stages)
        .def_readwrite("num_draft_experts", &C::num_draft_experts)
        .def_readwrite("num_draft_picked", &C::num_draft_picked)
        .def_readwrite("markov_rank", &C::markov_rank)
        .def_readwrite("noise_token_id", &C::noise_token_id)
        .def_readwrite("rounds_bf16", &C::rounds_bf16)
        .def_readwrite("quantizes", &C::quantizes)
        .def_property("yoco", nullptr, [](C& config, const std::string& name) { config.yoco = yoco_mode(name); })
        .def_readwrite("layers", &C::layers);
}

}  // namespace deepinfer
