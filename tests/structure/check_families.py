#!/usr/bin/env python3
"""Checks that families of models and formats of data state their facts once: outside src/model/ and the family's own schema nobody
asks which family a model is of, and outside src/data/ nobody asks which format data are of."""
import re

import repository

LIST = "src/model/model_spec.h"
FORMATS = "src/data/format.h"
# Files that name a family, and why: they are about the files of another program, which has that family alone.
EXCEPTIONS = {
    "src/interop/": "reads and writes models of Hugging Face, whose families are its own",
}
FORMAT_EXCEPTIONS = {"src/cli/commands/eval.cpp": "chooses the format of the pictures that it is given"}
FAMILY = re.compile(r"\bFAMILY\((\w+), (\w+)\)")
FORMAT = re.compile(r"enum class Format\b[^{]*\{([^}]*)\}")
COMMENT = re.compile(r"//[^\n]*")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def families(root):
    """Words and specs of the one list."""
    path = root / LIST
    return FAMILY.findall(path.read_text()) if path.exists() else []


def sources(root):
    """Path and text, without comments, of each source file of the product."""
    for path in repository.files(root):
        if str(path).startswith("src/") and path.suffix in (".h", ".cpp"):
            yield str(path), COMMENT.sub("", repository.text(root, path))


def question(line, listed):
    """What asks for one of these families: an enumerator, a field, a spec, or a text that is the word itself."""
    words = "|".join(word for word, _ in listed)
    specs = "|".join(spec for _, spec in listed)
    asks = rf"\bKind::(?:{words})\b|(?:\.|->|\bConfig::)(?:{words})\b|\b(?:{specs})\b"
    found = re.search(asks, STRING.sub('""', line))
    texts = [text for text in STRING.findall(line) if re.fullmatch(f'"(?:{words})"', text)]
    return found[0] if found else texts[0] if texts else None


def format_findings(root):
    path = root / FORMATS
    match = FORMAT.search(path.read_text()) if path.exists() else None
    if not match:
        return
    asks = re.compile(r"\bFormat::(?:%s)\b" % "|".join(re.findall(r"\w+", match[1])))
    for path, text in sources(root):
        if path.startswith("src/data/") or path in FORMAT_EXCEPTIONS:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := asks.search(line):
                yield (f"{path}:{number}: {match[0]} asks which format data are of; ask data::row_of for what it holds, feeds and "
                       "needs, and let the row of src/data/formats.cpp state what is missing")


def family_findings(root):
    listed = families(root)
    if not listed:
        return
    for path, text in sources(root):
        if path.startswith("src/model/") or path.startswith(tuple(EXCEPTIONS)):
            continue
        others = [(word, spec) for word, spec in listed if path != f"src/config/schema_{word}.cpp"]
        for number, line in enumerate(text.splitlines(), 1):
            if asked := question(line, others):
                yield (f"{path}:{number}: {asked} asks which family a model is of; ask model::Family what it is fed or makes, "
                       "model/model.h for its sizes, config/family.h for its keys, and let the family state what they lack")


def findings(root):
    yield from family_findings(root)
    yield from format_findings(root)
    paths = [str(path) for path in repository.files(root)]
    for name in [*EXCEPTIONS, *FORMAT_EXCEPTIONS]:
        if "src/cli/commands/export.cpp" in paths and not any(path.startswith(name) for path in paths):
            yield f"tests/structure/check_families.py: there is no {name}; remove it from the exceptions"


if __name__ == "__main__":
    repository.main(__doc__, findings)
