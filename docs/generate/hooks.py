"""MkDocs hooks: pages made from the sources, and links that lead out of docs/.

The pages do not exist as files. Documents next to docs/ (ARCHITECTURE.md, ...) become pages of the
site. A link to one of them leads to its page on the site, and still works in the repository.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.generate import command_pages, header_pages
from edgepipe.cli.main import make_parser

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "cpp_runtime/include/edgepipe"
PROGRAMS = ("edgepipe-run", "edgepipe-cam", "edgepipe-rpcd")

# Documents of the repository that are pages of the site as well.
DOCUMENTS = {
    "ARCHITECTURE.md": "contributing/architecture.md",
    "CHANGELOG.md": "contributing/changelog.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "examples/README.md": "examples/index.md",
    "vta_rtl/encodings.md": "reference/hardware/encodings.md",
    "vta_rtl/registers.md": "reference/hardware/registers.md",
}

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s:]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from sources."""
    programs = Path(config.extra["programs"])
    for path, content in [
        *_documents(),
        *_command_line(programs if programs.is_absolute() else ROOT / programs),
        *_headers(),
    ]:
        files.append(File.generated(config, path, content=content))
    config.nav = _expanded(config.nav, files)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links of a page that lead out of docs/ lead to pages."""
    if page.file.generated_by is not None:
        return markdown
    source = f"docs/{page.file.src_uri}"
    return LINK.sub(lambda link: _led(link, source, page.file.src_uri), markdown)


def _led(link: re.Match[str], source: str, page: str) -> str:
    """Return a link of the document ``source`` as it is on ``page`` of the site.

    A link to a file of the repository that is not a page becomes plain text. A broken link stays,
    so that the build fails.
    """
    text, target, anchor = link[1], link[2], link[3] or ""
    linked = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if linked.startswith("docs/"):
        found = linked.removeprefix("docs/")
    elif linked in DOCUMENTS:
        found = DOCUMENTS[linked]
    else:
        return text if (ROOT / linked).exists() else link[0]
    return f"[{text}]({posixpath.relpath(found, posixpath.dirname(page) or '.')}{anchor})"


def _expanded(entry: Any, files: Files) -> Any:
    """Replace a folder in the navigation with its pages, except those that the same list names."""
    if isinstance(entry, dict):
        return {title: _expanded(content, files) for title, content in entry.items()}
    if isinstance(entry, str):
        return _pages_in(entry, files) if entry.endswith("/") else entry
    expanded: list[Any] = []
    for content in entry:
        if isinstance(content, str) and content.endswith("/"):
            expanded += [page for page in _pages_in(content, files) if page not in entry]
        else:
            expanded.append(_expanded(content, files))
    return expanded


def _pages_in(folder: str, files: Files) -> list[str]:
    """Return the pages of a folder, its index first."""
    pages = [f.src_uri for f in files.documentation_pages() if f.src_uri.startswith(folder)]
    return sorted(pages, key=lambda page: (posixpath.basename(page) != "index.md", page))


def _documents() -> Iterator[tuple[str, str]]:
    for source, target in DOCUMENTS.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        yield target, LINK.sub(lambda link, s=source, t=target: _led(link, s, t), text)


def _command_line(programs: Path) -> Iterator[tuple[str, str]]:
    parser = make_parser()
    overview = ["# Command line", "", "| command | |", "|---|---|"]
    for name, page in command_pages.parser_pages(parser):
        overview.append(
            f"| [`edgepipe {name}`]({name}.md) | {command_pages.help_of(parser, name)} |"
        )
        yield f"reference/commands/{name}.md", page
    for program in PROGRAMS:
        try:
            page = command_pages.program_page(programs / program)
        except OSError as cause:
            raise PluginError(
                f"{programs / program}: {cause.strerror}; `make docs` builds it"
            ) from cause
        overview.append(f"| [`{program}`]({program}.md) | {_first_sentence(page)} |")
        yield f"reference/commands/{program}.md", page
    exit_codes = parser.epilog.split("\n\n")[0] if parser.epilog else ""
    yield (
        "reference/commands/index.md",
        "\n".join([*overview, "", "```text", exit_codes, "```", ""]),
    )


def _first_sentence(page: str) -> str:
    paragraphs = page.split("```text\n")[1].split("\n\n")
    text = next((p for p in paragraphs if not p.startswith("usage")), "")
    return " ".join(text.split()).split(". ")[0].rstrip(".")


def _headers() -> Iterator[tuple[str, str]]:
    overview = ["# C++ headers", "", "| header | |", "|---|---|"]
    for path in sorted(HEADERS.glob("*.h")):
        text = path.read_text(encoding="utf-8")
        name = f"edgepipe/{path.name}"
        overview.append(f"| [`{name}`]({path.stem}.md) | {header_pages.summary(text)} |")
        yield f"reference/cpp/{path.stem}.md", header_pages.render(text, name)
    yield "reference/cpp/index.md", "\n".join([*overview, ""])
