"""Trains the target, then the draft model over it, and exports the checkpoint.

python -m examples.train_mini.train DATA OUT --compiled --captured            (a GPU)
python -m examples.train_mini.train DATA OUT --steps 8 --draft-steps 4 --batch 2 --anchors 8    (a look, on a CPU)
python -m examples.train_mini.train DATA OUT --start OUT/checkpoint --draft-seconds 200         (the draft alone)
"""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from deepinfer.config.model_config import DeepSeekV41Config
from examples.train_mini.checkpoint_files import export_checkpoint, restore_parameters
from examples.train_mini.draft_run import DraftRun
from examples.train_mini.mini_config import mini_config
from examples.train_mini.mini_net import MiniNet
from examples.train_mini.parameters import initial_parameters
from examples.train_mini.piece_table import piece_table
from examples.train_mini.run_options import RunOptions
from examples.train_mini.target_run import TargetRun


def train(values: dict[str, Any], options: RunOptions, start: Path | None = None) -> dict[str, float]:
    """Run and export to ``options.out / "checkpoint"``.

    Args:
        values: the nested config.
        options: of the run.
        start: an exported checkpoint whose target stays as it is; None: the target is trained from random values.

    Returns:
        The last losses and the numbers of steps.
    """
    config = DeepSeekV41Config.from_dict(values)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    parameters = initial_parameters(config, options.seed) if start is None else restore_parameters(start)
    parameters = {name: tensor.to(device) for name, tensor in parameters.items()}
    net = MiniNet(config, parameters, options.data / "tokenizer.json", piece_table(options.compiled))
    report = {} if start is not None else TargetRun(net, options).run()
    if config.num_nextn_predict_layers and (options.draft_steps or options.draft_seconds):
        report |= DraftRun(net, options).run()
    export_checkpoint(values, net.parameters, options.data, options.out / "checkpoint")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder that prepare made")
    parser.add_argument("out", type=Path, help="folder for curves and checkpoint")
    parser.add_argument("--start", type=Path, help="exported checkpoint: train the draft alone")
    for field in fields(RunOptions)[2:]:
        name = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(name, action="store_true")
        else:
            parser.add_argument(name, type=type(field.default), default=field.default)
    arguments = vars(parser.parse_args())
    start = arguments.pop("start")
    options = RunOptions(**arguments)
    report = train(mini_config(options.data / "tokenizer.json"), options, start)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
