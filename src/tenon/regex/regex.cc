#include "tenon/regex/regex.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "tenon/regex/dfa.h"
#include "tenon/regex/language.h"
#include "tenon/regex/syntax.h"

namespace tenon::regex {
namespace {

// Each limit is reached in about 0.2 s. Real patterns need a thousandth of it.
constexpr std::uint64_t kMaxSearchSteps = 2'000'000;
constexpr std::uint64_t kMaxSearchBytes = std::uint64_t{32} << 20;

// The number of idle automata; more searches at one time are rare.
constexpr std::size_t kMaxIdle = 4;
// An automaton that grew larger has searched an unusual text and is not kept.
constexpr std::uint64_t kMaxIdleBytes = std::uint64_t{1} << 20;

Limits bounded_steps(Limits limits) {
  limits.max_steps = std::min(limits.max_steps, kMaxSearchSteps);
  limits.max_bytes = std::min(limits.max_bytes, kMaxSearchBytes);
  return limits;
}

// An automaton with all that it is built from. One search at a time may change it.
struct Engine {
  Engine(const ExprSet& pristine, Expr language) : exprs(pristine), dfa(exprs, language) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Expected<bool> search(std::string_view text) {
    Dfa::State state = Dfa::kStart;
    for (const char byte : text) {
      const Dfa::State next = dfa.step(state, static_cast<std::uint8_t>(byte));
      // A byte that does not change the state needs none of the checks below.
      if (next == state) continue;
      state = next;
      // A match has ended and anything may follow, or nothing can match any more: the rest of the
      // text need not be read.
      if (dfa.accepts_all(state)) return true;
      if (dfa.language(state) == ExprSet::kNothing) break;
    }
    if (state == Dfa::kFailed) return Unexpected(exprs.status().error());
    return dfa.is_accepting(state);
  }

  ExprSet exprs;
  Dfa dfa;
};

}  // namespace

// Searches change an automaton, so each has one for itself, and those that are idle wait here for
// the next search with all their states.
struct Regex::Impl {
  // Returns an automaton that no other search is using.
  std::unique_ptr<Engine> borrow() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return nullptr;
    std::unique_ptr<Engine> engine = std::move(idle.back());
    idle.pop_back();
    return engine;
  }
  void give_back(std::unique_ptr<Engine> engine) {
    if (engine->exprs.bytes_used() > kMaxIdleBytes) return;
    const std::lock_guard lock(mutex);
    if (idle.size() < kMaxIdle) idle.push_back(std::move(engine));
  }

  ExprSet exprs;  // as compiled; each engine begins with a copy
  Expr language;
  std::mutex mutex;
  std::vector<std::unique_ptr<Engine>> idle;  // guarded by mutex
};

Regex::Regex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Regex::~Regex() = default;

Expected<std::shared_ptr<const Regex>> Regex::compile(std::string_view pattern,
                                                      const Limits& limits) {
  Limits compile_limits = bounded_steps(limits);
  Budget budget("pattern", compile_limits);
  const Expected<Syntax> syntax = parse(pattern, Dialect::ecma262, budget);
  if (!syntax) return Unexpected(syntax.error());

  auto impl = std::make_unique<Impl>(ExprSet(compile_limits));
  const Expected<Expr> language = language_of(impl->exprs, *syntax, Extent::part);
  if (!language) return Unexpected(language.error());
  impl->language = *language;

  // A deadline is for the compilation; a search may come at any time.
  compile_limits.deadline.reset();
  compile_limits.cancel.reset();
  impl->exprs.set_limits(compile_limits);
  return std::shared_ptr<const Regex>(new Regex(std::move(impl)));
}

Expected<bool> Regex::contains_match(std::string_view utf8) const {
  if (std::unique_ptr<Engine> engine = impl_->borrow()) {
    Expected<bool> result = engine->search(utf8);
    if (result) {
      impl_->give_back(std::move(engine));
      return result;
    }
    // The states of earlier searches have used up the limit, so it tries once more without them.
  }
  auto engine = std::make_unique<Engine>(impl_->exprs, impl_->language);
  Expected<bool> result = engine->search(utf8);
  if (result) impl_->give_back(std::move(engine));
  return result;
}

}  // namespace tenon::regex
