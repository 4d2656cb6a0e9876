// Conversion between numpy arrays and C++ vectors.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <vector>

namespace deepinfer {

// A read-only array on a vector that lives inside `owner`; the array keeps the owner alive.
template <typename T>
pybind11::array array_view(const std::vector<T>& values, pybind11::handle owner, const pybind11::dtype& dtype,
                           std::vector<pybind11::ssize_t> shape) {
    pybind11::array view(dtype, std::move(shape), values.data(), owner);
    pybind11::detail::array_proxy(view.ptr())->flags &= ~pybind11::detail::npy_api::NPY_ARRAY_WRITEABLE_;
    return view;
}

template <typename T>
pybind11::array array_view(const std::vector<T>& values, pybind11::handle owner) {
    return array_view(values, owner, pybind11::dtype::of<T>(), {static_cast<pybind11::ssize_t>(values.size())});
}

// A copy of a one-dimensional integer array or a sequence of ints. Throws TypeError that names the argument for another
// type (bool and float included), ValueError for a number outside int32.
std::vector<int32_t> int32_vector(pybind11::handle values, const char* name);

// Flat copies of arrays [n, num_columns]; None: empty. Throw TypeError or ValueError that names the argument for
// another shape, for ids that are no integers, or outside int32.
std::vector<int32_t> int32_rows(pybind11::handle values, int64_t num_columns, const char* name);
std::vector<float> float_rows(pybind11::handle values, int64_t num_columns, const char* name);

}  // namespace deepinfer
