// The kernels of one instruction set, as function pointers. Each computes a range of its op's items; ops/ splits them.
#pragma once

#include "cpu/isa.hpp"
#include "cpu/ops/apply_rope.hpp"
#include "cpu/ops/argmax_rows.hpp"
#include "cpu/ops/combine_experts.hpp"
#include "cpu/ops/compress_pairs.hpp"
#include "cpu/ops/decode_vectors.hpp"
#include "cpu/ops/draw_rows.hpp"
#include "cpu/ops/embed_rows.hpp"
#include "cpu/ops/encode_vectors.hpp"
#include "cpu/ops/engram_gate.hpp"
#include "cpu/ops/engram_lookup.hpp"
#include "cpu/ops/gated_hidden.hpp"
#include "cpu/ops/hc_mix.hpp"
#include "cpu/ops/hc_read.hpp"
#include "cpu/ops/hc_write.hpp"
#include "cpu/ops/index_scores.hpp"
#include "cpu/ops/pack_rows.hpp"
#include "cpu/ops/prepare_rows.hpp"
#include "cpu/ops/rms_norm.hpp"
#include "cpu/ops/round_vectors.hpp"
#include "cpu/ops/route.hpp"
#include "cpu/ops/row_product.hpp"
#include "cpu/ops/score_tokens.hpp"
#include "cpu/ops/select_blocks.hpp"
#include "cpu/ops/select_topk.hpp"
#include "cpu/ops/sparse_attention.hpp"
#include "cpu/ops/stream_mean.hpp"
#include "cpu/range.hpp"

namespace deepinfer::cpu {

struct KernelTable {
    void (*apply_rope)(const ApplyRopeArgs&, Range rows, float* scratch);
    void (*argmax_rows)(const ArgmaxRowsArgs&, Range rows);
    void (*combine_experts)(const CombineExpertsArgs&, Range rows);
    void (*compress_pairs)(const CompressPairsArgs&, Range pairs);
    void (*decode_vectors)(const DecodeVectorsArgs&, Range rows);
    void (*draw_rows)(const DrawRowsArgs&, Range rows, float* scratch);
    void (*embed_rows)(const EmbedRowsArgs&, Range rows);
    void (*encode_vectors)(const EncodeVectorsArgs&, Range rows);
    void (*engram_gate)(const EngramGateArgs&, Range rows);
    void (*engram_lookup)(const EngramLookupArgs&, Range rows);
    void (*gated_hidden)(const GatedHiddenArgs&);
    void (*hc_mix)(const HcMixArgs&, Range rows);
    void (*hc_read)(const HcReadArgs&, Range rows);
    void (*hc_write)(const HcWriteArgs&, Range rows);
    void (*index_scores)(const IndexScoresArgs&, Range rows, Range entries, float* scratch);
    void (*multiply_rows)(const RowProduct&);
    // Nullptr where products take no pairs. Returns whether the rows could be packed.
    bool (*pack_rows)(const PackRowsArgs&, Range rows) = nullptr;
    void (*prepare_rows)(const PrepareRowsArgs&, Range rows);
    void (*rms_norm)(const RmsNormArgs&, Range rows);
    void (*round_vectors)(const RoundVectorsArgs&, Range rows);
    void (*route)(const RouteArgs&, Range rows, float* scratch);
    void (*score_tokens)(const ScoreTokensArgs&, Range rows, float* scratch);
    void (*select_blocks)(const SelectBlocksArgs&, Range rows, float* best, float* scratch, int64_t capacity);
    void (*select_topk)(const SelectTopkArgs&, Range rows, float* scratch, int64_t capacity);
    void (*sparse_attention)(const SparseAttentionArgs&, Range rows, float* scratch);
    void (*stream_mean)(const StreamMeanArgs&, Range rows);
};

// Only to be called when is_supported(isa).
const KernelTable& kernel_table(Isa isa);

namespace scalar {
extern const KernelTable kKernels;
}
namespace avx2 {
extern const KernelTable kKernels;
}
namespace avx512 {
extern const KernelTable kKernels;
}
namespace avx512bf16 {
const KernelTable& kernels();
// Whether this machine's dot products of pairs add as kernels/multiply_pairs.hpp takes them to.
bool adds_in_order();
}  // namespace avx512bf16

}  // namespace deepinfer::cpu
