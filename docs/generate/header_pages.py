"""Reference pages of C++ headers, from the headers' own comments.

    page = render(Path("cpp_runtime/include/edgepipe/device.h").read_text(), "edgepipe/device.h")

A page contains the comment at the top of the header, then every declaration of the namespace: its
comment as text, its code without private members and function bodies. The sources are formatted by
clang-format, so one scan over characters that counts braces is enough to find declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

PROSE_WIDTH = 2  # a comment's line that is indented further is code


class Declaration(NamedTuple):
    """One declaration of a namespace or of a class: its comment and its code, as written."""

    comment: str
    code: str

    @property
    def is_forward(self) -> bool:
        """Whether the declaration only names a type that another header defines."""
        return re.fullmatch(r"(class|struct) \w+;", self.code) is not None

    @property
    def name(self) -> str:
        """The name that the declaration introduces, or "" if it introduces none."""
        code = re.sub(r"(class) EDGEPIPE_\w+(\(.*?\))?", r"\1", self.code)
        code = re.sub(r"\[\[.*?\]\]|alignas\(.*?\)|template <.*?>\s", " ", code, flags=re.S)
        for pattern in (
            r"^\s*typedef struct (\w+)",
            r"^\s*typedef [^;]*?\(\*(\w+)\)",
            r"^\s*(?:enum class|enum|class|struct|union|concept|using|namespace) +(\w+)",
            r"#define (\w+)",
            r"(operator\s*[^\s\w(]+|~?\w+)\(",  # a function: the first name before a parenthesis
            r"(\w+)(?:\[[^\]]*\])?\s*(?:=|;|\{)",  # a constant
        ):
            if found := re.search(pattern, code):
                return found.group(1)
        return ""


def render(header: str, title: str) -> str:
    """Return the Markdown page of a header's text; ``title`` is what a program includes."""
    lines = [f"# `{title}`", "", *markdown(top_comment(header)), ""]
    for declaration in declarations(header):
        if declaration.is_forward:
            continue
        lines += [f"## {declaration.name}", "", *markdown(declaration.comment), ""]
        lines += ["```cpp", public_part(declaration.code), "```", ""]
    return "\n".join(lines)


def summary(header: str) -> str:
    """Return the first sentence of the header's top comment, without the header's name."""
    paragraph = " ".join(top_comment(header).split("\n\n")[0].split())
    sentence = re.split(r"(?<=\.) ", paragraph)[0]
    return sentence[:1].upper() + sentence[1:]


def top_comment(header: str) -> str:
    """Return the text of the comment that the header begins with."""
    if block := re.match(r"\s*/\*(.*?)\*/", header, flags=re.S):
        return "\n".join(re.sub(r"^ \* ?", "", line) for line in block[1].splitlines()).strip()
    lines = []
    for line in header.splitlines():
        if not line.startswith("//"):
            break
        lines.append(_uncommented(line))
    return "\n".join(lines)


def markdown(comment: str) -> list[str]:
    """Return a comment's text as Markdown; lines indented by two or more spaces become code."""
    lines: list[str] = []
    in_code = False
    for line in comment.splitlines():
        is_code = line.startswith(" " * PROSE_WIDTH) or (in_code and not line.strip())
        if is_code != in_code:
            lines += ["", "```cpp"] if is_code else _closed(lines)
            in_code = is_code
        lines.append(line[PROSE_WIDTH:] if is_code else _escaped(line))
    return lines + (_closed(lines) if in_code else [])


def declarations(header: str) -> Iterator[Declaration]:
    """Yield the declarations at namespace level, in order."""
    body = header[header.find("#pragma once") + len("#pragma once") :]
    body = re.sub(r"#ifdef __cplusplus\n.*?#endif", "", body, flags=re.S)
    body = re.sub(r"^#(include|if|ifdef|ifndef|else|endif)\b.*$", "", body, flags=re.M)
    body = re.sub(r"^(\}  // )?namespace .*$|^extern \"C\" \{$", "", body, flags=re.M)
    yield from split(body)


def members(code: str) -> Iterator[Declaration]:
    """Yield the public members of a class or struct; nothing for other declarations."""
    if not re.match(r"(template <.*?>\s*)?(class|struct)\b", code, flags=re.S) or "{" not in code:
        return
    inner = public_part(code)
    inner = inner[inner.index("{") + 1 : inner.rindex("}")]
    yield from split(re.sub(r"^\s*(public|protected):$", "", inner, flags=re.M))


def split(text: str) -> Iterator[Declaration]:
    """Yield the declarations of a text that begins and ends between two declarations."""
    comment: list[str] = []
    code: list[str] = []
    block: list[str] | None = None  # lines of a /* */ comment
    for line in text.splitlines():
        stripped = line.strip()
        if not code and (block is not None or stripped.startswith("/*")):
            block = [*(block or []), re.sub(r"^/?\*+/? ?|\s*\*/$", "", stripped)]
            if stripped.endswith("*/"):
                comment, block = block, None
        elif not code and stripped.startswith("//"):
            comment.append(_uncommented(stripped))
        elif not code and not stripped:
            comment = []  # a comment that belongs to no declaration
        else:
            code.append(line)
            whole = "\n".join(code)
            if _is_complete(whole):
                trailing = re.search(r"//\s*(.*)$|/\*\s*(.*?)\s*\*/$", stripped)
                if trailing and not comment:
                    comment = [trailing[1] or trailing[2]]
                yield Declaration(comment="\n".join(comment), code=whole)
                comment, code = [], []


def public_part(code: str) -> str:
    """Return a declaration without the private members of its class and without bodies."""
    lines: list[str] = []
    end = ""  # how the line begins that ends the hidden part: the brace of its class
    for line in code.splitlines():
        if label := re.fullmatch(r"(\s*) (private|protected|public):", line):
            end = label[1] + "}" if label[2] == "private" else ""
            if end:
                while lines and not lines[-1].strip():
                    lines.pop()
                continue
        if end and line.startswith(end):
            end = ""
        if not end:
            lines.append(line)
    return _without_bodies("\n".join(lines))


def _is_complete(code: str) -> bool:
    """Whether the text ends a declaration: braces and parentheses match, and it is terminated."""
    bare = re.sub(r"//.*$|/\*.*?\*/|\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])'", "", code, flags=re.M)
    if bare.lstrip().startswith("#"):
        return not bare.rstrip().endswith("\\")
    if any(bare.count(a) != bare.count(b) for a, b in ("{}", "()")):
        return False
    end = bare.rstrip()
    if end.endswith(";"):
        return True
    # A function with a body, but not a class, whose closing brace has a semicolon.
    return end.endswith("}") and not re.match(r"\s*(class|struct|enum|union)\b", bare)


def _without_bodies(code: str) -> str:
    """Return the code with every function body replaced by a semicolon."""
    out: list[str] = []
    at = 0
    while at < len(code):
        # A body's brace follows a space; one without a space, or an empty pair, is a value.
        body = re.compile(
            r"\)((?: const| noexcept| override| ?&&?)*)(?:\s*:[^;]*?)?\s\{(?!\}\))"
        ).search(code, at)
        if body is None:
            break
        end, depth = body.end(), 1
        while depth and end < len(code):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        out += [code[at : body.start() + 1], body[1].rstrip(), ";"]
        at = end
    return "".join([*out, code[at:]])


def _uncommented(line: str) -> str:
    return re.sub(r"^///? ?", "", line)


def _closed(lines: list[str]) -> list[str]:
    """End a code block: its trailing empty lines go after the fence."""
    while lines and not lines[-1].strip():
        lines.pop()
    return ["```", ""]


def _escaped(line: str) -> str:
    """Escape text that Markdown would take for markup, except between backquotes."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<\[\]#|])", r"\\\1", p) for p in parts)
