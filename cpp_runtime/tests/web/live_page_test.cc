#include "web/live_page.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

namespace edgepipe {
namespace {

constexpr int kSide = 8;  // pixels

/// A reader that waits at most ten seconds for each piece.
class Reader {
 public:
  Reader(int port, const std::string& path) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(socket_.number(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const std::string request =
        "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(::connect(socket_.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
              0);
    EXPECT_EQ(::send(socket_.number(), request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
  }

  /// Reads until `text` has arrived; false at the end or after ten seconds.
  bool read_until(std::string_view text) {
    while (received_.find(text) == std::string::npos) {
      if (!read_piece()) return false;
    }
    return true;
  }

  [[nodiscard]] const std::string& received() const { return received_; }

  std::string read_all() {
    while (read_piece()) {
    }
    return received_;
  }

 private:
  bool read_piece() {
    char piece[4096];
    const ssize_t count = ::recv(socket_.number(), piece, sizeof(piece), 0);
    if (count > 0) received_.append(piece, static_cast<std::size_t>(count));
    return count > 0;
  }

  FileDescriptor socket_;
  std::string received_;
};

class LivePageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<PageAccess> access = PageAccess::create({});
    ASSERT_TRUE(access.ok());
    Result<std::unique_ptr<LivePage>> page =
        LivePage::start({.port = 0}, *std::move(access),
                        {.statistics =
                             [this] {
                               ++statistics_;
                               return std::string("{}");
                             },
                         .metrics = [] { return std::string("frames 7\n"); },
                         .watched = [this] { ++watched_; }});
    ASSERT_TRUE(page.ok()) << page.status().message();
    page_ = *std::move(page);
  }

  void publish(std::uint64_t frame, int side = kSide, int reduction = 1) {
    const auto row_bytes = packed_row_bytes(PixelFormat::kRgb, side);
    const std::vector<std::byte> pixels(row_bytes * static_cast<std::size_t>(side),
                                        static_cast<std::byte>(frame));
    const Picture picture{.format = PixelFormat::kRgb,
                          .width = side,
                          .height = side,
                          .row_bytes = row_bytes,
                          .bytes = pixels};
    page_->publish(frame, picture, reduction, "{\"frame\":" + std::to_string(frame) + "}");
  }

  /// The data of a frame's event.
  static std::string data(std::uint64_t frame, int side = kSide, int reduction = 1) {
    const std::string pixels = std::to_string(side);
    return "data: {\"frame\":" + std::to_string(frame) + ",\"picture\":{\"width\":" + pixels +
           ",\"height\":" + pixels + ",\"reduction\":" + std::to_string(reduction) + "}}\n\n";
  }

  std::atomic<int> statistics_{0};
  std::atomic<int> watched_{0};
  std::unique_ptr<LivePage> page_;
};

TEST_F(LivePageTest, APictureIsEncodedOnceForAllReaders) {
  publish(7);
  std::vector<Reader> followers;
  for (int count = 0; count < 50; ++count) followers.emplace_back(page_->port(), "/events");
  for (Reader& follower : followers) ASSERT_TRUE(follower.read_until(data(7)));
  EXPECT_EQ(page_->encoded(), 0U);
  const std::string first = Reader(page_->port(), "/picture/7").read_all();
  EXPECT_TRUE(first.starts_with("HTTP/1.1 200 OK\r\nContent-Type: image/"));
  for (int count = 0; count < 49; ++count) {
    EXPECT_EQ(Reader(page_->port(), "/picture/7").read_all(), first);
  }
  EXPECT_EQ(page_->encoded(), 1U);
}

TEST_F(LivePageTest, MetricsAreTextForPrometheus) {
  const std::string answer = Reader(page_->port(), "/metrics").read_all();
  EXPECT_TRUE(
      answer.starts_with("HTTP/1.1 200 OK\r\n"
                         "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\nframes 7\n"));
}

TEST_F(LivePageTest, WithoutAReaderNothingIsEncodedOrAsked) {
  for (std::uint64_t frame = 0; frame < 1000; ++frame) publish(frame);
  EXPECT_EQ(page_->encoded(), 0U);
  EXPECT_EQ(statistics_, 0);
  EXPECT_EQ(watched_, 0);
}

TEST_F(LivePageTest, PicturesOfAnySizeAreShownAndSaySo) {
  Reader follower(page_->port(), "/events");
  publish(1, 8);
  ASSERT_TRUE(follower.read_until(data(1, 8)));
  publish(2, 40, 3);
  ASSERT_TRUE(follower.read_until(data(2, 40, 3)));
  const std::string small = Reader(page_->port(), "/picture/1").read_all();
  const std::string large = Reader(page_->port(), "/picture/2").read_all();
  EXPECT_LT(small.size(), large.size());
  EXPECT_GT(watched_, 0);
}

TEST_F(LivePageTest, WhatWasShownBeforeNobodyWatchedIsNotShownAgain) {
  {
    Reader first(page_->port(), "/events");
    publish(1);
    ASSERT_TRUE(first.read_until(data(1)));
    publish(2);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1300));
  Reader second(page_->port(), "/events");
  ASSERT_TRUE(second.read_until("event: statistics\n"));
  publish(3);
  ASSERT_TRUE(second.read_until(data(3)));
  const std::string all = second.received();
  EXPECT_EQ(all.find(data(1)), std::string::npos);
  EXPECT_EQ(all.find(data(2)), std::string::npos);
  EXPECT_TRUE(Reader(page_->port(), "/picture/1").read_all().starts_with("HTTP/1.1 404 "));
}

TEST_F(LivePageTest, StatisticsAreMadeOnceForAllReaders) {
  std::vector<Reader> followers;
  for (int count = 0; count < 50; ++count) followers.emplace_back(page_->port(), "/events");
  for (Reader& follower : followers) ASSERT_TRUE(follower.read_until("event: statistics\n"));
  EXPECT_LT(statistics_, 50);
}

TEST_F(LivePageTest, TheLastFramesThatWereAnnouncedStayAvailable) {
  Reader follower(page_->port(), "/events");
  for (std::uint64_t frame = 0; frame < 10; ++frame) {
    publish(frame);
    ASSERT_TRUE(follower.read_until(data(frame)));
  }
  EXPECT_TRUE(Reader(page_->port(), "/picture/1").read_all().starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(Reader(page_->port(), "/picture/2").read_all().starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(Reader(page_->port(), "/picture/9").read_all().starts_with("HTTP/1.1 200 "));
}

TEST_F(LivePageTest, EndsWithReadersConnected) {
  Reader follower(page_->port(), "/events");
  ASSERT_TRUE(follower.read_until("event: statistics\n"));
  const std::jthread publishing([this](const std::stop_token& stop) {
    for (std::uint64_t frame = 0; !stop.stop_requested() && frame < 1000; ++frame) publish(frame);
  });
  follower.read_until("\"frame\":");
}

}  // namespace
}  // namespace edgepipe
