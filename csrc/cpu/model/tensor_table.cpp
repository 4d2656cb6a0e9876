#include "cpu/model/tensor_table.hpp"

#include <algorithm>
#include <stdexcept>

namespace deepinfer::cpu {

namespace {

template <typename Numbers>
std::string shape_text(const Numbers& shape) {
    std::string text = "[";
    for (int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
    return text + "]";
}

}  // namespace

const TensorView& TensorTable::find(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) throw std::invalid_argument("tensor '" + name + "' is missing");
    return found->second;
}

int64_t TensorTable::num_rows(const std::string& name) const {
    const TensorView& tensor = find(name);
    if (tensor.shape.empty()) throw std::invalid_argument("tensor '" + name + "' has no dimension");
    return tensor.shape.front();
}

const TensorView& TensorTable::get(const std::string& name, std::initializer_list<int64_t> shape) const {
    const TensorView& tensor = find(name);
    if (!std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end()))
        throw std::invalid_argument("tensor '" + name + "' has shape " + shape_text(tensor.shape) + ", expected " +
                                    shape_text(shape));
    return tensor;
}

const void* TensorTable::get(const std::string& name, DataType type, std::initializer_list<int64_t> shape) const {
    const TensorView& tensor = get(name, shape);
    if (tensor.type != type) throw std::invalid_argument("tensor '" + name + "' has another data type than expected");
    return tensor.data;
}

}  // namespace deepinfer::cpu
