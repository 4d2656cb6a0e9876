#include "core/prefix_store.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

PrefixStore::PrefixStore(KVManager& kv)
    : kv_(kv), num_holds_(static_cast<size_t>(kv.capacity_tokens() / kv.block_size()), 0) {}

PrefixStore::Prefix PrefixStore::prefix_of(const Sequence& seq, int64_t num_tokens) const {
    const auto tokens = seq.token_ids().first(static_cast<size_t>(num_tokens));
    const auto& blocks = seq.cache().block_ids;
    return {{tokens.begin(), tokens.end()}, {blocks.begin(), blocks.begin() + kv_.blocks_for(num_tokens)}};
}

// Texts whose blocks together are more than there are have lost some of them: the oldest go.
void PrefixStore::remember(const Sequence& seq, int64_t num_tokens) {
    if (!seq.cache().is_open() || num_tokens <= 0) return;
    Ended ended{seq.id(), prefix_of(seq, num_tokens), {}};
    for (const int32_t id : ended.prefix.block_ids) ended.generations.push_back(kv_.generation(id));
    const auto old = ended_numbers_.find(seq.id());
    if (old != ended_numbers_.end()) forget_ended(old->second);
    num_ended_blocks_ += static_cast<int64_t>(ended.prefix.block_ids.size());
    ended_numbers_.emplace(seq.id(), next_number_);
    ended_.emplace(next_number_++, std::move(ended));
    while (num_ended_blocks_ > static_cast<int64_t>(num_holds_.size()) && ended_.size() > 1) {
        forget_ended(ended_.begin()->first);
    }
}

void PrefixStore::forget_ended(int64_t number) {
    const auto ended = ended_.find(number);
    num_ended_blocks_ -= static_cast<int64_t>(ended->second.prefix.block_ids.size());
    ended_numbers_.erase(ended->second.seq_id);
    ended_.erase(ended);
}

const PrefixStore::Ended* PrefixStore::find_ended(int64_t seq_id) const {
    const auto found = ended_numbers_.find(seq_id);
    return found == ended_numbers_.end() ? nullptr : &ended_.at(found->second);
}

bool PrefixStore::is_whole(int64_t seq_id) const {
    const Ended* ended = find_ended(seq_id);
    if (ended == nullptr) return false;
    const auto& ids = ended->prefix.block_ids;
    return std::equal(ids.begin(), ids.end(), ended->generations.begin(),
                      [this](int32_t id, int64_t generation) { return kv_.generation(id) == generation; });
}

int64_t PrefixStore::num_not_held(std::span<const int32_t> block_ids) const {
    return std::count_if(block_ids.begin(), block_ids.end(),
                         [this](int32_t id) { return num_holds_.at(static_cast<size_t>(id)) == 0; });
}

int64_t PrefixStore::num_new_blocks(const Sequence& seq) const {
    const auto num_blocks = static_cast<size_t>(kv_.blocks_for(seq.num_computed()));
    return num_not_held(std::span(seq.cache().block_ids).first(num_blocks));
}

int64_t PrefixStore::num_new_blocks_of_remembered(int64_t seq_id) const {
    return num_not_held(find_ended(seq_id)->prefix.block_ids);
}

int64_t PrefixStore::hold(Prefix prefix) {
    kv_.hold_blocks(prefix.block_ids);
    for (const int32_t id : prefix.block_ids) num_held_ += num_holds_.at(static_cast<size_t>(id))++ == 0;
    prefixes_.emplace(next_id_, std::move(prefix));
    return next_id_++;
}

int64_t PrefixStore::save(const Sequence& seq) {
    return hold(prefix_of(seq, seq.num_computed()));
}

int64_t PrefixStore::save_remembered(int64_t seq_id) {
    return hold(find_ended(seq_id)->prefix);
}

bool PrefixStore::is_open(int64_t prefix_id) const {
    const auto found = prefixes_.find(prefix_id);
    return found != prefixes_.end() && !found->second.is_closed;
}

bool PrefixStore::close(int64_t prefix_id) {
    if (!is_open(prefix_id)) return false;
    prefixes_.at(prefix_id).is_closed = true;
    drop_if_unused(prefix_id);
    return true;
}

void PrefixStore::add_user(int64_t prefix_id) {
    if (prefix_id >= 0) ++prefixes_.at(prefix_id).num_users;
}

void PrefixStore::drop_user(int64_t prefix_id) {
    if (prefix_id < 0) return;
    --prefixes_.at(prefix_id).num_users;
    drop_if_unused(prefix_id);
}

void PrefixStore::drop_if_unused(int64_t prefix_id) {
    const auto found = prefixes_.find(prefix_id);
    if (!found->second.is_closed || found->second.num_users > 0) return;
    for (const int32_t id : found->second.block_ids) num_held_ -= --num_holds_.at(static_cast<size_t>(id)) == 0;
    kv_.drop_blocks(found->second.block_ids);
    prefixes_.erase(found);
}

std::vector<int32_t> PrefixStore::held_blocks() const {
    std::vector<int32_t> held;
    for (const auto& [id, prefix] : prefixes_)
        held.insert(held.end(), prefix.block_ids.begin(), prefix.block_ids.end());
    return held;
}

int64_t PrefixStore::num_users() const {
    int64_t num_users = 0;
    for (const auto& [id, prefix] : prefixes_) num_users += prefix.num_users;
    return num_users;
}

}  // namespace deepinfer
