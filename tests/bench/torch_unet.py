#!/usr/bin/env python3
"""The training step of a diffusion U-Net in PyTorch, as a peer for scripts/bench-unet: noise, forward, backward, AdamW,
moving averages, in float32.

The network is that of improved diffusion as configs/unet-cifar10-50m.yaml has it, with a scale and a shift by the time and a
learned variance left out. Pictures are random.

The process warms up, prints {"ready": true, "loss": ..., ...}, where the loss is that of its first step, and then answers each
line "N" on standard input with the times of N steps, {"step_s": [...], "peak_bytes": ...}, as torch_gpt.py does.
"""
import argparse
import json
import math
import resource
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    """Two convolutions, told of the time by a scale and a shift."""

    def __init__(self, inputs, width, told):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, inputs), nn.GroupNorm(32, width)
        self.conv1, self.conv2 = nn.Conv2d(inputs, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(told, 2 * width)
        self.shortcut = nn.Identity() if inputs == width else nn.Conv2d(inputs, width, 1)

    def forward(self, x, told):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.time(told)[..., None, None].chunk(2, dim=1)
        h = self.conv2(F.silu(self.norm2(h) * (1 + scale) + shift))
        return self.shortcut(x) + h


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(32, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        B, C, H, W = x.shape
        h = self.norm(x).permute(0, 2, 3, 1).reshape(B, H * W, C)
        q, k, v = self.qkv(h).view(B, H * W, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, H * W, C)
        return x + self.out(y).view(B, H, W, C).permute(0, 3, 1, 2)


class Unet(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.channels, told = a.channels, 4 * a.channels
        self.time = nn.Sequential(nn.Linear(a.channels, told), nn.SiLU(), nn.Linear(told, told))
        self.first = nn.Conv2d(3, a.channels, 3, padding=1)
        self.down, self.up, self.attention = nn.ModuleList(), nn.ModuleList(), nn.ModuleDict()
        self.halve, self.twice = nn.ModuleList(), nn.ModuleList()
        mult, side, width, skips = a.mult, a.side, a.channels, [a.channels]

        def block(inputs, outputs, name):
            if side in a.attention:
                self.attention[name] = Attention(outputs, a.heads)
            return Block(inputs, outputs, told)

        self.sides = []
        for level, factor in enumerate(mult):
            blocks = nn.ModuleList()
            for i in range(a.blocks):
                blocks.append(block(width, factor * a.channels, f"down{level}_{i}"))
                width = factor * a.channels
                skips.append(width)
            self.down.append(blocks)
            if level + 1 < len(mult):
                self.halve.append(nn.Conv2d(width, width, 3, stride=2, padding=1))
                skips.append(width)
                side //= 2
        self.middle = nn.ModuleList([Block(width, width, told), Attention(width, a.heads), Block(width, width, told)])
        for level in reversed(range(len(mult))):
            blocks = nn.ModuleList()
            for i in range(a.blocks + 1):
                blocks.append(block(width + skips.pop(), mult[level] * a.channels, f"up{level}_{i}"))
                width = mult[level] * a.channels
            self.up.append(blocks)
            if level > 0:
                self.twice.append(nn.Conv2d(width, width, 3, padding=1))
                side *= 2
        self.norm, self.last = nn.GroupNorm(32, width), nn.Conv2d(width, 3, 3, padding=1)

    def attend(self, name, h):
        return self.attention[name](h) if name in self.attention else h

    def forward(self, x, t):
        half = self.channels // 2
        angles = t[:, None].float() * torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
        told = F.silu(self.time(torch.cat([angles.cos(), angles.sin()], dim=1)))
        h = self.first(x)
        skips = [h]
        for level, blocks in enumerate(self.down):
            for i, block in enumerate(blocks):
                h = self.attend(f"down{level}_{i}", block(h, told))
                skips.append(h)
            if level < len(self.halve):
                h = self.halve[level](h)
                skips.append(h)
        h = self.middle[2](self.middle[1](self.middle[0](h, told)), told)
        for place, blocks in enumerate(self.up):
            level = len(self.up) - 1 - place
            for i, block in enumerate(blocks):
                h = self.attend(f"up{level}_{i}", block(torch.cat([h, skips.pop()], dim=1), told))
            if level > 0:
                h = self.twice[place](F.interpolate(h, scale_factor=2, mode="nearest"))
        return self.last(F.silu(self.norm(h)))


def main():
    parser = argparse.ArgumentParser(description="Trains a U-Net in PyTorch, and tells the times of its steps.")
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--mult", type=int, nargs="+", default=[1, 2, 2, 2])
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--attention", type=int, nargs="+", default=[16, 8])
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--channels-last", action="store_true", help="pictures and weights in that memory format")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--fused", action="store_true", help="AdamW by its fused kernel")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = Unet(a)
    pictures = torch.rand(a.batch, 3, a.side, a.side) * 2 - 1
    if a.channels_last:
        model = model.to(memory_format=torch.channels_last)
        pictures = pictures.to(memory_format=torch.channels_last)
    parameters = list(model.parameters())
    averages = [p.detach().clone() for p in parameters]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.0, fused=a.fused)
    bars = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)
    run = torch.compile(model) if a.compile else model

    def step():
        t = torch.randint(0, 1000, (a.batch,))
        noise = torch.randn_like(pictures)
        bar = bars[t][:, None, None, None]
        optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(run(bar.sqrt() * pictures + (1 - bar).sqrt() * noise, t), noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        torch._foreach_lerp_(averages, parameters, 1e-4)
        return loss

    first_loss = float(step())
    for _ in range(a.warmup - 1):
        step()
    count = sum(p.numel() for p in parameters)
    print(json.dumps({"ready": True, "torch": torch.__version__, "parameters": count, "loss": first_loss}), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            step()
            times.append(time.perf_counter() - begin)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"step_s": times, "peak_bytes": peak}), flush=True)


if __name__ == "__main__":
    main()
