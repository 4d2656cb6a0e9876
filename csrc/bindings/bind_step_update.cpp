// Python class StepUpdate. Its arrays are read-only views that keep the update alive.
#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "core/step_update.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

template <typename T>
auto view_of(std::vector<T> StepUpdate::* field) {
    return [field](py::object self) { return array_view(self.cast<const StepUpdate&>().*field, self); };
}

py::array finish_reasons(py::object self) {
    const auto& reasons = self.cast<const StepUpdate&>().finish_reasons;
    return array_view(reasons, self, py::dtype::of<uint8_t>(), {static_cast<py::ssize_t>(reasons.size())});
}

}  // namespace

void bind_step_update(py::module_& m) {
    using U = StepUpdate;
    py::class_<U>(m, "StepUpdate", "What one finished step changed; see deepinfer/_C.pyi.")
        .def_property_readonly("seq_ids", view_of(&U::seq_ids))
        .def_property_readonly("cu_tokens", view_of(&U::cu_tokens))
        .def_property_readonly("tokens", view_of(&U::tokens))
        .def_property_readonly("finish_reasons", &finish_reasons)
        .def_property_readonly("stop_token_ids", view_of(&U::stop_token_ids));
}

}  // namespace deepinfer
