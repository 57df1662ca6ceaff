#!/usr/bin/env python3
"""Tests of the table of scripts/bench-gpu, from outputs as Fourfold prints them and times that were made up."""
import dataclasses
import pathlib
import subprocess
import sys
import unittest

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
            text = gpu_table.page([measured()], gpu_table.ceiling(UNKNOWN), version, 5)
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
                                (("--binary", sys.executable, "--peers", "jax"), "unknown peer jax")):
            done = self.run_script("bench-gpu", *arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(part, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
