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

/// API keys: who may use the server, and how much.
namespace tenon::api {

/// What the owner of a key may do; 0: no limit.
struct KeyLimits {
  static constexpr std::uint64_t kMost = 1'000'000'000'000;

  std::uint64_t running = 0;              ///< Requests under way at the same time.
  std::uint64_t requests_per_minute = 0;  ///< So many at once, then at this rate.
  std::uint64_t tokens_per_minute = 0;    ///< For prompts and answers; counted at an answer's end.

  bool operator==(const KeyLimits&) const = default;
};

/// One name in the key file, with all of its keys: its limits and what it has used. Thread-safe.
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
    std::string message;  ///< Which limit, its number, and what helps.
    std::chrono::seconds retry_after{1};
  };
  /// Takes a place for one request, which leave() gives back; or says why there is no place.
  [[nodiscard]] std::optional<Refusal> enter(Clock::time_point now);
  void leave();
  /// Call it after an answer. Tokens over the limit are owed, and delay later requests.
  void spend(std::uint64_t tokens, Clock::time_point now);
  /// What has been used so far still counts.
  void set_limits(const KeyLimits& limits, Clock::time_point now);

 private:
  struct State;
  const std::string name_;
  const std::unique_ptr<State> state_;
};

/// A request's place with the owner of its key; empty without keys. Gives the place back when it is
/// destroyed, if leave() has not. spend() may come from another thread than the other calls.
class KeyUse {
 public:
  KeyUse() = default;
  /// enter() of `owner` must have succeeded.
  explicit KeyUse(std::shared_ptr<KeyOwner> owner)
      : owner_(std::move(owner)), is_inside_(owner_ != nullptr) {}
  ~KeyUse() { leave(); }
  KeyUse(KeyUse&& other) noexcept
      // NOLINTNEXTLINE(performance-move-constructor-init): spend() may read it on another thread.
      : owner_(other.owner_), is_inside_(std::exchange(other.is_inside_, false)) {}
  KeyUse& operator=(KeyUse&& other) noexcept {
    leave();
    owner_ = other.owner_;
    is_inside_ = std::exchange(other.is_inside_, false);
    return *this;
  }

  /// "": there is no owner.
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

/// The keys that open the server, known by their hashes. Empty: the server is open to all.
/// Immutable, thread-safe.
///
/// A key is 256 random bits, so SHA-256 is all the protection that it needs: it cannot be found
/// from its hash by trying, no table of hashes can be made beforehand, and no two keys are equal,
/// so a salt or a slow hash would add nothing. Without a salt one hash, some 0.3 us, is compared
/// with all lines.
class ApiKeys {
 public:
  /// Longer keys are in no file, so they are not hashed.
  static constexpr std::size_t kMaxKeyBytes = 512;

  ApiKeys() = default;
  /// Reads a key file. Each line is
  ///
  ///     NAME sha256:64-HEXADECIMAL-DIGITS [running=N] [requests_per_minute=N]
  ///     [tokens_per_minute=N]
  ///
  /// Blank lines and lines that begin with '#' are ignored. A name may have several keys (a new
  /// one, and an old one as long as it is in use): its limits stand on the first line and hold for
  /// all together. Fails with `invalid` and the line's number; the message never has what may be a
  /// key.
  [[nodiscard]] static Expected<ApiKeys> parse(std::string_view text);
  /// A line for such a file.
  [[nodiscard]] static std::string line(std::string_view name, std::string_view key,
                                        const KeyLimits& limits = {});
  [[nodiscard]] static bool is_name(std::string_view name);

  [[nodiscard]] bool empty() const { return keys_.empty(); }
  [[nodiscard]] std::size_t size() const { return keys_.size(); }
  /// The owner of the key that the request has as `Authorization: Bearer KEY` or `x-api-key: KEY`;
  /// null if the key is unknown. Takes the same time for any key and any hash.
  [[nodiscard]] std::shared_ptr<KeyOwner> owner_of(const http::Request& request) const;

  /// Owners that are in `before`, too, keep what they have used; their limits are those of this
  /// file.
  void go_on_from(const ApiKeys& before);

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Key {
    Digest digest{};
    std::size_t owner = 0;  // index into owners_
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
