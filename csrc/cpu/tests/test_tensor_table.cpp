#include <doctest/doctest.h>

#include <stdexcept>

#include "cpu/model/tensor_table.hpp"

using namespace deepinfer::cpu;

TEST_CASE("tensor table: a lookup names what is missing or does not fit") {
    TensorTable table;
    const float values[6] = {};
    table.add("layers.0.w", {values, DataType::kFloat32, {2, 3}});
    CHECK(table.floats("layers.0.w", {2, 3}) == values);
    CHECK(table.num_rows("layers.0.w") == 2);
    CHECK_THROWS_WITH_AS(table.floats("layers.1.w", {2, 3}), "tensor 'layers.1.w' is missing", std::invalid_argument);
    CHECK_THROWS_WITH_AS(table.floats("layers.0.w", {3, 2}), "tensor 'layers.0.w' has shape [2, 3], expected [3, 2]",
                         std::invalid_argument);
    CHECK_THROWS_AS(table.bytes("layers.0.w", {2, 3}), std::invalid_argument);
}
