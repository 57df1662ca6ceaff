#!/usr/bin/env python3
"""The losses of a U-Net of improved diffusion that PyTorch trains with the initial weights, the order of pictures, the times
and the noise of a run of Fourfold, in float32.

The network and the loss are those of tests/golden/models.py, the random numbers those of tests/golden/philox.py; the order
of pictures is written here from the page of src/data/permutation.h. The run must have a file of CIFAR-10's binary form as
data.path, another one as data.validation, and neither flips nor dropout. Prints a line "STEP LOSS" a step.

Needs torch, numpy and safetensors.
"""
import argparse
import math
import pathlib
import sys

import numpy
import safetensors.torch
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "golden"))
import models
import philox

MASK32 = numpy.uint64(0xFFFFFFFF)
PICTURE_BYTES = 3 * 32 * 32


def words(seed, name, elements, step):
    """Four random words of 32 bits for each element, as philox.words gives them for one."""
    key = philox.mix(philox.mix(seed + 0x9E3779B97F4A7C15 & philox.MASK64) ^ philox.stream(name))
    low, high = key & philox.MASK32, key >> 32
    elements = numpy.asarray(elements, dtype=numpy.uint64)
    a, b = elements & MASK32, elements >> numpy.uint64(32)
    c, d = numpy.full_like(a, step), numpy.zeros_like(a)
    shift = numpy.uint64(32)
    for _ in range(10):
        first, second = numpy.uint64(0xD2511F53) * a, numpy.uint64(0xCD9E8D57) * c
        a, b, c, d = (second >> shift ^ b ^ numpy.uint64(low), second & MASK32, first >> shift ^ d ^ numpy.uint64(high),
                      first & MASK32)
        low, high = low + 0x9E3779B9 & philox.MASK32, high + 0xBB67AE85 & philox.MASK32
    return a, b, c, d


def normals(seed, name, elements, step):
    """By Box and Muller, as philox.normal."""
    w = words(seed, name, elements, step)
    first, second = ((w[i + 1] << numpy.uint64(32) | w[i]) >> numpy.uint64(11) for i in (0, 2))
    radius = numpy.sqrt(-2 * numpy.log(1 - first.astype(numpy.float64) * 2.0**-53))
    return radius * numpy.cos(2 * math.pi * (second.astype(numpy.float64) * 2.0**-53))


def philox_word(seed, name, element, step, draw):
    """The first of the four words of one element, for any draw."""
    key = philox.mix(philox.mix(seed + 0x9E3779B97F4A7C15 & philox.MASK64) ^ philox.stream(name))
    low, high = key & philox.MASK32, key >> 32
    a, b, c, d = element & philox.MASK32, element >> 32, step, draw
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (second >> 32 ^ b ^ low, second & philox.MASK32, first >> 32 ^ d ^ high, first & philox.MASK32)
        low, high = low + 0x9E3779B9 & philox.MASK32, high + 0xBB67AE85 & philox.MASK32
    return a


def permuted(index, size, seed, epoch):
    """A Feistel network of six rounds; what falls beyond `size` is sent through again."""
    bits = (size - 1).bit_length()
    half = 1 if bits < 2 else (bits + 1) // 2
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for number in range(6):
            left, right = right, left ^ (philox_word(seed, "data.epoch.0", right, epoch, number) & mask)
        index = left << half | right
        if index < size:
            return index


def read_pictures(path):
    """(N, 32, 32, 3) bytes."""
    records = numpy.fromfile(path, dtype=numpy.uint8).reshape(-1, 1 + PICTURE_BYTES)
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


class Curve(models.Unet):
    """The golden model in float32, with noise for many elements at a time."""

    def linear(self, w, name, x, out):
        return super().linear(w, name, x.float(), out)

    def losses(self, weights, pictures, seed, step):
        """Samples are counted over all steps."""
        size = math.prod(self.picture)
        count = len(pictures)
        first = step * count
        t = torch.tensor([philox.time(seed, "diffusion.times", first + b, step, self.steps) for b in range(count)])
        elements = numpy.arange(first * size, (first + count) * size)
        e = torch.from_numpy(normals(seed, "diffusion.noise", elements, step).reshape(count, *self.picture))
        at = {name: column[t][:, None, None, None] for name, column in self.schedule_rows().items()}
        start = torch.from_numpy(pictures.astype(numpy.float64)) / 255 * 2 - 1
        noised = at["signal"] * start + at["noise"] * e
        output = self.output(models.Weights(weights), noised.float(), t, torch.zeros(count, dtype=torch.int64)).double()
        channels = self.picture[2]
        predicted = output[..., :channels]
        losses = ((e - predicted) ** 2).flatten(1).mean(1)
        if self.learn_sigma:
            fixed = predicted.detach()
            predicted_start = (noised - at["noise"] * fixed) / at["signal"]
            mean = at["of_start"] * predicted_start + at["of_noised"] * noised
            part = (output[..., channels:] + 1) / 2
            log_variance = part * at["log_beta"] + (1 - part) * at["log_variance"]
            bound = self.bound(start, noised, mean, log_variance, at, t).flatten(1).mean(1)
            losses = losses + self.bound_weight * self.steps * bound
        return losses.mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help="the initial weights, a safetensors file of Fourfold")
    parser.add_argument("pictures", help="data.path of the run")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1234, help="run.seed")
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--times", type=int, default=4000, help="diffusion.steps")
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    model = Curve(schedule="cosine", learn_sigma=True, conditional=False, scale_shift_norm=True, convolutions=True,
                  steps=a.times, picture=(32, 32, 3), channels=a.channels, mult=(1, 2, 2, 2), blocks=a.blocks,
                  attention=(16, 8), heads=4, groups=32, bound_weight=0.001)
    weights = {name: tensor.float().requires_grad_() for name, tensor in safetensors.torch.load_file(a.weights).items()}
    # What has no weight decay: the same for all.
    optimizer = torch.optim.AdamW(weights.values(), lr=a.lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    pictures = read_pictures(a.pictures)
    for step in range(a.steps):
        numbers = [step * a.batch + b for b in range(a.batch)]
        chosen = [permuted(n % len(pictures), len(pictures), a.seed, n // len(pictures)) for n in numbers]
        loss = model.losses(weights, pictures[chosen], a.seed, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step + 1, repr(loss.item()), flush=True)


if __name__ == "__main__":
    main()
