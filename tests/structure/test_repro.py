#!/usr/bin/env python3
"""Tests of scripts/repro/table, and of the rows and the table that are kept."""
import contextlib
import io
import json
import unittest

from load_script import ROOT, load_script

FOLDER = ROOT / "scripts/repro"


repro = load_script("scripts/repro/table")


def row(**changes):
    made = dict(id="a", paper="axonn", item="Fig 3", command="fourfold simulate x.yaml", reads="step_s", published=None,
                closed_form=None, simulated=None, measured=None, unit="s", note="")  # fmt: skip
    return {**made, **changes}


def text_of(*rows):
    return "".join(json.dumps(one) + "\n" for one in rows)


class Rows(unittest.TestCase):
    def test_the_kept_rows_are_well_formed_and_make_the_kept_table(self):
        rows = repro.read_rows((FOLDER / "rows.jsonl").read_text())
        page = (FOLDER / "README.md").read_text()
        self.assertEqual(repro.with_table(page, repro.table(rows)), page)
        self.assertGreaterEqual(len(rows), 11)
        for one in rows:
            for word in one["command"].split():
                if word.endswith(".yaml"):
                    self.assertTrue((FOLDER.parents[1] / word).exists(), word)

    def test_a_wrong_row_is_told_with_its_line(self):
        for wrong, part in (
            ("{", "rows.jsonl:1: "),
            (text_of({"id": "a"}), "expected the fields id, paper"),
            (text_of(row(published="5 %")), "published is '5 %'; expected a number or null"),
            (text_of(row(item=3)), "item is 3; expected a text"),
            (text_of(row(unit="ms")), "unit is 'ms'; expected share or s or count or times"),
            (text_of(row(), row()), "rows.jsonl:2: there is another row a"),
            (text_of(row(reads="saves on b")), "no row before it is b"),
            (text_of(row(command="rm -r /")), "expected fourfold simulate"),
        ):
            with self.assertRaises(SystemExit) as end:
                repro.read_rows(wrong)
            self.assertIn(part, str(end.exception))

    def test_commands_give_what_a_row_reads_or_saves(self):
        rows = repro.read_rows(
            text_of(row(), row(id="b", reads="saves on a", unit="share", command="fourfold simulate y.yaml"),
                    row(id="c", command="", reads="", simulated=7), row(id="d", reads="hfu", unit="share"),
                    row(id="e", reads="times as fast as a", unit="times", command="fourfold simulate y.yaml"),
                    row(id="f", command="scripts/bench-reshard", reads="case 4 by alpa", measured=0.9)))  # fmt: skip
        said = {"fourfold simulate x.yaml": {"step_s": 4.0, "hfu": 0.51239}, "fourfold simulate y.yaml": {"step_s": 3.0}}
        repro.simulate(rows, said.__getitem__)
        self.assertEqual([one["simulated"] for one in rows], [4, 0.25, 7, 0.512, 1.33, None])
        lines = repro.table(rows).splitlines()
        self.assertEqual(lines[3], "| axonn | Fig 3 |  |  | 25 % |  |  |")
        self.assertEqual(lines[4], "| axonn | Fig 3 |  |  | 7 s |  |  |")

    def test_a_list_of_plans_gives_its_first_one_and_how_well_a_formula_sorts_it(self):
        plans = [{"seconds": {"step": formula}, "simulated": {"step_s": 1.0 + i}}
                 for i, formula in enumerate([3.0, 1.0, 7.0, 6.0, 5.0, 2.0, 4.0])]  # fmt: skip
        plans.append({"seconds": {"step": 0.1}, "simulated": None})
        command = "fourfold plan x.yaml --machine m"
        rows = repro.read_rows(text_of(row(command=command, reads="first plan"),
                                       row(id="b", command=command, unit="count", reads="best five by step"),
                                       row(id="c", command=command, unit="count", reads="place of the best by step")))  # fmt: skip
        repro.simulate(rows, {command: {"plans": plans}}.__getitem__)
        self.assertEqual([(one["closed_form"], one["simulated"]) for one in rows], [(3, 1), (3, None), (3, None)])
        with self.assertRaises(SystemExit):
            repro.read_plans(row(reads="hfu"), {"plans": plans})

    def test_a_command_that_fails_ends_it_with_its_message(self):
        with self.assertRaises(SystemExit) as end, contextlib.redirect_stdout(io.StringIO()):
            repro.answer_of("fourfold simulate x.yaml", "false")
        self.assertIn("`fourfold simulate x.yaml` ended with code 1", str(end.exception))


if __name__ == "__main__":
    unittest.main()
