#include "web/http_request.h"

#include <algorithm>
#include <utility>

namespace edgepipe {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + ('a' - 'A')) : letter;
}

HttpParse refused(int code, std::string_view reason) {
  HttpParse parse;
  parse.state = HttpParse::State::kRefused;
  parse.code = code;
  parse.reason = reason;
  return parse;
}

/// A character of a method or of a field's name (RFC 9110, "token").
bool is_token(char letter) {
  const char small = lower(letter);
  return (small >= 'a' && small <= 'z') || (small >= '0' && small <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(letter) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char letter) { return is_token(letter); });
}

/// Printable ASCII without spaces.
bool is_target(std::string_view text) {
  return text.starts_with('/') &&
         std::ranges::all_of(text, [](char letter) { return letter > ' ' && letter < '\x7f'; });
}

/// Text of a field: no control characters except tabs.
bool is_field_text(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) {
    const auto code = static_cast<unsigned char>(letter);
    return code == '\t' || (code >= ' ' && code != 0x7f);
  });
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

/// Whether a list such as "keep-alive, Upgrade" contains `word`.
bool lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (same_text(trimmed(list.substr(0, end)), word)) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

/// Takes a line without its CRLF from `rest`, which contains one.
std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find(kLineEnd);
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + kLineEnd.size());
  return line;
}

/// Reads "GET /path?query HTTP/1.1". Leaves `parse` complete, or refuses.
HttpParse parse_request_line(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return refused(400, "no HTTP request");
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method) || !is_target(target) || !version.starts_with("HTTP/")) {
    return refused(400, "no HTTP request");
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return refused(505, "only HTTP/1.1 is known");
  if (method != "GET") return refused(405, "only GET is supported");
  HttpParse parse;
  parse.state = HttpParse::State::kComplete;
  parse.request.path = target.substr(0, target.find('?'));
  parse.request.keep_alive = version == "HTTP/1.1";
  return parse;
}

/// Applies a field to the request. Returns why the request is refused, or "".
std::string_view take_field(std::string_view name, std::string_view value, HttpRequest& request) {
  if (same_text(name, "Host")) {
    if (!request.host.empty()) return "more than one Host";
    request.host = value;
  } else if (same_text(name, "Authorization")) {
    if (!request.authorization.empty()) return "more than one Authorization";
    request.authorization = value;
  } else if (same_text(name, "Connection")) {
    if (lists(value, "close")) request.keep_alive = false;
  } else if (same_text(name, "Transfer-Encoding") ||
             (same_text(name, "Content-Length") && value != "0")) {
    return "a GET request has no body here";
  }
  return "";
}

}  // namespace

bool same_text(std::string_view left, std::string_view right) {
  return std::ranges::equal(left, right, {}, lower, lower);
}

HttpParse parse_http_request(std::string_view received) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const std::string_view most = received.substr(0, kMostRequestBytes);
  const std::size_t end = most.find(kEnd);
  if (end == std::string_view::npos) {
    return most.size() < kMostRequestBytes ? HttpParse() : refused(431, "the request is too long");
  }
  std::string_view rest = most.substr(0, end + kLineEnd.size());
  HttpParse parse = parse_request_line(take_line(rest));
  while (parse.state == HttpParse::State::kComplete && !rest.empty()) {
    const std::string_view line = take_line(rest);
    const std::size_t colon = std::min(line.find(':'), line.size());
    const std::string_view name = line.substr(0, colon);
    if (colon == line.size() || !is_token(name) || !is_field_text(line)) {
      return refused(400, "a damaged header field");
    }
    const std::string_view why = take_field(name, trimmed(line.substr(colon + 1)), parse.request);
    if (!why.empty()) return refused(400, why);
  }
  if (parse.state != HttpParse::State::kComplete) return parse;
  if (parse.request.host.empty()) return refused(400, "no Host");
  parse.bytes = end + kEnd.size();
  return parse;
}

}  // namespace edgepipe
