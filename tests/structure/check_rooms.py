#!/usr/bin/env python3
"""Checks that rooms, table and READMEs agree: every room has its row and its page, and pages link to what exists."""
import itertools
import pathlib
import re

import repository

USER_PAGES = ("", "configs", "configs/machines", "data", "scripts", "src", "tests")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.@*?{},-]+(/[\w.@*?{},-]+)*/?")
FILE_ENDINGS = (".py", ".h", ".cpp", ".cu", ".md", ".yaml", ".sh")


def expand(word):
    """insert_waits.{h,cpp} -> insert_waits.h, insert_waits.cpp"""
    parts = re.split(r"\{([^}]*)\}", word)
    choices = [part.split(",") if index % 2 else [part] for index, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def exists(root, folder, word, names):
    """Whether a path written in a page of `folder` names something: from there, from the top, from src/, or by name."""
    if pathlib.PurePosixPath(word) in repository.Ignored(root):
        return True  # made by a run or a build
    if "/" not in word.rstrip("/"):
        return word in names or (folder / word).exists()
    return any(next(base.glob(word.rstrip("/")), None) for base in (folder, root, root / "src"))


def looks_like_path(root, folder, word):
    """A name with a known ending, or a path whose first part is a folder here."""
    if not PATH.fullmatch(word):
        return False
    if word.endswith(FILE_ENDINGS) and "*" not in word:
        return True
    first = word.split("/")[0]
    return "/" in word.rstrip("/") and first not in ("", ".", "..") and any(
        (base / first).is_dir() for base in (folder, root, root / "src"))


def words(text):
    """Line number and word of everything in backticks and in fenced blocks (text drawn in a block is left alone)."""
    fenced, command = False, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced, command = not fenced, line.strip() in ("```", "```sh", "```bash")
            continue
        pieces = [line] if fenced and command and "─" not in line else CODE.findall(line) if not fenced else []
        for piece in pieces:
            for word in piece.split("#")[0].split() if fenced else piece.split():
                if not fenced or word.startswith(("scripts/", "configs/", "tests/", "data/", "src/")):
                    yield number, word.strip("`'\",:;")


def page_findings(root, path, names):
    folder = (root / path).parent
    text = (root / path).read_text()
    for number, line in enumerate(text.splitlines(), 1):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target) or target.startswith("#"):
                continue
            if not (folder / target.split("#")[0]).exists():
                yield f"{path}:{number}: the link to '{target}' leads nowhere; correct it, relative to {path.parent}/"
    for number, word in words(text):
        for choice in expand(word):
            if looks_like_path(root, folder, choice) and not exists(root, folder, choice, names):
                yield f"{path}:{number}: `{choice}` does not exist; name the file as it is called now"


def room_findings(root, paths):
    table = repository.rooms(root)
    folders = {path.parts[1] for path in paths if path.parts[0] == "src" and len(path.parts) > 2}
    for room in sorted(folders - table.keys()):
        yield f"src/{room}: has no row in src/README.md; add one that says what it is and what it may include"
    for room in sorted(table.keys() - folders):
        yield f"src/README.md: the room '{room}' has no files; remove the row until something lives there"
    for room in sorted(folders):
        if not (root / "src" / room / "README.md").exists():
            yield f"src/{room}: has no README.md; write what the room is and is not, and its files in order of reading"
    for folder in USER_PAGES:
        if (root / folder).is_dir() and not (root / folder / "README.md").exists():
            yield f"{folder or 'the top level'}: has no README.md; write one page for the person who opens this folder"


def findings(root):
    paths = repository.files(root)
    names = {path.name for path in paths}
    yield from room_findings(root, paths)
    for path in paths:
        if path.name == "README.md":
            yield from page_findings(root, path, names)


if __name__ == "__main__":
    repository.main(__doc__, findings)
