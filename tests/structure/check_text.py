#!/usr/bin/env python3
"""Checks all text files: no paths of one machine, no notes left behind, warnings stay errors."""
import re

import repository

# After a letter, a dot or a closing bracket ("${build}/root") it is part of a relative or computed path.
MACHINE_PATH = re.compile(r"(?<![\w.})\]*])/(?:work|root|home|Users|tmp/[bw][\w.-]*)(?=[/\s\"'`;:,)]|$)")
LEFT_BEHIND = re.compile(r"\b(?:TO" r"DO|FIX" r"ME)\b")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")


def line_findings(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        match = MACHINE_PATH.search(line)
        if match:
            yield f"{path}:{number}: '{match[0]}' is a path of one machine; take it from an option or the repository"
        match = LEFT_BEHIND.search(line)
        if match:
            yield f"{path}:{number}: '{match[0]}' is left behind; do it now, or open an issue and remove the note"


def warning_findings(root):
    """Warnings are errors in CMakeLists.txt and in the build folder that the tests use."""
    lists = root / "CMakeLists.txt"
    if not lists.exists():
        return
    text = lists.read_text()
    if not re.search(r"option\(FOURFOLD_WERROR\s+\"[^\"]*\"\s+ON\)", text):
        yield "CMakeLists.txt: FOURFOLD_WERROR is not ON by default; warnings are errors, so set it ON"
    for flag in WARNINGS:
        if not re.search(rf"add_compile_options\([^)]*{flag}\b", text):
            yield f"CMakeLists.txt: {flag} is not among the compile options; add it and mend what it finds"
    cache = root / "build/CMakeCache.txt"
    if cache.exists() and re.search(r"^FOURFOLD_WERROR:\w+=(OFF|0|FALSE|NO)$", cache.read_text(), re.MULTILINE):
        yield "build/CMakeCache.txt: FOURFOLD_WERROR is off; run scripts/build -DFOURFOLD_WERROR=ON"


def findings(root):
    yield from warning_findings(root)
    for path in repository.files(root):
        text = repository.text(root, path)
        if text is not None:
            yield from line_findings(path, text)


if __name__ == "__main__":
    repository.main(__doc__, findings)
