#!/usr/bin/env python3
"""Makes data/*.safetensors: ten training steps of small GPTs, Llamas, VGGs and U-Nets, computed by PyTorch in float64.

Run it as `python3 tests/golden/make_goldens.py` with PyTorch and numpy at hand; README.md says what the files hold.
The models (models.py, models_llama.py), the loss, clipping and the optimizers come from PyTorch's own functions; `self_check` computes
them a second way.
The same machine and PyTorch give the same bytes again.
"""
import argparse
import dataclasses
import json
import pathlib
import struct

import numpy
import torch
from models import AVERAGE_DECAY, B, IGNORED, POOL, SAMPLING_ETA, SAMPLING_STEPS, STEPS, Gpt, Unet, Vgg
from models_llama import Llama, Rope
from torch.nn import functional

BETAS, ADAM_EPSILON, WEIGHT_DECAY = (0.9, 0.95), 1e-8, 0.1
LION_BETAS = (0.9, 0.99)
MICRO_BATCH_SIZES = (4, 2, 1)  # all give the same training: the loss is a mean over the global batch
CONSTANT_LR = (1e-3,) * STEPS
VARYING_LR = (2e-4, 6e-4, 1e-3, 1e-3, 9e-4, 7e-4, 5e-4, 3e-4, 1.5e-4, 1e-4)
CONSTANT_SGD_LR, VARYING_SGD_LR = (tuple(50 * lr for lr in rates) for rates in (CONSTANT_LR, VARYING_LR))
# Rounding moves values by 1e-6 in a float32 run, and must not take them across a bend of ReLU or max-pooling.
DISTANCE_TO_BEND = 1e-4
# Rounding moves averages of gradients by 1e-16, and must not turn the step of a weight by Lion.
DISTANCE_TO_TURN = 1e-10


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    model: Gpt | Vgg | Unet
    lr: tuple
    clip: float
    seed: int
    momentum: float = 0.0  # above 0: SGD instead of AdamW
    nesterov: bool = False
    lion: bool = False  # instead of AdamW


# The clip of the third case lies between its smallest and largest norm, so that both branches are taken; the others
# lie below every norm. The seeds of the VGGs are such that their runs stay away from bends (check_update).
CASES = (
    Case("gpt-tied-bias", Gpt(tied=True, bias=True), CONSTANT_LR, 0.5, 1),
    Case("gpt-tied-nobias", Gpt(tied=True, bias=False), VARYING_LR, 0.5, 2),
    Case("gpt-untied-bias", Gpt(tied=False, bias=True), VARYING_LR, 2.9, 3),
    Case("gpt-untied-nobias", Gpt(tied=False, bias=False), CONSTANT_LR, 0.5, 4),
    Case("gpt-sgd", Gpt(tied=True, bias=True), VARYING_SGD_LR, 0.5, 5, momentum=0.9),
    Case("gpt-sgd-nesterov", Gpt(tied=False, bias=False), CONSTANT_SGD_LR, 0.5, 6, momentum=0.8, nesterov=True),
    Case("vgg-adamw", Vgg(widths=(6, POOL, 10, 7, POOL), hidden=(9,)), VARYING_LR, 0.5, 42),
    Case("vgg-sgd", Vgg(widths=(6, POOL, 10, 7, POOL), hidden=(9, 8)), CONSTANT_SGD_LR, 0.5, 7, momentum=0.9),
    Case("vgg-sgd-nesterov", Vgg(widths=(6, 5, POOL, 7), hidden=(), mean=(0.5,), deviation=(0.25,)),
         VARYING_SGD_LR, 0.5, 49, momentum=0.8, nesterov=True),
    Case("unet-sigma", Unet(learn_sigma=True, scale_shift_norm=True, convolutions=True, conditional=True,
                            schedule="cosine", steps=6), VARYING_LR, 0.5, 20),
    Case("unet-plain", Unet(learn_sigma=False, scale_shift_norm=False, convolutions=False, conditional=False,
                            schedule="linear", steps=1000), CONSTANT_LR, 0.5, 24),
    Case("llama-groups", Llama(tied=True, bias=False, groups=3, of_group=2), VARYING_LR, 0.5, 31),
    Case("llama-qwen2", Llama(tied=False, bias=False, groups=4, of_group=1, attention_bias="qkv",
                              rope=Rope("llama3", factor=4.0, original_positions=8)), CONSTANT_LR, 0.5, 32),
    Case("llama-qwen3", Llama(tied=True, bias=False, groups=2, of_group=3, head_norm=True,
                              rope=Rope("linear", factor=2.0)), VARYING_LR, 0.5, 33),
    Case("llama-biases", Llama(tied=False, bias=True, groups=1, of_group=3, attention_bias="all",
                               rope=Rope("yarn", factor=4.0, original_positions=8, beta_fast=1.0, beta_slow=0.1)),
         VARYING_SGD_LR, 0.5, 34, momentum=0.9),
    Case("gpt-lion", Gpt(tied=True, bias=True), VARYING_LR, 0.5, 51, lion=True),
)
# Step 0 of these once more, in bf16.
AUTOCAST_CASES = CASES[:1] + CASES[3:4] + CASES[11:12]


def decays(name):
    """Weight decay is for matrices and embeddings; a bias stays one whatever its number of dims."""
    return ".weight" in name


def initial_weights(case):
    """Larger than a real initialisation, with random gains and biases, so that no gradient is close to zero."""
    generator = torch.Generator().manual_seed(case.seed)
    return {name: case.model.initial_weight(name, shape, generator) for name, shape in case.model.shapes().items()}


def batches(case):
    """Inputs and labels of all steps."""
    return case.model.batches(torch.Generator().manual_seed(1000 + case.seed))


EVERY_ROW = slice(0, B)


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023 (arXiv:2302.06675), algorithm 2, in place and in the order in which PyTorch's own optimizers compute."""

    def __init__(self, groups, betas):
        super().__init__(groups, {"lr": 0.0, "betas": betas})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for weight in group["params"]:
                average = self.state[weight].setdefault("average", torch.zeros_like(weight))
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(average.mul(beta1).add_(weight.grad, alpha=1 - beta1).sign_(), alpha=-group["lr"])
                average.lerp_(weight.grad, 1 - beta2)


def optimizer_of(case, groups):
    if case.lion:
        return Lion(groups, LION_BETAS)
    if case.momentum > 0:
        return torch.optim.SGD(groups, lr=0.0, momentum=case.momentum, nesterov=case.nesterov, foreach=False, fused=False)
    return torch.optim.AdamW(groups, lr=0.0, betas=BETAS, eps=ADAM_EPSILON, foreach=False, fused=False)


def train(case, micro_batch_size):
    """Ten steps by PyTorch's optimizer and clipping; returns the tensors of the file."""
    start = initial_weights(case)
    weights = {name: torch.nn.Parameter(value.clone()) for name, value in start.items()}
    inputs, labels = batches(case)
    groups = [{"params": [w for name, w in weights.items() if decays(name)], "weight_decay": WEIGHT_DECAY},
              {"params": [w for name, w in weights.items() if not decays(name)], "weight_decay": 0.0}]
    optimizer = optimizer_of(case, groups)
    result = {f"initial/{name}": value for name, value in start.items()}
    if hasattr(case.model, "logits"):
        result["logits"] = case.model.logits(start, inputs[0])
    averages = {name: value.clone() for name, value in start.items()}
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        valid = int((labels[step] != IGNORED).sum())
        total = 0.0
        for first in range(0, B, micro_batch_size):
            rows = slice(first, first + micro_batch_size)
            micro_loss = case.model.loss_sum(weights, (inputs, labels), step, rows) / valid
            micro_loss.backward()
            total += micro_loss.item()
        if step == 0:
            result.update({f"gradient/{name}": w.grad.clone() for name, w in weights.items()})
        losses.append(total)
        norms.append(torch.nn.utils.clip_grad_norm_(weights.values(), case.clip, foreach=False).item())
        for group in optimizer.param_groups:
            group["lr"] = case.lr[step]
        optimizer.step()
        for name, w in weights.items():
            averages[name] = AVERAGE_DECAY * averages[name] + (1 - AVERAGE_DECAY) * w.detach()
    result.update({f"final/{name}": w.detach() for name, w in weights.items()})
    if isinstance(case.model, Unet):
        result.update({f"average/{name}": value for name, value in averages.items()})
        result.update(sampled(case, start))
    result[case.model.input], result["labels"] = inputs, labels.to(torch.int32)
    for name, values in (("loss", losses), ("grad_norm", norms), ("lr", case.lr)):
        result[name] = torch.tensor(values, dtype=torch.float64)
    return result


def sampled(case, weights):
    """Pictures that the initial weights make out of noise, of classes 0 to 3, by both samplers."""
    labels = torch.arange(B) % case.model.num_classes
    with torch.no_grad():
        return {
            "samples/ddim": case.model.samples(weights, B, SAMPLING_STEPS, True, SAMPLING_ETA, labels),
            "samples/ddpm": case.model.samples(weights, B, SAMPLING_STEPS, False, 0, labels),
        }


def autocast_gradients(case):
    """Loss and gradients of step 0 with float32 weights under PyTorch's autocast to bf16, as it is on a GPU: there the loss
    is in its list of operations in float32, so logits are taken to float32 here."""
    weights = {name: torch.nn.Parameter(value.float()) for name, value in initial_weights(case).items()}
    inputs, labels = batches(case)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = case.model.logits(weights, inputs[0])
    expect(logits.dtype == torch.bfloat16, "autocast multiplies in bf16")
    loss = functional.cross_entropy(logits.float().flatten(0, -2), labels[0].flatten(), ignore_index=IGNORED)
    loss.backward()
    gradients = {f"gradient/{name}": w.grad.double() for name, w in weights.items()}
    return gradients | {"loss": loss.detach().double().reshape(1)}


def expect(condition, sentence):
    if not condition:
        raise SystemExit(f"make_goldens.py: self-check failed: {sentence}")


def far(got, expected):
    """Largest difference over the largest expected value."""
    return float((got - expected).abs().max() / expected.abs().max())


def has_idle_keys(case, name):
    """Positions turn the keys of a Llama, so that their biases do something."""
    return name.endswith("qkv.bias") and type(case.model) is Gpt


def check_micro_batches(case, golden):
    for size in MICRO_BATCH_SIZES[1:]:
        other = train(case, size)
        for name, value in golden.items():
            if not value.is_floating_point():
                continue
            # Key biases of a GPT have gradient zero: what is left of it is rounding, of which Lion takes the sign.
            keys = (case.lion or name.startswith("gradient/")) and has_idle_keys(case, name)
            got, expected = (other[name][::2], value[::2]) if keys else (other[name], value)
            expect(far(got, expected) < 1e-11, f"{case.name}: {name} differs with micro-batches of {size}")


def check_differences(case, golden):
    """Central differences of the loss of step 0, at three elements of each tensor: error of order h^2. No bend is
    so near that a move by h crosses it."""
    weights = {name: golden[f"initial/{name}"].clone() for name in case.model.shapes()}
    inputs, labels = batches(case)
    valid = int((labels[0] != IGNORED).sum())
    scale, h = golden["grad_norm"][0], 1e-6
    # What has no gradient on purpose stays as it is.
    is_part_fixed = isinstance(case.model, Unet)
    fixed = {"mean_weights": {name: w.clone() for name, w in weights.items()}} if is_part_fixed else {}
    for name, value in weights.items():
        for index in (0, value.numel() // 2, value.numel() - 1):
            flat = value.view(-1)
            kept = flat[index].item()
            ends = []
            for moved in (kept + h, kept - h):
                flat[index] = moved
                ends.append(case.model.loss_sum(weights, (inputs, labels), 0, EVERY_ROW, **fixed).item() / valid)
            flat[index] = kept
            slope = (ends[0] - ends[1]) / (2 * h)
            error = abs(slope - golden[f"gradient/{name}"].view(-1)[index].item())
            expect(error < 1e-8 * scale, f"{case.name}: gradient of {name}[{index}] is off by {error}")


def check_update(case, golden):
    """Clipping and the update as written in src/op/ops.h (UpdateControl) and src/op/optimizers.h, with gradients by autograd.grad."""
    weights = {name: golden[f"initial/{name}"].clone() for name in case.model.shapes()}
    first = {name: torch.zeros_like(w) for name, w in weights.items()}
    second = {name: torch.zeros_like(w) for name, w in weights.items()}
    inputs, labels = batches(case)
    for step in range(STEPS):
        distance = case.model.distance_to_bend(weights, inputs[step])
        expect(distance > DISTANCE_TO_BEND, f"{case.name}: {distance:.1e} from a bend in step {step}, try another seed")
        leaves = {name: w.requires_grad_() for name, w in weights.items()}
        valid = int((labels[step] != IGNORED).sum())
        loss = case.model.loss_sum(leaves, (inputs, labels), step, EVERY_ROW) / valid
        gradients = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values()))))
        size = sum(float((g * g).sum()) for g in gradients.values()) ** 0.5
        expect(abs(size / golden["grad_norm"][step] - 1) < 1e-12, f"{case.name}: norm of step {step}")
        scale, t, lr = min(1.0, case.clip / (size + 1e-6)), step + 1, case.lr[step]
        for name, gradient in gradients.items():
            g = scale * gradient
            decay = WEIGHT_DECAY if decays(name) else 0.0
            if case.momentum > 0:
                g = g + decay * leaves[name].detach()
                first[name] = case.momentum * first[name] + g
                direction = g + case.momentum * first[name] if case.nesterov else first[name]
                weights[name] = (leaves[name].detach() - lr * direction).detach()
                continue
            if case.lion:
                direction = LION_BETAS[0] * first[name] + (1 - LION_BETAS[0]) * g
                first[name] = LION_BETAS[1] * first[name] + (1 - LION_BETAS[1]) * g
                moved = direction[0::2] if has_idle_keys(case, name) else direction
                moved = moved[moved != 0]  # positions that no sample has are not moved
                expect(float(moved.abs().min()) > DISTANCE_TO_TURN,
                       f"{case.name}: {name} has a direction near zero, try another seed")
                weights[name] = (leaves[name].detach() * (1 - lr * decay) - lr * direction.sign()).detach()
                continue
            first[name] = BETAS[0] * first[name] + (1 - BETAS[0]) * g
            second[name] = BETAS[1] * second[name] + (1 - BETAS[1]) * g * g
            direction = first[name] / (1 - BETAS[0]**t) / ((second[name] / (1 - BETAS[1]**t)).sqrt() + ADAM_EPSILON)
            weights[name] = (leaves[name].detach() * (1 - lr * decay) - lr * direction).detach()
    for name, value in weights.items():
        step = 2 if case.lion and has_idle_keys(case, name) else 1
        expect(far(value[::step], golden[f"final/{name}"][::step]) < 1e-11, f"{case.name}: final {name}")


def check_discerning(case, golden):
    """The file tells right from wrong: uneven halves, active clipping, no gradient near zero (but key biases)."""
    inputs, labels = batches(case)
    weights = {name: golden[f"initial/{name}"] for name in case.model.shapes()}
    means = [float(case.model.loss_sum(weights, (inputs, labels), 0, half)) / int((labels[0, half] != IGNORED).sum())
             for half in (slice(B // 2), slice(B // 2, B))]
    expect(abs(sum(means) / 2 - golden["loss"][0]) > 1e-3, f"{case.name}: a mean of means gives the same loss")
    clipped = golden["grad_norm"] > case.clip
    expect(bool(clipped.all()) == (case.clip < 1), f"{case.name}: clipping does not act as the case intends")
    for name in case.model.shapes():
        gradient = golden[f"gradient/{name}"]
        expect(float(gradient.abs().max()) > 1e-3, f"{case.name}: gradient of {name} is small")
        if has_idle_keys(case, name):
            expect(float(gradient[1].abs().max()) < 1e-14, f"{case.name}: key biases of {name} have a gradient")


def self_check(case, golden):
    check_micro_batches(case, golden)
    check_differences(case, golden)
    check_update(case, golden)
    check_discerning(case, golden)


def metadata(case):
    """The settings by the names of the configuration; strings, as the format demands."""
    sgd = {
        "optimizer.name": "sgd",
        "optimizer.momentum": repr(case.momentum),
        "optimizer.nesterov": "true" if case.nesterov else "false",
    }
    lion = {"optimizer.name": "lion", "optimizer.beta1": repr(LION_BETAS[0]), "optimizer.beta2": repr(LION_BETAS[1])}
    return {
        "format": "pt",
        "made_by": "tests/golden/make_goldens.py",
    } | case.model.settings() | {
        "optimizer.beta1": repr(BETAS[0]),
        "optimizer.beta2": repr(BETAS[1]),
        "optimizer.epsilon": repr(ADAM_EPSILON),
        "optimizer.grad_clip": repr(case.clip),
        "optimizer.weight_decay": repr(WEIGHT_DECAY),
        "train.global_batch_size": str(B),
        "train.micro_batch_sizes": ",".join(map(str, MICRO_BATCH_SIZES)),
        "train.steps": str(STEPS),
    } | (sgd if case.momentum > 0 else lion if case.lion else {})


def safetensors(tensors, strings):
    """The bytes of a safetensors file: 8 bytes of header length, JSON padded to 8 bytes, data; widest type first."""
    types = {torch.float64: ("F64", "<f8"), torch.int32: ("I32", "<i4"), torch.uint8: ("U8", "u1")}
    header, data = {"__metadata__": strings}, b""
    for name in sorted(tensors, key=lambda name: (-tensors[name].element_size(), name)):
        tensor = tensors[name]
        label, layout = types[tensor.dtype]
        piece = numpy.ascontiguousarray(tensor.detach().numpy().astype(layout)).tobytes()
        header[name] = {"dtype": label, "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def main():
    parser = argparse.ArgumentParser(description="Makes the golden training runs, after checking them a second way.")
    parser.add_argument("--check", action="store_true", help="write nothing; say whether the files would change")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    folder = pathlib.Path(__file__).resolve().parent / "data"
    folder.mkdir(exist_ok=True)
    changed = 0

    def write(path, content):
        nonlocal changed
        same = path.exists() and path.read_bytes() == content
        changed += not same
        if not same and not arguments.check:
            path.write_bytes(content)
        return f"{path.name}: {len(content)} bytes, {'as before' if same else 'changed'}"

    for case in CASES:
        golden = train(case, B)
        self_check(case, golden)
        written = write(folder / f"{case.name}.safetensors", safetensors(golden, metadata(case)))
        losses, norms = golden["loss"], golden["grad_norm"]
        print(f"{written}; loss {losses[0]:.4f} to {losses[-1]:.4f}, norm {norms.min():.3f} to {norms.max():.3f}, "
              f"clip {case.clip}")
    for case in AUTOCAST_CASES:
        golden = autocast_gradients(case)
        print(write(folder / f"{case.name}-autocast.safetensors", safetensors(golden, {"format": "pt"})))
    if arguments.check and changed:
        raise SystemExit(f"{changed} files differ; run make_goldens.py without --check and look at the differences")


if __name__ == "__main__":
    main()
