#include "web/page_access.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/secret.h"
#include "base/secret_file.h"

namespace edgepipe {
namespace {

constexpr std::size_t kLeastToken = 16;  // characters
constexpr std::size_t kMostToken = 256;
constexpr std::string_view kMakeToken =
    "make one with `openssl rand -hex 16 > FILE`, readable by its owner only";

bool is_alphanumeric(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9');
}

bool consists_of(std::string_view text, std::string_view marks) {
  return std::ranges::all_of(text, [marks](char letter) {
    return is_alphanumeric(letter) || marks.find(letter) != std::string_view::npos;
  });
}

Status check_token(std::string_view token) {
  if (token.empty()) return {};
  if (token.size() < kLeastToken || token.size() > kMostToken) {
    return {Code::kInvalidArgument,
            "found a token of " + std::to_string(token.size()) + " characters, expected " +
                std::to_string(kLeastToken) + " to " + std::to_string(kMostToken),
            std::string(kMakeToken)};
  }
  if (!consists_of(token, "-._~")) {
    return {Code::kInvalidArgument, "a token has only letters, digits and - . _ ~",
            std::string(kMakeToken)};
  }
  return {};
}

/// The names of this machine that need no look-up.
std::vector<std::string> own_names() {
  std::vector<std::string> names{"localhost"};
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return names;
  const std::string full = name;
  const std::string first = full.substr(0, full.find('.'));
  names.push_back(full);
  if (first != full) names.push_back(first);
  names.push_back(first + ".local");
  return names;
}

bool is_address(const std::string& host) {
  in6_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

/// The host of "host", "host:port" or "[address]:port"; empty if it is none of them.
std::string host_of(std::string_view field) {
  std::size_t end = field.rfind(':');
  if (field.starts_with('[')) {
    const std::size_t close = field.find(']');
    if (close == std::string_view::npos) return "";
    end = close + 1 == field.size() ? std::string_view::npos : close + 1;
    if (end != std::string_view::npos && field[end] != ':') return "";
  }
  if (end != std::string_view::npos) {
    const std::string_view port = field.substr(end + 1);
    const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
    if (!std::ranges::all_of(port, is_digit)) return "";
    field = field.substr(0, end);
  }
  if (field.starts_with('[')) field = field.substr(1, field.size() - 2);
  if (field.ends_with('.')) field.remove_suffix(1);
  return std::string(field);
}

/// The bytes of a base64 text, or none.
std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t digits = std::min(text.find('='), text.size());
  const std::size_t padding = text.size() - digits;
  if (text.size() % 4 != 0 || padding > 2 || text.substr(digits) != std::string(padding, '=')) {
    return std::nullopt;
  }
  std::string decoded;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char letter : text.substr(0, digits)) {
    const std::size_t digit = kDigits.find(letter);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    decoded += static_cast<char>(bits >> count & 0xff);
  }
  return decoded;
}

/// The password that a request gives; empty: none.
std::string password_of(std::string_view authorization) {
  const std::size_t space = std::min(authorization.find(' '), authorization.size());
  const std::string_view scheme = authorization.substr(0, space);
  std::string_view value = authorization.substr(space);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  if (same_text(scheme, "Bearer")) return std::string(value);
  if (!same_text(scheme, "Basic")) return "";
  const std::optional<std::string> pair = decode_base64(value);
  const std::size_t colon = pair ? pair->find(':') : std::string::npos;
  return colon == std::string::npos ? "" : pair->substr(colon + 1);
}

}  // namespace

PageAccess::PageAccess(std::vector<std::string> names, std::string token, std::string advice)
    : names_(std::move(names)), token_(std::move(token)), advice_(std::move(advice)) {}

Result<PageAccess> PageAccess::create(Options options) {
  std::vector<std::string> names = own_names();
  for (std::string& name : options.names) {
    if (name.empty() || !consists_of(name, "-._")) {
      return Status(Code::kInvalidArgument,
                    "'" + name + "' is not a host name, expected e.g. door.example");
    }
    names.push_back(std::move(name));
  }
  if (Status status = check_token(options.token); !status.ok()) return status;
  return PageAccess(std::move(names), std::move(options.token), std::move(options.advice));
}

std::optional<HttpReply> PageAccess::refuse(const HttpRequest& request) const {
  const std::string host = host_of(request.host);
  const auto is_host = [&host](const std::string& name) { return same_text(name, host); };
  if (!is_address(host) && std::ranges::none_of(names_, is_host)) {
    std::string text = "this page has another host name; use its address or";
    for (const std::string& name : names_) text += " " + name;
    return text_reply(403, text + "\n" + advice_);
  }
  if (token_.empty() || equal_secrets(password_of(request.authorization), token_))
    return std::nullopt;
  return text_reply(401, "the page needs its password; the user name does not matter\n");
}

Result<std::string> read_token_file(const std::filesystem::path& path) {
  const Result<std::string> content =
      read_secret_file(path, kMostToken + 2, std::string(kMakeToken));  // with its line end
  if (!content.ok()) return content.status();
  std::string_view token = *content;
  token = token.substr(0, token.find_first_of("\r\n"));
  Status status = token.empty() ? Status(Code::kInvalidArgument, "the first line is empty",
                                         std::string(kMakeToken))
                                : check_token(token);
  if (!status.ok()) return status.with_context(path.string());
  return std::string(token);
}

}  // namespace edgepipe
