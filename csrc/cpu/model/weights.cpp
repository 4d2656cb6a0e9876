#include "cpu/model/weights.hpp"

#include <bit>
#include <stdexcept>
#include <string>
#include <utility>

namespace deepinfer::cpu {

namespace {

int64_t num_groups(int64_t size) {
    return (size + 31) / 32;
}

// Looks tensors up in the forms that the weights' structs hold them in.
class Finder {
  public:
    Finder(const ModelConfig& config, const TensorTable& tensors, ModelWeights& weights)
        : config_(config), tensors_(tensors), weights_(weights) {}

    void model() {
        const int64_t dim = config_.hidden_size;
        weights_.embedding = plain("embedding", config_.vocab_size, dim);
        weights_.head = plain("head.weight", config_.vocab_size, dim);
        weights_.norm = vector("head.norm_weight", {dim});
        weights_.window_rope = rope("ropes.window");
        weights_.compressed_rope = rope("ropes.compressed");
        if (config_.num_ngrams > 0)
            weights_.ngram_vocabulary = tensors_.integers("compressed_vocab", {config_.vocab_size});
        for (size_t i = 0; i < config_.layers.size(); ++i)
            weights_.layers.push_back(layer("layers." + std::to_string(i), config_.layers[i]));
        if (tensors_.contains("draft.norm_weight")) draft();
    }

  private:
    WeightMatrix plain(const std::string& name, int64_t num_out, int64_t num_in) {
        const TensorView& tensor = tensors_.get(name, {num_out, num_in});
        if (tensor.type != DataType::kBf16 && tensor.type != DataType::kFloat32)
            throw std::invalid_argument("tensor '" + name + "' is neither bf16 nor float32");
        const WeightFormat format = tensor.type == DataType::kBf16 ? WeightFormat::kBf16 : WeightFormat::kF32;
        return {format, tensor.data, nullptr, num_out, num_in};
    }

    WeightMatrix fp8(const std::string& name, int64_t num_out, int64_t num_in) {
        return {WeightFormat::kFp8Block32, tensors_.bytes(name + ".codes", {num_out, num_in}),
                tensors_.bytes(name + ".scales", {num_groups(num_out), num_groups(num_in)}), num_out, num_in};
    }

    WeightStack fp4(const std::string& name, int64_t count, int64_t num_out, int64_t num_in) {
        return {{WeightFormat::kFp4Row32, tensors_.bytes(name + ".codes", {count, num_out, num_in / 2}),
                 tensors_.bytes(name + ".scales", {count, num_out, num_groups(num_in)}), num_out, num_in},
                count};
    }

    // A small array as float32, widened if it is bf16.
    const float* vector(const std::string& name, std::initializer_list<int64_t> shape) {
        const TensorView& tensor = tensors_.get(name, shape);
        if (tensor.type != DataType::kBf16) return tensors_.floats(name, shape);
        int64_t count = 1;
        for (int64_t size : shape) count *= size;
        const auto* values = static_cast<const uint16_t*>(tensor.data);
        std::vector<float>& widened = weights_.widened.emplace_back(static_cast<size_t>(count));
        for (size_t i = 0; i < widened.size(); ++i)
            widened[i] = std::bit_cast<float>(static_cast<uint32_t>(values[i]) << 16);
        return widened.data();
    }

    RopeWeights rope(const std::string& name) {
        const std::initializer_list<int64_t> shape = {config_.max_positions, config_.rope_dim / 2};
        return {tensors_.floats(name + ".cos", shape), tensors_.floats(name + ".sin", shape)};
    }

    HyperConnectionWeights hyper_connection(const std::string& name) {
        const int64_t streams = config_.num_streams, mixes = streams * (streams + 2);
        return {tensors_.floats(name + ".fn", {mixes, streams * config_.hidden_size}),
                tensors_.floats(name + ".base", {mixes}), tensors_.floats(name + ".scale", {3}),
                vector(name + ".norm_weight", {config_.hidden_size})};
    }

    ProjectionWeights projections(const std::string& name) {
        const int64_t dim = config_.hidden_size, width = config_.num_heads * config_.head_dim;
        const int64_t latent = config_.o_groups * config_.o_lora_rank;
        ProjectionWeights found;
        found.wq_a = fp8(name + ".wq_a", config_.q_lora_rank, dim);
        found.wq_b = fp8(name + ".wq_b", width, config_.q_lora_rank);
        found.wkv = fp8(name + ".wkv", config_.head_dim, dim);
        found.wo_a = fp8(name + ".wo_a", latent, width / config_.o_groups);
        found.wo_b = fp8(name + ".wo_b", dim, latent);
        found.q_norm = vector(name + ".q_norm_weight", {config_.q_lora_rank});
        found.kv_norm = vector(name + ".kv_norm_weight", {config_.head_dim});
        found.sink = tensors_.floats(name + ".sink", {config_.num_heads});
        return found;
    }

    CompressorWeights compressor(const std::string& name, int64_t ratio) {
        CompressorWeights found;
        found.wkv = plain(name + ".wkv", config_.head_dim, config_.hidden_size);
        if (ratio > 1) found.wgate = plain(name + ".wgate", config_.head_dim, config_.hidden_size);
        found.wk = plain(name + ".wk", config_.index_dim, config_.head_dim);
        found.norm = vector(name + ".norm_weight", {config_.head_dim});
        found.k_norm = vector(name + ".k_norm_weight", {config_.index_dim});
        return found;
    }

    IndexerWeights indexer(const std::string& name) {
        return {fp8(name + ".wq_b", config_.index_heads * config_.index_dim, config_.q_lora_rank),
                plain(name + ".weights_proj", config_.index_heads, config_.hidden_size)};
    }

    MoeWeights moe(const std::string& name, int64_t num_experts, int64_t num_picked) {
        const int64_t dim = config_.hidden_size, inner = config_.intermediate_size;
        MoeWeights found;
        found.gate = plain(name + ".gate_weight", num_experts, dim);
        found.bias = tensors_.floats(name + ".gate_bias", {num_experts});
        found.w1 = fp4(name + ".w1", num_experts, inner, dim);
        found.w3 = fp4(name + ".w3", num_experts, inner, dim);
        found.w2 = fp4(name + ".w2", num_experts, dim, inner);
        found.shared_w1 = fp8(name + ".shared.0", inner, dim);
        found.shared_w3 = fp8(name + ".shared.1", inner, dim);
        found.shared_w2 = fp8(name + ".shared.2", dim, inner);
        found.num_picked = num_picked;
        return found;
    }

    EngramWeights engram(const std::string& name) {
        const int64_t orders = config_.num_ngrams - 1, heads = config_.engram_heads, dim = config_.hidden_size;
        const std::string table = name + ".table";
        const int64_t rows = tensors_.num_rows(table);
        EngramWeights found;
        found.multipliers = tensors_.integers(name + ".hash.multipliers", {config_.num_ngrams});
        found.primes = tensors_.integers(name + ".hash.primes", {orders, heads});
        found.offsets = tensors_.integers(name + ".hash.offsets", {orders, heads});
        found.codes = tensors_.bytes(table, {rows, config_.engram_dim});
        found.scales = tensors_.bytes(name + ".table_scales", {rows, num_groups(config_.engram_dim)});
        found.wkv = fp8(name + ".wkv", (config_.num_streams + 1) * dim, orders * heads * config_.engram_dim);
        found.q = vector(name + ".q_weight", {config_.num_streams, dim});
        found.k = vector(name + ".k_weight", {config_.num_streams, dim});
        return found;
    }

    LayerWeights layer(const std::string& name, const LayerRole& role) {
        LayerWeights found;
        found.attn_hc = hyper_connection(name + ".attn_hc");
        found.ffn_hc = hyper_connection(name + ".ffn_hc");
        found.projections = projections(name + ".attention.projections");
        if (role.owns_kv) found.compressor = compressor(name + ".attention.compressor", role.ratio);
        if (role.owns_index) found.indexer = indexer(name + ".attention.indexer");
        found.moe = moe(name + ".moe", config_.num_experts, config_.num_picked);
        if (role.has_engram) found.engram = engram(name + ".engram");
        found.rope = role.ratio > 0 ? weights_.compressed_rope : weights_.window_rope;
        return found;
    }

    void draft() {
        const int64_t dim = config_.hidden_size, rank = config_.markov_rank, vocab = config_.vocab_size;
        int64_t num_features = 0;
        for (const LayerRole& role : config_.layers) num_features += role.draft_target != kNone ? 1 : 0;
        DraftWeights& found = weights_.draft.emplace();
        found.main_proj = fp8("draft.main_proj", dim, num_features * dim);
        found.markov_embedding = plain("draft.markov_embedding", vocab, rank);
        found.markov_head = plain("draft.markov_head", vocab, rank);
        found.confidence = plain("draft.confidence_weight", 1, dim + rank);
        found.main_norm = vector("draft.main_norm_weight", {dim});
        found.norm = vector("draft.norm_weight", {dim});
        for (int64_t s = 0; s < config_.num_draft_stages; ++s) {
            const std::string name = "draft.stages." + std::to_string(s);
            found.stages.push_back({hyper_connection(name + ".attn_hc"), hyper_connection(name + ".ffn_hc"),
                                    projections(name + ".projections"),
                                    moe(name + ".moe", config_.num_draft_experts, config_.num_draft_picked)});
        }
    }

    const ModelConfig& config_;
    const TensorTable& tensors_;
    ModelWeights& weights_;
};

}  // namespace

ModelWeights find_weights(const ModelConfig& config, const TensorTable& tensors) {
    ModelWeights weights;
    Finder(config, tensors, weights).model();
    return weights;
}

}  // namespace deepinfer::cpu
