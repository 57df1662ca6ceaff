#!/usr/bin/env python3
"""Checks that a family of models states its facts once: outside src/model/ and the family's own schema, nobody asks which it is."""
import re

import repository

LIST = "src/model/model_spec.h"
# Files that name a family, and why: they are about the files of another program, which has that family alone.
EXCEPTIONS = {
    "src/interop/": "reads and writes GPT-2 of Hugging Face",
    "src/job/imported_config.": "the configuration of a GPT-2 that was imported",
    "src/cli/import.cpp": "imports a GPT-2",
    "src/cli/export.cpp": "exports a GPT-2",
}
FAMILY = re.compile(r"\bFAMILY\((\w+), (\w+)\)")
COMMENT = re.compile(r"//[^\n]*")


def families(root):
    """Words and specs of the one list."""
    path = root / LIST
    return FAMILY.findall(path.read_text()) if path.exists() else []


def sources(root):
    """Path and text, without comments, of each source file of the product."""
    for path in repository.files(root):
        if str(path).startswith("src/") and path.suffix in (".h", ".cpp"):
            yield str(path), COMMENT.sub("", repository.text(root, path))


def questions(listed):
    """What asks for one of these families."""
    words = "|".join(word for word, _ in listed)
    specs = "|".join(spec for _, spec in listed)
    return re.compile(rf'\bKind::(?:{words})\b|(?:\.|->|\bConfig::)(?:{words})\b|\b(?:{specs})\b|"(?:{words})"')


def findings(root):
    listed = families(root)
    if not listed:
        return
    for path, text in sources(root):
        if path.startswith("src/model/") or path.startswith(tuple(EXCEPTIONS)):
            continue
        asks = questions([(word, spec) for word, spec in listed if path != f"src/config/schema_{word}.cpp"])
        for number, line in enumerate(text.splitlines(), 1):
            if match := asks.search(line):
                yield (f"{path}:{number}: {match[0]} asks which family a model is of; ask model::Family what it is fed or makes, "
                       "model/model.h for its sizes, config/family.h for its keys, and let the family state what they lack")
    for name in EXCEPTIONS:
        if not any(str(path).startswith(name) for path in repository.files(root)) and (root / "src/cli/export.cpp").exists():
            yield f"tests/structure/check_families.py: there is no {name}; remove it from EXCEPTIONS"


if __name__ == "__main__":
    repository.main(__doc__, findings)
