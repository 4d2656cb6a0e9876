// Microseconds of the ops other than products, on one thread, at the sizes of the bundled model.
// Usage: bench_ops [isa]
#include <cstdio>
#include <functional>
#include <vector>

#include "cpu/bench/processor_time.hpp"
#include "cpu/context.hpp"
#include "cpu/ops/apply_rope.hpp"
#include "cpu/ops/argmax_rows.hpp"
#include "cpu/ops/compress_pairs.hpp"
#include "cpu/ops/draw_rows.hpp"
#include "cpu/ops/embed_rows.hpp"
#include "cpu/ops/engram_gate.hpp"
#include "cpu/ops/engram_lookup.hpp"
#include "cpu/ops/hc_mix.hpp"
#include "cpu/ops/hc_read.hpp"
#include "cpu/ops/hc_write.hpp"
#include "cpu/ops/index_scores.hpp"
#include "cpu/ops/ngram_rows.hpp"
#include "cpu/ops/rms_norm.hpp"
#include "cpu/ops/route.hpp"
#include "cpu/ops/score_tokens.hpp"
#include "cpu/ops/select_blocks.hpp"
#include "cpu/ops/select_topk.hpp"
#include "cpu/ops/sparse_attention.hpp"
#include "cpu/tests/random_weights.hpp"

using namespace deepinfer::cpu;

namespace {

constexpr int64_t kHidden = 256, kStreams = 4, kHeads = 8, kHeadDim = 128, kRotated = 32, kExperts = 16, kWindow = 64;
constexpr int64_t kPicks = 32, kIndexHeads = 4, kIndexDim = 64, kEntries = 1024, kVocab = 4096, kMaxRows = 256;

// Operands of every op for up to kMaxRows rows.
struct Operands {
    std::vector<float> a = random_floats(kMaxRows * kVocab, 1);
    std::vector<float> b = random_floats(kMaxRows * kStreams * kHidden, 2);
    std::vector<float> weights = random_floats(24 * kStreams * kHidden, 3);
    std::vector<float> out = std::vector<float>(static_cast<size_t>(kMaxRows * kVocab));
    std::vector<float> small = random_floats(3 * kMaxRows * 64, 4);
    std::vector<float> small_out = std::vector<float>(static_cast<size_t>(3 * kMaxRows * 64));
    std::vector<uint8_t> cache = std::vector<uint8_t>(static_cast<size_t>(kEntries * kHeadDim), uint8_t{0x33});
    std::vector<int64_t> numbers = std::vector<int64_t>(static_cast<size_t>(kMaxRows * kWindow));
    std::vector<int64_t> numbers_out = std::vector<int64_t>(static_cast<size_t>(kMaxRows * kWindow));
    std::vector<int64_t> zeros = std::vector<int64_t>(static_cast<size_t>(kMaxRows * kWindow));
    std::vector<int64_t> visible = std::vector<int64_t>(static_cast<size_t>(kMaxRows), kEntries);
    std::vector<const float*> pairs = std::vector<const float*>(static_cast<size_t>(kMaxRows), b.data());
    std::vector<DrawRow> draws = std::vector<DrawRow>(static_cast<size_t>(kMaxRows));
    EntryView entries{cache.data(), nullptr, 0, packed_bytes(VectorRounding::kFp4Group16, kHeadDim)};
    EntryView index_keys{cache.data(), nullptr, 0, packed_bytes(VectorRounding::kFp4Group32, kIndexDim)};

    Operands() {
        for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i * 7 % 64);
        for (size_t i = 0; i < draws.size(); ++i) draws[i].word = 0x9E3779B97F4A7C15u * (i + 1);
    }
};

class Bench {
  public:
    explicit Bench(Context& context) : context_(context) {}

    void run_all() {
        std::printf("%-28s %10s %10s %10s\n", "us, rows:", "1", "16", "256");
        hyper_connections();
        attention();
        selection();
        engram();
        sampling();
    }

  private:
    void row(const char* name, const std::function<void(int64_t)>& call) {
        std::printf("%-28s", name);
        for (int64_t n : {1, 16, 256}) std::printf(" %10.2f", 1e6 * seconds([&] { call(n); }));
        std::printf("\n");
    }

    void hyper_connections() {
        Operands& o = operands_;
        row("embed_rows", [&](int64_t n) {
            embed_rows(context_, {o.a.data(), o.numbers.data(), o.out.data(), n, kStreams, kHidden, true, true});
        });
        row("hc_mix", [&](int64_t n) {
            hc_mix(context_,
                   {o.b.data(), o.weights.data(), o.small.data(), o.small.data(), o.small_out.data(),
                    o.small_out.data() + n * 4, o.small_out.data() + n * 8, n, kStreams, kHidden, 20, 1e-6f, 1e-20f});
        });
        row("hc_read", [&](int64_t n) {
            hc_read(context_,
                    {o.b.data(), o.small.data(), nullptr, o.out.data(), n, kStreams, kHidden, 0, false, true});
        });
        row("hc_read + rms_norm", [&](int64_t n) {
            hc_read(context_, {o.b.data(), o.small.data(), o.weights.data(), o.out.data(), n, kStreams, kHidden, 1e-20f,
                               true, true});
        });
        row("hc_write", [&](int64_t n) {
            hc_write(context_, {o.b.data(), o.a.data(), o.small.data(), o.small.data(), o.out.data(), n, kStreams,
                                kHidden, true});
        });
        row("rms_norm 256", [&](int64_t n) {
            rms_norm(context_, {o.b.data(), o.weights.data(), o.out.data(), n, kHidden, 1e-20f, true});
        });
        row("route 16, top 2", [&](int64_t n) {
            route(context_, {o.a.data(), o.b.data(), o.numbers_out.data(), o.small_out.data(), nullptr, n, kExperts, 2,
                             1.5f, true});
        });
        row("route 384, top 6", [&](int64_t n) {
            route(context_,
                  {o.a.data(), o.b.data(), o.numbers_out.data(), o.small_out.data(), nullptr, n, 384, 6, 1.5f, true});
        });
    }

    void attention() {
        Operands& o = operands_;
        row("apply_rope 8 x 128", [&](int64_t n) {
            apply_rope(context_, {o.a.data(), o.b.data(), o.b.data(), o.numbers.data(), o.out.data(), n, kHeads,
                                  kHeadDim, kRotated, false, true});
        });
        row("compress_pairs", [&](int64_t n) {
            compress_pairs(context_, {o.pairs.data(), o.pairs.data(), o.out.data(), n, kHeadDim, true});
        });
        for (bool has_entries : {false, true}) {
            row(has_entries ? "sparse_attention 64 + 32" : "sparse_attention 64", [&](int64_t n) {
                sparse_attention(context_, {.q = o.a.data(),
                                            .window = o.b.data(),
                                            .window_index = o.numbers.data(),
                                            .views = has_entries ? &o.entries : nullptr,
                                            .row_view = o.zeros.data(),
                                            .picks = o.numbers.data(),
                                            .sink = o.small.data(),
                                            .out = o.out.data(),
                                            .entry_rounding = VectorRounding::kFp4Group16,
                                            .num_rows = n,
                                            .num_heads = kHeads,
                                            .dim = kHeadDim,
                                            .window_size = kWindow,
                                            .num_picks = has_entries ? kPicks : 0,
                                            .scale = 0.1f,
                                            .rounds_bf16 = true});
            });
        }
    }

    void selection() {
        Operands& o = operands_;
        row("index_scores 4 x 64, 1024", [&](int64_t n) {
            index_scores(context_, {.q = o.a.data(),
                                    .head_weights = o.small.data(),
                                    .views = &o.index_keys,
                                    .row_view = o.zeros.data(),
                                    .num_visible = o.visible.data(),
                                    .out = o.out.data(),
                                    .key_rounding = VectorRounding::kFp4Group32,
                                    .num_rows = n,
                                    .num_heads = kIndexHeads,
                                    .dim = kIndexDim,
                                    .num_entries = kEntries,
                                    .scale = 0.1f,
                                    .rounds_bf16 = true});
        });
        row("select_topk 32 of 1024",
            [&](int64_t n) { select_topk(context_, {o.a.data(), o.numbers_out.data(), n, kEntries, kPicks}); });
        row("select_blocks 16 of 128", [&](int64_t n) {
            select_blocks(context_, {o.a.data(), o.visible.data(), o.numbers_out.data(), n, kEntries, 8, 16});
        });
        std::printf("%-28s %10.2f\n", "select_topk 2048 of 1048576",
                    1e6 * seconds([&] {
                        select_topk(context_, {o.a.data(), o.numbers_out.data(), 1, kMaxRows * kVocab, 2048});
                    }));
    }

    void engram() {
        Operands& o = operands_;
        const std::vector<int64_t> constants = {1, 3, 5, 4099, 4111, 4127, 4129, 0, 4099, 8210, 12337};
        row("ngram_rows 3, 2 heads", [&](int64_t n) {
            ngram_rows(context_, {o.numbers.data(), constants.data(), constants.data() + 3, constants.data() + 7,
                                  o.numbers_out.data(), n, 3, 2});
        });
        row("engram_lookup 4 x 32", [&](int64_t n) {
            engram_lookup(context_, {o.numbers.data(), o.cache.data(), o.cache.data(), o.out.data(), 4 * n, 32});
        });
        row("engram_gate", [&](int64_t n) {
            engram_gate(context_, {o.b.data(), o.b.data(), o.a.data(), o.weights.data(), o.weights.data(), o.out.data(),
                                   n, kStreams, kHidden, kStreams * kHidden, kHidden, 1e-20f, 0.0625f, true});
        });
    }

    void draw(const char* name, float temperature, int64_t min_weight, double top_p, int64_t top_k) {
        Operands& o = operands_;
        for (DrawRow& request : o.draws) request = {temperature, min_weight, top_p, top_k, request.word};
        row(name, [&](int64_t n) {
            draw_rows(context_, {o.a.data(), o.draws.data(), o.numbers_out.data(), nullptr, n, kVocab, kVocab});
        });
    }

    void sampling() {
        Operands& o = operands_;
        row("argmax_rows 4096",
            [&](int64_t n) { argmax_rows(context_, {o.a.data(), o.numbers_out.data(), nullptr, n, kVocab, kVocab}); });
        row("score_tokens 4096", [&](int64_t n) {
            score_tokens(context_, {o.a.data(), o.numbers.data(), o.small_out.data(), o.numbers_out.data(), n, kVocab,
                                    kVocab, kVocab});
        });
        draw("draw_rows 4096", 1.0f, 0, 1.0, 0);
        draw("draw_rows 4096 top_p 0.95", 1.0f, 0, 0.95, 0);
        draw("draw_rows 4096 t 0.1 p 0.9", 0.1f, 0, 0.9, 0);
        draw("draw_rows 4096 top_k 50", 1.0f, 0, 1.0, 50);
        for (DrawRow& request : o.draws) request = {1.0f, 0, 0.95, 0, request.word};
        std::printf("%-28s %10.2f\n", "argmax_rows 129280",
                    1e6 * seconds([&] {
                        argmax_rows(context_, {o.a.data(), o.numbers_out.data(), nullptr, 1, 129280, 129280});
                    }));
        std::printf("%-28s %10.2f\n", "draw_rows 129280 top_p 0.95",
                    1e6 * seconds([&] {
                        draw_rows(context_,
                                  {o.a.data(), o.draws.data(), o.numbers_out.data(), nullptr, 1, 129280, 129280});
                    }));
    }

    Context& context_;
    Operands operands_;
};

}  // namespace

int main(int argc, char** argv) {
    Context context(1, parse_isa(argc > 1 ? argv[1] : "auto"));
    Bench(context).run_all();
}
