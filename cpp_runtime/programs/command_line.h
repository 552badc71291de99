// What the programs share: arguments, Ctrl-C, and the files that results go to.
#pragma once

#include <signal.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "edgepipe/status.h"

namespace edgepipe::programs {

constexpr int kOk = 0;
constexpr int kWrongUse = 2;

// ---- Ctrl-C

inline std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

inline void on_interrupt(int) { interrupted = true; }

/// Sets `interrupted` on SIGINT and SIGTERM; a second one ends the program the hard way.
inline void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// ---- arguments

/// Reads all of `text` as a number.
template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// Reads `BUNDLE`, flags, and options as `--name value` or `--name=value`. `set_flag` tells whether
/// a name is a flag's; `set_option` returns an error text or none, and so does this.
template <typename Options>
std::string parse_arguments(const std::vector<std::string>& arguments, Options& options,
                            bool (*set_flag)(std::string_view, Options&),
                            std::string (*set_option)(std::string_view, const std::string&,
                                                      Options&)) {
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    const std::string& argument = arguments[index];
    if (!argument.starts_with("-")) {
      if (!options.bundle.empty()) return "a second bundle, '" + argument + "'";
      options.bundle = argument;
    } else if (!set_flag(argument, options)) {
      const std::size_t equals = argument.find('=');
      if (equals == std::string::npos && index + 1 == arguments.size()) {
        return "'" + argument + "' is unknown or lacks its value";
      }
      const std::string value =
          equals == std::string::npos ? arguments[++index] : argument.substr(equals + 1);
      std::string error = set_option(argument.substr(0, equals), value, options);
      if (!error.empty()) return error;
    }
  }
  return options.bundle.empty() ? "no bundle was given" : "";
}

// ---- results

struct CloseFile {
  void operator()(std::FILE* file) const {
    if (file != stdout) std::fclose(file);
  }
};
using OutputFile = std::unique_ptr<std::FILE, CloseFile>;

/// Creates a file for writing; - is standard output.
inline Result<OutputFile> create_file(const std::string& name) {
  OutputFile file(name == "-" ? stdout : std::fopen(name.c_str(), "wb"));
  if (!file) return Status(Code::kInvalidArgument, name + ": cannot be created");
  return file;
}

inline Status write_all(std::FILE* file, std::string_view bytes, const std::string& name) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && std::fflush(file) == 0) {
    return {};
  }
  return Status(Code::kInvalidArgument,
                (name == "-" ? "standard output" : name) +
                    ": cannot be written: " + std::generic_category().message(errno));
}

/// Writes a file, or leaves none.
inline Status write_file(const std::filesystem::path& path, std::string_view bytes) {
  Result<OutputFile> file = create_file(path.string());
  if (!file.ok()) return file.status();
  Status status = write_all(file->get(), bytes, path.string());
  if (!status.ok()) std::filesystem::remove(path);
  return status;
}

}  // namespace edgepipe::programs
