#include "bindings/arrays.hpp"

#include <limits>
#include <string>

namespace py = pybind11;

namespace deepinfer {

namespace {

py::array integer_array(py::handle values, const char* name) {
    py::array array = py::array::ensure(values);
    if (!array) throw py::error_already_set();
    const char kind = array.dtype().kind();
    const bool is_empty_list = array.size() == 0 && !py::isinstance<py::array>(values);
    if (array.ndim() != 1 || (kind != 'i' && kind != 'u' && !is_empty_list)) {
        throw py::type_error(std::string(name) + " must be a one-dimensional array of integers, not " +
                             std::string(py::repr(values)).substr(0, 200));
    }
    return array;
}

py::array matrix(py::handle values, int64_t num_columns, const char* name) {
    py::array array = py::array::ensure(values);
    if (!array) throw py::error_already_set();
    if (array.ndim() == 2 && array.shape(1) == num_columns) return array;
    throw py::value_error(std::string(name) + " has shape " + std::string(py::str(array.attr("shape"))) +
                          "; expected [n, " + std::to_string(num_columns) + "]");
}

}  // namespace

std::vector<int32_t> int32_vector(py::handle values, const char* name) {
    const py::array array = integer_array(values, name);
    const auto num_values = static_cast<size_t>(array.size());
    if (array.dtype().is(py::dtype::of<int32_t>())) {
        const auto exact = py::array_t<int32_t, py::array::c_style>(array);
        return {exact.data(), exact.data() + num_values};
    }
    const auto wide = py::array_t<int64_t, py::array::c_style | py::array::forcecast>(array);
    std::vector<int32_t> result(num_values);
    for (size_t i = 0; i < num_values; ++i) {
        const int64_t value = wide.data()[i];
        if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
            throw py::value_error(std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(value) +
                                  ", which is outside int32");
        }
        result[i] = static_cast<int32_t>(value);
    }
    return result;
}

std::vector<int32_t> int32_rows(py::handle values, int64_t num_columns, const char* name) {
    if (values.is_none()) return {};
    return int32_vector(matrix(values, num_columns, name).attr("reshape")(-1), name);
}

std::vector<float> float_rows(py::handle values, int64_t num_columns, const char* name) {
    if (values.is_none()) return {};
    const auto array = py::array_t<float, py::array::c_style | py::array::forcecast>(matrix(values, num_columns, name));
    return {array.data(), array.data() + array.size()};
}

}  // namespace deepinfer
