#!/usr/bin/env python3
"""Tests of the tables of scripts/bench-overlap, from times that were made up."""
import argparse
import subprocess
import unittest

from load_script import ROOT, load_script

SCRIPT = ROOT / "scripts/bench-overlap"


bench = load_script("scripts/bench-overlap")


def run(step_ms, hidden_ms, exposed_ms):
    """Two classes of traffic, of which one is three times the other."""
    traffic = [
        {"traffic": name, "calls": 4.0, "bytes": 2.0**20, "seconds": 1.0,
         "hidden_s": share * hidden_ms / 1e3, "exposed_s": share * exposed_ms / 1e3}
        for name, share in (("z.weights", 0.75), ("z.gradients", 0.25))
    ]  # fmt: skip
    return bench.Run(step_ms / 1e3, [2.0], traffic)


RUNS = {
    "off": [run(120, 4, 40), run(132, 8, 44), run(110, 6, 42)],
    "on": [run(100, 30, 12), run(110, 32, 8), run(100, 34, 10)],
    "again": [run(101, 30, 12), run(110, 32, 8), run(99, 34, 10)],
}


class Tables(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        self.assertEqual(
            bench.row("all_gather", RUNS),
            "| all_gather | 120.0 | 100.0 | 1.200 (1.100-1.200) | 1.000 (0.990-1.010) | 6.0 → 32.0 | 42.0 → 10.0 |",
        )

    def test_each_class_of_traffic_has_a_line_with_the_switch_off_and_on(self):
        rows = bench.class_rows("all_gather", RUNS)
        self.assertEqual(len(rows), 4)
        self.assertEqual(rows[0], "| all_gather | off | z.weights | 4 | 1.00 | 4.5 | 31.5 |")
        self.assertEqual(rows[3], "| all_gather | on | z.gradients | 4 | 1.00 | 8.0 | 2.5 |")

    def test_the_text_has_both_tables_and_how_it_was_made(self):
        a = argparse.Namespace(hosts=2, ranks=2, rate="1gbit", latency="1ms", batch=16, pairs=1, steps=6,
                               binary="/somewhere/fourfold", write="/somewhere/else", set=["a.b={x: 1}"])  # fmt: skip
        text = bench.text_of({"all_gather": RUNS}, a)
        self.assertIn("2 virtual hosts with 2 ranks each", text)
        self.assertIn("`scripts/bench-overlap --latency 1ms --pairs 1 --set 'a.b={x: 1}'`:\n1 round with", text)
        self.assertNotIn("somewhere", text)
        self.assertIn(bench.row("all_gather", RUNS), text)
        self.assertIn(bench.class_rows("all_gather", RUNS)[1], text)

    def test_every_variant_has_a_switch_and_ranks_that_fit(self):
        for name, variant in bench.VARIANTS.items():
            self.assertNotEqual(variant.off, variant.on, name)
            self.assertFalse(set(variant.both) & (set(variant.off) | set(variant.on)), name)

    def test_bad_input_is_one_line(self):
        for words, expected in [
            (["--variants", "none"], "unknown workload none; choose of all_reduce"),
            (["--ranks", "3", "--hosts", "1"], "--hosts times --ranks is 3"),
            (["--pairs", "0"], "--pairs starts at 1"),
        ]:
            done = subprocess.run([str(SCRIPT), *words], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(expected, done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
