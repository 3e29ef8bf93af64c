#include "tenon/engine/upstream/balancer.h"

#include <algorithm>
#include <cassert>
#include <string_view>
#include <utility>

#include "tenon/base/log.h"

// balancer.h has the rules. A server is absent (never met), up, down (left alone for a pause) or on
// trial (a check has succeeded, and one run decides). Runs are numbered in the order of their
// choices; Server::since is the last number before the server was left alone or put on trial, so
// ended() and began() can tell which runs say something about its present state. The beginnings of
// prompts are remembered as hashes with one bit for each server.

namespace tenon::engine {
namespace {

constexpr std::size_t kBlockTokens = 64;
constexpr double kShareTokens = 1024;
constexpr std::size_t kMaxBlocks = 512;

bool is_much_slower(Balancer::Clock::duration pace, Balancer::Clock::duration others) {
  return pace > 5 * others + std::chrono::seconds(1);
}

// The part that one share has in a time.
Balancer::Clock::duration pace_of(Balancer::Clock::duration took, double shares) {
  return std::chrono::duration_cast<Balancer::Clock::duration>(took / shares);
}

std::string in_seconds(Balancer::Clock::duration pause) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(pause).count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

}  // namespace

namespace {

// FNV-1a, mixed by SplitMix64 after each block because ids are small numbers.
class Hash {
 public:
  void add(std::uint32_t number) { hash_ = (hash_ ^ number) * 0x100000001b3ULL; }
  void add(std::string_view text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
    add(0x100);  // not a byte value: separates one text from the next
  }
  std::uint64_t end_block() {
    hash_ = (hash_ ^ (hash_ >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    hash_ ^= hash_ >> 27U;
    return hash_;
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace

std::vector<std::uint64_t> prefixes(std::span<const TokenId> prompt) {
  std::vector<std::uint64_t> all;
  all.reserve(std::min(kMaxBlocks, prompt.size() / kBlockTokens));
  Hash hash;
  while (prompt.size() >= kBlockTokens && all.size() < kMaxBlocks) {
    for (const TokenId id : prompt.first(kBlockTokens)) hash.add(static_cast<std::uint32_t>(id));
    all.push_back(hash.end_block());
    prompt = prompt.subspan(kBlockTokens);
  }
  return all;
}

// A hash for each beginning of the conversation, so that the next turn finds the server whose cache
// has the earlier ones. For messages a block is a message; the tools come first, as they do in the
// prompt.
std::vector<std::uint64_t> prefixes(const GenerateRequest& request) {
  if (request.chat == nullptr) return prefixes(request.prompt);
  std::vector<std::uint64_t> all;
  Hash hash;
  for (const message::Tool& tool : request.chat->tools) hash.add(tool.name);
  for (const message::Message& message : request.chat->messages) {
    if (all.size() == kMaxBlocks) break;
    hash.add(static_cast<std::uint32_t>(message.role));
    hash.add(message.text());
    for (const message::ToolCall& call : message.tool_calls) {
      hash.add(call.name);
      hash.add(call.arguments);
    }
    all.push_back(hash.end_block());
  }
  return all;
}

std::uint64_t prompt_tokens(const GenerateRequest& request) {
  constexpr std::uint64_t kTokenBytes = 4;
  if (request.chat == nullptr) return request.prompt.size() + request.text.size() / kTokenBytes;
  std::uint64_t bytes = 0;
  for (const message::Message& message : request.chat->messages) {
    bytes += message.text().size();
    for (const message::ToolCall& call : message.tool_calls) bytes += call.arguments.size();
  }
  return bytes / kTokenBytes;
}

Balancer::Balancer(const std::vector<std::string>& urls, Options options)
    : options_(options), servers_(urls.size()) {
  assert(urls.size() <= kMaxServers);
  for (std::size_t i = 0; i < urls.size(); ++i) servers_[i].stats.url = urls[i];
}

void Balancer::joined(std::size_t server, std::uint32_t places) {
  const std::lock_guard lock(mutex_);
  Server& one = servers_[server];
  one.state = State::up;
  one.places = std::max(1U, places);
  one.failed_checks = 0;
  one.pause = {};
  one.stats.trouble.clear();
  one.next_check = Clock::now() + options_.check_period;
}

// Up, or on trial with no run under way.
bool Balancer::is_free(const Server& server) const {
  return server.state == State::up || (server.state == State::trial && server.trial == 0);
}

double Balancer::load(std::size_t server) const {
  return servers_[server].stats.running / servers_[server].places;
}

std::size_t Balancer::least_busy(const Servers& among) const {
  std::size_t best = kMaxServers;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (!among[i]) continue;
    // The server that was chosen longest ago wins a tie, so equal servers take turns.
    const auto rank = [this](std::size_t one) {
      return std::pair(load(one), servers_[one].last_choice);
    };
    if (best == kMaxServers || rank(i) < rank(best)) best = i;
  }
  return best;
}

// The server to be tried first among those that are left alone.
Balancer::Servers Balancer::next_one() const {
  const Server* next = nullptr;
  for (const Server& server : servers_) {
    if (server.state == State::absent) continue;
    if (next == nullptr || server.next_check < next->next_check) next = &server;
  }
  Servers one;
  if (next != nullptr) one.set(static_cast<std::size_t>(next - servers_.data()));
  return one;
}

std::optional<Balancer::Clock::duration> Balancer::Paces::least() const {
  if (count < kEnough) return std::nullopt;
  return *std::min_element(latest.begin(),
                           latest.begin() + static_cast<std::ptrdiff_t>(std::min(count, kKept)));
}

// The pace of the fastest of the other servers that may be chosen.
std::optional<Balancer::Clock::duration> Balancer::pace_of_others(const Server& server,
                                                                  Kind kind) const {
  std::optional<Clock::duration> best;
  for (const Server& other : servers_) {
    if (&other == &server || !is_free(other) || other.is_slow) continue;
    const auto pace = other.paces[static_cast<std::size_t>(kind)].least();
    if (pace && (!best || *pace < *best)) best = pace;
  }
  return best;
}

// A run that waits tells as much as one that has waited as long, so a server that hangs is found
// before a first token comes.
void Balancer::find_slow_ones(Clock::time_point now) {
  for (Server& server : servers_) {
    if (server.is_slow || server.state != State::up) continue;
    for (const Kind kind : {Kind::cold, Kind::warm}) {
      const auto others = pace_of_others(server, kind);
      if (!others) continue;
      Paces waiting;
      for (const auto& [number, run] : server.waiting) {
        if (run.had_place && run.kind == kind) waiting.tell(pace_of(now - run.begun, run.shares));
      }
      const Clock::duration pace = std::max(
          waiting.least().value_or(Clock::duration::zero()),
          server.paces[static_cast<std::size_t>(kind)].least().value_or(Clock::duration::zero()));
      if (!is_much_slower(pace, *others)) continue;
      server.next_try = now + options_.check_period;
      set_slow(server, true,
               "its first tokens take " + in_seconds(pace) +
                   " for each 1,024 tokens of a prompt, those of another server " +
                   in_seconds(*others));
      break;
    }
  }
}

void Balancer::set_slow(Server& server, bool is_slow, const std::string& why) {
  server.is_slow = is_slow;
  server.paces = {};
  if (!is_slow) return log::info("upstream " + server.stats.url + ": is no longer slow");
  server.stats.trouble = why;
  log::warn("upstream " + server.stats.url + ": gets a run every " +
            in_seconds(options_.check_period) + " until it is faster: " + why);
}

// The servers to choose from among those that are free: a slow one whose trial is due, or else
// those that are not slow, unless all of their places are taken.
Balancer::Servers Balancer::quick_ones(const Servers& free, Clock::time_point now) const {
  Servers quick;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const Server& one = servers_[i];
    if (!free[i]) continue;
    if (!one.is_slow) {
      quick.set(i);
    } else if (one.waiting.empty() && now >= one.next_try) {
      return Servers(1) << i;
    }
  }
  return quick.any() && load(least_busy(quick)) < 1 ? quick : free;
}

// What a run is measured by later: the part of its prompt that the server does not know.
Balancer::Waiting Balancer::waiting_of(std::span<const std::uint64_t> prefixes, std::size_t server,
                                       std::uint64_t tokens, Clock::time_point now) const {
  std::size_t known = prefixes.size();
  const auto knows = [&](std::uint64_t prefix) {
    return std::ranges::any_of(std::array{&young_, &old_}, [&](const Known* half) {
      const auto found = half->find(prefix);
      return found != half->end() && Servers(found->second)[server];
    });
  };
  while (known > 0 && !knows(prefixes[known - 1])) --known;
  const double blocks = static_cast<double>(std::max<std::size_t>(1, prefixes.size()));
  const double unknown = static_cast<double>(tokens) * (1 - static_cast<double>(known) / blocks);
  const Server& one = servers_[server];
  return {.begun = now,
          .kind = 2 * known > prefixes.size() ? Kind::warm : Kind::cold,
          .shares = std::max(1.0, unknown / kShareTokens),
          .had_place = one.stats.running < one.places};
}

// The servers that had the longest beginning of the prompt that any of them had.
Balancer::Servers Balancer::with_prefix(std::span<const std::uint64_t> prefixes,
                                        const Servers& among) const {
  // From the longest beginning to the shortest.
  for (; !prefixes.empty(); prefixes = prefixes.first(prefixes.size() - 1)) {
    Servers had;
    for (const Known* const known : {&young_, &old_}) {
      if (const auto found = known->find(prefixes.back()); found != known->end()) {
        had |= Servers(found->second);
      }
    }
    if ((had & among).any()) return had & among;
  }
  return {};
}

void Balancer::remember(std::span<const std::uint64_t> prefixes, std::size_t server) {
  for (const std::uint64_t prefix : prefixes) {
    // The half that was filled first is dropped as a whole: no order of use is kept, and each
    // prefix stays for at least as many others as a half holds.
    if (young_.size() >= std::max<std::size_t>(1, options_.max_prefixes / 2)) {
      old_ = std::exchange(young_, {});
    }
    young_[prefix] |= std::uint64_t{1} << server;
  }
}

// The least busy server, unless one that knows the beginning is at most about twice as busy: a warm
// cache saves the prompt, but not the wait behind others. If all are left alone, the one that is
// due next is tried, because refusing would be no better. A server on trial gets one run, and so
// does a slow one that is due.
std::optional<Balancer::Ticket> Balancer::choose(std::span<const std::uint64_t> prefixes,
                                                 const Servers& tried, Clock::time_point now,
                                                 std::uint64_t tokens) {
  const std::lock_guard lock(mutex_);
  find_slow_ones(now);
  Servers free;
  for (std::size_t i = 0; i < servers_.size(); ++i) free[i] = is_free(servers_[i]) && !tried[i];
  free = quick_ones(free, now);
  if (free.none() && tried.none()) free = next_one();
  if (free.none()) return std::nullopt;
  std::size_t chosen = least_busy(free);
  if (const Servers known = with_prefix(prefixes, free); known.any()) {
    const std::size_t warm = least_busy(known);
    if (load(warm) <= 2 * load(chosen) + 0.5) chosen = warm;
  }
  Server& server = servers_[chosen];
  server.last_choice = ++choices_;
  if (server.state == State::trial) server.trial = choices_;
  if (server.is_slow) server.next_try = now + options_.check_period;
  server.waiting[choices_] = waiting_of(prefixes, chosen, tokens, now);
  ++server.stats.running;
  remember(prefixes, chosen);
  return Ticket{chosen, choices_};
}

// A first token came after `took`, or had not come when the client left. A slow server stays slow
// where there is nothing to compare with.
void Balancer::tell_pace(Server& server, const Waiting& run, Clock::duration took) {
  if (!run.had_place) return;
  const Clock::duration pace = pace_of(took, run.shares);
  const auto others = pace_of_others(server, run.kind);
  if (server.is_slow && others && !is_much_slower(pace, *others)) set_slow(server, false, "");
  server.paces[static_cast<std::size_t>(run.kind)].tell(pace);
}

// The first token has come. It proves that the server works, but only if the run began after the
// server was left alone; earlier runs tell of the time before.
void Balancer::began(const Ticket& run, Clock::duration after, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Server& one = servers_[run.server];
  ++one.stats.first_tokens;
  one.stats.first_token_nanoseconds += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(after).count());
  if (const auto waited = one.waiting.extract(run.number)) tell_pace(one, waited.mapped(), after);
  if (run.number <= one.since) return;
  one.next_check = now + options_.check_period;
  if (one.state == State::up) return;
  one.state = State::up;
  one.trial = 0;
  log::info("upstream " + one.stats.url + ": answers again");
}

// A refusal proves that the server works, as an answer does. A client that leaves, or a busy
// server, says nothing about its health. One failure makes the next check due at once, and several,
// or one on trial, make the server be left alone.
void Balancer::ended(const Ticket& run, End end, const std::string& why, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Server& one = servers_[run.server];
  --one.stats.running;
  const auto waited = one.waiting.extract(run.number);
  if (one.trial == run.number) one.trial = 0;
  const bool tells_of_now = run.number > one.since;
  switch (end) {
    case End::unsent:
      return;
    case End::cancelled:
      ++one.stats.cancelled;
      if (const auto took = waited ? now - waited.mapped().begun : Clock::duration::zero();
          took > std::chrono::seconds(1)) {
        tell_pace(one, waited.mapped(), took);
      }
      return;
    case End::busy:
      ++one.stats.failed;
      one.stats.trouble = why;
      return;
    case End::failed:
      ++one.stats.failed;
      one.stats.trouble = why;
      if (!tells_of_now) return;
      if (one.state == State::up) {
        // A busy server is not checked, but one that has just failed is, although it has runs
        // (next_check).
        one.is_suspect = true;
        one.next_check = now;
      }
      if (++one.failed_runs >= options_.failures || one.state == State::trial) {
        leave_alone(one, why, now);
      }
      return;
    case End::answered:
      ++one.stats.answered;
      break;
    case End::refused:
      ++one.stats.refused;
      break;
  }
  if (!tells_of_now) return;
  one.state = State::up;
  one.failed_runs = one.failed_checks = 0;
  one.pause = {};
  one.next_check = now + options_.check_period;
}

// Each pause is twice the one before, up to a limit. The log is told once, when the server goes
// down, not at each pause.
void Balancer::leave_alone(Server& server, const std::string& why, Clock::time_point now) {
  // Runs that fail during the pause do not make it longer.
  if (server.state == State::down && now < server.next_check) return;
  const Clock::duration doubled = std::max<Clock::duration>(options_.first_pause, 2 * server.pause);
  server.pause = std::min<Clock::duration>(doubled, options_.longest_pause);
  server.next_check = now + server.pause;
  server.trial = 0;
  server.since = choices_;
  if (server.state == State::absent) return;
  if (std::exchange(server.state, State::down) == State::down) return;
  log::warn("upstream " + server.stats.url + ": is left alone for " + in_seconds(server.pause) +
            ": " + std::string(log::content(why)));
}

Balancer::Clock::time_point Balancer::next_check(std::size_t server) const {
  const std::lock_guard lock(mutex_);
  const Server& one = servers_[server];
  const bool is_busy = one.state == State::up && one.stats.running > 0 && !one.is_suspect;
  return is_busy ? Clock::time_point::max() : one.next_check;
}

// A check that succeeds does not make a server healthy: it may answer questions and fail at
// generating. It puts the server on trial, and one run decides.
void Balancer::checked(std::size_t server, const Status& status, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Server& one = servers_[server];
  one.is_suspect = false;
  if (!status) {
    if (one.state == State::up) one.next_check = now + options_.check_period;
    one.stats.trouble = status.error().message;
    const bool is_enough = ++one.failed_checks >= options_.failures || one.state != State::up;
    if (is_enough) leave_alone(one, status.error().message, now);
    return;
  }
  one.next_check = now + options_.check_period;
  one.failed_checks = 0;
  if (one.state == State::down) {
    one.state = State::trial;
    one.trial = 0;
    one.since = choices_;
  }
}

bool Balancer::is_up(std::size_t server) const {
  const std::lock_guard lock(mutex_);
  return servers_[server].is_up();
}

std::size_t Balancer::count_up() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(servers_, &Server::is_up));
}

std::vector<UpstreamStats> Balancer::stats() const {
  const std::lock_guard lock(mutex_);
  std::vector<UpstreamStats> all;
  for (const Server& server : servers_) {
    all.push_back(server.stats);
    all.back().is_up = server.is_up();
  }
  return all;
}

std::string Balancer::troubles() const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const Server& server : servers_) {
    all += (all.empty() ? "" : "; ") + server.stats.trouble;
  }
  return "no server of the model is there: " + all;
}

}  // namespace tenon::engine
