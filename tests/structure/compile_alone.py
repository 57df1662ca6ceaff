#!/usr/bin/env python3
"""Compiles each source that differs from a revision by itself. A build takes several files at once, in which one may lean
on what its neighbours include. Nothing is written but the tree's CMake files."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

# What names the object, or a header compiled before, of which a file by itself must not have need.
NAMED = ("-o", "-MT", "-MF", "-include")
ALONE = ("-c", "-MD", "-Winvalid-pch", "-fpch-preprocess")


def commands(tree, root):
    """Path of a source, relative to root, and the arguments that check it and write nothing."""
    found = {}
    for entry in json.loads((tree / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        arguments = shlex.split(entry["command"])
        kept = [one for before, one in zip([""] + arguments, arguments)
                if one not in NAMED and before not in NAMED and one not in ALONE]
        if path.is_relative_to(root):
            found[path.relative_to(root).as_posix()] = kept + ["-fsyntax-only"]
    return found


def header_command(path, known):
    """The arguments of a source of the header's folder, or of one above it, for the header itself."""
    folder = pathlib.PurePosixPath(path).parent
    while folder != folder.parent:
        for source in sorted(known):
            if source.startswith(f"{folder}/") and source.endswith(".cpp"):
                return known[source][:-2] + ["-fsyntax-only", "-x", "c++", "-include", path, "/dev/null"]
        folder = folder.parent
    return None


def changed(root, revision):
    lines = []
    for command in (["diff", "--name-only", "--diff-filter=d", revision], ["ls-files", "--others", "--exclude-standard"]):
        done = subprocess.run(["git", "-C", root, *command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"check: --alone: '{revision}' is no revision of this repository", file=sys.stderr)
            sys.exit(2)
        lines += done.stdout.splitlines()
    return sorted(path for path in set(lines) if re.match(r"(src|tests)/.*\.(h|cpp)$", path))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=pathlib.Path, help="a tree that was configured with FOURFOLD_UNITY=OFF")
    parser.add_argument("revision", nargs="?", default="HEAD", help="what sources are compared with (default: HEAD)")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    known = commands(arguments.tree, root)
    work = {}
    for path in changed(root, arguments.revision):
        command = known.get(path) if path.endswith(".cpp") else header_command(path, known)
        if command is None:
            print(f"{path}: not compiled, as this machine's build does not have it")
        else:
            work[path] = command

    def compile_one(path):
        return path, subprocess.run(work[path], cwd=root, capture_output=True, text=True, check=False)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, done in pool.map(compile_one, work):
            if done.returncode != 0:
                failed += 1
                print(f"{path}: does not compile by itself; include what it names\n{done.stderr.rstrip()}")
    print(f"{len(work)} sources compiled by themselves, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
