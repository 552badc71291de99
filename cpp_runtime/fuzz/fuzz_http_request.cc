// Arbitrary bytes are an incomplete request, are refused, or contain a request. A request that two
// programs could read differently is refused, and so is one without the password.
#include <cstdlib>

#include "web/page_access.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using edgepipe::HttpParse;
  static const auto access =
      edgepipe::PageAccess::create({.names = {"door.example"}, .token = "0123456789abcdef"});
  const std::string_view all(reinterpret_cast<const char*>(data), bytes);
  const HttpParse parse = edgepipe::parse_http_request(all);
  if (parse.state == HttpParse::State::kIncomplete && bytes >= edgepipe::kMostRequestBytes) {
    std::abort();
  }
  if (parse.state == HttpParse::State::kRefused && (parse.code < 400 || parse.reason.empty())) {
    std::abort();
  }
  if (parse.state != HttpParse::State::kComplete) return 0;
  const std::string_view head = all.substr(0, parse.bytes);
  if (!head.starts_with("GET /") || !head.ends_with("\r\n\r\n")) std::abort();
  if (head.find("\r\n\r\n") != head.size() - 4 || head.find('\0') != head.npos) std::abort();
  if (!parse.request.path.starts_with('/') || parse.request.host.empty()) std::abort();
  // A request is read in the same way before more bytes have come.
  if (edgepipe::parse_http_request(head).request.path != parse.request.path) std::abort();
  if (access->refuse(parse.request)) return 0;
  const std::string& given = parse.request.authorization;
  // The password is the end of the field, or the end of the base64 text in it.
  const bool knows = given.ends_with("0123456789abcdef") || given.ends_with("ZWY=") ||
                     given.ends_with("ZGVm") || given.ends_with("RlZg==");
  if (!knows) std::abort();
  return 0;
}
