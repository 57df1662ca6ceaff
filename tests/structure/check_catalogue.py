#!/usr/bin/env python3
"""Checks the table of tests/README.md that leads from each row of the robustness catalogue to its tests: every row is
there, and every name finds a test."""
import fnmatch
import re

import repository

PAGE = "tests/README.md"
HEADING = "## The robustness catalogue"
# 60 is about thousands of ranks, 15 about images: they come with what they are about.
ROWS = [row for row in range(1, 60) if row != 15]
TEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)", re.MULTILINE)
TABLE_ROW = re.compile(r"^\| (\d+) \|[^|]*\|(.*)\|$")
CODE = re.compile(r"`([^`]+)`")


def test_names(root):
    names = set()
    for path in repository.files(root):
        if path.parts[0] == "tests" and path.name.endswith("_test.cpp"):
            names.update(f"{suite}.{name}" for suite, name in TEST.findall((root / path).read_text()))
    return names


def findings(root):
    page = root / PAGE
    if not page.exists() or HEADING not in page.read_text():
        return []
    before, section = page.read_text().split(HEADING, 1)
    first_line = before.count("\n") + 1
    names, seen, found = test_names(root), set(), []
    for number, line in enumerate(section.splitlines(), first_line):
        row = TABLE_ROW.match(line)
        if not row:
            continue
        seen.add(int(row.group(1)))
        patterns = CODE.findall(row.group(2))
        if not patterns:
            found.append(f"{PAGE}:{number}: row {row.group(1)} names no test; name one")
        for pattern in patterns:
            if not fnmatch.filter(names, pattern):
                found.append(f"{PAGE}:{number}: there is no test {pattern}; name one that is there")
    found += [f"{PAGE}:{first_line}: row {row} is missing; add it with its tests" for row in ROWS if row not in seen]
    return found


if __name__ == "__main__":
    repository.main(__doc__, findings)
