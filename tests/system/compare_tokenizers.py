#!/usr/bin/env python3
"""Tokenizers that go to transformers and come back: the ids of many odd texts, ours beside theirs.

Usage: compare_tokenizers.py texts FILE.jsonl COUNT [ALPHABET]
           writes COUNT odd texts, a JSON object a line; of the characters of the file ALPHABET, where one is named
       compare_tokenizers.py ids FOLDER FILE.jsonl PREFIX [saved FOLDER]
           compares the tokenizer in FOLDER, as AutoTokenizer loads it, with the set of tokens PREFIX (one document a
           text), and writes it as transformers does into the last folder, where one is named
       compare_tokenizers.py hub-texts FILE.jsonl COUNT TOKENIZER.json
           the same odd texts with the added tokens of that file in them, within words too
       compare_tokenizers.py hub TOKENIZER.json FILE.jsonl PREFIX
           compares that file, as the library tokenizers reads it, with the set of tokens PREFIX
"""
import json
import random
import struct
import sys
import unicodedata

PIECES = [
    " ", "  ", "     ", "\t", "\n", "\r\n", "\n\n ", "\u00a0", "\u3000", "\u2028", "\u0085", "\u200b", "\ufeff",
    "the", " The", "jumps", "fox.", "'s", "'ll", "'LL", "\u2019s", "n't", "e\u0301", "\u00e9", "\ufb01", "\u212b", "\u1e9b\u0323",
    "1", "42", "\u0663", "\u00bd", "\u2167", "\U0001d7d8", "\u4e2d\u6587", "\uac00\u11a8", "\u1112\u1161\u11ab", "\u0928\u0940",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "\u0639\u0631\u0628\u064a",
    "\u05d0\u05b8", "!", "?!", "...", "\u2581", "\u2581\u2581", "<0x41>", "aaaa", "aaaaaaaaa", "abababab", "ABC",
    "\u1c89", "\u1c8a", "\ua7cb", "\ua7da", "\U00010d4a", "\U00010d40", "\U000105c0", "\U0001e5d0", "\u0378", "\U0010ffff", "\ue000",
    "\u0001", "\u007f", "brown quick", "caf\u00e9", "na\u00efve",
]  # fmt: skip


def odd_texts(count, alphabet, more=()):
    source = random.Random(5)
    pieces = alphabet or PIECES + list(more)
    for number in range(count):
        parts = [source.choice(pieces) for _ in range(source.randint(1, 24))]
        if not alphabet and number % 7 == 0:
            code = source.randrange(0x20, 0x2FFFF)
            parts.append(chr(code) if not 0xD800 <= code < 0xE000 else "x")
        yield "".join(parts)


def documents(prefix):
    """The ids of each document of a Megatron set of one sequence a document."""
    with open(prefix + ".idx", "rb") as file:
        head = file.read()
    dtype, sequences = head[17], struct.unpack_from("<Q", head, 18)[0]
    lengths = struct.unpack_from(f"<{sequences}i", head, 34)
    letter, size = {4: ("i", 4), 8: ("H", 2)}[dtype]
    with open(prefix + ".bin", "rb") as file:
        for length in lengths:
            yield list(struct.unpack(f"<{length}{letter}", file.read(length * size)))


def write_hub_texts(path, count, tokenizer):
    with open(tokenizer, encoding="utf-8") as file:
        tokens = [token["content"] for token in json.load(file)["added_tokens"]]
    more = [form for token in tokens[:8] for form in (token, "word" + token, " " + token + " ", token[:-1])]
    with open(path, "w", encoding="utf-8") as file:
        for text in odd_texts(count, "", more):
            file.write(json.dumps({"text": text}) + "\n")


def is_newer_than_ours(text):
    """True if a character came into Unicode later than what the build's libraries know (14.0; Python 3.11 has that)."""
    return any(unicodedata.category(character) == "Cn" for character in text)


def compare_hub(path, texts, prefix):
    import tokenizers

    theirs = tokenizers.Tokenizer.from_file(path)
    compared = explained = different = 0
    with open(texts, encoding="utf-8") as lines:
        sets = documents(prefix)
        for line in lines:
            text = json.loads(line)["text"]
            ids = theirs.encode(text).ids
            compared += 1
            if not ids:
                continue
            ours = next(sets, None)
            if ids == ours:
                continue
            if is_newer_than_ours(text):
                explained += 1
                continue
            different += 1
            if different <= 5:
                print(f"{text!r}: {ours} here, {ids} there: {[theirs.id_to_token(number) for number in ids]}")
    if next(sets, None) is not None:
        sys.exit("there are more documents here than texts with tokens there")
    print(f"{path}: {compared} texts, {different} with other ids, {explained} with characters of newer versions of Unicode")
    sys.exit(different > 0)


def main():
    if sys.argv[1] == "hub-texts":
        write_hub_texts(sys.argv[2], int(sys.argv[3]), sys.argv[4])
        return
    if sys.argv[1] == "hub":
        compare_hub(*sys.argv[2:])
    if sys.argv[1] == "texts":
        alphabet = ""
        if len(sys.argv) > 4:
            with open(sys.argv[4], encoding="utf-8", newline="") as file:
                alphabet = sorted(set(file.read()))
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            for text in odd_texts(int(sys.argv[3]), alphabet):
                file.write(json.dumps({"text": text}) + "\n")
        return
    import transformers

    _, _, folder, texts, prefix, *rest = sys.argv
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    compared = different = 0
    with open(texts, encoding="utf-8") as lines:
        sets = documents(prefix)
        for line in lines:
            text = json.loads(line)["text"]
            ids = theirs(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
            compared += 1
            if not ids:
                continue  # a set has no documents without tokens
            ours = next(sets, None)
            if ids != ours:
                different += 1
                if different <= 5:
                    print(f"{text!r}: {ours} here, {ids} there: {theirs.convert_ids_to_tokens(ids)}")
    if next(sets, None) is not None:
        sys.exit("there are more documents here than texts with tokens there")
    if rest:
        theirs.save_pretrained(rest[-1])
    print(f"{type(theirs).__name__} of {len(theirs)} tokens: {compared} texts, {different} with other ids")
    sys.exit(different > 0)


main()
