#!/usr/bin/env python3
"""Tests of scripts/bench-cpu, bench-ranks and bench-unet with programs that are made up: every figure of their rows, and that a
wrong answer is told."""
import unittest

from made_up import MadeUp, say, torch

LOSS = {65: 4.2, 49152: 10.8, 50304: 10.9}  # of an untrained model with so many words
SUMMARY = {
    "step_s": 0.01, "ranks": [{"parts": [
        {"stream": "math", "work": work, "amount": {"seconds": seconds}}
        for work, seconds in (("gemm", 0.00615), ("attention", 0.00085), ("elementwise", 0.002), ("optimizer", 0.001))
    ]}],
    "operations": [
        {"what": "adamw_list", "by": "vector", "amount": {"seconds": 0.002, "calls": 1, "flops": 2e6, "bytes": 15e6}},
        {"what": "contract", "by": "onednn", "amount": {"seconds": 0.006, "calls": 15, "flops": 6e8, "bytes": 3e7}},
    ],
}  # fmt: skip


class Recipes(MadeUp):
    """Fourfold takes the next of `times` in each run whose steps count; PyTorch 20 ms in the first round, then 30."""

    times, losses, torch_loss = (), (), None

    def answer(self, call):
        if "torch_gpt.py" in call.words[0] or "torch_unet.py" in call.words[0]:
            sizes = dict(word.split("=") for word in call.words[1:] if "=" in word)
            return torch(self.torch_loss or LOSS.get(int(sizes.get("--vocab", 0)), 1.1), 20, 30, 40)
        if call.words[:2] == ["bench", "copy"]:
            return say("threads copy triad fp32 fp64 bf16\n 2 9.0 10.0 100.0 50.0 200.0")
        if call.words[0] == "trace":
            return say(SUMMARY)
        vocab = int(call.sets.get("model.vocab_size", 0))
        turn = self.turn = getattr(self, "turn", -1) + 1
        times, losses = self.times or (10,), self.losses or (LOSS.get(vocab, 1.0),)
        warmup = 10 if call.sets.get("model.hidden_size") == "128" else 1 if vocab else 2
        return self.train(call, losses[turn % len(losses)], times[turn % len(times)], warmup)

    def test_training_on_a_cpu_stands_beside_each_setting_of_pytorch(self):
        self.times = (1, 10, 8, 16, 1)  # a run for its table, three rounds, and one whose timeline is read
        done = self.rows_of("bench-cpu", "--rounds", "3", "--workloads", "l6h384", "--threads", "2")
        self.assertIn("starting PyTorch, compiled, tuned\n", done.out)
        self.assertIn("l6h384: round 3 of 3, ms a step: Fourfold 16, PyTorch eager 40, PyTorch eager, tuned 40,", done.out)
        table, workload = "Training steps beside PyTorch's", "6 layers of 384, vocabulary 65, 8 x 256 tokens"
        ours = done.figures(table, workload=workload, program="Fourfold")
        peer = done.figures(table, workload=workload, program="PyTorch compiled, tuned")
        self.assertEqual((ours["step_ms"], ours["times_as_fast"]), ([10, 8, 16], None))
        # 20/10, 30/8 and 40/16, round by round.
        self.assertEqual((peer["step_ms"], peer["times_as_fast"], peer["peak_MiB"]), ([30, 20, 40], [2.5, 2, 3.75], 300))
        self.assertEqual((ours["tokens_per_s"], peer["tokens_per_s"]), (204800, 68270))
        # 6 a weight and token, and attention; 28 bytes a weight; at 100 GFLOP/s and 10 GB/s.
        weights = 6 * (12 * 384**2 + 2 * 384) + 65 * 384 + 384
        flops = 2048 * 6 * (weights + 6 * 384 * 256)
        floor_s = flops / 100e9 + 28 * (weights + 256 * 384) / 10e9
        self.assertAlmostEqual(ours["of_product_ceiling_%"] / (100 * flops / 0.01 / 100e9), 1, 3)
        self.assertAlmostEqual(peer["over_floor"] / (0.03 / floor_s), 1, 3)
        where = done.figures("Where a step of Fourfold goes", workload=workload)
        self.assertEqual(where, {
            "times_as_fast_as_best": [2.5, 2, 3.75], "products_and_attention_%": 70, "products_%": 61.5, "attention_%": 8.5,
            "elementwise_%": 20, "optimizer_%": 10, "adamw_GB_per_s": 7.5, "adamw_of_triad_%": 75, "product_GFLOP_per_s": 100,
            "triad_GB_per_s": 10})  # fmt: skip
        self.assertTrue(done.rows[0]["machine"].endswith(", 2 threads"))
        self.assertRegex(done.rows[0]["command"], "^scripts/bench-cpu --rounds 3 (--threads 2 )?--workloads l6h384$")
        self.assertEqual(done.rows[0]["note"], "PyTorch 2.made-up.")
        tuned = [call for call in self.calls if "torch_gpt.py" in call.words[0] and call.variables["MALLOC_TOP_PAD_"]]
        self.assertEqual((len(tuned), tuned[0].variables["OMP_NUM_THREADS"]), (2, "2"))

    def test_a_llama_is_told_alike_to_both_programs(self):
        done = self.rows_of("bench-cpu", "--rounds", "1", "--workloads", "smollm2", "--threads", "2")
        ours = done.figures("Training steps beside PyTorch's", workload="SmolLM2-135M, 4 x 256 tokens", program="Fourfold")
        sets, words = self.calls_of("train")[-1].sets, next(call.words for call in self.calls if "torch_gpt.py" in call.words[0])
        for key, word, value in (("kind", None, "llama"), ("num_layers", "layers", 30), ("num_attention_heads", "heads", 9),
                                 ("num_key_value_heads", "groups", 3), ("hidden_size", "hidden", 576), ("rope.theta", "theta", 100000),
                                 ("ffn_hidden_size", "ffn", 1536), ("vocab_size", "vocab", 49152)):  # fmt: skip
            self.assertEqual(sets[f"model.{key}"], str(value))
            if word:
                self.assertIn(f"--{word}={value}", words)
        self.assertTrue({"model.dropout", "model.bias"}.isdisjoint(sets))  # keys of a GPT
        # As many parameters as SmolLM2-135M has: all of them multiply.
        flops = 1024 * 6 * (134515008 + 30 * 576 * 256)
        self.assertAlmostEqual(ours["of_product_ceiling_%"] / (100 * flops / 0.01 / 100e9), 1, 3)

    def test_bf16_stands_beside_fp32_also_for_shapes_that_are_drawn(self):
        self.times = (1, 1, 10, 15, 1)
        self.losses = (4.2,)
        self.torch_loss = 4.21
        done = self.rows_of("bench-cpu", "--bf16", "--avx2", "--rounds", "1", "--workloads", "char")
        table = "Training steps beside PyTorch's in bf16"
        fp32 = done.figures(table, program="Fourfold in fp32")
        self.assertEqual((fp32["step_ms"], fp32["times_as_fast"]), ([15, 15, 15], [1.5, 1.5, 1.5]))
        self.assertEqual(done.figures("Where a step of Fourfold goes in bf16")["product_GFLOP_per_s"], 200)
        self.assertIn(", instructions up to AVX2", done.rows[0]["machine"])
        self.assertEqual({call.variables["ONEDNN_MAX_CPU_ISA"] for call in self.calls_of("train")}, {"AVX2"})
        self.assertEqual({call.sets["precision.compute"] for call in self.calls_of("train")}, {"bf16", "fp32"})

    def test_shapes_that_are_drawn_are_workloads(self):
        self.torch_loss, self.losses = 6.0, (6.0,)
        done = self.rows_of("bench-cpu", "--rounds", "1", "--workloads", "", "--random", "2", "--seed", "7")
        self.assertEqual(len({row["of"]["workload"] for row in done.rows}), 2)

    def test_two_ranks_stand_beside_one_and_beside_those_of_pytorch(self):
        # A run of each kind for its table, then two rounds, of which the second begins with data 2.
        self.times = (1, 1, 1, 30, 10, 15, 20, 20, 60)
        done = self.rows_of("bench-ranks", "--rounds", "2", "--workloads", "char")
        table = "Two ranks on two cores, beside PyTorch's"

        def figures(program):
            return list(done.figures(table, program=program).values())[:3]

        self.assertEqual(figures("Fourfold, 1 rank x 2 threads"), [[45, 30, 60], None, None])
        self.assertEqual(figures("Fourfold, 2 ranks x 1 thread, data 2"), [[15, 10, 20], [3, 3, 3], None])
        self.assertEqual(figures("Fourfold, 2 ranks x 1 thread, z 2"), [[17.5, 15, 20], [2.5, 2, 3], None])
        self.assertEqual(figures("PyTorch, 2 ranks x 1 thread, DistributedDataParallel"), [[25, 20, 30], None, [1.75, 1.5, 2]])
        self.assertEqual(figures("PyTorch, 2 ranks x 1 thread, fully_shard"), [[25, 20, 30], None, [1.417, 1.333, 1.5]])
        grids = [(call.sets["run.threads"], call.sets.get("parallel.data"), call.sets.get("parallel.tensor.z"))
                 for call in self.calls_of("train")]  # fmt: skip
        self.assertEqual(grids[:3], [("2", None, None), ("1", "2", None), ("1", None, "2")])

    def test_a_unet_runs_twice_in_each_round(self):
        # The second round begins with PyTorch and ends with ours.
        self.times, self.losses = (10, 12, 8, 8, 1), (1.0,)
        done = self.rows_of("bench-unet", "--rounds", "2", "--threads", "2")
        self.assertEqual(done.figures("Training steps", program="Fourfold")["step_ms"], [9, 8, 10])
        again = done.figures("Training steps", program="Fourfold, again in each round")
        self.assertEqual((again["step_ms"], again["times_as_fast"]), ([10, 8, 12], [1.1, 1, 1.2]))
        for name in ("eager", "eager, channels last", "compiled", "compiled, channels last"):
            peer = done.figures("Training steps", program=f"PyTorch {name}")
            self.assertEqual((peer["times_as_fast"], peer["peak_MiB"]), ([2.875, 2, 3.75], 300))
        first, second = [row for row in done.rows if row["table"] == "Where a step of Fourfold goes"]
        self.assertEqual((first["of"]["operation"], second["of"]["operation"]), ("contract", "adamw_list"))
        self.assertEqual(first["figures"], {"step_ms": 6, "of_step_%": 60, "calls": 15, "GFLOP_per_s": 100, "GB_per_s": 5})

    def test_a_wrong_answer_is_told_and_no_row_of_it_is_kept(self):
        for losses, torch_loss, words, message in (
            ((4.2,), 4.5, ("bench-cpu", "--workloads", "char", "--rounds", "1"),
             "the first losses are 4.5 of PyTorch eager and 4.2 of"),
            ((4.2, 4.2, 4.2, 4.2001, 4.2, 4.2), None, ("bench-ranks", "--workloads", "char", "--rounds", "1"),
             "and 4.2001 of Fourfold, 1 rank x 2 threads; they may differ by 1e-05 of themselves"),
            ((4.2,), 4.5, ("bench-ranks", "--workloads", "char", "--rounds", "1"),
             "4.5 of PyTorch, 2 ranks x 1 thread, Distributed"),
            ((4.2, 4.2, 4.2000001), None, ("bench-cpu", "--workloads", "char", "--rounds", "2"),
             "Fourfold: the losses differ from round to round: 4.2 and 4.2000001 in step 1"),
            ((1.0, 1.0000001), None, ("bench-unet", "--rounds", "1"),
             "the losses of Fourfold and Fourfold, again in each round differ: 1.0 and 1.0000001 in step 1"),
            ((1.0,), 1.4, ("bench-unet", "--rounds", "1"), "the first losses are 1.4 of PyTorch eager"),
        ):  # fmt: skip
            self.turn, self.losses, self.torch_loss = -1, losses, torch_loss
            with self.subTest(message=message):
                self.assertEqual(self.assert_refused(message, *words).rows, [])

    def test_what_cannot_be_measured_is_one_line(self):
        for words, part in (
            (("bench-cpu", "--rounds", "0"), "it starts at 1, not at '0'"),
            (("bench-unet", "--steps", "0"), "it starts at 1"),
            (("bench-ranks", "--workloads", "char,x"), "unknown workload x"),
            (("bench-cpu", "--random", "-1"), "from 0 on"),
            (("bench-unet", "--threads", "x"), "not at 'x'"),
        ):
            self.assert_refused(part, *words)
        self.assert_refused("is missing; run scripts/build", "bench-unet", binary="/nonexistent")
        self.assertFalse(self.page.exists())


if __name__ == "__main__":
    unittest.main()
