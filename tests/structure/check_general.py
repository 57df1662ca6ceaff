#!/usr/bin/env python3
"""Checks that only the rooms that know ops and models name them: others ask a row what it is, a value how it is labelled."""
import re

import repository

# What writes graphs, states ops or computes them may name them; so may passes that look for patterns to fuse.
MAY_NAME_OPS = ("src/op/", "src/graph/", "src/model/", "src/kernels/", "src/compile/fuse_")
# Files elsewhere that name ops, and why: a sixth is a fact that a row should state.
MOST_EXCEPTIONS = 5
EXCEPTIONS = {
    "src/plan/split_stages.cpp": "stages take part in one decision, which it writes",
    "src/run/find_non_finite.cpp": "finds the decision whose votes it explains",
    "src/run/cuda/bind_cuda_backend.cpp": "draws initial weights on the host, and votes for a step itself",
    "src/measure/ceilings.cpp": "measures what a product reaches",
    "src/measure/cuda/device_rates.cpp": "makes the problems that it times",
}
# Names of ops that are names of other things too.
ALSO = {
    "adamw": "a value of optimizer.name",
    "attention": "what a benchmark measures, and a class of time in traces",
    "digest": "a program, and a field of manifests",
    "dropout": "a key of tokenizers",
    "sgd": "a value of optimizer.name",
}
# Rooms to which a model is a graph like any other, and the words of models that they do without.
KNOW_NO_MODEL = ("src/plan/", "src/compile/", "src/program/", "src/run/", "src/comm/", "src/checkpoint/")
WORDS = {
    "wte", "attn", "qkv", "mlp", "head", "heads", "hidden", "vocabulary", "vocab", "token", "tokens",
    "vgg", "pool", "picture", "pictures", "pixel", "pixels",
}
# Where the words of programs stand, and where one must not: among the arguments of what takes a program, and in comparisons.
KINDS = "src/op/program_kind.cpp"
BY_WORD = (r'(?:\b(?:at|find|of|run\w*|start|bytes|begin_run|simulate|Builder|Recorder)\b[^"();]*\((?:[^"();]|\([^"();]*\))*'
           r'|[=!]=\s*)"(%s)"')
ROW = re.compile(r'\bFOURFOLD_(?:OP|LIST|ELEMENTWISE)_ROW\((\w+),\s*"(\w+)"([\w\s,]*)\)')
MEMBER = re.compile(r"(?:\.|->)(\w+)\b(?!\s*\()")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
COMMENT = re.compile(r"//[^\n]*")


def sources(root):
    """Path and text, without comments, of each source file of the product."""
    for path in repository.files(root):
        if str(path).startswith("src/") and path.suffix in (".h", ".cpp"):
            yield str(path), COMMENT.sub("", repository.text(root, path))


def declared(text):
    """What may be members or variables that are declared in a text; not members of something that are read."""
    return set(re.findall(r"(?<![.>])\b(\w+)(?:\s*=[^;,()]*)?[;,]", text))


def rows(root):
    """Types and names of the rows, and those attributes whose names no header of another room declares."""
    types, names, attributes, members = set(), set(), set(), set()
    for path, text in sources(root):
        if path.startswith("src/op/") and path.endswith(".h"):
            for row, name, listed in ROW.findall(text):
                types.add(row)
                names.add(name)
                attributes.update(re.findall(r"\w+", listed))
        elif path.endswith(".h"):
            members.update(declared(text))
    return types - {"Type"}, names - set(ALSO), attributes - members


def op_findings(root):
    types, names, attributes = rows(root)
    if not types:
        return
    named = re.compile(r"\bop::(%s)\b" % "|".join(sorted(types)))
    for path, text in sources(root):
        if path.startswith(MAY_NAME_OPS) or path in EXCEPTIONS:
            continue
        own = declared(text)
        for number, line in enumerate(text.splitlines(), 1):
            if match := named.search(line):
                yield (f"{path}:{number}: op::{match[1]} is named outside op, graph, model, kernels and fusions; ask the row "
                       "what it is (op::work_class, operands, factors, places), or let it state the fact")
            for string in STRING.findall(line):
                if string in names:
                    yield (f"{path}:{number}: an op's name, \"{string}\", stands outside op, graph, model, kernels and fusions; "
                           "ask the row what it is, or take the name from op::all_rows()")
            for member in MEMBER.findall(line):
                if member in attributes and member not in own:
                    yield (f"{path}:{number}: {member} is an attribute of a row; ask the row in the words of op/table.h, "
                           "or let its places say what it means")


def word_findings(root):
    for path, text in sources(root):
        if not path.startswith(KNOW_NO_MODEL):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            # A name of a tensor is a string without spaces; what has spaces is a sentence.
            named = [string for string in STRING.findall(line) if " " not in string]
            identifiers = re.findall(r"[A-Za-z_]\w*", STRING.sub("", line))
            for name in identifiers + named:
                words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
                if words & WORDS:
                    yield (f"{path}:{number}: '{name}' is a word of a model, in a room that knows none; let the model say it "
                           "with the label of a value, or name what is meant for any model")
                    break


def kind_findings(root):
    """Programs that are asked for, or told apart, by their words."""
    words = [word for path, text in sources(root) if path == KINDS for word in re.findall(r'return "(\w+)";', text)]
    by_word = re.compile(BY_WORD % "|".join(words))
    for path, text in sources(root):
        if not words or path.count("/") < 2:  # main.cpp asks for a subcommand
            continue
        for match in by_word.finditer(text):
            yield (f"{path}:{text.count(chr(10), 0, match.end()) + 1}: a program is named by its word, \"{match[1]}\"; "
                   f"write op::ProgramKind::{match[1]}")


def findings(root):
    yield from op_findings(root)
    yield from word_findings(root)
    yield from kind_findings(root)
    if len(EXCEPTIONS) > MOST_EXCEPTIONS:
        yield (f"tests/structure/check_general.py: {len(EXCEPTIONS)} EXCEPTIONS, at most {MOST_EXCEPTIONS}; let the row state the "
               "fact that the last of them needs")
    for name in EXCEPTIONS:
        if (root / "src/op/table.h").exists() and not (root / name).exists():
            yield f"tests/structure/check_general.py: there is no {name}; remove it from EXCEPTIONS"


if __name__ == "__main__":
    repository.main(__doc__, findings)
