#!/usr/bin/env python3
"""Tests of the layouts and the table of scripts/bench-simulate, from times that were made up."""
import unittest

from load_script import load_script

bench = load_script("scripts/bench-simulate")
ONE = {"grid": (1, 1, 1, 1), "width": 128, "overlap": True}
TWO = {"grid": (2, 1, 1, 1), "width": 128, "overlap": False}
FOUR = {"grid": (1, 2, 1, 2), "width": 128, "overlap": True}


class Layouts(unittest.TestCase):
    def test_all_grids_of_a_number_of_ranks_are_there_once(self):
        self.assertEqual(len(bench.grids_of(2)), 4)
        self.assertEqual(len(set(bench.grids_of(4))), 10)
        self.assertTrue(all(x * y * z * data == 4 for x, y, z, data in bench.grids_of(4)))

    def test_a_seed_draws_the_same_layouts_and_none_twice(self):
        drawn = bench.draw_layouts(84, 3)
        self.assertEqual(drawn, bench.draw_layouts(84, 3))
        self.assertNotEqual(drawn, bench.draw_layouts(84, 4))
        self.assertEqual(len({bench.name_of(layout) for layout in drawn}), 84)

    def test_a_layout_becomes_keys(self):
        settings = bench.settings_of(TWO)
        self.assertEqual((settings["parallel.tensor.x"], settings["parallel.data"]), (2, 1))
        self.assertEqual(settings["parallel.overlap.all_gather"], "false")
        self.assertEqual(bench.name_of(FOUR), "y2 data2, width 128")


class Figures(unittest.TestCase):
    def test_spearman_sees_order_alone(self):
        self.assertAlmostEqual(bench.spearman([1, 2, 3], [10, 200, 201]), 1)
        self.assertAlmostEqual(bench.spearman([1, 2, 3], [3, 2, 1]), -1)
        self.assertAlmostEqual(bench.spearman([1, 1, 2, 3], [1, 2, 3, 4]), 0.9486832980505138)

    def test_errors_are_those_of_ratios_to_one_rank_within_a_round(self):
        rows, summary = bench.table([ONE, TWO, FOUR], {128: 0}, [0.1, 0.06, 0.03], [[0.2, 0.4], [0.1, 0.2], [0.08, 0.2]])
        self.assertEqual(len(rows), 2)
        self.assertIn("| x2, width 128, nothing overlaps | 150.0 | 60.0 | 0.50 (0.50-0.50) | 0.60 | +20 % |", rows)
        self.assertIn("| y2 data2, width 128 | 140.0 | 30.0 | 0.45 (0.40-0.50) | 0.30 | -33 % |", rows)
        self.assertEqual(summary, "0 of 2 ratios are within 15 %; the median error is 27 %, Spearman's coefficient 1.00. "
                                  "Rounds tell 1 pairs of layouts apart; 1 of them are predicted in their order.")


if __name__ == "__main__":
    unittest.main()
