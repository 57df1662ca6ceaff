#!/usr/bin/env python3
"""Tests of scripts/bench-reshard with a program that is made up: its rows, those of the papers, and that wrong bytes are told."""
import json
import unittest

from made_up import MadeUp, say

import transfers

# Planned and measured time in units of t, by strategy: alpa is planned to be slower than three and faster than one, and is
# measured faster than one of the three.
TIMES = {"send_recv": (4, 4.2), "local_all_gather": (1, 1.3), "global_all_gather": (1, 1.25), "broadcast": (1, 1.1),
         "alpa": (1.5, 1.28)}  # fmt: skip
T_S = 4 * 65536 / (1e9 / 8)  # of 64 KiB elements at 1 Gbit/s


class Reshard(MadeUp):
    counted = 8

    def answer(self, call):
        self.assertEqual((call.words[:2], call.option("--rate")), (["bench", "reshard"], "1 Gbit/s"))
        is_ordered = call.option("--order") is not None
        results = [
            {"strategy": name, "shape": [64, 1024], "planned_s": TIMES[name][0] * T_S, "best_s": TIMES[name][1] * T_S,
             "bytes_planned": 8, "bytes_counted": 9 if is_ordered else self.counted}
            for name in call.option("--strategy").split(",")
        ]  # fmt: skip
        return say({"results": results})

    def test_planned_and_measured_times_of_all_figures(self):
        papers = [{"command": "scripts/bench-reshard", "reads": reads}
                  for reads in ("1x4 by alpa", "case 4 by send_recv", "case 9 ordered by best")]  # fmt: skip
        path = self.folder / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in papers))
        done = self.rows_of("bench-reshard", "--rate", "1gbit", "--bytes", "262144", "--rows", str(path))
        case = "The nine cases of Table 2 (Figure 6)"
        self.assertEqual(done.figures(case, transfer="case 3", by="send_recv"), {"planned_t": 4, "measured_t": 4.2})
        self.assertEqual(done.figures(case, transfer="case 9", by="alpa"), {"planned_t": 1.5, "measured_t": 1.28})
        self.assertEqual(done.figures(case, transfer="case 3", by="all"), {"pairs": 7, "ordered_as_planned": 6})
        receivers = "One sender, more and more receivers (Figure 5)"
        self.assertEqual(done.figures(receivers, transfer="4x2", by="broadcast")["measured_t"], 1.1)
        self.assertEqual(len([row for row in done.rows if "Figure 8" in row["table"]]), 9)
        self.assertEqual([(one["closed_form"], one["measured"]) for one in map(json.loads, path.read_text().splitlines())],
                         [(1.5, 1.28), (4, 4.2), (1, 1.1)])  # fmt: skip
        runs = self.calls_of("bench", "reshard")
        self.assertEqual(len(runs), 1 + 7 + 9 + 9)  # the first one is not counted
        self.assertEqual((runs[1].option("--shape"), runs[1].option("--to-mesh")), ("64,64,16", "1x1"))
        self.assertEqual((runs[-1].option("--order"), runs[-1].option("--bytes")), ("best", "262144"))
        self.assertEqual(self.calls[0].words[2:], ["--hosts", "5", "--rate", "1gbit", "--cores", "0"])
        self.assertEqual(runs[0].launcher[2:4], ["--ranks", "4"])

    def test_what_was_kept_is_not_measured_again(self):
        words = ("bench-reshard", "--rate", "1gbit", "--figures", "6", "--keep", str(self.folder / "kept.json"))
        first = self.rows_of(*words)
        calls = len(self.calls)
        self.assertEqual(self.rows_of(*words).rows, first.rows)
        self.assertEqual([call.words[0] for call in self.calls[calls:]], ["up", "bench", "down"])  # the run that is not counted

    def test_bytes_that_are_not_the_planned_ones_are_told(self):
        self.counted = 12
        self.assert_refused("by send_recv passed 12 bytes between hosts, and not the planned 8", "bench-reshard", "--rate", "1gbit")

    def test_as_near_as_planned_times_are_the_same_no_order_is_expected(self):
        near = [transfers.Transfer("a", 1, 2), transfers.Transfer("b", 1.25, 1), transfers.Transfer("c", 1.3, 3)]
        self.assertEqual(transfers.as_planned(near), (1, 1))

    def test_bad_input_is_one_line(self):
        for words, expected in [
            (["--rate", "fast"], "--rate fast: expected a rate such as 200mbit"),
            (["--bytes", "100000"], "--bytes is a power of two from 65536"),
        ]:
            self.assert_refused(expected, "bench-reshard", *words)
        self.assert_refused("/nowhere/fourfold is missing", "bench-reshard", binary="/nowhere/fourfold")


if __name__ == "__main__":
    unittest.main()
