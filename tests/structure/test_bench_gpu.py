#!/usr/bin/env python3
"""Tests of scripts/bench-gpu: its table, from outputs as Fourfold prints them and times that were made up; and what it leaves when
programs, which were made up too, hang, fail or are cut off."""
import argparse
import dataclasses
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))
import gpu_table  # noqa: E402

COPY = """NVIDIA H200, 132 multiprocessors, 60.0 MiB of L2
peak: bf16 989, tf32 495, fp32 67 TFLOP/s, 4.80 TB/s (NVIDIA H200 data sheet, 2024)

op                   shape                  kernel                us a call           rate  of peak
copy                 256 MiB                cudaMemcpy                125.0    4294.9 GB/s      89%
copy                 256 MiB                own                       130.0    4129.8 GB/s      86%
triad                256 MiB                own                       190.0    4238.4 GB/s      88%
"""
UNKNOWN = """NVIDIA T4, 40 multiprocessors, 4.00 MiB of L2
no data sheet of it is known here: rates alone

copy                 256 MiB                own                      2000.0     268.4 GB/s        -
"""


def measured():
    times = {"ours": [0.030, 0.033, 0.031], "wide": [0.032, 0.033, 0.031], "compiled": [0.036, 0.0363, 0.0341]}
    return gpu_table.Measured("124m", times, {"ours": 20 * 2**30, "wide": 24 * 2**30, "compiled": 21.5 * 2**30},
                              gpu_table.StepKernels(0.030, 500, {f"void k{i}<128>(float*)": (1e-3 * i, 2) for i in range(30)}))


class Figures(unittest.TestCase):
    def test_model_flops_are_those_of_weights_and_attention(self):
        w = gpu_table.WORKLOADS["124m"]
        tokens = w["batch"] * w["length"]
        # 6 a weight that multiplies (12 h^2 a layer, and the head), and 12 l h s a token for whole attention.
        weights = 12 * w["layers"] * w["hidden"] ** 2 + w["vocab"] * w["hidden"]
        expected = tokens * (6 * weights + 12 * w["layers"] * w["hidden"] * w["length"])
        self.assertAlmostEqual(gpu_table.model_flops(w) / expected, 1, places=12)

    def test_the_sizes_are_those_of_gpt2(self):
        for name, millions in (("124m", 124), ("1.5b", 1558)):
            w = gpu_table.WORKLOADS[name]
            h, layers = w["hidden"], w["layers"]
            # GPT-2's own vocabulary of 50257; ours is padded.
            weights = layers * (12 * h * h + 13 * h) + 50257 * h + w["length"] * h + 2 * h
            self.assertEqual(round(weights / 1e6), millions)

    def test_a_ceiling_is_the_best_copy_beside_the_data_sheet(self):
        limit = gpu_table.ceiling(COPY)
        self.assertEqual((limit.device, limit.peak_flops_per_s), ("NVIDIA H200", 989e12))
        self.assertAlmostEqual(limit.copy_bytes_per_s / 1e9, 4294.9)

    def test_a_gpu_without_data_sheet_has_no_peak(self):
        self.assertIsNone(gpu_table.ceiling(UNKNOWN).peak_flops_per_s)

    def test_no_rate_is_an_error_that_shows_what_was_read(self):
        with self.assertRaisesRegex(ValueError, "nothing here"):
            gpu_table.ceiling("nothing here\n")

    def test_busy_is_the_union_of_what_overlaps(self):
        self.assertEqual(gpu_table.busy_ns([(10, 20), (0, 5), (12, 15), (18, 30), (30, 31)]), 5 + 20 + 1)
        self.assertEqual(gpu_table.busy_ns([]), 0)

    def test_steps_are_the_largest_launches_of_graphs_but_the_first_of_each(self):
        rows = [(1, 0, 0, 900, "before any graph"), (2, 7, 0, 800, "first of its parity"), (2, 7, 800, 1000, "b"),
                (3, 8, 1000, 1900, "first of the other"), (3, 8, 1900, 2000, "b"),
                (4, 7, 2000, 2100, "a"), (4, 7, 2050, 2200, "b"), (5, 8, 3000, 3300, "a"), (5, 8, 3300, 3400, "b"),
                (6, 9, 5000, 9000, "an evaluation")]  # fmt: skip
        found = gpu_table.step_kernels("\t".join(map(str, row)) + "\n" for row in reversed(rows))
        # 200 ns with 50 in which both run, and 400.
        self.assertAlmostEqual(found.busy_s / 300e-9, 1)
        self.assertEqual(found.count, 2)
        self.assertEqual({name: round(1e9 * s) for name, (s, _) in found.by_name.items()}, {"a": 200, "b": 125})
        self.assertEqual({name: count for name, (_, count) in found.by_name.items()}, {"a": 1, "b": 1})

    def test_without_graphs_there_are_no_steps(self):
        self.assertIsNone(gpu_table.step_kernels(["1\t0\t0\t900\tk\n", "2\t0\t0\t900\tk\n"]))

    def test_names_of_kernels_fit_a_table(self):
        self.assertEqual(gpu_table.short_name("void ours::k<128, true>(float const*, int)"), "ours::k<128, true>")
        self.assertEqual(gpu_table.short_name("void ours::(anonymous namespace)::k<(ours::Type)1>(void (*)(int), int)"),
                         "ours::k<(ours::Type)1>")  # fmt: skip
        self.assertEqual(len(gpu_table.short_name("a|b" * 100)), 90)
        self.assertNotIn("|", gpu_table.short_name("a|b"))


class Table(unittest.TestCase):
    def test_rows_have_medians_ratios_within_rounds_and_shares_of_the_peak(self):
        ours, wide, peer = gpu_table.step_rows(measured(), gpu_table.ceiling(COPY))
        self.assertIn("| **Fourfold** | 31.0 (30.0-33.0) | 528516 |  |  |", ours)
        self.assertIn("residual stream in fp32 | 32.0 (31.0-33.0) |", wide)
        # 36/30, 36.3/33 and 34.1/31: taken round by round; to the stream in fp32 36/32 in the first.
        self.assertIn("| PyTorch compiled | 36.0 (34.1-36.3) | 455111 | 1.10 (1.10-1.20) | 1.10 (1.10-1.12) |", peer)
        share = 100 * gpu_table.model_flops(gpu_table.WORKLOADS["124m"]) / 0.031 / 989e12
        self.assertIn(f"| {share:.1f} % | 20.0 |", ours)
        self.assertIn("| 21.5 |", peer)

    def test_time_beyond_kernels_is_a_share_of_theirs(self):
        self.assertTrue(gpu_table.gap_row(measured()).endswith("| 31.00 | 30.00 | 500 | 3.3 % |"))

    def test_kernels_that_were_not_measured_are_no_figure(self):
        without = dataclasses.replace(measured(), kernels=None, why_not="no library")
        self.assertIn("| not measured: no library |", gpu_table.gap_row(without))
        self.assertEqual(gpu_table.profile_rows(without), [])

    def test_a_profile_has_the_longest_kernels_first_and_all_time(self):
        rows = gpu_table.profile_rows(measured())
        self.assertEqual(len(rows), 26)
        self.assertIn("| `k29<128>` | 2 | 29.00 | 6.7 % |", rows[0])
        self.assertIn("| `5 others` | 10 | 10.00 | 2.3 % |", rows[-1])

    def test_the_page_has_every_row_as_wide_as_its_head(self):
        for version in ("2.11.0", None):
            text = gpu_table.page([dataclasses.replace(measured(), version=version)], gpu_table.ceiling(UNKNOWN), "--rounds 5")
            widths, head = [], None
            for line in text.splitlines():
                if line.startswith("|"):
                    head = head or line.count("|")
                    widths.append((line.count("|"), head))
                else:
                    head = None
            self.assertGreater(len(widths), 6)
            self.assertTrue(all(width == head for width, head in widths), widths)
            self.assertEqual("PyTorch 2" in text, version is not None)


def load_script():
    """scripts/bench-gpu as a module."""
    loader = importlib.machinery.SourceFileLoader("bench_gpu", str(ROOT / "scripts/bench-gpu"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    with mock.patch.object(sys, "dont_write_bytecode", True):
        loader.exec_module(module)
    return module


class Plan(unittest.TestCase):
    """Time is made up here: it passes while a program runs, and at no other place."""

    def setUp(self):
        self.script = load_script()
        self.now_s = 0
        self.runs = []
        clock = mock.patch.object(self.script.time, "monotonic", lambda: self.now_s)
        clock.start()
        self.addCleanup(clock.stop)

    def pass_time(self, seconds, most_s):
        self.now_s += min(seconds, most_s)
        if seconds > most_s:
            raise self.script.Stopped(f"it was ended after {most_s:.0f} s")
        return 0.001 * seconds, 1

    def measure(self, rounds, within_s, seconds):
        """Rounds in which programs take so many seconds each; PyTorch's in lower case, ours in gpu_table.OURS."""
        measured = gpu_table.planned("124m", list(seconds), rounds, {})

        def run(key, most_s):
            self.runs.append((key, self.now_s))
            return self.pass_time(seconds[key](len([k for k, _ in self.runs if k == key])), most_s)

        key_of = {tuple(own.items()): key for key, own in gpu_table.OURS.items()}
        peers = {key: mock.Mock(round=lambda steps, most_s, key=key: run(key, most_s)) for key in seconds if key not in gpu_table.OURS}
        bench = self.script.Bench("fourfold", "python", argparse.Namespace(set=[], table=False), {}, "")
        with mock.patch.object(self.script, "fourfold_round", lambda b, w, extra, own, most_s: run(key_of[tuple(own.items())], most_s)), \
                mock.patch.object(self.script, "step_kernels", lambda *_: self.pass_time(1, 9) and (None, "made up")), \
                mock.patch("builtins.print"):  # fmt: skip
            self.script.measure_rounds(bench, measured, peers, self.script.Allowed(within_s), [], lambda: None)
        return measured

    def test_no_round_begins_that_would_not_end_in_time(self):
        # A round takes 30 s, once 36; the kernels take 1 s after the first. When the third begins 36 s are left.
        measured = self.measure(5, 103, {"ours": lambda turn: 10, "compiled": lambda turn: 26 if turn == 2 else 20})
        self.assertEqual({key: len(values) for key, values in measured.times.items()}, {"ours": 3, "compiled": 3})
        self.assertEqual(measured.failed, set())
        lines = gpu_table.short_rows(measured)
        self.assertIn("**Fourfold**: 3 of 5 rounds: a round takes 36.0 s, and 6.0 s were left", lines[0])
        self.assertEqual(len(lines), 2)

    def test_all_rounds_that_fit_are_done(self):
        measured = self.measure(3, 91, {"ours": lambda turn: 10, "compiled": lambda turn: 20})
        self.assertEqual(len(measured.times["compiled"]), 3)
        self.assertEqual((self.now_s, gpu_table.short_rows(measured)), (91, []))

    def test_a_program_that_hangs_in_a_round_leaves_time_for_the_others(self):
        measured = self.measure(3, 200, {"ours": lambda turn: 10, "compiled": lambda turn: 20 if turn == 1 else 1e9, "eager": lambda turn: 5})
        self.assertEqual({key: len(values) for key, values in measured.times.items()}, {"ours": 3, "compiled": 1, "eager": 3})
        # 200 - 35 - 1 - 10, and half of that.
        self.assertIn("PyTorch compiled: 1 of 3 rounds: round 2: it was ended after 77 s", gpu_table.short_rows(measured)[0])
        self.assertEqual(measured.failed, {"compiled"})
        self.assertLess(self.now_s, 200)

    def test_the_reason_of_a_failure_is_one_line_without_the_command(self):
        with mock.patch("builtins.print"):
            self.assertEqual(self.script.reason(self.script.Stopped("bench-gpu: f train --set a=b\nended with code 2:\nx: error: no | key\n ^~~")),
                             "ended with code 2: x: error: no / key")  # fmt: skip
            self.assertEqual(self.script.reason(self.script.Stopped("bench-gpu: `f bench` ended with code 7: out of memory\n")),
                             "ended with code 7: out of memory")  # fmt: skip
            self.assertEqual(self.script.reason(self.script.Stopped("it was ended after 9 s")), "it was ended after 9 s")

    def test_half_an_hour_is_planned_by_workload_and_other_options_win(self):
        def planned(*words):
            with mock.patch.object(sys, "argv", ["bench-gpu", *words]):
                plan, wanted = self.script.planned(self.script.arguments(), {})
            return {measured.name: (measured.rounds, *wanted[measured.name]) for measured in plan}

        self.assertEqual(planned("--half-hour"), {"124m": (3, "compiled"), "1.5b": (2, "blocks")})
        self.assertEqual(planned("--half-hour", "--rounds", "7", "--no-peer", "--workloads", "1.5b"), {"1.5b": (7,)})
        self.assertEqual(planned(), {"124m": (5, "compiled"), "1.5b": (5, "compiled")})
        self.assertLess(self.script.HALF_HOUR_S, 540)


# Fourfold and Python at once, by what they are called with. Each call is a line of LOG, with its process. A call whose words match HANG
# never ends; one that matches FAIL fails. A peer that is asked for its second round in a run whose words match STALL never answers.
PROGRAM = r"""#!/bin/bash
words="EARLY=$FOURFOLD_EARLY_LAUNCH CANDIDATE=$CANDIDATE ${CUDA_INJECTION64_PATH:+CUPTI} $*"
echo "$$ $words" >>"$LOG"
if [[ -n $HANG && $words =~ $HANG ]]; then exec sleep 600; fi
if [[ -n $FAIL && $words =~ $FAIL ]]; then echo 'made to fail' && exit 5; fi
case "$1 $2" in
  'bench copy') echo "$COPY" ;;
  'bench kernels') ;;
  train*)
    [[ $words =~ run\.dir=([^ ]+) ]] && mkdir -p "${BASH_REMATCH[1]}"
    for step in {1..60}; do echo '{"step_time_s": 0.030, "memory_bytes": 1073741824}'; done >"${BASH_REMATCH[1]}/metrics.jsonl"
    ;;
  *torch_gpt.py*)
    echo '{"ready": true, "torch": "2.made-up", "attention": "flash"}'
    turn=0
    while read -r steps; do
      turn=$((turn + 1))
      if [[ -n $STALL && $turn -eq 2 && $words =~ $STALL ]]; then exec sleep 600; fi
      echo '{"step_s": [0.036, 0.036], "peak_bytes": 2147483648}'
    done
    ;;
esac
"""


class Cut(unittest.TestCase):
    """Runs of the script."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.program, self.log = self.folder / "program", self.folder / "log"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)
        (self.folder / "libkernel_times.so").touch()
        self.page = self.folder / "page.md"
        self.addCleanup(self.end_all)

    def calls(self):
        """Process and words of all calls of programs."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [(int(line.split(" ", 1)[0]), line.split(" ", 1)[1]) for line in lines]

    def sleeping(self):
        """The calls that hang."""
        found = []
        for pid, _ in self.calls():
            try:
                if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\x00600"):
                    found.append(pid)
            except OSError:
                pass
        return found

    def end_all(self):
        for pid in self.sleeping():
            os.kill(pid, signal.SIGKILL)

    def start(self, *words, page=None, **variables):
        environment = {**os.environ, "LOG": str(self.log), "HANG": "", "FAIL": "", "STALL": "", "COPY": COPY, "CANDIDATE": "",
                       "FOURFOLD_EARLY_LAUNCH": "", "TORCH_PYTHON": str(self.program), **variables}  # fmt: skip
        command = [sys.executable, str(ROOT / "scripts/bench-gpu"), "--binary", str(self.program), "--workloads", "124m",
                   "-o", str(page or self.page), *words]  # fmt: skip
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, process):
        try:
            out, errors = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            self.end_all()
            self.fail(f"{process.args} does not end")
        return subprocess.CompletedProcess(process.args, process.returncode, out, errors)

    def wait_for(self, process, text):
        """Until the page has a text, or the script ends."""
        while process.poll() is None and not (self.page.exists() and text in self.page.read_text()):
            time.sleep(0.02)

    def test_candidates_are_rows_in_the_same_rounds_and_unwanted_rows_are_left_out(self):
        done = self.end(self.start("--rounds", "2", "--only-ours", "ours", "--candidate", "tiled=CANDIDATE:7,memory.tile:a:b",
                                   "--candidate", "plain=optimizer.lr:3"))  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        timed = [words for _, words in self.calls() if " train " in words and "CUPTI" not in words]
        self.assertEqual(len(timed), 6)
        for first in (0, 3):
            ours, tiled, plain = timed[first : first + 3]
            self.assertTrue(ours.startswith("EARLY= CANDIDATE= ") and "optimizer.lr=3" not in ours)
            self.assertTrue(tiled.startswith("EARLY= CANDIDATE=7 ") and " memory.tile=a:b " in tiled)
            self.assertTrue(plain.startswith("EARLY= CANDIDATE= ") and " optimizer.lr=3 " in plain)
        page = self.page.read_text()
        self.assertIn("| **Fourfold**, tiled: CANDIDATE 7, memory.tile a:b | 30.0 (30.0-30.0) | 546133 | 1.00 (1.00-1.00) |", page)
        self.assertNotIn("kernels begin early |", page)
        self.assertNotIn("Fewer rounds", page)

    def test_after_any_kill_the_page_has_what_was_done(self):
        # One hangs where it is asked for its second round, when the others have done theirs.
        process = self.start("--rounds", "2", "--peers", "eager,compiled", "--only-ours", "ours", STALL="--compile")
        while process.poll() is None and not self.sleeping():
            time.sleep(0.02)
        process.kill()
        # What hangs holds the ends of our pipes.
        self.end_all()
        process.communicate()
        page = self.page.read_text()
        self.assertIn("| **Fourfold** | 30.0 (30.0-30.0) |", page)
        self.assertIn("PyTorch compiled | 36.0 (36.0-36.0)", page)
        self.assertNotIn("PyTorch eager: ", page)
        self.assertRegex(page, r"PyTorch compiled: 1 of 2 rounds: the command had not ended when this was written")
        self.assertIn("NVIDIA H200", page)

    def test_told_to_end_it_ends_what_it_has_started(self):
        process = self.start("--rounds", "2", "--only-ours", "ours", HANG="--compile")
        self.wait_for(process, "NVIDIA H200")
        while process.poll() is None and not self.sleeping():
            time.sleep(0.02)
        process.terminate()
        done = self.end(process)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("it was told to end; what it had measured stands in", done.stderr)
        self.assertEqual(self.sleeping(), [])
        self.assertIn("PyTorch compiled: 0 of 2 rounds: the command had not ended", self.page.read_text())

    def test_whatever_hangs_it_ends_in_time_and_the_page_says_what(self):
        told = {
            "bench copy": r"`fourfold bench copy`: it was ended after \d+ s",
            "bench kernels": r"no kernels were measured, so Fourfold took its built-in choice: it was ended after",
            " --compile": r"PyTorch compiled: 0 of 1 rounds: it was not ready: it was ended after \d+ s",
            "train .*residual=fp32": r"residual stream in fp32: 0 of 1 rounds: round 1: it was ended after \d+ s",
            "CUPTI train": r"not measured: it was ended after \d+ s",
        }
        # All at once, as they only wait.
        started = {}
        for place, hang in enumerate(told):
            page = self.folder / f"{place}.md"
            started[hang] = page, self.start("--rounds", "1", "--within", "6", "--only-ours", "ours,wide", page=page, HANG=hang)
        look = self.start("--within", "3", HANG="import torch")
        for hang, (page, process) in started.items():
            done = self.end(process)
            with self.subTest(hang=hang):
                text = page.read_text()
                self.assertRegex(text, told[hang])
                self.assertEqual(done.returncode, 0 if "CUPTI" in hang else 1, done.stdout + done.stderr)
                # The others are there.
                self.assertRegex(text, r"\| \*\*Fourfold\*\* \| 30\.0 ")
                self.assertEqual(bool(re.search(r"PyTorch compiled \| 36\.0 ", text)), "--compile" not in hang)
        self.assertIn("has no PyTorch that sees the GPU", self.end(look).stderr)
        self.assertIn("0 of 5 rounds", self.page.read_text())
        self.assertEqual(self.sleeping(), [])

    def test_a_program_that_fails_is_told_and_the_others_go_on(self):
        done = self.end(self.start("--rounds", "2", "--no-peer", "--only-ours", "ours", "--candidate", "odd=CANDIDATE:9", FAIL="CANDIDATE=9"))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        page = self.page.read_text()
        self.assertIn("**Fourfold** | 30.0 (30.0-30.0)", page)
        self.assertRegex(page, r"odd: CANDIDATE 9: 0 of 2 rounds: round 1: ended with code 5: made to fail")
        self.assertNotIn("**Fourfold**: ", page)


class Scripts(unittest.TestCase):
    def run_script(self, name, *arguments):
        return subprocess.run([str(ROOT / "scripts" / name), *arguments], capture_output=True, text=True)

    def test_benches_beside_pytorch_explain_themselves(self):
        for name in ("bench-cpu", "bench-gpu", "bench-ranks"):
            done = self.run_script(name, "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("--workloads", done.stdout)

    def test_what_is_missing_or_unknown_is_said_in_one_line(self):
        for arguments, part in ((("--binary", "/nonexistent"), "is missing; run scripts/gpu-check"),
                                (("--binary", sys.executable, "--workloads", "124m,3b"), "unknown workload 3b"),
                                (("--binary", sys.executable, "--peers", "jax"), "unknown peer jax"),
                                (("--candidate", "fast"), "--candidate is 'fast'; expected NAME=KEY:VALUE"),
                                (("--candidate", "wide=A:1"), "the name wide is taken"),
                                (("--only-ours", "narrow"), "unknown row narrow"),
                                (("--only-ours", ""), "leaves no row of Fourfold"),
                                (("--binary", sys.executable, "--within", "0"), "--within takes seconds")):
            done = self.run_script("bench-gpu", *arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(part, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
