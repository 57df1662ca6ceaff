#!/usr/bin/env python3
"""Tests of scripts/bench-gpu: its figures, from outputs as Fourfold prints them and times that were made up; its rounds within a
time; and that each recipe is short and explains itself."""
import argparse
import contextlib
import dataclasses
import io
import runpy
import sys
import unittest
from unittest import mock

import made_up

import gpu_plan
import gpu_rows
import gpu_steps
import picture_shapes
import results
import rounds
from peers import Sample
from processes import Stopped

ROOT = made_up.ROOT
with mock.patch.object(sys, "argv", ["bench-gpu"]):
    RECIPE = runpy.run_path(str(ROOT / "scripts/bench-gpu"))
WORKLOADS = RECIPE["WORKLOADS"]
SUBJECT = gpu_plan.Subject("", WORKLOADS, RECIPE["TITLES"], RECIPE["OURS"], RECIPE["PEERS"], RECIPE["ON_PICTURES"],
                          RECIPE["HALF_HOUR"])  # fmt: skip

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


def samples(memory_gib, loss, *step_s):
    return [Sample(seconds, memory_gib * 2**30, [loss]) for seconds in step_s]


def measured(**losses):
    told = rounds.Rounds({
        "ours": samples(20, 10.9, 0.030, 0.033, 0.031), "wide": samples(24, losses.get("wide", 10.91), 0.032, 0.033, 0.031),
        "early": samples(20, losses.get("early", 10.9), 0.030, 0.030, 0.030),
        "compiled": samples(21.5, losses.get("compiled", 10.92), 0.036, 0.0363, 0.0341),
    }, 3)  # fmt: skip
    kernels = gpu_rows.StepKernels(0.030, 500, {f"void k{i}<128>(float*)": (1e-3 * i, 2) for i in range(30)})
    return gpu_rows.Measured("124m", WORKLOADS["124m"], told, kernels=kernels)


class Figures(unittest.TestCase):
    def test_model_flops_are_those_of_weights_and_attention(self):
        w = WORKLOADS["124m"]
        tokens = w["batch"] * w["length"]
        # 6 a weight that multiplies (12 h^2 a layer, and the head), and 12 l h s a token for whole attention.
        weights = 12 * w["layers"] * w["hidden"] ** 2 + w["vocab"] * w["hidden"]
        expected = tokens * (6 * weights + 12 * w["layers"] * w["hidden"] * w["length"])
        self.assertAlmostEqual(gpu_rows.model_flops(w) / expected, 1, places=12)

    def test_model_flops_of_a_llama_are_those_of_its_weights(self):
        w = WORKLOADS["smollm2"]
        norms = w["hidden"] * (2 * w["layers"] + 1)
        tokens, parameters = w["batch"] * w["length"], 134_515_008  # of Hugging Face's SmolLM2-135M, its head tied
        expected = tokens * (6 * (parameters - norms) + 12 * w["layers"] * w["hidden"] * w["length"])
        self.assertAlmostEqual(gpu_rows.model_flops(w) / expected, 1, places=12)

    def test_the_sizes_are_those_of_gpt2(self):
        for name, millions in (("124m", 124), ("1.5b", 1558)):
            w = WORKLOADS[name]
            h, layers = w["hidden"], w["layers"]
            # GPT-2's own vocabulary of 50257; ours is padded.
            weights = layers * (12 * h * h + 13 * h) + 50257 * h + w["length"] * h + 2 * h
            self.assertEqual(round(weights / 1e6), millions)

    def test_model_flops_of_pictures_are_those_of_products(self):
        # VGG19 at 224: 19.63 billion multiplications and additions forward (Simonyan, Zisserman 2015, configuration E).
        vgg = gpu_rows.model_flops(WORKLOADS["vgg19"])
        self.assertAlmostEqual(vgg / (64 * 6 * 19.632e9), 1, delta=2e-3)
        # One block of two levels by hand: no product of it is forgotten, and the picture has no gradient.
        w = dict(network="unet", channels=4, mult=[1, 2], blocks=1, attention=[2], heads=1, side=4, classes=2, batch=3)

        def conv(inputs, outputs, side):
            return 2 * 9 * inputs * outputs * side**2

        def block(inputs, outputs, side):
            shortcut = 2 * inputs * outputs * side**2 if inputs != outputs else 0
            return conv(inputs, outputs, side) + 2 * 16 * 2 * outputs + conv(outputs, outputs, side) + shortcut

        attention = 2 * 8 * 24 * 4 + 2 * 2 * 8 * 4 * 4 + 2 * 8 * 8 * 4
        first = conv(3, 4, 4)
        down = block(4, 4, 4) + conv(4, 4, 2) + block(4, 8, 2) + attention
        middle = block(8, 8, 2) + attention + block(8, 8, 2)
        up = block(16, 8, 2) + attention + block(12, 8, 2) + attention + conv(8, 8, 4) + block(12, 4, 4) + block(8, 4, 4)
        forward = first + 2 * 4 * 16 + 2 * 16 * 16 + down + middle + up + conv(4, 3, 4)
        self.assertEqual(gpu_rows.model_flops(w), 3 * (3 * forward - first))

    def test_networks_on_pictures_are_told_alike_to_both_programs(self):
        for name, w in picture_shapes.WORKLOADS.items():
            settings, words = picture_shapes.settings_of(w), picture_shapes.words_of(w)
            self.assertEqual(settings["model.kind"], w["network"], name)
            self.assertEqual(settings["train.steps"], w["warmup"] + w["steps"])
            self.assertIn(str(w["batch"]), words[words.index("--batch") :][:2])
            self.assertIn(name, picture_shapes.TITLES)
        self.assertTrue(picture_shapes.settings_of(WORKLOADS["vgg19"])["vgg.widths"].startswith("[64, 64, pool, 128, "))
        words = picture_shapes.words_of(WORKLOADS["unet"])
        self.assertEqual(words[words.index("--mult") :][:5], ["--mult", "1", "2", "2", "2"])

    def test_a_ceiling_is_the_best_copy_beside_the_data_sheet(self):
        limit = gpu_rows.ceiling(COPY)
        self.assertEqual((limit.device, limit.peak_flops_per_s), ("NVIDIA H200", 989e12))
        self.assertAlmostEqual(limit.copy_bytes_per_s / 1e9, 4294.9)

    def test_a_gpu_without_data_sheet_has_no_peak(self):
        self.assertIsNone(gpu_rows.ceiling(UNKNOWN).peak_flops_per_s)

    def test_no_rate_is_an_error_that_shows_what_was_read(self):
        with self.assertRaisesRegex(ValueError, "nothing here"):
            gpu_rows.ceiling("nothing here\n")

    def test_busy_is_the_union_of_what_overlaps(self):
        self.assertEqual(gpu_rows.busy_ns([(10, 20), (0, 5), (12, 15), (18, 30), (30, 31)]), 5 + 20 + 1)
        self.assertEqual(gpu_rows.busy_ns([]), 0)

    def test_steps_are_the_largest_launches_of_graphs_but_the_first_of_each(self):
        rows = [(1, 0, 0, 900, "before any graph"), (2, 7, 0, 800, "first of its parity"), (2, 7, 800, 1000, "b"),
                (3, 8, 1000, 1900, "first of the other"), (3, 8, 1900, 2000, "b"),
                (4, 7, 2000, 2100, "a"), (4, 7, 2050, 2200, "b"), (5, 8, 3000, 3300, "a"), (5, 8, 3300, 3400, "b"),
                (6, 9, 5000, 9000, "an evaluation")]  # fmt: skip
        found = gpu_rows.step_kernels("\t".join(map(str, row)) + "\n" for row in reversed(rows))
        # 200 ns with 50 in which both run, and 400.
        self.assertAlmostEqual(found.busy_s / 300e-9, 1)
        self.assertEqual(found.count, 2)
        self.assertEqual({name: round(1e9 * s) for name, (s, _) in found.by_name.items()}, {"a": 200, "b": 125})
        self.assertEqual({name: count for name, (_, count) in found.by_name.items()}, {"a": 1, "b": 1})

    def test_without_graphs_there_are_no_steps(self):
        self.assertIsNone(gpu_rows.step_kernels(["1\t0\t0\t900\tk\n", "2\t0\t0\t900\tk\n"]))

    def test_names_of_kernels_fit_a_table(self):
        self.assertEqual(gpu_rows.short_name("void ours::k<128, true>(float const*, int)"), "ours::k<128, true>")
        self.assertEqual(gpu_rows.short_name("void ours::(anonymous namespace)::k<(ours::Type)1>(void (*)(int), int)"),
                         "ours::k<(ours::Type)1>")  # fmt: skip
        self.assertEqual(len(gpu_rows.short_name("a|b" * 100)), 90)
        self.assertNotIn("|", gpu_rows.short_name("a|b"))


class Rows(unittest.TestCase):
    def test_rows_have_medians_ratios_within_rounds_and_shares_of_the_peak(self):
        found = {key: gpu_rows.step_figures(measured(), key, 989e12) for key in ("ours", "wide", "compiled")}
        self.assertEqual(found["ours"]["step_ms"], [31, 30, 33])
        self.assertEqual((round(found["ours"]["tokens_per_s"]), found["ours"]["times_as_fast"]), (528516, None))
        self.assertEqual(found["wide"]["step_ms"], [32, 31, 33])
        # 36/30, 36.3/33 and 34.1/31: taken round by round; to the stream in fp32 36/32 in the first.
        peer = results.rounded(found["compiled"]["times_as_fast"]), results.rounded(found["compiled"]["times_as_fast_with_fp32_stream"])
        self.assertEqual(peer, ([1.1, 1.1, 1.2], [1.1, 1.1, 1.125]))
        share = 100 * gpu_rows.model_flops(WORKLOADS["124m"]) / 0.031 / 989e12
        self.assertAlmostEqual(found["ours"]["MFU_%"], share)
        self.assertAlmostEqual(found["ours"]["TFLOP_per_s"], 9.89 * share)
        self.assertEqual((found["ours"]["memory_GiB"], found["compiled"]["memory_GiB"], found["ours"]["rounds"]), (20, 21.5, 3))
        self.assertIsNone(gpu_rows.step_figures(measured(), "ours", None)["MFU_%"])

    def test_rows_on_pictures_count_pictures_and_have_no_stream_beside_them(self):
        told = rounds.Rounds({"ours": samples(5, 1.0, 0.025), "compiled": samples(6, 1.1, 0.030)}, 1)
        found = gpu_rows.Measured("unet", WORKLOADS["unet"], told)
        figures = gpu_rows.step_figures(found, "compiled", 989e12)
        self.assertAlmostEqual(figures["pictures_per_s"], 128 / 0.030)
        self.assertEqual(results.rounded(figures["times_as_fast"]), [1.2, 1.2, 1.2])
        self.assertNotIn("times_as_fast_with_fp32_stream", figures)
        self.assertEqual(gpu_rows.wrong_answers(found), [])
        told.samples["compiled"][0].losses[0] = 1.4
        self.assertEqual(len(gpu_rows.wrong_answers(found)), 1)
        tables = {row["table"] for row in gpu_rows.rows([found], RECIPE["TITLES"], gpu_rows.ceiling(COPY), "--rounds 1")}
        self.assertIn("Training steps on pictures beside PyTorch's", tables)
        self.assertNotIn("Training steps beside PyTorch's", tables)

    def test_a_row_with_fewer_rounds_says_why(self):
        cut = measured()
        del cut.rounds.samples["compiled"][1:]
        cut.rounds.samples["wide"] = []
        cut.fail("compiled", "round 2: it was ended after 9 s")
        self.assertEqual(gpu_rows.step_figures(cut, "compiled", None)["rounds"], "1 of 3: round 2: it was ended after 9 s")
        self.assertEqual(gpu_rows.step_figures(cut, "wide", None),
                         {"step_ms": None, "rounds": "0 of 3: the command had not ended when this was written"})  # fmt: skip
        self.assertEqual(gpu_rows.step_figures(cut, "ours", None)["rounds"], 3)
        self.assertIsNone(gpu_rows.step_figures(cut, "compiled", None)["times_as_fast_with_fp32_stream"])

    def test_time_beyond_kernels_is_a_share_of_theirs(self):
        figures = results.rounded([*gpu_rows.kernel_figures(measured()).values()])
        self.assertEqual(figures, [31, 30, 500, 3.333])

    def test_kernels_that_were_not_measured_are_no_figure(self):
        without = dataclasses.replace(measured(), kernels=None, why_not="no library")
        self.assertEqual(gpu_rows.kernel_figures(without), {"step_ms": 31, "kernels": "not measured: no library"})

    def test_a_profile_has_the_longest_kernels_first_and_all_time(self):
        found = [(name, results.rounded([*figures.values()])) for name, figures in gpu_rows.profile(measured().kernels)]
        self.assertEqual((len(found), found[0]), (26, ("k29<128>", [2, 29, 6.667])))
        self.assertEqual(found[-1], ("5 others", [10, 10, 2.299]))

    def test_answers_are_compared_as_near_as_they_must_be(self):
        self.assertEqual(gpu_rows.wrong_answers(measured()), [])
        for key, wrong, words in (("early", 10.9001, "Fourfold, kernels begin early"), ("wide", 11.1, "residual stream in fp32"),
                                  ("compiled", 11.0, "PyTorch compiled")):  # fmt: skip
            found = gpu_rows.wrong_answers(measured(**{key: wrong}))
            self.assertEqual(len(found), 1, key)
            self.assertIn(f"{words}` is {wrong}, and 10.9 of Fourfold", found[0])

    def test_the_page_has_every_row_as_wide_as_its_head(self):
        for version in ("2.11.0", ""):
            found = [dataclasses.replace(measured(), version=version)]
            text = results.drawn(list(gpu_rows.rows(found, RECIPE["TITLES"], gpu_rows.ceiling(UNKNOWN), "--rounds 5")), "x")
            widths, head = [], None
            for line in text.splitlines():
                if line.startswith("|"):
                    head = head or line.count("|")
                    widths.append((line.count("|"), head))
                else:
                    head = None
            self.assertGreater(len(widths), 6)
            self.assertTrue(all(width == head for width, head in widths), widths)
            self.assertEqual("PyTorch 2" in text, bool(version))
            self.assertIn("NVIDIA T4, peak not known, copy 0.27 TB/s", text)


class Plan(unittest.TestCase):
    """Time is made up here: it passes while a program runs, and at no other place."""

    def setUp(self):
        self.now_s = 0
        self.runs = []
        for module, name, value in ((rounds.time, "monotonic", lambda: self.now_s), (sys, "stderr", io.StringIO())):
            changed = mock.patch.object(module, name, value)
            changed.start()
            self.addCleanup(changed.stop)

    def pass_time(self, seconds, most_s, loss=1.0):
        self.now_s += min(seconds, most_s)
        if seconds > most_s:
            raise Stopped(f"it was ended after {most_s:.0f} s")
        return Sample(0.001 * seconds, 1, [loss])

    def measure(self, asked, within_s, seconds, losses=None):
        """Rounds in which programs take so many seconds each; PyTorch's are those that are not in RECIPE["OURS"]."""
        found = gpu_rows.Measured("124m", WORKLOADS["124m"], rounds.Rounds({key: [] for key in seconds}, asked))

        def run(key, most_s):
            self.runs.append(key)
            turn = self.runs.count(key)
            return self.pass_time(seconds[key](turn), most_s, (losses or {}).get((key, turn), 1.0))

        started = {key: mock.Mock(round=lambda steps, most_s, key=key: run(key, most_s)) for key in found.peers()}
        bench = gpu_steps.Bench("fourfold", "python", argparse.Namespace(), {key: key for key in RECIPE["OURS"]}, {}, "", lambda: None)
        with mock.patch.object(gpu_steps, "fourfold_round", lambda bench, w, own, most_s: run(own, most_s)), \
                mock.patch.object(gpu_steps, "step_kernels", lambda *_: self.pass_time(1, 9) and (None, "made up")), \
                contextlib.redirect_stdout(io.StringIO()):  # fmt: skip
            gpu_steps.measure_rounds(bench, found, started, rounds.Allowed(within_s))
        return found

    def lengths(self, found):
        return {key: len(values) for key, values in found.rounds.samples.items()}

    def test_no_round_begins_that_would_not_end_in_time(self):
        # A round takes 30 s, once 36; the kernels take 1 s after the first. When the third begins 36 s are left.
        found = self.measure(5, 103, {"ours": lambda turn: 10, "compiled": lambda turn: 26 if turn == 2 else 20})
        self.assertEqual(self.lengths(found), {"ours": 3, "compiled": 3})
        self.assertEqual((found.rounds.failed, found.why_not), (set(), "made up"))
        self.assertEqual(found.rounds.notes, dict.fromkeys(("ours", "compiled"), "a round takes 36.0 s, and 6.0 s were left"))
        self.assertEqual(self.runs, ["ours", "compiled", "compiled", "ours", "ours", "compiled"])

    def test_all_rounds_that_fit_are_done(self):
        found = self.measure(3, 91, {"ours": lambda turn: 10, "compiled": lambda turn: 20})
        self.assertEqual(self.lengths(found), {"ours": 3, "compiled": 3})
        self.assertEqual((self.now_s, found.rounds.notes), (91, {}))

    def test_a_program_that_hangs_in_a_round_leaves_time_for_the_others(self):
        found = self.measure(3, 200, {"ours": lambda turn: 10, "compiled": lambda turn: 20 if turn == 1 else 1e9, "eager": lambda turn: 5})
        self.assertEqual(self.lengths(found), {"ours": 3, "compiled": 1, "eager": 3})
        # 200 - 35 - 1, and half of that: the second round begins with it.
        self.assertEqual(found.rounds.notes, {"compiled": "round 2: it was ended after 82 s"})
        self.assertEqual(found.rounds.failed, {"compiled"})
        self.assertLess(self.now_s, 200)

    def test_a_program_with_other_losses_in_a_later_round_is_left_out(self):
        found = self.measure(3, 1e6, {"ours": lambda turn: 10, "compiled": lambda turn: 20}, {("ours", 2): 1.5})
        self.assertEqual(self.lengths(found), {"ours": 1, "compiled": 3})
        self.assertIn("round 2: ours: the losses differ from round to round: 1.0 and 1.5 in step 1", found.rounds.notes["ours"])

    def test_the_reason_of_a_failure_is_one_line_without_the_command(self):
        with mock.patch.object(sys, "argv", ["bench-gpu"]):
            self.assertEqual(Stopped("bench-gpu: f train --set a=b\nended with code 2:\nx: error: no | key\n ^~~").reason(),
                             "ended with code 2: x: error: no / key")  # fmt: skip
            self.assertEqual(Stopped("bench-gpu: `f bench` ended with code 7: out of memory\n").reason(),
                             "ended with code 7: out of memory")  # fmt: skip
            self.assertEqual(Stopped("it was ended after 9 s").reason(), "it was ended after 9 s")

    def test_half_an_hour_is_planned_by_workload_and_other_options_win(self):
        def planned(*words):
            plan = gpu_plan.planned(SUBJECT, gpu_plan.arguments(SUBJECT, words), {})
            return {measured.name: (measured.rounds.asked, *measured.peers()) for measured in plan}

        self.assertEqual(planned("--half-hour"), {"124m": (3, "compiled"), "1.5b": (2, "blocks")})
        self.assertEqual(planned("--half-hour", "--rounds", "7", "--no-peer", "--workloads", "1.5b"), {"1.5b": (7,)})
        self.assertEqual(planned(), {"124m": (5, "compiled"), "1.5b": (5, "compiled")})
        self.assertEqual(planned("--half-hour", "--workloads", "unet,vgg19"), {"unet": (3, "compiled"), "vgg19": (3, "compiled")})
        self.assertLess(gpu_plan.HALF_HOUR_S, 540)
        on_pictures = gpu_plan.planned(SUBJECT, gpu_plan.arguments(SUBJECT, ["--workloads", "unet"]), {})[0]
        self.assertEqual([*on_pictures.rounds.samples], ["ours", "early", "compiled"])


class Scripts(unittest.TestCase):
    def run_here(self, *words):
        """Exit code, output and errors of bench-gpu in this process."""
        out, errors = io.StringIO(), io.StringIO()
        with mock.patch.object(sys, "argv", ["bench-gpu", *words]), contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), \
                self.assertRaises(SystemExit) as ended:  # fmt: skip
            runpy.run_path(str(ROOT / "scripts/bench-gpu"), run_name="__main__")
        return ended.exception.code, out.getvalue(), errors.getvalue()

    def test_each_bench_explains_itself_in_few_lines(self):
        scripts = sorted((ROOT / "scripts").glob("bench-*"))
        self.assertEqual(len(scripts), 10)
        for path in scripts:
            lines = path.read_text().splitlines()
            self.assertLessEqual(len(lines), 60, path)
            self.assertLessEqual(max(map(len, lines)), 130, path)
            out = io.StringIO()
            with mock.patch.object(sys, "argv", [path.name, "--help"]), contextlib.redirect_stdout(out), \
                    self.assertRaises(SystemExit) as ended:  # fmt: skip
                runpy.run_path(str(path), run_name="__main__")
            self.assertEqual(ended.exception.code, 0)
            for word in ("--rounds", "--binary", "--output", "--set", lines[1].removeprefix('"""')):
                self.assertIn(word, out.getvalue(), path)

    def test_what_is_missing_or_unknown_is_said_in_one_line(self):
        for words, part in ((("--binary", "/nonexistent"), "is missing; run scripts/gpu-check"),
                            (("--binary", sys.executable, "--workloads", "124m,3b"), "unknown 3b; choose of 124m"),
                            (("--binary", sys.executable, "--peers", "jax"), "unknown jax; choose of compiled"),
                            (("--candidate", "fast"), "--candidate is 'fast'; expected NAME=KEY:VALUE"),
                            (("--candidate", "wide=A:1"), "the name wide is taken"),
                            (("--only-ours", "narrow"), "unknown narrow; choose of ours"),
                            (("--only-ours", ""), "leaves no row of Fourfold"),
                            (("--only-ours", "wide", "--workloads", "unet"), "leaves no row of unet; choose of ours, early"),
                            (("--peers", "blocks", "--workloads", "vgg19"), "unknown blocks; choose of compiled, autotuned, eager"),
                            (("--rounds", "0"), "--rounds starts at 1"),
                            (("--binary", sys.executable, "--within", "0"), "--within takes seconds")):
            code, _, errors = self.run_here(*words)
            self.assertIn(part, str(code), errors)
            self.assertEqual(str(code).count("\n") + errors.count("\n"), 0)


if __name__ == "__main__":
    unittest.main()
