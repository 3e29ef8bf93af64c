#include "tenon/hub/pull.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenon/hub/cache.h"
#include "tenon/hub/played_hub_for_test.h"

namespace tenon::hub {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string random_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint32_t state = 1;
  for (char& c : bytes) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return bytes;
}

std::string text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string hash_of(const std::string& bytes) {
  Digest digest = Digest::sha256();
  digest.add(bytes);
  return digest.hex();
}

const std::map<std::string, std::string> kFiles = {
    {"m-Q4_K_M.gguf", random_bytes(300'000)},
    {"m-Q8_0.gguf", "GGUF eight bits"},
    {"big/m-F16-00001-of-00002.gguf", "GGUF one"},
    {"big/m-F16-00002-of-00002.gguf", "GGUF two"},
};
const std::string& kBytes = kFiles.at("m-Q4_K_M.gguf");
const std::string kFileTarget =
    "/owner/repo/resolve/" + std::string(PlayedHub::kCommit) + "/m-Q4_K_M.gguf";

HubName named(std::string_view name) {
  return *parse_hub_name(name);
}

bool is_file(const Asked& asked) {
  return asked.target.find("/resolve/") != std::string::npos;
}

TEST(Pull, FetchesAModelAndFindsItAgain) {
  const PlayedHub hub(kFiles);
  const TestCache cache(hub, "fetches");
  std::vector<std::string> events;
  const auto model = pull(named("owner/repo"), cache.settings, [&](const Event& event) {
    if (event.kind == Event::Kind::bytes) return;
    events.push_back(std::to_string(static_cast<int>(event.kind)) + std::string(event.file));
    EXPECT_EQ(event.number, 1U);
    EXPECT_EQ(event.count, 1U);
    EXPECT_EQ(event.size, kBytes.size());
  });
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->quantisation, "Q4_K_M");
  EXPECT_EQ(model->name, "m-Q4_K_M");
  EXPECT_EQ(model->commit, PlayedHub::kCommit);
  EXPECT_EQ(model->size, kBytes.size());
  EXPECT_EQ(model->note, "");
  EXPECT_EQ(text(model->path), kBytes);
  EXPECT_EQ(events, (std::vector<std::string>{"0m-Q4_K_M.gguf", "3m-Q4_K_M.gguf"}));
  EXPECT_EQ(fs::read_symlink(model->path), "../../blobs/" + hash_of(kBytes));
  EXPECT_FALSE(fs::exists(Cache(cache.settings.cache).incomplete("owner/repo", hash_of(kBytes))));

  const std::size_t before = hub.asked().size();
  const auto again = pull(named("owner/repo"), cache.settings);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->path, model->path);
  EXPECT_EQ(hub.asked().size(), before + 2) << "the lists, and no file";
  const auto cached = find_cached(named("owner/repo:q4_k_m"), cache.settings);
  ASSERT_TRUE(cached) << cached.error().message;
  EXPECT_EQ(cached->path, model->path);
  EXPECT_EQ(hub.asked().size(), before + 2);
  EXPECT_FALSE(find_cached(named("owner/repo:Q8_0"), cache.settings));
}

TEST(Pull, FetchesAllShards) {
  const PlayedHub hub(kFiles);
  const TestCache cache(hub, "shards");
  const auto model = pull(named("owner/repo@v1:F16"), cache.settings);
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_EQ(model->files.size(), 2U);
  EXPECT_EQ(text(model->files[0]) + text(model->files[1]), "GGUF oneGGUF two");
  EXPECT_THAT(model->path, HasSubstr("big/m-F16-00001-of-00002.gguf"));
  EXPECT_EQ(model->name, "m-F16");
  EXPECT_TRUE(find_cached(named("owner/repo@v1"), cache.settings));
  EXPECT_FALSE(find_cached(named("owner/repo"), cache.settings)) << "of main nothing is known";
}

// A hub that answers `bytes` to the first `times` requests for the file, and then as a good hub.
PlayedHub::Fault first_times(int times, std::string bytes) {
  return [times, bytes = std::move(bytes)](const Asked& asked, int before) {
    return is_file(asked) && before < times ? std::optional(bytes) : std::nullopt;
  };
}

struct Retried {
  const char* name;
  std::string answer;  // the answer to the first requests for the file
  int times = 1;
};

TEST(Pull, AnotherAttemptGetsTheFile) {
  const std::string half = kBytes.substr(0, kBytes.size() / 2);
  const std::string length = "Content-Length: " + std::to_string(kBytes.size()) + "\r\n";
  const Retried rows[] = {
      {"Busy", http_answer("503 Service Unavailable", "", "")},
      {"TooMany", http_answer("429 Too Many Requests", "Retry-After: 0\r\n", ""), 3},
      {"Broken", http_answer("500 Internal Server Error", "", ""), 3},
      {"Timeout", http_answer("408 Request Timeout", "", "")},
      {"Closed", ""},
      {"Malformed", "HTTP/1.1 what\r\n\r\n"},
      {"CutInTheHead", "HTTP/1.1 200 OK\r\nConte"},
      {"CutInTheBody", "HTTP/1.1 200 OK\r\n" + length + "\r\n" + half},
      {"EndsEarlyWithoutLength", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + half},
      {"AnotherRange",
       "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-9/10\r\n"
       "Content-Length: 5\r\n\r\nabcde"},
  };
  for (const Retried& row : rows) {
    const PlayedHub hub(kFiles, first_times(row.times, row.answer));
    const TestCache cache(hub, "retried");
    int waits = 0;
    const auto model = pull(named("owner/repo"), cache.settings, [&](const Event& event) {
      waits += event.kind == Event::Kind::wait ? 1 : 0;
    });
    ASSERT_TRUE(model) << row.name << ": " << model.error().message;
    EXPECT_EQ(text(model->path), kBytes) << row.name;
    EXPECT_EQ(waits, row.times) << row.name << ": a person is told";
  }
}

TEST(Pull, GoesOnWhereItWasCut) {
  const std::string length = "Content-Length: " + std::to_string(kBytes.size()) + "\r\n";
  const PlayedHub hub(
      kFiles, first_times(1, "HTTP/1.1 200 OK\r\n" + length + "\r\n" + kBytes.substr(0, 200'000)));
  const TestCache cache(hub, "goes_on");
  const auto model = pull(named("owner/repo"), cache.settings);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(text(model->path), kBytes);
  EXPECT_EQ(hub.asked().back().header("Range"), "bytes=200000-");
}

struct Partial {
  const char* name;
  std::string incomplete;
  std::string range;                  // expected in the first request for the file
  std::string again;                  // expected in the second; "-": there is no second request
  std::optional<std::string> answer;  // the answer to the first; no value: a good one
};

TEST(Pull, GoesOnWithWhatAnEarlierOneLeft) {
  const Partial rows[] = {
      {"Nothing", "", "", "-", {}},
      {"Half", kBytes.substr(0, 150'000), "bytes=150000-", "-", {}},
      {"All", kBytes, "-", "-", {}},
      {"TooMuch", kBytes + "x", "", "-", {}},
      {"RangeIsNotHeeded", kBytes.substr(0, 150'000), "bytes=150000-", "-",
       http_answer("200 OK", "", kBytes)},
      {"RangeIsRefused", kBytes.substr(0, 150'000), "bytes=150000-", "",
       http_answer("416 Range Not Satisfiable", "", "")},
      {"OtherBytes", std::string(150'000, 'x'), "bytes=150000-", "", {}},
      {"OtherBytesAll", std::string(kBytes.size(), 'x'), "", "-", {}},
  };
  for (const Partial& row : rows) {
    const PlayedHub hub(kFiles, row.answer ? first_times(1, *row.answer) : PlayedHub::Fault{});
    const TestCache cache(hub, "partial");
    const fs::path incomplete =
        Cache(cache.settings.cache).incomplete("owner/repo", hash_of(kBytes));
    fs::create_directories(incomplete.parent_path());
    std::ofstream(incomplete, std::ios::binary) << row.incomplete;
    const auto model = pull(named("owner/repo"), cache.settings);
    ASSERT_TRUE(model) << row.name << ": " << model.error().message;
    EXPECT_EQ(text(model->path), kBytes) << row.name;
    std::vector<std::string> ranges;
    for (const Asked& asked : hub.asked()) {
      if (is_file(asked)) ranges.push_back(asked.header("Range"));
    }
    ranges.resize(2, "-");
    EXPECT_EQ(ranges, (std::vector{row.range, row.again})) << row.name;
  }
}

struct Refused {
  const char* name;
  std::string answer;  // the answer to every request for the file
  Errc code;
  const char* says;
  int attempts = 1;
};

TEST(Pull, SaysWhyAFileCannotBeFetched) {
  const std::string wrong = std::string(kBytes.size(), 'x');
  const std::string length = "Content-Length: " + std::to_string(kBytes.size()) + "\r\n";
  const Refused rows[] = {
      {"WrongHash", http_answer("200 OK", "", wrong), Errc::unavailable, "another hash"},
      {"Shorter", http_answer("200 OK", "", kBytes.substr(1)), Errc::unavailable,
       "the file has 299999 bytes, and the hub's list says 300000"},
      {"Longer", http_answer("200 OK", "", kBytes + "x"), Errc::unavailable,
       "the file has 300001 bytes"},
      {"LongerWithoutLength", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + kBytes + "x",
       Errc::unavailable, "more bytes came than the 300000"},
      {"Gone", http_answer("404 Not Found", "X-Error-Code: EntryNotFound\r\n", ""), Errc::invalid,
       "not in the repository any more"},
      {"Unauthorized", http_answer("401 Unauthorized", "", ""), Errc::invalid, "HF_TOKEN"},
      {"Gated",
       http_answer("403 Forbidden", "X-Error-Code: GatedRepo\r\nX-Error-Message: Accept it\r\n",
                   ""),
       Errc::invalid, "(Accept it); its terms have to be accepted"},
      {"AlwaysBusy", http_answer("503 Service Unavailable", "", ""), Errc::unavailable,
       "(6 attempts)", 6},
      {"AsksForTooMuchPatience", http_answer("429 Too Many Requests", "Retry-After: 3600\r\n", ""),
       Errc::unavailable, "asks to wait 3600 seconds"},
      {"AlwaysCut", "HTTP/1.1 200 OK\r\n" + length + "\r\nGGUF", Errc::unavailable, "(6 attempts)",
       6},
      {"Loop", http_answer("302 Found", "Location: " + kFileTarget + "\r\n", ""), Errc::unavailable,
       "one redirect too many", 11},
      {"RedirectToNowhere", http_answer("302 Found", "Location: ftp://x/y\r\n", ""),
       Errc::unavailable, "nothing that can be fetched"},
      {"RedirectWithoutPlace", http_answer("307 Temporary Redirect", "Location: http://\r\n", ""),
       Errc::unavailable, "nothing that can be fetched"},
  };
  for (const Refused& row : rows) {
    const PlayedHub hub(kFiles, first_times(1000, row.answer));
    const TestCache cache(hub, "refused");
    const auto model = pull(named("owner/repo"), cache.settings);
    ASSERT_FALSE(model) << row.name;
    EXPECT_EQ(model.error().code, row.code) << row.name << ": " << model.error().message;
    EXPECT_THAT(model.error().message, HasSubstr(row.says)) << row.name;
    int attempts = 0;
    for (const Asked& asked : hub.asked()) attempts += is_file(asked) ? 1 : 0;
    EXPECT_EQ(attempts, row.attempts) << row.name;
    EXPECT_FALSE(find_cached(named("owner/repo"), cache.settings)) << row.name;
    EXPECT_FALSE(fs::exists(Cache(cache.settings.cache).blob("owner/repo", hash_of(kBytes))))
        << row.name;
  }
}

TEST(Pull, WhatHasAnotherHashIsRemoved) {
  const PlayedHub hub(
      kFiles, first_times(1000, http_answer("200 OK", "", std::string(kBytes.size(), 'x'))));
  const TestCache cache(hub, "removed");
  EXPECT_FALSE(pull(named("owner/repo"), cache.settings));
  EXPECT_FALSE(fs::exists(Cache(cache.settings.cache).incomplete("owner/repo", hash_of(kBytes))));
}

TEST(Pull, AHostThatFallsSilentIsLeft) {
  const PlayedHub hub(kFiles, [](const Asked& asked, int before) -> std::optional<std::string> {
    if (is_file(asked) && before == 0) std::this_thread::sleep_for(2s);
    return std::nullopt;
  });
  TestCache cache(hub, "silent");
  cache.settings.silence_limit = 1s;
  std::string told;
  const auto model = pull(named("owner/repo"), cache.settings, [&](const Event& event) {
    if (event.kind == Event::Kind::wait) told += event.what;
  });
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(text(model->path), kBytes);
  EXPECT_THAT(told, HasSubstr("nothing has happened for too long"));
}

TEST(Pull, AHostThatDribblesIsLeft) {
  std::atomic<int> dribbles{0};
  http::FakeServer cdn([&](int connection, int number) {
    const std::string head = http::read_request(connection);
    if (number > 0) {
      const Asked asked{.target = "", .head = head};
      http::say(connection, PlayedHub::file_answer(asked, kBytes));
      return;
    }
    http::say(connection, "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n");
    for (std::size_t at = 0; at < 200; ++at, ++dribbles) {
      if (!http::say(connection, kBytes.substr(at, 1))) return;
      std::this_thread::sleep_for(20ms);
    }
  });
  const PlayedHub hub(
      kFiles, first_times(1000, http_answer("302 Found", "Location: " + cdn.url() + "x\r\n", "")));
  TestCache cache(hub, "dribbles");
  cache.settings.slow_window = 200ms;
  const auto model = pull(named("owner/repo"), cache.settings);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(text(model->path), kBytes);
  EXPECT_LT(dribbles, 199);
}

TEST(Pull, FollowsToAnotherHostWithoutTheToken) {
  const PlayedHub cdn({}, [](const Asked& asked, int /*before*/) {
    return std::optional(PlayedHub::file_answer(asked, kBytes));
  });
  const PlayedHub hub(kFiles, [&](const Asked& asked, int before) -> std::optional<std::string> {
    if (!is_file(asked)) return std::nullopt;
    // First a renamed repository, as a relative address, and then the other host.
    const std::string place = before == 0 ? "resolve-cache?x=1" : cdn.url() + "/signed?key=secret";
    if (asked.target.find("resolve-cache") != std::string::npos || before > 0) {
      return http_answer("302 Found", "Location: " + cdn.url() + "/signed?key=secret\r\n", "");
    }
    return http_answer("307 Temporary Redirect", "Location: " + place + "\r\n", "");
  });
  TestCache cache(hub, "token");
  cache.settings.token = "hf_secret";
  cache.settings.token_place = "HF_TOKEN";
  const auto model = pull(named("owner/repo"), cache.settings);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(text(model->path), kBytes);
  ASSERT_EQ(cdn.asked().size(), 1U);
  EXPECT_THAT(cdn.asked()[0].head, Not(HasSubstr("hf_secret")));
  EXPECT_EQ(hub.asked().size(), 4U);
  for (const Asked& asked : hub.asked()) {
    EXPECT_EQ(asked.header("Authorization"), "Bearer hf_secret") << asked.target;
  }
}

TEST(Pull, RefusalsNameTheTokenThatWasSent) {
  for (const auto& [status, says] : std::map<std::string, std::string>{
           {"401 Unauthorized", "the token in HF_TOKEN has no right"},
           {"403 Forbidden", "the owner of the token in HF_TOKEN has to accept"},
           {"404 Not Found", "there is no such repository"}}) {
    const PlayedHub hub({}, [&, status = status](const Asked& /*asked*/, int /*before*/) {
      return std::optional(http_answer(status, "", "{}"));
    });
    TestCache cache(hub, "names_token");
    cache.settings.token = "hf_secret";
    cache.settings.token_place = "HF_TOKEN";
    const auto model = pull(named("owner/repo"), cache.settings);
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, Errc::invalid);
    EXPECT_THAT(model.error().message, AllOf(HasSubstr(says), Not(HasSubstr("hf_secret"))));
  }
}

struct BadList {
  const char* name;
  std::string target;  // a part of the target of the request that gets this answer
  std::string answer;
  Errc code;
  const char* says;
};

TEST(Pull, RefusesListsThatNoHubSends) {
  const std::string hash(64, 'a');
  const auto json = [](const std::string& text) { return http_answer("200 OK", "", text); };
  const BadList rows[] = {
      {"NotJson", "/revision/", json("<html>sign in</html>"), Errc::unavailable, "HF_ENDPOINT"},
      {"NoCommit", "/revision/", json("{}"), Errc::unavailable, "which commit"},
      {"CommitIsAPath", "/revision/", json(R"({"sha":"../../x"})"), Errc::unavailable,
       "which commit"},
      {"NoRevision", "/revision/",
       http_answer("404 Not Found", "X-Error-Code: RevisionNotFound\r\n", ""), Errc::invalid,
       "no such branch"},
      {"NotAList", "/tree/", json("{}"), Errc::invalid, "no JSON array"},
      {"Leaves", "/tree/",
       json(R"([{"type":"file","path":"../../x.gguf","lfs":{"oid":")" + hash + R"(","size":1}}])"),
       Errc::invalid, "lead out of the folder"},
      {"TooLarge", "/tree/", json("[" + std::string(100'000, ' ') + "]"), Errc::limit_exceeded,
       "refused"},
      {"Deep", "/tree/", json(std::string(5'000, '[')), Errc::unavailable, "HF_ENDPOINT"},
      {"TooBigForTheDisk", "/tree/",
       json(R"([{"type":"file","path":"x.gguf","lfs":{"oid":")" + hash +
            R"(","size":60000000000000}}])"),
       Errc::unavailable, "bytes in"},
  };
  for (const BadList& row : rows) {
    const PlayedHub hub(kFiles, [&](const Asked& asked, int /*before*/) {
      return asked.target.find(row.target) == std::string::npos ? std::nullopt
                                                                : std::optional(row.answer);
    });
    TestCache cache(hub, "lists");
    cache.settings.max_list_bytes = 50'000;
    const auto model = pull(named("owner/repo"), cache.settings);
    ASSERT_FALSE(model) << row.name;
    EXPECT_EQ(model.error().code, row.code) << row.name << ": " << model.error().message;
    EXPECT_THAT(model.error().message, HasSubstr(row.says)) << row.name;
  }
}

TEST(Pull, ReadsListsOfSeveralPages) {
  std::string other;
  const PlayedHub hub(
      kFiles, [&](const Asked& asked, int /*before*/) -> std::optional<std::string> {
        if (asked.target.find("/tree/") == std::string::npos) return std::nullopt;
        if (asked.target.find("cursor") != std::string::npos) {
          return http_answer("200 OK", "",
                             "[" + hub.entry("m-Q8_0.gguf", kFiles.at("m-Q8_0.gguf")) + "]");
        }
        const std::string next = other.empty() ? asked.target + "&cursor=2" : other;
        return http_answer("200 OK", "Link: <" + next + ">; rel=\"next\"\r\n", "[]");
      });
  const TestCache cache(hub, "pages");
  const auto model = pull(named("owner/repo:Q8_0"), cache.settings);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(text(model->path), kFiles.at("m-Q8_0.gguf"));
  other = "http://127.0.0.1:1/elsewhere";  // a page of another host is not followed
  const auto elsewhere = pull(named("owner/repo:Q8_0"), cache.settings);
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().message, HasSubstr("no GGUF file"));
}

TEST(Pull, PagesWithoutEndAreLeft) {
  const PlayedHub hub(kFiles, [](const Asked& asked, int /*before*/) -> std::optional<std::string> {
    if (asked.target.find("/tree/") == std::string::npos) return std::nullopt;
    return http_answer("200 OK", "Link: <" + asked.target + "&x>; rel=\"next\"\r\n", "[]");
  });
  TestCache cache(hub, "endless");
  cache.settings.max_list_pages = 5;
  const auto model = pull(named("owner/repo"), cache.settings);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Errc::limit_exceeded);
  EXPECT_EQ(hub.asked().size(), 6U);
}

TEST(Pull, TakesWhatTheCacheHasWhereTheHubIsNotThere) {
  std::optional<std::string> answer;
  const PlayedHub hub(kFiles, [&](const Asked& /*asked*/, int /*before*/) { return answer; });
  TestCache cache(hub, "offline");
  ASSERT_TRUE(pull(named("owner/repo"), cache.settings));
  const std::string endpoint = cache.settings.endpoint;
  cache.settings.endpoint = "http://127.0.0.1:1";
  const auto cut_off = pull(named("owner/repo"), cache.settings);
  ASSERT_TRUE(cut_off) << cut_off.error().message;
  EXPECT_EQ(text(cut_off->path), kBytes);
  EXPECT_THAT(cut_off->note, HasSubstr("127.0.0.1:1"));
  const auto missing = pull(named("owner/repo:Q8_0"), cache.settings);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::unavailable);
  EXPECT_THAT(missing.error().message, HasSubstr("127.0.0.1:1"));

  cache.settings.endpoint = endpoint;
  cache.settings.is_offline = true;
  const std::size_t before = hub.asked().size();
  const auto offline = pull(named("owner/repo"), cache.settings);
  ASSERT_TRUE(offline) << offline.error().message;
  EXPECT_THAT(offline->note, HasSubstr("HF_HUB_OFFLINE"));
  const auto not_here = pull(named("owner/repo:Q8_0"), cache.settings);
  ASSERT_FALSE(not_here);
  EXPECT_THAT(not_here.error().message, AllOf(HasSubstr("HF_HUB_OFFLINE"), HasSubstr("--model")));
  EXPECT_EQ(hub.asked().size(), before);

  cache.settings.is_offline = false;
  answer = http_answer("503 Service Unavailable", "", "");
  EXPECT_TRUE(pull(named("owner/repo"), cache.settings));
  answer = http_answer("404 Not Found", "", "{}");
  EXPECT_FALSE(pull(named("owner/repo"), cache.settings)) << "a refusal is no silence";
}

TEST(Pull, ANewerCommitTakesTheOldOnesPlace) {
  std::string newer;
  const PlayedHub hub(
      kFiles, [&](const Asked& asked, int /*before*/) -> std::optional<std::string> {
        if (newer.empty()) return std::nullopt;
        if (asked.target.find("/revision/") != std::string::npos) {
          return http_answer("200 OK", "", R"({"sha":")" + std::string(40, 'f') + R"("})");
        }
        if (asked.target.find("/tree/") != std::string::npos) {
          return http_answer("200 OK", "", "[" + hub.entry("m-Q4_K_M.gguf", newer) + "]");
        }
        return PlayedHub::file_answer(asked, newer);
      });
  const TestCache cache(hub, "newer");
  const auto old = pull(named("owner/repo"), cache.settings);
  ASSERT_TRUE(old);
  newer = "GGUF newer";
  const auto located = locate("hf:owner/repo", cache.settings);
  ASSERT_TRUE(located);
  EXPECT_EQ(located->path, old->path) << "what is here is not asked for again";
  const auto model = pull(named("owner/repo"), cache.settings);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(text(model->path), "GGUF newer");
  EXPECT_EQ(text(old->path), kBytes) << "a server may still read it";
  EXPECT_EQ(find_cached(named("owner/repo"), cache.settings)->path, model->path);
}

TEST(Pull, TwoAtOnceFetchTheFileOnce) {
  const PlayedHub hub(kFiles, [](const Asked& asked, int /*before*/) -> std::optional<std::string> {
    if (is_file(asked)) std::this_thread::sleep_for(100ms);
    return std::nullopt;
  });
  const TestCache cache(hub, "two");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto model = pull(named("owner/repo"), cache.settings);
      ASSERT_TRUE(model) << model.error().message;
      EXPECT_EQ(text(model->path), kBytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  int fetched = 0;
  for (const Asked& asked : hub.asked()) fetched += is_file(asked) ? 1 : 0;
  EXPECT_EQ(fetched, 1);
}

TEST(Pull, AFullDiskIsSaid) {
  const PlayedHub hub(kFiles);
  TestCache cache(hub, "disk");
  cache.settings.cache = "/proc/tenon";
  const auto model = pull(named("owner/repo"), cache.settings);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Errc::unavailable);
  EXPECT_THAT(model.error().message, HasSubstr("HF_HUB_CACHE"));
  cache.settings.cache.clear();
  EXPECT_THAT(pull(named("owner/repo"), cache.settings).error().message, HasSubstr("HF_HUB_CACHE"));
}

TEST(Locate, RefusesNamesThatAreNone) {
  const PlayedHub hub(kFiles);
  const TestCache cache(hub, "locate");
  EXPECT_FALSE(locate("hf:nonsense", cache.settings));
  EXPECT_FALSE(locate("ollama:..", cache.settings));
  EXPECT_FALSE(locate("ollama:llama3", cache.settings));
  const auto model = locate("hf:owner/repo:Q8_0", cache.settings);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(text(model->path), "GGUF eight bits");
}

}  // namespace
}  // namespace tenon::hub
