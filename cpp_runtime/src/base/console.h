// What programs print: only text that is safe on a terminal.
//
//   print_line(stderr, "source: " + source.description());   // the description is a camera's name
//   print_failure("edgepipe-run", status);
//
// Names come from bundles, files and devices, and may contain anything. All programs print with
// these functions, which escape the characters that control a terminal. Thread-safe; they may
// block.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "edgepipe/status.h"

namespace edgepipe {

/// `text` on one line, without a character that controls a terminal. Line breaks, C0 and C1
/// controls, DEL and marks of the writing direction become escapes as in JSON, such as \u001b, and
/// bytes that are not UTF-8 become escapes such as \x9b. Everything else stays, including tabs.
std::string printable(std::string_view text);

/// Prints `text` as one line.
void print_line(std::FILE* file, std::string_view text);

/// Prints `text` with its line breaks, and adds none.
void print_lines(std::FILE* file, std::string_view text);

/// Prints a sequence that moves a terminal's cursor or erases; only the program's own text, never a
/// name.
void draw(std::FILE* file, const char* sequence);

/// Prints "PROGRAM: error: ..." and the status's hint to standard error.
void print_failure(std::string_view program, const Status& status);

}  // namespace edgepipe
