#!/usr/bin/env python3
"""Tests that each page of tests/bench/results is as its data say, and of how rows are kept and drawn."""
import contextlib
import io
import json
import re
import sys
import tempfile
import unittest
from unittest import mock

from load_script import ROOT, load_script

sys.path.insert(0, str(ROOT / "tests/bench"))
import results  # noqa: E402

FOLDER = ROOT / "tests/bench/results"
pages = load_script("scripts/repro/pages")


def row(workload="w", machine="m", table="Steps", program="p", command="scripts/bench-x", note="", **figures):
    return {"table": table, "machine": machine, "date": "2026-11-30", "commit": None, "command": command, "note": note,
            "of": {"workload": workload, "program": program}, "figures": figures or {"step_ms": 1.0}}  # fmt: skip


class Kept(unittest.TestCase):
    def test_each_page_is_drawn_from_its_data(self):
        self.assertEqual(pages.names(), sorted(path.stem for path in FOLDER.glob("*.md")))
        for name in pages.names():
            page, drawn = pages.drawn_anew(name)
            self.assertEqual(page, drawn, f"{name}.md is not as {name}.jsonl says; run scripts/repro/pages")

    def test_each_page_says_in_a_few_sentences_what_was_measured(self):
        for name in pages.names():
            about = (FOLDER / f"{name}.md").read_text().split(results.BEGIN)[0].split("\n", 1)[1]
            self.assertLessEqual(len(re.findall(r"(?<!\bal)\.\s", about)), 3, name)

    def test_figures_are_numbers_or_texts(self):
        for name in pages.names():
            for one in results.read(str(FOLDER / f"{name}.jsonl")):
                for key, value in one["figures"].items():
                    values = value if isinstance(value, list) else [value]
                    self.assertTrue(all(part is None or isinstance(part, (int, float, str)) for part in values), (name, key))
                    self.assertFalse(isinstance(value, list) and len(value) not in (2, 3), (name, key))


class Drawing(unittest.TestCase):
    def test_figures_are_drawn_with_four_digits_and_their_range(self):
        texts = [results.value_text(value) for value in (12345.6, 0.12345, [28, 24, 34], [0.5, 1.25], None, "yes", 7)]
        self.assertEqual(texts, ["12346", "0.1235", "28 (24-34)", "0.5-1.25", "", "yes", "7"])

    def test_rows_of_one_measurement_are_a_table_with_all_their_columns(self):
        drawn = results.drawn([row(step_ms=[28, 24, 34]), row(program="q", times_as_fast=1.5), row(machine="n", note="Busy.")], "x")
        self.assertEqual(drawn, """## Steps

m, 2026-11-30: `scripts/bench-x`.

| workload | program | step ms | times as fast |
|---|---|---|---|
| w | p | 28 (24-34) |  |
| w | q |  | 1.5 |

n, 2026-11-30: `scripts/bench-x`. Busy.

| workload | program | step ms |
|---|---|---|
| w | p | 1 |
""")  # fmt: skip

    def test_a_long_table_is_named(self):
        self.assertIn("101 rows of `x.jsonl`.", results.drawn([row()] * 101, "x"))

    def test_new_rows_take_the_place_of_those_of_their_machine_and_workload(self):
        old = [row("a", "m"), row("b", "m"), row("b", "m", program="q"), row("a", "n"), row("a", "m", table="Other")]
        new = [row("b", "m", step_ms=2), row("c", "m"), row("a", "m", table="Third")]
        found = [(one["table"], one["of"]["workload"], one["machine"], one["figures"]["step_ms"]) for one in results.merged(old, new)]
        self.assertEqual(found, [("Steps", "a", "m", 1), ("Steps", "b", "m", 2), ("Steps", "a", "n", 1), ("Steps", "c", "m", 1),
                                 ("Other", "a", "m", 1), ("Third", "a", "m", 1)])  # fmt: skip

    def test_what_stands_around_the_tables_stays(self):
        page = f"# Title\n\nAbout.\n\n{results.BEGIN}old\n{results.END}\n## Decisions\n"
        self.assertTrue(results.with_rows(page, [row()], "x").endswith(f"| w | p | 1 |\n{results.END}\n## Decisions\n"))
        self.assertTrue(results.with_rows(page, [row()], "x").startswith(f"# Title\n\nAbout.\n\n{results.BEGIN}## Steps\n"))

    def test_a_row_that_is_not_as_rows_are_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for wrong in ({**row(), "note": None}, {"table": "t"}, {**row(), "figures": {}}):
                file.seek(0)
                file.truncate()
                file.write(json.dumps(wrong) + "\n")
                file.flush()
                with self.assertRaisesRegex(ValueError, r"\.jsonl:1: "):
                    results.read(file.name)

    def test_rows_are_added_and_a_stale_page_is_told(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(pages, "FOLDER", folder):
            added, out = f"{folder}/../{folder.split('/')[-1]}-rows.jsonl", io.StringIO()
            self.addCleanup(lambda: (ROOT / added).unlink(missing_ok=True))
            with open(added, "w", encoding="utf-8") as file:
                file.write(json.dumps(row()) + "\n")

            def run(*words):
                with mock.patch.object(sys, "argv", ["pages", *words]), contextlib.redirect_stdout(out), self.assertRaises(SystemExit) as end:
                    pages.main()
                return end.exception.code

            self.assertEqual(run("--add", "gpu", added), 0)
            self.assertEqual(run("--check"), 0)
            results.write(f"{folder}/gpu.jsonl", json.dumps(row(step_ms=5)) + "\n")
            self.assertEqual(run("--check"), 1)
            self.assertIn("gpu.md is not as gpu.jsonl says", out.getvalue())
            self.assertEqual((run(), run("--check")), (0, 0))


if __name__ == "__main__":
    unittest.main()
