#include "core/entry_counts.hpp"

#include <algorithm>

namespace deepinfer {

namespace {

// sum of floor(t / ratio) over t = 1 .. n.
int64_t floor_sum(int64_t n, int64_t ratio) {
    const int64_t b = n / ratio;
    return b * (n + 1) - ratio * (b * (b + 1) / 2);
}

// sum of min(floor(t / ratio), cap) over t = 1 .. n.
int64_t capped_sum(int64_t n, int64_t ratio, int64_t cap) {
    const int64_t rising = std::min(n, ratio * cap);
    return floor_sum(rising, ratio) + (n - rising) * cap;
}

// sum of ((t - 1) mod size) + 1 over t = 1 .. n: how far the newest block is filled.
int64_t fill_sum(int64_t n, int64_t size) {
    const int64_t rest = n % size;
    return n / size * (size * (size + 1) / 2) + rest * (rest + 1) / 2;
}

}  // namespace

EntryCounts& EntryCounts::operator+=(const EntryCounts& other) {
    picks += other.picks;
    choosing_rows += other.choosing_rows;
    scored += other.scored;
    scored_blocks += other.scored_blocks;
    picks_read += other.picks_read;
    scored_read += other.scored_read;
    scored_blocks_read += other.scored_blocks_read;
    return *this;
}

void EntryCounts::add_row(const ModelShape& shape, int64_t visible) {
    const int64_t chosen = std::min(visible, shape.index_topk);
    picks += chosen;
    picks_read += chosen;
    if (visible <= shape.index_topk) return;
    ++choosing_rows;
    scored += visible;
    scored_read += visible;
    const int64_t size = shape.candidate_block_size;
    const int64_t num_candidates = shape.candidate_blocks;
    const int64_t inside =
        visible <= num_candidates * size ? visible : (num_candidates - 1) * size + (visible - 1) % size + 1;
    scored_blocks += inside;
    scored_blocks_read += inside;
}

void EntryCounts::add(const ModelShape& shape, int64_t ratio, int64_t begin, int64_t end) {
    if (begin >= end) return;
    const int64_t topk = shape.index_topk;
    const int64_t visible = end / ratio;
    if (end - begin == 1) return add_row(shape, visible);
    const int64_t own_picks = capped_sum(end, ratio, topk) - capped_sum(begin, ratio, topk);
    picks += own_picks;
    picks_read += std::min(own_picks, visible);
    const int64_t first = std::max(begin, ratio * (topk + 1) - 1);  // first row that has to choose
    if (first >= end) return;
    choosing_rows += end - first;
    scored += floor_sum(end, ratio) - floor_sum(first, ratio);
    scored_read += visible;

    const int64_t size = shape.candidate_block_size;
    const int64_t whole = std::clamp(shape.candidate_blocks * size, first, end);  // rows before it score everything
    const int64_t restricted = floor_sum(whole, ratio) - floor_sum(first, ratio) +
                               (end - whole) * (shape.candidate_blocks - 1) * size + fill_sum(end, size) -
                               fill_sum(whole, size);
    scored_blocks += restricted;
    scored_blocks_read += std::min(restricted, visible);
}

int64_t window_pairs(int64_t window, int64_t first, int64_t begin, int64_t end) {
    const int64_t from = std::max<int64_t>(begin - first, 0);
    const int64_t to = std::max<int64_t>(end - first, 0);
    return capped_sum(to, 1, window) - capped_sum(from, 1, window);
}

}  // namespace deepinfer
