#include <doctest/doctest.h>

#include <cstdint>

#include "cpu/model/workspace.hpp"

using deepinfer::cpu::Workspace;

TEST_CASE("workspace: arrays are aligned, apart, and given back with their scope") {
    Workspace workspace;
    const Workspace::Scope outer(workspace);
    float* first = workspace.take<float>(3);
    auto* inner_array = [&] {
        const Workspace::Scope inner(workspace);
        return workspace.take<int64_t>(5);
    }();
    auto* again = workspace.take<int64_t>(5);
    CHECK(reinterpret_cast<uintptr_t>(first) % 64 == 0);
    CHECK(reinterpret_cast<uintptr_t>(again) % 64 == 0);
    CHECK(static_cast<void*>(again) == static_cast<void*>(inner_array));
    CHECK(static_cast<void*>(again) >= static_cast<void*>(first + 3));
}

TEST_CASE("workspace: a step that fits into what an earlier one needed allocates nothing") {
    Workspace workspace;
    const auto step = [&](int64_t size) {
        const Workspace::Scope scope(workspace);
        float* first = workspace.take<float>(size);
        first[0] = 1.0f;
        first[size - 1] = 2.0f;
        const Workspace::Scope inner(workspace);
        float* second = workspace.take<float>(size);  // does not move the first
        second[size - 1] = 3.0f;
        CHECK(first[0] + first[size - 1] == 3.0f);
        return workspace.capacity();
    };
    step(10);
    const size_t grown = step(1 << 20);
    CHECK(grown >= size_t{2} << 22);
    const size_t settled = step(1 << 20);
    CHECK(step(100) == settled);
    CHECK(step(1 << 20) == settled);
}
