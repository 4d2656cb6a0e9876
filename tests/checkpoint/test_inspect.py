"""Counts of the published model, exact to the byte, and of files on disk."""

import json
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from deepinfer.checkpoint.inspect import inspect_checkpoint
from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.cli.inspect import inspect
from deepinfer.config.numerics import Numerics
from deepinfer.errors import CheckpointError, ConfigError
from deepinfer.worker.kv_cache import cache_table

DATA = Path(__file__).parents[2] / "deepinfer" / "data"
FLASH = DATA / "configs" / "deepseek-v41-flash.json"


def _report(path, memory=None, dtype="auto"):
    return inspect_checkpoint(path, lambda config: cache_table(config, Numerics.OFFICIAL, dtype, 128), memory)


@pytest.fixture(scope="module")
def flash():
    return _report(FLASH, 4 * 139 * 2**30)


@pytest.fixture
def app():
    app = typer.Typer()
    app.command()(inspect)
    return app


def test_published_totals(flash):
    assert flash.num_tensors == 96_085
    assert flash.num_bytes == 510_286_023_000
    assert flash.kv_bytes_per_token == 890
    assert flash.state_bytes_per_sequence == 2_703_360 + 3 * 2 * 4096
    assert flash.num_shards == 0


def test_published_bytes_by_type(flash):
    assert flash.bytes_by_dtype == {
        "BF16": 3_952_883_712,
        "F32": 169_229_128,
        "F8_E4M3": 204_015_223_296,
        "F8_E8M0": 23_563_015_184,
        "I8": 278_585_671_680,
    }


def test_published_bytes_by_part(flash):
    expected = {
        "embed": 1_323_827_200,
        "head": 1_323_827_200,
        "attention": 5_151_966_208,
        "routers": 157_409_280,
        "routed_experts": 288_777_830_400,
        "shared_experts": 1_416_960_000,
        "hyper_connections": 157_295_040,
        "engram_tables": 202_758_032_400,
        "engram_projections": 315_043_840,
        "vision": 970_536_960,
    }
    assert {group: flash.bytes_by_group[group] for group in expected} == expected
    assert round(flash.bytes_by_group["draft"] / 1e9, 2) == 7.93
    assert sum(flash.bytes_by_group.values()) == flash.num_bytes


def test_published_parameters(flash):
    assert round(flash.num_parameters / 1e9, 1) == 551.9
    assert round(flash.num_table_parameters / 1e9, 1) == 196.6
    assert round(flash.active_decode_parameters / 1e9, 2) == 16.13
    assert round((flash.active_decode_parameters - 129280 * 5120) / 1e9, 2) == 15.47
    assert round(flash.active_prefill_parameters / 1e9, 2) == 7.90


def test_published_model_fits_four_h200_but_not_two(flash):
    assert flash.memory.fits and flash.memory.kv_tokens > 90_000_000
    two = _report(FLASH, 2 * 141 * 10**9).memory
    assert not two.fits and not two.fits_without_tables and two.kv_tokens == 0
    assert round((two.weight_bytes - two.table_bytes - flash.bytes_by_group["draft"]) / 1e9, 1) == 298.6


def test_fp8_cache_figure():
    assert _report(FLASH, dtype="fp8").kv_bytes_per_token == 1490


@pytest.mark.parametrize("shards", ["pristine", "mini"])
def test_counts_equal_the_files(pristine, shards):
    path = pristine if shards == "pristine" else DATA / "mini"
    report = _report(path)
    with CheckpointReader(path) as reader:
        entries = reader.entries.values()
        assert report.num_tensors == len(entries)
        assert report.num_bytes == sum(entry.num_bytes for entry in entries)
        for dtype, size in report.bytes_by_dtype.items():
            assert size == sum(entry.num_bytes for entry in entries if entry.dtype == dtype)
        assert report.num_shards == len({entry.shard for entry in entries})


def test_directory_with_config_only(pristine, tmp_path):
    shutil.copy(pristine / "config.json", tmp_path)
    report, full = _report(tmp_path), _report(pristine)
    assert (report.num_shards, full.num_shards) == (0, 3)
    assert (report.num_tensors, report.num_bytes) == (full.num_tensors, full.num_bytes)


def test_broken_inputs_raise(damaged, tmp_path):
    next(damaged.glob("model-00002*")).unlink()
    with pytest.raises(CheckpointError, match="model-00002"):
        _report(damaged)
    with pytest.raises(ConfigError):
        _report(tmp_path / "nothing")


def test_command_prints_tables(app):
    result = CliRunner().invoke(app, [str(FLASH), "--memory", "8x141GB"])
    assert result.exit_code == 0
    for figure in ("96,085", "510,286,023,000", "890", "16,130,064,384", "278,585,671,680", "fits"):
        assert figure in result.stdout


def test_command_prints_json(app):
    result = CliRunner().invoke(app, [str(DATA / "mini"), "--json", "--memory", "1GiB"])
    values = json.loads(result.stdout)
    assert values["num_tensors"] == 1204 and values["memory"]["fits"] is True
    assert values["lengths"]["num_tokens"] == 2048 and values["lengths"]["longest"] == 8192
    assert list(values["costs"]) == ["prefill", "prefill, yoco compact", "decode step", "draft pass"]


def test_costs_of_the_published_model(app):
    """A decode step multiplies with the active parameters once; their bytes are those of the tensors touched."""
    values = json.loads(CliRunner().invoke(app, [str(FLASH), "--json", "--tokens", "1", "--batch", "1"]).stdout)
    cost = values["costs"]["decode step"]
    products = sum(cost[name] for name in ("fp8", "experts", "bf16", "fp32"))
    assert products == pytest.approx(values["active_decode_parameters"], rel=0.02)
    table = CliRunner().invoke(app, [str(FLASH), "--tokens", "100", "--batch", "3"])
    assert table.exit_code == 0 and "3 x 100 tokens" in table.stdout and "FP8-equivalent" in table.stdout


def test_command_reports_a_broken_checkpoint(app, tmp_path):
    (tmp_path / "config.json").write_text((DATA / "mini" / "config.json").read_text())
    (tmp_path / "model.safetensors").write_bytes(b"short")
    result = CliRunner().invoke(app, [str(tmp_path)])
    assert result.exit_code == 3 and "model.safetensors" in result.output


@pytest.mark.parametrize("arguments", [["/nonexistent"], [str(FLASH), "--memory", "lots"]])
def test_command_reports_mistakes(app, arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2 and "error:" in result.output
