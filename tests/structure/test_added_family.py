#!/usr/bin/env python3
"""Proves that a family of models and a format of data are a few files: adds those of added_ops/ to a copy of the tree, counts the
files of src/ that each touches, builds the program, trains with both on one rank and on a grid, and has the programs proved."""
import argparse
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

import test_added_ops
from test_added_ops import Failure, run

# How many files of src/ an addition may touch, and its page of keys beside them.
MOST_FILES = {"mlp": 8, "raw": 4}
CHECKS = ("check_includes", "check_families", "check_general", "check_glossary")
KEYS = "configs/KEYS.md"
STEPS = 20
CONFIG = f"""
model:
  kind: mlp
mlp:
  width: 32
  hidden: 64
  vocab_size: 64
data:
  seq_length: 16
train:
  steps: {STEPS}
  global_batch_size: 16
optimizer:
  lr: 1e-2
lr_schedule:
  warmup_steps: 0
run:
  device: cpu
  kernel_table: builtin
eval:
  batches: 2
"""
# Everything that a layout may cut, and stages of one layer each.
GRIDS = {"a grid": {"parallel.tensor": "{x: 2, y: 2, z: 2}"}, "stages": {"parallel.pipeline.stages": 2, "parallel.data": 2}}
DATA = {"synthetic": {"data.format": "synthetic"}, "raw": {"data.format": "raw", "data.path": "tokens.raw"}}


def add(root, name):
    added, touched = test_added_ops.add_files(root, name)
    if len(touched) > MOST_FILES[name]:
        raise Failure(f"{name} touches {len(touched)} files, and {MOST_FILES[name]} must do: {', '.join(touched)}; "
                      "let the family, or the row of the format, state what the others say")
    print(f"{name}: {len(touched)} files: {', '.join(touched)}", flush=True)


def options(*settings):
    return [word for one in settings for key, value in one.items() for word in ("--set", f"{key}={value}")]


def losses(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [line["loss"] for line in map(json.loads, lines) if "loss" in line and "lr" in line]


def train(root, name, *settings):
    """The losses of a short run, which must fall."""
    folder = root / "runs" / name
    run(["build/fourfold", "train", "added.yaml", *options(*settings, {"run.dir": folder})], root)
    found = losses(folder)
    if len(found) != STEPS or not found[-1] < found[0]:
        raise Failure(f"{name}: {STEPS} steps must be told, and their loss must fall; told are {found}")
    return found


def check_alike(name, serial, parallel):
    """Float32 sums in another order, over a few steps: six digits are far more than they differ by."""
    if any(abs(a - b) > 1e-4 * abs(a) for a, b in zip(serial, parallel)):
        raise Failure(f"{name}: losses differ from those of one rank: {parallel}, not {serial}")


def write_tokens(path):
    """Ids that are told by the one before them, mostly."""
    draw, token, content = random.Random(1), 0, bytearray()
    for _ in range(20000):
        token = (5 * token + 3) % 64 if draw.random() < 0.9 else draw.randrange(64)
        content += token.to_bytes(2, "little")
    path.write_bytes(content)


def try_additions(root):
    (root / "added.yaml").write_text(CONFIG)
    write_tokens(root / "tokens.raw")
    page = run(["build/fourfold", "config", "explain", "--markdown"], root)
    for words in ("mlp guesses the next token", "`mlp.hidden`", "raw: a file of token ids"):
        if words not in page:
            raise Failure(f"{KEYS} would not say '{words}'")
    for data, settings in DATA.items():
        serial = train(root, f"{data} on one rank", settings)
        print(f"mlp on {data} data: loss {serial[0]:.3f} to {serial[-1]:.3f} in {STEPS} steps", flush=True)
        for name, grid in GRIDS.items():
            check_alike(name, serial, train(root, f"{data} on {name}", settings, grid))
    for name, grid in GRIDS.items():
        said = run(["build/fourfold", "verify", "added.yaml", *options(DATA["synthetic"], grid)], root)
        lines = [line for line in said.splitlines() if line.startswith("train ")]
        if not lines or not all(line.endswith("no faults") for line in lines):
            raise Failure(f"{name}: the programs of a step are not proved: {said}")
        print(f"{name}: {lines[0]}", flush=True)
    said = run(["build/fourfold", "data", "inspect", "tokens.raw"], root)
    if "tokens of two bytes" not in said:
        raise Failure(f"`data inspect` does not know the added format: {said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=pathlib.Path, help="the build folder whose options the copy is built with")
    parser.add_argument("--keep", type=pathlib.Path, help="put the copy into this empty folder, and leave it there")
    arguments = parser.parse_args()
    if not os.environ.get("FOURFOLD_LONG"):
        print("skipped: compiles most of the tree again; set FOURFOLD_LONG")
        return test_added_ops.SKIPPED
    start = time.monotonic()
    scratch = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="fourfold-added-family-"))
    try:
        root = scratch.resolve() / "copy"
        test_added_ops.copy(test_added_ops.ROOT, root)
        for name in MOST_FILES:
            add(root, name)
        test_added_ops.check_sources(root, CHECKS)
        test_added_ops.build(root, arguments.tree, ["fourfold"])
        try_additions(root)
    except Failure as failure:
        print(f"error: {failure}")
        return 1
    finally:
        if not arguments.keep:
            shutil.rmtree(scratch)
    print(f"a family and a format: all is well after {(time.monotonic() - start) / 60:.1f} min")
    return 0


if __name__ == "__main__":
    sys.exit(main())
