#pragma once

#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tenon/engine/engine.h"

namespace tenon::engine {

/// Which of several servers of one model a run goes to, and which of them are left alone for a
/// while. It knows servers by their numbers, and asks nobody.
///
///     Balancer balancer({"http://a:1", "http://b:1"});
///     balancer.joined(0, 4);                                      // 4 runs at a time
///     const auto ticket = balancer.choose(prefixes(prompt), tried);
///     ... balancer.began(*ticket, took); ... balancer.ended(*ticket, Balancer::End::answered, "");
///
/// The rules. A run goes to the server with the least load (runs by places), of several such to
/// the one that was chosen longest ago; but to one that has lately had a prompt with the same
/// beginning, the longer the better, unless that one is much busier: more than twice as busy as the
/// least busy one and half of its places. After `failures` in a row (of runs, or of checks) a
/// server is left alone for a pause, which doubles each time up to `longest_pause`. A check that
/// succeeds then lets one run through at a time, on trial, and the first that begins brings the
/// server back. Where all are left alone, a run is sent all the same, to the one whose pause ends
/// first. What becomes of a run that was sent before its server was left alone, or was let through
/// again, tells nothing of how it is now: it is counted, and that is all. Thread-safe; nothing here
/// waits.
class Balancer {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kMaxServers = 64;
  using Servers = std::bitset<kMaxServers>;

  struct Options {
    unsigned failures = 3;
    std::chrono::milliseconds first_pause{1000};
    std::chrono::milliseconds longest_pause{30'000};
    /// Between two checks of a server that nothing is heard of, and that has no run: there are
    /// servers that end an answer where they are asked anything else. After a failure a check is
    /// due at once, as the server may have been started anew, as another one.
    std::chrono::milliseconds check_period{5000};
    std::size_t max_prefixes = 65'536;  ///< Beginnings of prompts that are remembered, 50 B each.
  };

  /// How a run ended, as far as it tells of the server.
  enum class End : std::uint8_t {
    answered,
    refused,    ///< The request was at fault.
    failed,     ///< The server was.
    busy,       ///< It was asked for more than it wants to do: it is there, and well.
    cancelled,  ///< Nobody was.
    unsent,     ///< It was refused here: the server has not heard of it.
  };

  /// A run, from choose() to ended().
  struct Ticket {
    std::size_t server = 0;
    std::uint64_t number = 0;  ///< Of all runs, in the order of their choices; from 1.
  };

  /// At most kMaxServers; none of them is there before it has joined().
  Balancer(const std::vector<std::string>& urls, Options options);

  /// The server is there, and has this many places (at least 1).
  void joined(std::size_t server, std::uint32_t places);

  /// A server for one run, which counts as running from here on; none: no other than those `tried`
  /// may be asked.
  [[nodiscard]] std::optional<Ticket> choose(std::span<const std::uint64_t> prefixes,
                                             const Servers& tried);
  /// The run's first token came.
  void began(const Ticket& run, Clock::duration after, Clock::time_point now);
  /// The run is over.
  void ended(const Ticket& run, End end, const std::string& why, Clock::time_point now);

  /// When a check of the server is due next: of one that is not there yet, the next attempt to meet
  /// it. The end of time: as soon as its runs have ended.
  [[nodiscard]] Clock::time_point next_check(std::size_t server) const;
  /// What came of it.
  void checked(std::size_t server, const Status& status, Clock::time_point now);

  [[nodiscard]] bool is_up(std::size_t server) const;
  [[nodiscard]] std::vector<UpstreamStats> stats() const;
  /// What is wrong with all of them, in one sentence.
  [[nodiscard]] std::string troubles() const;

 private:
  enum class State : std::uint8_t { absent, up, down, trial };

  struct Server {
    State state = State::absent;
    std::uint64_t trial = 0;  // of State::trial: the run that is under way
    std::uint64_t since = 0;  // runs up to this one were sent to it in another state
    double places = 1;
    unsigned failed_runs = 0;  // in a row
    unsigned failed_checks = 0;
    Clock::duration pause{};  // the last one
    Clock::time_point next_check{};
    bool is_suspect = false;  // a run has failed since the last check
    std::uint64_t last_choice = 0;
    UpstreamStats stats;
  };

  [[nodiscard]] bool is_free(const Server& server) const;
  [[nodiscard]] Servers with_prefix(std::span<const std::uint64_t> prefixes,
                                    const Servers& among) const;
  [[nodiscard]] Servers next_one() const;
  [[nodiscard]] std::size_t least_busy(const Servers& among) const;
  [[nodiscard]] double load(std::size_t server) const;
  void remember(std::span<const std::uint64_t> prefixes, std::size_t server);
  void leave_alone(Server& server, const std::string& why, Clock::time_point now);

  using Known = std::unordered_map<std::uint64_t, std::uint64_t>;  // of a prefix: servers' bits

  const Options options_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Server> servers_;
  std::uint64_t choices_ = 0;
  // Two halves: where the young one is full, it becomes the old one, and the old one is forgotten.
  Known young_;
  Known old_;
};

/// Numbers of the beginnings of a prompt, the shortest first: one for each block of 64 tokens, for
/// 32,768 tokens at most, that stands for the prompt up to the block's end.
[[nodiscard]] std::vector<std::uint64_t> prefixes(std::span<const TokenId> prompt);
/// The same of what engines that take messages are started from: one for each message, of the first
/// 512, that stands for the tools and all messages up to it.
[[nodiscard]] std::vector<std::uint64_t> prefixes(const GenerateRequest& request);

}  // namespace tenon::engine
