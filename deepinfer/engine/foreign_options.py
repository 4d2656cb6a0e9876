"""Constructor names of other engines and of the original: what to use here instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from deepinfer.errors import UnsupportedFeatureError

# name -> (values that ask for nothing, what to do instead)
_FOREIGN: Final[dict[str, tuple[tuple[Any, ...], str]]] = {
    "tensor_parallel_size": (
        (1, None),
        "there is no tensor parallelism; the parallel options are data_parallel_size, context_parallel_size and "
        "expert_parallel_size",
    ),
    "pipeline_parallel_size": (
        (1, None),
        "there is no pipeline parallelism; the parallel options are data_parallel_size, context_parallel_size and "
        "expert_parallel_size",
    ),
    "trust_remote_code": ((False, None), "code that comes with a checkpoint is never run; leave it out"),
    "dtype": (("auto", None), "choose with numerics='official', 'fp32-quant' or 'fp32'"),
    "quantization": ((None,), "weights are used as the checkpoint stores them; choose roundings with numerics="),
    "enable_prefix_caching": ((False, None), "prefixes are not found by themselves; save them with LLM.save_prefix"),
    "speculative_config": ((None,), "use speculative="),
    "cpu_offload_gb": ((0, None), "weights are not offloaded; leave it out"),
    "swap_space": ((0, None), "a preempted sequence is recomputed, never swapped; leave it out"),
    "decode_sequence": ((), "generate always returns RequestOutput objects; their text is outputs[0].text"),
    "chunked_prefill": ((), "use enable_chunked_prefill="),
    "tokens_per_block": ((-1,), "use block_size="),
    "engine_type": ((0,), "there is one kind of engine; leave it out"),
    "tokenizer_revision": ((None,), "give a local tokenizer directory"),
}


def drop_foreign_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that other engines know and that ask for nothing.

    Raises UnsupportedFeatureError that names our knob for one that asks for something.
    """
    kept = {}
    for name, value in options.items():
        if name not in _FOREIGN:
            kept[name] = value
            continue
        neutral, advice = _FOREIGN[name]
        if not any(value is item or (type(value) is type(item) and value == item) for item in neutral):
            raise UnsupportedFeatureError(f"{name} = {value!r}: {advice}")
    return kept
