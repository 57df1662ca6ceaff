#!/usr/bin/env python3
"""Encodes a text with `fourfold data tokenize` and with the library tokenizers, in turn, each on one core.

Usage: tokenizer_rounds.py BINARY TOKENIZER.json TEXT [ROUNDS]

By the Python that has tokenizers. The text is cut at line ends into documents of about 4 KB, JSON lines, and repeated to 64 MB.
Ours is timed as a program, with reading the tokenizer, reading the lines and writing the set; the library from a list of
documents in memory to ids, its tokenizer loaded before.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

DOCUMENT, WHOLE = 4 << 10, 64 << 20

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"


def documents(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines(keepends=True)
    one, result = "", []
    for line in lines:
        one += line
        if len(one) >= DOCUMENT:
            result.append(one)
            one = ""
    size = sum(len(text.encode()) for text in result)
    return result * max(1, round(WHOLE / size))


def main():
    import tokenizers

    binary, tokenizer, text = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    texts = documents(text)
    megabytes = sum(len(one.encode()) for one in texts) / 1e6
    theirs = tokenizers.Tokenizer.from_file(tokenizer)
    ours_s, theirs_s = [], []
    with tempfile.TemporaryDirectory() as folder:
        lines = os.path.join(folder, "texts.jsonl")
        with open(lines, "w", encoding="utf-8") as file:
            for one in texts:
                file.write(json.dumps({"text": one}, ensure_ascii=False) + "\n")
        command = [binary, "data", "tokenize", lines, "-o", os.path.join(folder, "set"), "--tokenizer", "hub",
                   "--tokenizer-path", tokenizer, "--jobs", "1", "--overwrite"]  # fmt: skip
        for _ in range(rounds):
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            ours_s.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            for first in range(0, len(texts), 1000):
                theirs.encode_batch(texts[first : first + 1000])
            theirs_s.append(time.perf_counter() - begin)
    ours, other = (megabytes / statistics.median(times) for times in (ours_s, theirs_s))
    print(f"{tokenizer}: {megabytes:.0f} MB, {rounds} rounds: {ours:.1f} MB/s here, {other:.1f} MB/s there, {ours / other:.2f} x")
    print("  here  ", " ".join(f"{megabytes / seconds:.1f}" for seconds in ours_s))
    print("  there ", " ".join(f"{megabytes / seconds:.1f}" for seconds in theirs_s))


main()
