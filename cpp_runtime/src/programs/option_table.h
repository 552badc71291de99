// OptionTable: a program's command line. Each option is declared once, with its argument, its help
// and what it sets; parsing and --help both come from the declarations.
//
//   OptionTable table("edgepipe-run", "BUNDLE (--input FILE | --golden) [options]", "Runs a ...");
//   table.positional("bundle", options.bundle);
//   table.section("what to run")
//       .value("--input", "FILE", "run on the frames in FILE", to_text(options.input))
//       .flag("--golden", "run the recorded input", to_true(options.golden));
//   if (std::string error = table.parse(arguments); !error.empty()) ...
//   std::fputs(table.help().c_str(), stdout);
//
// Options are written as `--name value` or `--name=value`.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace edgepipe::programs {

class OptionTable {
 public:
  /// Sets the target of an option. If the value is invalid, returns what was expected, else "".
  using Set = std::function<std::string(const std::string& value)>;

  OptionTable(std::string program, std::string usage, std::string summary);

  /// The one argument that is not an option, e.g. the bundle. `target` is borrowed.
  OptionTable& positional(std::string name, std::string& target);

  /// Starts a section of the help.
  OptionTable& section(std::string title);

  /// Adds an option with a value. Lines of `help` that begin with spaces are kept unchanged.
  OptionTable& value(std::string name, std::string argument, std::string help, Set set);

  /// Adds an option without a value.
  OptionTable& flag(std::string name, std::string help, std::function<void()> set);

  /// Ends the help with a text, which is kept unchanged.
  OptionTable& epilogue(std::string text);

  /// Sets everything that the arguments name, in their order. Returns an error text, or "".
  [[nodiscard]] std::string parse(const std::vector<std::string>& arguments) const;

  /// The text of --help: usage, summary, sections; lines have at most 80 characters.
  [[nodiscard]] std::string help() const;

  [[nodiscard]] const std::string& program() const { return program_; }

 private:
  struct Option {
    std::string name;
    std::string argument;  // empty: a flag
    std::string help;
    Set set;
  };
  struct Section {
    std::string title;
    std::vector<Option> options;
  };

  [[nodiscard]] const Option* find(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names() const;

  const std::string program_;
  const std::string usage_;
  const std::string summary_;
  std::string positional_;
  std::string* positional_target_ = nullptr;
  std::vector<Section> sections_;
  std::string epilogue_;
};

/// Reads the whole `text` as a number.
template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// Sets a string, a path or an optional one. `target` is borrowed, as by the functions below.
template <typename Text>
OptionTable::Set to_text(Text& target) {
  return [&target](const std::string& value) {
    target = value;
    return std::string();
  };
}

inline std::function<void()> to_true(bool& target) {
  return [&target] { target = true; };
}

/// What an error of an option prints that takes one of at least two `names`, and none of them was
/// `found`: "raw or ppm", and the name that was probably meant.
std::string one_of(std::string_view found, const std::vector<std::string>& names);

/// Sets a number from `least` to `most`; `expected` is what an error prints.
template <typename Number, typename Target>
OptionTable::Set to_number(Target& target, Number least, Number most, std::string expected) {
  return [&target, least, most, expected = std::move(expected)](const std::string& value) {
    Number number{};
    // A comparison that is false for "nan" too.
    if (!parse_number(value, number) || !(number >= least && number <= most)) return expected;
    target = Target(number);
    return std::string();
  };
}

}  // namespace edgepipe::programs
