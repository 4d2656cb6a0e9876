// Python class SequenceSpec.
#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "core/sequence_spec.hpp"

#include <pybind11/stl.h>

#include <utility>

namespace py = pybind11;

namespace deepinfer {

void bind_sequence_spec(py::module_& m) {
    using S = SequenceSpec;
    py::class_<S>(m, "SequenceSpec", "What a caller says about a new sequence; see deepinfer/_C.pyi.")
        .def(py::init([](int64_t seq_id, const py::object& prompt_token_ids, int64_t max_tokens,
                         const py::object& stop_token_ids, int64_t min_tokens, std::vector<int64_t> fork_seq_ids,
                         int64_t prefix_id) {
                 return S{seq_id,     int32_vector(prompt_token_ids, "prompt_token_ids"),
                          max_tokens, int32_vector(stop_token_ids, "stop_token_ids"),
                          min_tokens, std::move(fork_seq_ids),
                          prefix_id};
             }),
             py::arg("seq_id"), py::arg("prompt_token_ids"), py::arg("max_tokens"), py::arg("stop_token_ids"),
             py::arg("min_tokens") = 0, py::arg("fork_seq_ids") = std::vector<int64_t>{}, py::arg("prefix_id") = -1)
        .def_readonly("seq_id", &S::seq_id)
        .def_readonly("max_tokens", &S::max_tokens)
        .def_readonly("min_tokens", &S::min_tokens)
        .def_readonly("prefix_id", &S::prefix_id)
        .def_property_readonly("fork_seq_ids",
                               [](py::object self) { return array_view(self.cast<const S&>().fork_seq_ids, self); })
        .def_property_readonly("prompt_token_ids",
                               [](py::object self) { return array_view(self.cast<const S&>().prompt_token_ids, self); })
        .def_property_readonly("stop_token_ids",
                               [](py::object self) { return array_view(self.cast<const S&>().stop_token_ids, self); });
}

}  // namespace deepinfer
