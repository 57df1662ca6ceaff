#!/usr/bin/env python3
"""Tests of the table of scripts/bench-pipeline, from times that were made up."""
import argparse
import json
import os
import subprocess
import tempfile
import unittest

from load_script import ROOT, load_script

SCRIPT = ROOT / "scripts/bench-pipeline"


bench = load_script("scripts/bench-pipeline")

SECONDS = {
    "broadcast": [1.3, 1.5, 1.2],
    "overlap": [1.0, 1.1, 1.0],
    "again": [1.0, 1.0, 1.0],
    "eager": [0.8, 1.0, 0.8],
    "delayed": [0.8, 1.0, 1.0],
    "both": [0.8, 0.9, 0.8],
}


class Tables(unittest.TestCase):
    def test_a_line_has_times_and_ratios_of_the_same_round(self):
        self.assertEqual(
            bench.table({16: SECONDS}).splitlines()[2],
            "| 16 | 1.30 s | 1.00 s | 1.00 s | 0.80 s | 1.00 s | 0.80 s | 1.300 (1.200-1.364) | 1.250 (1.100-1.250) | "
            "1.100 (1.000-1.250) | 1.000 (1.000-1.111) | 1.000 (1.000-1.100) |",
        )

    def test_rows_of_results_take_the_medians(self):
        rows = [{"command": "scripts/bench-pipeline", "reads": "2 micro-batches, eager by overlap", "measured": None},
                {"command": "fourfold simulate x.yaml", "reads": "step_s", "measured": None}]  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                file.write("".join(json.dumps(row) + "\n" for row in rows))
            bench.rounds.update_rows("bench-pipeline", path, bench.figures_of({2: SECONDS}))
            with open(path, encoding="utf-8") as file:
                self.assertEqual([json.loads(line)["measured"] for line in file], [1.25, None])

    def test_the_text_says_how_it_was_made(self):
        a = argparse.Namespace(rounds=4, steps=2, rate="50mbit", micros="16,2", binary="/somewhere/fourfold",
                               write="/somewhere/else", rows=None, set=["a.b={x: 1}"])  # fmt: skip
        text = bench.text_of({16: SECONDS}, a, 3.25)
        self.assertIn("`scripts/bench-pipeline --rate 50mbit --rounds 4 --set 'a.b={x: 1}'`", text)
        self.assertIn("The machine was busy (load 3.2 before)", text)
        self.assertNotIn("somewhere", text)

    def test_bad_input_is_one_line(self):
        for words, expected in [
            (["--rounds", "0"], "--rounds and --steps start at 1"),
            (["--micros", "many"], "--micros many: expected numbers from 1"),
            (["--binary", "/nowhere"], "/nowhere is missing"),
        ]:
            done = subprocess.run([str(SCRIPT), *words], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(expected, done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
