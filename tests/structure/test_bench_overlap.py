#!/usr/bin/env python3
"""Tests of scripts/bench-overlap with a program that is made up: its rows, and that a wrong answer is told."""
import unittest

from made_up import MadeUp, say

import switches

# Milliseconds a step of three rounds, by how often a switch has run before: off, on, again; then each round begins with another.
STEPS = {"off": [120, 132, 110], "on": [100, 110, 100, 99, 110, 100]}
HIDDEN = {"off": [4, 8, 6], "on": [30, 32, 34]}
EXPOSED = {"off": [40, 44, 42], "on": [12, 8, 10]}


class Overlap(MadeUp):
    loss = {"off": 2.0, "on": 2.0}
    payload = {"off": 2.0**20, "on": 2.0**20}

    def setUp(self):
        super().setUp()
        self.turns = {"off": 0, "on": 0}

    def answer(self, call):
        if call.words[0] == "trace":
            return say({"step_s": 0.1, "traffic": self.traffic})
        self.assertEqual(call.launcher[2:4], ["--ranks", call.sets.get("ranks", "2")])
        state = "off" if call.sets["parallel.overlap.all_gather"] == "false" else "on"
        turn = self.turns[state]
        self.turns[state] += 1
        # Two classes of traffic, of which one is three times the other.
        self.traffic = [
            {"traffic": name, "calls": 4.0, "bytes": self.payload[state],
             "hidden_s": share * HIDDEN[state][turn % 3] / 1e3, "exposed_s": share * EXPOSED[state][turn % 3] / 1e3}
            for name, share in (("z.weights", 0.75), ("z.gradients", 0.25))
        ]  # fmt: skip
        return self.train(call, self.loss[state] if turn == 0 else self.loss.get("later", self.loss[state]), STEPS[state][turn], 2)

    def test_a_switch_off_and_on_and_each_class_of_traffic(self):
        done = self.rows_of("bench-overlap", "--variants", "all_gather", "--pairs", "3", "--latency", "1ms", "--set", "a.b={x: 1}")
        # The order is off on again, on again off, again off on: what is on runs as 100 110, 100 99, 110 100 in the rounds.
        figures = done.figures("A switch off and on", switch="all_gather")
        self.assertEqual((figures["off_ms"], figures["on_ms"]), (120, 100))
        self.assertEqual(figures["off_by_on"], [1.2, 1.1, 1.32])
        self.assertEqual(figures["again_by_on"], [1.1, 0.99, 1.1])
        self.assertEqual((figures["hidden_off_ms"], figures["exposed_off_ms"]), (6, 42))
        weights = done.figures("By class of traffic", state="off", traffic="z.weights")
        self.assertEqual(weights, {"calls": 4, "payload_MiB": 1, "hidden_ms": 4.5, "exposed_ms": 31.5})
        self.assertEqual(len(done.rows), 5)
        self.assertIn("2 virtual hosts x 2 ranks, links of 1gbit and a latency of 1ms", done.rows[0]["machine"])
        self.assertEqual(done.rows[0]["command"],
                         "scripts/bench-overlap --latency 1ms --rounds 3 --variants all_gather --set 'a.b={x: 1}'")  # fmt: skip
        self.assertEqual(self.calls[0].words[2:], ["--hosts", "2", "--rate", "1gbit", "--latency", "1ms"])
        self.assertEqual((self.calls[-1].words[0], {call.option("--trace") for call in self.calls_of("train")}), ("down", {"6"}))
        self.assertTrue(all(call.sets["a.b"] == "{x: 1}" and call.sets["parallel.order"] == "[x, z, y, data]"
                            for call in self.calls_of("train")))  # fmt: skip

    def test_a_wrong_answer_is_told(self):
        words = ("bench-overlap", "--variants", "all_gather", "--rounds", "1")
        self.loss = {"off": 2.0, "on": 2.0001}
        self.assert_refused("all_gather: the losses of off and on differ: 2.0 and 2.0001 in step 1", *words)
        self.loss, self.turns = {"off": 2.0, "on": 2.0, "later": 2.0001}, {"off": 0, "on": 0}
        self.assert_refused("all_gather: the losses of off and again differ: 2.0 and 2.0001 in step 1", *words)
        self.loss, self.payload, self.turns = {"off": 2.0, "on": 2.0}, {"off": 100, "on": 104}, {"off": 0, "on": 0}
        self.assert_refused("a rank exchanges 208 bytes with the switch on, and 200 with it off", *words)

    def test_every_switch_does_something_and_only_what_rounds_otherwise_may_differ(self):
        for name, switch in switches.SWITCHES.items():
            self.assertNotEqual(switch.off, switch.on, name)
            self.assertFalse(set(switch.both) & (set(switch.off) | set(switch.on)), name)
        other = {name for name, switch in switches.SWITCHES.items() if not switch.same_bits}
        self.assertEqual(other, {"buckets", "chunks_2", "chunks_4"})

    def test_bad_input_is_one_line(self):
        for words, expected in [
            (["--variants", "none"], "--variants: unknown workload none; choose of all_reduce"),
            (["--ranks", "3", "--hosts", "1"], "--hosts times --ranks is 3"),
            (["--pairs", "0"], "it starts at 1, not at '0'"),
        ]:
            self.assert_refused(expected, "bench-overlap", *words)


if __name__ == "__main__":
    unittest.main()
