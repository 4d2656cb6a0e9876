// Saved prefixes: the blocks of texts that later sequences may begin on.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/kv_manager.hpp"
#include "core/sequence.hpp"

namespace deepinfer {

// A prefix holds a reference to each of its blocks until it is closed and no sequence uses it any more. Blocks of a
// text that has ended are free, but keep what they hold until somebody takes them: of the latest texts that is
// remembered, so that they can be saved too. Not thread-safe.
class PrefixStore {
  public:
    explicit PrefixStore(KVManager& kv);

    // Remembers the first num_tokens tokens, which are computed, of a sequence that is about to give its cache back.
    void remember(const Sequence& seq, int64_t num_tokens);
    // Whether a text that has ended is remembered and still in the caches.
    bool is_whole(int64_t seq_id) const;
    // Saves the computed tokens of a running sequence, or of a remembered one (is_whole); returns the prefix's id.
    int64_t save(const Sequence& seq);
    int64_t save_remembered(int64_t seq_id);
    // How many blocks saving would take from everybody else: those that no prefix holds yet.
    int64_t num_new_blocks(const Sequence& seq) const;
    int64_t num_new_blocks_of_remembered(int64_t seq_id) const;
    // No new sequence may use it. False: unknown, or closed before.
    bool close(int64_t prefix_id);

    bool is_open(int64_t prefix_id) const;
    const std::vector<int32_t>& token_ids(int64_t prefix_id) const { return prefixes_.at(prefix_id).token_ids; }
    const std::vector<int32_t>& block_ids(int64_t prefix_id) const { return prefixes_.at(prefix_id).block_ids; }
    void add_user(int64_t prefix_id);
    void drop_user(int64_t prefix_id);

    // Different blocks that prefixes hold: no sequence can get these.
    int64_t num_held_blocks() const { return num_held_; }
    // For checking: every block of every prefix, as often as it is held, and the users of all prefixes.
    std::vector<int32_t> held_blocks() const;
    int64_t num_users() const;

  private:
    struct Prefix {
        std::vector<int32_t> token_ids;
        std::vector<int32_t> block_ids;
        int64_t num_users = 0;
        bool is_closed = false;
    };
    struct Ended {
        int64_t seq_id;
        Prefix prefix;
        std::vector<int64_t> generations;
    };

    Prefix prefix_of(const Sequence& seq, int64_t num_tokens) const;
    const Ended* find_ended(int64_t seq_id) const;
    void forget_ended(int64_t number);
    int64_t num_not_held(std::span<const int32_t> block_ids) const;
    int64_t hold(Prefix prefix);
    void drop_if_unused(int64_t prefix_id);

    KVManager& kv_;
    std::unordered_map<int64_t, Prefix> prefixes_;
    std::vector<int32_t> num_holds_;  // by block: the prefixes that hold it
    int64_t num_held_ = 0;
    std::map<int64_t, Ended> ended_;                      // by running number, so the oldest first
    std::unordered_map<int64_t, int64_t> ended_numbers_;  // sequence -> running number
    int64_t num_ended_blocks_ = 0;
    int64_t next_number_ = 0;
    int64_t next_id_ = 0;
};

}  // namespace deepinfer
