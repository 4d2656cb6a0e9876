// Python class DraftCalibration.
#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "core/draft_calibration.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

template <typename T>
py::array by_position(const std::vector<T>& values, const DraftCalibration& calibration, const py::object& owner) {
    return array_view(values, owner, py::dtype::of<T>(),
                      {static_cast<py::ssize_t>(calibration.num_drafts()), DraftCalibration::kNumBins});
}

}  // namespace

void bind_draft_calibration(py::module_& m) {
    using C = DraftCalibration;
    py::class_<C>(m, "DraftCalibration", "Histogram of judged drafts; see deepinfer/_C.pyi.")
        .def_property_readonly("counts",
                               [](py::object self) {
                                   const auto& calibration = self.cast<const C&>();
                                   return by_position(calibration.counts(), calibration, self);
                               })
        .def_property_readonly("accepted",
                               [](py::object self) {
                                   const auto& calibration = self.cast<const C&>();
                                   return by_position(calibration.accepted(), calibration, self);
                               })
        .def_property_readonly("confidence_sums", [](py::object self) {
            const auto& calibration = self.cast<const C&>();
            return by_position(calibration.confidence_sums(), calibration, self);
        });
}

}  // namespace deepinfer
