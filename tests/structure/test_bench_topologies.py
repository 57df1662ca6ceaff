#!/usr/bin/env python3
"""Tests of the figures of scripts/bench-topologies, from plans and times that were made up."""
import unittest

from load_script import load_script

bench = load_script("scripts/bench-topologies")


def plan(simulated, formula, data=1, **axes):
    """A plan as `fourfold plan --format json` prints it, as far as it is read."""
    return {
        **{axis: 1 for axis in bench.AXES}, **axes, "data": data, "order": ["x", "y", "z", "data"], "micro_batch_size": 2,
        "seconds": {"step": formula}, "simulated": {"step_s": simulated},
    }  # fmt: skip


SLOW, FAST, OTHER = plan(3.0, 1.0, x=8), plan(1.0, 3.0, z=8), plan(2.0, 2.0, data=8)


def measured_topology():
    told = bench.Topology((4, 2, "50mbit", None), {"axonn": [FAST, OTHER, SLOW]}, 0.5)
    told.one_rank = [1.0, 1.1]
    told.measured["axonn"] = [[2.2, 2.2], [2.0, 2.0], [6.0, 6.2]]
    return told


class Plans(unittest.TestCase):
    def test_each_grid_is_measured_once_as_the_planner_likes_it_best(self):
        again = plan(1.5, 0.5, z=8)
        self.assertEqual(bench.first_of_each_grid([FAST, again, SLOW, OTHER], "axonn"), [FAST, OTHER, SLOW])

    def test_meshes_of_atp_have_no_replicas(self):
        self.assertEqual(bench.first_of_each_grid([OTHER, SLOW], "atp"), [SLOW])

    def test_a_plan_becomes_keys(self):
        settings = bench.settings_of(SLOW, "atp")
        self.assertEqual(settings["parallel.tensor"], "{x: 8, y: 1, z: 1}")
        self.assertEqual(settings["parallel.order"], "[x, y, z, data]")
        self.assertEqual((settings["parallel.strategy"], settings["train.micro_batch_size"]), ("atp", 2))


class Figures(unittest.TestCase):
    def test_the_choice_is_compared_with_the_fastest_that_was_measured(self):
        figures = measured_topology().choice("axonn")
        self.assertAlmostEqual(figures["slower"], 0.1)
        self.assertEqual((figures["best"], figures["grids"]), (1, 3))
        self.assertEqual(figures["simulator"], (3, 2))  # the fastest is the second of the simulator
        self.assertEqual(figures["formula"], (3, 2))

    def test_errors_are_those_of_medians(self):
        row = list(measured_topology().rows("axonn"))[2]
        self.assertAlmostEqual(row["measured_s"], 6.1)
        self.assertAlmostEqual(row["error"], 3 / 6.1 - 1)
        self.assertAlmostEqual(row["beside_one_rank"], (6.0 / 1.0 + 6.2 / 1.1) / 2)
        self.assertAlmostEqual(row["beside_one_rank_simulated"], 3.0 / 0.5)

    def test_the_page_counts_choices_within_five_percent(self):
        text, rows = bench.page([measured_topology()], ["axonn"])
        self.assertIn("| 4 x 2 ranks, 50mbit between hosts, memory within | 3 | z8 | data8 | 10.0 % | 3, 2 | 3, 2 | 0.50 |", text)
        self.assertIn("The planner's first is the fastest or within 5 % of it in 0 of 1.", text)
        self.assertEqual(len(rows), 3)


if __name__ == "__main__":
    unittest.main()
