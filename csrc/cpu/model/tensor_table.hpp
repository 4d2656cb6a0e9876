// The tensors of a loaded model by name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

namespace deepinfer::cpu {

enum class DataType { kFloat32, kBf16, kByte, kInt64 };  // kByte: e4m3 codes, e2m1 pairs, E8M0 scales

struct TensorView {
    const void* data = nullptr;
    DataType type = DataType::kFloat32;
    std::vector<int64_t> shape;
};

// Contiguous arrays that somebody else keeps alive. A lookup names what it expects.
class TensorTable {
  public:
    void add(std::string name, TensorView tensor) { tensors_.insert_or_assign(std::move(name), std::move(tensor)); }
    bool contains(const std::string& name) const { return tensors_.contains(name); }

    // First size of a tensor. Throws std::invalid_argument when it is missing or has no dimension.
    int64_t num_rows(const std::string& name) const;
    // Throws std::invalid_argument that names the tensor when it is missing or has another shape.
    const TensorView& get(const std::string& name, std::initializer_list<int64_t> shape) const;
    // The same for one type. Throws as well for another type.
    const void* get(const std::string& name, DataType type, std::initializer_list<int64_t> shape) const;

    const float* floats(const std::string& name, std::initializer_list<int64_t> shape) const {
        return static_cast<const float*>(get(name, DataType::kFloat32, shape));
    }
    const uint8_t* bytes(const std::string& name, std::initializer_list<int64_t> shape) const {
        return static_cast<const uint8_t*>(get(name, DataType::kByte, shape));
    }
    const int64_t* integers(const std::string& name, std::initializer_list<int64_t> shape) const {
        return static_cast<const int64_t*>(get(name, DataType::kInt64, shape));
    }

  private:
    const TensorView& find(const std::string& name) const;

    std::unordered_map<std::string, TensorView> tensors_;
};

}  // namespace deepinfer::cpu
