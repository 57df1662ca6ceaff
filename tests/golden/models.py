"""The models of the golden runs, written with PyTorch's own functions: a GPT, a VGG, a U-Net of a diffusion model.
make_goldens.py trains them.

Each has its weights by name, in the shapes and in the order of dims that Fourfold stores; what the batches are; the
loss; and the settings by the names of the configuration.
"""
# B batch, T time, C channels, H heads or height, D head width, F ffn width, V vocabulary, P positions, W width
import dataclasses
import math

import philox
import torch
from torch.nn import functional

LAYERS, H, C, F, V, P, T = 2, 3, 24, 96, 31, 16, 12
D = C // H
B, STEPS = 4, 10
NORM_EPSILON = 1e-5
IGNORED = -1
POOL = "pool"
AVERAGE_DECAY = 0.9
SAMPLING_STEPS, SAMPLING_ETA = 4, 0.5  # of implicit steps


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

    def loss_sum(self, weights, batch, step, rows):
        return cross_entropy_sum(self, weights, batch, step, rows)

    def distance_to_bend(self, weights, inputs):
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


def cross_entropy_sum(model, weights, batch, step, rows):
    """Over the valid labels of some samples of a step."""
    inputs, labels = (tensor[step, rows] for tensor in batch)
    return functional.cross_entropy(
        model.logits(weights, inputs).flatten(0, -2), labels.flatten(), ignore_index=IGNORED, reduction="sum")


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

    def loss_sum(self, weights, batch, step, rows):
        return cross_entropy_sum(self, weights, batch, step, rows)

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


@dataclasses.dataclass(frozen=True)
class Unet:
    """The U-Net of Nichol, Dhariwal 2021 that predicts noise, with concatenated skips: a weight that Fourfold has in parts
    (`conv1.weight.0`, `.1`) is joined here. Times and noise are those of `philox.py`."""

    learn_sigma: bool
    scale_shift_norm: bool
    convolutions: bool  # where pictures are halved and doubled
    conditional: bool
    schedule: str
    steps: int
    picture: tuple = (8, 8, 3)
    channels: int = 8
    mult: tuple = (1, 2)
    blocks: int = 1
    attention: tuple = (4,)
    heads: int = 2
    groups: int = 4
    num_classes: int = 5
    bound_weight: float = 0.05
    seed: int = 1  # of times and noise, as the tests run it
    input = "pictures"

    def shapes(self):
        """Collected while the network is applied to names alone."""
        shapes = {}
        self.output(Recorder(shapes), torch.zeros((1, *self.picture), dtype=torch.float64), torch.zeros(1, dtype=torch.int64),
                    torch.zeros(1, dtype=torch.int64))
        return shapes

    def initial_weight(self, name, shape, generator):
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        if ".gain" in name:
            return 1 + 0.3 * values
        if ".bias" in name or name == "class.weight":
            return 0.3 * values
        outputs = shape[0] if len(shape) == 4 and shape[1] == shape[2] != 2 else 1
        fan_in = math.prod(shape) / outputs if outputs > 1 else shape[0]
        return 1.2 / fan_in**0.5 * values

    def batches(self, generator):
        """Random bytes and classes; the label of one picture is ignored in every second step."""
        pictures = torch.randint(0, 256, (STEPS, B, *self.picture), generator=generator).to(torch.uint8)
        pictures[0, 0, :2] = 0  # the ends of the range count apart in the bound
        pictures[0, 1, :2] = 255
        labels = torch.randint(0, self.num_classes, (STEPS, B), generator=generator)
        for step in range(0, STEPS, 2):
            labels[step, (step // 2 + 3) % B] = IGNORED
        return pictures, labels

    # --- the network

    def output(self, w, x_BHWC, t_B, labels_B):
        h = x_BHWC.permute(0, 3, 1, 2)
        told = self.told(w, t_B, labels_B).to(h.dtype)
        h = self.convolution(w, "in", [h], self.channels)
        skips = [h]
        for level, factor in enumerate(self.mult):
            for i in range(self.blocks):
                h = self.block(w, f"down.{level}.{i}", [h], told, factor * self.channels)
                skips.append(h)
            if level + 1 < len(self.mult):
                name = f"down.{level}.half"
                h = (self.convolution(w, name, [h], h.shape[1], stride=2) if self.convolutions
                     else functional.avg_pool2d(h, 2))
                skips.append(h)
        h = self.residual(w, "middle.0", [h], told, h.shape[1])
        h = self.attend(w, "middle.attention", h)
        h = self.residual(w, "middle.1", [h], told, h.shape[1])
        for level in reversed(range(len(self.mult))):
            for i in range(self.blocks + 1):
                h = self.block(w, f"up.{level}.{i}", [h, skips.pop()], told, self.mult[level] * self.channels)
            if level > 0:
                h = functional.interpolate(h, scale_factor=2, mode="nearest")
                if self.convolutions:
                    h = self.convolution(w, f"up.{level}.twice", [h], h.shape[1])
        h = functional.silu(self.norm(w, "out.norm", [h]))
        return self.convolution(w, "out", [h], self.picture[2] * (2 if self.learn_sigma else 1)).permute(0, 2, 3, 1)

    def told(self, w, t_B, labels_B):
        half = self.channels // 2
        periods = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float64) / half)
        angles = t_B[:, None].double() * (1000 / self.steps) * periods
        h = torch.cat([angles.cos(), angles.sin()], dim=1)
        inside = 4 * self.channels
        h = functional.silu(self.linear(w, "time.0", h, (inside,)))
        h = self.linear(w, "time.1", h, (inside,))
        if self.conditional:
            rows = functional.embedding(labels_B.clamp(min=0), w.get("class.weight", (self.num_classes, inside)))
            h = h + rows * (labels_B >= 0)[:, None]
        return functional.silu(h)

    def block(self, w, name, parts, told, width):
        h = self.residual(w, name, parts, told, width)
        return self.attend(w, f"{name}.attention", h) if h.shape[2] in self.attention else h

    def residual(self, w, name, parts, told, width):
        h = functional.silu(self.norm(w, f"{name}.norm1", parts))
        # One convolution reads what was concatenated, split again by the names of its weights alone.
        h = self.convolution(w, f"{name}.conv1", list(h.split([part.shape[1] for part in parts], dim=1)), width)
        if self.scale_shift_norm:
            scale, shift = self.linear(w, f"{name}.time", told, (2, width)).unbind(1)
            h = self.norm(w, f"{name}.norm2", [h]) * (1 + scale[..., None, None]) + shift[..., None, None]
        else:
            h = h + self.linear(w, f"{name}.time", told, (width,))[..., None, None]
            h = self.norm(w, f"{name}.norm2", [h])
        h = self.convolution(w, f"{name}.conv2", [functional.silu(h)], width)
        if len(parts) == 1 and parts[0].shape[1] == width:
            return parts[0] + h
        return self.convolution(w, f"{name}.shortcut", parts, width, kernel=1) + h

    def attend(self, w, name, x_BCHW):
        batch, width, rows, columns = x_BCHW.shape
        h = self.norm(w, f"{name}.norm", [x_BCHW]).permute(0, 2, 3, 1).reshape(batch, rows * columns, width)
        each = width // self.heads
        qkv = self.linear(w, f"{name}.qkv", h, (3, self.heads, each))
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        scores = torch.softmax(q @ k.transpose(2, 3) / each**0.5, dim=-1)
        y = (scores @ v).transpose(1, 2)
        out = y.reshape(batch, rows * columns, width) @ w.get(
            f"{name}.out.weight", (self.heads, each, width)).reshape(width, width)
        out = out + w.get(f"{name}.out.bias", (width,))
        return x_BCHW + out.reshape(batch, rows, columns, width).permute(0, 3, 1, 2)

    def norm(self, w, name, parts):
        gain, bias = (torch.cat([w.get(of_part(f"{name}.{what}", i, parts), (part.shape[1],))
                                 for i, part in enumerate(parts)]) for what in ("gain", "bias"))
        return functional.group_norm(torch.cat(parts, dim=1), self.groups, gain, bias, NORM_EPSILON)

    def convolution(self, w, name, parts, width, kernel=3, stride=1):
        weight = torch.cat([w.get(of_part(f"{name}.weight", i, parts), (width, kernel, kernel, part.shape[1]))
                            for i, part in enumerate(parts)], dim=3)
        bias = w.get(f"{name}.bias", (width,))
        return functional.conv2d(torch.cat(parts, dim=1), weight.permute(0, 3, 1, 2), bias, stride, kernel // 2)

    def linear(self, w, name, x, out):
        weight = w.get(f"{name}.weight", (x.shape[-1], *out))
        y = x @ weight.reshape(x.shape[-1], -1) + w.get(f"{name}.bias", out).reshape(-1)
        return y.reshape(*x.shape[:-1], *out)

    # --- the loss

    def schedule_rows(self, times=None):
        """signal, noise, coefficients of the mean, log variance, log beta, of each time, or of some alone."""
        steps = self.steps
        if self.schedule == "linear":
            betas = torch.linspace(0.1 / steps, 20 / steps, steps, dtype=torch.float64)
        else:
            bar = lambda t: math.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
            betas = torch.tensor([1 - bar((i + 1) / steps) / bar(i / steps) for i in range(steps)], dtype=torch.float64)
        betas = betas.clamp(max=0.999)
        bars = torch.cumprod(1 - betas, 0)
        if times is not None:
            bars = bars[times]
            betas = 1 - bars / torch.cat([torch.ones(1, dtype=torch.float64), bars[:-1]])
        before = torch.cat([torch.ones(1, dtype=torch.float64), bars[:-1]])
        variance = betas * (1 - before) / (1 - bars)
        log_variance = torch.cat([variance[1:2], variance[1:]]).log()
        return {"signal": bars.sqrt(), "noise": (1 - bars).sqrt(), "of_start": betas * before.sqrt() / (1 - bars),
                "of_noised": (1 - before) * (1 - betas).sqrt() / (1 - bars), "log_variance": log_variance,
                "log_beta": betas.log()}

    def loss_sum(self, weights, batch, step, rows, mean_weights=None):
        """The bound has no gradient by the mean, which `mean_weights` give; without them, these weights as they are."""
        pictures, labels = (tensor[step, rows] for tensor in batch)
        samples = list(range(B))[rows]
        t = torch.tensor([philox.time(self.seed, "diffusion.times", sample, step, self.steps) for sample in samples])
        size = math.prod(self.picture)
        noise = torch.tensor([[philox.normal(self.seed, "diffusion.noise", sample * size + i, step) for i in range(size)]
                              for sample in samples], dtype=torch.float64).reshape(-1, *self.picture)
        at = {name: column[t][:, None, None, None] for name, column in self.schedule_rows().items()}
        start = pictures.double() / 255 * 2 - 1
        noised = at["signal"] * start + at["noise"] * noise
        channels = self.picture[2]
        output = self.output(Weights(weights), noised, t, labels)
        predicted = output[..., :channels]
        losses = ((noise - predicted) ** 2).flatten(1).mean(1)
        if self.learn_sigma:
            with torch.no_grad():
                fixed = output if mean_weights is None else self.output(Weights(mean_weights), noised, t, labels)
                predicted_start = (noised - at["noise"] * fixed[..., :channels]) / at["signal"]
                mean = at["of_start"] * predicted_start + at["of_noised"] * noised
            part = (output[..., channels:] + 1) / 2
            log_variance = part * at["log_beta"] + (1 - part) * at["log_variance"]
            bound = self.bound(start, noised, mean, log_variance, at, t).flatten(1).mean(1)
            losses = losses + self.bound_weight * self.steps * bound
        return (losses * (labels >= 0)).sum()

    @staticmethod
    def bound(start, noised, mean, log_variance, at, t):
        """The term of the variational bound of each element, in bits."""
        true_mean, true_log = at["of_start"] * start + at["of_noised"] * noised, at["log_variance"]
        divergence = 0.5 * (-1 + log_variance - true_log + torch.exp(true_log - log_variance)
                            + (true_mean - mean) ** 2 * torch.exp(-log_variance))
        below = lambda x: 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        scale = torch.exp(-0.5 * log_variance)
        high, low = below(scale * (start - mean + 1 / 255)), below(scale * (start - mean - 1 / 255))
        logs = [x.clamp(min=1e-12).log() for x in (high, 1 - low, high - low)]
        first = -torch.where(start < -0.999, logs[0], torch.where(start > 0.999, logs[1], logs[2]))
        return torch.where((t == 0)[:, None, None, None], first, divergence) / math.log(2)

    def samples(self, weights, count, used, implicit, eta, labels):
        """Pictures made out of noise in so many steps: by the process backwards, or by implicit steps."""
        size, channels = math.prod(self.picture), self.picture[2]

        def noise(name, step):
            numbers = [philox.normal(self.seed, name, i, step) for i in range(count * size)]
            return torch.tensor(numbers, dtype=torch.float64).reshape(count, *self.picture)

        times = [0] if used == 1 else [(2 * i * (self.steps - 1) + used - 1) // (2 * (used - 1)) for i in range(used)]
        rows = self.schedule_rows(times)
        x = noise("diffusion.start", 0)
        for index in reversed(range(used)):
            at = {name: column[index] for name, column in rows.items()}
            output = self.output(Weights(weights), x, torch.full((count,), times[index]), labels)
            start = ((x - at["noise"] * output[..., :channels]) / at["signal"]).clamp(-1, 1)
            z = noise("diffusion.sampling", index) if index > 0 else torch.zeros_like(x)
            if not implicit:
                log_variance = at["log_variance"]
                if self.learn_sigma:
                    part = (output[..., channels:] + 1) / 2
                    log_variance = part * at["log_beta"] + (1 - part) * at["log_variance"]
                x = at["of_start"] * start + at["of_noised"] * x + torch.exp(0.5 * log_variance) * z
                continue
            bar = at["signal"] ** 2
            bar_before = rows["signal"][index - 1] ** 2 if index > 0 else torch.ones(())
            left = (x - at["signal"] * start) / at["noise"]
            deviation = eta * ((1 - bar_before) / (1 - bar) * (1 - bar / bar_before)) ** 0.5
            x = bar_before**0.5 * start + (1 - bar_before - deviation**2) ** 0.5 * left + deviation * z
        return x

    def distance_to_bend(self, weights, inputs):
        return math.inf  # Only the probability of a level is bounded, far below what occurs.

    def settings(self):
        def word(value):
            return "true" if value else "false"

        return {
            "diffusion.average_decay": repr(AVERAGE_DECAY),
            "diffusion.bound_weight": repr(self.bound_weight),
            "diffusion.noise_schedule": self.schedule,
            "diffusion.steps": str(self.steps),
            "model.kind": "unet",
            "unet.attention_resolutions": ",".join(map(str, self.attention)),
            "unet.channel_mult": ",".join(map(str, self.mult)),
            "unet.channels": str(self.channels),
            "unet.class_conditional": word(self.conditional),
            "unet.learn_sigma": word(self.learn_sigma),
            "unet.norm_groups": str(self.groups),
            "unet.num_classes": str(self.num_classes),
            "unet.num_attention_heads": str(self.heads),
            "unet.num_res_blocks": str(self.blocks),
            "unet.picture": ",".join(map(str, self.picture)),
            "unet.resample_with_convolution": word(self.convolutions),
            "unet.scale_shift_norm": word(self.scale_shift_norm),
        }


def of_part(name, index, parts):
    return name if len(parts) == 1 else f"{name}.{index}"


class Weights:
    """Weights by name."""

    def __init__(self, by_name):
        self.by_name = by_name

    def get(self, name, shape):
        weight = self.by_name[name]
        assert tuple(weight.shape) == tuple(shape), name
        return weight


class Recorder:
    """Writes down which weights a network asks for."""

    def __init__(self, shapes):
        self.shapes = shapes

    def get(self, name, shape):
        self.shapes[name] = tuple(shape)
        return torch.zeros(shape, dtype=torch.float64)


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
