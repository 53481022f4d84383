#!/usr/bin/env python3
"""Texts to training data: learns the vocabulary and writes token files.

    prep.py FOLDER_OF_TXT OUT_FOLDER [--vocab 4096]

Writes OUT_FOLDER/tokenizer.json (vocabulary and merges) and, for each text, OUT_FOLDER/tokens/NAME.tr with the first
nine tenths and NAME.va with the rest (int32 ids). The vocabulary is learnt from the first nine tenths alone."""
import argparse
import array
import json
import pathlib
import re

import bpe

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TRAIN_SHARE = 0.9
VERSE = ("shakespeare",)  # texts whose line breaks mean something


def read_text(path):
    text = path.read_text(encoding="utf-8").replace("\r", "")
    if not path.stem.startswith(VERSE):
        text = re.sub(r"(?<=\S) *\n(?=\S)", " ", text)  # unwraps the paragraphs of prose
    return re.sub(r"\n{3,}", "\n\n", text)


def write_ids(path, ids):
    with path.open("wb") as out:
        array.array("i", ids).tofile(out)


def main():
    parser = argparse.ArgumentParser(description="Learns a vocabulary and writes token files.")
    parser.add_argument("texts", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--vocab", type=int, default=4096, help="tokens, the special ones included")
    options = parser.parse_args()

    texts = {path.stem: read_text(path) for path in sorted(options.texts.glob("*.txt"))}
    if not texts:
        parser.error(f"no .txt files in {options.texts}")
    cut = {name: int(len(text) * TRAIN_SHARE) for name, text in texts.items()}
    vocabulary, merges = bpe.learn([text[:cut[name]] for name, text in texts.items()], options.vocab - len(SPECIAL))
    print(f"{len(vocabulary)} tokens, {len(merges)} merges")

    tokens = options.out / "tokens"
    tokens.mkdir(parents=True, exist_ok=True)
    with (options.out / "tokenizer.json").open("w", encoding="utf-8") as out:
        json.dump({"vocab": vocabulary + SPECIAL, "merges": merges}, out, ensure_ascii=False)
    encoder = bpe.Encoder(vocabulary, merges)
    for name, text in texts.items():
        train, held_out = encoder.encode(text[:cut[name]]), encoder.encode(text[cut[name]:])
        write_ids(tokens / f"{name}.tr", train)
        write_ids(tokens / f"{name}.va", held_out)
        print(f"{name}: {len(text)} characters, {len(train)} + {len(held_out)} tokens")


if __name__ == "__main__":
    main()
