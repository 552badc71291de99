#include "web/http_reply.h"

#include <utility>

namespace edgepipe {
namespace {

struct Reason {
  int code;
  std::string_view text;
};

constexpr Reason kReasons[] = {
    {200, "OK"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {431, "Request Header Fields Too Large"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
};

// The page loads only its own files, no other site may show it in a frame or use its pictures, and
// a reverse proxy passes events on at once (X-Accel-Buffering).
constexpr std::string_view kFields =
    "Cache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Content-Security-Policy: default-src 'self'; img-src 'self' data:; frame-ancestors 'none'\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Accel-Buffering: no\r\n";

}  // namespace

HttpReply text_reply(int code, std::string text) {
  HttpReply reply;
  reply.code = code;
  reply.body = std::make_shared<const std::string>(std::move(text));
  return reply;
}

std::string head_of(const HttpReply& reply, bool keep_alive) {
  std::string head = "HTTP/1.1 " + std::to_string(reply.code);
  for (const Reason& reason : kReasons) {
    if (reason.code == reply.code) head.append(" ").append(reason.text);
  }
  head.append("\r\nContent-Type: ").append(reply.type).append("\r\n").append(kFields);
  if (reply.code == 401) head += "WWW-Authenticate: Basic realm=\"edgepipe\"\r\n";
  if (reply.code == 405) head += "Allow: GET\r\n";
  if (reply.code == 503) head += "Retry-After: 5\r\n";
  if (!reply.is_stream) {
    const std::size_t bytes = reply.body ? reply.body->size() : 0;
    head += "Content-Length: " + std::to_string(bytes) + "\r\n";
  }
  return head + (keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
}

}  // namespace edgepipe
