// HttpReply: the answer to one request, as a value.
//
//   return text_reply(404, "there is no /favicon.ico\n");
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace edgepipe {

/// A text that many connections send at the same time. Null: none.
using SharedText = std::shared_ptr<const std::string>;

struct HttpReply {
  int code = 200;
  std::string_view type = "text/plain; charset=utf-8";  // a constant
  SharedText body;                                      // of a stream: null
  bool is_stream = false;                               // server-sent events follow, without end
};

/// A short text for people.
HttpReply text_reply(int code, std::string text);

/// Status line and fields, up to and including the empty line.
std::string head_of(const HttpReply& reply, bool keep_alive);

}  // namespace edgepipe
