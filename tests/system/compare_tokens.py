#!/usr/bin/env python3
"""Compares the tokens of a set (16 bits each) with those of Python's sentencepiece or transformers.

Usage: compare_tokens.py sentencepiece|gpt2 FILE_OR_FOLDER TEXT TOKENS.bin
"""
import array
import sys


def main():
    kind, path, text_file, tokens_file = sys.argv[1:]
    with open(text_file, encoding="utf-8", newline="") as file:
        text = file.read()
    with open(tokens_file, "rb") as file:
        ours = array.array("H", file.read()).tolist()
    if kind == "sentencepiece":
        import sentencepiece
        theirs = sentencepiece.SentencePieceProcessor(model_file=path).encode(text)
    else:
        import transformers
        theirs = transformers.GPT2Tokenizer.from_pretrained(path)(text)["input_ids"]
    if ours != theirs:
        differing = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
        sys.exit(f"{kind}: {len(ours)} tokens and {len(theirs)}, the first that differ at {differing}: "
                 f"{ours[differing:differing + 8]} and {theirs[differing:differing + 8]}")
    print(f"{kind}: {len(ours)} equal tokens")


main()
