"""The random numbers of src/base/random.h in Python, written from its page: Philox4x32-10 of Salmon et al. 2011, keyed by
seed and name."""
import math

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1


def stream(name):
    """FNV-1a of the name, 64 bits."""
    value = 0xCBF29CE484222325
    for letter in name.encode():
        value = (value ^ letter) * 0x100000001B3 & MASK64
    return value


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK64
    return x ^ x >> 31


def words(seed, name, element, step):
    """Four random words of 32 bits."""
    key = mix(mix(seed + 0x9E3779B97F4A7C15 & MASK64) ^ stream(name))
    low, high = key & MASK32, key >> 32
    a, b, c, d = element & MASK32, element >> 32, step, 0
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = second >> 32 ^ b ^ low, second & MASK32, first >> 32 ^ d ^ high, first & MASK32
        low, high = low + 0x9E3779B9 & MASK32, high + 0xBB67AE85 & MASK32
    return a, b, c, d


def normal(seed, name, element, step):
    """By Box and Muller."""
    w = words(seed, name, element, step)
    first, second = ((w[i + 1] << 32 | w[i]) >> 11 for i in (0, 2))
    radius = math.sqrt(-2 * math.log(1 - first * 2.0**-53))
    return radius * math.cos(2 * math.pi * (second * 2.0**-53))


def time(seed, name, sample, step, bound):
    """Multiply and shift (Lemire): a number below `bound`."""
    w = words(seed, name, sample, step)
    return (w[1] << 32 | w[0]) * bound >> 64
