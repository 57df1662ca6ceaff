#!/usr/bin/env python3
"""Checks comments and pages: sentences whose subject is named, and "behind" for places alone. Checks that the name of each
test is a sentence in snake_case."""
import re

import repository

SOURCES = (".h", ".cpp", ".cu", ".cuh")
# Where something stands behind something else, or is left there.
PLACES = re.compile(
    r"""\bbehind\s+(?:an?|one|the)\s+(?:interface|seam|header|file|wrapper|line)\b  # what hides a library
    |\b(?:hides?|leaves?\s+(?:nothing|no\s+files|it))\s+behind\b|\bleft\s+behind\b
    |\b(?:class|runtime|itself|rules)\s+behind\b                                     # a seam, and what is past it
    |behind\s+links\b""",
    re.VERBOSE,
)
BEHIND = re.compile(r"(?<![\w`])behind(?![\w`])", re.IGNORECASE)
NO_SUBJECT = re.compile(r"(?:Of|That|Whether|Since)\b")
TWICE = re.compile(r"\bthose of\b[^.;:|]*\bthose of\b")
TEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*\w+,\s*(?:DISABLED_)?(\w+)", re.MULTILINE)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def comments(text):
    """Line number and text of each comment of a C++ file; lines that follow one another are one."""
    begun, words = 0, []
    for number, line in enumerate(text.splitlines() + [""], 1):
        bare = line.strip()
        if bare.startswith("//"):
            begun = begun or number
            words.append(bare.lstrip("/").strip() or ".")  # an empty line ends a sentence
            continue
        if words:
            yield begun, " ".join(words)
            begun, words = 0, []
        code = STRING.sub('""', line)
        if "// " in code:
            yield number, code.split("// ", 1)[1]


def paragraphs(text):
    """Line number and text of each line of a page that is no code."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, line


def findings(root):
    for path in repository.files(root):
        name = str(path)
        is_source = path.suffix in SOURCES and name.startswith(("src/", "tests/"))
        if not is_source and path.suffix != ".md":
            continue
        text = repository.text(root, path)
        if text is None:
            continue
        for test in TEST.finditer(text) if is_source else ():
            if test.group(1) != test.group(1).lower():
                line = text.count("\n", 0, test.start()) + 1
                yield f"{name}:{line}: the test '{test.group(1)}' is no sentence in snake_case; write 'what_is_true_when_it_passes'"
        for number, words in comments(text) if is_source else paragraphs(text):
            if BEHIND.search(PLACES.sub("", words)):
                yield f"{name}:{number}: 'behind' is for places; say after, then, past or next to"
            if is_source and NO_SUBJECT.match(words):
                yield f"{name}:{number}: a comment begins with '{words.split()[0]}'; name its subject: 'The size of ...', 'True if ...'"
            if TWICE.search(words):
                yield f"{name}:{number}: 'those of' stands twice in a sentence; name what is meant, or make two sentences"


if __name__ == "__main__":
    repository.main(__doc__, findings)
