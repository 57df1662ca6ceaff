#!/usr/bin/env python3
"""Makes pictures with a U-Net that `fourfold export RUN --format safetensors` has written, by PyTorch in float64.

  sample_unet.py EXPORTED_FOLDER OUTPUT --count 4 --steps 50 [--sampler ddpm] [--eta 0.5] [--seed 1]

OUTPUT gets the bytes of the pictures one after another, each in the order height, width, channel. Noise is drawn as Fourfold
draws it, so that `fourfold generate RUN --each FOLDER` with the same options makes the same pictures, but for rounding.
Needs PyTorch, safetensors and PyYAML.
"""
import argparse
import pathlib

import torch
import yaml
from models import Unet
from safetensors.torch import load_file


def network(config, seed):
    unet, diffusion = config["unet"], config["diffusion"]
    return Unet(
        learn_sigma=unet["learn_sigma"], scale_shift_norm=unet["scale_shift_norm"],
        convolutions=unet["resample_with_convolution"], conditional=unet["class_conditional"],
        schedule=diffusion["noise_schedule"], steps=diffusion["steps"], picture=tuple(unet["picture"]),
        channels=unet["channels"], mult=tuple(unet["channel_mult"]), blocks=unet["num_res_blocks"],
        attention=tuple(unet["attention_resolutions"]), heads=unet["num_attention_heads"], groups=unet["norm_groups"],
        num_classes=unet["num_classes"], seed=seed)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--sampler", choices=("ddim", "ddpm"), default="ddim")
    parser.add_argument("--eta", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    config = yaml.safe_load(next(a.folder.glob("config*.yaml")).read_text())
    weights = {name: w.double() for name, w in load_file(a.folder / "model.safetensors").items()}
    model = network(config, a.seed)
    labels = torch.arange(a.count) % model.num_classes
    with torch.no_grad():
        x = model.samples(weights, a.count, a.steps, a.sampler == "ddim", a.eta, labels)
    a.output.write_bytes(((x + 1) / 2 * 255).clamp(0, 255).round().to(torch.uint8).numpy().tobytes())


if __name__ == "__main__":
    main()
