#!/usr/bin/env python3
"""Tells which tests see which mistakes of ours. Plants the faults of planted_faults.toml in one copy of the tree, each switched on
by its number in FOURFOLD_FAULT (several: with commas), builds tests there once, sees that they pass while no fault is on, and runs
them under each fault until the first that fails. Where no test fails, either the tests lack a job or the row is no fault."""
import argparse
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time
import tomllib

import repository

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = pathlib.PurePosixPath("src/base/planted_fault.h")
# Faults are chosen once: what they change is the same in all threads, and in processes that tests start.
IS_PLANTED = """#pragma once
#include <bitset>
#include <cstdlib>
namespace fourfold {
inline bool is_planted(std::size_t fault) {
  static const std::bitset<1024> chosen = [] {
    std::bitset<1024> faults;
    const char* text = std::getenv("FOURFOLD_FAULT");
    for (char* end = nullptr; text != nullptr; text = *end == ',' ? end + 1 : nullptr)
      faults.set(std::strtoul(text, &end, 10));
    return faults;
  }();
  return chosen[fault];
}
}  // namespace fourfold
"""
GROUPS = ("unit=test_unit_compile:*", "unit=test_unit_pipeline:*", "unit=test_verify:*", "parallel=test_parallel:*")
BATCH_S = 4  # about so long are the tests that one process runs
UNSEEN = "-"


class Failure(Exception):
    """A sentence that says what is wrong and what to do."""


def read_faults(path):
    """The rows of the list, with their numbers; each must fit the sources, and no two may overlap."""
    rows = tomllib.loads(path.read_text())["fault"]
    problems = []
    for number, row in enumerate(rows, 1):
        row["number"] = number
        text = (ROOT / row["file"]).read_text()
        row["begin"] = text.find(row["old"])
        count = text.count(row["old"])
        if count != 1:
            problems.append(f"{row['name']}: {row['file']} has its text {count} times; give what stands there now, once")
        if not re.search(r"\bFAULT\b", row["new"]):
            problems.append(f"{row['name']}: its new text has no FAULT")
    for row in rows:
        end = row["begin"] + len(row["old"])
        problems += [f"{row['name']} and {other['name']} change the same text of {row['file']}" for other in rows
                     if other is not row and other["file"] == row["file"] and row["begin"] <= other["begin"] < end]
    if len({row["name"] for row in rows}) != len(rows):
        problems.append("two faults have one name")
    if problems:
        raise Failure("\n".join(problems))
    return rows


def planted(path, rows):
    """What a file is with all of its faults, each of them off."""
    content = (ROOT / path).read_bytes()
    own = sorted((row for row in rows if row["file"] == str(path)), key=lambda row: row["begin"], reverse=True)
    if not own:
        return content
    text = content.decode()
    for row in own:
        new = re.sub(r"\bFAULT\b", f"fourfold::is_planted({row['number']})", row["new"])
        text = text[:row["begin"]] + new + text[row["begin"] + len(row["old"]):]
    # No option of the compiler: of files without faults, a cache of objects has what other trees made.
    return f'#include "{HEADER.relative_to("src")}"\n{text}'.encode()


def write_tree(folder, rows):
    """Writes what differs alone, so that a second build compiles little, and removes what is gone: CMake takes what it finds."""
    files = {path: planted(path, rows) for path in repository.files(ROOT)}
    files[HEADER] = IS_PLANTED.encode()
    for place in ("src", "tests"):
        for path in (folder / place).rglob("*"):
            if path.is_file() and pathlib.PurePosixPath(path.relative_to(folder).as_posix()) not in files:
                path.unlink()
    for path, content in files.items():
        target = folder / path
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod((ROOT / path).stat().st_mode if path != HEADER else 0o644)


def build(folder, targets, options, jobs):
    for command in (["cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", *options],
                    *(["ninja", "-C", folder / "build", "-j", str(jobs), target] for target in targets)):
        done = subprocess.run(command, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise Failure(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-4000:]}")
        print(f"{pathlib.Path(command[0]).name} {command[-1]}: {core_s():.0f} s of one core so far", flush=True)


def core_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stat_of(path):
    """The state of a process or a thread, and the seconds of a core that it has had; no state where it has ended."""
    try:
        fields = (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0
    return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(binary, tests, fault, limit_s):
    """Runs tests in one process: (what it said, exit status; None where it hung: it has had a core for `limit_s`, or has been seen
    wanting none as often). What time alone says depends on what else the machine does."""
    environment = {**os.environ, "FOURFOLD_FAULT": str(fault), "GTEST_FAIL_FAST": "1"}
    process = subprocess.Popen([binary, "--gtest_filter=" + ":".join(tests)], env=environment, text=True, errors="replace",
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    folder, idle_s = pathlib.Path(f"/proc/{process.pid}"), 0
    while True:
        try:
            return process.communicate(timeout=1)[0], process.returncode
        except subprocess.TimeoutExpired:
            idle_s += not any(stat_of(thread)[0] in ("R", "D") for thread in (folder / "task").iterdir())
            if limit_s is not None and max(stat_of(folder)[1], idle_s) > limit_s:
                os.killpg(process.pid, signal.SIGKILL)
                return process.communicate()[0], None


def first_failure(said, status):
    """The test that failed, and how if not by an assertion; nothing where all passed."""
    if status == 0:
        return None
    failed = re.search(r"^\[  FAILED  \] ([^\s,]+)", said, re.MULTILINE)
    begun = re.findall(r"^\[ RUN      \] (\S+)", said, re.MULTILINE)
    if failed and status is not None:
        return failed[1]
    return f"{begun[-1] if begun else 'before any test'} ({'hangs' if status is None else f'ends with {status}'})"


class Suite:
    """The tests of one executable that a filter names, which must pass without a fault; the quickest first."""

    def __init__(self, folder, binary, tests):
        self.binary = folder / "build" / binary
        said, status = run(self.binary, [tests], 0, None)
        passed = re.findall(r"^\[       OK \] ([^\s,]+).*\((\d+) ms\)$", said, re.MULTILINE)
        if status != 0 or not passed:
            what = first_failure(said, status) or f"{binary} runs nothing"
            raise Failure(f"without a fault: {what}; mend that first:\n{said[-2000:]}")
        self.batches, length_s = [[]], 0
        for name, time_ms in sorted(passed, key=lambda test: int(test[1])):
            if self.batches[-1] and length_s + int(time_ms) / 1000 > BATCH_S:
                self.batches.append([])
                length_s = 0
            self.batches[-1].append(name)
            length_s += int(time_ms) / 1000
        self.count, self.time_s = len(passed), sum(int(time_ms) for _, time_ms in passed) / 1000

    def first_that_sees(self, fault, limit_s):
        for batch in self.batches:
            if seen := first_failure(*run(self.binary, batch, fault, limit_s)):
                return seen
        return None


def text_of(rows, groups, found):
    """A row for each fault, and how many each group sees."""
    lines = []
    for row in rows:
        if row["name"] in found:
            lines.append(f"{row['number']:3} {row['name']} ({row['file']})\n    {row['wrong']}")
            lines += [f"    {name:10} {found[row['name']].get(name) or UNSEEN}" for name in groups]
    for name in groups:
        results = [found[row["name"]].get(name) for row in rows if row["name"] in found]
        lines.append(f"{name}: sees {sum(result is not None for result in results)} of {len(results)}")
    nobody = [row["name"] for row in rows if row["name"] in found and not any(found[row["name"]].values())]
    lines.append(f"seen by none: {', '.join(nobody) or 'no fault'}")
    return "\n".join(lines) + "\n"


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    here = pathlib.Path(__file__)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "build-faults", help="where the copy is or will be")
    parser.add_argument("--list", type=pathlib.Path, default=here.with_suffix(".toml"), help="the faults")
    parser.add_argument("--check", action="store_true", help="only see that the list fits the sources")
    parser.add_argument("--tests", action="append", metavar="NAME=BINARY:FILTER",
                        help=f"tests of a group; a name may come several times (default: {' '.join(GROUPS)})")
    parser.add_argument("--faults", help="names or numbers with commas; default: all")
    parser.add_argument("--also", action="append", default=[], metavar="TARGET", help="build this, too")
    parser.add_argument("--cmake", action="append", default=[], metavar="OPTION", help="for cmake: --cmake=-DFOURFOLD_CUDA=OFF")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="so many compilers at once")
    parser.add_argument("--limit", type=float, default=60,
                        help="seconds of a core, or of wanting none, after which a process counts as one that hangs")
    parser.add_argument("--to", type=pathlib.Path, help="write the table to this file, and results beside it as .json")
    return parser.parse_args()


def chosen(rows, text):
    """The rows that are asked for, in that order."""
    by_name = {row["name"]: row for row in rows} | {str(row["number"]): row for row in rows}
    wanted = text.split(",") if text else [row["name"] for row in rows]
    if unknown := [name for name in wanted if name not in by_name]:
        raise Failure(f"no fault is {', '.join(unknown)}; the list has {', '.join(row['name'] for row in rows)}")
    return [by_name[name] for name in wanted]


def main():
    arguments = parse()
    folder = arguments.folder.resolve()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # many will crash
    try:
        rows = read_faults(arguments.list)
        print(f"{len(rows)} faults in {len({row['file'] for row in rows})} files")
        if arguments.check:
            return 0
        tests = [re.fullmatch(r"(\w+)=(\w+):(.+)", text) or sys.exit(f"error: --tests {text} is not NAME=BINARY:FILTER")
                 for text in arguments.tests or GROUPS]
        groups = {match[1]: [] for match in tests}
        write_tree(folder, rows)
        build(folder, [*dict.fromkeys(match[2] for match in tests), *arguments.also], arguments.cmake, arguments.jobs)
        built_s, found = core_s(), {}
        for name, binary, wanted in (match.groups() for match in tests):
            suite = Suite(folder, binary, wanted)
            groups[name].append(suite)
            print(f"{name}: {suite.count} tests of {binary} pass in {suite.time_s:.0f} s while no fault is on", flush=True)
        for row in chosen(rows, arguments.faults):
            start, found[row["name"]] = time.monotonic(), {}
            for name, suites in groups.items():
                seen = (suite.first_that_sees(row["number"], arguments.limit) for suite in suites)
                found[row["name"]][name] = next((one for one in seen if one), None)
            print(f"{row['number']:3} {row['name']}, {time.monotonic() - start:.0f} s: "
                  + "; ".join(f"{name} {seen or UNSEEN}" for name, seen in found[row["name"]].items()), flush=True)
            if arguments.to:
                arguments.to.write_text(text_of(rows, groups, found))
                arguments.to.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
        print(text_of(rows, groups, found), end="")
        print(f"{built_s:.0f} s of one core to build, {core_s() - built_s:.0f} s to run")
    except Failure as failure:
        print(f"error: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
