#!/usr/bin/env python3
"""Tests of scripts/gpu-check with a program that was made up: what it leaves when parts fail, hang or are cut off."""
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECK = ROOT / "scripts/gpu-check"
GPU = "ok    gpu 0       Made Up, 9.0"
NO_GPU = "warn  gpu         none that can be used\n      -> no NVIDIA driver answers;\n         install one"
FOURFOLD = """#!/bin/bash
case $1 in
  --version) {version} ;;
  doctor) echo '{doctor}' ;;
  bench) echo "rate of $2"; [[ $2 != {slow} ]] || sleep 20 ;;
  *) exit 5 ;;
esac
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "packed/bin").mkdir(parents=True)
        self.table = self.folder / "table.md"

    def make(self, doctor=GPU, slow="nothing", version="true"):
        program = self.folder / "packed/bin/fourfold"
        program.write_text(FOURFOLD.format(doctor=doctor, slow=slow, version=version))
        program.chmod(0o755)

    def command(self, *words):
        return [str(CHECK), "--prebuilt", str(self.folder / "packed"), "-o", str(self.table), *words]

    def check(self, *words):
        return subprocess.run(self.command(*words), capture_output=True, text=True, cwd=self.folder)

    def test_a_part_that_hangs_is_stopped_and_what_it_did_is_kept(self):
        self.make(slow="gemm")
        begin = time.monotonic()
        done = self.check("--only", "bench,loss", "--within", "3")
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(done.returncode, 29, done.stdout + done.stderr)
        table = self.table.read_text()
        self.assertIn("| doctor | ok |", table)
        self.assertRegex(table, r"\| bench \| STOPPED \| after its [123] s: copy done, then code 124 in 'gemm', see below")
        self.assertIn("rate of copy", table)
        self.assertIn("rate of gemm", table)

    def test_who_is_cut_off_leaves_the_parts_that_were_done(self):
        self.make(slow="gemm")
        process = subprocess.Popen(self.command("--only", "bench,peer"), stdout=subprocess.DEVNULL, start_new_session=True)
        for _ in range(200):
            time.sleep(0.05)
            if self.table.exists():
                break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        # `timeout` has a group of its own, which ends with its command.
        self.assertIn("| doctor | ok |", self.table.read_text())

    def test_without_a_gpu_one_line_says_why_and_the_code_is_13(self):
        self.make(doctor=NO_GPU)
        for half, part in (("1", "racecheck"), ("2", "peer")):
            done = self.check("--half", half)
            self.assertEqual((done.returncode, done.stdout), (13, ""))
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn("no GPU can be used: no NVIDIA driver answers; install one", done.stderr)
            self.assertIn(f"| {part} | skipped | no GPU |", self.table.read_text())

    def test_a_library_that_is_missing_is_named_in_one_line(self):
        error = "fourfold: error while loading shared libraries: libcublasLt.so.13: cannot open shared object file"
        self.make(version=f"echo '{error}' >&2; exit 127")
        done = self.check("--half", "1")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (13, "", 1))
        self.assertIn("libcublasLt.so.13 is not on this machine; install", done.stderr)

    def test_each_half_fits_a_call_of_nine_minutes(self):
        text = CHECK.read_text()
        seconds = {name: int(value) for name, value in re.findall(r"\[(\w+)\]=(\d+)", text)}
        help_text = {m[0]: int(m[2]) for m in re.findall(r"^  (\w+) +(-|1 2|1|2) +(\d+)  ", text, re.MULTILINE)}
        self.assertEqual(help_text, seconds)
        halves = {half: re.search(rf"half_{half}=\(([\w ]+)\)", text)[1].split() for half in "12"}
        self.assertEqual(sorted(halves["1"] + halves["2"] + ["build", "doctor"]), sorted(seconds))
        # Those of the first run side by side.
        self.assertLess(seconds["doctor"] + max(seconds[part] for part in halves["1"]), 540)
        self.assertLess(seconds["doctor"] + sum(seconds[part] for part in halves["2"]), 540)

    def test_wrong_options_are_one_line(self):
        for words, part in ((("--half", "3"), "choose 1 or 2"), (("--only", "x"), "unknown part 'x'"),
                            (("--jobs", "0"), "--jobs is '0'"), (("--within", "x"), "--within is 'x'"),
                            (("--prebuilt", "/nonexistent"), "give what scripts/gpu-check --pack wrote")):  # fmt: skip
            self.make()
            done = self.check(*words)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main()
