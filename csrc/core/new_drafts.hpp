// What an update is told about new drafts.
#pragma once

#include <cstdint>
#include <span>

namespace deepinfer {

// D rows of num_drafts entries, flat; both empty: nobody got any. An id below 0 ends its row; how many ids a row has
// must not depend on what they are (verify_budget.hpp), but a confidence of 0 may. Confidences are optional.
struct NewDrafts {
    std::span<const int32_t> token_ids;
    std::span<const float> confidences;
};

}  // namespace deepinfer
