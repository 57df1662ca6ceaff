#!/usr/bin/env python3
"""Checks that a configuration, a job and a plan are values: what other rooms get of a configuration is made by it, and no function
outside src/config/ takes one of them to change it, but those that are listed."""
import re

import repository

# Sections of a configuration, and the function that hands each on with what keys of other sections say of it.
SECTIONS = {"plan": "plan_spec()", "data": "data_spec()", "train": "train_spec()", "sample": "sample_spec()"}
# A section as a whole: no member of it is asked for, and no reference is bound to it to set its keys.
WHOLE = re.compile(r"\b(?:config|stored|earlier|trained|wanted)\.(%s)\b(?!\.|\s*=[^=])" % "|".join(SECTIONS))
SETS_KEYS = re.compile(r"\b\w+Spec& \w+ = ")
# Functions that change what they are given. None is outside the room of the configuration.
CHANGES = re.compile(r"\b(\w+)\([^()]*(?<!const )\b(?:config::Config|config::Settled|job::Job|Job|plan::Plan|Plan)& ?\w*[,)]")
CONST = re.compile(r"\bconst (?:\w+::)*(?:Config|Job|Plan)&")
# A declaration or a definition of a function that returns a configuration, a settled run or a plan, perhaps with the reason why there is none.
RETURNS = re.compile(
    r"(?:\bstd::(?:variant|optional)<)?\b(config::Config|config::Settled|(?:plan::)?Plan|(?:plan::)?PlannedModel)"
    r"(?:, [\w:]+)?>? (\w+)\(")
# Where they come from, outside the room of the configuration: at most five functions, and of plans those that a header offers.
MOST_SOURCES = 5
SOURCES = {
    "load_config": "the files of a command; what it refuses names grids that would do",
    "settle": "the one function that settles a run",
    "with_fit": "the plan in which stands what was chosen for a rank's memory",
    "make_plan": "a plan of one mesh",
    "plan_model": "a plan of any model",
}
# Rooms whose Job or Plan is another one.
OTHERS = ("src/program/", "src/verify/", "src/comm/")
COMMENT = re.compile(r"//[^\n]*")


def sources(root):
    """Path and text, without comments, of each source file that is not of the configuration's room."""
    for path in repository.files(root):
        if str(path).startswith("src/") and not str(path).startswith("src/config/") and path.suffix in (".h", ".cpp"):
            yield str(path), COMMENT.sub("", repository.text(root, path))


def section_findings(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        match = WHOLE.search(line)
        if match and not SETS_KEYS.search(line):
            yield (f"{path}:{number}: {match[0]} lacks what other sections say of it (seed, sizes, names); hand on "
                   f"{match[0].split('.')[0]}.{SECTIONS[match[1]]}")


def changers(path, text):
    """The functions of a file that take a configuration, a job or a plan to change it, and where."""
    if path.startswith(OTHERS):
        return
    flat = re.sub(r"\s+", " ", text)
    for match in CHANGES.finditer(flat):
        if not CONST.search(match[0]) or CHANGES.search(CONST.sub("const T&", match[0])):
            yield match[1], text[: text.find(match[1])].count("\n") + 1


def makers(path, text):
    """The functions of a file that return a configuration, a settled run or a plan, and where."""
    flat = re.sub(r"\s+", " ", text)
    for match in RETURNS.finditer(flat):
        if "Plan" in match[1] and path.endswith(".cpp"):
            continue
        yield match[2], text[: text.find(match[2] + "(")].count("\n") + 1


def findings(root):
    if len(SOURCES) > MOST_SOURCES:
        yield f"tests/structure/check_settled.py: SOURCES has {len(SOURCES)} functions; at most {MOST_SOURCES} make a run"
    made, paths = set(), set()
    for path, text in sources(root):
        paths.add(path)
        yield from section_findings(path, text)
        for name, number in changers(path, text):
            yield (f"{path}:{number}: {name} takes a configuration, a settled run, a job or a plan to change it; give back what it "
                   "finds out, and let the value be made with it")
        for name, number in makers(path, text):
            made.add(name)
            if name not in SOURCES:
                yield (f"{path}:{number}: {name} returns a configuration, a settled run or a plan; those are made by "
                       f"{', '.join(SOURCES)} and by src/config/ (changes.h, uses.h)")
    if "src/cli/commands/export.cpp" in paths:
        for name in sorted(set(SOURCES) - made):
            yield f"tests/structure/check_settled.py: {name} makes no configuration, settled run or plan; remove it from SOURCES"


if __name__ == "__main__":
    repository.main(__doc__, findings)
