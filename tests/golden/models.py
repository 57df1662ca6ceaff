"""The models of the golden runs, written with PyTorch's own functions: a GPT and a VGG. make_goldens.py trains them.

Each has its weights by name, in the shapes and in the order of dims that Fourfold stores; what the batches are; the
logits; and the settings by the names of the configuration.
"""
# B batch, T time, C channels, H heads or height, D head width, F ffn width, V vocabulary, P positions, W width
import dataclasses
import math

import torch
from torch.nn import functional

LAYERS, H, C, F, V, P, T = 2, 3, 24, 96, 31, 16, 12
D = C // H
B, STEPS = 4, 10
NORM_EPSILON = 1e-5
IGNORED = -1
POOL = "pool"


@dataclasses.dataclass(frozen=True)
class Gpt:
    """GPT-2: learned positions, norms before each branch, tanh GELU, causal attention, the table as head when tied."""

    tied: bool
    bias: bool
    input = "tokens"

    def shapes(self):
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
        if not self.tied:
            result["head.weight"] = (C, V)
        return {name: shape for name, shape in result.items() if self.bias or not name.endswith(".bias")}

    def initial_weight(self, name, shape, generator):
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        if name.endswith(".gain"):
            return 1 + 0.3 * values
        if name.endswith(".bias") or name.startswith(("wte", "wpe")):
            return 0.3 * values
        inputs = H * D if name.endswith("attn.out.weight") else shape[0]
        return 1.2 / inputs**0.5 * values

    def batches(self, generator):
        """Random tokens and their successors; some labels are ignored, unevenly over rows, one whole row among them."""
        text = torch.randint(0, V, (STEPS, B, T + 1), generator=generator)
        tokens, labels = text[..., :-1].to(torch.int32), text[..., 1:].clone()
        for step in range(STEPS):
            labels[step, step % B, T - 1 - step % 7:] = IGNORED
            if step % 3 == 0:
                labels[step, (step + 1) % B, ::2] = IGNORED
        labels[4, 2, :] = IGNORED
        return tokens, labels

    def logits(self, weights, tokens_BT):
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

    def distance_to_bend(self, weights, tokens_BT):
        return math.inf  # GPT is smooth.

    def settings(self):
        return {
            "data.seq_length": str(T),
            "model.bias": "true" if self.bias else "false",
            "model.dropout": "0",
            "model.ffn_hidden_size": str(F),
            "model.hidden_size": str(C),
            "model.layer_norm_epsilon": repr(NORM_EPSILON),
            "model.max_position_embeddings": str(P),
            "model.num_attention_heads": str(H),
            "model.num_layers": str(LAYERS),
            "model.tied_head": "true" if self.tied else "false",
            "model.vocab_size": str(V),
        }


def norm(x, weights, name):
    return functional.layer_norm(x, (C,), weights[f"{name}.gain"], weights.get(f"{name}.bias"), NORM_EPSILON)


def linear(x, weights, name, inputs):
    matrix = weights[f"{name}.weight"].reshape(inputs, -1)
    bias = weights.get(f"{name}.bias")
    return functional.linear(x, matrix.t(), None if bias is None else bias.reshape(-1))


@dataclasses.dataclass(frozen=True)
class Vgg:
    """3 x 3 convolutions with ReLU, max-pooling of 2 x 2, linear layers with ReLU, a head. Pictures are bytes."""

    widths: tuple  # channels that each convolution gives, in order, or POOL
    hidden: tuple  # widths of the linear layers before the head
    picture: tuple = (8, 6, 3)  # height, width, channels
    num_classes: int = 5
    mean: tuple = (0.45, 0.5, 0.55)  # by channel, or one for all
    deviation: tuple = (0.25, 0.3, 0.2)
    input = "pictures"

    def shapes(self):
        """Kernels are stored [out, row, column, in]; the first linear layer contracts all dims of its input."""
        result, sample, convolutions = {}, list(self.picture), 0
        for width in self.widths:
            if width == POOL:
                sample[:2] = sample[0] // 2, sample[1] // 2
                continue
            result[f"conv.{convolutions}.weight"] = (width, 3, 3, sample[2])
            result[f"conv.{convolutions}.bias"] = (width,)
            sample[2] = width
            convolutions += 1
        for name, width in [*((f"linear.{i}", width) for i, width in enumerate(self.hidden)),
                            ("head", self.num_classes)]:
            result[f"{name}.weight"] = (*sample, width)
            result[f"{name}.bias"] = (width,)
            sample = [width]
        return result

    def initial_weight(self, name, shape, generator):
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        if name.endswith(".bias"):
            return 0.3 * values
        return 1.5 / math.prod(shape[1:] if name.startswith("conv") else shape[:-1])**0.5 * values

    def batches(self, generator):
        """Random bytes and classes; the label of one picture is ignored in every second step, of two in step 4."""
        pictures = torch.randint(0, 256, (STEPS, B, *self.picture), generator=generator).to(torch.uint8)
        labels = torch.randint(0, self.num_classes, (STEPS, B), generator=generator)
        for step in range(0, STEPS, 2):
            labels[step, step // 2 % B] = IGNORED
        labels[4, 0] = IGNORED
        return pictures, labels

    def logits(self, weights, pictures_BHWC):
        return self.forward(weights, pictures_BHWC, [])

    def distance_to_bend(self, weights, pictures_BHWC):
        distances = []
        self.forward(weights, pictures_BHWC, distances)
        return float(min(distances))

    def forward(self, weights, pictures_BHWC, distances):
        """The logits. `distances` gets those of `relu` and `max_pool`."""
        mean, deviation = (torch.tensor(values, dtype=torch.float64) for values in (self.mean, self.deviation))
        x = ((pictures_BHWC.to(torch.float64) / 255 - mean) / deviation).permute(0, 3, 1, 2)
        convolutions = 0
        for width in self.widths:
            if width == POOL:
                x = max_pool(x, distances)
                continue
            name = f"conv.{convolutions}"
            kernel = weights[f"{name}.weight"].permute(0, 3, 1, 2)
            x = relu(functional.conv2d(x, kernel, weights[f"{name}.bias"], padding=1), distances)
            convolutions += 1
        x = x.permute(0, 2, 3, 1).flatten(1)
        for layer in range(len(self.hidden)):
            x = relu(linear(x, weights, f"linear.{layer}", x.shape[1]), distances)
        return linear(x, weights, "head", x.shape[1])

    def settings(self):
        def listed(values):
            return ",".join(map(str, values))

        return {
            "data.deviation": listed(self.deviation),
            "data.mean": listed(self.mean),
            "model.kind": "vgg",
            "vgg.dropout": "0",
            "vgg.hidden": listed(self.hidden),
            "vgg.num_classes": str(self.num_classes),
            "vgg.picture": listed(self.picture),
            "vgg.widths": listed(self.widths),
        }


def relu(x, distances):
    """Appends how far the input is from 0."""
    distances.append(x.detach().abs().min())
    return functional.relu(x)


def max_pool(x_BCHW, distances):
    """Appends how far the largest value of a window is from the next one; windows of zeros have a gradient of 0."""
    windows = x_BCHW.detach().unfold(2, 2, 2).unfold(3, 2, 2).flatten(-2)
    first, second = windows.topk(2).values.unbind(-1)
    distances.append((first - second)[first > 0].min())
    return functional.max_pool2d(x_BCHW, 2)
