#include "programs/option_table.h"

#include <algorithm>
#include <utility>

#include "base/nearest_word.h"

namespace edgepipe::programs {
namespace {

constexpr std::size_t kLine = 80;    // characters
constexpr std::size_t kColumn = 18;  // where the help of an option begins

/// Adds one line, or several, of at most kLine characters, each after `indent` spaces. The first
/// continues the last line of `page`.
void add_wrapped(std::string& page, std::string_view text, std::size_t indent) {
  std::size_t column = indent;
  bool first = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (!first && column + 1 + end > kLine) {
      page += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      page += " ";
      ++column;
    }
    page += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
    first = false;
  }
  page += "\n";
}

}  // namespace

OptionTable::OptionTable(std::string program, std::string usage, std::string summary)
    : program_(std::move(program)), usage_(std::move(usage)), summary_(std::move(summary)) {}

OptionTable& OptionTable::positional(std::string name, std::string& target) {
  positional_ = std::move(name);
  positional_target_ = &target;
  return *this;
}

OptionTable& OptionTable::section(std::string title) {
  sections_.push_back({.title = std::move(title), .options = {}});
  return *this;
}

OptionTable& OptionTable::value(std::string name, std::string argument, std::string help, Set set) {
  sections_.back().options.push_back({.name = std::move(name),
                                      .argument = std::move(argument),
                                      .help = std::move(help),
                                      .set = std::move(set)});
  return *this;
}

OptionTable& OptionTable::flag(std::string name, std::string help, std::function<void()> set) {
  return value(std::move(name), "", std::move(help), [set = std::move(set)](const std::string&) {
    set();
    return std::string();
  });
}

OptionTable& OptionTable::epilogue(std::string text) {
  epilogue_ = std::move(text);
  return *this;
}

const OptionTable::Option* OptionTable::find(std::string_view name) const {
  for (const Section& section : sections_) {
    const auto found = std::ranges::find(section.options, name, &Option::name);
    if (found != section.options.end()) return &*found;
  }
  return nullptr;
}

std::vector<std::string> OptionTable::names() const {
  std::vector<std::string> names;
  for (const Section& section : sections_) {
    for (const Option& option : section.options) names.push_back(option.name);
  }
  return names;
}

std::string OptionTable::parse(const std::vector<std::string>& arguments) const {
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    const std::string& argument = arguments[index];
    if (!argument.starts_with("-")) {
      if (!positional_target_->empty())
        return "found a second " + positional_ + ", '" + argument + "'";
      *positional_target_ = argument;
      continue;
    }
    const std::size_t equals = std::min(argument.find('='), argument.size());
    const std::string name = argument.substr(0, equals);
    const Option* option = find(name);
    if (option == nullptr) return "unknown option '" + name + "'" + did_you_mean(name, names());
    std::string value;
    if (option->argument.empty()) {
      if (equals < argument.size()) return option->name + " takes no value";
    } else if (equals < argument.size()) {
      value = argument.substr(equals + 1);
    } else if (++index < arguments.size()) {
      value = arguments[index];
    } else {
      return option->name + " needs a value: " + option->name + " " + option->argument;
    }
    const std::string expected = option->set(value);
    if (expected.empty()) continue;
    return std::string(option->name).append(": found '").append(value).append("', expected ") +
           expected;
  }
  return positional_target_->empty() ? "no " + positional_ + " was given" : "";
}

std::string one_of(std::string_view found, const std::vector<std::string>& names) {
  std::string text = names.front();
  for (std::size_t index = 1; index < names.size(); ++index) {
    text += (index + 1 < names.size() ? ", " : " or ") + names[index];
  }
  return text + did_you_mean(found, names);
}

std::string OptionTable::help() const {
  std::string page = "usage: " + program_ + " " + usage_ + "\n\n";
  add_wrapped(page, summary_, 0);
  for (const Section& section : sections_) {
    page += "\n" + section.title + "\n";
    for (const Option& option : section.options) {
      std::string head = "  " + option.name;
      if (!option.argument.empty()) head += " " + option.argument;
      page += head;
      page += head.size() + 2 > kColumn ? "\n" + std::string(kColumn, ' ')
                                        : std::string(kColumn - head.size(), ' ');
      std::string_view rest = option.help;
      for (bool first = true; !rest.empty(); first = false) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        const std::string_view line = rest.substr(0, end);
        if (!first) page += std::string(kColumn, ' ');
        // Lines of a list are indented by the rest of their own text.
        const std::size_t text = std::min(line.find("  "), line.size());
        const std::size_t list = text < line.size() ? line.find_first_not_of(' ', text) : 0;
        page += line.substr(0, list);
        add_wrapped(page, line.substr(list), kColumn + list);
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    }
  }
  return epilogue_.empty() ? page : page + "\n" + epilogue_;
}

}  // namespace edgepipe::programs
