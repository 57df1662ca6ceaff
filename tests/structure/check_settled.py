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
# Functions that change what they are given. The list only gets shorter: a run is settled by one function, then const.
CHANGES = re.compile(r"\b(\w+)\([^()]*(?<!const )\b(?:config::Config|job::Job|Job|plan::Plan|Plan)& ?\w*[,)]")
CONST = re.compile(r"\bconst (?:\w+::)*(?:Config|Job|Plan)&")
MAY_CHANGE = {
    "src/cli/bench_step": ("take_kernels",),
    "src/cli/settle_grid": ("settle_open_grid",),
    "src/job/device": ("settle_gpus",),
    "src/job/job": ("compile_again", "compile_within", "load_data", "resolve_model", "use_kernels"),
    "src/job/open_grid": ("settle_grid",),
    "src/job/plan_report": ("void",),  # what each switch does to a copy of the plan
    "src/plan/plan": ("limit_warm_ups", "take_options"),
    "src/plan/plan_stages": ("add_mesh", "limit_warm_ups", "set_orders"),
    "src/rundir/trained_model": ("use_kernels_of_cpu",),
    "src/training_run/prepare_run": ("fit_memory", "settle_grid"),
    "src/training_run/settle_prompt": ("settle_prompt",),
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


def findings(root):
    used = {stem: set() for stem in MAY_CHANGE}
    paths = set()
    for path, text in sources(root):
        paths.add(path)
        yield from section_findings(path, text)
        stem = path.rsplit(".", 1)[0]
        for name, number in changers(path, text):
            if name in MAY_CHANGE.get(stem, ()):
                used[stem].add(name)
            else:
                yield (f"{path}:{number}: {name} takes a configuration, a job or a plan to change it; give back what it finds out, "
                       "and let the value be made with it")
    if "src/cli/export.cpp" in paths:
        for stem, names in MAY_CHANGE.items():
            for name in sorted(set(names) - used[stem]):
                yield f"tests/structure/check_settled.py: {name} of {stem} changes nothing that it is given; remove it from MAY_CHANGE"


if __name__ == "__main__":
    repository.main(__doc__, findings)
