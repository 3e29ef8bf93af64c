#include "tenon/api/keys.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

using namespace std::chrono_literals;
using Clock = KeyOwner::Clock;

constexpr std::string_view kAlpha = "tenon-alpha-0123456789";
constexpr std::string_view kBeta = "tenon-beta-0123456789";
constexpr std::string_view kGamma = "tenon-gamma-0123456789";

std::string file() {
  return "# staff\n" + ApiKeys::line("ann", kAlpha) + "\n\n  " +
         ApiKeys::line("bob", kBeta, {.running = 2, .requests_per_minute = 60}) + " \r\n" +
         ApiKeys::line("bob", kGamma);
}

// The hash is that of `printf %s tenon-alpha-0123456789 | sha256sum`.
TEST(ApiKeys, AreWrittenAsNameHashAndLimits) {
  EXPECT_EQ(ApiKeys::line("ann", kAlpha, {.running = 1, .tokens_per_minute = 9000}),
            "ann sha256:31b1464ac160f7ba0d8a46b39e1c9e7597b71d669a0695e34d4145c0131189ab "
            "running=1 tokens_per_minute=9000");
  EXPECT_FALSE(ApiKeys::is_name("a b"));
  EXPECT_FALSE(ApiKeys::is_name(""));
  EXPECT_FALSE(ApiKeys::is_name("a/b"));
  EXPECT_TRUE(ApiKeys::is_name("Ann_1.x-y"));
}

struct Line {
  std::string_view name;
  std::string text;
  std::string_view says;  // "": it is taken
};

const std::string kHash = "sha256:" + std::string(64, 'a');

const Line kLines[] = {
    {"Plain", "ann " + kHash, ""},
    {"UpperCase", "ann sha256:" + std::string(64, 'A'), ""},
    {"Limits", "ann\t" + kHash + "  running=1 requests_per_minute=2\ttokens_per_minute=3", ""},
    {"Comments", "# ann\n\n", ""},
    {"KeyItself", "sk-secret-key-1",
     "line 1: a line is NAME sha256:HASH and limits; `tenon key NAME` makes one"},
    {"NamedKeyItself", "\nann sk-secret-key-1", "line 2: a line is NAME"},
    {"NameOfOtherSigns", "a/b " + kHash, "line 1: a line is NAME"},
    {"ShortHash", "ann sha256:aa", "line 1: a hash has 64"},
    {"NoHash", "ann sha256:" + std::string(64, 'g'), "line 1: a hash has 64"},
    {"SignedHash", "ann sha256:" + std::string(62, 'a') + "-1", "line 1: a hash has 64"},
    {"Twice", "ann " + kHash + "\nbob " + kHash, "line 2: the same key"},
    {"UnknownLimit", "ann " + kHash + " speed=3", "line 1: a limit is running=N"},
    {"LimitWithoutNumber", "ann " + kHash + " running", "line 1: a limit is"},
    {"LimitOfNone", "ann " + kHash + " running=", "line 1: a limit is"},
    {"LimitZero", "ann " + kHash + " running=0", "line 1: a limit is"},
    {"LimitNegative", "ann " + kHash + " running=-1", "line 1: a limit is"},
    {"LimitWithRest", "ann " + kHash + " running=1x", "line 1: a limit is"},
    {"OtherLimitsOfOneName",
     "ann " + kHash + " running=1\nann sha256:" + std::string(64, 'b') + " running=2",
     "line 2: 'ann' has a key already"},
};

TEST(ApiKeys, AreReadOnePerLine) {
  for (const Line& line : kLines) {
    SCOPED_TRACE(line.name);
    const auto keys = ApiKeys::parse(line.text);
    const std::string said = keys ? "" : keys.error().message;
    EXPECT_EQ(said.substr(0, line.says.size()), line.says);
    EXPECT_EQ(said.empty(), line.says.empty()) << said;
    EXPECT_EQ(said.find("secret"), std::string::npos) << "it tells the key";
  }
}

struct Case {
  std::string_view name;
  std::string_view header;
  std::string value;
  std::string_view owner;
};

const Case kCases[] = {
    {"Bearer", "Authorization", "Bearer tenon-alpha-0123456789", "ann"},
    {"SchemeInAnyCase", "authorization", "bEARER tenon-beta-0123456789", "bob"},
    {"ApiKeyHeader", "X-Api-Key", "tenon-beta-0123456789", "bob"},
    {"SecondKey", "X-Api-Key", "tenon-gamma-0123456789", "bob"},
    {"NoHeader", "accept", "*/*", ""},
    {"EmptyKey", "x-api-key", "", ""},
    {"EmptyBearer", "authorization", "Bearer ", ""},
    {"OtherKey", "x-api-key", "tenon-alpha-0123456788", ""},
    {"Prefix", "x-api-key", "tenon-alpha-012345678", ""},
    {"Longer", "x-api-key", "tenon-alpha-01234567890", ""},
    {"Endless", "x-api-key", std::string(60'000, 'x'), ""},
    {"TheHash", "x-api-key",
     "sha256:31b1464ac160f7ba0d8a46b39e1c9e7597b71d669a0695e34d4145c0131189ab", ""},
    {"TheName", "x-api-key", "ann", ""},
    {"OtherScheme", "authorization", "Basic tenon-alpha-0123456789", ""},
};

TEST(ApiKeys, HaveOwners) {
  const ApiKeys keys = *ApiKeys::parse(file());
  EXPECT_EQ(keys.size(), 3U);
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    http::Request request;
    request.headers.push_back({std::string(test.header), test.value});
    const auto owner = keys.owner_of(request);
    EXPECT_EQ(owner == nullptr ? "" : owner->name(), test.owner);
    EXPECT_EQ(ApiKeys().owner_of(request), nullptr);
  }
}

std::optional<std::int64_t> wait_of(KeyOwner& owner, Clock::time_point now) {
  const auto refusal = owner.enter(now);
  if (!refusal) return std::nullopt;
  return refusal->retry_after.count();
}

TEST(KeyOwner, HasSoManyRequestsUnderWay) {
  const Clock::time_point now = Clock::now();
  KeyOwner owner("ann", {.running = 2}, now);
  EXPECT_FALSE(owner.enter(now));
  EXPECT_FALSE(owner.enter(now));
  const auto refusal = owner.enter(now);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->message,
            "the key 'ann' may have 2 requests under way at a time: wait 1 s, or ask the operator "
            "of the server for a higher running");
  owner.leave();
  EXPECT_FALSE(owner.enter(now));
}

TEST(KeyOwner, HasSoManyRequestsAMinute) {
  const Clock::time_point now = Clock::now();
  KeyOwner owner("ann", {.requests_per_minute = 6}, now);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(owner.enter(now)) << i;
  EXPECT_EQ(wait_of(owner, now), 10);
  EXPECT_EQ(wait_of(owner, now + 4s), 6);
  EXPECT_EQ(wait_of(owner, now + 10s), std::nullopt);
  EXPECT_EQ(wait_of(owner, now + 10s), 10);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(owner.enter(now + 1h)) << i;
  EXPECT_EQ(wait_of(owner, now + 1h), 10) << "an hour saves up no more than a minute";
}

TEST(KeyOwner, OwesTheTokensThatItTookTooMany) {
  const Clock::time_point now = Clock::now();
  KeyOwner owner("ann", {.tokens_per_minute = 600}, now);
  EXPECT_FALSE(owner.enter(now));
  owner.spend(500, now);
  EXPECT_FALSE(owner.enter(now));
  owner.spend(700, now);
  EXPECT_EQ(wait_of(owner, now), 61);
  EXPECT_EQ(wait_of(owner, now + 60s), 1);
  EXPECT_EQ(wait_of(owner, now + 61s), std::nullopt);
}

TEST(KeyOwner, KeepsWhatItUsedWhenItsLimitsChange) {
  const Clock::time_point now = Clock::now();
  KeyOwner owner("ann", {.running = 1, .requests_per_minute = 3}, now);
  EXPECT_FALSE(owner.enter(now));
  owner.set_limits({.running = 2, .requests_per_minute = 2}, now);
  EXPECT_FALSE(owner.enter(now));
  owner.set_limits({.running = 9, .requests_per_minute = 2, .tokens_per_minute = 10}, now);
  EXPECT_EQ(wait_of(owner, now), 30);
  owner.set_limits({}, now);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(owner.enter(now));
  owner.set_limits({.requests_per_minute = 1}, now);
  EXPECT_FALSE(owner.enter(now)) << "what was free is not owed";
}

TEST(ApiKeys, GoOnFromThoseBefore) {
  http::Request request;
  request.headers.push_back({"x-api-key", std::string(kBeta)});
  const ApiKeys before = *ApiKeys::parse(file());
  const auto owner = before.owner_of(request);
  EXPECT_FALSE(owner->enter(Clock::now()));
  ApiKeys after = *ApiKeys::parse(ApiKeys::line("bob", kBeta, {.running = 1}));
  after.go_on_from(before);
  EXPECT_EQ(after.owner_of(request), owner);
  EXPECT_TRUE(owner->enter(Clock::now())) << "the request under way counts";
}

TEST(KeyUse, GivesItsPlaceBackOnce) {
  const auto owner = std::make_shared<KeyOwner>("ann", KeyLimits{.running = 1});
  EXPECT_FALSE(owner->enter(Clock::now()));
  {
    KeyUse use(owner);
    KeyUse moved = std::move(use);
    EXPECT_EQ(moved.name(), "ann");
    EXPECT_TRUE(owner->enter(Clock::now()));
    moved.leave();
    EXPECT_FALSE(owner->enter(Clock::now()));
  }
  EXPECT_TRUE(owner->enter(Clock::now())) << "the second one is still there";
  EXPECT_EQ(KeyUse().name(), "");
}

}  // namespace
}  // namespace tenon::api
