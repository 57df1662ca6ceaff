#!/usr/bin/env python3
"""Tests of what scripts/bench-gpu leaves when programs, which were made up, hang, fail, answer wrongly or are cut off."""
import contextlib
import io
import multiprocessing
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest
from unittest import mock

from made_up import ROOT
from test_bench_gpu import COPY, SUBJECT

import gpu_plan
import results

# Fourfold and Python at once, by what they are called with. Each call is a line of LOG, with its process. A call whose words match
# HANG never ends; one that matches FAIL fails. A peer that is asked for its second round in a run whose words match STALL never
# answers.
PROGRAM = r"""#!/bin/bash
words="EARLY=$FOURFOLD_EARLY_LAUNCH CANDIDATE=$CANDIDATE ${CUDA_INJECTION64_PATH:+CUPTI} $*"
echo "$$ $words" >>"$LOG"
if [[ -n $HANG && $words =~ $HANG ]]; then exec sleep 600; fi
if [[ -n $FAIL && $words =~ $FAIL ]]; then echo 'made to fail' && exit 5; fi
case "$1 $2" in
  'bench copy') echo "$COPY" ;;
  'bench kernels') ;;
  train*)
    [[ $words =~ run\.dir=([^ ]+) ]] && { [[ -d ${BASH_REMATCH[1]} ]] || mkdir -p "${BASH_REMATCH[1]}"; }
    for step in {1..60}; do
      echo '{"step_time_s": 0.030, "memory_bytes": 1073741824, "loss": 10.9}'
    done >"${BASH_REMATCH[1]}/metrics.jsonl"
    ;;
  *torch_gpt.py* | *torch_pictures.py*)
    echo '{"ready": true, "torch": "2.made-up", "attention": "flash", "loss": '"$LOSS"'}'
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

    def variables(self, **more):
        return {**os.environ, "LOG": str(self.log), "HANG": "", "FAIL": "", "STALL": "", "COPY": COPY, "CANDIDATE": "",
                "FOURFOLD_EARLY_LAUNCH": "", "TORCH_PYTHON": str(self.program), "LOSS": "10.91", **more}  # fmt: skip

    def command(self, *words, page=None):
        return [str(ROOT / "scripts/bench-gpu"), "--binary", str(self.program), "--workloads", "124m", "-o", str(page or self.page),
                *words]  # fmt: skip

    def start(self, *words, page=None, **variables):
        """A run in a process of its own, which is a copy of this one: no Python starts anew."""
        said = self.folder / f"said-{len(list(self.folder.glob('said-*')))}"
        said.touch()

        def run():
            with open(said, "w", encoding="utf-8") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            sys.argv = self.command(*words, page=page)
            os.environ.update(self.variables(**variables))
            gpu_plan.main(SUBJECT)

        process = multiprocessing.get_context("fork").Process(target=run)
        process.said = said
        process.start()
        return process

    def run_here(self, *words, **variables):
        """The exit code of a run in this process, which is quicker."""
        with mock.patch.object(sys, "argv", self.command(*words)), mock.patch.dict(os.environ, self.variables(**variables)), \
                contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # fmt: skip
            self.addCleanup(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
            with self.assertRaises(SystemExit) as ended:
                gpu_plan.main(SUBJECT)
        return ended.exception.code

    def rows(self, page=None, table="Training steps beside PyTorch's"):
        """Figures of the rows of a table by program, or all of them in their order."""
        found = [row for row in results.read(results.data_of(str(page or self.page))) if row["table"] == table]
        return {row["of"].get("program", place): row["figures"] for place, row in enumerate(found)}

    def end(self, process):
        """Its exit code, and what it said."""
        process.join(60)
        if process.exitcode is None:
            process.kill()
            self.end_all()
            self.fail(f"{process.said.read_text()}: it does not end")
        return process.exitcode, process.said.read_text()

    def wait_for_sleep(self, process):
        """Until a program hangs, or the script ends."""
        while process.is_alive() and not self.sleeping():
            time.sleep(0.02)

    def test_networks_on_pictures_are_measured_beside_pytorch_with_channels_last(self):
        code = self.run_here("--workloads", "unet,vgg19", "--rounds", "1")
        self.assertEqual(code, 0, self.page.read_text())
        words = [words for _, words in self.calls()]
        peers = [one for one in words if "torch_pictures.py" in one]
        self.assertEqual(len(peers), 2)
        self.assertIn("--network=unet --channels 128 --mult 1 2 2 2", peers[0])
        self.assertTrue(all("--compile --bf16 --channels-last --device=cuda" in one for one in peers), peers)
        self.assertFalse([one for one in words if "precision.residual" in one])
        self.assertTrue([one for one in words if " train " in one and "unet.channels=128" in one and "unet.picture=[32, 32, 3]" in one])
        rows = self.rows(table="Training steps on pictures beside PyTorch's")
        self.assertEqual([*rows], ["Fourfold", "Fourfold, kernels begin early", "PyTorch compiled"])
        self.assertIn("VGG19, 64 pictures of 224 x 224", self.page.read_text())

    def test_candidates_are_rows_in_the_same_rounds_and_unwanted_rows_are_left_out(self):
        code = self.run_here("--rounds", "2", "--only-ours", "ours", "--candidate", "tiled=CANDIDATE:7,memory.tile:a:b",
                             "--candidate", "plain=optimizer.lr:3")  # fmt: skip
        self.assertEqual(code, 0, self.page.read_text())
        timed = [words for _, words in self.calls() if " train " in words and "CUPTI" not in words]
        kinds = [[name for name, text in (("tiled", "CANDIDATE=7 "), ("tiled", " memory.tile=a:b "), ("plain", " optimizer.lr=3 "))
                  if text in words] for words in timed]  # fmt: skip
        self.assertEqual(kinds, [[], ["tiled"] * 2, ["plain"], ["tiled"] * 2, ["plain"], []])
        self.assertTrue(all(words.startswith("EARLY= ") for words in timed))
        rows = self.rows()
        self.assertEqual([*rows], ["Fourfold", "Fourfold, tiled: CANDIDATE 7, memory.tile a:b", "Fourfold, plain: optimizer.lr 3",
                                   "PyTorch compiled"])  # fmt: skip
        tiled = rows["Fourfold, tiled: CANDIDATE 7, memory.tile a:b"]
        self.assertEqual((tiled["step_ms"], tiled["tokens_per_s"], tiled["times_as_fast"]), ([30, 30, 30], 546100, [1, 1, 1]))
        self.assertEqual({row["rounds"] for row in rows.values()}, {2})
        # Nothing says where programs and pages lie on this machine.
        self.assertNotIn(str(self.folder), self.page.read_text())
        self.assertIn("`scripts/bench-gpu --workloads 124m --rounds 2 --only-ours ours --candidate tiled=CANDIDATE:7,memory.tile:a:b",
                      self.page.read_text())  # fmt: skip

    def test_after_any_kill_the_page_has_what_was_done(self):
        # One hangs where it is asked for its second round; the second begins with eager.
        process = self.start("--rounds", "2", "--peers", "eager,compiled", "--only-ours", "ours", STALL="--compile")
        self.wait_for_sleep(process)
        process.kill()
        self.end_all()
        process.join()
        rows, cut = self.rows(), "1 of 2: the command had not ended when this was written"
        self.assertEqual([row["rounds"] for row in rows.values()], [cut, 2, cut])
        self.assertEqual((rows["Fourfold"]["step_ms"], rows["PyTorch compiled"]["step_ms"]), ([30, 30, 30], [36, 36, 36]))
        self.assertIn("NVIDIA H200", self.page.read_text())
        self.assertIn(cut, self.page.read_text())

    def test_told_to_end_it_ends_what_it_has_started(self):
        process = self.start("--rounds", "2", "--only-ours", "ours", HANG="--compile")
        self.wait_for_sleep(process)
        process.terminate()
        code, said = self.end(process)
        self.assertEqual(code, 1, said)
        self.assertIn("it was told to end; what it had measured stands in", said)
        self.assertEqual(self.sleeping(), [])
        self.assertEqual(self.rows()["PyTorch compiled"]["rounds"], "0 of 2: the command had not ended when this was written")

    def test_whatever_hangs_it_ends_in_time_and_the_page_says_what(self):
        ended = r"it was ended after \d+ s"
        told = {
            "bench copy": ("Remarks", 0, "`fourfold bench copy`: " + ended),
            "bench kernels": ("Remarks", 0, "no kernels were measured, so Fourfold took its built-in choice: " + ended),
            " --compile": ("Training steps beside PyTorch's", "PyTorch compiled", "0 of 1: it was not ready: " + ended),
            "train .*residual=fp32": ("Training steps beside PyTorch's", "Fourfold, residual stream in fp32",
                                      "0 of 1: round 1: " + ended),
            "CUPTI train": ("Where a step is longer than its kernels", 0, "not measured: " + ended),
        }
        # All at once, as they only wait.
        started = {}
        for place, hang in enumerate(told):
            page = self.folder / f"{place}.md"
            started[hang] = page, self.start("--rounds", "1", "--within", "6", "--only-ours", "ours,wide", page=page, HANG=hang)
        look = self.start("--within", "3", HANG="import torch")
        for hang, (page, process) in started.items():
            code, said = self.end(process)
            with self.subTest(hang=hang):
                table, program, words = told[hang]
                self.assertRegex(str(self.rows(page, table)[program]), words)
                self.assertEqual(code, 0 if "CUPTI" in hang else 1, said)
                # The others are there.
                rows = self.rows(page)
                self.assertEqual(rows["Fourfold"]["step_ms"], [30, 30, 30])
                self.assertEqual(rows["PyTorch compiled"]["step_ms"], None if "--compile" in hang else [36, 36, 36])
        self.assertIn("has no PyTorch that sees the GPU", self.end(look)[1])
        self.assertTrue(all(row["rounds"].startswith("0 of 5: ") for row in self.rows().values()))
        self.assertEqual(self.sleeping(), [])

    def test_a_program_that_fails_or_answers_wrongly_is_told_and_the_others_go_on(self):
        words = ("--rounds", "2", "--only-ours", "ours", "--candidate", "odd=CANDIDATE:9")
        self.assertEqual(self.run_here(*words, "--no-peer", FAIL="CANDIDATE=9"), 1)
        rows = self.rows()
        self.assertEqual((rows["Fourfold"]["step_ms"], rows["Fourfold"]["rounds"]), ([30, 30, 30], 2))
        self.assertEqual(rows["Fourfold, odd: CANDIDATE 9"]["rounds"], "0 of 2: round 1: ended with code 5: made to fail")
        self.assertEqual(self.run_here(*words, LOSS="11.5"), 1)
        remark = "the first loss of `PyTorch compiled` is 11.5, and 10.9 of Fourfold"
        self.assertEqual(self.rows(table="Remarks"), {0: {"remark": remark}})


if __name__ == "__main__":
    unittest.main()
