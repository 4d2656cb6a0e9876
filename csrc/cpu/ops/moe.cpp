#include "cpu/ops/moe.hpp"

#include <algorithm>

#include "cpu/context.hpp"
#include "cpu/ops/combine_experts.hpp"
#include "cpu/ops/gated_hidden.hpp"
#include "cpu/ops/moe_plan.hpp"
#include "cpu/ops/prepare_rows.hpp"
#include "cpu/ops/row_product.hpp"

namespace deepinfer::cpu {

namespace {

bool splits_pairs(const WeightMatrix& weight) {
    return weight.format == WeightFormat::kFp4Row32;
}

// Whether gate or up projections read x in a layout.
bool has_layout(const MoeArgs& args, bool splits) {
    const WeightMatrix* const weights[] = {&args.w1.first, &args.w3.first, &args.shared_w1, &args.shared_w3};
    return std::any_of(std::begin(weights), std::end(weights), [&](const WeightMatrix* weight) {
        return weight->num_out != 0 && splits_pairs(*weight) == splits;
    });
}

// Packs columns of some rows, unless other rows could not be packed.
void pack(const KernelTable& kernels, MoeRows& x, Range rows, Range columns) {
    if (x.usable_pairs() == nullptr) return;
    const PackRowsArgs args{x.floats + columns.begin, x.stride, x.pairs + columns.begin, x.stride, columns.size()};
    if (kernels.pack_rows == nullptr || !kernels.pack_rows(args, rows)) x.give_up_pairs();
}

// The x that gate and up projections read, in the layouts that they need; it is quantized once.
void prepare_x(Context& context, const MoeArgs& args, MoePlan& plan) {
    const KernelTable& kernels = context.kernels();
    const int64_t dim = args.w1.first.num_in, padded = padded_columns(dim);
    const bool needs_plain = has_layout(args, false), needs_split = has_layout(args, true);
    const int64_t grain = std::max<int64_t>(1, kPrepareGrain / padded);
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) {
        PrepareRowsArgs prepare{args.x, args.x_stride, plan.x_plain.floats, dim, args.quantizes, false};
        if (needs_plain) {
            kernels.prepare_rows(prepare, rows);
            pack(kernels, plan.x_plain, rows, {0, padded});
            prepare = {plan.x_plain.floats, padded, nullptr, dim, false, false};
        }
        if (!needs_split) return;
        prepare.out = plan.x_split.floats;
        prepare.splits_pairs = true;
        kernels.prepare_rows(prepare, rows);
        pack(kernels, plan.x_split, rows, {0, padded});
    });
}

// Gate and up projections of an item, 32 outputs at most, and its part of the hidden vectors.
void compute_hidden(Context& context, const MoeArgs& args, MoePlan& plan, MoePlan::Item item, float* scratch) {
    const bool shared = plan.is_shared(item.segment);
    const int64_t expert = shared ? 0 : plan.expert(item.segment);
    const int64_t first = plan.first_slot(item.segment) + item.part.rows.begin, num_rows = item.part.rows.size();
    const WeightMatrix w1 = shared ? args.shared_w1 : args.w1.at(expert);
    const WeightMatrix w3 = shared ? args.shared_w3 : args.w3.at(expert);
    const WeightMatrix& w2 = shared ? args.shared_w2 : args.w2.first;
    const int64_t x_stride = padded_columns(w1.num_in);
    float* gate = scratch + row_product_scratch_floats(w1.num_in);
    float* up = gate + num_rows * kTileOutputs;
    for (const bool is_gate : {true, false}) {
        const WeightMatrix& weight = is_gate ? w1 : w3;
        const MoeRows& x = splits_pairs(weight) ? plan.x_split : plan.x_plain;
        const int64_t at = shared ? first * x_stride : 0;
        context.kernels().multiply_rows({.x = x.floats + at,
                                         .x_stride = x_stride,
                                         .pairs = offset(x.usable_pairs(), at),
                                         .pairs_stride = x_stride,
                                         .x_index = shared ? nullptr : plan.slot_rows() + first,
                                         .num_rows = num_rows,
                                         .weight = weight,
                                         .outputs = item.part.outputs,
                                         .out = is_gate ? gate : up,
                                         .out_stride = kTileOutputs,
                                         .rounds_bf16 = args.rounds_bf16,
                                         .scratch = scratch});
    }
    MoeRows& hidden = shared ? plan.shared_hidden : plan.hidden;
    context.kernels().gated_hidden({.gate = gate,
                                    .up = up,
                                    .weights = shared ? plan.ones() : plan.slot_weights() + first,
                                    .out = hidden.floats + first * hidden.stride + item.part.outputs.begin,
                                    .out_stride = hidden.stride,
                                    .num_rows = num_rows,
                                    .num_columns = static_cast<int>(item.part.outputs.size()),
                                    .limit = args.limit,
                                    .quantizes = args.quantizes,
                                    .rounds_bf16 = args.rounds_bf16,
                                    .splits_pairs = splits_pairs(w2)});
    const int64_t column = item.part.outputs.begin;
    pack(context.kernels(), hidden, {first, first + num_rows}, {column, column + kGroupColumns});
}

// Down projection of an item.
void compute_down(Context& context, const MoeArgs& args, const MoePlan& plan, MoePlan::Item item, float* scratch) {
    const bool shared = plan.is_shared(item.segment);
    const WeightMatrix weight = shared ? args.shared_w2 : args.w2.at(plan.expert(item.segment));
    const int64_t first = plan.first_slot(item.segment) + item.part.rows.begin;
    const int64_t x_stride = padded_columns(weight.num_in);
    float* out = shared ? plan.shared : plan.routed;
    const MoeRows& hidden = shared ? plan.shared_hidden : plan.hidden;
    context.kernels().multiply_rows({.x = hidden.floats + first * x_stride,
                                     .x_stride = x_stride,
                                     .pairs = offset(hidden.usable_pairs(), first * x_stride),
                                     .pairs_stride = x_stride,
                                     .num_rows = item.part.rows.size(),
                                     .weight = weight,
                                     .outputs = item.part.outputs,
                                     .out = out + first * weight.num_out + item.part.outputs.begin,
                                     .out_stride = weight.num_out,
                                     .rounds_bf16 = args.rounds_bf16,
                                     .scratch = scratch});
}

template <typename Compute>
void for_items(Context& context, const MoePlan& plan, int64_t scratch_floats, const Compute& compute) {
    context.pool().for_ranges(plan.num_items(), plan.grain(), [&](Range items, int thread) {
        float* scratch = context.thread_scratch(thread, scratch_floats);
        for (int64_t i = items.begin; i < items.end; ++i) compute(plan.item(i), scratch);
    });
}

}  // namespace

int64_t moe_scratch_floats(const MoeArgs& args) {
    return MoePlan::scratch_floats(args);
}

void moe(Context& context, const MoeArgs& args) {
    const TraceSpan span = context.op("moe");
    if (args.num_rows == 0) return;
    const int64_t dim = args.w1.first.num_in;
    const int64_t hidden = args.w1.first.num_out, shared_hidden = args.shared_w1.num_out;
    MoePlan plan(args);
    prepare_x(context, args, plan);

    plan.split(hidden, shared_hidden, 2 * dim);  // gate and up at once
    const int64_t tile_floats = 2 * ProductSplit::kRows * kTileOutputs;
    for_items(context, plan, row_product_scratch_floats(dim) + tile_floats,
              [&](MoePlan::Item item, float* scratch) { compute_hidden(context, args, plan, item, scratch); });

    plan.split(dim, dim, hidden);
    const int64_t decoded = std::max(row_product_scratch_floats(hidden), row_product_scratch_floats(shared_hidden));
    for_items(context, plan, decoded,
              [&](MoePlan::Item item, float* scratch) { compute_down(context, args, plan, item, scratch); });

    const int64_t grain = std::max<int64_t>(1, kGrainElements / (dim * (args.top_k + 1)));
    const float* shared = args.has_shared() ? plan.shared : nullptr;
    const CombineExpertsArgs sum{plan.routed,     shared,     plan.slots(), args.out,
                                 args.out_stride, args.top_k, dim,          args.rounds_bf16};
    context.pool().for_ranges(args.num_rows, grain, [&](Range rows) { context.kernels().combine_experts(sum, rows); });
}

}  // namespace deepinfer::cpu
