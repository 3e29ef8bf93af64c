#include "fetch_view.h"

#include <chrono>
#include <cstdint>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::app {
namespace {

using namespace std::chrono_literals;

TEST(FetchView, SizesHaveThreeDigits) {
  const struct {
    std::uint64_t bytes;
    std::string_view shown;
  } rows[] = {{0, "0 B"},
              {999, "999 B"},
              {1'000, "1.00 kB"},
              {98'362'432, "98.4 MB"},
              {491'400'064, "491 MB"},
              {999'600, "1.00 MB"},
              {1'117'320'768, "1.12 GB"},
              {UINT64_MAX, "18447 PB"}};
  for (const auto& row : rows) EXPECT_EQ(shown_size(row.bytes), row.shown);
}

TEST(FetchView, TheLineTellsRateAndRest) {
  const hub::Event event{.kind = hub::Event::Kind::bytes,
                         .file = "m-Q8_0.gguf",
                         .number = 1,
                         .count = 2,
                         .have = 300'000'000,
                         .size = 400'000'000};
  EXPECT_EQ(
      fetch_line(event, 100'000'000, 10s, 200),
      "m-Q8_0.gguf (1 of 2)  [###############     ]  75 %  300 MB of 400 MB  10.0 MB/s  0:10 left");
  EXPECT_EQ(fetch_line(event, 0, 10s, 200),
            "m-Q8_0.gguf (1 of 2)  [###############     ]  75 %  300 MB of 400 MB")
      << "nothing has come yet";
  EXPECT_EQ(fetch_line(event, 100, 10s, 200).substr(46),
            "75 %  300 MB of 400 MB  10 B/s  over 100 h left");
  EXPECT_EQ(fetch_line({.kind = hub::Event::Kind::bytes, .file = "m"}, 0, 0s, 200).substr(0, 2),
            "m ");
  for (std::size_t width = 1; width < 120; ++width) {
    EXPECT_LE(fetch_line(event, 100'000'000, 10s, width).size(), width);
  }
}

TEST(FetchView, ATerminalDoesNotObeyNames) {
  const hub::Event event{.kind = hub::Event::Kind::bytes, .file = "\x1b[2Jm.gguf", .size = 1};
  EXPECT_EQ(fetch_line(event, 0, 1s, 200).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace tenon::app
