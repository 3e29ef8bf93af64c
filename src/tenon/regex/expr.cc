#include "tenon/regex/expr.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <iterator>
#include <optional>
#include <random>
#include <unordered_map>
#include <utility>

#include "tenon/regex/common_characters.h"

namespace tenon::regex {
namespace {
// Expressions are nodes in one table, and equal nodes are the same node (hash consing), so an index
// is an identity and every derivative is computed once and kept. Constructors bring an expression
// into a normal form: unions and intersections are flat, sorted lists without duplicates, single
// bytes are joined into one set, and common heads, tails and repetitions are joined. Without that,
// derivatives of a counted loop would be ever larger unions, and an automaton would not come to an
// end.
//
// What is known of an expression (whether it is empty, its shortest length, a fingerprint, ...) is
// found from its parts when its node is made (find_out) and stored in the node; each such answer is
// exact or says "not known".
//
// Conditions on the text before (guards, for looks behind and word boundaries) are parts of
// expressions until located() puts a text before them; then each derivative also advances the
// languages of the texts before, and a guard is decided by whether these accept.
//
// All work counts against one budget. Once it is spent every constructor returns kNothing.

constexpr std::uint32_t kUnbounded = ExprSet::kUnbounded;
// A level has at most three calls; in a sanitised build each takes half a kilobyte of stack.
constexpr std::uint32_t kMaxDepth = 1500;
constexpr unsigned kNullability = 256;  // stands for a byte in the key of a derivative

// A bound that does not fit is larger than any text.
std::uint32_t count(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, kUnbounded - 1));
}
std::uint32_t sum(std::uint32_t a, std::uint32_t b) {
  return a == kUnbounded || b == kUnbounded ? kUnbounded : count(std::uint64_t{a} + b);
}
std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  if (a == 0 || b == 0) return 0;
  return a == kUnbounded || b == kUnbounded ? kUnbounded : count(std::uint64_t{a} * b);
}
std::uint32_t one_less(std::uint32_t a) {
  return a == 0 || a == kUnbounded ? a : a - 1;
}

bool holds_sorted(std::span<const Expr> exprs, Expr expr) {
  return std::ranges::binary_search(exprs, expr);
}

void sort_unique(std::vector<Expr>& exprs) {
  std::ranges::sort(exprs);
  exprs.erase(std::unique(exprs.begin(), exprs.end()), exprs.end());
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 32);
}

// Fingerprints are made with random secrets of this process. A product with a secret number turns a
// difference that an attacker has chosen into one that they cannot foresee (as in wyhash); mix()
// does not.
struct Secrets {
  std::uint64_t high = random();
  std::uint64_t low = random();
  static std::uint64_t random() {
    std::random_device device;
    return std::uint64_t{device()} << 32U | device() | 1U;
  }
};

const Secrets& secrets() {
  static const Secrets secrets;
  return secrets;
}

std::uint64_t fold(std::uint64_t value, std::uint64_t secret) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{value} * secret;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

Fingerprint extended(const Fingerprint& of, const Fingerprint& by) {
  return {fold(of.high ^ by.high, secrets().high), fold(of.low ^ by.low, secrets().low)};
}

Limits bounded(Limits limits) {
  limits.max_depth = std::min(limits.max_depth, kMaxDepth);
  return limits;
}

}  // namespace

Fingerprint fingerprint_of(std::string_view text) {
  Fingerprint result = extended({secrets().low, secrets().high}, {text.size(), text.size()});
  while (!text.empty()) {
    std::uint64_t word = 0;
    const std::string_view part = text.substr(0, sizeof(word));
    std::memcpy(&word, part.data(), part.size());
    result = extended(result, {word, word});
    text.remove_prefix(part.size());
  }
  return result;
}

// ---- storage ------------------------------------------------------------------------------------

// The three expressions that everything is simplified to have fixed numbers, so that a comparison
// with them needs no look-up.
ExprSet::ExprSet(const Limits& limits) : budget_("regular expression", bounded(limits)) {
  index_.resize(64, kNothing);
  nodes_.push_back({.kind = Kind::nothing});
  nodes_.push_back({.kind = Kind::epsilon, .nullable = Nullable::yes, .is_inhabited = true});
  byte_sets_.push_back(ByteSet::all());
  // kAnything, and the single byte that it repeats.
  nodes_.push_back({.kind = Kind::repeat,
                    .nullable = Nullable::yes,
                    .is_inhabited = true,
                    .first = 3,
                    .min = 0,
                    .max = kUnbounded});
  nodes_.push_back({.kind = Kind::bytes, .is_inhabited = true, .first = 0});
  for (const Expr expr : {kNothing, kEpsilon, Expr{3}, kAnything}) {
    find_out(nodes_[expr], {});
  }
  grow_index();
}

void ExprSet::set_limits(const Limits& limits) {
  budget_ = Budget("regular expression", bounded(limits));
}

Status ExprSet::status() const {
  if (budget_.is_spent()) return Unexpected(budget_.error());
  return {};
}

// A set of bytes is hashed by its contents, because equal sets may have been added twice; parts are
// hashed by their numbers, which are equal for equal expressions.
std::uint64_t ExprSet::hash(const Node& node, std::span<const Expr> list) const {
  std::uint64_t result =
      mix(static_cast<std::uint64_t>(node.kind), std::uint64_t{node.min} << 32 | node.max);
  if (node.kind == Kind::bytes) {
    for (const std::uint64_t word : byte_sets_[node.first].words()) result = mix(result, word);
  } else if (has_list(node.kind)) {
    if (node.kind == Kind::located) result = mix(result, node.first);
    for (const Expr part : list) result = mix(result, part);
  } else {
    result = mix(result, std::uint64_t{node.first} << 32 | node.second);
  }
  return result;
}

// A fingerprint of the structure. The parts of unions and intersections are added up, because their
// order depends on which was made first. An expression that holds a loop has no fingerprint,
// because a loop gets its body later.
Fingerprint ExprSet::make_fingerprint(const Node& node, std::span<const Expr> list) const {
  const auto kind = static_cast<std::uint64_t>(node.kind);
  const std::uint64_t counts = std::uint64_t{node.min} << 32 | node.max;
  Fingerprint result = extended({secrets().low, secrets().high}, {kind, kind});
  result = extended(result, {counts, counts});
  bool is_known = node.kind != Kind::loop;
  const auto add = [&](const Fingerprint& part) {
    is_known &= part != Fingerprint{};
    result = extended(result, part);
  };
  if (node.kind == Kind::bytes) {
    for (const std::uint64_t word : byte_sets_[node.first].words()) {
      result = extended(result, {word, word});
    }
  }
  if (has_first(node.kind)) add(nodes_[node.first].fingerprint);
  if (node.kind == Kind::concat) add(nodes_[node.second].fingerprint);
  Fingerprint sum;
  for (const Expr part : list) {
    const Fingerprint& one = nodes_[part].fingerprint;
    is_known &= one != Fingerprint{};
    if (node.kind == Kind::located) {
      add(one);
    } else {
      const Fingerprint apart = extended(one, {secrets().low, secrets().high});
      sum = {sum.high + apart.high, sum.low + apart.low};
    }
  }
  result = extended(result, {list.size(), list.size()});
  result = extended(result, sum);
  return is_known ? result : Fingerprint{};
}

// Decided by the structure alone: a loop gets its body later, and the strings that a guard admits
// differ from place to place.
std::uint32_t ExprSet::count_least(const Node& node, std::span<const Expr> list) const {
  constexpr std::uint64_t kMost = kUnbounded;
  std::uint64_t least = 0;
  switch (node.kind) {
    case Kind::nothing:
      return kUnbounded;
    case Kind::bytes:
      return 1;
    case Kind::concat:
      least = std::uint64_t{nodes_[node.first].least} + nodes_[node.second].least;
      break;
    case Kind::any_of:
      least = kMost;
      for (const Expr part : list) least = std::min<std::uint64_t>(least, nodes_[part].least);
      break;
    case Kind::all_of:
      for (const Expr part : list) least = std::max<std::uint64_t>(least, nodes_[part].least);
      break;
    case Kind::complement:
      return node.nullable == Nullable::no ? 1 : 0;
    case Kind::repeat:
      least = std::uint64_t{nodes_[node.first].least} * node.min;
      break;
    case Kind::located:
      return nodes_[node.first].least;
    case Kind::epsilon:
    case Kind::guarded:
    case Kind::loop:
      break;
  }
  return static_cast<std::uint32_t>(std::min(least, kMost));
}

// Whether all texts of the expression are shorter than some bound, as far as its form tells;
// `false` means that it is not known.
bool ExprSet::find_bounded(const Node& node, std::span<const Expr> list) const {
  const auto is = [&](Expr part) { return nodes_[part].is_bounded; };
  switch (node.kind) {
    case Kind::nothing:
    case Kind::epsilon:
    case Kind::bytes:
      return true;
    case Kind::concat:
      return is(node.first) && is(node.second);
    case Kind::any_of:
      return std::ranges::all_of(list, is);
    case Kind::all_of:
      return std::ranges::any_of(list, is);
    case Kind::repeat:
      return node.max != kUnbounded && is(node.first);
    case Kind::guarded:
    case Kind::located:
      return is(node.first);
    case Kind::complement:
    case Kind::loop:
      break;
  }
  return false;
}

// Whether every text that is long enough belongs to the expression, as far as its form tells: the
// complement of a bounded set has this property, and intersections keep it.
bool ExprSet::find_long(const Node& node, std::span<const Expr> list) const {
  const auto is = [&](Expr part) { return nodes_[part].holds_long; };
  switch (node.kind) {
    case Kind::complement:
      return nodes_[node.first].is_bounded;
    case Kind::any_of:
      return std::ranges::any_of(list, is);
    case Kind::all_of:
      return std::ranges::all_of(list, is);
    case Kind::repeat:
      return node.first == nodes_[kAnything].first && node.max == kUnbounded;
    case Kind::located:
      return is(node.first);
    default:
      return false;
  }
}

bool ExprSet::find_plain(const Node& node, std::span<const Expr> list) const {
  constexpr ByteSet kPlain = plain_characters();
  if (node.kind == Kind::any_of) {
    return std::ranges::any_of(list, [&](Expr part) { return nodes_[part].is_plain; });
  }
  return node.kind == Kind::bytes && (kPlain & ~byte_sets_[node.first]).is_empty();
}

// A derivative of a union is the union of derivatives, and those of a concatenation and of a
// repetition end with the parts that have not begun. So the longest completion is found from the
// parts.
std::uint32_t ExprSet::find_completion(const Node& node, std::span<const Expr> list) const {
  constexpr std::uint64_t kMost = 1'000'000'000;
  const auto is_known = [&](Expr part) { return can_be_completed(part); };
  std::uint64_t most = 0;
  switch (node.kind) {
    case Kind::epsilon:
      break;
    case Kind::bytes:
      if (byte_sets_[node.first] == ByteSet::of(0)) return kUnbounded;
      break;
    case Kind::concat: {
      if (!is_known(node.first) || !is_known(node.second)) return kUnbounded;
      const Node& rest = nodes_[node.second];
      most = std::max(rest.completion, nodes_[node.first].completion + rest.least);
      break;
    }
    case Kind::any_of:
      if (!std::ranges::all_of(list, is_known)) return kUnbounded;
      for (const Expr part : list) most = std::max<std::uint64_t>(most, nodes_[part].completion);
      break;
    case Kind::repeat:
      if (!is_known(node.first)) return kUnbounded;
      most = std::uint64_t{nodes_[node.first].completion} + node.least;
      break;
    case Kind::nothing:
    case Kind::all_of:
    case Kind::complement:
    case Kind::guarded:
    case Kind::loop:
    case Kind::located:
      return kUnbounded;
  }
  return std::max<std::uint64_t>(most, node.least) > kMost ? kUnbounded
                                                           : static_cast<std::uint32_t>(most);
}

// A repetition of any character reads characters one by one, as long as the expression after it is
// known to have a string.
std::uint32_t ExprSet::find_absorbed(const Node& node, std::span<const Expr> list) const {
  const auto absorbed = [&](Expr part) { return nodes_[part].absorbed; };
  switch (node.kind) {
    case Kind::bytes:
      return node.is_plain ? 1 : 0;
    case Kind::concat: {
      if (!can_be_completed(node.second)) return 0;
      const Node& first = nodes_[node.first];
      if (first.is_plain) return sum(1, absorbed(node.second));
      if (first.kind == Kind::repeat && nodes_[first.first].is_plain) {
        return sum(first.max, absorbed(node.second));
      }
      const std::uint32_t within = can_be_completed(node.first) ? first.absorbed : 0;
      return first.nullable == Nullable::yes ? std::max(within, absorbed(node.second)) : within;
    }
    case Kind::repeat:
      if (nodes_[node.first].is_plain) return node.max;
      return can_be_completed(node.first) ? absorbed(node.first) : 0;
    case Kind::any_of: {
      std::uint32_t most = 0;
      for (const Expr part : list) most = std::max(most, absorbed(part));
      return most;
    }
    case Kind::all_of: {
      std::optional<Expr> rest;  // the expressions other than the set of all texts
      for (const Expr part : list) {
        if (is_every_text(part)) continue;
        if (rest) return 0;
        rest = part;
      }
      return rest ? absorbed(*rest) : kUnbounded;
    }
    default:
      return 0;
  }
}

// Finds all that can be known of a node from its parts.
void ExprSet::find_out(Node& node, std::span<const Expr> list) const {
  node.fingerprint = make_fingerprint(node, list);
  node.least = count_least(node, list);
  node.is_bounded = find_bounded(node, list);
  node.holds_long = find_long(node, list);
  node.is_inhabited |= node.holds_long;
  node.is_plain = find_plain(node, list);
  node.completion = find_completion(node, list);
  node.absorbed = find_absorbed(node, list);
}

std::optional<ExprSet::Counts> ExprSet::as_repetition_of(Expr part, Expr expr) const {
  if (expr == kEpsilon) return Counts{0, 0};
  const Repetition repeat = repetition(expr);
  if (repeat.of != part) return std::nullopt;
  return Counts{repeat.min, repeat.max};
}

std::optional<std::uint64_t> ExprSet::completion_bound(Expr expr) const {
  if (!can_be_completed(expr)) return std::nullopt;
  return std::max(nodes_[expr].least, nodes_[expr].completion);
}

// A part `c*` out of which all other parts are made: while a text goes on with such characters,
// nothing can be excluded, so a scanner may stay where it is.
std::optional<Expr> ExprSet::free_part(Expr expr) const {
  const std::span<const Expr> parts =
      nodes_[expr].kind == Kind::any_of ? list_of(nodes_[expr]) : std::span<const Expr>(&expr, 1);
  std::size_t visits = 0;
  for (const Expr part : parts) {
    const Expr first = head(part);
    const Node& node = nodes_[first];
    if (node.kind != Kind::repeat || node.min != 0 || node.max != kUnbounded) continue;
    if (!can_be_completed(tail(part))) continue;
    // The ASCII characters of the set; the others count only as a whole.
    ByteSet ascii = single_bytes(node.first);
    if (first != kAnything) ascii &= ByteSet::range(0, 0x7F);
    if (is_made_of(expr, node.first, ascii, 0, visits)) return first;
  }
  return std::nullopt;
}

// NUL is no character of a text.
bool ExprSet::grows_by_one(Expr repetition) const {
  return !(single_bytes(nodes_[repetition].first) & ByteSet::range(0x01, 0x7F)).is_empty();
}

// The bytes that are alternatives of `expr` by themselves.
ByteSet ExprSet::single_bytes(Expr expr) const {
  ByteSet bytes;
  const Node& node = nodes_[expr];
  for (const Expr one : node.kind == Kind::any_of ? list_of(node) : std::span(&expr, 1)) {
    if (nodes_[one].kind == Kind::bytes) bytes |= byte_sets_[nodes_[one].first];
  }
  return bytes;
}

bool ExprSet::is_made_of(Expr expr, Expr character, const ByteSet& ascii, unsigned depth,
                         std::size_t& visits) const {
  constexpr unsigned kDeepest = 100;
  constexpr std::size_t kMostVisits = 50'000;
  if (depth > kDeepest || ++visits > kMostVisits) return false;
  const auto inner = [&](Expr part) {
    return is_made_of(part, character, ascii, depth + 1, visits);
  };
  for (; nodes_[expr].kind == Kind::concat; expr = nodes_[expr].second) {
    if (!inner(nodes_[expr].first)) return false;
  }
  const Node& node = nodes_[expr];
  if (expr == character || expr == kEpsilon) return true;
  switch (node.kind) {
    case Kind::bytes:
      return (byte_sets_[node.first] & ~ascii).is_empty();
    case Kind::any_of:
      return std::ranges::all_of(list_of(node), inner);
    case Kind::repeat:
      return inner(node.first);
    default:
      return false;
  }
}

namespace {

constexpr std::uint32_t kFar = std::uint32_t{1} << 24U;

}  // namespace

std::optional<Expr> ExprSet::with_far_counts(Expr expr) {
  std::unordered_map<Expr, Expr> known;
  const std::optional<Expr> result = far(expr, known, 0);
  return result && *result != expr ? result : std::nullopt;
}

// The same expression with counts that a token cannot reach made endless, so that states that
// differ only in how many are left become one and their masks are shared.
std::optional<Expr> ExprSet::far(Expr expr, std::unordered_map<Expr, Expr>& known, unsigned depth) {
  constexpr unsigned kDeepest = 100;
  constexpr std::size_t kMostParts = 1000;
  if (depth > kDeepest || known.size() > kMostParts) return std::nullopt;
  if (const auto found = known.find(expr); found != known.end()) return found->second;
  const Node node = nodes_[expr];
  std::optional<Expr> result;
  switch (node.kind) {
    case Kind::epsilon:
    case Kind::bytes:
      result = expr;
      break;
    case Kind::concat: {
      const auto first = far(node.first, known, depth + 1);
      const auto second = first ? far(node.second, known, depth + 1) : std::nullopt;
      if (second) result = concat(*first, *second);
      break;
    }
    case Kind::any_of: {
      std::vector<Expr> parts;
      const auto list = list_of(node);
      const std::vector<Expr> old(list.begin(), list.end());
      for (const Expr part : old) {
        const auto one = far(part, known, depth + 1);
        if (!one) return std::nullopt;
        parts.push_back(*one);
      }
      result = any_of(parts);
      break;
    }
    case Kind::repeat: {
      const auto body = far(node.first, known, depth + 1);
      // Counts of a repeated repetition would be multiplied.
      if (!body || (*body != node.first && nodes_[*body].kind == Kind::repeat)) break;
      // If many rounds are required, the way to the end would be as long. A token comes to the end
      // of a count of any character, and absorbed_characters() relies on such counts.
      const bool is_lifted = node.min <= kFew && node.max > kFew && node.max != kUnbounded &&
                             !nodes_[node.first].is_plain;
      result = repeat(*body, node.min, is_lifted ? kFar : node.max);
      break;
    }
    default:
      break;
  }
  if (!status()) return std::nullopt;
  if (result) known.emplace(expr, *result);
  return result;
}

// Visits each node that the expressions are made of once.
template <class Visit>
void ExprSet::for_each_node(std::span<const Expr> exprs, const Visit& visit) const {
  std::vector<bool> seen(nodes_.size());
  std::vector<Expr> open(exprs.begin(), exprs.end());
  while (!open.empty()) {
    const Expr next = open.back();
    open.pop_back();
    if (seen[next]) continue;
    seen[next] = true;
    const Node& node = nodes_[next];
    visit(node);
    if (node.kind == Kind::concat) open.push_back(node.second);
    if (node.kind == Kind::loop) {
      open.push_back(loop_bodies_[node.first]);
    } else if (has_first(node.kind)) {
      open.push_back(node.first);
    }
    if (has_list(node.kind)) {
      const auto parts = list_of(node);
      open.insert(open.end(), parts.begin(), parts.end());
    }
  }
}

// Two repetitions with far counts can become one, whose count would stay far for as many rounds as
// one of them has.
bool ExprSet::are_counts_far(std::span<const Expr> derivatives) const {
  constexpr std::uint32_t kNear = kFar / 2;
  const auto is_far = [](std::uint32_t count) {
    return count == kUnbounded || count < kNear || (count >= kFar - kFew && count < kFar + kNear);
  };
  bool are_far = true;
  for_each_node(derivatives, [&](const Node& node) {
    are_far = are_far && (node.kind != Kind::repeat || is_far(node.max));
  });
  return are_far;
}

bool ExprSet::is_same(const Node& known, const Node& node, std::span<const Expr> list) const {
  if (known.kind != node.kind || known.min != node.min || known.max != node.max) return false;
  if (node.kind == Kind::bytes) return byte_sets_[known.first] == byte_sets_[node.first];
  if (!has_list(node.kind)) return known.first == node.first && known.second == node.second;
  return (node.kind != Kind::located || known.first == node.first) &&
         std::ranges::equal(list_of(known), list);
}

void ExprSet::grow_index() {
  const std::size_t size = index_.size() * 2;
  index_.assign(size, kNothing);
  for (Expr expr = 2; expr < nodes_.size(); ++expr) {
    const Node& node = nodes_[expr];
    std::size_t slot = hash(node, has_list(node.kind) ? list_of(node) : std::span<const Expr>());
    while (index_[slot &= size - 1] != kNothing) ++slot;
    index_[slot] = expr;
  }
}

// `list` is the node's list if its kind has one; this function decides its place in lists_.
Expr ExprSet::intern(Node node, std::span<const Expr> list) {
  const std::size_t mask = index_.size() - 1;
  std::size_t slot = hash(node, list);
  for (; index_[slot &= mask] != kNothing; ++slot) {
    if (is_same(nodes_[index_[slot]], node, list)) return index_[slot];
  }
  if (!budget_.take_bytes(sizeof(Node) + 2 * sizeof(Expr) + list.size_bytes())) return kNothing;
  if (has_list(node.kind)) {
    node.second = static_cast<std::uint32_t>(lists_.size());
    lists_.insert(lists_.end(), list.begin(), list.end());
  }
  const auto expr = static_cast<Expr>(nodes_.size());
  find_out(node, list);
  nodes_.push_back(node);
  index_[slot] = expr;
  if (nodes_.size() * 2 > index_.size()) grow_index();
  return expr;
}

const Expr* ExprSet::Table::find(std::uint64_t key) const {
  if (entries_.empty()) return nullptr;
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t slot = mix(0, key);; ++slot) {
    const Entry& entry = entries_[slot &= mask];
    if (entry.key == key) return &entry.value;
    if (entry.key == kFree) return nullptr;
  }
}

void ExprSet::Table::insert(std::uint64_t key, Expr value, Budget& budget) {
  if (used_ * 2 >= entries_.size()) {
    const std::size_t size = std::max<std::size_t>(64, entries_.size() * 2);
    if (!budget.take_bytes((size - entries_.size()) * sizeof(Entry))) return;
    for (const Entry& entry : std::exchange(entries_, std::vector<Entry>(size))) {
      if (entry.key != kFree) place(entry);
    }
  }
  place({key, value});
  ++used_;
}

void ExprSet::Table::place(const Entry& entry) {
  const std::size_t mask = entries_.size() - 1;
  std::size_t slot = mix(0, entry.key);
  while (entries_[slot &= mask].key != kFree) ++slot;
  entries_[slot] = entry;
}

// ---- making expressions -------------------------------------------------------------------------

Expr ExprSet::bytes(const ByteSet& set) {
  if (set.is_empty() || !budget_.step()) return kNothing;
  byte_sets_.push_back(set);
  const auto last = static_cast<std::uint32_t>(byte_sets_.size() - 1);
  const Expr expr = intern({.kind = Kind::bytes, .is_inhabited = true, .first = last});
  if (nodes_[expr].first != last) byte_sets_.pop_back();
  return expr;
}

Expr ExprSet::literal(std::string_view text) {
  Expr expr = kEpsilon;
  for (std::size_t i = text.size(); i-- > 0;) {
    expr = concat(bytes(ByteSet::of(static_cast<std::uint8_t>(text[i]))), expr);
  }
  return expr;
}

Expr ExprSet::concat(Expr first, Expr second) {
  assert(!is_open(first));
  std::vector<Expr> heads;
  for (; nodes_[first].kind == Kind::concat; first = nodes_[first].second) {
    heads.push_back(nodes_[first].first);
  }
  Expr result = concat_one(first, second);
  for (std::size_t i = heads.size(); i-- > 0;) result = concat_one(heads[i], result);
  return result;
}

// `first` must not be a concat.
Expr ExprSet::concat_one(Expr first, Expr second) {
  if (first == kNothing || second == kNothing || !budget_.step()) return kNothing;
  if (first == kEpsilon) return second;
  if (second == kEpsilon) return first;
  // After an expression that can be empty, and before anything, its own texts add nothing.
  if (second == kAnything && nodes_[first].nullable == Nullable::yes) return kAnything;

  const Repetition one = repetition(first);
  const Repetition other = repetition(head(second));
  if (one.of == other.of && (one.is_repeat || other.is_repeat)) {
    const Expr joined = repeat(one.of, sum(one.min, other.min), sum(one.max, other.max));
    const Expr rest = tail(second);
    return rest == kEpsilon ? joined : concat_one(joined, rest);
  }
  const Node& a = nodes_[first];
  const Node& b = nodes_[second];
  return intern({.kind = Kind::concat,
                 .nullable = std::min(a.nullable, b.nullable),
                 .is_inhabited = a.is_inhabited && b.is_inhabited,
                 .conditions = b.conditions,
                 .first = first,
                 .second = second});
}

// The simplifications keep expressions few: derivatives make the same repetition over and over, and
// only a canonical form is found again.
Expr ExprSet::repeat(Expr expr, std::uint32_t min, std::uint32_t max) {
  assert(!is_open(expr) && min <= max);
  if (!budget_.step()) return kNothing;
  if (max == 0 || expr == kEpsilon) return kEpsilon;
  if (expr == kNothing) return min == 0 ? kEpsilon : kNothing;
  const Node node = nodes_[expr];
  if (node.nullable == Nullable::yes) min = 0;
  if (min == 1 && max == 1) return expr;
  if (node.kind == Kind::repeat) {
    // `min` to `max` times a to b of something is min*a to max*b of it, unless counts between are
    // left out. The gap after the least number of times is the widest.
    const std::uint32_t least = std::max<std::uint32_t>(min, 1);
    const bool has_no_gap =
        min == max || (min == 0 ? node.min <= 1
                                : sum(product(node.max, least), 1) >= product(node.min, least + 1));
    if (has_no_gap) return repeat(node.first, product(node.min, min), product(node.max, max));
  }
  return intern({.kind = Kind::repeat,
                 .nullable = min == 0 ? Nullable::yes : node.nullable,
                 .is_inhabited = min == 0 || node.is_inhabited,
                 .first = expr,
                 .min = min,
                 .max = max});
}

Expr ExprSet::complement(Expr expr) {
  if (!budget_.step()) return kNothing;
  if (expr == kNothing) return kAnything;
  if (expr == kAnything) return kNothing;
  const Node& node = nodes_[expr];
  if (node.kind == Kind::complement) return node.first;
  const Nullable nullable = node.nullable == Nullable::depends ? Nullable::depends
                            : node.nullable == Nullable::yes   ? Nullable::no
                                                               : Nullable::yes;
  return intern({.kind = Kind::complement,
                 .nullable = nullable,
                 .is_inhabited = nullable == Nullable::yes,
                 .conditions = node.conditions,
                 .first = expr});
}

Expr ExprSet::non_empty(Expr expr) {
  const Node node = nodes_[expr];
  if (node.nullable == Nullable::no) return expr;
  if (node.kind == Kind::repeat && nodes_[node.first].nullable == Nullable::no) {
    return repeat(node.first, 1, node.max);
  }
  return both(expr, complement(kEpsilon));
}

// A union in canonical form: flat, sorted, without duplicates, with single bytes joined to sets and
// common beginnings written once. Without that the number of derivatives is not finite (Brzozowski
// 1964), and with it automata are near the least.
Expr ExprSet::any_of(std::span<const Expr> exprs) {
  const Budget::Level level(budget_);
  std::vector<Expr> parts;
  if (!level || !flatten(Kind::any_of, exprs, parts)) return is_spent() ? kNothing : kAnything;
  // Each of these joins parts into fewer, so the loop ends.
  if (join_bytes_by_tail(parts) || join_by_head(parts) || join_repeats(parts)) {
    return is_spent() ? kNothing : any_of(parts);
  }
  const auto is_nullable_part = [&](Expr part) {
    return part != kEpsilon && nodes_[part].nullable == Nullable::yes;
  };
  if (std::ranges::any_of(parts, is_nullable_part)) std::erase(parts, kEpsilon);
  absorb(Kind::all_of, parts);
  return list(Kind::any_of, parts);
}

// If the empty text is a part, the intersection is that text or nothing.
Expr ExprSet::all_of(std::span<const Expr> exprs) {
  const Budget::Level level(budget_);
  std::vector<Expr> parts;
  if (!level || !flatten(Kind::all_of, exprs, parts)) return kNothing;
  if (holds_sorted(parts, kEpsilon)) {
    const auto least =
        std::ranges::min(parts, {}, [&](Expr part) { return nodes_[part].nullable; });
    if (nodes_[least].nullable == Nullable::no) return kNothing;
    if (nodes_[least].nullable == Nullable::yes) return kEpsilon;
  }
  absorb(Kind::any_of, parts);
  return list(Kind::all_of, parts);
}

// Replaces parts of the same kind by their own parts, and sorts. Single bytes become one part, and
// so do complements. False if the whole is the absorbing element of `kind`.
bool ExprSet::flatten(Kind kind, std::span<const Expr> exprs, std::vector<Expr>& parts) {
  const bool is_any = kind == Kind::any_of;
  const Expr absorbing = is_any ? kAnything : kNothing;
  const Expr neutral = is_any ? kNothing : kAnything;
  std::vector<Expr> complements;
  std::optional<ByteSet> single;
  bool is_absorbed = false;
  const auto take = [&](Expr expr) {
    const Node& node = nodes_[expr];
    if (expr == absorbing) {
      is_absorbed = true;
    } else if (node.kind == Kind::complement) {
      complements.push_back(node.first);
    } else if (node.kind == Kind::bytes) {
      const ByteSet& set = byte_sets_[node.first];
      single = !single ? set : is_any ? *single | set : *single & set;
    } else if (expr != neutral) {
      parts.push_back(expr);
    }
  };
  for (const Expr expr : exprs) {
    if (nodes_[expr].kind == kind) {
      for (const Expr part : list_of(nodes_[expr])) take(part);
    } else {
      take(expr);
    }
  }
  if (!budget_.step(1 + parts.size()) || is_absorbed) return false;
  if (single) {
    const Expr expr = bytes(*single);
    if (expr == absorbing) return false;
    parts.push_back(expr);
  }
  sort_unique(parts);
  if (complements.empty()) return !is_spent();

  // "Not a, or not b" is "not both". The union with a part that the complement leaves out is
  // everything.
  const Expr inner = is_any ? all_of(complements) : any_of(complements);
  const Expr outer = complement(inner);
  if (outer == absorbing || is_spent()) return false;
  const Node& node = nodes_[inner];
  const bool is_list = node.kind == (is_any ? Kind::all_of : Kind::any_of);
  for (const Expr part : is_list ? list_of(node) : std::span(&inner, 1)) {
    if (holds_sorted(parts, part)) return false;
  }
  if (outer != neutral) parts.push_back(outer);
  sort_unique(parts);
  return true;
}

// a or (a and b) is a, and so is a or (a if a condition holds); a and (a or b) is a.
void ExprSet::absorb(Kind inner, std::vector<Expr>& parts) const {
  const auto is_absorbed = [&](Expr expr) {
    const Node& node = nodes_[expr];
    if (node.kind == Kind::guarded && inner == Kind::all_of) return holds_sorted(parts, node.first);
    return node.kind == inner &&
           std::ranges::any_of(list_of(node), [&](Expr part) { return holds_sorted(parts, part); });
  };
  std::vector<Expr> kept;
  std::ranges::remove_copy_if(parts, std::back_inserter(kept), is_absorbed);
  parts = std::move(kept);
}

Expr ExprSet::list(Kind kind, std::span<const Expr> parts) {
  const bool is_any = kind == Kind::any_of;
  if (parts.empty()) return is_any ? kNothing : kAnything;
  if (parts.size() == 1) return parts.front();
  Node node{.kind = kind, .nullable = is_any ? Nullable::no : Nullable::yes};
  for (const Expr part : parts) {
    const Node& inner = nodes_[part];
    node.nullable =
        is_any ? std::max(node.nullable, inner.nullable) : std::min(node.nullable, inner.nullable);
    node.is_inhabited |= is_any && inner.is_inhabited;
    node.conditions |= inner.conditions;
  }
  node.is_inhabited |= node.nullable == Nullable::yes;
  node.first = static_cast<std::uint32_t>(parts.size());
  return intern(node, parts);
}

// [a]x | [b]x is [ab]x.
bool ExprSet::join_bytes_by_tail(std::vector<Expr>& parts) {
  std::vector<std::pair<Expr, Expr>> by_tail;  // with the part itself
  for (const Expr part : parts) {
    const Node& node = nodes_[part];
    if (node.kind == Kind::concat && nodes_[node.first].kind == Kind::bytes) {
      by_tail.emplace_back(node.second, part);
    }
  }
  return join_groups(by_tail, parts, [&](std::span<const std::pair<Expr, Expr>> group) {
    ByteSet set;
    for (const auto& [tail, part] : group) set |= byte_sets_[nodes_[head(part)].first];
    return concat(bytes(set), group.front().first);
  });
}

// xa | xb is x(a | b): it needs one derivative of x instead of two, and counters in a and b can be
// joined.
bool ExprSet::join_by_head(std::vector<Expr>& parts) {
  std::vector<std::pair<Expr, Expr>> by_head;
  for (const Expr part : parts) {
    if (nodes_[head(part)].kind != Kind::bytes) by_head.emplace_back(head(part), part);
  }
  return join_groups(by_head, parts, [&](std::span<const std::pair<Expr, Expr>> group) {
    std::vector<Expr> tails;
    for (const auto& [head, part] : group) tails.push_back(tail(part));
    return concat(group.front().first, any_of_tails(std::move(tails)));
  });
}

// The tails of a sequence of many parts have equal heads again, to the end of the sequence, and the
// same tails are joined at byte after byte; so the result is kept.
Expr ExprSet::any_of_tails(std::vector<Expr> tails) {
  sort_unique(tails);
  if (const auto known = tails_.find(tails); known != tails_.end()) return known->second;
  const Expr joined = any_of(tails);
  constexpr std::size_t kNodeBytes = 64;
  const std::size_t bytes = kNodeBytes + tails.size() * sizeof(Expr);
  if (is_spent() || !budget_.take_bytes(bytes)) return kNothing;
  tails_.emplace(std::move(tails), joined);
  return joined;
}

// Replaces the parts of each group with equal first members by the result of `join`.
template <class Join>
bool ExprSet::join_groups(std::vector<std::pair<Expr, Expr>>& keyed, std::vector<Expr>& parts,
                          const Join& join) {
  std::ranges::sort(keyed);
  std::vector<Expr> joined;
  std::vector<Expr> gone;
  for (std::size_t begin = 0, end = 0; begin < keyed.size(); begin = end) {
    while (end < keyed.size() && keyed[end].first == keyed[begin].first) ++end;
    if (end - begin < 2) continue;
    const std::span group = std::span(keyed).subspan(begin, end - begin);
    for (const auto& [key, part] : group) gone.push_back(part);
    joined.push_back(join(group));
  }
  return replace(parts, gone, joined);
}

// x{2,5}a | x{4,9}a is x{2,9}a, and x{1,5}a | a is x{0,5}a. This keeps the states of a counted loop
// from becoming sets of counts.
bool ExprSet::join_repeats(std::vector<Expr>& parts) {
  struct Counted {
    Expr of;
    Expr tail;
    std::uint32_t min;
    std::uint32_t max;
    Expr part;
    auto operator<=>(const Counted&) const = default;
  };
  std::vector<Counted> counted;
  for (const Expr part : parts) {
    const Repetition repetition = this->repetition(head(part));
    if (!repetition.is_repeat) continue;
    counted.push_back({repetition.of, tail(part), repetition.min, repetition.max, part});
  }
  std::ranges::sort(counted);
  std::vector<Expr> joined;
  std::vector<Expr> gone;
  for (std::size_t begin = 0, end = 0; begin < counted.size(); begin = end) {
    Counted run = counted[begin];
    for (end = begin + 1; end < counted.size(); ++end) {
      const Counted& next = counted[end];
      if (next.of != run.of || next.tail != run.tail || sum(run.max, 1) < next.min) break;
      run.max = std::max(run.max, next.max);
    }
    const bool takes_tail = run.min == 1 && holds_sorted(parts, run.tail);
    if (end - begin < 2 && !takes_tail) continue;
    for (std::size_t i = begin; i < end; ++i) gone.push_back(counted[i].part);
    if (takes_tail) gone.push_back(run.tail);
    joined.push_back(concat(repeat(run.of, takes_tail ? 0 : run.min, run.max), run.tail));
  }
  return replace(parts, gone, joined);
}

// Returns false if nothing is to be replaced.
bool ExprSet::replace(std::vector<Expr>& parts, std::vector<Expr>& gone, std::span<const Expr> by) {
  if (gone.empty()) return false;
  std::ranges::sort(gone);
  std::erase_if(parts, [&](Expr part) { return holds_sorted(gone, part); });
  parts.insert(parts.end(), by.begin(), by.end());
  return true;
}

// ---- derivatives --------------------------------------------------------------------------------

// What must follow after `byte` (Brzozowski 1964). The simple cases are answered before the cache
// is asked, because they cost less than the look-up. `holding` has the conditions that are true at
// this place; only those on which the expression depends are part of the key.
Expr ExprSet::derivative(Expr expr, std::uint8_t byte, std::uint32_t holding) {
  const Node node = nodes_[expr];
  switch (node.kind) {
    case Kind::nothing:
    case Kind::epsilon:
      return kNothing;
    case Kind::bytes:
      return byte_sets_[node.first].contains(byte) ? kEpsilon : kNothing;
    case Kind::concat:
      if (nodes_[node.first].kind != Kind::bytes) break;
      return byte_sets_[nodes_[node.first].first].contains(byte) ? node.second : kNothing;
    default:
      break;
  }
  const Budget::Level level(budget_);
  if (!level || !budget_.step()) return kNothing;
  const std::uint64_t key = key_of(expr, byte, holding & node.conditions);
  if (const Expr* known = derivatives_.find(key)) return *known;
  const Expr result = derivative_of(expr, byte, holding & node.conditions);
  if (is_spent()) return kNothing;
  derivatives_.insert(key, result, budget_);
  return result;
}

Expr ExprSet::derivative_of(Expr expr, std::uint8_t byte, std::uint32_t holding) {
  const Node node = nodes_[expr];
  const auto of = [&](Expr part) { return derivative(part, byte, holding); };
  switch (node.kind) {
    case Kind::concat:
      return derivative_of_concat(expr, byte, holding);
    case Kind::any_of:
    case Kind::all_of: {
      std::vector<Expr> parts;
      for (std::uint32_t i = 0; i < node.first; ++i) {
        parts.push_back(of(lists_[node.second + i]));
        // Most intersections end here.
        if (parts.back() == kNothing && node.kind == Kind::all_of) return kNothing;
        if (parts.back() == kNothing) parts.pop_back();
      }
      return node.kind == Kind::any_of ? any_of(parts) : all_of(parts);
    }
    case Kind::complement:
      return complement(of(node.first));
    case Kind::repeat:
      return concat(of(node.first), repeat(node.first, one_less(node.min), one_less(node.max)));
    case Kind::guarded:
      return holds(node, holding) ? of(node.first) : kNothing;
    case Kind::loop:
      return of(loop_bodies_[node.first]);
    case Kind::located: {
      std::vector<Expr> before;
      before.reserve(node.min);
      const std::uint32_t here = this->holding(list_of(node));
      for (std::uint32_t i = 0; i < node.min; ++i) {
        before.push_back(derivative(lists_[node.second + i], byte, here));
      }
      return located(derivative(node.first, byte, here), before);
    }
    default:
      return kNothing;
  }
}

// Walks along the parts that may be empty, without recursion, because patterns are long.
Expr ExprSet::derivative_of_concat(Expr expr, std::uint8_t byte, std::uint32_t holding) {
  std::vector<Expr> ways;
  for (; nodes_[expr].kind == Kind::concat; expr = nodes_[expr].second) {
    const Node node = nodes_[expr];
    ways.push_back(concat(derivative(node.first, byte, 0), node.second));
    if (nodes_[node.first].nullable == Nullable::no) return any_of(ways);
  }
  ways.push_back(derivative(expr, byte, holding));
  return any_of(ways);
}

bool ExprSet::is_nullable(Expr expr, std::uint32_t holding) {
  const Node node = nodes_[expr];
  if (node.nullable != Nullable::depends) return node.nullable == Nullable::yes;
  const Budget::Level level(budget_);
  if (!level || !budget_.step()) return false;
  const std::uint64_t key = key_of(expr, kNullability, holding & node.conditions);
  if (const Expr* known = derivatives_.find(key)) return *known == kEpsilon;
  const bool result = is_nullable_here(node, holding);
  if (is_spent()) return false;
  derivatives_.insert(key, result ? kEpsilon : kNothing, budget_);
  return result;
}

// Whether the empty text belongs to the expression at a place where these conditions hold.
bool ExprSet::is_nullable_here(const Node& node, std::uint32_t holding) {
  const auto is = [&](Expr part) { return is_nullable(part, holding); };
  switch (node.kind) {
    case Kind::concat:
      return is(node.first) && is(node.second);
    case Kind::any_of:
    case Kind::all_of: {
      const bool decides = node.kind == Kind::any_of;
      for (std::uint32_t i = 0; i < node.first; ++i) {
        if (is(lists_[node.second + i]) == decides) return decides;
      }
      return !decides;
    }
    case Kind::complement:
      return !is(node.first);
    case Kind::guarded:
      return holds(node, holding) && is(node.first);
    case Kind::loop:
      return is(loop_bodies_[node.first]);
    default:
      return false;
  }
}

// ---- places -------------------------------------------------------------------------------------

// The expression at places where the condition holds (or does not): how look-arounds become part of
// an expression without a position.
Expr ExprSet::guarded(Condition condition, bool is_negative, Expr expr) {
  assert(condition < kMaxConditions);
  if (expr == kNothing || !budget_.step()) return kNothing;
  const Node& node = nodes_[expr];
  if (node.kind == Kind::guarded && node.min == condition) {
    return is_negative == (node.max == 1) ? expr : kNothing;
  }
  return intern({.kind = Kind::guarded,
                 .nullable = std::min(node.nullable, Nullable::depends),
                 .conditions = node.conditions | std::uint32_t{1} << condition,
                 .first = expr,
                 .min = condition,
                 .max = is_negative ? 1U : 0U});
}

Expr ExprSet::open_loop(std::uint32_t conditions, bool is_nullable) {
  if (!budget_.step()) return kNothing;
  loop_bodies_.push_back(kNothing);
  Nullable nullable = is_nullable ? Nullable::yes : Nullable::no;
  if (conditions != 0) nullable = Nullable::depends;
  return intern({.kind = Kind::loop,
                 .nullable = nullable,
                 .conditions = conditions,
                 .first = static_cast<std::uint32_t>(loop_bodies_.size() - 1)});
}

// Rewrites an expression for a condition that has been decided.
class ExprSet::Settling {
 public:
  Settling(ExprSet& exprs, Condition condition) : exprs_(exprs), condition_(condition) {}

  // The condition holds from here on, or never again.
  Expr for_good(Expr expr, bool holds) { return settle(expr, holds ? When::always : When::never); }
  // The condition holds here, and nowhere after this place.
  Expr here_only(Expr expr) { return settle(expr, When::here); }

 private:
  enum class When : std::uint8_t { never, always, here };

  Expr settle(Expr expr, When when) {
    const Node node = exprs_.nodes_[expr];
    if ((node.conditions >> condition_ & 1) == 0) return expr;
    const Budget::Level level(exprs_.budget_);
    if (!level || !exprs_.budget_.step()) return kNothing;
    const std::uint64_t key = std::uint64_t{expr} << 2 | static_cast<unsigned>(when);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    const Expr result = settle_node(node, key, when);
    known_[key] = result;
    return result;
  }

  Expr settle_node(const Node& node, std::uint64_t key, When when) {
    switch (node.kind) {
      case Kind::concat: {
        if (when != When::here) return exprs_.concat(node.first, settle(node.second, when));
        const Expr later = settle(node.second, When::never);
        if (!exprs_.is_nullable(node.first)) return exprs_.concat(node.first, later);
        return exprs_.either(settle(node.second, when),
                             exprs_.concat(exprs_.non_empty(node.first), later));
      }
      case Kind::any_of:
      case Kind::all_of: {
        std::vector<Expr> parts;
        parts.reserve(node.first);
        for (std::uint32_t i = 0; i < node.first; ++i) {
          parts.push_back(settle(exprs_.lists_[node.second + i], when));
        }
        return node.kind == Kind::any_of ? exprs_.any_of(parts) : exprs_.all_of(parts);
      }
      case Kind::complement:
        return exprs_.complement(settle(node.first, when));
      case Kind::guarded:
        if (node.min == condition_) {
          return (when != When::never) != (node.max == 1) ? settle(node.first, when) : kNothing;
        }
        return exprs_.guarded(node.min, node.max == 1, settle(node.first, when));
      case Kind::loop: {
        const Expr body = exprs_.loop_bodies_[node.first];
        if (when == When::here) return settle(body, when);
        // A loop is part of its own body, so it is entered before its body is settled.
        const std::uint32_t bit = std::uint32_t{1} << condition_;
        const bool is_nullable = exprs_.is_nullable(body, when == When::always ? bit : 0);
        const Expr loop = exprs_.open_loop(node.conditions & ~bit, is_nullable);
        known_[key] = loop;
        exprs_.close_loop(loop, settle(body, when));
        return loop;
      }
      default:
        return kNothing;
    }
  }

  ExprSet& exprs_;
  Condition condition_;
  std::unordered_map<std::uint64_t, Expr> known_;
};

// An expression with look-behinds. Beside it run the expressions that decide them: `before[i]` is
// what the text so far has left of condition i. A condition that is decided for good is settled and
// its expression dropped.
Expr ExprSet::located(Expr expr, std::span<const Expr> before) {
  std::vector<Expr> needed(before.begin(), before.end());
  for (Condition i = 0; i < needed.size(); ++i) {
    if ((nodes_[expr].conditions >> i & 1) == 0) continue;
    Settling settling(*this, i);
    if (needed[i] == kEpsilon) expr = settling.here_only(expr);
    if (needed[i] == kNothing) expr = settling.for_good(expr, false);
    if (needed[i] == kAnything) expr = settling.for_good(expr, true);
  }
  if (!is_open(expr) || is_spent()) return is_spent() ? kNothing : expr;

  std::uint32_t conditions = nodes_[expr].conditions;
  for (std::size_t i = needed.size(); i-- > 0;) {
    if ((conditions >> i & 1) != 0) {
      conditions |= nodes_[needed[i]].conditions;
    } else {
      needed[i] = kNothing;
    }
  }
  const bool is_nullable_now = is_nullable(expr, holding(needed));
  return intern({.kind = Kind::located,
                 .nullable = is_nullable_now ? Nullable::yes : Nullable::no,
                 .is_inhabited = is_nullable_now,
                 .first = expr,
                 .min = static_cast<std::uint32_t>(needed.size())},
                needed);
}

std::uint32_t ExprSet::holding(std::span<const Expr> before) {
  const std::vector<Expr> exprs(before.begin(), before.end());  // lists_ may grow
  std::uint32_t result = 0;
  for (std::size_t i = 0; i < exprs.size(); ++i) {
    if (is_nullable(exprs[i], result)) result |= std::uint32_t{1} << i;
  }
  return result;
}

// ---- what is known without a walk ---------------------------------------------------------------

// False: not known. It looks at the form alone, for at most one part beside those that hold
// everything; a search is dear and is done by the automaton.
bool ExprSet::has_text(Expr expr) const {
  const Node& node = nodes_[expr];
  if (node.is_inhabited) return true;
  std::optional<Expr> rest;  // the expressions other than the set of all texts
  for (const Expr part : intersected(expr)) {
    if (is_every_text(part)) continue;
    if (rest) return false;
    rest = part;
  }
  if (!rest) return true;
  const Node& last = nodes_[*rest];
  const std::span<const Expr> ways =
      last.kind == Kind::any_of ? list_of(last) : std::span(&*rest, 1);
  return std::ranges::any_of(ways, [&](Expr part) { return can_be_completed(part); });
}

// ---- bytes that are one -------------------------------------------------------------------------

ByteSet ExprSet::alphabet(Expr expr) {
  return find_bytes(expr, Where::anywhere, 0);
}

ByteSet ExprSet::last_bytes(Expr expr) {
  return find_bytes(expr, Where::at_the_end, 0);
}

// The bytes that texts of the expression can have, anywhere or as their last one; never too few.
// They are kept by expression, because derivatives share most of their parts.
ByteSet ExprSet::find_bytes(Expr expr, Where where, unsigned depth) {
  constexpr unsigned kDeepest = 100;
  constexpr std::size_t kMostKept = 100'000;
  if (depth > kDeepest || expr == kAnything) return ByteSet::all();
  const bool at_the_end = where == Where::at_the_end;
  auto& kept = at_the_end ? last_bytes_ : alphabets_;
  if (const auto known = kept.find(expr); known != kept.end()) return known->second;
  ByteSet result;
  Expr rest = expr;
  // The last part of a sequence is at its end, and before it come parts followed only by ones that
  // can be empty.
  for (; nodes_[rest].kind == Kind::concat; rest = nodes_[rest].second) {
    const bool may_end = nodes_[nodes_[rest].second].nullable != Nullable::no;
    if (may_end || !at_the_end) result |= find_bytes(nodes_[rest].first, where, depth + 1);
  }
  const Node& node = nodes_[rest];
  switch (node.kind) {
    case Kind::nothing:
    case Kind::epsilon:
    case Kind::concat:
      break;
    case Kind::bytes:
      result |= byte_sets_[node.first];
      break;
    case Kind::any_of:
      for (const Expr part : list_of(node)) result |= find_bytes(part, where, depth + 1);
      break;
    case Kind::all_of: {
      ByteSet common = ByteSet::all();
      for (const Expr part : list_of(node)) {
        const ByteSet bytes = find_bytes(part, where, depth + 1);
        // If anything may follow, each part may be the last one.
        if (at_the_end) result |= bytes;
        common &= bytes;
      }
      if (!at_the_end) result |= common;
      break;
    }
    case Kind::repeat:
      // Anything at the end adds no bytes: the shortest strings do without it.
      if (rest != kAnything || !at_the_end) result |= find_bytes(node.first, where, depth + 1);
      break;
    case Kind::complement:
    case Kind::guarded:
    case Kind::loop:
    case Kind::located:
      result = ByteSet::all();
      break;
  }
  if (kept.size() < kMostKept) kept.emplace(expr, result);
  return result;
}

// Bytes one of which is in every string of `expr`, apart from an "anything" at its end; nothing:
// not known. If several parts of a sequence have such bytes, those that the fewest words contain.
std::optional<ByteSet> ExprSet::find_signs(Expr expr, unsigned depth) {
  constexpr unsigned kDeepest = 100;
  constexpr std::size_t kMostKept = 100'000;
  if (depth > kDeepest || nodes_[expr].nullable != Nullable::no) return std::nullopt;
  if (const auto known = signs_.find(expr); known != signs_.end()) return known->second;
  const auto frequency = [](const ByteSet& set) {
    constexpr std::size_t kOfLetter = 32;
    const ByteSet letters = ByteSet::range('a', 'z') | ByteSet::range('A', 'Z') |
                            ByteSet::range('0', '9') | ByteSet::of(' ') |
                            ByteSet::range(0x80, 0xFF);
    return set.size() + kOfLetter * (set & letters).size();
  };
  std::optional<ByteSet> result;
  const auto take_rarer = [&](const std::optional<ByteSet>& signs) {
    if (signs && (!result || frequency(*signs) < frequency(*result))) result = signs;
  };
  Expr rest = expr;
  for (; nodes_[rest].kind == Kind::concat; rest = nodes_[rest].second) {
    take_rarer(find_signs(nodes_[rest].first, depth + 1));
  }
  const Node& node = nodes_[rest];
  switch (node.kind) {
    case Kind::nothing:
      result = ByteSet{};
      break;
    case Kind::bytes:
      take_rarer(byte_sets_[node.first]);
      break;
    case Kind::any_of: {
      std::optional<ByteSet> all = ByteSet{};
      for (const Expr part : list_of(node)) {
        const auto signs = all ? find_signs(part, depth + 1) : std::nullopt;
        all = signs ? std::optional(*all | *signs) : std::nullopt;
      }
      take_rarer(all);
      break;
    }
    case Kind::all_of:
      for (const Expr part : list_of(node)) take_rarer(find_signs(part, depth + 1));
      break;
    case Kind::repeat:
      if (node.min > 0) take_rarer(find_signs(node.first, depth + 1));
      break;
    case Kind::epsilon:
    case Kind::concat:
    case Kind::complement:
    case Kind::guarded:
    case Kind::loop:
    case Kind::located:
      break;
  }
  if (signs_.size() < kMostKept) signs_.emplace(expr, result);
  return result;
}

// Requires that the empty string is in `expr`. A byte that leads out of `expr` ends one of the
// texts that are left out, and is not part of a longer character: from within a
// character, the
// character's end would still be in `expr`.
std::optional<ExprSet::AllBut> ExprSet::as_all_but(Expr expr) {
  if (!is_nullable(expr)) return std::nullopt;
  AllBut result{kNothing, {}};
  for (const Expr part : intersected(expr)) {
    const Node& node = nodes_[part];
    if (is_every_text(part)) {
      result.text = part;
      continue;
    }
    if (node.kind != Kind::complement) return std::nullopt;
    const Expr left_out = node.first;
    const auto signs = find_signs(left_out, 0);
    if (!signs || !(last_bytes(left_out) & ByteSet::range(0x80, 0xFF)).is_empty()) {
      return std::nullopt;
    }
    result.signs |= *signs;
  }
  return result.text == kNothing ? std::nullopt : std::optional(result);
}

// Bytes that no set of the expression tells apart have one class, so an automaton needs one step
// for each class and not for each of 256 bytes.
std::array<std::uint8_t, 256> ExprSet::byte_classes(Expr expr) const {
  std::array<std::uint8_t, 256> classes{};
  std::array<std::uint16_t, 256> sizes{256};  // by class
  std::array<std::uint16_t, 256> inside{};    // by class: how many of its bytes are in the set
  std::array<std::uint8_t, 256> fresh{};      // by class: its new number
  std::size_t number = 1;
  std::vector<std::uint8_t> met;  // classes with bytes in the set
  // Takes time in proportion to the bytes of the set, since most sets are one letter of a literal.
  const auto refine = [&](const ByteSet& set) {
    const auto for_each_byte = [&set](auto f) {
      for (std::size_t i = 0; i < set.words().size(); ++i) {
        for (std::uint64_t word = set.words()[i]; word != 0; word &= word - 1) {
          f(64 * i + static_cast<std::size_t>(std::countr_zero(word)));
        }
      }
    };
    met.clear();
    for_each_byte([&](std::size_t byte) {
      if (inside[classes[byte]]++ == 0) met.push_back(classes[byte]);
    });
    for (const std::uint8_t old : met) {
      const bool is_split = inside[old] < sizes[old];
      fresh[old] = is_split ? static_cast<std::uint8_t>(number++) : old;
      if (!is_split) continue;
      sizes[fresh[old]] = inside[old];
      sizes[old] = static_cast<std::uint16_t>(sizes[old] - inside[old]);
    }
    for (const std::uint8_t old : met) inside[old] = 0;
    for_each_byte([&](std::size_t byte) { classes[byte] = fresh[classes[byte]]; });
  };
  for_each_node(std::span(&expr, 1), [&](const Node& node) {
    if (node.kind == Kind::bytes) refine(byte_sets_[node.first]);
  });
  return classes;
}

}  // namespace tenon::regex
