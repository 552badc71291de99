// parse_http_request: parses the head of an HTTP request strictly (RFC 9112).
//
//   const HttpParse parse = parse_http_request(received);
//   if (parse.state == HttpParse::State::kComplete) answer(parse.request);
//
// A request that two programs could read differently is refused, so that a reverse proxy in front
// of the page and the page itself always agree on where a request ends: only GET without a body,
// lines that end in CRLF, no folded fields, one Host. Does not allocate beyond the request's own
// texts. Any thread may call it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace edgepipe {

/// The most bytes that a request may have.
constexpr std::size_t kMostRequestBytes = 16384;

struct HttpRequest {
  std::string path;           // from the first slash, without the query; not decoded
  std::string host;           // as sent, with a port; never empty
  std::string authorization;  // as sent; empty: none
  bool keep_alive = false;    // the connection stays open for another request
};

struct HttpParse {
  enum class State {
    kIncomplete,  // more bytes are needed
    kComplete,    // `request` and `bytes` are set
    kRefused,     // `code` and `reason` are set; the connection must be closed
  };

  State state = State::kIncomplete;
  HttpRequest request;
  std::size_t bytes = 0;  // length of the request
  int code = 0;           // of the answer, e.g. 400
  std::string_view reason;
};

/// Reads the request at the start of `received`. Refuses one that is too long.
HttpParse parse_http_request(std::string_view received);

/// Equality of ASCII texts, in which upper and lower case count as the same.
bool same_text(std::string_view left, std::string_view right);

}  // namespace edgepipe
