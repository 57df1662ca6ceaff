#!/usr/bin/env python3
"""Tests of scripts/bench-cpu, bench-ranks and bench-unet, which share tests/bench/rounds.py, with programs that were made up: each
takes the time that a file lists for it, round by round, so that every figure of a page is known."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Both Fourfold and the Python of PyTorch. A call of Fourfold's `train` takes the next of $TIMES, a round of PyTorch always 20 ms.
PROGRAM = """#!/usr/bin/env python3
import json, os, pathlib, sys
words = sys.argv[1:]
with open(os.environ["LOG"], "a") as log:
    log.write(json.dumps([words, {key: os.environ.get(key) for key in ("OMP_NUM_THREADS", "MALLOC_TOP_PAD_")}]) + "\\n")
if words[0] == "-c":
    sys.exit()
if words[0] == "bench":
    print("threads copy triad fp32 fp64 bf16\\n 2 9.0 10.0 100.0 50.0 200.0")
elif words[0] == "trace":
    print(" gemm 1.0 61.5 %\\n attention 1.0 8.5 %\\n elementwise 1.0 20.0 %\\n optimizer 1.0 10.0 %\\nadamw 1 2 7.5\\nlongest instructions")
elif words[0] == "train":
    sets = dict(word.split("=", 1) for before, word in zip(words, words[1:]) if before == "--set")
    run = pathlib.Path(sets["run.dir"])
    (run / "traces").mkdir(parents=True, exist_ok=True)
    (run / "kernels.yaml").write_text("a table")
    counter = pathlib.Path(os.environ["LOG"] + ".count")
    turn = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(turn + 1))
    times = os.environ["TIMES"].split(",")
    steps = int(words[words.index("--stop-at") + 1]) if "--stop-at" in words else int(sets["train.steps"])
    step_s = float(times[turn % len(times)]) / 1e3
    # The first step, which warms up, takes an hour.
    lines = [{"step_time_s": 3600 if step == 0 else step_s} for step in range(steps)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
else:  # PyTorch: a line of facts, then one for each round
    print(json.dumps({"ready": True, "torch": "2.made-up", "attention": "default", "parameters": 2500000}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"step_s": [0.02] * int(line), "peak_bytes": 300 << 20}), flush=True)
"""


class Recipes(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.program = self.folder / "program"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def run_recipe(self, name, *words, times="10", **variables):
        environment = {**os.environ, "LOG": str(self.folder / "log"), "TIMES": times, "TORCH_PYTHON": str(self.program), **variables}
        environment.pop("OMP_NUM_THREADS", None)
        return subprocess.run([sys.executable, str(ROOT / "scripts" / name), "--binary", str(self.program), "--output",
                               str(self.folder / "page.md"), *words], env=environment, capture_output=True, text=True)  # fmt: skip

    def page_of(self, *words, **more):
        done = self.run_recipe(*words, **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        page = (self.folder / "page.md").read_text()
        self.assertIn(page, done.stdout)
        self.assertIn(f"table: {self.folder}/page.md", done.stdout)
        self.assert_tables_are_whole(page)
        return page, done.stdout

    def assert_tables_are_whole(self, page):
        head = None
        for line in page.splitlines():
            if not line.startswith("|"):
                head = None
                continue
            head = head or line.count("|")
            self.assertEqual(line.count("|"), head, line)

    def calls(self):
        return [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]

    def test_training_on_a_cpu_stands_beside_each_setting_of_pytorch(self):
        # Warmed up for the table; then three rounds, and a step whose timeline is read.
        page, said = self.page_of("bench-cpu", "--rounds", "3", "--workloads", "l6h384", times="1,10,8,16,1")
        self.assertIn("l6h384: starting PyTorch, compiled, tuned\n", said)
        self.assertIn("l6h384: round 3 of 3, ms a step: ours 16, eager 20, eager, tuned 20, compiled, tuned 20", said)
        self.assertIn("| **Fourfold** | 10 (8-16) |", page)
        # 20/10, 20/8 and 20/16, round by round.
        self.assertEqual(page.count("| 20 (20-20) | 102400 | 2.00 (1.25-2.50) |"), 3, page)
        self.assertRegex(page, r"\| 70\.0 % \| 61\.5 % \| 8\.5 % \| 20\.0 % \| 10\.0 % \| 8 GB/s \| 75 % \|")
        self.assertIn("product 100 GFLOP/s, triad 10.0 GB/s", page)
        tuned = [words for words, variables in self.calls() if variables["MALLOC_TOP_PAD_"] and "torch_gpt.py" in words[0]]
        self.assertEqual(len(tuned), 2)

    def test_bf16_stands_beside_fp32(self):
        page, _ = self.page_of("bench-cpu", "--bf16", "--rounds", "1", "--workloads", "char", "--random", "1", times="1,1,10,15,1")
        self.assertIn("| Fourfold in fp32 | 15 (15-15) |", page)
        self.assertIn("`scripts/bench-cpu --bf16 --rounds 1`", page)
        self.assertIn("30 bytes a weight", page)
        self.assertIn("product 200 GFLOP/s", page)

    def test_two_ranks_stand_beside_one_and_beside_those_of_pytorch(self):
        # A run of each kind for its table, then two rounds.
        page, _ = self.page_of("bench-ranks", "--rounds", "2", "--workloads", "char", times="1,1,1,30,10,15,60,20,20")
        self.assertIn("| Fourfold, 1 rank x 2 threads | 45 (30-60) |  |  |", page)
        self.assertIn("| **Fourfold**, 2 ranks x 1 thread, data 2 | 15 (10-20) | 3.00 (3.00-3.00) |  |", page)
        self.assertIn("| **Fourfold**, 2 ranks x 1 thread, z 2 | 18 (15-20) | 2.50 (2.00-3.00) |  |", page)
        self.assertIn("DistributedDataParallel | 20 (20-20) |  | 1.50 (1.00-2.00) | 300 |", page)
        self.assertIn("fully_shard | 20 (20-20) |  | 1.17 (1.00-1.33) | 300 |", page)

    def test_a_unet_runs_twice_in_each_round(self):
        page, _ = self.page_of("bench-unet", "--rounds", "2", "--threads", "2", times="10,12,8,8,1")
        self.assertIn("| **Fourfold** | 9 (8-10) |  |", page)
        self.assertIn("| Fourfold, again in each round | 10 (8-12) | 1.10 (1.00-1.20) |", page)
        self.assertEqual(page.count("| 20 (20-20) | 2.25 (2.00-2.50) | 300 |"), 4, page)
        self.assertIn("2.5 million parameters", page)
        self.assertIn("gemm 1.0 61.5 %", page)

    def test_what_cannot_be_measured_is_one_line(self):
        for words, part in ((("bench-cpu", "--rounds", "0"), "--rounds starts at 1"), (("bench-unet", "--steps", "0"), "--steps starts at 1"),
                            (("bench-ranks", "--workloads", "char,x"), "unknown workload x"), (("bench-cpu", "--random", "-1"), "from 0 on"),
                            (("bench-unet", "--binary", "/nonexistent"), "is missing; run scripts/build")):  # fmt: skip
            done = self.run_recipe(*words)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertIn(part, done.stderr)
            self.assertTrue(done.stderr.startswith(words[0] + ": "), done.stderr)
        self.assertFalse((self.folder / "page.md").exists())

    def test_a_busy_machine_is_told_of(self):
        sys.path.insert(0, str(ROOT / "tests/bench"))
        import rounds

        options = rounds.parser("", "x.md").parse_args([])
        options.load = 0.6
        self.assertRegex(rounds.busy_text(options), re.escape("The machine was busy (load 0.6 before)"))
        options.load = 0.4
        self.assertEqual(rounds.busy_text(options), "")


if __name__ == "__main__":
    unittest.main()
