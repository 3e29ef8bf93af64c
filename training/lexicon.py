"""Nouns, verbs and adjectives of English with words that mean the same, from WordNet 3.0 (Debian package wordnet-base).

    python lexicon.py       # how many there are, and some

Only words that the tagged texts of WordNet or its definitions use are taken, by their commonest sense, so that what is
drawn from here is mostly everyday English: the texts are of 1961 and know no printer, no scooter and no helmet.
`Word.same` are other lemmas of the sense, `Word.above` is what it is a kind of, `Word.gloss` is the beginning of its
definition, "" where that is long.
"""

import collections
import functools
import os
import random
import re
import sys
from dataclasses import dataclass, field

FOLDER = os.environ.get("WORDNET", "/usr/share/wordnet")
# Lexicographer files of nouns that tools deal in: acts, animals, artifacts, communication, events, food, groups, places,
# natural things, people, plants, possessions, time.
NOUN_FILES = {4, 5, 6, 10, 11, 13, 14, 15, 17, 18, 20, 21, 28}
UNWANTED = set("hitler rape nazi slave negro whore suicide murder".split())
TRANSITIVE = {8, 9, 10, 11, 20, 21}  # frames such as "Somebody ----s something"


@dataclass
class Word:
    text: str
    count: int
    same: list = field(default_factory=list)
    above: str = ""
    gloss: str = ""


def gloss_of(definition):
    """Its first clause, without an article: up to fourteen words that stand for the word itself."""
    text = re.sub(r"\([^)]*\)", "", definition.split('"')[0]).split(";")[0]
    text = re.sub(r"^(an?|the) ", "", " ".join(text.split()).rstrip(" ,:"))
    return text if text.isascii() and 2 < len(text.split()) < 15 and not re.search(r"[:{}|]", text) else ""


def opened(name):
    path = os.path.join(FOLDER, name)
    if not os.path.exists(path):
        sys.exit("%s is missing: install the Debian package wordnet-base, or name WordNet's folder in WORDNET" % path)
    return open(path, encoding="ascii")


def synsets(part):
    """Offset -> (file number, lemmas, first hypernym's offset, frames, gloss)."""
    found = {}
    with opened("data." + part) as source:
        for line in source:
            if line[0] == " ":
                continue
            head, _, definition = line.partition(" | ")
            fields = head.split()
            count = int(fields[3], 16)
            lemmas = [fields[4 + 2 * i] for i in range(count)]
            at = 4 + 2 * count
            pointers = int(fields[at])
            above = ""
            for i in range(pointers):
                symbol, target = fields[at + 1 + 4 * i], fields[at + 2 + 4 * i]
                if symbol == "@" and not above:
                    above = target
            frames = set()
            rest = fields[at + 1 + 4 * pointers:]
            if rest and rest[0].isdigit():
                frames = {int(rest[2 + 3 * i]) for i in range(int(rest[0])) if rest[3 + 3 * i] == "00"}
            found[fields[0]] = (int(fields[1]), lemmas, above, frames, gloss_of(definition))
    return found


def counts():
    """(lemma, part, sense number) -> how often the tagged texts have it."""
    found = {}
    with opened("cntlist.rev") as source:
        for line in source:
            key, sense, count = line.split()
            lemma, _, rest = key.partition("%")
            found[lemma, rest[0], int(sense)] = int(count)
    return found


@functools.cache
def used():
    """Word -> in how many definitions it stands."""
    return collections.Counter(word for text in definitions() for word in set(re.findall("[a-z]+", text.partition("|")[2])))


def plain(lemma):
    return lemma.isascii() and lemma.replace("_", "").isalpha() and lemma.islower() and 2 < len(lemma) < 18 and lemma.count("_") < 2


def words_of(part, marks, least, accepts):
    found = []
    sets, tagged = synsets(part), counts()
    known = {lemma for lemma, where, _ in tagged if where in marks}
    with opened("index." + part) as source:
        for line in source:
            if line[0] == " ":
                continue
            fields = line.split()
            lemma, offset = fields[0], fields[6 + int(fields[3])]
            count = max(tagged.get((lemma, mark, 1), 0) for mark in marks) + (used()[lemma] // 2 if part == "noun" else 0)
            if count < least or not plain(lemma) or lemma in UNWANTED:
                continue
            number, lemmas, above, frames, gloss = sets[offset]
            if not accepts(number, frames):
                continue
            same = [other.replace("_", " ") for other in lemmas if other != lemma and plain(other) and (other in known or part == "noun" and used()[other] > 3)]
            higher = [l for l in sets[above][1] if plain(l)] if above in sets else []
            found.append(Word(lemma.replace("_", " "), count, same, higher[0].replace("_", " ") if higher else "", gloss))
    return found


@functools.cache
def nouns():
    return words_of("noun", "1", 2, lambda number, frames: number in NOUN_FILES)


@functools.cache
def verbs():
    return words_of("verb", "2", 4, lambda number, frames: frames & TRANSITIVE)


@functools.cache
def adjectives():
    return words_of("adj", "35", 2, lambda number, frames: True)


def definitions():
    """Lemmas and, after "|", definition of each synset."""
    for part in ("noun", "verb", "adj", "adv"):
        with opened("data." + part) as source:
            for line in source:
                if line[0] == " ":
                    continue
                head, _, gloss = line.partition(" | ")
                fields = head.split()
                lemmas = [fields[4 + 2 * i].replace("_", " ") for i in range(int(fields[3], 16))]
                yield " ".join(lemmas) + " | " + gloss.strip()


def main():
    r = random.Random(1)
    for name, words in (("nouns", nouns()), ("verbs", verbs()), ("adjectives", adjectives())):
        print("%d %s, %d with synonyms, %d with a definition" % (len(words), name, sum(bool(w.same) for w in words), sum(bool(w.gloss) for w in words)))
        for word in r.sample(words, 25):
            print("  %s %d %s < %s: %s" % (word.text, word.count, word.same, word.above, word.gloss))


if __name__ == "__main__":
    main()
