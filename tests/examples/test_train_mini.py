"""The recipe of the bundled model: data, a few steps of a tiny model, and an export that the engine runs as trained."""

import dataclasses
import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from deepinfer import LLM, SamplingParams
from deepinfer.bench.answer_rows import read_answer_rows
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.core.cache_spec import KVRounding
from deepinfer.core.quantized_weight import QuantizedWeight, WeightFormat
from deepinfer.models.deepseek_v41.weights import tensor_table
from deepinfer.ops import reference
from deepinfer.ops.reference.dequantize_weight import dequantize_weight
from examples.train_mini.check import heldout_losses, lookup_hits
from examples.train_mini.checkpoint_files import restore_parameters
from examples.train_mini.corpus.document import EOS, is_held_out
from examples.train_mini.corpus.prose import html_documents, text_documents
from examples.train_mini.corpus.synthetic import synthetic_document
from examples.train_mini.corpus.tasks import TASKS
from examples.train_mini.corpus.wordnet import definition_documents, kind_questions, opposite_questions
from examples.train_mini.mini_config import mini_config
from examples.train_mini.mini_net import MiniNet
from examples.train_mini.parameters import initial_parameters
from examples.train_mini.piece_table import PIECES, CompiledPiece, piece_table
from examples.train_mini.pieces.number_formats import round_entries, round_fp4, round_fp8, round_weight
from examples.train_mini.pieces.sinkhorn import Sinkhorn
from examples.train_mini.prepare import prepare
from examples.train_mini.rows import MUTE, RowPacker
from examples.train_mini.run_options import RunOptions
from examples.train_mini.train import train

MINI = Path(__file__).parents[2] / "deepinfer/data/mini"
TINY = {
    "hidden_size": 64,
    "num_attention_heads": 2,
    "head_dim": 64,
    "q_lora_rank": 32,
    "o_lora_rank": 32,
    "o_groups": 2,
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "sliding_window": 16,
    "index_n_heads": 2,
    "index_head_dim": 32,
    "index_topk": 16,
    "candidate_topk_blocks": 4,
    "candidate_block_size": 8,
    "engram_vocab_size": 101,
    "max_position_embeddings": 512,
    "dspark_n_routed_experts": 2,
    "dspark_markov_rank": 16,
}
LENGTH = 64


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    prepare(folder, None, num_synthetic=200, vocab_size=500, length=LENGTH)
    return folder


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory) -> tuple[Path, dict[str, float]]:
    out = tmp_path_factory.mktemp("out")
    options = RunOptions(data, out, steps=8, draft_steps=3, batch=4, anchors=6, every=2)
    return out, train(mini_config(data / "tokenizer.json", **TINY), options)


def test_data(data: Path) -> None:
    rows = np.load(data / "train.npy")
    assert rows.dtype == np.uint16 and rows.shape[1] == LENGTH + 1 and len(rows) > 200
    assert 0.2 < ((rows & MUTE) > 0).mean() < 0.9 and (rows & (MUTE - 1)).max() < 500
    assert np.load(data / "heldout.npz")["synthetic"].shape == (64, LENGTH + 1)
    questions = read_answer_rows(data / "eval.jsonl")
    assert {row.task for row in questions} == set(TASKS) and len({row.id for row in questions}) == len(questions)


def test_training_lowers_the_loss(trained: tuple[Path, dict[str, float]]) -> None:
    out, report = trained
    curve = [json.loads(line) for line in (out / "target.jsonl").read_text().splitlines()]
    assert [record["step"] for record in curve] == [2, 4, 6, 8]
    assert curve[-1]["ce"] < curve[0]["ce"] - 0.1 and curve[0]["kl"] > 0
    assert [record["sparse"] for record in curve] == [False, False, True, True]
    assert report["steps"] == 8 and report["draft_steps"] == 3 and 1 <= report["tokens_per_block"] < 6


def test_the_engine_runs_the_export(trained: tuple[Path, dict[str, float]], data: Path) -> None:
    """What the trainer computes over whole rows, the engine computes through its caches."""
    checkpoint = trained[0] / "checkpoint"
    with LLM(checkpoint, speculative="off") as llm:
        losses = heldout_losses(llm, data / "heldout.npz", 8)
    config = DeepSeekV41Config.from_path(checkpoint)
    net = MiniNet(config, restore_parameters(checkpoint), checkpoint / "tokenizer.json", piece_table())
    rows = torch.from_numpy(np.load(data / "heldout.npz")["synthetic"][:8].astype(np.int32))
    ids, labels = (rows & (MUTE - 1)).long()[:, :-1], (rows & (MUTE - 1)).long()[:, 1:]
    weights = ((rows[:, 1:] & MUTE) == 0).float()
    weights[:, -1] = 0  # the engine's prompt ends before it
    with torch.no_grad():
        loss, _, _ = net.loss(ids, labels, weights, sparse=True)
    assert losses["synthetic"] == pytest.approx(float(loss), abs=0.02)
    with LLM(checkpoint) as llm:
        (output,) = llm.generate("What is 1 + 2?", SamplingParams(max_tokens=8, ignore_eos=True), use_tqdm=False)
    assert output.error is None and len(output.outputs[0].token_ids) == 8


def test_trainer_and_engine_agree_on_the_bundled_model() -> None:
    """On text of three windows that the engine writes itself, so that little hangs on roundings."""
    prompts = [f"<｜User｜>Tell me a story about a {animal}.<｜Assistant｜></think>" for animal in ("fox", "bear")]
    with LLM(MINI, speculative="off") as llm:
        writing = SamplingParams(temperature=0, max_tokens=192, ignore_eos=True)
        stories = llm.generate(prompts, writing, use_tqdm=False)
        texts = [[*story.prompt_token_ids, *story.outputs[0].token_ids][:193] for story in stories]
        params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0)
        outputs = llm.generate(texts, params, use_tqdm=False)
    judged = [
        [-entry[token].logprob for token, entry in zip(text[1:], output.prompt_logprobs[1:], strict=True)]
        for text, output in zip(texts, outputs, strict=True)
    ]
    net = MiniNet(DeepSeekV41Config.from_path(MINI), restore_parameters(MINI), MINI / "tokenizer.json", piece_table())
    ids = torch.tensor(texts)
    with torch.no_grad():
        _, _, losses = net.loss(ids[:, :-1], ids[:, 1:], torch.ones(2, 192), sparse=True)
    difference = losses.reshape(2, 192) - torch.tensor(judged)
    assert float(difference.mean().abs()) < 0.05 and float(difference.abs().median()) < 0.05
    assert float(losses.mean()) < 1.5  # of at most log(4096) = 8.3


def test_look_ups_without_entries(trained: tuple[Path, dict[str, float]], data: Path, tmp_path: Path) -> None:
    rows = [row for row in read_answer_rows(data / "eval.jsonl") if row.task == "needle"]
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(dataclasses.asdict(rows[0])), "utf-8")
    hits = lookup_hits(trained[0] / "checkpoint", path)
    assert list(hits) == ["window only", "index_topk 1", "index_topk 4", "index_topk 16"]


def test_the_draft_alone_keeps_the_target(trained: tuple[Path, dict[str, float]], data: Path, tmp_path: Path) -> None:
    start = trained[0] / "checkpoint"
    values = json.loads((start / "config.json").read_text("utf-8"))
    report = train(values, RunOptions(data, tmp_path, draft_steps=1, batch=2, anchors=4), start)
    assert "steps" not in report
    before, after = restore_parameters(start), restore_parameters(tmp_path / "checkpoint")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all(name.startswith("mtp.") for name in changed)


def test_the_bundled_checkpoint_is_such_an_export() -> None:
    bundled = json.loads((MINI / "config.json").read_text("utf-8"))
    values = mini_config(MINI / "tokenizer.json")
    assert values["text_config"] == bundled["text_config"]
    config = DeepSeekV41Config.from_dict(values)
    names = {name.replace(".experts.w", ".experts.0.w") for name in initial_parameters(config)}
    stored = {spec.name.replace(".weight", "") for spec in tensor_table(config)}
    assert {name.replace(".weight", "") for name in names} <= stored


def test_the_trainer_rounds_as_the_engine_does() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 64, generator=generator) * torch.logspace(-3, 2, 40)[:, None]
    for rounded, rounding in (
        (round_fp8, KVRounding.FP8_GROUP32),
        (round_fp4, KVRounding.FP4_GROUP32),
        (round_entries, KVRounding.FP4_GROUP16),
    ):
        want = reference.round_vectors(x, rounding)
        assert torch.equal(rounded(x).float(), want.to(torch.bfloat16).float()), rounding
    from deepinfer.checkpoint.weight_quantizers import quantize_fp8_tiles

    matrix = torch.randn(64, 96, generator=generator, requires_grad=True)
    weight = QuantizedWeight(*quantize_fp8_tiles(matrix.detach()), WeightFormat.FP8_BLOCK32)
    assert torch.equal(round_weight(matrix).float(), dequantize_weight(weight))
    round_weight(matrix).sum().backward()
    assert torch.equal(matrix.grad, torch.ones_like(matrix))


def test_sinkhorn_gradient() -> None:
    logits = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    balanced = Sinkhorn.apply(logits, 40, 0.0)
    assert torch.allclose(balanced.sum(-1), torch.ones(3, 4, dtype=torch.float64), atol=1e-6)
    noise = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (balanced * noise).sum().backward()
    step, moved = 1e-6, logits.detach().clone()
    moved[1, 2, 3] += step
    slope = ((Sinkhorn.apply(moved, 40, 0.0) - balanced.detach()) * noise).sum() / step
    assert float(slope) == pytest.approx(float(logits.grad[1, 2, 3]), rel=1e-3, abs=1e-6)


def test_a_wrong_compiled_piece_stays_plain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    for factor, verdict, result in ((1.0, "is compiled", 7.0), (1.5, "stays plain", 6.0)):
        monkeypatch.setattr(torch, "compile", lambda plain, dynamic, f=factor: lambda x: plain(x) * f)
        piece = CompiledPiece(double)
        piece(torch.ones(3, requires_grad=True))
        assert verdict in capsys.readouterr().out
        piece._compiled = (lambda x: 7 * x) if verdict == "is compiled" else piece._compiled
        assert float(piece(torch.tensor(3.0))) / 3 * (1 if factor == 1.0 else 3) == result
    assert len({piece.__name__ for piece in PIECES}) == len(PIECES)


def test_packing() -> None:
    packer = RowPacker(30)
    packer.add(list(range(25)))  # 5 places are left: less than a third
    packer.add(list(range(100, 112)))  # begins again in the next row
    packer.add(list(range(200, 260)))
    rows = packer.rows().tolist()
    assert rows[0] == [*range(25), *range(100, 105)]
    assert rows[1] == [*range(100, 112), *range(200, 218)]
    assert rows[2] == list(range(218, 248)) and len(rows) == 3  # 12 ids are too few for another row


def test_generated_documents() -> None:
    rng = random.Random(3)
    for _ in range(300):
        document = synthetic_document(rng)
        assert document[-1][1] and document[-1][0].endswith(EOS)
    for name, generate in TASKS.items():
        asked, answer, key = generate(random.Random(name))
        assert asked and answer and key
    assert TASKS["sort"](random.Random(1))[1] == ", ".join(
        map(str, sorted(map(int, TASKS["sort"](random.Random(1))[1].split(", "))))
    )
    assert sum(is_held_out(str(i)) for i in range(2500)) in range(60, 140)


def test_public_texts(tmp_path: Path) -> None:
    noun = (
        "  1 licence text\n"
        '001 05 n 02 fox 0 tod 0 001 @ 002 n 0000 | a clever animal; "the fox ran"\n'
        "002 05 n 01 animal 0 000 | a living thing\n"
    )
    adjective = "003 00 a 01 hot(a) 0 001 ! 004 a 0101 | very warm\n004 00 a 01 cold 0 001 ! 003 a 0101 | not warm\n"
    for part, text in (("noun", noun), ("adj", adjective), ("verb", ""), ("adv", "")):
        (tmp_path / f"data.{part}").write_text(text, encoding="latin1")
    documents = ["".join(text for text, _ in doc) for _, doc in definition_documents(tmp_path, random.Random(1))]
    assert len(documents) == 4 and "clever animal" in documents[0] and "the fox ran" in documents[0]
    assert {answer for _, answer, _ in kind_questions(tmp_path, random.Random(1), 20)} == {
        "A fox is a kind of animal.", "Yes.", "No.",
    }  # fmt: skip
    assert opposite_questions(tmp_path)[0][:2] == ("What is the opposite of hot?", "The opposite of hot is cold.")
    page = tmp_path / "page.html"
    body = "<p>" + "A sentence of the page. " * 120 + "</p>"
    page.write_text(f'<nav>menu</nav><div class="body" role="main">{body}<div class="clearer">', "utf-8")
    pieces = [doc[0][0] for _, doc in html_documents([page], "py")]
    assert len(pieces) >= 2 and all("menu" not in piece for piece in pieces)
    page.write_text("Short “line”.\n" * 30, "utf-8")
    ((_, document),) = text_documents([page], "t", r"\n+")
    assert document[0][0].startswith('Short "line".\nShort')
