#!/usr/bin/env python3
"""Tests of scripts/gpu-check with a program that was made up: what it leaves when parts fail, hang or are cut off."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECK = ROOT / "scripts/gpu-check"
GPU = "ok    gpu 0       Made Up, 9.0"
NO_GPU = "warn  gpu         none that can be used\n      -> no NVIDIA driver answers;\n         install one"
# All programs at once, by the name under which each is called. Its words go to LOG. A call whose words match HANG never ends, one that
# matches FAIL fails; an mpirun that matches DEAF does not notice that a rank has ended.
PROGRAM = r"""#!/bin/bash
name=${0##*/} words="${0##*/} $*"
echo "$words" >>"$LOG"
if [[ -n $HANG && $words =~ $HANG ]]; then exec sleep 600; fi
if [[ -n $FAIL && $words =~ $FAIL ]]; then echo 'made to fail' && exit 5; fi
train() {
  [[ $words =~ run\.dir=([^ ]+) ]] && { [[ -d ${BASH_REMATCH[1]} ]] || mkdir -p "${BASH_REMATCH[1]}"; }
  echo 'ranks: between ranks by NCCL'
  : >"${BASH_REMATCH[1]}/model.safetensors"
  for step in {1..20} {50..500..50}; do
    echo "{\"step\": $step, \"loss\": 2.5, \"val_loss\": 2.5}"
  done >"${BASH_REMATCH[1]}/metrics.jsonl"
  if [[ $words == *train.steps=100000* ]]; then exec sleep 600; fi
}
case $name in
  pgrep) exit 127 ;;
  python)
    while [[ $# -gt 0 && $1 != -o ]]; do shift; done
    if [[ $# -gt 0 ]]; then echo 'a page of bench-gpu' >"$2"; fi
    ;;
  mpirun)
    [[ "$1 $3 $4 $5" == '-np --oversubscribe --bind-to none' ]] || exit 6
    for ((rank = 0; rank < $2; rank++)); do OMPI_COMM_WORLD_RANK=$rank "${@:6}" & done
    if [[ -n $DEAF && $words =~ $DEAF ]]; then wait; fi
    while [[ -n $(jobs -rp) ]]; do
      wait -n || { code=$? && kill $(jobs -rp) && exit "$code"; }
    done
    ;;
  compute-sanitizer) printf '%s\n' '[       OK ] one' '=== ERROR SUMMARY: 0 errors' ;;
  test_*) if [[ $2 == --gtest_list_tests || $1 == --gtest_list_tests ]]; then echo '  own/abs_1'; else echo '[  PASSED  ] 3 tests.'; fi ;;
  fourfold)
    case $1 in
      --version) if [[ -n $BROKEN ]]; then echo "$BROKEN" >&2 && exit 127; fi ;;
      doctor) if [[ $2 == --job ]]; then echo 'GPUs, NCCL'; else echo "$DOCTOR"; fi ;;
      bench) echo "rate of $2" ;;
      train) train ;;
      *) exit 5 ;;
    esac
    ;;
esac
"""
# A call of each part, which then hangs, and the exit code for it.
HANGS = {
    "doctor": ("fourfold doctor --color", 21), "kernels": ("test_numerics_cuda --gtest_filter", 22),
    "models": ("test_device_gpu", 23), "memcheck": ("compute-sanitizer", 24), "racecheck": ("gtest_list_tests", 25),
    "repeat": ("/again-", 26), "resume": ("--stop-at", 27), "loss": ("text-bf16", 28), "bench": ("bench attention", 29),
    "peer": ("import torch; assert", 30), "grids": ("/eight-", 31), "nccl": ("test_nccl_gpu", 32), "stages": ("/stages-two-", 33),
    "job": ("doctor --job", 34), "killed": ("/killed-", 35), "pictures": ("/again-vgg", 36), "unets": ("unet-2b", 37),
    "picture_loss": ("/pictures-bf16", 38), "picture_peer": ("import torch; assert", 39),
}  # fmt: skip


class GpuCheck(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.packed = self.folder / "packed"
        (self.packed / "bin").mkdir(parents=True)
        (self.packed / "text.txt").write_text("a text")
        (self.packed / "operations.txt").write_text("abs\n")
        (self.packed / "commit.txt").write_text("1234abc\n")
        self.pictures = self.folder / "pictures"
        self.pictures.mkdir()
        (self.pictures / "test_batch.bin").write_text("some pictures")
        self.path = self.folder / "path"
        self.path.mkdir()
        program = self.folder / "program"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        for name in ("fourfold", "test_numerics_cuda", "test_device_gpu", "test_nccl_gpu"):
            (self.packed / "bin" / name).symlink_to(program)
        for name in ("mpirun", "pgrep", "python", "compute-sanitizer"):
            (self.path / name).symlink_to(program)
        self.table, self.log = self.folder / "table.md", self.folder / "log"

    def start(self, *words, table=None, **variables):
        environment = {**os.environ, "DOCTOR": GPU, "HANG": "", "FAIL": "", "DEAF": "", "BROKEN": "", "LOG": str(self.log),
                       "TORCH_PYTHON": "python", "PATH": f"{self.path}:{os.environ['PATH']}", **variables}  # fmt: skip
        command = [str(CHECK), "--prebuilt", str(self.packed), "--pictures", str(self.pictures), "-o", str(table or self.table), *words]
        return subprocess.Popen(command, env=environment, cwd=self.folder, start_new_session=True, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip

    def end(self, process):
        """Its output; a process that does not end is a failure."""
        try:
            out, errors = process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.fail(f"{process.args} does not end")
        return subprocess.CompletedProcess(process.args, process.returncode, out, errors)

    def check(self, *words, **variables):
        return self.end(self.start(*words, **variables))

    def cut_off(self, until, *words, **variables):
        """Kills it when its table has a text; the table that it leaves."""
        process = self.start(*words, **variables)
        while process.poll() is None and not (self.table.exists() and until in self.table.read_text()):
            time.sleep(0.02)
        # `timeout` has a group of its own, which ends with its command.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return self.table.read_text()

    def test_what_exchanges_runs_first_and_alone_five_times(self):
        done = self.check("--half", "1")
        table = self.table.read_text()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = re.findall(r"^\| (\w+) \| ok \|", table, re.MULTILINE)
        self.assertEqual(rows[:5], ["doctor", "nccl", "stages", "job", "killed"])
        self.assertEqual(sorted(rows[5:]), sorted(["kernels", "models", "memcheck", "racecheck", "repeat", "resume", "grids", "all"]))
        # Where the calls of each part begin in the log, and where they end.
        calls = self.log.read_text().splitlines()
        places = {}
        for part in ("nccl", "stages", "job", "killed"):
            found = [i for i, words in enumerate(calls) if re.search({**HANGS, "job": ("--job",), "stages": ("/stages-",)}[part][0], words)]
            places[part] = (found[0], found[-1])
        others = [i for i, words in enumerate(calls) if re.search(r"numerics|device_gpu|sanitizer|/(once|whole|one|eight)-", words)]
        order = [*places["nccl"], *places["stages"], *places["job"], *places["killed"], min(others)]
        self.assertEqual(order, sorted(order))
        self.assertIn(", commit 1234abc.\n", table)
        # What they print stands in the table.
        self.assertIn("## Two processes, by_nccl", table)
        # Stages and killed ranks are tried five times, and no pgrep is needed.
        self.assertRegex(table, r"\| stages \| ok \| two stages by NCCL .*: 5 of 5, losses differ by 0 %.*; 2 stages x 2 columns: 1 of 1,")
        self.assertRegex(table, r"\| killed \| ok \| .*by way of the host 5 of 5, the slowest after \d+ ms; by NCCL 5 of 5, the slowest")
        for turn in range(1, 6):
            self.assertEqual(sum(words.startswith("fourfold train") and f"/stages-two-{turn} " in words for words in calls), 2)
        four = [words for words in calls if words.startswith("fourfold train") and "/stages-four-1 " in words]
        self.assertEqual(len(four), 4)
        self.assertIn("--set parallel.pipeline.stages=2 --set parallel.tensor.x=2", four[0])
        self.assertFalse([words for words in calls if words.startswith("pgrep")])

    def test_the_third_half_trains_and_measures_networks_on_pictures(self):
        done = self.check("--half", "3")
        table = self.table.read_text()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = re.findall(r"^\| (\w+) \| ok \|", table, re.MULTILINE)
        self.assertEqual(rows, ["doctor", "pictures", "unets", "picture_loss", "picture_peer", "all"])
        self.assertIn("20 steps in fp32 bf16: the same weights twice and resumed; losses beside the CPU's: unet 0 % at most", table)
        self.assertIn("all kernels of a rank of 250M 500M 1B 2B 4B", table)
        self.assertIn("bf16 and fp32 differ by 0 % at most at 10 points", table)
        self.assertIn("a page of bench-gpu", table)
        calls = self.log.read_text()
        self.assertIn("--set unet.picture=[24, 24, 3]", calls)
        self.assertRegex(calls, r"python scripts/bench-gpu --workloads unet,vgg19 ")
        self.assertIn(f"data.path={self.pictures}", calls)

    def test_after_a_try_that_hangs_or_fails_the_others_run(self):
        # What hangs is ended after --try; all else takes the time of some processes.
        stages = self.start("--only", "stages", "--try", "2", table=self.folder / "stages.md", HANG="/stages-two-2 ", FAIL="/stages-two-4 ")
        killed = self.start("--only", "killed", "--try", "2", DEAF="killed-two_by_nccl-3", FAIL="killed-two_processes-2")
        done = self.end(stages)
        self.assertEqual(done.returncode, 33, done.stdout + done.stderr)
        table = (self.folder / "stages.md").read_text()
        self.assertRegex(table, r"\| stages \| FAILED \| .*: 3 of 5; try 2: training 'stages-two-2' .* code 124, after \d+ s, "
                                r"losses differ by .*; 2 stages x 2 columns: 1 of 1, ")  # fmt: skip
        self.assertIn("## Stages as processes, stages-two-4", table)
        done = self.end(killed)
        self.assertEqual(done.returncode, 35, done.stdout + done.stderr)
        self.assertRegex(self.table.read_text(), r"\| killed \| FAILED \| .*: by way of the host 4 of 5; try 2: .* code 5 before a step: "
                         r"made to fail, .*; by NCCL 4 of 5; try 3: the job had not ended \d+ ms after its rank, ")  # fmt: skip

    def test_without_mpirun_what_needs_it_is_skipped_and_says_so(self):
        (self.path / "mpirun").unlink()
        links = self.folder / "links"
        links.mkdir()
        # All programs that its words may name, without those that start ranks.
        words = set(re.findall(r"[a-z][\w-]*", CHECK.read_text() + (ROOT / "scripts/gpu-parts").read_text()))
        for word in sorted(words - {"mpirun", "pgrep"}):
            if place := shutil.which(word):
                (links / word).symlink_to(place)
        done = self.check("--only", "stages,job,killed", PATH=f"{self.path}:{links}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for part in ("stages", "job", "killed"):
            self.assertIn(f"| {part} | skipped | there is no mpirun |", self.table.read_text())

    def test_whichever_part_hangs_it_is_stopped_in_time(self):
        # All at once, as they only wait.
        started = {}
        for part, (words, _) in HANGS.items():
            wanted = "bench" if part == "doctor" else part
            started[part] = self.start("--only", wanted, "--within", "3", table=self.folder / f"{part}.md", HANG=words)
        for part, process in started.items():
            done = self.end(process)
            with self.subTest(part=part):
                self.assertEqual(done.returncode, HANGS[part][1], done.stdout + done.stderr)
                self.assertRegex((self.folder / f"{part}.md").read_text(), rf"\| {part} \| STOPPED \| after its [1-3] s")

    def test_a_part_that_hangs_is_stopped_and_what_it_did_is_kept(self):
        done = self.check("--only", "bench,peer", "--within", "2", HANG="bench gemm")
        self.assertEqual(done.returncode, 29, done.stdout + done.stderr)
        table = self.table.read_text()
        self.assertIn("| doctor | ok |", table)
        self.assertRegex(table, r"\| bench \| STOPPED \| after its [12] s: copy done, then code 124 in 'gemm', see below")
        self.assertIn("rate of copy", table)

    def test_whenever_it_is_killed_a_table_is_there(self):
        table = self.cut_off("| doctor | not ended | | |", "--only", "bench,peer", "--within", "9", HANG="fourfold doctor")
        self.assertIn("| peer | not ended | | |", table)
        table = self.cut_off("| doctor | ok |", "--only", "bench,peer", "--within", "9", HANG="bench gemm")
        self.assertIn("| bench | not ended | | |", table)

    def test_without_a_gpu_one_line_says_why_and_the_code_is_13(self):
        for half, part in (("1", "racecheck"), ("2", "peer"), ("3", "picture_peer")):
            done = self.check("--half", half, DOCTOR=NO_GPU)
            self.assertEqual((done.returncode, done.stdout), (13, ""))
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn("no GPU can be used: no NVIDIA driver answers; install one", done.stderr)
            self.assertEqual(self.table.read_text().count(f"| {part} |"), 1)
            self.assertIn(f"| {part} | skipped | no GPU |", self.table.read_text())

    def test_a_library_that_is_missing_is_named_in_one_line(self):
        error = "fourfold: error while loading shared libraries: libcublasLt.so.13: cannot open shared object file"
        done = self.check("--half", "1", BROKEN=error)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (13, "", 1))
        self.assertIn("libcublasLt.so.13 is not on this machine; install", done.stderr)

    def test_each_half_fits_a_call_of_nine_minutes(self):
        text = CHECK.read_text()
        seconds = {name: int(value) for name, value in re.findall(r"\[(\w+)\]=(\d+)", text)}
        help_text = {m[0]: int(m[2]) for m in re.findall(r"^  (\w+) +(-|1 2 3|1|2|3) +(\d+)  ", text, re.MULTILINE)}
        self.assertEqual(help_text, seconds)
        names = {of: re.search(rf"{of}=\(([\w ]+)\)", text)[1].split() for of in ("exchanging", "together", "half_2", "half_3")}
        self.assertEqual(sorted([*sum(names.values(), []), "build", "doctor"]), sorted(seconds))
        within = int(re.search(r"within=\$\{within:-(\d+)\}", text)[1])
        # A command that does not end when it is asked to is killed 5 s later.
        self.assertLess(within + 5, 540)
        # Those that exchange add up; those side by side have what is left, which is never less than the help says.
        left = within - seconds["doctor"] - sum(seconds[part] for part in names["exchanging"])
        least = int(re.search(r"in half 1 at\s+least (\d+) s", text)[1])
        self.assertGreaterEqual(left, least)
        self.assertGreaterEqual(least, 180)
        for half in ("half_2", "half_3"):
            self.assertLessEqual(seconds["doctor"] + sum(seconds[part] for part in names[half]), 535, half)

    def test_wrong_options_are_one_line(self):
        for words, part in ((("--half", "4"), "choose 1, 2 or 3"), (("--pictures", "/nonexistent"), "give the binary form of CIFAR-10"), (("--only", "x"), "unknown part 'x'"),
                            (("--jobs", "0"), "--jobs is '0'"), (("--within", "x"), "--within is 'x'"),
                            (("--try", "0"), "--try is '0'"),
                            (("--prebuilt", "/nonexistent"), "give what scripts/gpu-check --pack wrote")):  # fmt: skip
            done = self.check(*words)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(part, done.stderr)


@unittest.skipUnless(all(map(shutil.which, ("git", "strip", "xz"))), "packing needs git, strip and xz")
class PackGpu(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
        names = [name for name in tracked.stdout.split("\0") if name and os.path.lexists(ROOT / name)]
        if tracked.returncode != 0 or not names:
            self.skipTest("git lists no files of this tree")
        self.tree_bytes = sum((ROOT / name).lstat().st_size for name in names)
        # Any program stands for ours, though it has no place for libraries that CMake could set; the text cannot be made smaller.
        for name in ("fourfold", "test_numerics_cuda", "test_nccl_gpu", "test_device_gpu"):
            shutil.copy(shutil.which("true"), self.folder / name)
        (self.folder / "path").mkdir()
        (self.folder / "path/cmake").symlink_to(shutil.which("true"))
        (self.folder / "text").write_bytes(os.urandom(100_000))
        # As it is asked to pack, xz would take a second for its dictionary alone.
        xz = self.folder / "path/xz"
        xz.write_text(f"#!/bin/sh\necho \"$*\" >'{self.folder}/xz-words'\nexec {shutil.which('xz')} -0\n")
        xz.chmod(0o755)

    def pack(self, *words):
        command = [str(ROOT / "scripts/pack-gpu"), str(self.folder / "packed.tar.xz"), "--tree", str(self.folder),
                   "--text", str(self.folder / "text"), *words]  # fmt: skip
        path = f"{self.folder / 'path'}:{os.environ['PATH']}"
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": path})

    def test_the_tree_that_travels_along_counts(self):
        # Each by itself is less than this.
        done = self.pack("--most", str(self.tree_bytes + 100_000))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        packed, both = map(int, re.search(r"it would be (\d+) bytes, with the tree (\d+), more than", done.stderr).groups())
        self.assertEqual(both - packed, self.tree_bytes)
        self.assertEqual((self.folder / "xz-words").read_text(), "-T1 --lzma2=preset=2,dict=256MiB\n")
        self.assertLess(packed, self.tree_bytes)
        self.assertFalse((self.folder / "packed.tar.xz").exists())

    def test_a_tree_that_is_too_large_by_itself_is_refused_before_anything_is_built(self):
        done = self.pack("--most", "1MB")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn(f"the tree alone is {self.tree_bytes} bytes, and --most is 1000000", done.stderr)

    def test_all_that_bench_gpu_imports_is_packed(self):
        listed = re.search(r"^cp (tests/bench/\S+\.py) ", (ROOT / "scripts/pack-gpu").read_text(), re.MULTILINE)[1]
        done = subprocess.run(["bash", "-c", f"echo {listed}"], cwd=ROOT, capture_output=True, text=True, check=True)
        packed = {pathlib.Path(name).stem: (ROOT / name).read_text() for name in done.stdout.split()}
        texts = [(ROOT / "scripts/bench-gpu").read_text(), *packed.values()]
        wanted = {name for text in texts for name in re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)}
        ours = {path.stem for path in (ROOT / "tests/bench").glob("*.py")}
        self.assertEqual((wanted & ours) - set(packed), set())
        self.assertEqual(set(packed) - wanted, {"torch_pictures"})  # which PyTorch's Python runs

    def test_a_size_that_cannot_be_read_is_one_line(self):
        done = self.pack("--most", "many")
        self.assertEqual((done.returncode, done.stderr), (2, "pack-gpu: --most is 'many'; expected a size such as 64MiB\n"))


if __name__ == "__main__":
    unittest.main()
