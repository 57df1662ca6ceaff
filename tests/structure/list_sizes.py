#!/usr/bin/env python3
"""Lists the longest source files and functions, to be looked at. Reads braces, not C++, so a name may be odd."""
import re

import repository

SOURCES = (".h", ".cpp", ".cu", ".cuh")
SHOWN = 10
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
    r'(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
NO_FUNCTION = re.compile(r"\b(namespace|class|struct|union|enum|if|for|while|switch|catch|extern)\b[^()]*$|[=\[,({]\s*$")
NAME = re.compile(r"([~\w:]+|operator\s*\S+?)\s*\(")


def blank(match):
    """Comments and strings without their braces; lines stay where they are."""
    return re.sub(r"[^\n]", " ", match[0])


def functions(source):
    """Name, first line and number of lines of each outermost braced body that follows a parameter list."""
    code = NOISE.sub(blank, source)
    code = re.sub(r"^[ \t]*#[^\n]*(\\\n[^\n]*)*", blank, code, flags=re.MULTILINE)
    stack, head_start = [], 0
    for match in re.finditer(r"[{};]", code):
        place = match.start()
        if match[0] == ";":
            head_start = place + 1
        elif match[0] == "{":
            head = code[head_start:place]
            inside = any(name for name, _ in stack)
            name = None if inside or ")" not in head or NO_FUNCTION.search(head) else NAME.search(head)
            first = place - len(head.lstrip())
            stack.append((name[1] if name else None, first))
            head_start = place + 1
        elif stack:
            name, first = stack.pop()
            if name:
                yield name, code.count("\n", 0, first) + 1, code.count("\n", first, place) + 1
            head_start = place + 1


def sizes(root):
    """Two lists of (lines, where), longest first: of files and of functions."""
    of_files, of_functions = [], []
    for path in repository.files(root):
        if path.suffix not in SOURCES:
            continue
        source = (root / path).read_text()
        of_files.append((source.count("\n"), str(path)))
        of_functions += [(lines, f"{path}:{line} {name}") for name, line, lines in functions(source)]
    return sorted(of_files, reverse=True), sorted(of_functions, reverse=True)


def report(root):
    of_files, of_functions = sizes(root)
    for title, entries in (("longest files (lines; seldom over 400)", of_files),
                           ("longest functions (lines; usually under 40)", of_functions)):
        print(title)
        for lines, where in entries[:SHOWN]:
            print(f"  {lines:4} {where}")
    return ()


if __name__ == "__main__":
    repository.main(__doc__, report)
