#!/usr/bin/env python3
"""Tests of scripts/bench-pipeline with a program that is made up: its rows, those of the papers, and that a wrong answer is told."""
import json
import unittest

from made_up import MadeUp

SECONDS = {  # by round; rounds begin with broadcast, overlap and again
    "broadcast": [1.3, 1.5, 1.2],
    "overlap": [1.0, 1.1, 1.0],
    "again": [1.0, 1.0, 1.0],
    "eager": [0.8, 1.0, 0.8],
    "delayed": [0.8, 1.0, 1.0],
    "both": [0.8, 0.9, 0.8],
}
NAMES = list(SECONDS)


class Pipeline(MadeUp):
    losses = {}

    def answer(self, call):
        runs = len(self.calls_of("train")) - 1
        turn, place = divmod(runs, len(NAMES))
        name = NAMES[(place + turn) % len(NAMES)]
        expected = {"broadcast": ("false", None, None), "eager": (None, "eager-1f1b", None), "delayed": (None, None, "1"),
                    "both": (None, "eager-1f1b", "1")}.get(name, (None, None, None))  # fmt: skip
        keys = ("parallel.overlap.send_recv", "parallel.pipeline.schedule", "parallel.pipeline.weight_delay")
        self.assertEqual(tuple(map(call.sets.get, keys)), expected)
        return self.train(call, self.losses.get(name, 0.5), 1e3 * SECONDS[name][turn % 3])

    def test_variants_are_compared_within_a_round_and_rows_of_the_papers_take_the_medians(self):
        papers = [{"command": "scripts/bench-pipeline", "reads": "2 micro-batches, eager by overlap", "measured": None},
                  {"command": "fourfold simulate x.yaml", "reads": "step_s", "measured": None}]  # fmt: skip
        path = self.folder / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in papers))
        done = self.rows_of("bench-pipeline", "--micros", "2", "--rate", "50mbit", "--rows", str(path))
        self.assertEqual(done.figures("Two stages", micro_batches="2"), {
            "broadcast_s": 1.3, "overlap_s": 1, "again_s": 1, "eager_s": 0.8, "delayed_s": 1, "both_s": 0.8,
            "overlap by broadcast": [1.3, 1.2, 1.364], "eager by overlap": [1.25, 1.1, 1.25], "delayed by overlap": [1.1, 1, 1.25],
            "both by eager": [1, 1, 1.111], "again by overlap": [1, 1, 1.1]})  # fmt: skip
        self.assertEqual([json.loads(line)["measured"] for line in path.read_text().splitlines()], [1.25, None])
        self.assertEqual(done.rows[0]["command"], "scripts/bench-pipeline --micros 2 --rate 50mbit")
        self.assertIn("2 virtual hosts x 1 rank, a link of 50mbit", done.rows[0]["machine"])
        train = self.calls_of("train")
        self.assertEqual((len(train), train[0].sets["train.global_batch_size"], train[0].option("--stop-at")), (18, "8", "3"))
        self.assertEqual(train[0].launcher[2:], ["--ranks", "1"])

    def test_a_wrong_answer_is_told(self):
        self.losses = {"eager": 0.50001}
        self.assert_refused("the losses of broadcast and eager differ: 0.5 and 0.50001 in step 1", "bench-pipeline", "--rounds", "1")

    def test_bad_input_is_one_line(self):
        for words, expected in [
            (["--rounds", "0"], "it starts at 1"),
            (["--steps", "0"], "it starts at 1"),
            (["--micros", "many"], "--micros: unknown workload many"),
        ]:
            self.assert_refused(expected, "bench-pipeline", *words)
        self.assert_refused("/nowhere is missing", "bench-pipeline", binary="/nowhere")


if __name__ == "__main__":
    unittest.main()
