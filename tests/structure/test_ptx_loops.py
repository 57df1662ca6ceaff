#!/usr/bin/env python3
"""How many instructions own convolutions take for a multiply-add, counted in the PTX that nvcc makes of them.

test_ptx_loops.py [NVCC]: exits with 77 where there is no nvcc.
"""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import ptx_loops

ROOT = Path(__file__).parents[2]
MADE_UP = """
.visible .entry made_up(
	.param .u64 made_up_param_0
)
{
	.reg .pred 	%p<3>;
	mov.u32 	%r1, 0;
$L__BB0_1:
	add.s32 	%r1, %r1, 1;
	@%p1 bra 	$L__BB0_3;
$L__BB0_2:
	div.s64 	%rd1, %rd2, %rd3;
	@%p2 bra 	$L__BB0_2;
$L__BB0_3:
	setp.lt.s32 	%p1, %r1, 8; // not the end
	@%p1 bra 	$L__BB0_1;
	ret;
}
"""

# Instructions of a thread for each multiply-add, in the loop over tiles: at most what was counted, and a twentieth more.
# With 64-bit divisions for each element, each counted as one instruction, the loops for bf16 had 3.3, 3.5 and 4.2.
BOUNDS = {
    ("convolution", "bf16", "packs"): 0.18,
    ("convolution", "bf16", "elements"): 0.75,
    ("convolution_gradient", "bf16", "packs"): 0.25,
    ("convolution_gradient", "bf16", "elements"): 1.17,
    ("convolution_weight_gradient", "bf16", "packs"): 0.24,
    ("convolution_weight_gradient", "bf16", "elements"): 0.80,
    ("convolution", "f32", "packs"): 2.1,
    ("convolution", "f32", "elements"): 2.6,
    ("convolution_gradient", "f32", "packs"): 2.0,
    ("convolution_gradient", "f32", "elements"): 2.75,
    ("convolution_weight_gradient", "f32", "packs"): 1.95,
    ("convolution_weight_gradient", "f32", "elements"): 2.4,
}
MULTIPLY_ADDS_OF_MMA = 16 * 8 * 16 // 32  # of each of the 32 lanes
DIVISION = r"(div|rem)\."


def name_of(kernel):
    """What a mangled kernel computes; None for those that are no tiled products."""
    found = re.search(r"tiled_productI(f|NS_8BFloat16E)Lb([01])E(.*)", kernel)
    if not found:
        return None
    factors = found[3]
    row = ("convolution_weight_gradient" if "PatchColumns" in factors else
           "convolution_gradient" if "WeightOfTaps" in factors else "convolution")  # fmt: skip
    return row, "f32" if found[1] == "f" else "bf16", "packs" if found[2] == "1" else "elements"


def cost(loop):
    """(instructions, multiply-adds) of a turn; loops inside it have two turns: the halves of 16 elements of f32."""
    mine = len(loop.instructions), loop.count("mma") * MULTIPLY_ADDS_OF_MMA + loop.count("fma")
    inside = [cost(inner) for inner in loop.inner]
    return tuple(own + 2 * sum(one[i] for one in inside) for i, own in enumerate(mine))


class MadeUp(unittest.TestCase):
    def test_loops_are_found_with_what_is_theirs_alone(self):
        inner, outer = ptx_loops.loops(MADE_UP)["made_up"]
        self.assertEqual((len(inner.instructions), inner.count(DIVISION)), (2, 1))
        self.assertEqual((len(outer.instructions), outer.count(DIVISION), outer.inner), (4, 0, [inner]))


class OwnConvolutions(unittest.TestCase):
    nvcc = None

    def test_take_few_instructions_for_a_multiply_add_and_no_division(self):
        if not self.nvcc:
            self.skipTest("there is no nvcc")
        with tempfile.TemporaryDirectory() as folder:
            ptx = Path(folder) / "convolution.ptx"
            subprocess.run([self.nvcc, "-ptx", "-arch=sm_90", "-std=c++20", "--expt-relaxed-constexpr", f"-I{ROOT / 'src'}",
                            ROOT / "src/kernels/cuda/convolution.cu", "-o", ptx], check=True)  # fmt: skip
            found = ptx_loops.loops(ptx.read_text())
        counted = {}
        for kernel, loops in found.items():
            name = name_of(kernel)
            over_tiles = [loop for loop in loops if cost(loop)[1] > 0]
            if name is None or not over_tiles:
                continue
            self.assertEqual(sum(loop.count(DIVISION) for loop in loops), 0, f"divisions in a loop of {name}")
            instructions, multiply_adds = cost(over_tiles[-1])
            self.assertEqual(multiply_adds, {"bf16": 1024, "f32": 512}[name[1]], f"the loop over tiles of {name}")
            counted[name] = instructions / multiply_adds
        self.assertEqual(counted.keys(), BOUNDS.keys())
        for name, bound in BOUNDS.items():
            print(f"{counted[name]:.3f} instructions for a multiply-add, at most {bound}: {' '.join(name)}", file=sys.stderr)
            self.assertLessEqual(counted[name], bound, name)


if __name__ == "__main__":
    OwnConvolutions.nvcc = next(iter(sys.argv[1:]), "")
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
