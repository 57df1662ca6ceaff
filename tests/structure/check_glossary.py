#!/usr/bin/env python3
"""Checks the glossary of src/README.md: a word of it stands in names that a room declares only where the glossary says so."""
import re

import repository

HEADER = ["word", "means", "in", "elsewhere"]
SOURCES = (".h", ".cpp", ".cu", ".cuh")
TICKED = re.compile(r"`([^`]+)`")
TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'|//.*')
NAME = re.compile(r"(?<![\w'])[A-Za-z_]\w*")
WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
# A name that is declared stands after a type and before what may follow a declared name.
AFTER_TYPE = re.compile(r"(\w+|>|\])\s*(?:[&*]+\s*|\s+)$")
OPERATION = re.compile(r"\s(?:&&|[*&])\s+$")
BINDING = re.compile(r"\bauto\s*&{0,2}\s*\[[^\]]*$")
FOLLOWS = re.compile(r"\s*(?:[;={(,)\[\]]|:(?!:)|$)(?!=)")
NO_TYPES = {"return", "else", "case", "throw", "new", "delete", "goto", "co_return"}
KEYWORDS = {"class"}


def words_of(name):
    return [word.lower() for word in WORD.findall(name)]


def forms_of(word):
    return {word, word + ("es" if word.endswith("s") else "s")}


class Entry:
    """A row of the glossary: the words, the rooms with their meaning, and what else they may be."""

    def __init__(self, line, cells, rooms):
        self.line, self.means = line, cells[1]
        self.words = TICKED.findall(cells[0])
        self.forms = set().union(*map(forms_of, self.words))
        self.is_free = cells[2] == "any"
        self.rooms = set(TICKED.findall(cells[2]))
        other = [name for text in cells[3].split(";") for name in TICKED.findall(text.split(":")[0])]
        self.other_rooms = {name for name in other if name in rooms}
        self.names = [words_of(name) for name in other if name not in rooms]
        self.unused = set(other)

    def allows(self, room, name):
        words = words_of(name)
        for known in self.names:
            if any(words[i:i + len(known)] == known for i in range(len(words))):
                self.unused = {other for other in self.unused if words_of(other) != known}
                return True
        self.unused.discard(room)
        return room in self.rooms or room in self.other_rooms


def glossary(root, rooms):
    is_inside, found = False, []
    for number, line in enumerate((root / "src/README.md").read_text().splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells == HEADER:
            is_inside = True
        elif not line.startswith("|"):
            is_inside = False
        elif is_inside and len(cells) == len(HEADER) and "`" in cells[0]:
            found.append(Entry(number, cells, rooms))
    return found


def declared(text):
    """Line number and name of each name that a C++ file declares, as far as one line tells."""
    for number, line in enumerate(text.splitlines(), 1):
        code = "" if line.lstrip().startswith("#") else TEXT.sub('""', line)
        for match in NAME.finditer(code):
            before = code[:match.start()]
            if match.group() in KEYWORDS or not FOLLOWS.match(code, match.end()):
                continue
            kind = AFTER_TYPE.search(before)
            is_declared = kind and kind.group(1) not in NO_TYPES and not OPERATION.search(before)
            if is_declared or BINDING.search(before):
                yield number, match.group()


def findings(root):
    entries = glossary(root, repository.rooms(root))
    if not entries:
        yield f"src/README.md: it has no glossary; begin a table with '| {' | '.join(HEADER)} |'"
    for path in repository.files(root):
        if path.suffix not in SOURCES or len(path.parts) < 3 or path.parts[0] != "src":
            continue
        told = set()
        for number, name in declared(repository.text(root, path) or ""):
            for entry in entries:
                used = entry.forms.intersection(words_of(name))
                if used and not entry.is_free and not entry.allows(path.parts[1], name) and name not in told:
                    told.add(name)
                    yield (f"{path}:{number}: '{name}' has the word '{min(used)}', which the glossary of src/README.md does not give "
                           f"{path.parts[1]}/ ({' and '.join(entry.words)}: {entry.means}); use its word for what is meant here")
    for entry in entries:
        for name in sorted(entry.unused):
            yield f"src/README.md:{entry.line}: nothing in src/ needs the exception '{name}' of '{entry.words[0]}'; take it out"


if __name__ == "__main__":
    repository.main(__doc__, findings)
