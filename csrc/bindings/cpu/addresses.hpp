// Tensors come from Python as the addresses of their first element; the caller there keeps them alive.
#pragma once

#include <cstdint>

namespace deepinfer {

template <typename T>
T* at_address(uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

}  // namespace deepinfer
