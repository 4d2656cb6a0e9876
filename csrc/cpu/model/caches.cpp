#include "cpu/model/caches.hpp"

#include <stdexcept>
#include <string>

namespace deepinfer::cpu {

namespace {

// `found` is the size of the vectors of the cache `name` of a layer; 0: there is none.
void require_dim(const char* name, size_t layer, int64_t found, int64_t expected) {
    if (found == expected) return;
    throw std::invalid_argument(std::string(name) + " cache of layer " + std::to_string(layer) + ": vectors of " +
                                std::to_string(found) + " values, expected " + std::to_string(expected));
}

int64_t dim_of(const std::vector<VectorCache>& caches, size_t layer) {
    return layer < caches.size() && caches[layer].data != nullptr ? caches[layer].format.dim : 0;
}

int64_t dim_of(const std::vector<StateCache>& caches, size_t layer) {
    return layer < caches.size() && caches[layer].data != nullptr ? caches[layer].dim : 0;
}

}  // namespace

void check_caches(const ModelConfig& config, const Caches& caches, bool with_drafts) {
    const size_t num_layers = config.layers.size();
    const size_t num_windows = num_layers + (with_drafts ? static_cast<size_t>(config.num_draft_stages) : 0);
    for (size_t layer = 0; layer < num_windows; ++layer) {
        require_dim("window", layer, dim_of(caches.window, layer), config.head_dim);
        if (caches.window[layer].num_entries < config.window)
            throw std::invalid_argument("window cache of layer " + std::to_string(layer) + ": " +
                                        std::to_string(caches.window[layer].num_entries) + " entries, expected " +
                                        std::to_string(config.window) + " or more");
    }
    for (size_t layer = 0; layer < num_layers; ++layer) {
        const LayerRole& role = config.layers[layer];
        if (!role.owns_kv) continue;
        require_dim("main", layer, dim_of(caches.main, layer), config.head_dim);
        require_dim("index", layer, dim_of(caches.index, layer), config.index_dim);
        if (role.ratio > 1) require_dim("compressor", layer, dim_of(caches.compressor, layer), config.head_dim);
    }
}

}  // namespace deepinfer::cpu
