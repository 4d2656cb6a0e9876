// hc_mix, hc_read, hc_write, rms_norm and the streams' beginning and mean.
#include <pybind11/pybind11.h>

#include "bindings/bindings.hpp"
#include "bindings/cpu/addresses.hpp"
#include "cpu/context.hpp"
#include "cpu/ops/embed_rows.hpp"
#include "cpu/ops/hc_mix.hpp"
#include "cpu/ops/hc_read.hpp"
#include "cpu/ops/hc_write.hpp"
#include "cpu/ops/rms_norm.hpp"
#include "cpu/ops/stream_mean.hpp"

namespace py = pybind11;

namespace deepinfer {

namespace {

void bind_embed_rows(py::module_& m) {
    m.def(
        "embed_rows",
        [](cpu::Context& context, uintptr_t table, uintptr_t tokens, uintptr_t out, int64_t num_rows,
           int64_t num_streams, int64_t dim, bool table_is_bf16, bool rounds_bf16) {
            cpu::embed_rows(context, {at_address<void>(table), at_address<int64_t>(tokens), at_address<float>(out),
                                      num_rows, num_streams, dim, table_is_bf16, rounds_bf16});
        },
        py::arg("context"), py::kw_only(), py::arg("table"), py::arg("tokens"), py::arg("out"), py::arg("num_rows"),
        py::arg("num_streams"), py::arg("dim"), py::arg("table_is_bf16"), py::arg("rounds_bf16"),
        py::call_guard<py::gil_scoped_release>());
}

void bind_hc_mix(py::module_& m) {
    m.def(
        "hc_mix",
        [](cpu::Context& context, uintptr_t streams, uintptr_t fn, uintptr_t base, uintptr_t scale, uintptr_t pre,
           uintptr_t post, uintptr_t comb, int64_t num_rows, int64_t num_streams, int64_t dim, int64_t sinkhorn_iters,
           float eps, float norm_eps) {
            cpu::hc_mix(context, {at_address<float>(streams), at_address<float>(fn), at_address<float>(base),
                                  at_address<float>(scale), at_address<float>(pre), at_address<float>(post),
                                  at_address<float>(comb), num_rows, num_streams, dim, sinkhorn_iters, eps, norm_eps});
        },
        py::arg("context"), py::kw_only(), py::arg("streams"), py::arg("fn"), py::arg("base"), py::arg("scale"),
        py::arg("pre"), py::arg("post"), py::arg("comb"), py::arg("num_rows"), py::arg("num_streams"), py::arg("dim"),
        py::arg("sinkhorn_iters"), py::arg("eps"), py::arg("norm_eps"), py::call_guard<py::gil_scoped_release>());
}

void bind_hc_read(py::module_& m) {
    m.def(
        "hc_read",
        [](cpu::Context& context, uintptr_t streams, uintptr_t pre, uintptr_t norm_weight, uintptr_t out,
           int64_t num_rows, int64_t num_streams, int64_t dim, float eps, bool norms, bool rounds_bf16) {
            cpu::hc_read(context, {at_address<float>(streams), at_address<float>(pre), at_address<float>(norm_weight),
                                   at_address<float>(out), num_rows, num_streams, dim, eps, norms, rounds_bf16});
        },
        py::arg("context"), py::kw_only(), py::arg("streams"), py::arg("pre"), py::arg("norm_weight"), py::arg("out"),
        py::arg("num_rows"), py::arg("num_streams"), py::arg("dim"), py::arg("eps"), py::arg("norms"),
        py::arg("rounds_bf16"), py::call_guard<py::gil_scoped_release>());
}

void bind_hc_write(py::module_& m) {
    m.def(
        "hc_write",
        [](cpu::Context& context, uintptr_t streams, uintptr_t out, uintptr_t post, uintptr_t comb,
           uintptr_t new_streams, int64_t num_rows, int64_t num_streams, int64_t dim, bool rounds_bf16) {
            cpu::hc_write(context, {at_address<float>(streams), at_address<float>(out), at_address<float>(post),
                                    at_address<float>(comb), at_address<float>(new_streams), num_rows, num_streams, dim,
                                    rounds_bf16});
        },
        py::arg("context"), py::kw_only(), py::arg("streams"), py::arg("out"), py::arg("post"), py::arg("comb"),
        py::arg("new_streams"), py::arg("num_rows"), py::arg("num_streams"), py::arg("dim"), py::arg("rounds_bf16"),
        py::call_guard<py::gil_scoped_release>());
}

void bind_rms_norm(py::module_& m) {
    m.def(
        "rms_norm",
        [](cpu::Context& context, uintptr_t x, uintptr_t weight, uintptr_t out, int64_t num_rows, int64_t dim,
           float eps, bool rounds_bf16) {
            cpu::rms_norm(context, {at_address<float>(x), at_address<float>(weight), at_address<float>(out), num_rows,
                                    dim, eps, rounds_bf16});
        },
        py::arg("context"), py::kw_only(), py::arg("x"), py::arg("weight"), py::arg("out"), py::arg("num_rows"),
        py::arg("dim"), py::arg("eps"), py::arg("rounds_bf16"), py::call_guard<py::gil_scoped_release>());
}

void bind_stream_mean(py::module_& m) {
    m.def(
        "stream_mean",
        [](cpu::Context& context, uintptr_t streams, uintptr_t out, int64_t num_rows, int64_t num_streams, int64_t dim,
           bool rounds_bf16) {
            cpu::stream_mean(
                context, {at_address<float>(streams), at_address<float>(out), num_rows, num_streams, dim, rounds_bf16});
        },
        py::arg("context"), py::kw_only(), py::arg("streams"), py::arg("out"), py::arg("num_rows"),
        py::arg("num_streams"), py::arg("dim"), py::arg("rounds_bf16"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace

void bind_cpu_hyper_connections(py::module_& m) {
    bind_embed_rows(m);
    bind_hc_mix(m);
    bind_hc_read(m);
    bind_hc_write(m);
    bind_rms_norm(m);
    bind_stream_mean(m);
}

}  // namespace deepinfer
