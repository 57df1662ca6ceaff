#!/usr/bin/env python3
"""Training steps on pictures in PyTorch, as a peer for scripts/bench-gpu: a diffusion U-Net (that of torch_unet.py) or a VGG;
forward, backward, clipping, AdamW, and a U-Net's moving averages.

In fp32 without tf32, or with --bf16 in PyTorch's own mixed precision: weights and moments in fp32, products by autocast in bf16.
cuDNN tries its kernels for convolutions (torch.backends.cudnn.benchmark). Pictures are random.

The process answers as torch_gpt.py does: it warms up, prints {"ready": true, "loss": ..., ...}, and then answers each line "N" on
standard input with the times of N steps, {"step_s": [...], "peak_bytes": ...}.
"""
import argparse
import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch_gpt import Clock, own_peak_bytes
from torch_unet import Unet

POOL = 0


class Vgg(nn.Sequential):
    """Convolutions of 3 x 3 with ReLU, pooling, linear layers; weights as He et al. 2015 draw them, the last ones small."""

    def __init__(self, a):
        layers, channels, side = [], 3, a.side
        for width in a.widths:
            if width == POOL:
                layers.append(nn.MaxPool2d(2))
                side //= 2
            else:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                channels = width
        layers.append(nn.Flatten())
        inputs = channels * side * side
        for outputs in a.hidden:
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
            inputs = outputs
        last = nn.Linear(inputs, a.classes)
        super().__init__(*layers, last)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight)
                nn.init.zeros_(module.bias)
        nn.init.normal_(last.weight, std=0.01)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--network", choices=("unet", "vgg"), required=True)
    for name in ("channels", "blocks", "heads", "side", "classes", "batch"):
        p.add_argument("--" + name, type=int)
    for name in ("mult", "attention", "widths", "hidden"):
        p.add_argument("--" + name, type=int, nargs="+")
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--bf16", action="store_true", help="autocast to bf16")
    p.add_argument("--channels-last", action="store_true", help="pictures and weights in that memory format")
    p.add_argument("--compile", action="store_true", help="by torch.compile")
    p.add_argument("--mode", default="default", help="of torch.compile: max-autotune takes minutes")
    return p.parse_args()


def loss_of_unet(run, pictures, bars):
    """A function that gives the loss of a step: how far the network's guess is from the noise that was added."""

    def loss():
        t = torch.randint(0, len(bars), (len(pictures),), device=pictures.device)
        noise = torch.randn_like(pictures)
        bar = bars[t][:, None, None, None]
        return F.mse_loss(run(bar.sqrt() * pictures + (1 - bar).sqrt() * noise, t).float(), noise)

    return loss


def main():
    a = arguments()
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    is_unet = a.network == "unet"
    model = (Unet if is_unet else Vgg)(a).to(a.device)
    pictures = torch.rand(a.batch, 3, a.side, a.side, device=a.device) * 2 - 1
    if a.channels_last:
        model = model.to(memory_format=torch.channels_last)
        pictures = pictures.to(memory_format=torch.channels_last)
    parameters = list(model.parameters())
    averages = [p.detach().clone() for p in parameters] if is_unet else []
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.0, fused=True)
    run = torch.compile(model, mode=a.mode) if a.compile else model
    if is_unet:
        bars = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0).to(a.device)
        loss_of_step = loss_of_unet(run, pictures, bars)
    else:
        labels = torch.randint(a.classes, (a.batch,), device=a.device)

        def loss_of_step():
            return F.cross_entropy(run(pictures).float(), labels)

    clock = Clock(a.device)

    def step():
        clock.mark()
        with torch.autocast(a.device, torch.bfloat16, enabled=a.bf16):
            loss = loss_of_step()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if averages:
            torch._foreach_lerp_(averages, parameters, 1e-4)
        clock.mark()
        return loss

    count = sum(p.numel() for p in parameters)
    first_loss = float(step())
    for _ in range(a.warmup - 1):
        step()
    clock.step_s()
    print(json.dumps({"ready": True, "torch": torch.__version__, "parameters": count, "loss": first_loss}), flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            step()
        times = clock.step_s()
        if a.device == "cuda":
            peak = torch.cuda.max_memory_allocated()
            torch.cuda.empty_cache()  # the GPU is another's until the next round
        else:
            peak = own_peak_bytes()
        print(json.dumps({"step_s": times, "peak_bytes": peak}), flush=True)


if __name__ == "__main__":
    main()
