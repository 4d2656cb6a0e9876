"""Record tensors of a request, and change one component while it runs."""

import torch

from deepinfer import LLM, SamplingParams

PROMPT = "<｜User｜>What is the capital of Norway?<｜Assistant｜></think>"
PARAMS = SamplingParams(temperature=0, max_tokens=12)

with LLM(speculative="off") as llm:
    with llm.capture("layers.*.ffn.experts", "layers.5.index.picks", "final.hidden") as tap:
        (output,) = llm.generate(PROMPT, PARAMS, use_tqdm=False)
    print(f"answer: {output.outputs[0].text}")
    for name in tap.names():
        tensor = tap.tensor(name, output.request_id)
        print(f"{name}: {tensor.dtype} {list(tensor.shape)}")
    experts = torch.cat([tap.tensor(name, output.request_id) for name in tap.names() if "experts" in name])
    counts = torch.bincount(experts.flatten(), minlength=int(experts.max()) + 1)
    print(f"tokens by expert, all layers: {counts.tolist()}")

    # What happens when one layer's experts say nothing?
    for layer in (0, 4, 7):
        with llm.replace(f"layers.{layer}.ffn", lambda original, x, ctx: torch.zeros_like(original(x, ctx))):
            (silenced,) = llm.generate(PROMPT, PARAMS, use_tqdm=False)
        print(f"without the experts of layer {layer}: {silenced.outputs[0].text!r}")
