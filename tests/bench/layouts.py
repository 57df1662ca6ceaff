"""Layouts of a small GPT on rank threads, for scripts/bench-simulate: what they are, and what is predicted of them."""
import json
import os
import random

from grids import grid_name, grids_of
from peers import sets

MODEL = {
    "model.num_layers": 4, "model.num_attention_heads": 8, "model.vocab_size": 512, "data.format": "synthetic",
    "data.seq_length": 64, "train.global_batch_size": 16, "sample.tokens": 0, "checkpoint.interval_minutes": 0, "eval.batches": 1,
    "run.kernel_table": "builtin",
}  # fmt: skip
WIDTHS = (128, 256, 384)
OVERLAPS = [f"parallel.overlap.{kind}" for kind in ("all_reduce", "reduce_scatter", "all_gather")]
MOST = 84  # layouts of 2 and 4 ranks


class Layout:
    """A grid, the width of the model, and whether exchanges overlap."""

    def __init__(self, grid, width, overlaps=True):
        x, y, z, data = grid
        self.ranks, self.width = x * y * z * data, width
        self.name = f"{grid_name(grid)}, width {width}" + ", nothing overlaps" * (not overlaps)
        self.settings = {
            **MODEL, "model.hidden_size": width, "parallel.tensor.x": x, "parallel.tensor.y": y, "parallel.tensor.z": z,
            "parallel.data": data, **dict.fromkeys(OVERLAPS, str(overlaps).lower()),
        }  # fmt: skip


ONE_RANK = {width: Layout((1, 1, 1, 1), width) for width in WIDTHS}


def drawn(count, seed):
    """Layouts of 2 and 4 ranks, all different."""
    everything = [(grid, width, overlaps) for ranks in (2, 4) for grid in grids_of(ranks) for width in WIDTHS
                  for overlaps in (True, False)]  # fmt: skip
    return [Layout(*one) for one in random.Random(seed).sample(everything, count)]


def measured_machine(bench, layout):
    """The file of this host as a cluster of as many ranks, with the kernels of a step of the layout's width; measured once."""
    path = os.path.join(bench.scratch, f"machine-{layout.ranks}-{layout.width}.yaml")
    if path not in bench.kept:
        bench.kept[path] = path
        bench.fourfold(["bench", "machine", bench.config, "--ranks", str(layout.ranks), "--seconds", str(bench.options.seconds),
                        "-o", path, *sets(ONE_RANK[layout.width].settings)])  # fmt: skip
        print(f"measured this host with {layout.ranks} ranks, width {layout.width}", flush=True)
    return path


def predicted_s(bench, layout):
    """Seconds of a step by `fourfold simulate`."""
    words = ["simulate", bench.config, "--machine", measured_machine(bench, layout), "--format", "json", *sets(layout.settings)]
    return json.loads(bench.fourfold(words))["step_s"]
