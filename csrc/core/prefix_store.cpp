#include "core/prefix_store.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace deepinfer {

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
    num_ended_blocks_ += static_cast<int64_t>(ended.prefix.block_ids.size());
    std::erase_if(ended_, [&](const Ended& other) {
        if (other.seq_id != seq.id()) return false;
        num_ended_blocks_ -= static_cast<int64_t>(other.prefix.block_ids.size());
        return true;
    });
    ended_.push_back(std::move(ended));
    const int64_t num_blocks = kv_.capacity_tokens() / kv_.block_size();
    while (num_ended_blocks_ > num_blocks && ended_.size() > 1) {
        num_ended_blocks_ -= static_cast<int64_t>(ended_.front().prefix.block_ids.size());
        ended_.pop_front();
    }
}

const PrefixStore::Ended* PrefixStore::find_ended(int64_t seq_id) const {
    const auto found =
        std::find_if(ended_.begin(), ended_.end(), [=](const Ended& ended) { return ended.seq_id == seq_id; });
    return found == ended_.end() ? nullptr : &*found;
}

bool PrefixStore::is_whole(int64_t seq_id) const {
    const Ended* ended = find_ended(seq_id);
    if (ended == nullptr) return false;
    const auto& ids = ended->prefix.block_ids;
    return std::equal(ids.begin(), ids.end(), ended->generations.begin(),
                      [this](int32_t id, int64_t generation) { return kv_.generation(id) == generation; });
}

int64_t PrefixStore::num_new_blocks(int64_t seq_id) const {
    const Ended* ended = find_ended(seq_id);
    if (ended == nullptr) return 0;
    const std::vector<int32_t> held = held_blocks();
    const std::set<int32_t> old(held.begin(), held.end());
    const auto& ids = ended->prefix.block_ids;
    return std::count_if(ids.begin(), ids.end(), [&](int32_t id) { return !old.contains(id); });
}

int64_t PrefixStore::hold(Prefix prefix) {
    kv_.hold_blocks(prefix.block_ids);
    prefixes_.emplace(next_id_, std::move(prefix));
    count_held();
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
    kv_.drop_blocks(found->second.block_ids);
    prefixes_.erase(found);
    count_held();
}

std::vector<int32_t> PrefixStore::held_blocks() const {
    std::vector<int32_t> held;
    for (const auto& [id, prefix] : prefixes_)
        held.insert(held.end(), prefix.block_ids.begin(), prefix.block_ids.end());
    return held;
}

void PrefixStore::count_held() {
    const std::vector<int32_t> held = held_blocks();
    num_held_ = static_cast<int64_t>(std::set<int32_t>(held.begin(), held.end()).size());
}

int64_t PrefixStore::num_users() const {
    int64_t num_users = 0;
    for (const auto& [id, prefix] : prefixes_) num_users += prefix.num_users;
    return num_users;
}

}  // namespace deepinfer
