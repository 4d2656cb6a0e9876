// moe: routed and shared experts.
#include <pybind11/pybind11.h>

#include "bindings/bindings.hpp"
#include "bindings/cpu/addresses.hpp"
#include "cpu/context.hpp"
#include "cpu/ops/moe.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

using Weights = const cpu::WeightStack&;
using SharedWeights = const cpu::WeightStack*;  // all three, or none

}  // namespace

void bind_cpu_moe(py::module_& m) {
    const auto moe = [](cpu::Context& context, uintptr_t x, uintptr_t ids, uintptr_t weights, Weights w1, Weights w3,
                        Weights w2, SharedWeights shared_w1, SharedWeights shared_w3, SharedWeights shared_w2,
                        uintptr_t out, int64_t num_rows, int64_t top_k, float limit, bool quantizes, bool rounds_bf16) {
        cpu::MoeArgs args;
        args.w1 = w1;
        args.w3 = w3;
        args.w2 = w2;
        if (shared_w1 != nullptr) {
            args.shared_w1 = shared_w1->first;
            args.shared_w3 = shared_w3->first;
            args.shared_w2 = shared_w2->first;
        }
        args.x = at_address<const float>(x);
        args.x_stride = args.out_stride = w1.first.num_in;
        args.ids = at_address<const int64_t>(ids);
        args.weights = at_address<const float>(weights);
        args.out = at_address<float>(out);
        args.num_rows = num_rows;
        args.top_k = top_k;
        args.limit = limit;
        args.quantizes = quantizes;
        args.rounds_bf16 = rounds_bf16;
        args.scratch = context.call_scratch(cpu::moe_scratch_floats(args));
        cpu::moe(context, args);
    };
    m.def("moe", moe, py::call_guard<py::gil_scoped_release>(), py::arg("context"), py::kw_only(), py::arg("x"),
          py::arg("ids"), py::arg("weights"), py::arg("w1"), py::arg("w3"), py::arg("w2"),
          py::arg("shared_w1").none(true), py::arg("shared_w3").none(true), py::arg("shared_w2").none(true),
          py::arg("out"), py::arg("num_rows"), py::arg("top_k"), py::arg("limit"), py::arg("quantizes"),
          py::arg("rounds_bf16"));
}

}  // namespace deepinfer
