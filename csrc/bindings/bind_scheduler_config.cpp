// Python class SchedulerConfig.
#include "bindings/bindings.hpp"
#include "core/scheduler_config.hpp"

namespace py = pybind11;

namespace deepinfer {

void bind_scheduler_config(py::module_& m) {
    using C = SchedulerConfig;
    py::class_<C>(m, "SchedulerConfig", "Sizes and limits of a scheduler; see deepinfer/_C.pyi.")
        .def(py::init([](int64_t num_blocks, int64_t block_size, int64_t num_state_slots, int64_t max_num_seqs,
                         int64_t max_num_batched_tokens, int64_t max_prefill_chunk, int64_t max_model_len,
                         int64_t num_lookback, bool enable_chunked_prefill, int64_t num_drafts, bool varlen,
                         int64_t keep_tokens, int64_t replay_tokens, int64_t replay_multiple, int64_t draft_window) {
                 const C config{num_blocks,
                                block_size,
                                num_state_slots,
                                max_num_seqs,
                                max_num_batched_tokens,
                                max_prefill_chunk,
                                max_model_len,
                                num_lookback,
                                enable_chunked_prefill,
                                num_drafts,
                                varlen,
                                keep_tokens,
                                replay_tokens,
                                replay_multiple,
                                draft_window};
                 config.validate();
                 return config;
             }),
             py::arg("num_blocks"), py::arg("block_size"), py::arg("num_state_slots"), py::arg("max_num_seqs"),
             py::arg("max_num_batched_tokens"), py::arg("max_prefill_chunk"), py::arg("max_model_len"),
             py::arg("num_lookback") = 0, py::arg("enable_chunked_prefill") = true, py::arg("num_drafts") = 0,
             py::arg("varlen") = false, py::arg("keep_tokens") = 0, py::arg("replay_tokens") = 0,
             py::arg("replay_multiple") = 1, py::arg("draft_window") = 0)
        .def_readonly("num_blocks", &C::num_blocks)
        .def_readonly("block_size", &C::block_size)
        .def_readonly("num_state_slots", &C::num_state_slots)
        .def_readonly("max_num_seqs", &C::max_num_seqs)
        .def_readonly("max_num_batched_tokens", &C::max_num_batched_tokens)
        .def_readonly("max_prefill_chunk", &C::max_prefill_chunk)
        .def_readonly("max_model_len", &C::max_model_len)
        .def_readonly("num_lookback", &C::num_lookback)
        .def_readonly("enable_chunked_prefill", &C::enable_chunked_prefill)
        .def_readonly("num_drafts", &C::num_drafts)
        .def_readonly("varlen", &C::varlen)
        .def_readonly("keep_tokens", &C::keep_tokens)
        .def_readonly("replay_tokens", &C::replay_tokens)
        .def_readonly("replay_multiple", &C::replay_multiple)
        .def_readonly("draft_window", &C::draft_window)
        .def_property_readonly("runtime_max_model_len", &C::runtime_max_model_len);
}

}  // namespace deepinfer
