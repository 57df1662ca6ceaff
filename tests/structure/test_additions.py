#!/usr/bin/env python3
"""Proves that an op is one row, that a command is one file, and that an optimizer, a family of models, a format of data and a variant
of a collective are a few: adds those of added/ to one copy of the tree, counts the files that each touches, builds the program and what
looks at every row once, and sees that numerics, text, residues, verifier, fuzzing and the emulation of CUDA cover the ops without a
line; that the family trains on both kinds of data and by the optimizer, on one rank and on grids; that ranks of threads and of processes
train with the collective; that all these programs are proved; and that the command has help and does what it is for."""
import argparse
import json
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import additions
import repository
from additions import Failure

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
CHECKS = ("check_includes", "check_families", "check_general", "check_glossary", "check_text")
# What the tree was configured with and the copy is, too.
OPTIONS = ("CMAKE_CXX_COMPILER", "CMAKE_CXX_FLAGS", "CMAKE_PREFIX_PATH", "FOURFOLD_WERROR")
# Nothing that is proved depends on how a file is optimized: the options that end the line prevail over those of all targets.
COMPILE = "<CMAKE_CXX_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -O0 -g0 -o <OBJECT> -c <SOURCE>"
# CUDA's kernels are compiled for the emulation alone, not with nvcc.
QUICKER = (f"-DCMAKE_CXX_COMPILE_OBJECT={COMPILE}", "-DFOURFOLD_CUDA=AUTO", "-DCMAKE_CUDA_COMPILER=OFF")
TARGETS = ("fourfold", "test_unit_op", "test_numerics_cuda_emulated", "test_program", "test_parallel", "fuzz_program")
# Tests of other things, which the copy does not compile.
KEPT_TESTS = {"tests/program": ("all_rows_test.cpp",), "tests/parallel": ("added_ops_test.cpp",),
              "tests/unit/op": ("residue_forms_test.cpp",)}
# How the names of the tests in training_test.cpp begin.
TRAINING = ("train_on_grids", "are_verified_to_count", "stand_in_the_text", "have_the_gradients")

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
OPTIMIZER = "adagrad"
GRIDS = {"a grid": {"parallel.tensor": "{x: 2, y: 2, z: 2}"}, "stages": {"parallel.pipeline.stages": 2, "parallel.data": 2}}
# A model with tensors that the added collective brings, and larger ones.
COLLECTIVE = "all_gather_direct"
COLLECTIVE_CONFIG = "configs/gpt-tiny.yaml"
GATHERING = {"model.hidden_size": 64, "model.ffn_hidden_size": 512, "train.global_batch_size": 16, "train.micro_batch_size": 2,
             "optimizer.lr": "1e-2", "run.device": "cpu", "run.kernel_table": "builtin", "sample.tokens": 0}
GATHERING_GRIDS = {"four ranks that share weights": {"parallel.tensor": "{x: 1, y: 1, z: 4}"}, "a grid that gathers": GRIDS["a grid"]}
MPIRUN = ["mpirun", "-np", "4", "--oversubscribe", "--bind-to", "none", "--allow-run-as-root"]
DATA = {"synthetic": {"data.format": "synthetic"}, "raw": {"data.format": "raw", "data.path": "tokens.raw"}}


def copy(root, to):
    for path in repository.files(root):
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, to / path)


def run(command, root):
    """Runs in the copy and returns what it said; fails with the end of that."""
    start, used = time.monotonic(), core_seconds()
    done = subprocess.run(command, cwd=root, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        # Not the tests that pass beside the one that fails.
        told = [line for line in done.stdout.splitlines() if not line.startswith(("[ RUN ", "[       OK ", "[-----"))]
        raise Failure(f"{' '.join(map(str, command))} ended with {done.returncode}:\n" + "\n".join(told[-40:]))
    words = " ".join(pathlib.Path(word).name for word in map(str, command[:2]) if not word.startswith("-"))
    print(f"{words}: {time.monotonic() - start:.0f} s, {core_seconds() - used:.0f} s of one core", flush=True)
    return done.stdout


def core_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def add_all(root, names):
    """Adds one after another, and returns the rows of ops that were added."""
    rows = []
    for name in names:
        most = additions.MOST_FILES[name]
        added, touched = additions.add(root, name)
        of_rows = f"rows {', '.join(added)}; " if added else ""
        print(f"{name}: {of_rows}{len(touched)} files, of {most} at most: {', '.join(touched)}", flush=True)
        rows += added
    return rows


def check_sources(root):
    for check in CHECKS:
        run([sys.executable, f"tests/structure/{check}.py", "."], root)


def build(root, tree, targets):
    cache = dict(re.findall(r"^(\w+):\w+=(.*)$", (tree / "CMakeCache.txt").read_text(), re.MULTILINE))
    options = [f"-D{key}={cache[key]}" for key in OPTIONS if cache.get(key)]
    shutil.copy2(additions.ADDED / "training_test.cpp", root / "tests/parallel/added_ops_test.cpp")
    for folder, kept in KEPT_TESTS.items():
        for path in (root / folder).glob("*_test.cpp"):
            if path.name not in kept:
                path.unlink()
    run(["cmake", "-S", ".", "-B", "build", "-G", "Ninja", *QUICKER, *options], root)
    jobs = max(1, min(len(os.sched_getaffinity(0)), available_gib() // 2))
    run(["ninja", "-C", "build", "-j", str(jobs), *targets], root)


def available_gib():
    match = re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return int(match[1]) // 2**20


def check_ran(said, wanted):
    """Each pattern matches a test that passed."""
    tests = re.findall(r"^\[       OK \] (\S+)", said, re.MULTILINE)
    for pattern in wanted:
        if not any(re.fullmatch(pattern, test) for test in tests):
            raise Failure(f"no test {pattern} ran and passed; these did: {', '.join(tests)[:2000]}")
    return len(tests)


def try_rows(root, rows):
    of_rows = ":".join(f"*/{row}_example_*" for row in rows)
    filter_of = f"--gtest_filter={of_rows}:Examples.*:Coverage.*:ResidueForms.*"
    said = run(["build/test_numerics_cuda_emulated", filter_of], root)
    families = (r"Every/Accuracy\.result_is_within\w+", r"Every/Accuracy\.two_runs\w+",
                r"Every/CudaEmulated\.result_is_within\w+", r"Every/CudaEmulated\.order_of_threads\w+")
    count = check_ran(said, [rf"{family}/{row}_example_\d+" for row in rows for family in families] +
                      [r"Examples\.every_gradient_equals_central_differences", r"Coverage\.every_row\w+"])
    print(f"numerics, on the CPU and emulated: {count} tests for {len(rows)} rows", flush=True)
    check_ran(run(["build/test_unit_op"], root), [rf"ResidueForms\.depend_on_every_{what}\w*" for what in ("operand", "attribute")])
    check_ran(run(["build/test_program"], root), [r"AllRows\.read_back\w+", r"AllRows\.have_the_operands\w+"])
    run(["build/fuzz_program", "-max_total_time=10", "tests/fuzz/corpus/program"], root)
    said = run(["build/test_parallel"], root)
    check_ran(said, [rf"AddedOps\.{test}\w+" for test in TRAINING])
    print("\n".join(line for line in said.splitlines() if line.startswith("worst")), flush=True)


def options(*settings):
    return [word for one in settings for key, value in one.items() for word in ("--set", f"{key}={value}")]


def losses(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [line["loss"] for line in map(json.loads, lines) if "loss" in line and "lr" in line]


def train(root, name, *settings, config="added.yaml", start=()):
    """The losses of a short run, which must fall."""
    folder = root / "runs" / name
    run([*start, "build/fourfold", "train", config, *options(*settings, {"run.dir": folder})], root)
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


def try_models(root):
    (root / "added.yaml").write_text(CONFIG)
    write_tokens(root / "tokens.raw")
    page = run(["build/fourfold", "config", "explain", "--markdown"], root)
    for words in ("mlp guesses the next token", "`mlp.hidden`", "raw: a file of token ids", f"{OPTIMIZER}: steps that shrink"):
        if words not in page:
            raise Failure(f"{KEYS} would not say '{words}'")
    for data, settings in DATA.items():
        serial = train(root, f"{data} on one rank", settings)
        print(f"mlp on {data} data: loss {serial[0]:.3f} to {serial[-1]:.3f} in {STEPS} steps", flush=True)
        for name, grid in GRIDS.items():
            check_alike(name, serial, train(root, f"{data} on {name}", settings, grid))
    check_is_read(root)
    chosen = {**DATA["synthetic"], "optimizer.name": OPTIMIZER}
    serial = train(root, f"{OPTIMIZER} on one rank", chosen)
    print(f"{OPTIMIZER}: loss {serial[0]:.3f} to {serial[-1]:.3f} in {STEPS} steps", flush=True)
    for name, grid in GRIDS.items():
        check_alike(name, serial, train(root, f"{OPTIMIZER} on {name}", chosen, grid))
        check_is_proved(root, name, "added.yaml", chosen, grid)
    said = run(["build/fourfold", "data", "inspect", "tokens.raw"], root)
    if "tokens of two bytes" not in said:
        raise Failure(f"`data inspect` does not know the added format: {said}")


def check_is_proved(root, name, config, *settings):
    said = run(["build/fourfold", "verify", config, *options(*settings)], root)
    lines = [line for line in said.splitlines() if line.startswith("train ")]
    if not lines or not all(line.endswith("no faults") for line in lines):
        raise Failure(f"{name}: the programs of a step are not proved: {said}")
    print(f"{name}: {lines[0]}", flush=True)


def count_collectives(root, name, *settings):
    """How often a step of the first rank has the added collective, and the one that it is a variant of."""
    said = run(["build/fourfold", "program", COLLECTIVE_CONFIG, *options(*settings)], root)
    counts = {kind: len(re.findall(rf"^ +\S+ +{kind} ", said, re.MULTILINE)) for kind in (COLLECTIVE, "all_gather")}
    if not all(counts.values()):
        raise Failure(f"{name}: a step must have small tensors that {COLLECTIVE} brings, and large ones that all_gather brings; it has {counts}")
    print(f"{name}: {counts}", flush=True)


def try_collective(root):
    """Ranks train with the added collective as one rank does without it, it stands in programs that are proved, and it is timed."""
    serial = train(root, "gpt on one rank", GATHERING, config=COLLECTIVE_CONFIG)
    for name, grid in GATHERING_GRIDS.items():
        check_alike(name, serial, train(root, f"gpt on {name}", GATHERING, grid, config=COLLECTIVE_CONFIG))
        check_is_proved(root, name, COLLECTIVE_CONFIG, GATHERING, grid)
        count_collectives(root, name, GATHERING, grid)
    if shutil.which(MPIRUN[0]) and "MPI" in run(["build/fourfold", "--version"], root):
        grid = GATHERING_GRIDS["four ranks that share weights"]
        check_alike("processes", serial, train(root, "gpt on processes", GATHERING, grid, config=COLLECTIVE_CONFIG, start=MPIRUN))
    said = run(["build/fourfold", "bench", "collectives", "--ranks", "4", "--quick", "--kind", COLLECTIVE], root)
    if not re.search(rf"^{COLLECTIVE} +world +4 ", said, re.MULTILINE):
        raise Failure(f"`bench collectives` does not time the added one: {said}")
    print(f"gpt with {COLLECTIVE}: loss {serial[0]:.3f} to {serial[-1]:.3f} on one rank, and the same on {', '.join(GATHERING_GRIDS)}", flush=True)


def try_command(root):
    """The added command stands in help where it says, is helped with, does what it is for, and is known to what reads all commands."""
    program = "build/fourfold"
    order = re.findall(r"^  ([a-z]+) {2,}", run([program, "--help"], root), re.MULTILINE)
    place = order.index("bytes") if "bytes" in order else 0
    if order[place - 1:place + 2] != ["machines", "bytes", "doctor"]:
        raise Failure(f"`fourfold --help` must list bytes between machines and doctor; it lists {', '.join(order)}")
    for words, wanted in ((["bytes", "--help"], "Say how many bytes a size is"), (["bytes", "--help"], "Example:\n  fourfold bytes 2GiB"),
                          (["help", "bytes"], "--grouped"), (["bytes", "2GiB"], "2147483648\n"),
                          (["bytes", "2GiB", "--grouped"], "2,147,483,648\n"), (["completion", "bash"], "'bytes') echo '--help -h --grouped'")):
        said = run([program, *words], root)
        if wanted not in said:
            raise Failure(f"`fourfold {' '.join(words)}` must say '{wanted}'; it says: {said}")
    for words, wanted in ((["bytes"], "SIZE is required"), (["bytes", "much"], "'much' is no size"), (["byte", "1"], "did you mean 'bytes'?"),
                          (["bytes", "1", "--groupd"], "did you mean '--grouped'?")):
        done = subprocess.run([program, *words], cwd=root, text=True, check=False, capture_output=True)
        if done.returncode != 2 or wanted not in done.stderr:
            raise Failure(f"`fourfold {' '.join(words)}` must end with 2 and '{wanted}'; it ends with {done.returncode}: {done.stderr}")
    print(f"bytes: a command of one file, place {place + 1} of {len(order)} in help; it is helped with, runs, and is known to completion "
          "and to messages", flush=True)


def check_is_read(root):
    """A file of one token alone is learned at once: its loss comes to nothing, where that of the other cannot."""
    (root / "one.raw").write_bytes(bytes([7, 0]) * 20000)
    loss = train(root, "one token on one rank", DATA["raw"], {"data.path": "one.raw"})[-1]
    print(f"mlp on one token: loss {loss:.4f}", flush=True)
    if loss > 0.1:
        raise Failure(f"raw: a file that repeats one token ends with a loss of {loss:.3f}, and must end with almost none; "
                      "the format reads something else than data.path")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=pathlib.Path, help="the build folder whose compiler the copy is built with")
    parser.add_argument("--only", choices=[COLLECTIVE, "bytes"], help="add this alone, and try nothing else")
    parser.add_argument("--keep", type=pathlib.Path, help="put the copy into this empty folder, and leave it there")
    arguments = parser.parse_args()
    if not os.environ.get("FOURFOLD_LONG"):
        print("skipped: compiles most of the tree again; set FOURFOLD_LONG")
        return SKIPPED
    start = time.monotonic()
    scratch = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="fourfold-additions-"))
    try:
        root = scratch.resolve() / "copy"
        copy(ROOT, root)
        rows = add_all(root, [arguments.only] if arguments.only else additions.MOST_FILES)
        check_sources(root)
        build(root, arguments.tree, ["fourfold"] if arguments.only else TARGETS)
        if arguments.only in (None, "all_gather_direct"):
            try_collective(root)
        if arguments.only in (None, "bytes"):
            try_command(root)
        if not arguments.only:
            try_models(root)
            try_rows(root, rows)
    except Failure as failure:
        print(f"error: {failure}")
        return 1
    finally:
        if not arguments.keep:
            shutil.rmtree(scratch)
    what = arguments.only or f"two ops and an optimizer of {len(rows)} rows, a family, a format, a collective and a command"
    print(f"{what}: all is well after {(time.monotonic() - start) / 60:.1f} min, with "
          f"{core_seconds() / 60:.1f} min of one core")
    return 0


if __name__ == "__main__":
    sys.exit(main())
