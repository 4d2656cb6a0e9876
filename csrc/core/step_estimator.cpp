#include "core/step_estimator.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/message.hpp"

namespace deepinfer {

namespace {

constexpr size_t kEncoder = 0;
constexpr size_t kConsumer = 1;

double product(std::initializer_list<int64_t> factors) {
    double result = 1;
    for (const int64_t factor : factors) result *= static_cast<double>(factor);
    return result;
}

int64_t groups(int64_t size) {
    return (size + 31) / 32;
}

// Codes and E8M0 scales of the stored forms (deepinfer/models/deepseek_v41/weights.py).
double fp8_bytes(int64_t rows, int64_t columns) {
    return product({rows, columns}) + product({groups(rows), groups(columns)});
}

double fp4_bytes(int64_t rows, int64_t columns) {
    return product({rows, columns / 2}) + product({rows, groups(columns)});
}

double bf16_bytes(int64_t rows, int64_t columns = 1) {
    return 2 * product({rows, columns});
}

const ModelShape& validated(const ModelShape& s) {
    const auto require = [](const char* field, int64_t value, int64_t least) {
        if (value < least) throw std::invalid_argument(message(field, " is ", value, "; it must be at least ", least));
    };
    for (const LayerShape& layer : s.layers) require("ratio", layer.ratio, 0);
    require("first_consumer", s.first_consumer, 0);
    require("sliding_window", s.sliding_window, 1);
    require("window_ring", s.window_ring, s.sliding_window);
    require("index_topk", s.index_topk, 0);
    require("candidate_blocks", s.candidate_blocks, 0);
    require("candidate_block_size", s.candidate_block_size, 1);
    require("num_drafts", s.num_drafts, 0);
    return s;
}

}  // namespace

StepEstimator::StepEstimator(ModelShape shape, YocoMode yoco) : shape_(validated(shape)), yoco_(yoco) {
    bool has_target = false;
    bool consumers_only = true;
    for (size_t i = 0; i < shape_.layers.size(); ++i) {
        const LayerShape& layer = shape_.layers[i];
        if (layer.ratio > 0 && std::find(ratios_.begin(), ratios_.end(), layer.ratio) == ratios_.end()) {
            ratios_.push_back(layer.ratio);
        }
        has_target |= layer.is_draft_target;
        if (layer.is_draft_target && static_cast<int64_t>(i) < shape_.first_consumer) consumers_only = false;
    }
    draft_half_ = has_target && consumers_only ? kConsumer : kEncoder;
    layer_block_ = block(shape_.num_experts, shape_.experts_per_token);
    stage_block_ = block(shape_.draft_experts, shape_.draft_experts_per_token);
}

size_t StepEstimator::ratio_index(int64_t ratio) const {
    return static_cast<size_t>(std::find(ratios_.begin(), ratios_.end(), ratio) - ratios_.begin());
}

StepEstimator::Block StepEstimator::block(int64_t num_experts, int64_t experts_per_token) const {
    const ModelShape& s = shape_;
    const int64_t dim = s.hidden_size;
    const int64_t heads = s.num_heads * s.head_dim;
    const int64_t latent = s.o_groups * s.o_lora_rank;
    const int64_t mixes = s.num_streams * (s.num_streams + 2);
    const int64_t flat = s.num_streams * dim;
    Block b;
    b.num_experts = num_experts;
    b.experts_per_token = experts_per_token;
    b.fp8 = product({s.q_lora_rank, dim}) + product({heads, s.q_lora_rank}) + product({s.head_dim, dim}) +
            product({heads, s.o_lora_rank}) + product({latent, dim}) + product({3, dim, s.expert_width});
    b.experts = product({experts_per_token, 3, dim, s.expert_width});
    b.bf16 = product({num_experts, dim});
    // Two sublayers: mixing projection, read (the attention's is counted with its own rows), write.
    b.fp32 = 2 * (product({mixes, flat}) + product({s.num_streams, flat}) + product({flat})) + product({flat});
    b.weight_bytes = fp8_bytes(s.q_lora_rank, dim) + bf16_bytes(s.q_lora_rank) + fp8_bytes(heads, s.q_lora_rank) +
                     fp8_bytes(s.head_dim, dim) + bf16_bytes(s.head_dim) + 4 * product({s.num_heads}) +
                     fp8_bytes(latent, heads / s.o_groups) + fp8_bytes(dim, latent);
    b.weight_bytes += 2 * 4 * (product({mixes, flat}) + product({mixes}) + 3) + bf16_bytes(dim);
    b.weight_bytes += bf16_bytes(num_experts, dim) + 4 * product({num_experts});
    b.weight_bytes += 2 * fp8_bytes(s.expert_width, dim) + fp8_bytes(dim, s.expert_width);
    return b;
}

void StepEstimator::add_block(StepCost& cost, const Block& b, int64_t rows) const {
    if (rows == 0) return;
    const ModelShape& s = shape_;
    const auto count = static_cast<double>(rows);
    cost.fp8 += count * b.fp8;
    cost.experts += count * b.experts;
    cost.bf16 += count * b.bf16;
    cost.fp32 += count * b.fp32;
    const int64_t reached = std::min(b.num_experts, rows * b.experts_per_token);
    cost.weight_bytes += b.weight_bytes;
    cost.weight_bytes += static_cast<double>(reached) *
                         (2 * fp4_bytes(s.expert_width, s.hidden_size) + fp4_bytes(s.hidden_size, s.expert_width));
    // Attention writes the streams, the experts read and write them; the attention's read is counted with its rows.
    cost.activation_bytes += 3 * product({rows, s.num_streams, s.hidden_size, s.activation_bytes});
}

void StepEstimator::add_attention(StepCost& cost, int64_t pairs) const {
    cost.attention += product({pairs, 2, shape_.num_heads, shape_.head_dim});
}

StepEstimator::Geometry StepEstimator::geometry(std::span<const SequenceRows> sequences) const {
    Geometry g;
    Half both;  // what the two halves have in common
    both.entries.resize(ratios_.size());
    for (Half& half : g.halves) half.entries.resize(ratios_.size());
    g.compressed.resize(ratios_.size());
    for (const SequenceRows& seq : sequences) {
        const int64_t begin = seq.context_len;
        const int64_t end = begin + seq.num_rows;
        const int64_t seen = seq.window_start;
        if (yoco_ == YocoMode::kOff || seq.consumer_start <= std::max(seen, begin - shape_.window_ring)) {
            add_rows(both, begin, end, seen);
        } else {
            add_rows(g.halves[kEncoder], begin, end, seen);
            const bool is_compact = yoco_ == YocoMode::kCompact;
            const int64_t kept_begin = is_compact ? std::clamp(seq.consumer_start, begin, end) : begin;
            add_rows(g.halves[kConsumer], kept_begin, end, seq.consumer_start);
        }
        add_compressed(g, seq);
        g.logit_rows += seq.num_logit_rows;
    }
    for (Half& half : g.halves) half += both;
    return g;
}

StepEstimator::Half& StepEstimator::Half::operator+=(const Half& other) {
    rows += other.rows;
    window_pairs += other.window_pairs;
    history += other.history;
    kept += other.kept;
    for (size_t i = 0; i < entries.size(); ++i) entries[i] += other.entries[i];
    return *this;
}

void StepEstimator::add_rows(Half& half, int64_t begin, int64_t end, int64_t first_seen) const {
    if (begin == end) return;
    const int64_t window = shape_.sliding_window;
    half.rows += end - begin;
    half.window_pairs += end - begin == 1 ? std::clamp<int64_t>(end - first_seen, 0, window)
                                          : window_pairs(window, first_seen, begin, end);
    half.history += std::clamp<int64_t>(begin - first_seen, 0, window - 1);
    half.kept += end - std::min(end, std::max({begin, end - shape_.window_ring, first_seen}));
    for (size_t i = 0; i < ratios_.size(); ++i) half.entries[i].add(shape_, ratios_[i], begin, end);
}

void StepEstimator::add_compressed(Geometry& g, const SequenceRows& seq) const {
    const int64_t begin = seq.context_len;
    const int64_t end = begin + seq.num_rows;
    const int64_t first = std::min(end, std::max(begin, seq.entry_start));
    for (size_t i = 0; i < ratios_.size(); ++i) {
        const int64_t ratio = ratios_[i];
        Compressed& counts = g.compressed[i];
        const int64_t completed = end / ratio - first / ratio;
        counts.rows += end - first;
        counts.completed += completed;
        if (ratio == 1) continue;
        if (completed > 0 && first == begin) counts.carried += begin % ratio;
        counts.kept += std::min(end - begin, ratio + std::max<int64_t>(0, shape_.rollback - 1));
    }
}

StepCost StepEstimator::target_pass(std::span<const SequenceRows> sequences, bool keeps_draft_context) const {
    Geometry g = geometry(sequences);
    g.has_drafts = shape_.num_drafts > 0 && keeps_draft_context;
    StepCost cost;
    cost.weight_bytes += bf16_bytes(g.halves[kEncoder].rows, shape_.hidden_size);  // embeddings
    for (size_t layer = 0; layer < shape_.layers.size(); ++layer) add_layer(cost, layer, g);
    add_head(cost, g.logit_rows);
    if (g.has_drafts) add_draft_context(cost, g);
    return cost;
}

void StepEstimator::add_layer(StepCost& cost, size_t number, const Geometry& g) const {
    const LayerShape& layer = shape_.layers[number];
    const auto signed_number = static_cast<int64_t>(number);
    const Half& half = g.halves[signed_number < shape_.first_consumer ? kEncoder : kConsumer];
    // The first consumer layer makes entries of all rows; the others see the kept ones only.
    const int64_t read_rows = signed_number == shape_.first_consumer ? g.halves[kEncoder].rows : half.rows;
    const int64_t flat = shape_.num_streams * shape_.hidden_size;
    if (layer.has_engram) add_engram(cost, half.rows);
    if (read_rows > 0) cost.weight_bytes += bf16_bytes(shape_.hidden_size);  // the attention's norm
    cost.fp32 += product({read_rows, flat});
    cost.activation_bytes += product({read_rows, flat, shape_.activation_bytes});
    if (layer.owns_kv) add_compressor(cost, layer, g.compressed[ratio_index(layer.ratio)]);
    add_block(cost, layer_block_, half.rows);
    if (g.has_drafts && layer.is_draft_target) cost.fp32 += product({half.rows, flat});
    add_attention(cost, half.window_pairs);
    cost.cache_read_bytes += product({half.history, shape_.window_bytes});
    cost.cache_written_bytes += product({half.kept, shape_.window_bytes});
    if (layer.ratio > 0) add_entries(cost, layer, half);
}

void StepEstimator::add_entries(StepCost& cost, const LayerShape& layer, const Half& half) const {
    const EntryCounts& counts = half.entries[ratio_index(layer.ratio)];
    add_attention(cost, counts.picks);
    cost.cache_read_bytes += product({counts.picks_read, shape_.main_bytes});
    if (layer.owns_index) add_selection(cost, layer, counts);
}

void StepEstimator::add_selection(StepCost& cost, const LayerShape& layer, const EntryCounts& counts) const {
    if (counts.choosing_rows == 0) return;
    const ModelShape& s = shape_;
    const int64_t queries = s.index_heads * s.index_dim;
    const int64_t pairs = layer.uses_candidates ? counts.scored_blocks : counts.scored;
    const int64_t read = layer.uses_candidates ? counts.scored_blocks_read : counts.scored_read;
    cost.fp8 += product({counts.choosing_rows, queries, s.q_lora_rank});
    cost.bf16 += product({counts.choosing_rows, s.index_heads, s.hidden_size});
    cost.index += product({pairs, queries});
    cost.fp32 += product({pairs, s.index_heads});
    cost.weight_bytes += fp8_bytes(queries, s.q_lora_rank) + bf16_bytes(s.index_heads, s.hidden_size);
    cost.cache_read_bytes += product({read, s.index_bytes});
}

void StepEstimator::add_compressor(StepCost& cost, const LayerShape& layer, const Compressed& counts) const {
    const ModelShape& s = shape_;
    cost.cache_written_bytes += product({counts.kept, s.compressor_bytes});
    if (counts.rows == 0) return;
    const int64_t matrices = layer.ratio > 1 ? 2 : 1;  // values and, to pool them, gates
    cost.bf16 += product({counts.rows, matrices, s.head_dim, s.hidden_size});
    cost.weight_bytes += static_cast<double>(matrices) * bf16_bytes(s.head_dim, s.hidden_size);
    cost.cache_read_bytes += product({counts.carried, s.compressor_bytes});
    if (counts.completed == 0) return;
    cost.bf16 += product({counts.completed, s.index_dim, s.head_dim});
    cost.weight_bytes += bf16_bytes(s.index_dim, s.head_dim) + bf16_bytes(s.head_dim) + bf16_bytes(s.index_dim);
    cost.cache_written_bytes += product({counts.completed, s.main_bytes + s.index_bytes});
}

void StepEstimator::add_engram(StepCost& cost, int64_t rows) const {
    if (rows == 0) return;
    const ModelShape& s = shape_;
    const int64_t flat = s.num_streams * s.hidden_size;
    const int64_t outputs = flat + s.hidden_size;
    const int64_t inputs = s.engram_lookups * s.engram_width;
    cost.fp8 += product({rows, outputs, inputs});
    cost.fp32 += product({rows, 2, flat});  // q . k, and the gated value added
    cost.weight_bytes += fp8_bytes(outputs, inputs) + 2 * bf16_bytes(flat);
    cost.weight_bytes += product({rows, s.engram_lookups, s.engram_width + groups(s.engram_width)});
    cost.activation_bytes += 2 * product({rows, flat, s.activation_bytes});
}

// Also the last read of the streams.
void StepEstimator::add_head(StepCost& cost, int64_t rows) const {
    if (rows == 0) return;
    const ModelShape& s = shape_;
    cost.fp32 += product({rows, s.num_streams, s.hidden_size});
    cost.bf16 += product({rows, s.vocab_size, s.hidden_size});
    cost.weight_bytes += bf16_bytes(s.vocab_size, s.hidden_size) + bf16_bytes(s.hidden_size);
    cost.activation_bytes += product({rows, s.num_streams, s.hidden_size, s.activation_bytes});
    cost.activation_bytes += 4 * product({rows, s.vocab_size});
}

// Keys of the draft stages' windows, of the rows that these keep.
void StepEstimator::add_draft_context(StepCost& cost, const Geometry& g) const {
    const int64_t rows = g.halves[draft_half_].kept;
    if (rows == 0) return;
    const ModelShape& s = shape_;
    const int64_t num_targets =
        std::count_if(s.layers.begin(), s.layers.end(), [](const LayerShape& l) { return l.is_draft_target; });
    cost.fp8 += product({rows, num_targets * s.hidden_size, s.hidden_size});
    cost.fp8 += product({rows, s.draft_stages, s.head_dim, s.hidden_size});
    cost.weight_bytes += fp8_bytes(s.hidden_size, num_targets * s.hidden_size) + bf16_bytes(s.hidden_size);
    cost.weight_bytes +=
        static_cast<double>(s.draft_stages) * (fp8_bytes(s.head_dim, s.hidden_size) + bf16_bytes(s.head_dim));
    cost.cache_written_bytes += product({rows, s.draft_stages, s.window_bytes});
}

StepCost StepEstimator::draft_pass(std::span<const int64_t> last_positions) const {
    StepCost cost;
    const ModelShape& s = shape_;
    const int64_t rows = static_cast<int64_t>(last_positions.size()) * s.num_drafts;
    if (rows == 0) return cost;
    int64_t context = 0;
    for (const int64_t last : last_positions) context += std::min(last + 1, s.sliding_window);
    cost.weight_bytes += bf16_bytes(rows, s.hidden_size);  // embeddings
    for (int64_t stage = 0; stage < s.draft_stages; ++stage) {
        cost.weight_bytes += bf16_bytes(s.hidden_size);
        cost.fp32 += product({rows, s.num_streams, s.hidden_size});
        cost.activation_bytes += product({rows, s.num_streams, s.hidden_size, s.activation_bytes});
        add_block(cost, stage_block_, rows);
        add_attention(cost, (context + rows) * s.num_drafts);
        cost.cache_read_bytes += product({context, s.window_bytes});
    }
    add_head(cost, rows);
    // Markov head: first-order logits of the token before; confidence: one output from hidden and that token's vector.
    cost.bf16 += product({rows, s.vocab_size + 1, s.markov_rank}) + product({rows, s.hidden_size});
    cost.weight_bytes += bf16_bytes(s.vocab_size + rows, s.markov_rank) + bf16_bytes(s.hidden_size + s.markov_rank);
    return cost;
}

StepCost StepEstimator::plan_cost(const StepPlan& plan) const {
    std::vector<SequenceRows> sequences(plan.seq_ids.size());
    std::vector<int64_t> drafting;
    for (size_t i = 0; i < sequences.size(); ++i) {
        const int64_t rows = plan.cu_seqlens_q[i + 1] - plan.cu_seqlens_q[i];
        const int64_t logits = plan.samples[i] ? 1 + plan.num_drafts[i] : 0;
        sequences[i] = {plan.context_lens[i], rows, plan.consumer_starts[i], logits, plan.window_starts[i],
                        plan.entry_starts[i]};
        if (!plan.make_drafts || !plan.samples[i]) continue;
        const int64_t forks = plan.cu_forks[i + 1] - plan.cu_forks[i];
        drafting.insert(drafting.end(), static_cast<size_t>(1 + forks), plan.context_lens[i] + rows - 1);
    }
    StepCost cost = target_pass(sequences, plan.keeps_draft_context);
    if (!drafting.empty()) cost += draft_pass(drafting);
    return cost;
}

}  // namespace deepinfer
