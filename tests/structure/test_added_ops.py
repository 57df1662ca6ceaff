#!/usr/bin/env python3
"""Proves that an op is one row: adds the ops of added_ops/ to a copy of the tree, counts the files that each touches, builds
what looks at every row, and sees that numerics, text, verifier, fuzzing and the emulation of CUDA cover them without a line."""
import argparse
import hashlib
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import repository

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPS = pathlib.Path(__file__).resolve().parent / "added_ops"
# How many files an op may touch: one that computes each element by itself; one with a cut form.
MOST_FILES = {"swish": 3, "unit_norm": 6}
SKIPPED = 77
SECTION = re.compile(r"== (\S+), (?:(new)|(before|after): (.*))")
ROW = re.compile(r"FOURFOLD_(?:OP|ELEMENTWISE)_ROW\(\w+, \"(\w+)\"")
# What the tree was configured with, so that the compiler's cache knows what did not change.
OPTIONS = ("CMAKE_BUILD_TYPE", "CMAKE_CXX_COMPILER", "CMAKE_CXX_FLAGS", "FOURFOLD_ARCH", "FOURFOLD_PRECOMPILE",
           "FOURFOLD_UNITY", "FOURFOLD_WERROR")
TARGETS = ("test_numerics_cuda_emulated", "test_program", "test_parallel", "fuzz_program")
# How the names of the tests in training_test.cpp begin.
TRAINING = ("train_on_grids", "are_verified_to_count", "stand_in_the_text", "have_the_gradients")
# Tests of other things, which the copy does not compile.
KEPT_TESTS = {"tests/program": ("all_rows_test.cpp",), "tests/parallel": ("added_ops_test.cpp",)}


class Failure(Exception):
    """A sentence that says what is wrong and what to do."""


def sections(name):
    """The pieces of an op: (line, path, new | before | after, anchor, text)."""
    head, *lines = (OPS / f"{name}.txt").read_text().split("\n== ")
    line = head.count("\n") + 2
    for piece in lines:
        first, _, text = piece.partition("\n")
        match = SECTION.fullmatch("== " + first)
        if not match:
            raise Failure(f"{name}.txt:{line}: '== {first}' is neither '== FILE, new' nor '== FILE, before: LINE' or '... after: LINE'")
        yield line, match[1], match[2] or match[3], match[4], text.rstrip("\n") + "\n"
        line += piece.count("\n") + 1


def plain(line):
    """A line without what formatting changes."""
    return " ".join(line.rstrip().removesuffix("\\").split())


def insert(root, name, line, path, where, anchor, text):
    target = root / path
    if where == "new":
        if target.exists():
            raise Failure(f"{name}.txt:{line}: {path} is there already; give the added file another name")
        target.write_text(text)
        return
    if not target.exists():
        raise Failure(f"{name}.txt:{line}: there is no {path}; say where its lines belong now")
    lines = target.read_text().splitlines(keepends=True)
    places = [number for number, found in enumerate(lines) if plain(found) == plain(anchor)]
    if len(places) != 1:
        raise Failure(f"{name}.txt:{line}: {path} has {len(places)} lines '{anchor}', and must have one; "
                      f"name the line {where} which an op's lines belong now")
    place = places[0] + (where == "after")
    blank = "\n" if where == "before" else ""
    target.write_text("".join(lines[:place]) + text + blank + "".join(lines[place:]))


def contents(root):
    """A digest of each file: what tells which were touched."""
    return {path: hashlib.sha256((root / path).read_bytes()).digest() for path in repository.files(root)}


def add_files(root, name):
    """Adds what a file of added_ops/ says and returns the names of its rows, and of the files that were touched."""
    before = contents(root)
    rows = []
    for piece in sections(name):
        insert(root, name, *piece)
        rows += ROW.findall(piece[-1])
    after = contents(root)
    return rows, sorted(str(path) for path in after if after[path] != before.get(path))


def add(root, name):
    """Adds an op and returns the names of its rows, and of the files that were touched."""
    rows, touched = add_files(root, name)
    if len(touched) > MOST_FILES[name]:
        raise Failure(f"{name} touches {len(touched)} files, and {MOST_FILES[name]} must do: {', '.join(touched)}; "
                      "let the row state what the others say")
    return rows, touched


def copy(root, to):
    for path in repository.files(root):
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, to / path)


def run(command, root, **environment):
    """Runs in the copy and returns what it said; fails with the end of that."""
    start = time.monotonic()
    done = subprocess.run(command, cwd=root, env={**os.environ, **environment}, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    name = pathlib.Path(command[0]).name
    if done.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))} ended with {done.returncode}:\n" + "\n".join(done.stdout.splitlines()[-40:]))
    print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
    return done.stdout


def check_sources(root, checks=("check_includes", "check_general", "check_text")):
    for check in checks:
        run([sys.executable, f"tests/structure/{check}.py", "."], root)


def build(root, tree, targets=TARGETS):
    cache = dict(re.findall(r"^(\w+):\w+=(.*)$", (tree / "CMakeCache.txt").read_text(), re.MULTILINE))
    options = [f"-D{key}={cache[key]}" for key in OPTIONS if cache.get(key)]
    for folder, kept in KEPT_TESTS.items():
        for path in (root / folder).glob("*_test.cpp"):
            if path.name not in kept:
                path.unlink()
    run(["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DFOURFOLD_CUDA=AUTO", *options], root)
    # The cache knows a file by its path from here.
    cached = {"CCACHE_BASEDIR": str(root), "CCACHE_NOHASHDIR": "1"}
    jobs = max(1, min(len(os.sched_getaffinity(0)), available_gib() // 2))
    run(["ninja", "-C", "build", "-j", str(jobs), *targets], root, **cached)


def available_gib():
    match = re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return int(match[1]) // 2**20


def passed(said):
    return re.findall(r"^\[       OK \] (\S+)", said, re.MULTILINE)


def check_ran(said, wanted):
    """Each pattern matches a test that passed."""
    tests = passed(said)
    for pattern in wanted:
        if not any(re.fullmatch(pattern, test) for test in tests):
            raise Failure(f"no test {pattern} ran and passed; these did: {', '.join(tests)[:2000]}")
    return len(tests)


def try_rows(root, rows):
    of_rows = ":".join(f"*/{row}_example_*" for row in rows)
    said = run(["build/test_numerics_cuda_emulated", f"--gtest_filter={of_rows}:Examples.*:Coverage.*"], root)
    families = (r"Every/Accuracy\.result_is_within\w+", r"Every/Accuracy\.two_runs\w+", r"Every/Accuracy\.outputs_that\w+",
                r"Every/CudaEmulated\.result_is_within\w+", r"Every/CudaEmulated\.order_of_threads\w+")
    count = check_ran(said, [rf"{family}/{row}_example_\d+" for row in rows for family in families] +
                      [r"Examples\.every_gradient_equals_central_differences", r"Coverage\.every_row\w+"])
    print(f"numerics, on the CPU and emulated: {count} tests for {len(rows)} rows", flush=True)
    check_ran(run(["build/test_program"], root), [r"AllRows\.read_back\w+", r"AllRows\.have_the_operands\w+"])
    run(["build/fuzz_program", "-max_total_time=10", "tests/fuzz/corpus/program"], root)
    said = run(["build/test_parallel"], root)
    check_ran(said, [rf"AddedOps\.{test}\w+" for test in TRAINING])
    print("\n".join(line for line in said.splitlines() if line.startswith("worst")), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=pathlib.Path, help="the build folder whose options the copy is built with")
    parser.add_argument("--keep", type=pathlib.Path, help="put the copy into this empty folder, and leave it there")
    arguments = parser.parse_args()
    if not os.environ.get("FOURFOLD_LONG"):
        print("skipped: compiles most of the tree again; set FOURFOLD_LONG")
        return SKIPPED
    start = time.monotonic()
    scratch = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="fourfold-added-ops-"))
    try:
        root = scratch.resolve() / "copy"
        copy(ROOT, root)
        rows = []
        for name in MOST_FILES:
            added, touched = add(root, name)
            print(f"{name}: rows {', '.join(added)}; {len(touched)} files: {', '.join(touched)}", flush=True)
            rows += added
        check_sources(root)
        shutil.copy2(OPS / "training_test.cpp", root / "tests/parallel/added_ops_test.cpp")
        build(root, arguments.tree)
        try_rows(root, rows)
    except Failure as failure:
        print(f"error: {failure}")
        return 1
    finally:
        if not arguments.keep:
            shutil.rmtree(scratch)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"two ops of {len(rows)} rows: all is well after {(time.monotonic() - start) / 60:.1f} min, with "
          f"{(used.ru_utime + used.ru_stime) / 60:.1f} min of one core")
    return 0


if __name__ == "__main__":
    sys.exit(main())
