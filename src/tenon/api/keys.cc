#include "tenon/api/keys.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <mutex>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "tenon/base/failure.h"
#include "tenon/base/hex.h"
#include "tenon/http/wire.h"
#include "tenon/json/space.h"

// The file of keys, and what their owners may use
//
// A line is `NAME sha256:HASH limit=N...`; keys themselves are never written down. Several lines
// may have the same name: an owner with several keys, whose limits all keys share. KeyOwner is what
// requests hold on to. It outlives a reload of the file (go_on_from), so that what an owner has
// used still counts.

namespace tenon::api {
namespace {

using json::is_space;
using json::trimmed;

constexpr std::size_t kMaxNameBytes = 64;
constexpr std::string_view kScheme = "sha256:";

struct LimitField {
  std::string_view name;
  std::uint64_t KeyLimits::* member;
};
constexpr LimitField kLimits[] = {{"running", &KeyLimits::running},
                                  {"requests_per_minute", &KeyLimits::requests_per_minute},
                                  {"tokens_per_minute", &KeyLimits::tokens_per_minute}};

// Takes the next word off `line`.
std::string_view take_word(std::string_view& line) {
  line = trimmed(line);
  const auto end = std::ranges::find_if(line, is_space) - line.begin();
  const std::string_view word = line.substr(0, static_cast<std::size_t>(end));
  line.remove_prefix(word.size());
  return word;
}

// OpenAI's header comes first; Anthropic's SDK sends the other one.
std::string_view key_of(const http::Request& request) {
  constexpr std::string_view kBearer = "bearer ";
  const std::string_view authorization = request.header("authorization");
  if (http::equal_ignoring_case(authorization.substr(0, kBearer.size()), kBearer)) {
    return trimmed(authorization.substr(kBearer.size()));
  }
  return trimmed(request.header("x-api-key"));
}

// A token bucket: it fills evenly and is emptied in lumps. When full it has a minute's worth.
// `level` may fall below 0, because the tokens of an answer are drawn at its end; the owner then
// waits longer.
struct Bucket {
  std::uint64_t per_minute = 0;  // 0: no limit
  double level = 0;
  KeyOwner::Clock::time_point at;

  void fill(KeyOwner::Clock::time_point now) {
    const std::chrono::duration<double> passed = now - at;
    // Times come from several threads, so one may be earlier than the last.
    at = std::max(at, now);
    const auto most = static_cast<double>(per_minute);
    if (passed.count() > 0) level = std::min(most, level + passed.count() * most / 60);
  }
  void set(std::uint64_t chosen, KeyOwner::Clock::time_point now) {
    if (chosen == per_minute) return;
    fill(now);
    // A new limit does not give back what has been used.
    const double drawn = static_cast<double>(per_minute) - level;
    level = chosen == 0 ? 0 : static_cast<double>(chosen) - drawn;
    per_minute = chosen;
  }
  void draw(double amount) {
    if (per_minute > 0) level -= amount;
  }
  [[nodiscard]] bool has(double wanted) const { return per_minute == 0 || level >= wanted; }
  [[nodiscard]] std::chrono::seconds until(double wanted) const {
    const double seconds = std::ceil((wanted - level) * 60 / static_cast<double>(per_minute));
    constexpr double kMost = 24.0 * 3600;
    return std::chrono::seconds(static_cast<std::int64_t>(std::clamp(seconds, 1.0, kMost)));
  }
};

// One whole unit, minus what floating-point arithmetic may lose.
constexpr double kOne = 1 - 1e-6;

}  // namespace

// ---- owners

struct KeyOwner::State {
  std::mutex mutex;  // guards the members below
  std::uint64_t most_running = 0;
  std::uint64_t running = 0;
  Bucket requests;
  Bucket tokens;
};

KeyOwner::KeyOwner(std::string name, const KeyLimits& limits, Clock::time_point now)
    : name_(std::move(name)), state_(std::make_unique<State>()) {
  state_->requests.at = state_->tokens.at = now;
  set_limits(limits, now);
}

KeyOwner::~KeyOwner() = default;

std::optional<KeyOwner::Refusal> KeyOwner::enter(Clock::time_point now) {
  const std::lock_guard lock(state_->mutex);
  State& state = *state_;
  state.requests.fill(now);
  state.tokens.fill(now);
  const auto refusal = [this](std::uint64_t limit, std::string_view of, std::string_view field,
                              std::chrono::seconds wait) {
    return Refusal{.message = "the key '" + name_ + "' may have " + std::to_string(limit) + " " +
                              std::string(of) + ": wait " + std::to_string(wait.count()) +
                              " s, or ask the operator of the server for a higher " +
                              std::string(field),
                   .retry_after = wait};
  };
  if (state.most_running > 0 && state.running >= state.most_running) {
    return refusal(state.most_running, "requests under way at a time", "running",
                   std::chrono::seconds(1));
  }
  if (!state.requests.has(kOne)) {
    return refusal(state.requests.per_minute, "requests a minute", "requests_per_minute",
                   state.requests.until(1));
  }
  // The tokens of an answer are known at its end, so an owner with any tokens left may begin one.
  if (!state.tokens.has(kOne)) {
    return refusal(state.tokens.per_minute, "tokens a minute", "tokens_per_minute",
                   state.tokens.until(1));
  }
  ++state.running;
  state.requests.draw(1);
  return std::nullopt;
}

void KeyOwner::leave() {
  const std::lock_guard lock(state_->mutex);
  --state_->running;
}

void KeyOwner::spend(std::uint64_t tokens, Clock::time_point now) {
  const std::lock_guard lock(state_->mutex);
  state_->tokens.fill(now);
  state_->tokens.draw(static_cast<double>(tokens));
}

void KeyOwner::set_limits(const KeyLimits& limits, Clock::time_point now) {
  const std::lock_guard lock(state_->mutex);
  state_->most_running = limits.running;
  state_->requests.set(limits.requests_per_minute, now);
  state_->tokens.set(limits.tokens_per_minute, now);
}

// ---- the file

bool ApiKeys::is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

ApiKeys::Digest ApiKeys::digest_of(std::string_view key) {
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

std::string ApiKeys::line(std::string_view name, std::string_view key, const KeyLimits& limits) {
  std::string line(name);
  line.append(" ").append(kScheme);
  for (const unsigned char byte : digest_of(key)) append_hex(line, byte);
  for (const LimitField& field : kLimits) {
    if (const std::uint64_t limit = limits.*field.member; limit > 0) {
      line.append(" ").append(field.name).append("=").append(std::to_string(limit));
    }
  }
  return line;
}

Expected<ApiKeys> ApiKeys::parse(std::string_view text) {
  ApiKeys keys;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    if (const Status added = keys.add_line(line); !added) {
      return invalid("line " + std::to_string(number) + ": " + added.error().message);
    }
  }
  for (Owner& owner : keys.owners_) {
    owner.owner = std::make_shared<KeyOwner>(owner.name, owner.limits);
  }
  return keys;
}

// `alice sha256:9f86... requests_per_minute=60`. An owner's limits stand on its first line; further
// lines have none, or the same.
Status ApiKeys::add_line(std::string_view line) {
  const std::string_view name = take_word(line);
  std::string_view hash = take_word(line);
  // Neither word is repeated in the message, because it may be a key.
  if (!is_name(name) || !hash.starts_with(kScheme)) {
    return invalid("a line is NAME sha256:HASH and limits; `tenon key NAME` makes one");
  }
  hash.remove_prefix(kScheme.size());
  Key key;
  bool is_hash = hash.size() == 2 * key.digest.size();
  for (std::size_t i = 0; is_hash && i < key.digest.size(); ++i) {
    const char* const begin = hash.data() + 2 * i;
    // from_chars reads upper and lower case; a sign or a space makes it end early, which read.ptr
    // shows.
    const auto read = std::from_chars(begin, begin + 2, key.digest[i], 16);
    is_hash = read.ec == std::errc() && read.ptr == begin + 2;
  }
  if (!is_hash) return invalid("a hash has 64 hexadecimal digits");
  for (const Key& other : keys_) {
    if (other.digest == key.digest) return invalid("the same key stands on a line before");
  }

  KeyLimits limits;
  for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const auto* const field = std::ranges::find(kLimits, word.substr(0, equals), &LimitField::name);
    std::uint64_t limit = 0;
    const auto read = std::from_chars(word.data() + std::min(equals + 1, word.size()),
                                      word.data() + word.size(), limit);
    if (field == std::end(kLimits) || read.ec != std::errc() ||
        read.ptr != word.data() + word.size() || limit == 0 || limit > KeyLimits::kMost) {
      return invalid(
          "a limit is running=N, requests_per_minute=N or tokens_per_minute=N, with N from 1 to " +
          std::to_string(KeyLimits::kMost));
    }
    limits.*field->member = limit;
  }

  const auto known = std::ranges::find(owners_, name, &Owner::name);
  key.owner = static_cast<std::size_t>(known - owners_.begin());
  if (known == owners_.end()) {
    owners_.push_back({.name = std::string(name), .limits = limits, .owner = nullptr});
  } else if (limits != KeyLimits{} && limits != known->limits) {
    return invalid("'" + std::string(name) +
                   "' has a key already, and other limits: they stand on its first line");
  }
  keys_.push_back(key);
  return {};
}

// The digest of the given key is compared with all keys, without leaving at the first match: the
// time says nothing about how much of a key was right, or which line it is on.
std::shared_ptr<KeyOwner> ApiKeys::owner_of(const http::Request& request) const {
  const std::string_view given = key_of(request);
  if (given.empty() || given.size() > kMaxKeyBytes) return nullptr;
  const Digest digest = digest_of(given);
  std::size_t found = owners_.size();
  for (const Key& key : keys_) {
    const bool is_it = CRYPTO_memcmp(key.digest.data(), digest.data(), digest.size()) == 0;
    found = is_it ? key.owner : found;
  }
  return found < owners_.size() ? owners_[found].owner : nullptr;
}

void ApiKeys::go_on_from(const ApiKeys& before) {
  for (Owner& owner : owners_) {
    const auto known = std::ranges::find(before.owners_, owner.name, &Owner::name);
    if (known == before.owners_.end()) continue;
    owner.owner = known->owner;
    owner.owner->set_limits(owner.limits, KeyOwner::Clock::now());
  }
}

}  // namespace tenon::api
