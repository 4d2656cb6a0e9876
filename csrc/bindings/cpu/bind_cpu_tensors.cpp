// TensorTable and Caches: where a model's weights and an engine's caches lie in memory.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/bindings.hpp"
#include "cpu/model/caches.hpp"
#include "cpu/model/tensor_table.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

template <typename T>
T* pointer(uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

cpu::DataType data_type(const std::string& name) {
    if (name == "float32") return cpu::DataType::kFloat32;
    if (name == "bfloat16") return cpu::DataType::kBf16;
    if (name == "int64") return cpu::DataType::kInt64;
    if (name == "byte") return cpu::DataType::kByte;
    throw std::invalid_argument("data type '" + name + "': expected float32, bfloat16, int64 or byte");
}

cpu::VectorRounding rounding(const std::string& name) {
    if (name == "none") return cpu::VectorRounding::kNone;
    if (name == "fp8_group32") return cpu::VectorRounding::kFp8Group32;
    if (name == "fp4_group32") return cpu::VectorRounding::kFp4Group32;
    if (name == "fp4_group16") return cpu::VectorRounding::kFp4Group16;
    throw std::invalid_argument("rounding '" + name + "': expected none, fp8_group32, fp4_group32 or fp4_group16");
}

std::vector<cpu::VectorCache>& pool(cpu::Caches& caches, const std::string& kind) {
    if (kind == "main") return caches.main;
    if (kind == "index") return caches.index;
    if (kind == "window") return caches.window;
    throw std::invalid_argument("kind '" + kind + "': expected main, index or window");
}

// The place of a layer's cache; layers in between get an empty one.
template <typename T>
T& place(std::vector<T>& caches, size_t layer) {
    if (caches.size() <= layer) caches.resize(layer + 1);
    return caches[layer];
}

}  // namespace

void bind_cpu_tensors(py::module_& m) {
    py::class_<cpu::TensorTable>(m, "TensorTable", "Tensors of a loaded model by name.")
        .def(py::init<>())
        .def(
            "add",
            [](cpu::TensorTable& table, std::string name, uintptr_t address, const std::string& type,
               std::vector<int64_t> shape) {
                table.add(std::move(name), {pointer<const void>(address), data_type(type), std::move(shape)});
            },
            py::arg("name"), py::arg("address"), py::arg("type"), py::arg("shape"));

    py::class_<cpu::VectorFormat>(m, "VectorFormat", "How vectors of a cache are rounded and stored.")
        .def(py::init([](int64_t dim, const std::string& name, bool packed) {
                 return cpu::VectorFormat{dim, rounding(name), packed};
             }),
             py::arg("dim"), py::arg("rounding"), py::arg("packed"))
        .def_property_readonly("num_bytes", &cpu::VectorFormat::num_bytes);

    py::class_<cpu::Caches>(m, "Caches", "Every cache of an engine.")
        .def(py::init<>())
        .def(
            "add_vectors",
            [](cpu::Caches& caches, const std::string& kind, size_t layer, uintptr_t address,
               std::pair<int64_t, int64_t> units, const cpu::VectorFormat& format) {
                place(pool(caches, kind), layer) = {pointer<uint8_t>(address), units.first, units.second, format};
            },
            py::arg("kind"), py::arg("layer"), py::arg("address"), py::arg("units"), py::arg("format"))
        .def(
            "add_states",
            [](cpu::Caches& caches, size_t layer, uintptr_t address, std::pair<int64_t, int64_t> units, int64_t dim) {
                place(caches.compressor, layer) = {pointer<float>(address), units.first, units.second, dim};
            },
            py::arg("layer"), py::arg("address"), py::arg("units"), py::arg("dim"));
}

}  // namespace deepinfer
