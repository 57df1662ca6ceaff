#!/usr/bin/env python3
"""Tests of scripts/bench-layouts with a program that is made up: which plans are compared, and that a wrong answer is told."""
import unittest

from made_up import MadeUp, say

import searched


def plan(layout, simulated, fits=True, data=1, sent=0, found=False, **axes):
    """A plan as `fourfold plan --format json` prints it, as far as it is read."""
    return {
        **{axis: 1 for axis in searched.AXES}, **axes, "data": data, "layout": layout, "order": ["x", "y", "z", "data"],
        "micro_batch_size": 2, "is_searched_too": found, "traffic": [{"sent_bytes": sent}, {"sent_bytes": sent}],
        "simulated": None if simulated is None else {"step_s": simulated, "fits": fits},
    }  # fmt: skip


PLANS = [
    plan("searched", 0.9, fits=False, x=4), plan("axonn", 1.0, data=4, sent=2**20), plan("searched", 1.02, x=2, data=2, sent=2**19),
    plan("axonn", 2.0, x=4), plan("axonn", None, y=4), plan("searched", 3.0, y=4),
]  # fmt: skip


class Layouts(MadeUp):
    loss = 6.2
    plans = PLANS
    # By plan, its rounds: the second one of the search is it again.
    SECONDS = {"searched": [1.0, 1.01, 1.0, 1.03], "{x: 1, y: 1, z: 1}": [1.1, 1.1], "{x: 4, y: 1, z: 1}": [3.0, 3.0]}

    def setUp(self):
        super().setUp()
        self.runs = dict.fromkeys(self.SECONDS, 0)

    def answer(self, call):
        key = "searched" if "parallel.layout" in call.sets else call.sets.get("parallel.tensor", "one")
        if call.words[0] == "plan":
            layout = {"auto": "searched", "axonn": "axonn"}[call.sets["parallel.strategy"]]
            return say({"plans": [one for one in self.plans if layout == "searched" or one["layout"] == layout]})
        if call.words[0] == "train":
            return self.train(call, self.loss if key == "searched" else 6.2, 1)
        if call.words[:2] == ["bench", "machine"]:
            return "exit 0"
        self.assertEqual((call.words[:2], bool(call.launcher)), (["bench", "step"], True))
        self.runs[key] += 1
        return say({"median_s": self.SECONDS[key][self.runs[key] - 1]})

    def test_the_fastest_of_both_that_fit_are_compared_as_they_are_simulated(self):
        done = self.rows_of("bench-layouts", "--workloads", "simulated", "--simulated", "3")
        of = {"job": "gpt2-124m on 8 of rhino-s1"}
        self.assertEqual(done.figures("Searched and strategies, simulated", **of),
                         {"searched_ms": 1020, "on": "x2 data2", "strategy_ms": 1000, "of": "data4", "ratio": 1.02})  # fmt: skip
        self.assertEqual(len(done.rows), len(searched.MACHINES))
        self.assertEqual({call.option("--simulate") for call in self.calls}, {"3"})
        before = len(self.calls)
        self.rows_of("bench-layouts", "--workloads", "simulated", "--on", "of rhino-s1")
        asked = sum(machine == "rhino-s1" for _, machine, _, _ in searched.MACHINES)
        self.assertEqual(len(self.calls) - before, len(searched.STRATEGIES) * asked)

    def test_a_strategys_plan_at_which_a_search_ends_is_of_both(self):
        self.plans = [plan("axonn", 0.5, data=4), plan("axonn", 1.0, x=4, found=True), plan("searched", 2.0, x=2, data=2)]
        done = self.rows_of("bench-layouts", "--workloads", "simulated")
        of = {"job": "gpt2-124m on 8 of rhino-s1"}
        figures = done.figures("Searched and strategies, simulated", **of)
        self.assertEqual((figures["on"], figures["of"], figures["ratio"]), ("x4", "data4", 2))

    def test_the_layout_that_was_searched_for_is_timed_twice_beside_every_grid(self):
        done = self.rows_of("bench-layouts", "--workloads", "gpt", "--rounds", "2")
        figures = done.figures("Searched and strategies, measured", model="gpt", hosts="2 x 2 ranks, 200mbit between hosts")
        self.assertEqual({name: figures[name] for name in ("on", "best", "is_close", "sent_mib", "best_sent_mib")},
                         {"on": "x2 data2", "best": "data4", "is_close": "yes", "sent_mib": 1, "best_sent_mib": 2})  # fmt: skip
        written = [call for call in self.calls_of("plan") if call.option("-o")]
        self.assertEqual([call.option("--choose") for call in written], ["3"])
        timed = [call.sets for call in self.calls_of("bench", "step")]
        self.assertEqual({sets.get("parallel.layout", "") for sets in timed}, {written[0].option("-o"), ""})

    def test_a_wrong_answer_is_told(self):
        self.loss = 6.2001
        self.assert_refused("gpt, searched: the loss of the first step is 6.2001, and 6.2 on one rank", "bench-layouts",
                            "--workloads", "gpt")  # fmt: skip

    def test_bad_input_is_one_line(self):
        self.assert_refused("--workloads: unknown workload vgg", "bench-layouts", "--workloads", "vgg")
        self.assert_refused("--simulated: it starts at 1, not at '0'", "bench-layouts", "--simulated", "0")


if __name__ == "__main__":
    unittest.main()
