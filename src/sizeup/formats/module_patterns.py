"""Match names of modules against the patterns of quantization configurations, in linear time.

Patterns are untrusted text. They are matched by a finite automaton instead of `re`, whose time can grow
exponentially with the length of a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeAlias

_MOST_LETTERS = 1_000  # of a pattern
_MOST_AUTOMATA = 200  # patterns that are neither a name nor a prefix; published files have up to 10
_MOST_DEPTH = 20  # nested groups
_MOST_STATES = 5_000  # cached per automaton

# Names of one module differ between a checkpoint and transformers.
_PREFIXES = frozenset(("model", "language_model", "text_model", "backbone", "transformer"))
_SAME = {
    "attn": "self_attn",
    "ffn": "mlp",
    "feed_forward": "mlp",
    "block_sparse_moe": "mlp",
    "head": "lm_head",
    "embed": "embed_tokens",
}


class UnsupportedPattern(Exception):
    """A regular expression with a construct that the automaton does not support, such as a lookahead."""


@lru_cache(maxsize=1 << 12)
def canonical(name: str) -> str:
    """Return a module name without the prefixes, and with the component names, that vary by library."""
    parts = name.split(".")
    while len(parts) > 1 and parts[0] in _PREFIXES:
        del parts[0]
    return ".".join(_SAME.get(part, part) for part in parts)


class ModulePatterns:
    """A set of patterns: names, names with `*`, and regular expressions after `re:`.

    A name matches any run of whole components: `lm_head`, `mlp.gate` and `model.layers.0` each match every
    module that has these components in succession.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._longest = 0  # components of a name
        self._prefixes: set[str] = set()
        self._automata: list[_Automaton] = []
        self.unsupported: list[str] = []
        for pattern in dict.fromkeys(patterns):
            self._add(pattern)

    def _add(self, pattern: str) -> None:
        if len(pattern) > _MOST_LETTERS or len(self._automata) >= _MOST_AUTOMATA:
            self.unsupported.append(pattern)
        elif pattern.startswith("re:"):
            try:
                self._automata.append(_Automaton(_Parser(pattern[3:]).parse(), whole_components=False))
            except UnsupportedPattern:
                self.unsupported.append(pattern)
        elif "*" not in pattern:
            name = pattern.strip(".")
            if name:
                self._names.update((name, canonical(name)))
                self._longest = max(self._longest, name.count(".") + 1)
        elif pattern.find("*") == len(pattern) - 1:
            self._prefixes.update((pattern[:-1], canonical(pattern[:-1])))
        else:
            for text in dict.fromkeys((pattern, canonical(pattern))):
                self._automata.append(_Automaton(_glob(text), whole_components=True))

    def __bool__(self) -> bool:
        return bool(self._names or self._prefixes or self._automata)

    def match(self, name: str) -> bool:
        """Return whether a pattern matches the module or one that contains it."""
        return any(self._matches(text) for text in dict.fromkeys((name, canonical(name))))

    def _matches(self, name: str) -> bool:
        parts = name.split(".")
        if not self._names.isdisjoint(parts):
            return True
        if self._longest > 1 and any(run in self._names for run in _runs(parts, self._longest)):
            return True
        if self._prefixes and any(name[:end] in self._prefixes for end in range(len(name) + 1)):
            return True
        return any(automaton.match(name) for automaton in self._automata)


def _runs(parts: list[str], most: int) -> Iterator[str]:
    """Every run of two to `most` components."""
    for first in range(len(parts)):
        for last in range(first + 2, min(first + most, len(parts)) + 1):
            yield ".".join(parts[first:last])


# An instruction consumes one letter of a set (None: any letter), or continues at other instructions.
_Letters: TypeAlias = "tuple[frozenset[str], bool] | None"  # letters, and whether they are excluded
_Jump: TypeAlias = list[int]
_Program: TypeAlias = "list[_Letters | _Jump | str]"  # "end": only at the end of the name; "match"

_END, _MATCH = "end", "match"


def _glob(pattern: str) -> _Program:
    program: _Program = []
    for letter in pattern:
        if letter == "*":
            start = len(program)
            program += [[start + 1, start + 3], None, [start]]
        else:
            program.append((frozenset(letter), False))
    return [*program, _MATCH]


class _Parser:
    """Compiles a regular expression of literals, `.`, classes, groups, `|`, `*`, `+`, `?`, `^` and `$`."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern.removeprefix("^")
        self._at = 0

    def parse(self) -> _Program:
        program = self._alternatives(0)
        if self._at < len(self._text):
            raise UnsupportedPattern
        return [*program, _MATCH]

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        letter = self._peek()
        if not letter:
            raise UnsupportedPattern
        self._at += 1
        return letter

    def _alternatives(self, depth: int) -> _Program:
        if depth > _MOST_DEPTH:
            raise UnsupportedPattern
        branches = [self._sequence(depth)]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence(depth))
        program = branches.pop()
        while branches:
            branch = branches.pop()
            end = len(branch) + 2
            program = [
                [1, end],
                *_moved(branch, 1),
                [end + len(program)],
                *_moved(program, end),
            ]
        return program

    def _sequence(self, depth: int) -> _Program:
        program: _Program = []
        while self._peek() not in ("", "|", ")"):
            item = self._repeated(self._item(depth))
            program += _moved(item, len(program))
        return program

    def _repeated(self, item: _Program) -> _Program:
        sign = self._peek()
        if sign == "{":
            raise UnsupportedPattern
        if not sign or sign not in "*+?":
            return item
        self._at += 1
        if self._peek() == "?":  # lazy: the same names match
            self._at += 1
        if self._peek() in ("*", "+", "?", "{"):
            raise UnsupportedPattern
        size = len(item)
        if sign == "+":
            return [*item, [0, size + 1]]
        after = size + 1 + (sign == "*")
        return [[1, after], *_moved(item, 1), *([[0]] if sign == "*" else [])]

    def _item(self, depth: int) -> _Program:
        letter = self._next()
        if letter == "(":
            if self._peek() == "?":
                self._at += 1
                if self._next() != ":":  # a lookaround, a name or flags
                    raise UnsupportedPattern
            program = self._alternatives(depth + 1)
            if self._next() != ")":
                raise UnsupportedPattern
            return program
        if letter == "[":
            return [self._letter_class()]
        if letter == "\\":
            return [self._escaped()]
        if letter == ".":
            return [None]
        if letter == "$":
            return [_END]
        if letter in "*+?{^":
            raise UnsupportedPattern
        return [(frozenset(letter), False)]

    def _escaped(self) -> _Letters:
        letter = self._next()
        if letter == "d":
            return frozenset("0123456789"), False
        if letter == "w":
            return _WORD, False
        if letter.isalnum():
            raise UnsupportedPattern
        return frozenset(letter), False

    def _letter_class(self) -> _Letters:
        excluded = self._peek() == "^"
        self._at += excluded
        letters: set[str] = set()
        while (letter := self._next()) != "]":
            if letter == "\\":
                escaped = self._escaped()
                letters |= escaped[0] if escaped else set()
            elif self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
                self._at += 1
                last = self._next()
                if not (letter <= last and last.isascii()):
                    raise UnsupportedPattern
                letters.update(map(chr, range(ord(letter), ord(last) + 1)))
            else:
                letters.add(letter)
        return frozenset(letters), excluded


_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def _moved(program: _Program, by: int) -> _Program:
    """Return a program that starts at another index; jumps are absolute."""
    return [[target + by for target in item] if isinstance(item, list) else item for item in program]


class _Automaton:
    """Runs a program on a name, one letter at a time; sets of instructions are cached."""

    def __init__(self, program: _Program, *, whole_components: bool) -> None:
        self._program = program
        self._whole_components = whole_components  # a match ends before a dot or at the end
        self._start = self._closure((0,))
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def match(self, name: str) -> bool:
        state, match = self._start, len(self._program) - 1
        for letter in name:
            if match in state and (letter == "." or not self._whole_components):
                return True
            state = self._step(state, letter)
            if not state:
                return False
        return match in self._at_end(state)

    def _step(self, state: frozenset[int], letter: str) -> frozenset[int]:
        key = (state, letter)
        following = self._steps.get(key)
        if following is None:
            following = self._closure(index + 1 for index in state if self._accepts(index, letter))
            if len(self._steps) >= _MOST_STATES:
                self._steps.clear()
            self._steps[key] = following
        return following

    def _accepts(self, index: int, letter: str) -> bool:
        item = self._program[index]
        if item is None:
            return True
        return isinstance(item, tuple) and (letter in item[0]) != item[1]

    def _at_end(self, state: frozenset[int]) -> frozenset[int]:
        """Return the instructions that follow if the name ends here."""
        while True:
            ends = [index + 1 for index in state if self._program[index] == _END]
            following = state | self._closure(ends)
            if following == state:
                return state
            state = following

    def _closure(self, starts: Iterable[int]) -> frozenset[int]:
        """Return the instructions reachable without a letter; jumps themselves are left out."""
        pending, seen = list(starts), set[int]()
        while pending:
            index = pending.pop()
            if index in seen:
                continue
            seen.add(index)
            item = self._program[index]
            if isinstance(item, list):
                pending.extend(item)
        return frozenset(index for index in seen if not isinstance(self._program[index], list))
