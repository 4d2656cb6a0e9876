// All kernels, for the instruction set that the including file has chosen, and their table.
#pragma once

#include "cpu/kernel_table.hpp"
#include "cpu/kernels/apply_rope.hpp"
#include "cpu/kernels/argmax_rows.hpp"
#include "cpu/kernels/combine_experts.hpp"
#include "cpu/kernels/compress_pairs.hpp"
#include "cpu/kernels/draw_rows.hpp"
#include "cpu/kernels/embed_rows.hpp"
#include "cpu/kernels/engram_gate.hpp"
#include "cpu/kernels/engram_lookup.hpp"
#include "cpu/kernels/gated_hidden.hpp"
#include "cpu/kernels/hc_mix.hpp"
#include "cpu/kernels/hc_read.hpp"
#include "cpu/kernels/hc_write.hpp"
#include "cpu/kernels/index_scores.hpp"
#include "cpu/kernels/multiply_rows.hpp"
#include "cpu/kernels/prepare_rows.hpp"
#include "cpu/kernels/rms_norm.hpp"
#include "cpu/kernels/route.hpp"
#include "cpu/kernels/score_tokens.hpp"
#include "cpu/kernels/select_blocks.hpp"
#include "cpu/kernels/select_topk.hpp"
#include "cpu/kernels/sparse_attention.hpp"
#include "cpu/kernels/stream_mean.hpp"
#include "cpu/kernels/vectors.hpp"

namespace deepinfer::cpu::DEEPINFER_CPU_ISA {

const KernelTable kKernels = {
    .apply_rope = apply_rope,
    .argmax_rows = argmax_rows,
    .combine_experts = combine_experts,
    .compress_pairs = compress_pairs,
    .decode_vectors = decode_vectors,
    .draw_rows = draw_rows,
    .embed_rows = embed_rows,
    .encode_vectors = encode_vectors,
    .engram_gate = engram_gate,
    .engram_lookup = engram_lookup,
    .gated_hidden = gated_hidden,
    .hc_mix = hc_mix,
    .hc_read = hc_read,
    .hc_write = hc_write,
    .index_scores = index_scores,
    .multiply_rows = multiply_rows,
    .pack_rows = nullptr,
    .prepare_rows = prepare_rows,
    .rms_norm = rms_norm,
    .round_vectors = round_vectors,
    .route = route,
    .score_tokens = score_tokens,
    .select_blocks = select_blocks,
    .select_topk = select_topk,
    .sparse_attention = sparse_attention,
    .stream_mean = stream_mean,
};

}  // namespace deepinfer::cpu::DEEPINFER_CPU_ISA
