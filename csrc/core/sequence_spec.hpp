// What a caller says about a new sequence.
#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer {

struct SequenceSpec {
    int64_t seq_id = -1;                    // unique among unfinished sequences, >= 0
    std::vector<int32_t> prompt_token_ids;  // at least one, all >= 0
    int64_t max_tokens = 0;                 // most new tokens; 0: the prompt is only computed
    std::vector<int32_t> stop_token_ids;    // EOS included, unless it is to be ignored
    int64_t min_tokens = 0;                 // stop ids count only behind this many new tokens
    std::vector<int64_t> fork_seq_ids{};    // more sequences on the same prompt, made when it is computed
    int64_t prefix_id = -1;                 // saved prefix to begin on, as far as the prompt agrees with it; -1: none
};

}  // namespace deepinfer
