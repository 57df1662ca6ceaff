#!/usr/bin/env python3
"""Checks that each loop outside of a step that may last stands in LOOPS, with what a stop does to it."""
import re

import repository

# What takes long where it is called again and again: a program on a batch, a token, a file, a text, a tensor.
LONG = re.compile(
    r"\b(?:executor_?(?:\.|->)(?:run|run_stepwise|start|finish)|logits_behind|read_file|read_text|write_file_atomic|"
    r"write_picture_file|read_picture|tokenize_file|encode|append_tensor|write_tensor)\("
)
LOOP = re.compile(r"^\s*(?:\}\s*)?(?:for|while|do)\b")
# Rooms whose loops a step consists of, or that measure it.
STEP = ("src/run/", "src/kernels/")

ENDS = "a command of its own: nobody waits for the signal, which ends the process at once"
START = "before a run begins: its start ends the process at once, as nothing is to be saved (comm/stop_request.h)"
# Each loop, as FILE: FUNCTION, and what a stop does to it.
LOOPS = {
    "src/tokenizer/compare_tokenizers.cpp: sample_difference": ENDS,
    "src/data/token_sets.cpp: encode_documents": f"{ENDS}, or {START}",
    "src/data/tokenize.cpp: work": ENDS,
    "src/tokenizer/tokenizer_files.cpp: look_for": f"{ENDS}, or {START}",
    "src/generate/generate.cpp: generate": f"asked before each token while a run trains; `generate` is {ENDS}",
    "src/generate/pictures.cpp: make": ENDS,
    "src/job/config_source.cpp: load_config": f"{ENDS}, or {START}",
    "src/rundir/value_spans.cpp: held_configs": f"{ENDS}, or {START}",
    "src/train/evaluate.cpp: evaluate": f"asked before each batch while a run trains; `eval` is {ENDS}",
    "src/train/picture_bound.cpp: bound_of_pictures": ENDS,
    "src/train/token_scores.cpp: score_tokens": ENDS,
}


DEFINITION = re.compile(r"^(?:  )?(?:[\w:<>&*,]+ )*([\w:~]+)\([^;]*$")


def function_of(lines, at):
    """The function that a line stands in: the nearest definition above, of a namespace or of a class."""
    for line in reversed(lines[:at]):
        name = DEFINITION.match(line)
        if name and name.group(1) not in ("if", "for", "while", "switch", "return"):
            return name.group(1).split("::")[-1]
    return "?"


def is_in_loop(lines, at):
    """True if a loop encloses the line, by what stands above it and is less indented."""
    indent = len(lines[at]) - len(lines[at].lstrip())
    if LOOP.match(lines[at]):
        return True
    for i in range(at - 1, -1, -1):
        line = lines[i]
        own = len(line) - len(line.lstrip())
        if not line.strip() or own >= indent:
            continue
        if LOOP.match(line):
            return True
        indent = own
        if own == 0:
            return False
    return False


def loops(root):
    """FILE: FUNCTION of each loop that calls something long."""
    for path in repository.files(root):
        name = str(path)
        if not name.startswith("src/") or path.suffix != ".cpp" or name.startswith(STEP):
            continue
        lines = repository.text(root, path).split("\n")
        for at, line in enumerate(lines):
            if LONG.search(line.split("//")[0]) and is_in_loop(lines, at):
                yield f"{name}: {function_of(lines, at)}", at + 1


def findings(root):
    found = {}
    for loop, line in loops(root):
        found.setdefault(loop, line)
    for loop, line in found.items():
        if loop not in LOOPS:
            path, function = loop.split(": ")
            yield (f"{path}:{line}: a loop in {function} may last; let it look at the request to stop, and say in LOOPS of "
                   "tests/structure/check_loops.py what a stop does to it")
    for loop in LOOPS:
        if (root / loop.split(": ")[0]).exists() and loop not in found:
            yield f"tests/structure/check_loops.py: LOOPS has {loop}, where no such loop is; take it out"


if __name__ == "__main__":
    repository.main(__doc__, findings)
