#!/usr/bin/env python3
"""Tests of the tables of scripts/bench-reshard, from times that were made up."""
import argparse
import subprocess
import unittest

from load_script import ROOT, load_script

SCRIPT = ROOT / "scripts/bench-reshard"


bench = load_script("scripts/bench-reshard")


def result(strategy, planned, best, planned_bytes=8, counted_bytes=8):
    """Times in units of t, which is half a second."""
    return {"strategy": strategy, "planned_s": planned / 2, "best_s": best / 2, "t_s": 0.5,
            "bytes_planned": planned_bytes, "bytes_counted": counted_bytes}  # fmt: skip


CASE = [result("send_recv", 4, 4.2), result("local_all_gather", 1, 1.3), result("global_all_gather", 1, 1.25),
        result("broadcast", 1, 1.1), result("alpa", 1.5, 1.28)]  # fmt: skip


class Tables(unittest.TestCase):
    def test_strategies_are_compared_where_their_plans_differ(self):
        # alpa is planned to be slower than three and faster than one; it is measured faster than one of the three.
        self.assertEqual(bench.order_of(CASE), (6, 7))
        self.assertEqual(bench.case_table({3: CASE}).splitlines()[2],
                         "| 3 | 4.00 / 4.20 | 1.00 / 1.30 | 1.00 / 1.25 | 1.00 / 1.10 | 1.50 / 1.28 | 6 of 7 |")  # fmt: skip

    def test_flat_is_the_longest_broadcast_by_the_shortest(self):
        rows = {"1x1": [result("broadcast", 1, 1.0)], "1x2": [result("broadcast", 1, 1.2), result("alpa", 1, 9)]}
        self.assertAlmostEqual(bench.flatness(rows), 1.2)

    def test_the_text_has_all_tables_and_how_it_was_made(self):
        a = argparse.Namespace(**{**bench.DEFAULTS, "rate": "1gbit"}, bits_per_s=1e9, binary="/somewhere/fourfold",
                               write="/somewhere/else")  # fmt: skip
        rows = {"1x1": [result("send_recv", 1, 1), result("alpa", 1, 1), result("broadcast", 1, 1)]}
        orders = {4: {"naive": result("broadcast", 0.94, 1), "balance_only": result("broadcast", 0.94, 1),
                      "best": result("broadcast", 0.5, 0.6)}}  # fmt: skip
        everything = [*CASE, result("broadcast", 1, 1, counted_bytes=9)]
        text = bench.text_of(a, 7.5, rows, rows, {3: CASE}, orders, everything)
        self.assertIn("`scripts/bench-reshard --rate 1gbit`. The machine was busy (load 7.5 before)", text)
        self.assertIn("in all 6 runs; counted bytes between hosts were the planned ones in 5.", text)
        self.assertIn("| 4 | 0.94 / 1.00 | 0.94 / 1.00 | 0.50 / 0.60 |", text)
        self.assertIn(bench.case_table({3: CASE}), text)
        self.assertNotIn("somewhere", text)

    def test_bad_input_is_one_line(self):
        for words, expected in [
            (["--rate", "fast"], "--rate fast: expected a rate such as 200mbit"),
            (["--bytes", "100000"], "--bytes is a power of two from 65536"),
            (["--binary", "/nowhere/fourfold"], "/nowhere/fourfold is missing"),
        ]:
            done = subprocess.run([str(SCRIPT), *words], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(expected, done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
