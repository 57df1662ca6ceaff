#!/usr/bin/env python3
"""Makes data/gpt-*.safetensors: ten training steps of small GPTs, computed by PyTorch in float64.

Run it as `python3 tests/golden/make_goldens.py` with PyTorch and numpy at hand; README.md says what the files hold.
The model, the loss, clipping and AdamW come from PyTorch's own functions; `self_check` computes them a second way.
The same machine and PyTorch give the same bytes again.
"""
# B batch, T time, C channels, H heads, D head width, F ffn width, V vocabulary, P positions
import argparse
import dataclasses
import json
import pathlib
import struct

import numpy
import torch
from torch.nn import functional

LAYERS, H, C, F, V, P, T = 2, 3, 24, 96, 31, 16, 12
D = C // H
B, STEPS = 4, 10
NORM_EPSILON = 1e-5
BETAS, ADAM_EPSILON, WEIGHT_DECAY = (0.9, 0.95), 1e-8, 0.1
MICRO_BATCH_SIZES = (4, 2, 1)  # all give the same training: the loss is a mean over the global batch
IGNORED = -1
CONSTANT_LR = (1e-3,) * STEPS
VARYING_LR = (2e-4, 6e-4, 1e-3, 1e-3, 9e-4, 7e-4, 5e-4, 3e-4, 1.5e-4, 1e-4)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    tied: bool
    bias: bool
    lr: tuple
    clip: float
    seed: int


# The clip of the third case lies between its smallest and largest norm, so that both branches are taken; the others
# lie below every norm.
CASES = (
    Case("gpt-tied-bias", True, True, CONSTANT_LR, 0.5, 1),
    Case("gpt-tied-nobias", True, False, VARYING_LR, 0.5, 2),
    Case("gpt-untied-bias", False, True, VARYING_LR, 2.9, 3),
    Case("gpt-untied-nobias", False, False, CONSTANT_LR, 0.5, 4),
)


def shapes(case):
    """Names and logical shapes, as the model has them. Weights are stored [in, out]."""
    result = {"wte.weight": (V, C), "wpe.weight": (P, C)}
    for layer in range(LAYERS):
        block = {
            "ln1.gain": (C,), "ln1.bias": (C,),
            "attn.qkv.weight": (C, 3, H, D), "attn.qkv.bias": (3, H, D),
            "attn.out.weight": (H, D, C), "attn.out.bias": (C,),
            "ln2.gain": (C,), "ln2.bias": (C,),
            "mlp.up.weight": (C, F), "mlp.up.bias": (F,),
            "mlp.down.weight": (F, C), "mlp.down.bias": (C,),
        }
        result.update({f"blocks.{layer}.{name}": shape for name, shape in block.items()})
    result.update({"ln_f.gain": (C,), "ln_f.bias": (C,)})
    if not case.tied:
        result["head.weight"] = (C, V)
    return {name: shape for name, shape in result.items() if case.bias or not name.endswith(".bias")}


def decays(name):
    """Weight decay is for matrices and embeddings; a bias stays one whatever its number of dims."""
    return name.endswith(".weight")


def initial_weights(case):
    """Larger than a real initialisation, with random gains and biases, so that no gradient is close to zero."""
    generator = torch.Generator().manual_seed(case.seed)
    weights = {}
    for name, shape in shapes(case).items():
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        if name.endswith(".gain"):
            values = 1 + 0.3 * values
        elif name.endswith(".bias") or name.startswith(("wte", "wpe")):
            values = 0.3 * values
        else:
            inputs = H * D if name.endswith("attn.out.weight") else shape[0]
            values = 1.2 / inputs**0.5 * values
        weights[name] = values
    return weights


def batches(case):
    """Random tokens and their successors; some labels are ignored, unevenly over rows, one whole row among them."""
    generator = torch.Generator().manual_seed(1000 + case.seed)
    text = torch.randint(0, V, (STEPS, B, T + 1), generator=generator)
    tokens, labels = text[..., :-1].contiguous(), text[..., 1:].clone()
    for step in range(STEPS):
        labels[step, step % B, T - 1 - step % 7:] = IGNORED
        if step % 3 == 0:
            labels[step, (step + 1) % B, ::2] = IGNORED
    labels[4, 2, :] = IGNORED
    return tokens, labels


def norm(x, weights, name):
    return functional.layer_norm(x, (C,), weights[f"{name}.gain"], weights.get(f"{name}.bias"), NORM_EPSILON)


def linear(x, weights, name, inputs):
    matrix = weights[f"{name}.weight"].reshape(inputs, -1)
    bias = weights.get(f"{name}.bias")
    return functional.linear(x, matrix.t(), None if bias is None else bias.reshape(-1))


def logits(weights, tokens_BT):
    """GPT-2: learned positions, norms before each branch, tanh GELU, causal attention, the table as head when tied."""
    batch, time = tokens_BT.shape
    x = functional.embedding(tokens_BT, weights["wte.weight"]) + weights["wpe.weight"][:time]
    for layer in range(LAYERS):
        block = f"blocks.{layer}"
        qkv = linear(norm(x, weights, f"{block}.ln1"), weights, f"{block}.attn.qkv", C).view(batch, time, 3, H, D)
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(heads.transpose(1, 2).reshape(batch, time, C), weights, f"{block}.attn.out", C)
        inner = linear(norm(x, weights, f"{block}.ln2"), weights, f"{block}.mlp.up", C)
        x = x + linear(functional.gelu(inner, approximate="tanh"), weights, f"{block}.mlp.down", F)
    x = norm(x, weights, "ln_f")
    head = weights["head.weight"] if "head.weight" in weights else weights["wte.weight"].t()
    return x @ head


def loss_sum(weights, tokens_BT, labels_BT):
    return functional.cross_entropy(
        logits(weights, tokens_BT).reshape(-1, V), labels_BT.reshape(-1), ignore_index=IGNORED, reduction="sum")


def train(case, micro_batch_size):
    """Ten steps by PyTorch's optimizer and clipping; returns the tensors of the file."""
    start = initial_weights(case)
    weights = {name: torch.nn.Parameter(value.clone()) for name, value in start.items()}
    tokens, labels = batches(case)
    optimizer = torch.optim.AdamW(
        [{"params": [w for name, w in weights.items() if decays(name)], "weight_decay": WEIGHT_DECAY},
         {"params": [w for name, w in weights.items() if not decays(name)], "weight_decay": 0.0}],
        lr=0.0, betas=BETAS, eps=ADAM_EPSILON, foreach=False, fused=False)
    result = {f"initial/{name}": value for name, value in start.items()}
    result["logits"] = logits(start, tokens[0])
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        valid = int((labels[step] != IGNORED).sum())
        total = 0.0
        for first in range(0, B, micro_batch_size):
            rows = slice(first, first + micro_batch_size)
            micro_loss = loss_sum(weights, tokens[step, rows], labels[step, rows]) / valid
            micro_loss.backward()
            total += micro_loss.item()
        if step == 0:
            result.update({f"gradient/{name}": w.grad.clone() for name, w in weights.items()})
        losses.append(total)
        norms.append(torch.nn.utils.clip_grad_norm_(weights.values(), case.clip, foreach=False).item())
        for group in optimizer.param_groups:
            group["lr"] = case.lr[step]
        optimizer.step()
    result.update({f"final/{name}": w.detach() for name, w in weights.items()})
    result["tokens"], result["labels"] = tokens.to(torch.int32), labels.to(torch.int32)
    for name, values in (("loss", losses), ("grad_norm", norms), ("lr", case.lr)):
        result[name] = torch.tensor(values, dtype=torch.float64)
    return result


def expect(condition, sentence):
    if not condition:
        raise SystemExit(f"make_goldens.py: self-check failed: {sentence}")


def far(got, expected):
    """Largest difference over the largest expected value."""
    return float((got - expected).abs().max() / expected.abs().max())


def check_micro_batches(case, golden):
    for size in MICRO_BATCH_SIZES[1:]:
        other = train(case, size)
        for name, value in golden.items():
            if name in ("tokens", "labels"):
                continue
            # Key biases have gradient zero: what is left of it is rounding.
            keys = name.startswith("gradient/") and name.endswith("qkv.bias")
            got, expected = (other[name][::2], value[::2]) if keys else (other[name], value)
            expect(far(got, expected) < 1e-11, f"{case.name}: {name} differs with micro-batches of {size}")


def check_differences(case, golden):
    """Central differences of the loss of step 0, at three elements of each tensor, h = 1e-5: error of order h^2."""
    weights = {name: golden[f"initial/{name}"].clone() for name in shapes(case)}
    tokens, labels = batches(case)
    valid = int((labels[0] != IGNORED).sum())
    scale, h = golden["grad_norm"][0], 1e-5
    for name, value in weights.items():
        for index in (0, value.numel() // 2, value.numel() - 1):
            flat = value.view(-1)
            kept = flat[index].item()
            ends = []
            for moved in (kept + h, kept - h):
                flat[index] = moved
                ends.append(loss_sum(weights, tokens[0], labels[0]).item() / valid)
            flat[index] = kept
            slope = (ends[0] - ends[1]) / (2 * h)
            error = abs(slope - golden[f"gradient/{name}"].view(-1)[index].item())
            expect(error < 1e-8 * scale, f"{case.name}: gradient of {name}[{index}] is off by {error}")


def check_update(case, golden):
    """AdamW and clipping as written in src/op/ops.h (UpdateControl, AdamW), with gradients by autograd.grad."""
    weights = {name: golden[f"initial/{name}"].clone() for name in shapes(case)}
    first = {name: torch.zeros_like(w) for name, w in weights.items()}
    second = {name: torch.zeros_like(w) for name, w in weights.items()}
    tokens, labels = batches(case)
    for step in range(STEPS):
        leaves = {name: w.requires_grad_() for name, w in weights.items()}
        valid = int((labels[step] != IGNORED).sum())
        loss = loss_sum(leaves, tokens[step], labels[step]) / valid
        gradients = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values()))))
        size = sum(float((g * g).sum()) for g in gradients.values()) ** 0.5
        expect(abs(size / golden["grad_norm"][step] - 1) < 1e-12, f"{case.name}: norm of step {step}")
        scale, t, lr = min(1.0, case.clip / (size + 1e-6)), step + 1, case.lr[step]
        for name, gradient in gradients.items():
            g = scale * gradient
            first[name] = BETAS[0] * first[name] + (1 - BETAS[0]) * g
            second[name] = BETAS[1] * second[name] + (1 - BETAS[1]) * g * g
            direction = first[name] / (1 - BETAS[0]**t) / ((second[name] / (1 - BETAS[1]**t)).sqrt() + ADAM_EPSILON)
            decay = WEIGHT_DECAY if decays(name) else 0.0
            weights[name] = (leaves[name].detach() * (1 - lr * decay) - lr * direction).detach()
    for name, value in weights.items():
        expect(far(value, golden[f"final/{name}"]) < 1e-11, f"{case.name}: final {name}")


def check_discerning(case, golden):
    """The file tells right from wrong: uneven rows, active clipping, no gradient near zero (but key biases)."""
    tokens, labels = batches(case)
    weights = {name: golden[f"initial/{name}"] for name in shapes(case)}
    per_row = [float(loss_sum(weights, tokens[0, [row]], labels[0, [row]])) / int((labels[0, row] != IGNORED).sum())
               for row in range(B)]
    expect(abs(sum(per_row) / B - golden["loss"][0]) > 1e-3, f"{case.name}: a mean of row means gives the same loss")
    clipped = golden["grad_norm"] > case.clip
    expect(bool(clipped.all()) == (case.clip < 1), f"{case.name}: clipping does not act as the case intends")
    for name in shapes(case):
        gradient = golden[f"gradient/{name}"]
        expect(float(gradient.abs().max()) > 1e-3, f"{case.name}: gradient of {name} is small")
        if name.endswith("qkv.bias"):
            expect(float(gradient[1].abs().max()) < 1e-14, f"{case.name}: key biases of {name} have a gradient")


def self_check(case, golden):
    check_micro_batches(case, golden)
    check_differences(case, golden)
    check_update(case, golden)
    check_discerning(case, golden)


def metadata(case):
    """The settings by the names of the configuration; strings, as the format demands."""
    return {
        "format": "pt",
        "made_by": "tests/golden/make_goldens.py",
        "data.seq_length": str(T),
        "model.bias": "true" if case.bias else "false",
        "model.dropout": "0",
        "model.ffn_hidden_size": str(F),
        "model.hidden_size": str(C),
        "model.layer_norm_epsilon": repr(NORM_EPSILON),
        "model.max_position_embeddings": str(P),
        "model.num_attention_heads": str(H),
        "model.num_layers": str(LAYERS),
        "model.tied_head": "true" if case.tied else "false",
        "model.vocab_size": str(V),
        "optimizer.beta1": repr(BETAS[0]),
        "optimizer.beta2": repr(BETAS[1]),
        "optimizer.epsilon": repr(ADAM_EPSILON),
        "optimizer.grad_clip": repr(case.clip),
        "optimizer.weight_decay": repr(WEIGHT_DECAY),
        "train.global_batch_size": str(B),
        "train.micro_batch_sizes": ",".join(map(str, MICRO_BATCH_SIZES)),
        "train.steps": str(STEPS),
    }


def safetensors(tensors, strings):
    """The bytes of a safetensors file: 8 bytes of header length, JSON padded to 8 bytes, data; widest type first."""
    types = {torch.float64: ("F64", "<f8"), torch.int32: ("I32", "<i4")}
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
    for case in CASES:
        golden = train(case, B)
        self_check(case, golden)
        content = safetensors(golden, metadata(case))
        path = folder / f"{case.name}.safetensors"
        same = path.exists() and path.read_bytes() == content
        changed += not same
        if not same and not arguments.check:
            path.write_bytes(content)
        losses, norms = golden["loss"], golden["grad_norm"]
        print(f"{path.name}: {len(content)} bytes, {'as before' if same else 'changed'}; loss {losses[0]:.4f} to "
              f"{losses[-1]:.4f}, norm {norms.min():.3f} to {norms.max():.3f}, clip {case.clip}")
    if arguments.check and changed:
        raise SystemExit(f"{changed} files differ; run make_goldens.py without --check and look at the differences")


if __name__ == "__main__":
    main()
