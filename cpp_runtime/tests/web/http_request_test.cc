#include "web/http_request.h"

#include <gtest/gtest.h>

#include <string>

namespace edgepipe {
namespace {

using State = HttpParse::State;

constexpr std::string_view kWhole =
    "GET /picture/7?size=2 HTTP/1.1\r\nHost: door:8080\r\nauthorization:  Bearer x \r\n\r\n";

TEST(HttpRequestTest, ReadsWhatThePageNeeds) {
  const HttpParse parse = parse_http_request(std::string(kWhole) + "GET /next");
  ASSERT_EQ(parse.state, State::kComplete);
  EXPECT_EQ(parse.bytes, kWhole.size());
  EXPECT_EQ(parse.request.path, "/picture/7");
  EXPECT_EQ(parse.request.host, "door:8080");
  EXPECT_EQ(parse.request.authorization, "Bearer x");
  EXPECT_TRUE(parse.request.keep_alive);
}

TEST(HttpRequestTest, EveryBeginningIsIncomplete) {
  for (std::size_t bytes = 0; bytes < kWhole.size(); ++bytes) {
    EXPECT_EQ(parse_http_request(kWhole.substr(0, bytes)).state, State::kIncomplete) << bytes;
  }
}

TEST(HttpRequestTest, TheConnectionEndsWhenTheReaderWantsItOrIsOld) {
  EXPECT_FALSE(parse_http_request("GET / HTTP/1.0\r\nHost: a\r\n\r\n").request.keep_alive);
  EXPECT_FALSE(parse_http_request("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n")
                   .request.keep_alive);
}

TEST(HttpRequestTest, RefusesWhatTwoProgramsCouldReadDifferently) {
  const struct {
    std::string request;
    std::string_view reason;
  } cases[] = {
      {"GET / HTTP/1.1\nHost: a\r\n\r\n", "no HTTP request"},
      {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "no HTTP request"},
      {"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "no HTTP request"},
      {std::string("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 28), "no HTTP request"},
      {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", "a damaged header field"},
      {"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", "a damaged header field"},
      {"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", "a damaged header field"},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "more than one Host"},
      {"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: b\r\nAuthorization: c\r\n\r\n",
       "more than one Authorization"},
      {"GET / HTTP/1.1\r\nHost: a\r\ncontent-length: 1\r\n\r\n", "a GET request has no body here"},
      {"GET / HTTP/1.1\r\nX: a\r\n\r\n", "no Host"},
      {"GET / HTTP/1.1\r\nHost:  \r\n\r\n", "no Host"},
  };
  for (const auto& [request, reason] : cases) {
    const HttpParse parse = parse_http_request(request);
    EXPECT_EQ(parse.state, State::kRefused) << request;
    EXPECT_EQ(parse.code, 400) << request;
    EXPECT_EQ(parse.reason, reason) << request;
  }
}

TEST(HttpRequestTest, RefusesARequestThatIsTooLong) {
  const std::string endless = "GET / HTTP/1.1\r\nHost: " + std::string(kMostRequestBytes, 'a');
  EXPECT_EQ(parse_http_request(endless).code, 431);
  EXPECT_EQ(parse_http_request(endless.substr(0, kMostRequestBytes - 1)).state, State::kIncomplete);
}

}  // namespace
}  // namespace edgepipe
