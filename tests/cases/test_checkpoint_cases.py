"""Cases 31-34 end to end: an engine never starts on a damaged checkpoint, and stored bytes mean what they should."""

import json
import shutil

import numpy as np
import pytest
import torch

from deepinfer import LLM, CheckpointError, ConfigError, SamplingParams
from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.checkpoint.writer import write_random_checkpoint
from tests.support.tiny_config import tiny_config

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    path = tmp_path_factory.mktemp("sharded")
    write_random_checkpoint(tiny_config(), path, seed=3, shards=3)
    return path


def test_case_31_a_missing_shard_stops_the_engine(sharded, tmp_path):
    copy = shutil.copytree(sharded, tmp_path / "copy")
    index = json.loads((copy / "model.safetensors.index.json").read_text())
    shard = sorted(set(index["weight_map"].values()))[1]
    (copy / shard).unlink()
    with pytest.raises(CheckpointError, match=shard):
        LLM(copy, numerics="fp32", max_model_len=64)


def test_case_31_shards_change_no_bit(sharded, random_model, run):
    rows = []
    for path in (sharded, random_model):
        with LLM(path, numerics="fp32", max_model_len=64) as llm:
            (output,) = run(llm, [[5, 9, 20]], max_tokens=3, ignore_eos=True, logprobs=-1)
        rows.append(output.outputs[0].logprobs.top_logprobs)
    assert np.array_equal(*rows)


def plain_values(reader, name):
    """A quantized matrix in float32 from its raw bytes, with numpy and the format's definition only."""
    codes, scales = reader.tensor(f"{name}.weight"), reader.tensor(f"{name}.scale").view(torch.uint8).numpy()
    if codes.dtype == torch.uint8:
        raw = codes.numpy()
        values = np.stack((E2M1[raw & 15], E2M1[raw >> 4]), axis=-1).reshape(raw.shape[0], -1)
        rows = 1
    else:
        raw = codes.view(torch.uint8).numpy().astype(int)
        exponent, mantissa = raw >> 3 & 15, raw & 7
        size = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))
        values, rows = np.where(raw > 127, -size, size), 32
    factor = np.exp2(scales.astype(np.float64) - 127)
    factor = np.repeat(np.repeat(factor, rows, axis=0), 32, axis=1)[: values.shape[0], : values.shape[1]]
    return (values * factor).astype(np.float32)


def test_case_32_the_forward_pass_uses_the_dequantised_values(sharded, run):
    """A layer's expert block, computed again in float64 from the raw bytes: scales, nibbles and partial tiles count."""
    seen = []

    def watch(original, x, ctx):
        out = original(x, ctx)
        seen.append((x.clone(), out.clone()))
        return out

    with LLM(sharded, numerics="fp32", max_model_len=64) as llm:
        with llm.replace("layers.0.ffn", watch), llm.capture("layers.0.ffn.experts", "layers.0.ffn.weights") as tap:
            (output,) = run(llm, [list(range(5, 25))], max_tokens=1)
        experts = tap.tensor("layers.0.ffn.experts", output.request_id)
        weights = tap.tensor("layers.0.ffn.weights", output.request_id).double()
    (x, found), expected = seen[0], []
    with CheckpointReader(sharded) as reader:

        def mlp(name, row):
            w1, w2, w3 = (torch.from_numpy(plain_values(reader, f"{name}.w{i}")).double() for i in (1, 2, 3))
            gate, up = (w1 @ row).clamp(max=10), (w3 @ row).clamp(-10, 10)
            return w2 @ (torch.nn.functional.silu(gate) * up)

        for row, ids, shares in zip(x.double(), experts.tolist(), weights, strict=True):
            total = mlp("layers.0.ffn.shared_experts", row)
            for expert, share in zip(ids, shares, strict=True):
                total = total + share * mlp(f"layers.0.ffn.experts.{expert}", row)
            expected.append(total)
    torch.testing.assert_close(found.double(), torch.stack(expected), atol=1e-5, rtol=1e-4)


def test_case_33_two_packed_rows_by_hand(tmp_path):
    """Byte 0xA0 is [0, -1]; with scale byte 120 (2^-7) the row is [0, -2^-7], in the loaded model too."""
    codes = torch.zeros(64, 24, dtype=torch.uint8)
    codes[0], codes[1] = 0xA0, 0x7F
    name = "layers.0.ffn.experts.1.w2"
    write_random_checkpoint(tiny_config(), tmp_path, seed=3, overrides={f"{name}.weight": codes, f"{name}.scale": 120})
    with CheckpointReader(tmp_path) as reader:
        values = plain_values(reader, name)
    assert values[0].tolist() == [0.0, -(2.0**-7)] * 24 and values[1].tolist() == [-6 * 2.0**-7, 6 * 2.0**-7] * 24
    with LLM(tmp_path, numerics="fp32", max_model_len=64) as llm:
        assert llm.generate([[5]], SamplingParams(max_tokens=1), use_tqdm=False)[0].error is None


@pytest.mark.parametrize("tied", [True, False])
def test_case_34_logits_come_from_the_matrix_the_config_names(tmp_path, run, tied):
    config = tiny_config(tie_word_embeddings=tied)
    config["tie_word_embeddings"] = not tied  # the outer flag does not win
    write_random_checkpoint(config, tmp_path, seed=3)
    with CheckpointReader(tmp_path) as reader:
        matrix = reader.tensor("embed.weight" if tied else "head.weight").double()
    with LLM(tmp_path, numerics="fp32", max_model_len=64) as llm, llm.capture("final.hidden", "logits") as tap:
        (output,) = run(llm, [[5, 9, 20]], max_tokens=1)
    hidden = tap.tensor("final.hidden", output.request_id)[-1].double()
    logits = tap.tensor("logits", output.request_id)[-1].double()
    torch.testing.assert_close(logits, matrix @ hidden, atol=1e-4, rtol=1e-4)


def test_dummy_weights_beyond_the_memory_are_refused(sharded, tmp_path):
    copy = shutil.copytree(sharded, tmp_path / "copy", ignore=shutil.ignore_patterns("*.safetensors*"))
    config = json.loads((copy / "config.json").read_text())
    config["text_config"].update(hidden_size=2**16, moe_intermediate_size=2**17, n_routed_experts=64)
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="random weights of this config take .* TiB, but .* are free"):
        LLM(copy, load_format="dummy", max_model_len=64)
