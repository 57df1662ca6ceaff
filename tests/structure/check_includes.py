#!/usr/bin/env python3
"""Checks that includes follow the table of src/README.md, that a file reaches the headers of what it names from other rooms, and
that each library and standard output have one wrapper."""
import pathlib
import re

import repository

# Rooms before the program, and the rooms that run it: what the second need from the first stands in the program.
BEFORE_PROGRAM = {"graph", "model", "plan", "pipeline", "reshard", "compile", "search"}
AFTER_PROGRAM = {"run", "simulate", "trace", "checkpoint", "generate", "train"}

# Headers of a library (a pattern for the text between < >) and the files that may include them. An empty list: any
# one file may, but only one.
WRAPPERS = (
    ("OpenBLAS", r"(cblas|f77blas|openblas_config|lapacke?)\.h|openblas/.*", ["src/kernels/cpu/openblas.cpp"]),
    ("oneDNN", r"(oneapi/dnnl/.*|dnnl.*\.hp*)", ["src/kernels/cpu/onednn.cpp"]),
    ("yaml-cpp", r"yaml-cpp/.*", ["src/base/yaml.cpp"]),
    ("nlohmann-json", r"nlohmann/.*", ["src/base/json.cpp"]),
    ("fmt", r"fmt/.*", ["src/base/format.h"]),
    ("spdlog", r"spdlog/.*", ["src/screen/log.cpp"]),
    ("CLI11", r"CLI/.*", ["src/cli/parse.cpp"]),
    ("xxHash", r"xxhash\.h|xxh3\.h", []),
    ("sentencepiece", r"sentencepiece.*", ["src/tokenizer/sentencepiece.cpp", "src/tokenizer/train_sentencepiece.cpp"]),
    ("PCRE2", r"pcre2.*\.h", ["src/tokenizer/pcre2/pattern.cpp"]),
    ("utf8proc", r"utf8proc\.h", ["src/tokenizer/utf8proc/normal_form.cpp"]),
    ("libpng", r"png\.h", ["src/data/png.cpp"]),
    ("zlib", r"zlib\.h", ["src/data/gzip.cpp"]),
    ("zstd", r"zstd.*\.h", ["src/data/zstd.cpp"]),
    ("CUDA", r"cuda(_runtime(_api)?)?\.h", ["src/kernels/cuda/check.h", "src/kernels/cuda/device.cuh",
                                            "src/run/cuda/cuda_device.cpp"]),
    ("NVTX", r"nvtx3/.*", ["src/run/cuda/cuda_device.cpp"]),
    ("cuBLASLt", r"cublasLt\.h", ["src/kernels/cuda/cublaslt.cpp", "src/kernels/cuda/library_versions.cpp"]),
    ("CBC", r"(coin/)?Cbc.*", ["src/solve/cbc/cbc.cpp"]),
    ("cuDNN", r"cudnn.*\.h", ["src/kernels/cuda/cudnn_attention.cpp", "src/kernels/cuda/cudnn_convolution.cpp", "src/kernels/cuda/cudnn_check.h"]),
    ("MPI", r"mpi\.h", ["src/comm/mpi.cpp"]),
    ("NCCL", r"nccl\.h", ["src/comm/nccl.cpp"]),
)
# The system's own: standard C++ (no dot, no slash), POSIX and the compiler.
SYSTEM = re.compile(
    r"[a-z_0-9]+|(sys|linux|arpa|netinet|net)/.*|omp\.h|[a-z0-9]*intrin\.h|(dirent|dlfcn|fcntl|ifaddrs|netdb|poll|"
    r"pthread|sched|signal|spawn|termios|unistd)\.h")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = (".h", ".cpp", ".cu", ".cuh")

# Standard output is wrapped like a library: what a file holds must not command a terminal.
PRINTERS = {"src/screen/print.cpp": "all that commands print", "src/screen/progress_line.cpp": "a line that moves",
            "src/cli/commands/doctor.cpp": "a table with colours"}
PRINTING = re.compile(r"\b(?:std::)?(?:printf|puts|putchar)\s*\(|,\s*stdout\s*\)|\bstd::cout\b")


def includes(root, path):
    """Line number, opening quote or bracket, and name of each include."""
    for number, line in enumerate((root / path).read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1], match[2]


def table_findings(table):
    """Names the table's own faults: unknown rooms, cycles, rooms after the program that reach rooms before it."""
    where = "src/README.md: the table of rooms"
    for room, allowed in table.items():
        for name in sorted(allowed - table.keys()):
            yield f"{where}: '{room}' may include '{name}', which has no row; add the row or remove the name"
    reach = {room: set(allowed) for room, allowed in table.items()}
    for middle in table:
        for room in table:
            if middle in reach[room]:
                reach[room] |= reach[middle]
    for room in table:
        if room in reach[room]:
            yield f"{where}: '{room}' reaches itself; remove one of the rooms on the cycle from a third column"
        backward = sorted(reach[room] & BEFORE_PROGRAM) if room in AFTER_PROGRAM else []
        if backward:
            yield (f"{where}: '{room}' runs programs and must not reach {', '.join(backward)}; put the fact it needs "
                   "into the program or into op/")


def direction_finding(table, room, other, place):
    if other not in table:
        return f"{place}: '{other}' is not a room of src/README.md; add a row to its table or correct the include"
    if room == other or other in table[room]:
        return None
    if room in AFTER_PROGRAM and other in BEFORE_PROGRAM:
        return (f"{place}: {room}/ may not include {other}/ (it runs programs and knows nothing of how they are made): "
                "move the fact into the program or into op/")
    return (f"{place}: {room}/ may not include {other}/ (third column of src/README.md: "
            f"{', '.join(sorted(table[room])) or 'nothing'}): move what both need into a room both may include")


def wrapper_finding(name, path, place, only_users):
    for library, pattern, wrappers in WRAPPERS:
        if not re.fullmatch(pattern, name):
            continue
        if wrappers:
            allowed = str(path) in wrappers
            home = " or ".join(wrappers)
        else:
            home = only_users.setdefault(library, str(path))
            allowed = home == str(path)
        return None if allowed else f"{place}: headers of {library} belong to {home} alone; call what that file offers"
    if SYSTEM.fullmatch(name):
        return None
    return (f"{place}: <{name}> is of a library that has no wrapper; wrap it in one file and add the file to WRAPPERS "
            "in tests/structure/check_includes.py (or, for the system's own header, to SYSTEM)")


ADDED = ("tests", "structure", "added")  # written for a tree that has these ops
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')
WORD = re.compile(r"\w+")


class Reach:
    """What files of src/ and tests/ reach by includes, which precompiled headers and merged sources hide from the compiler."""

    def __init__(self, root):
        self.root, self.words_of, self.headers_of, self.reached = root, {}, {}, {}

    def read(self, path):
        if path not in self.words_of:
            self.words_of[path] = set(WORD.findall((self.root / path).read_text()))
            named = [name for _, quote, name in includes(self.root, path) if quote == '"']
            folders = ("src", "tests", pathlib.PurePosixPath(path).parent)
            self.headers_of[path] = {f"{folder}/{name}" for folder in folders for name in named
                                     if (self.root / folder / name).is_file()}

    def headers(self, path):
        """All that the file includes, directly and by way of others."""
        if path not in self.reached:
            found, waiting = set(), [path]
            while waiting:
                here = waiting.pop()
                self.read(here)
                waiting += self.headers_of[here] - found
                found |= self.headers_of[here]
            self.reached[path] = found
        return self.reached[path]

    def findings(self, path, rooms):
        """Names `room::name` that neither a header of the room or of a test, which the file reaches, nor the file itself has."""
        code = COMMENT_OR_TEXT.sub(lambda match: " " * len(match[0]), (self.root / path).read_text())
        said, own = set(), set(re.findall(r"(?<!:)\b\w+", code))
        for match in re.finditer(rf"(?<![\w:])({'|'.join(rooms)})::(\w+)", code):
            room, name = match[1], match[2]
            headers = [header for header in self.headers(path) if header.startswith((f"src/{room}/", "tests/"))]
            if match[0] in said or name in own or any(name in self.words_of[header] for header in headers):
                continue
            said.add(match[0])
            place = f"{path}:{code.count(chr(10), 0, match.start()) + 1}"
            yield f"{place}: names {match[0]}, of which none of its includes knows; include its header of {room}/"


def findings(root):
    reach = Reach(root)
    table = repository.rooms(root)
    yield from table_findings(table)
    only_users = {}
    for path in repository.files(root):
        if path.parts[0] not in ("src", "tests") or path.suffix not in SOURCES:
            continue
        if table and path.parts[:3] != ADDED:
            yield from reach.findings(path, sorted(table))
        if path.parts[0] == "tests":
            continue
        room = path.parts[1] if len(path.parts) > 2 else None  # None: main.cpp, which may see every room
        if path.suffix in (".h", ".cuh") and "#pragma once" not in (root / path).read_text():
            yield f"{path}: has no include guard; begin it with a comment and #pragma once"
        for number, quote, name in includes(root, path):
            place = f"{path}:{number}"
            if quote == "<":
                finding = wrapper_finding(name, path, place, only_users)
            elif "/" not in name or name.startswith("."):
                finding = f'{place}: "{name}" does not name its room; write the path below src/, as "room/{name}"'
            elif room is None or room not in table:
                finding = None
            else:
                finding = direction_finding(table, room, name.split("/")[0], place)
            if finding:
                yield finding
        if str(path) in PRINTERS:
            continue
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            if PRINTING.search(line.split("//")[0]):
                yield f"{path}:{number}: writes to standard output past src/screen/print.h; call print or print_text"


if __name__ == "__main__":
    repository.main(__doc__, findings)
