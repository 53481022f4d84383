"""Byte-level BPE: learning a vocabulary, and encoding with it.

Text is cut into words by the pre-tokenizer that GGUF files call `qwen2`; each byte of a word is written as one printable
character (the table of GPT-2), and the most frequent neighbouring pair is merged until the vocabulary is full."""
import collections

import regex

PRE_TOKENIZER = regex.compile(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
NO_RANK = 1 << 30


def byte_characters():
    """One printable character for each byte: printable Latin-1 stands for itself, the rest is moved above 255."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in printable}
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + b - sum(p < b for p in printable))
    return table


CHARACTER = byte_characters()


def spell(word):
    return [CHARACTER[b] for b in word.encode()]


class Learner:
    """Counts of all neighbouring pairs, kept up to date as pairs are merged."""

    def __init__(self, texts):
        counts = collections.Counter()
        for text in texts:
            counts.update(PRE_TOKENIZER.findall(text))
        self.words = [(spell(word), count) for word, count in counts.items()]
        self.pairs = collections.Counter()
        self.words_with = collections.defaultdict(set)
        for i, (symbols, count) in enumerate(self.words):
            self._add(i, symbols, count)

    def _add(self, i, symbols, count):
        for pair in zip(symbols, symbols[1:]):
            self.pairs[pair] += count
            self.words_with[pair].add(i)

    def _remove(self, symbols, count):
        for pair in zip(symbols, symbols[1:]):
            self.pairs[pair] -= count
            if self.pairs[pair] <= 0:
                del self.pairs[pair]

    def best(self):
        """The most frequent pair and its count; ties go to the later one in code-point order."""
        return max(self.pairs.items(), key=lambda item: (item[1], item[0]))

    def merge(self, pair):
        for i in list(self.words_with.pop(pair)):
            symbols, count = self.words[i]
            self._remove(symbols, count)
            merged = merge_symbols(symbols, pair)
            self.words[i] = (merged, count)
            self._add(i, merged, count)
        self.pairs.pop(pair, None)


def merge_symbols(symbols, pair):
    merged, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i:i + 2]) == pair:
            merged.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def learn(texts, n_vocab):
    """Returns (vocabulary, merges): n_vocab tokens, or fewer if no pair is left that occurs twice."""
    learner = Learner(texts)
    vocabulary, merges = [CHARACTER[b] for b in range(256)], []
    while len(vocabulary) < n_vocab and learner.pairs:
        pair, count = learner.best()
        if count < 2:
            break
        merges.append(pair)
        vocabulary.append(pair[0] + pair[1])
        learner.merge(pair)
    return vocabulary, merges


class Encoder:
    def __init__(self, vocabulary, merges):
        self.ids = {token: i for i, token in enumerate(vocabulary)}
        self.ranks = {pair: i for i, pair in enumerate(merges)}
        self.known = {}

    def encode_word(self, word):
        if word not in self.known:
            symbols = spell(word)
            while len(symbols) > 1:
                rank, i = min((self.ranks.get(pair, NO_RANK), i) for i, pair in enumerate(zip(symbols, symbols[1:])))
                if rank == NO_RANK:
                    break
                symbols[i:i + 2] = [symbols[i] + symbols[i + 1]]
            self.known[word] = [self.ids[s] for s in symbols]
        return self.known[word]

    def encode(self, text):
        return [i for word in PRE_TOKENIZER.findall(text) for i in self.encode_word(word)]
