#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/http/message.h"

/// API keys: who may come in, and how often.
namespace tenon::api {

/// What the owner of a key may do; 0: as much as there is.
struct KeyLimits {
  static constexpr std::uint64_t kMost = 1'000'000'000'000;

  std::uint64_t running = 0;              ///< Requests under way at the same time.
  std::uint64_t requests_per_minute = 0;  ///< So many at once, then as they become free.
  std::uint64_t tokens_per_minute = 0;    ///< Of prompts and answers; told after an answer's end.

  bool operator==(const KeyLimits&) const = default;
};

/// One name in the key file, with all of its keys: what it may do, and has done. Thread-safe.
class KeyOwner {
 public:
  using Clock = std::chrono::steady_clock;

  KeyOwner(std::string name, const KeyLimits& limits, Clock::time_point now = Clock::now());
  ~KeyOwner();
  KeyOwner(const KeyOwner&) = delete;
  KeyOwner& operator=(const KeyOwner&) = delete;

  /// Fit for log lines and ids: letters, digits, '.', '_' and '-'.
  [[nodiscard]] const std::string& name() const { return name_; }

  struct Refusal {
    std::string message;  ///< Which limit, its number, and how to mend it.
    std::chrono::seconds retry_after{1};
  };
  /// Takes a place for one request, to be given back by leave(); or says why there is none.
  [[nodiscard]] std::optional<Refusal> enter(Clock::time_point now);
  void leave();
  /// After an answer. What is over the limit is owed, and holds up the requests that follow.
  void spend(std::uint64_t tokens, Clock::time_point now);
  /// What has been used so far is kept.
  void set_limits(const KeyLimits& limits, Clock::time_point now);

 private:
  struct State;
  const std::string name_;
  const std::unique_ptr<State> state_;
};

/// A request's place with the owner of its key; empty: nobody counts. Gives the place back when it
/// is destroyed, if leave() has not. spend() may come from another thread than all else.
class KeyUse {
 public:
  KeyUse() = default;
  /// `owner` has been entered.
  explicit KeyUse(std::shared_ptr<KeyOwner> owner)
      : owner_(std::move(owner)), is_inside_(owner_ != nullptr) {}
  ~KeyUse() { leave(); }
  KeyUse(KeyUse&& other) noexcept
      // NOLINTNEXTLINE(performance-move-constructor-init): spend() elsewhere may still read it.
      : owner_(other.owner_), is_inside_(std::exchange(other.is_inside_, false)) {}
  KeyUse& operator=(KeyUse&& other) noexcept {
    leave();
    owner_ = other.owner_;
    is_inside_ = std::exchange(other.is_inside_, false);
    return *this;
  }

  /// "": nobody.
  [[nodiscard]] std::string_view name() const {
    return owner_ == nullptr ? std::string_view() : owner_->name();
  }
  void leave() {
    if (std::exchange(is_inside_, false)) owner_->leave();
  }
  void spend(std::uint64_t tokens) const {
    if (owner_ != nullptr) owner_->spend(tokens, KeyOwner::Clock::now());
  }

 private:
  std::shared_ptr<KeyOwner> owner_;
  bool is_inside_ = false;
};

/// The keys that open the server, known by their hashes. Empty: it is open to all. Immutable,
/// thread-safe.
///
/// A key is 256 random bits, so SHA-256 is all the protection that it needs: nobody finds it from
/// its hash by trying, no table of hashes can be made beforehand, and no two are equal, so there is
/// nothing that a salt or a slow hash would add. Without a salt one hash, some 0.3 us, is compared
/// with all lines.
class ApiKeys {
 public:
  /// Longer keys are nobody's, and not worth the hashing.
  static constexpr std::size_t kMaxKeyBytes = 512;

  ApiKeys() = default;
  /// From the text of a key file. Each line is
  ///
  ///     NAME sha256:64-HEXADECIMAL-DIGITS [running=N] [requests_per_minute=N]
  ///     [tokens_per_minute=N]
  ///
  /// blank lines and lines that begin with '#' are left out. A name may have several keys (a new
  /// one, and an old one for as long as it is in use): its limits stand on the first line and count
  /// for all. Fails with `invalid` naming the line, and never what may be a key.
  [[nodiscard]] static Expected<ApiKeys> parse(std::string_view text);
  /// A line for such a file.
  [[nodiscard]] static std::string line(std::string_view name, std::string_view key,
                                        const KeyLimits& limits = {});
  [[nodiscard]] static bool is_name(std::string_view name);

  [[nodiscard]] bool empty() const { return keys_.empty(); }
  [[nodiscard]] std::size_t size() const { return keys_.size(); }
  /// Whose key the request carries, as `Authorization: Bearer KEY` or `x-api-key: KEY`; null:
  /// nobody's. Takes the same time whatever the key and wherever its hash differs.
  [[nodiscard]] std::shared_ptr<KeyOwner> owner_of(const http::Request& request) const;

  /// Owners that are in `before` too keep what they have used; theirs are the limits of this one.
  void go_on_from(const ApiKeys& before);

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Key {
    Digest digest{};
    std::size_t owner = 0;  // in owners_
  };
  struct Owner {
    std::string name;
    KeyLimits limits;
    std::shared_ptr<KeyOwner> owner;
  };
  static Digest digest_of(std::string_view key);
  Status add_line(std::string_view line);

  std::vector<Key> keys_;
  std::vector<Owner> owners_;
};

}  // namespace tenon::api
