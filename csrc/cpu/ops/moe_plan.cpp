#include "cpu/ops/moe_plan.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "cpu/ops/row_product.hpp"

namespace deepinfer::cpu {

namespace {

constexpr int64_t kCacheLineFloats = 16;

// Deals out a buffer; with a null buffer it only counts.
class Dealer {
  public:
    explicit Dealer(float* buffer) : buffer_(buffer) {}

    float* floats(int64_t count) {
        float* part = buffer_ == nullptr ? nullptr : buffer_ + used_;
        used_ += (count + kCacheLineFloats - 1) / kCacheLineFloats * kCacheLineFloats;
        return part;
    }
    void rows(MoeRows& rows, int64_t count, int64_t num_columns) {
        rows.stride = padded_columns(num_columns);
        const int64_t size = count * rows.stride;
        rows.floats = floats(size);
        rows.pairs = reinterpret_cast<uint16_t*>(floats(size / 2));
    }
    int32_t* ints(int64_t count) { return reinterpret_cast<int32_t*>(floats(count)); }
    int64_t used() const { return used_; }

  private:
    float* buffer_;
    int64_t used_ = 0;
};

}  // namespace

MoePlan::MoePlan(const MoeArgs& args)
    : has_shared_(args.has_shared()), num_rows_(args.num_rows), num_experts_(args.w1.count) {
    place(args);
    sort(args);
}

int64_t MoePlan::scratch_floats(const MoeArgs& args) {
    const int64_t slots = args.num_rows * args.top_k, experts = args.w1.count, dim = args.w1.first.num_in;
    Dealer dealer(nullptr);
    for (int64_t count : {experts + 1, experts, experts + 1, slots, slots, slots, args.num_rows}) dealer.floats(count);
    MoeRows rows;
    for (int i = 0; i < 2; ++i) dealer.rows(rows, args.num_rows, dim);
    dealer.rows(rows, slots, args.w1.first.num_out);
    dealer.rows(rows, args.num_rows, args.shared_w1.num_out);
    dealer.floats(slots * dim);
    dealer.floats(args.num_rows * dim);
    return dealer.used();
}

void MoePlan::place(const MoeArgs& args) {
    const int64_t slots = args.num_rows * args.top_k, dim = args.w1.first.num_in;
    Dealer dealer(args.scratch);
    starts_ = dealer.ints(num_experts_ + 1);
    active_ = dealer.ints(num_experts_);
    item_ends_ = dealer.ints(num_experts_ + 1);
    slot_rows_ = dealer.ints(slots);
    slots_ = dealer.ints(slots);
    slot_weights_ = dealer.floats(slots);
    ones_ = dealer.floats(num_rows_);
    dealer.rows(x_plain, num_rows_, dim);
    dealer.rows(x_split, num_rows_, dim);
    dealer.rows(hidden, slots, args.w1.first.num_out);
    dealer.rows(shared_hidden, num_rows_, args.shared_w1.num_out);
    routed = dealer.floats(slots * dim);
    shared = dealer.floats(num_rows_ * dim);
}

void MoePlan::sort(const MoeArgs& args) {
    const int64_t num_slots = args.num_rows * args.top_k;
    std::fill(starts_, starts_ + num_experts_ + 1, 0);
    for (int64_t i = 0; i < num_slots; ++i) {
        const int64_t id = args.ids[i];
        if (id < 0 || id >= num_experts_)
            throw std::out_of_range("ids[" + std::to_string(i / args.top_k) + "] has expert " + std::to_string(id) +
                                    ": expected 0 to " + std::to_string(num_experts_ - 1));
        ++starts_[id + 1];
    }
    for (int64_t e = 0; e < num_experts_; ++e) {
        if (starts_[e + 1] != 0) active_[num_active_++] = static_cast<int32_t>(e);
        starts_[e + 1] += starts_[e];
    }
    int32_t* next = item_ends_;  // free until `split`
    std::copy(starts_, starts_ + num_experts_, next);
    for (int64_t i = 0; i < num_slots; ++i) {
        const int32_t slot = next[args.ids[i]]++;
        slots_[i] = slot;
        slot_rows_[slot] = static_cast<int32_t>(i / args.top_k);
        slot_weights_[slot] = args.weights[i];
    }
    std::fill(ones_, ones_ + num_rows_, 1.0f);
}

int64_t MoePlan::num_slots(int64_t segment) const {
    if (is_shared(segment)) return num_rows_;
    return starts_[expert(segment) + 1] - starts_[expert(segment)];
}

ProductSplit MoePlan::product_split(int64_t segment) const {
    return {num_slots(segment), is_shared(segment) ? shared_outputs_ : routed_outputs_, num_in_};
}

void MoePlan::split(int64_t routed_outputs, int64_t shared_outputs, int64_t num_in) {
    routed_outputs_ = routed_outputs;
    shared_outputs_ = shared_outputs;
    num_in_ = num_in;
    int64_t end = 0;
    for (int64_t segment = 0; segment < num_segments(); ++segment) {
        end += product_split(segment).num_items();
        item_ends_[segment] = static_cast<int32_t>(end);
    }
    grain_ = product_split(num_segments() - 1).grain();  // an expert, if there is one, stands for all
}

MoePlan::Item MoePlan::item(int64_t index) const {
    const int64_t segment = std::upper_bound(item_ends_, item_ends_ + num_segments(), index) - item_ends_;
    const int64_t before = segment == 0 ? 0 : item_ends_[segment - 1];
    return {segment, product_split(segment).part(index - before)};
}

}  // namespace deepinfer::cpu
