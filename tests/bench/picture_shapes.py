"""Networks on pictures that scripts/bench-gpu trains beside PyTorch: their shapes, as keys of Fourfold and as words for
torch_pictures.py, and the work of a step."""
import math

from peers import ONLY_STEPS

POOL = 0  # among the widths of a VGG
UNETS = {
    "unet": dict(network="unet", channels=128, mult=[1, 2, 2, 2], blocks=3, attention=[16, 8], heads=4, side=32, classes=10,
                 batch=128, warmup=5, steps=30),
    # Tries out the script.
    "tiny-unet": dict(network="unet", channels=32, mult=[1, 2], blocks=1, attention=[8], heads=2, side=16, classes=2, batch=2,
                      warmup=1, steps=2),
}  # fmt: skip
VGGS = {
    "vgg19": dict(network="vgg", widths=[64] * 2 + [POOL] + [128] * 2 + [POOL] + [256] * 4 + [POOL] + ([512] * 4 + [POOL]) * 2,
                  hidden=[4096, 4096], side=224, classes=1000, batch=64, warmup=5, steps=20),
    "tiny-vgg": dict(network="vgg", widths=[8, POOL, 16, POOL], hidden=[16], side=16, classes=4, batch=2, warmup=1, steps=2),
}  # fmt: skip
WORKLOADS = {**UNETS, **VGGS}
TITLES = {"unet": "U-Net of 50M, 128 pictures of 32 x 32", "vgg19": "VGG19, 64 pictures of 224 x 224",
          "tiny-unet": "a tiny U-Net, 2 pictures of 16 x 16", "tiny-vgg": "a tiny VGG, 2 pictures of 16 x 16"}  # fmt: skip


def settings_of(w):
    """A workload as keys of Fourfold: random pictures, AdamW, clipping; a U-Net also keeps moving averages."""
    common = {
        **ONLY_STEPS, "model.kind": w["network"], "data.split": 0.999, "train.global_batch_size": w["batch"],
        "train.steps": w["warmup"] + w["steps"], "optimizer.grad_clip": 1.0, "optimizer.weight_decay": 0, "optimizer.lr": 1e-4,
        "memory.activation_checkpointing": "none", f"{w['network']}.picture": [w["side"], w["side"], 3],
        f"{w['network']}.num_classes": w["classes"],
    }  # fmt: skip
    if w["network"] == "vgg":
        widths = ", ".join("pool" if width == POOL else str(width) for width in w["widths"])
        return {**common, "vgg.widths": f"[{widths}]", "vgg.hidden": w["hidden"], "vgg.dropout": 0}
    return {
        **common, "unet.channels": w["channels"], "unet.channel_mult": w["mult"], "unet.num_res_blocks": w["blocks"],
        "unet.attention_resolutions": w["attention"], "unet.num_attention_heads": w["heads"], "diffusion.average_decay": 0.9999,
    }  # fmt: skip


def words_of(w):
    """The same network for torch_pictures.py."""
    keys = ("widths", "hidden") if w["network"] == "vgg" else ("channels", "mult", "blocks", "attention", "heads")
    words = [f"--network={w['network']}"]
    for key in (*keys, "side", "classes", "batch"):
        values = w[key] if isinstance(w[key], list) else [w[key]]
        words += [f"--{key}", *map(str, values)]
    return words


class Counted:
    """Floating-point operations of the products of one picture, forward."""

    def __init__(self):
        self.flops = 0
        self.first = None  # those of the first layer, of whose input no gradient is needed

    def product(self, inputs, outputs, places=1):
        flops = 2 * inputs * outputs * places
        self.first = self.first or flops
        self.flops += flops


def model_flops(w):
    """Of a step: those of the products forward, and twice as many backward; but none for the gradient of the pictures."""
    counted = Counted()
    (count_vgg if w["network"] == "vgg" else count_unet)(w, counted)
    return w["batch"] * (3 * counted.flops - counted.first)


def count_vgg(w, counted):
    side, channels = w["side"], 3
    for width in w["widths"]:
        if width == POOL:
            side //= 2
        else:
            counted.product(9 * channels, width, side * side)
            channels = width
    inputs = side * side * channels
    for outputs in [*w["hidden"], w["classes"]]:
        counted.product(inputs, outputs)
        inputs = outputs


def count_unet(w, counted):
    told, side, width, skips = 4 * w["channels"], w["side"], w["channels"], [w["channels"]]

    def attention(channels):
        places = side * side
        counted.product(channels, 3 * channels, places)
        counted.product(2 * channels, places, places)  # scores, and the sums of values
        counted.product(channels, channels, places)

    def block(inputs, outputs, attends):
        counted.product(9 * inputs, outputs, side * side)
        counted.product(told, 2 * outputs)
        counted.product(9 * outputs, outputs, side * side)
        if inputs != outputs:
            counted.product(inputs, outputs, side * side)
        if attends:
            attention(outputs)

    counted.product(9 * 3, width, side * side)
    counted.product(w["channels"], told)
    counted.product(told, told)
    for level, factor in enumerate(w["mult"]):
        for _ in range(w["blocks"]):
            block(width, factor * w["channels"], side in w["attention"])
            width = factor * w["channels"]
            skips.append(width)
        if level + 1 < len(w["mult"]):
            side //= 2
            counted.product(9 * width, width, side * side)
            skips.append(width)
    block(width, width, True)
    block(width, width, False)
    for level in reversed(range(len(w["mult"]))):
        for _ in range(w["blocks"] + 1):
            block(width + skips.pop(), w["mult"][level] * w["channels"], side in w["attention"])
            width = w["mult"][level] * w["channels"]
        if level > 0:
            side *= 2
            counted.product(9 * width, width, side * side)
    counted.product(9 * width, 3, side * side)


def loss_tolerance(w):
    """How far the first losses of two programs may lie apart, as a part of themselves: an untrained U-Net adds as much to the
    variance of noise, which is 1; a VGG's logits deviate by about half, so its loss is log(classes) but for an eighth of 1."""
    return 0.3 if w["network"] == "unet" else 0.5 / math.log(w["classes"])
