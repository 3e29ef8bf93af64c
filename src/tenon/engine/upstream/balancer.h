#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tenon/engine/engine.h"

namespace tenon::engine {

/// Decides to which of several servers of one model a run goes, and which servers are left alone
/// for a while. It knows servers by their numbers and makes no requests itself.
///
///     Balancer balancer({"http://a:1", "http://b:1"});
///     balancer.joined(0, 4);                                      // 4 runs at a time
///     const auto ticket = balancer.choose(prefixes(prompt), tried, now, prompt.size());
///     ... balancer.began(*ticket, took, now);
///     ... balancer.ended(*ticket, Balancer::End::answered, "", now);
///
/// The rules:
/// - A run goes to the server with the least load (runs by places); in a tie, to the one that was
///   chosen longest ago.
/// - But a server that has lately had a prompt with the same beginning is preferred, the longer the
///   beginning the better, unless it is much busier: unless its load is more than twice that of the
///   least busy server plus one half.
/// - After `failures` in a row (of runs, or of checks) a server is left alone for a pause, which
///   doubles each time up to `longest_pause`. After a check that succeeds, one run at a time is
///   sent to it on trial, and the first one that begins brings the server back.
/// - If all servers are left alone, a run is sent to the one whose pause ends first.
/// - A server whose first tokens take much longer than those of another one (five times as long and
///   a second) is slow: it gets one run in each `check_period`, until the first token of such a run
///   comes soon enough. The least of the latest first tokens of both counts, at least three, for
///   each 1,024 tokens of the prompt that the server did not know; prompts that it knew for the
///   most part are compared apart. Runs that wait count with the time that they have waited. Runs
///   for which all places were taken do not. If all places of the others are taken, slow servers
///   are as good as the rest.
/// - A run that was sent before its server was left alone, or before it was tried again, says
///   nothing about the server's present state; it is only counted.
/// Thread-safe; nothing here waits.
class Balancer {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kMaxServers = 64;
  using Servers = std::bitset<kMaxServers>;

  struct Options {
    unsigned failures = 3;
    std::chrono::milliseconds first_pause{1000};
    std::chrono::milliseconds longest_pause{30'000};
    /// Between two checks of a server that has no run and that nothing is heard of. Servers with a
    /// run are not checked, since some end an answer when they are asked anything else. After a
    /// failure a check is due at once, because another server may have been started in its place.
    std::chrono::milliseconds check_period{5000};
    std::size_t max_prefixes = 65'536;  ///< Remembered beginnings of prompts, 50 B each.
  };

  /// How a run ended, as far as that tells something about the server.
  enum class End : std::uint8_t {
    answered,
    refused,    ///< The request was wrong.
    failed,     ///< The server failed.
    busy,       ///< The server has too much to do; it is there, and well.
    cancelled,  ///< The client cancelled it.
    unsent,     ///< It was refused on this side, so the server has not seen it.
  };

  /// A run, from choose() to ended().
  struct Ticket {
    std::size_t server = 0;
    std::uint64_t number = 0;  ///< Counts the runs in the order of their choices, from 1.
  };

  /// At most kMaxServers; each of them is down until it has joined().
  Balancer(const std::vector<std::string>& urls, Options options);

  /// The server is there, and has this many places (at least 1).
  void joined(std::size_t server, std::uint32_t places);

  /// Chooses a server for one run, which counts as running from here on. `tokens`: of the whole
  /// prompt, as far as they are known. No value: no server other than those `tried` is left.
  [[nodiscard]] std::optional<Ticket> choose(std::span<const std::uint64_t> prefixes,
                                             const Servers& tried, Clock::time_point now,
                                             std::uint64_t tokens = 0);
  /// The run's first token has come.
  void began(const Ticket& run, Clock::duration after, Clock::time_point now);
  /// The run is over.
  void ended(const Ticket& run, End end, const std::string& why, Clock::time_point now);

  /// When the next check of the server is due; for one that is not there yet, the next attempt to
  /// connect to it. The end of time: once its runs have ended.
  [[nodiscard]] Clock::time_point next_check(std::size_t server) const;
  /// Reports the result of a check.
  void checked(std::size_t server, const Status& status, Clock::time_point now);

  [[nodiscard]] bool is_up(std::size_t server) const;
  [[nodiscard]] std::size_t count_up() const;
  [[nodiscard]] std::vector<UpstreamStats> stats() const;
  /// What is wrong with all servers, in one sentence.
  [[nodiscard]] std::string troubles() const;

 private:
  enum class State : std::uint8_t { absent, up, down, trial };

  // Whether the server knew most of the prompt.
  enum class Kind : std::uint8_t { cold, warm };

  // A run that waits for its first token.
  struct Waiting {
    Clock::time_point begun;
    Kind kind = Kind::cold;
    double shares = 1;       // of 1,024 tokens that the server did not know
    bool had_place = false;  // at once
  };
  // What the first tokens of the latest runs took, for each share.
  struct Paces {
    static constexpr std::size_t kKept = 8;
    static constexpr std::size_t kEnough = 3;
    std::array<Clock::duration, kKept> latest{};
    std::size_t count = 0;  // of all that were told

    void tell(Clock::duration pace) { latest[count++ % kKept] = pace; }
    // One run may have been slow for a reason of its own. No value: there are not enough.
    [[nodiscard]] std::optional<Clock::duration> least() const;
  };

  struct Server {
    State state = State::absent;
    std::uint64_t trial = 0;  // in State::trial: the number of the run under way
    std::uint64_t since = 0;  // runs up to this number were sent to it in an earlier state
    double places = 1;
    unsigned failed_runs = 0;  // in a row
    unsigned failed_checks = 0;
    Clock::duration pause{};  // the latest one
    Clock::time_point next_check{};
    bool is_suspect = false;  // a run has failed since the last check
    std::uint64_t last_choice = 0;
    std::map<std::uint64_t, Waiting> waiting;  // by the run's number
    std::array<Paces, 2> paces;                // by Kind
    bool is_slow = false;
    Clock::time_point next_try{};  // of a slow one
    UpstreamStats stats;

    [[nodiscard]] bool is_up() const { return state == State::up || state == State::trial; }
  };

  [[nodiscard]] bool is_free(const Server& server) const;
  [[nodiscard]] std::optional<Clock::duration> pace_of_others(const Server& server,
                                                              Kind kind) const;
  void find_slow_ones(Clock::time_point now);
  void tell_pace(Server& server, const Waiting& run, Clock::duration took);
  void set_slow(Server& server, bool is_slow, const std::string& why);
  [[nodiscard]] Servers quick_ones(const Servers& free, Clock::time_point now) const;
  [[nodiscard]] Waiting waiting_of(std::span<const std::uint64_t> prefixes, std::size_t server,
                                   std::uint64_t tokens, Clock::time_point now) const;
  [[nodiscard]] Servers with_prefix(std::span<const std::uint64_t> prefixes,
                                    const Servers& among) const;
  [[nodiscard]] Servers next_one() const;
  [[nodiscard]] std::size_t least_busy(const Servers& among) const;
  [[nodiscard]] double load(std::size_t server) const;
  void remember(std::span<const std::uint64_t> prefixes, std::size_t server);
  void leave_alone(Server& server, const std::string& why, Clock::time_point now);

  using Known = std::unordered_map<std::uint64_t, std::uint64_t>;  // prefix to bits of servers

  const Options options_;
  mutable std::mutex mutex_;  // guards the members below
  std::vector<Server> servers_;
  std::uint64_t choices_ = 0;
  // Two halves: when young_ is full, it becomes old_, and the old one is dropped.
  Known young_;
  Known old_;
};

/// Hashes of the beginnings of a prompt, the shortest first: one for each block of 64 tokens, up to
/// 32,768 tokens. Each stands for the prompt up to the block's end.
[[nodiscard]] std::vector<std::uint64_t> prefixes(std::span<const TokenId> prompt);
/// The same for any request. For engines that take messages there is one hash for each of the first
/// 512 messages, which stands for the tools and all messages up to it.
[[nodiscard]] std::vector<std::uint64_t> prefixes(const GenerateRequest& request);
/// The tokens of its prompt; for one of texts or messages a guess, of four bytes each.
[[nodiscard]] std::uint64_t prompt_tokens(const GenerateRequest& request);

}  // namespace tenon::engine
