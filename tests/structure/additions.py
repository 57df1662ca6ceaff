"""What test_additions.py adds to a copy of the tree: the files of added/, which say what stands where, and how many files of the
tree each may touch."""
import hashlib
import pathlib
import re

import repository

ADDED = pathlib.Path(__file__).resolve().parent / "added"
# How many files an addition may touch, and the page of keys beside them: an op that computes each element by itself, one with a
# cut form, an optimizer, a family of models, a format of data, a collective that is a variant of another, a command.
MOST_FILES = {"swish": 4, "square_norm": 6, "adagrad": 3, "mlp": 8, "raw": 4, "all_gather_direct": 14, "bytes": 1}
SECTION = re.compile(r"== (\S+), (?:(new)|(before|after): (.*))")
ROW = re.compile(r"FOURFOLD_(?:OP|ELEMENTWISE|OPTIMIZER)_ROW\(\w+, \"(\w+)\"")


class Failure(Exception):
    """A sentence that says what is wrong and what to do."""


def sections(name):
    """The pieces of an addition: (line, path, new | before | after, anchor, text)."""
    head, *lines = (ADDED / f"{name}.txt").read_text().split("\n== ")
    line = head.count("\n") + 2
    for piece in lines:
        first, _, text = piece.partition("\n")
        match = SECTION.fullmatch("== " + first)
        if not match:
            raise Failure(f"{name}.txt:{line}: '== {first}' is neither '== FILE, new' nor '== FILE, before: LINE' or '... after: LINE'")
        yield line, match[1], match[2] or match[3], match[4], text.rstrip("\n") + "\n"
        line += piece.count("\n") + 1


def plain(line):
    """A line without what formatting changes."""
    return " ".join(line.rstrip().removesuffix("\\").split())


def insert(root, name, line, path, where, anchor, text):
    target = root / path
    if where == "new":
        if target.exists():
            raise Failure(f"{name}.txt:{line}: {path} is there already; give the added file another name")
        target.write_text(text)
        return
    if not target.exists():
        raise Failure(f"{name}.txt:{line}: there is no {path}; say where its lines belong now")
    lines = target.read_text().splitlines(keepends=True)
    places = [number for number, found in enumerate(lines) if plain(found) == plain(anchor)]
    if len(places) != 1:
        raise Failure(f"{name}.txt:{line}: {path} has {len(places)} lines '{anchor}', and must have one; "
                      f"name the line {where} which the added lines belong now")
    place = places[0] + (where == "after")
    blank = "\n" if where == "before" else ""
    target.write_text("".join(lines[:place]) + text + blank + "".join(lines[place:]))


def contents(root):
    """A digest of each file: what tells which were touched."""
    return {path: hashlib.sha256((root / path).read_bytes()).digest() for path in repository.files(root)}


def add(root, name):
    """Adds what a file of added/ says and returns the names of its rows, and of the files that were touched."""
    before = contents(root)
    rows = []
    for piece in sections(name):
        insert(root, name, *piece)
        rows += ROW.findall(piece[-1])
    after = contents(root)
    touched = sorted(str(path) for path in after if after[path] != before.get(path))
    if len(touched) > MOST_FILES[name]:
        raise Failure(f"{name} touches {len(touched)} files, and {MOST_FILES[name]} must do: {', '.join(touched)}; "
                      "let the row, or the family, state what the others say")
    return rows, touched
