#!/usr/bin/env python3
"""Makes tokenizers of the kinds that the hub of Hugging Face has, with its library tokenizers, and vectors of ids.

Usage: make_hub.py                          in this folder: KIND.json of each kind, small, and vectors.json
       make_hub.py FOLDER VOCAB_SIZE TEXT   FOLDER/KIND/tokenizer.json, learnt from the file TEXT

What is committed here was made by tokenizers 0.23.3.
"""
import json
import os
import random
import sys

import tokenizers
from tokenizers import Regex, models, pre_tokenizers, trainers

WORDS = ("the quick brown fox jumps over lazy dogs while nobody's watching it'll they've don't stop 1234 567 "
         "na\u00efve caf\u00e9 \u00fcber stra\u00dfe \u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 "
         "\u4f60\u597d\u4e16\u754c \u3053\u3093\u306b\u3061\u306f reading writing learner learning learned "
         "\u2014 -- ... ,,, under_score http://example.org/a?b=c").split()
TEXTS = [
    "", " ", "   ", "\n", "Hello world", " Hello world", "Hello  world ", "the fox\njumps\n\nover\t\tit  \n ",
    "they've DON'T it'll 'tis nobody's'", "caf\u00e9 na\u00efve stra\u00dfe \u00fcber", "A\u00a0B\u2003C\u3000D\u0085E",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u4f60\u597d\u4e16\u754c\u3002 \U0001f600\U0001f468\u200d\U0001f469",
    "x\u0300 e\u0301 \ufb01 \u00bd \uff21 \u212b \u1112\u1161\u11ab", "1234567 12 3 \u0663\u0664 \u2167\u00bd", "a\r\nb\rc",
    "\u2581 literal \u2581\u2581 sign \u2581", "\u0000 zero \u0007 bell <0x41>", "--------...,,,,!!!!\n\n", "!\n?",
    "<|im_start|>user\nthe fox<|im_end|>\n", "a<s>b </s> c<unk>", "word<mask>  word  <mask>word", "the\u017fe l\u212aL 'S\u017f",
    "<|endoftext|><|begin_of_text|> stop", "learned-learning learner <think>the</think>",
]  # fmt: skip
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SYMBOL = "\u2581"
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def added(token, number, special=True, **more):
    return {"id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": not special, "special": special, **more}  # fmt: skip


def template(token, number):
    text = [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {"type": "TemplateProcessing", "single": text, "pair": text + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}}}  # fmt: skip


def split(expression):
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}


def sequence(name, *steps):
    return {"type": "Sequence", name: list(steps)}


def learnt(lines, size, pre_tokenizer, **options):
    """The file of a tokenizer that has only learnt its words."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, show_progress=False, **options))
    return json.loads(tokenizer.to_str())


def of_bytes(lines, size, first, last, cuts, more=(), **parts):
    """Words of bytes, cut by `cuts`; tokens `first` before all others, `last` and `more` after them."""
    steps = [pre_tokenizers.Split(Regex(cuts), "isolated")] if cuts else []
    learning = pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not cuts)])
    file = learnt(lines, size, learning, special_tokens=first, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    count = len(file["model"]["vocab"])
    file["added_tokens"] = [added(token, number) for number, token in enumerate(first)]
    file["added_tokens"] += [added(token, count + number) for number, token in enumerate(last)]
    for number, (token, settings) in enumerate(more):
        file["added_tokens"].append(added(token, count + len(last) + number, **settings))
    file["decoder"] = dict(BYTE_LEVEL, use_regex=True)
    file["pre_tokenizer"] = sequence("pretokenizers", *([split(cuts)] if cuts else []), dict(BYTE_LEVEL, use_regex=not cuts))
    model = {key: parts.pop(key) for key in list(parts) if key in file["model"]}
    file["model"].update(model)
    file.update(parts)
    return file


def of_pieces(lines, size, **parts):
    """Characters with U+2581 for spaces; bytes where a character has no token."""
    file = learnt(lines, size, pre_tokenizers.Metaspace(prepend_scheme="always"))
    special = ["<unk>", "<s>", "</s>"]
    tokens = special + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += sorted(file["model"]["vocab"], key=file["model"]["vocab"].get)
    spaces = [SYMBOL * 2, SYMBOL * 4]
    file["model"]["vocab"] = {token: number for number, token in enumerate(dict.fromkeys(tokens + spaces))}
    file["model"]["merges"] = [[SYMBOL, SYMBOL], [SYMBOL * 2, SYMBOL * 2]] + file["model"]["merges"]
    file["model"].update(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    file["added_tokens"] = [added(token, number) for number, token in enumerate(special)]
    file["pre_tokenizer"] = None
    file["post_processor"] = template("<s>", 1)
    steps = [{"type": "Replace", "pattern": {"String": SYMBOL}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    file["decoder"] = sequence("decoders", *steps, {"type": "Strip", "content": " ", "start": 1, "stop": 0})
    file.update(parts)
    return file


def kinds(lines, size):
    prepend = {"type": "Prepend", "prepend": SYMBOL}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": SYMBOL}
    metaspace = {"type": "Metaspace", "replacement": SYMBOL, "prepend_scheme": "first", "split": False}
    digits = {"type": "Digits", "individual_digits": True}
    chat = ["<|im_start|>", "<|im_end|>"]
    mask = ("<mask>", {"lstrip": True, "special": False, "normalized": False})
    yield "gpt2", of_bytes(lines, size, ["<|endoftext|>"], [], "", post_processor=dict(BYTE_LEVEL),
                           pre_tokenizer=dict(BYTE_LEVEL, use_regex=True))  # fmt: skip
    yield "smollm", of_bytes(lines, size, ["<|endoftext|>"] + chat, [], "", [mask],
                             pre_tokenizer=sequence("pretokenizers", digits, dict(BYTE_LEVEL, use_regex=True)))  # fmt: skip
    llama3 = of_bytes(lines, size, [], ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], LLAMA3, ignore_merges=True)
    begin = llama3["added_tokens"][0]["id"]
    llama3["post_processor"] = sequence("processors", dict(BYTE_LEVEL), template("<|begin_of_text|>", begin))
    yield "llama3", llama3
    thought = [(token, {"special": False, "normalized": False}) for token in ("<think>", "</think>")]
    yield "qwen", of_bytes(lines, size, [], ["<|endoftext|>"] + chat, QWEN, thought, normalizer={"type": "NFC"},
                           post_processor=dict(BYTE_LEVEL, add_prefix_space=False))  # fmt: skip
    yield "gpt4o", of_bytes(lines, size, [], ["<|endoftext|>"], GPT4O, ignore_merges=True)
    llama2 = sequence("normalizers", prepend, replace)
    yield "llama2", of_pieces(lines, size, normalizer=llama2)
    yield "mistral", of_pieces(lines, size, pre_tokenizer=metaspace)
    yield "metaspace", of_pieces(lines, size, pre_tokenizer=dict(metaspace, prepend_scheme="always", split=True))
    space = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    yield "gemma", of_pieces(lines, size, normalizer=replace, pre_tokenizer=space)


def vectors(tokenizer):
    source = random.Random(4)
    texts = list(TEXTS)
    for _ in range(12):
        parts = (source.choice([" ", "  ", "", "\n", "\t "]) + source.choice(WORDS) for _ in range(source.randint(1, 9)))
        texts.append("".join(parts))
    before = len(tokenizer.encode("").ids)
    for text in texts:
        ids = tokenizer.encode(text).ids
        comes_back = tokenizer.decode(ids[before:], skip_special_tokens=False) == text
        yield {"text": text, "ids": ids, "back": comes_back}


def small():
    source = random.Random(1)
    lines = [" ".join(source.choice(WORDS) for _ in range(source.randint(3, 12))) for _ in range(400)]
    rows = {}
    for name, file in kinds(lines, 340):
        with open(f"{name}.json", "w", encoding="utf-8") as out:
            out.write(json.dumps(file, ensure_ascii=False, separators=(",", ":")) + "\n")
        rows[name] = vectors(tokenizers.Tokenizer.from_file(f"{name}.json"))
    with open("vectors.json", "w", encoding="ascii") as out:
        tables = (f'"{name}": [\n' + ",\n".join(map(json.dumps, table)) + "]" for name, table in rows.items())
        out.write("{\n" + ",\n".join(tables) + "\n}\n")


def large(folder, size, text):
    with open(text, encoding="utf-8") as file:
        lines = file.read().splitlines(keepends=True)
    for name, file in kinds(lines, size):
        os.makedirs(os.path.join(folder, name))
        with open(os.path.join(folder, name, "tokenizer.json"), "w", encoding="utf-8") as out:
            json.dump(file, out, ensure_ascii=False)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        small()
    else:
        large(sys.argv[1], int(sys.argv[2]), sys.argv[3])
