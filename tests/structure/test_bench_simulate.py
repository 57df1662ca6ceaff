#!/usr/bin/env python3
"""Tests of scripts/bench-simulate with a program that is made up: layouts, rows, and that a wrong answer is told."""
import unittest

from made_up import MadeUp, say

import grids
import layouts


class Layouts(unittest.TestCase):
    def test_all_grids_of_a_number_of_ranks_are_there_once(self):
        self.assertEqual(len(grids.grids_of(2)), 4)
        self.assertEqual(len(set(grids.grids_of(4))), 10)
        self.assertTrue(all(x * y * z * data == 4 for x, y, z, data in grids.grids_of(4)))

    def test_a_seed_draws_the_same_layouts_and_none_twice(self):
        names = [layout.name for layout in layouts.drawn(layouts.MOST, 3)]
        self.assertEqual(names, [layout.name for layout in layouts.drawn(layouts.MOST, 3)])
        self.assertNotEqual(names, [layout.name for layout in layouts.drawn(layouts.MOST, 4)])
        self.assertEqual(len(set(names)), layouts.MOST)

    def test_a_layout_becomes_keys(self):
        layout = layouts.Layout((1, 2, 1, 2), 128, False)
        self.assertEqual([layout.settings[f"parallel.{key}"] for key in ("tensor.x", "tensor.y", "data", "overlap.all_gather")],
                         [1, 2, 2, "false"])  # fmt: skip
        self.assertEqual((layout.name, layout.ranks), ("y2 data2, width 128, nothing overlaps", 4))


class Figures(unittest.TestCase):
    def test_spearman_sees_order_alone(self):
        self.assertAlmostEqual(grids.spearman([1, 2, 3], [10, 200, 201]), 1)
        self.assertAlmostEqual(grids.spearman([1, 2, 3], [3, 2, 1]), -1)
        self.assertAlmostEqual(grids.spearman([1, 1, 2, 3], [1, 2, 3, 4]), 0.9486832980505138)
        self.assertEqual(grids.spearman([1, 1], [1, 2]), 0)

    def test_layouts_are_told_apart_by_more_than_their_spread(self):
        self.assertEqual(grids.order_of_pairs([0.6, 0.3, 0.5], [[0.5, 0.5], [0.4, 0.5], [0.9, 0.9]]),
                         {"pairs_apart": 2, "predicted_in_order": 1})  # fmt: skip


class Simulate(MadeUp):
    """One rank takes 200 ms, then 400, and is told to take 100; all other layouts take half of that, and are told to take 60."""

    loss = 6.0

    def answer(self, call):
        is_one = all(call.sets.get(f"parallel.{key}") in (None, "1") for key in ("tensor.x", "tensor.y", "tensor.z", "data"))
        if call.words[0] == "train":
            return self.train(call, 6.0 if is_one else self.loss, 1)
        self.assertEqual(call.variables["XDG_CACHE_HOME"], "/dev/null")
        if call.words[0] == "simulate":
            return say({"step_s": 0.1 if is_one else 0.06})
        if call.words[:2] == ["bench", "machine"]:
            self.assertTrue(is_one)
            return "exit 0"
        self.assertEqual((call.words[:2], call.sets["a.b"]), (["bench", "step"], "c"))
        turn = (len(self.calls_of("bench", "step")) - 1) // 5  # two layouts, and one rank of each of three widths
        return say({"median_s": (0.2, 0.4)[turn] / (1 if is_one else 2)})

    def test_errors_are_those_of_ratios_to_one_rank_within_a_round(self):
        done = self.rows_of("bench-simulate", "--layouts", "2", "--rounds", "2", "--set", "a.b=c")
        name = layouts.drawn(2, 1)[0].name
        self.assertEqual(done.figures("Layouts beside one rank", layout=name), {
            "step_ms": 150, "simulated_ms": 60, "by_one_rank": [0.5, 0.5, 0.5], "simulated_by_one_rank": 0.6, "error_%": 20})  # fmt: skip
        self.assertEqual(done.figures("All layouts", layouts="2 drawn from seed 1"), {
            "spearman": 0, "median_error_%": 20, "within_15_%": 0, "of": 2, "pairs_apart": 0, "predicted_in_order": 0})  # fmt: skip
        self.assertEqual(done.rows[0]["command"], "scripts/bench-simulate --layouts 2 --rounds 2 --set a.b=c")

    def test_a_wrong_answer_is_told(self):
        self.loss = 6.0001
        self.assert_refused("the loss of the first step is 6.0001, and 6.0 on one rank", "bench-simulate", "--layouts", "1")

    def test_bad_input_is_one_line(self):
        self.assert_refused("--layouts is from 1 to 84", "bench-simulate", "--layouts", "85")


if __name__ == "__main__":
    unittest.main()
