// PageAccess: who may read the page, judged by a request's Host and password.
//
//   Result<PageAccess> access = PageAccess::create({.names = {"door.example"}, .token = token});
//   if (std::optional<HttpReply> refusal = access->refuse(request)) ...
//
// Host: a page of another site whose name was made to resolve to this address (DNS rebinding) sends
// that name. Only numeric addresses, localhost, this machine's own name (also as NAME.local) and
// the given names are accepted. Password: HTTP's Basic scheme with any user name, for browsers, or
// Bearer, for programs; the time of the comparison does not depend on the token's content. The
// connection is not encrypted; a reverse proxy can add TLS. Values are immutable; any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "edgepipe/status.h"
#include "web/http_reply.h"
#include "web/http_request.h"

namespace edgepipe {

class PageAccess {
 public:
  struct Options {
    std::vector<std::string> names = {};  // further host names, without a port
    std::string token = {};               // empty: anyone may read
    std::string advice = {};              // how to allow a name, added to the answer about one
  };

  /// kInvalidArgument for a name that no request can have, or a token that is unsafe.
  static Result<PageAccess> create(Options options);

  /// The answer to a request that is refused: 403 or 401. None if it is allowed.
  [[nodiscard]] std::optional<HttpReply> refuse(const HttpRequest& request) const;

 private:
  PageAccess(std::vector<std::string> names, std::string token, std::string advice);

  std::vector<std::string> names_;
  std::string token_;
  std::string advice_;
};

/// Reads a token: the first line of a file that is not readable by everybody. kNotFound,
/// kInvalidArgument. The message never contains the token.
Result<std::string> read_token_file(const std::filesystem::path& path);

}  // namespace edgepipe
