"""Figures of recipes in scripts/repro/rows.jsonl, which has the results of the papers beside ours."""
import json

from results import write


def update(path, script, figures):
    """Writes figures into the rows that the script measures, with three digits: by what a row reads, and then by field."""
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        if row["command"].startswith(f"scripts/{script}") and row["reads"] in figures:
            row.update({key: float(f"{value:.3g}") for key, value in figures[row["reads"]].items()})
    write(path, "".join(json.dumps(row) + "\n" for row in rows))
