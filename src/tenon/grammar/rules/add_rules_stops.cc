// Texts that must not contain certain stops: the second pass of add_rules.cc.

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/grammar/rules/add_rules_parts.h"

namespace tenon::grammar::adding {

// A place is the longest prefix of a stop with which the text so far ends. Each item is made once
// for each pair of places, before it and after it, that can occur.
class Adder::Stopping {
 public:
  Stopping(Adder& adder, const node::Both& both) : adder_(adder), exprs_(*adder.exprs_) {
    for (const NodeId part : both.parts) {
      if (!adder.languages_[part]) {
        whole_ = kFirstNode + part;
        continue;
      }
      const auto& stops = std::get<node::Text>(adder.rules_.node(part)).stops;
      stops_.insert(stops_.end(), stops.begin(), stops.end());
    }
    for (const std::string& stop : stops_) {
      for (std::size_t size = 0; size < stop.size(); ++size)
        places_.push_back(stop.substr(0, size));
    }
    std::ranges::sort(places_);
    const auto twice = std::ranges::unique(places_);
    places_.erase(twice.begin(), twice.end());
    for (const std::string& place : places_) longest_ = std::max(longest_, place.size());
  }

  ItemId item() {
    if (places_.size() > kMaxPlaces) {
      adder_.fail({Errc::limit_exceeded, "grammar: the stops of a text are too long"});
      return kNothing;
    }
    // Asks first, so that find_ends() has something to find.
    ends(whole_, kStart);
    find_ends();
    std::vector<ItemId> ways;
    for_each(ends(whole_, kStart), [&](Place end) { ways.push_back(made(whole_, kStart, end)); });
    while (!todo_.empty() && !adder_.is_too_large()) {
      // Rules and repetitions get a rule now and its body here, since they may contain themselves.
      const auto [rule, key] = todo_.back();
      todo_.pop_back();
      const auto [id, from, to] = key;
      const ItemId body = adder_.items_[id].kind == Item::Kind::rule
                              ? made(adder_.bodies_[adder_.items_[id].what], from, to)
                              : made_repetition(id, from, to);
      adder_.bodies_[rule] = body;
    }
    return adder_.choice(std::move(ways));
  }

 private:
  using Place = std::uint32_t;
  using Places = std::uint64_t;  // bits
  using Key = std::tuple<ItemId, Place, Place>;
  static constexpr Place kStart = 0;  // no stop has begun
  static constexpr std::size_t kMaxPlaces = 64;
  static constexpr std::size_t kMaxVisits = 2'000'000;  // for ends()
  static constexpr std::uint32_t kMaxCopies = 100;      // of repeated items
  static constexpr int kMaxDepth = 500;

  template <class F>
  static void for_each(Places places, F f) {
    for (Place place = 0; places != 0; ++place, places >>= 1U) {
      if ((places & 1U) != 0) f(place);
    }
  }
  static Places bit(Place place) { return Places{1} << place; }

  void refuse() {
    adder_.fail({Errc::unsupported,
                 "a text that ends at a stop cannot hold special tokens, JSON schemas or "
                 "repetitions that are counted beyond " +
                     std::to_string(kMaxCopies)});
  }

  // ---- Which places there are behind each item --------------------------------------------------

  // Finds the least sets in rounds. What is asked for later is mostly part of what was asked
  // before, and the results of an earlier call do not depend on later questions.
  void find_ends() {
    // The latest question first: it is usually a part of an earlier one, whose answer then is whole
    // sooner.
    for (bool changes = true; changes && !adder_.error_;) {
      changes = false;
      for (std::size_t i = asked_.size(); i-- > settled_ && !adder_.error_;) {
        const auto [id, from] = asked_[i];
        const Places found = ends_from(id, from);
        Places& known = ends_.at({id, from});
        changes = changes || found != known;
        known = found;
      }
      changes = changes || has_asked_;
      has_asked_ = false;
    }
    settled_ = asked_.size();
  }
  // The places that are known so far behind `id`, when it is read from `from`. A new question is
  // put on the list, and has no places until find_ends() has asked it.
  Places ends(ItemId id, Place from) {
    if (++visits_ > kMaxVisits) {
      if (!adder_.error_) {
        adder_.fail({Errc::limit_exceeded, "grammar: a text with stops has too many rules"});
      }
      return 0;
    }
    const auto [known, is_new] = ends_.try_emplace({id, from}, 0);
    if (is_new) {
      asked_.emplace_back(id, from);
      has_asked_ = true;
    }
    return known->second;
  }
  Places ends(ItemId id, Places from) {
    Places result = 0;
    for_each(from, [&](Place place) { result |= ends(id, place); });
    return result;
  }
  Places ends_from(ItemId id, Place from) {
    const Item& item = adder_.items_[id];
    switch (item.kind) {
      case Item::Kind::lexeme:
        return ends_of_lexeme(item.what, from);
      case Item::Kind::leaf: {
        const auto* literal = std::get_if<node::Literal>(&adder_.rules_.node(item.what));
        if (literal == nullptr) {
          refuse();
          return 0;
        }
        if (const Places known = ends_.at({id, from}); known != 0) return known;
        const auto end = behind(places_[from] + literal->bytes);
        return end ? bit(*end) : 0;
      }
      case Item::Kind::sequence: {
        Places places = bit(from);
        for (const ItemId part : item.parts) places = ends(part, places);
        return places;
      }
      case Item::Kind::choice: {
        Places places = 0;
        for (const ItemId part : item.parts) places |= ends(part, from);
        return places;
      }
      case Item::Kind::repeat:
        return ends_of_repetition(item, from);
      case Item::Kind::rule:
        return ends(adder_.bodies_[item.what], from);
    }
    return 0;
  }
  Places ends_of_repetition(const Item& item, Place from) {
    Places places = bit(from);
    for (std::uint32_t i = 0; i < std::min(item.min, kMaxCopies); ++i) {
      places = ends(item.parts[0], places);
    }
    // Any larger number of times; the few ways that a bound excludes are left out when the item is
    // made.
    for (Places before = 0; before != places;) {
      before = places;
      places |= ends(item.parts[0], places);
    }
    return places;
  }
  // An expression behind which a place can be reached has a text that leads there: the intersection
  // with between() is not empty. That is dear, so places whose last byte the expression never has
  // are left out before.
  Places ends_of_lexeme(Expr expr, Place from) {
    const auto [known, is_new] = lexeme_ends_.try_emplace({expr, from}, 0);
    if (!is_new) return known->second;
    const regex::ByteSet bytes = exprs_.alphabet(expr);
    Places result = 0;
    for (Place to = 0; to < places_.size(); ++to) {
      const std::string& end = places_[to];
      const bool may_end =
          end.empty() || to == from || bytes.contains(static_cast<std::uint8_t>(end.back()));
      if (may_end && adder_.has_text(exprs_.both(expr, between(from, to)))) result |= bit(to);
    }
    return lexeme_ends_[{expr, from}] = result;
  }

  // The place after `text`; nothing if it contains a stop.
  [[nodiscard]] std::optional<Place> behind(std::string_view text) const {
    for (const std::string& stop : stops_) {
      if (text.find(stop) != std::string_view::npos) return std::nullopt;
    }
    // The longest end of the text that is a place; "" always is.
    for (text.remove_prefix(text.size() - std::min(text.size(), longest_));;
         text.remove_prefix(1)) {
      const auto found = std::ranges::lower_bound(places_, text);
      if (found != places_.end() && *found == text) {
        return static_cast<Place>(found - places_.begin());
      }
    }
  }
  // The texts that lead from one place to the other.
  Expr between(Place from, Place to) {
    std::vector<Expr> longer;
    for (const std::string& place : places_) {
      if (place.size() > places_[to].size() && place.ends_with(places_[to])) {
        longer.push_back(ending_with(place));
      }
    }
    std::vector<Expr> found;
    for (const std::string& stop : stops_) {
      found.push_back(exprs_.concat(ending_with(stop), ExprSet::kAnything));
    }
    longer.push_back(exprs_.any_of(found));
    Expr expr = exprs_.both(ending_with(places_[to]), exprs_.complement(exprs_.any_of(longer)));
    for (const char byte : places_[from]) {
      expr = exprs_.derivative(expr, static_cast<std::uint8_t>(byte));
    }
    return expr;
  }
  Expr ending_with(std::string_view text) {
    return exprs_.concat(ExprSet::kAnything, exprs_.literal(text));
  }

  // ---- The items that read from one place to another --------------------------------------------

  // `to` must be one of ends(id, from).
  ItemId made(ItemId id, Place from, Place to) {
    if ((ends(id, from) & bit(to)) == 0 || adder_.is_too_large()) return kNothing;
    const Item item = adder_.items_[id];  // a copy: items_ grows
    // A literal leads from a place to one other place only, so it need not be cut down.
    if (item.kind == Item::Kind::leaf) return id;
    const auto [known, is_new] = made_.try_emplace({id, from, to}, kNothing);
    if (!is_new) return known->second;
    if (++depth_ > kMaxDepth) {
      adder_.fail({Errc::limit_exceeded,
                   "grammar: a text with stops has too many groups in "
                   "groups"});
    }
    const ItemId result = make(id, item, from, to);
    --depth_;
    return made_[{id, from, to}] = result;
  }
  ItemId make(ItemId id, const Item& item, Place from, Place to) {
    switch (item.kind) {
      case Item::Kind::lexeme: {
        const Expr expr = exprs_.both(item.what, between(from, to));
        return adder_.add_item(
            {.kind = Item::Kind::lexeme, .can_be_empty = exprs_.is_nullable(expr), .what = expr});
      }
      case Item::Kind::sequence:
        return made_sequence(item.parts, from, to);
      case Item::Kind::choice: {
        std::vector<ItemId> ways;
        for (const ItemId part : item.parts) ways.push_back(made(part, from, to));
        return one_of(std::move(ways));
      }
      default: {
        const RuleId rule = adder_.add_rule();
        todo_.emplace_back(rule, Key{id, from, to});
        return adder_.rule_item(rule);
      }
    }
  }
  ItemId one_of(std::vector<ItemId> ways) {
    std::erase(ways, kNothing);
    return adder_.choice(std::move(ways));
  }
  ItemId made_sequence(const std::vector<ItemId>& parts, Place from, Place to) {
    // By place, from the end of the sequence to its beginning.
    // Forwards: where each part can begin. Then backwards, because only ways that come to `to` are
    // wanted. Ways that meet in a place share the rest, so the size is places times parts and not
    // the number of ways.
    std::vector<Places> before{bit(from)};
    for (const ItemId part : parts) before.push_back(ends(part, before.back()));
    std::vector<ItemId> rest(places_.size(), kNothing);
    rest[to] = kEmpty;
    for (std::size_t i = parts.size(); i-- > 0;) {
      std::vector<ItemId> here(places_.size(), kNothing);
      for_each(before[i], [&](Place place) {
        std::vector<ItemId> ways;
        for_each(ends(parts[i], place), [&](Place next) {
          if (rest[next] == kNothing) return;
          ways.push_back(adder_.sequence({made(parts[i], place, next), rest[next]}));
        });
        here[place] = one_of(std::move(ways));
      });
      rest = std::move(here);
    }
    return rest[from];
  }
  // The body of the rule for a repetition: `x{2,}` is `x x{1,}`, and `x*` is `x x*` or empty.
  ItemId made_repetition(ItemId id, Place from, Place to) {
    const Item item = adder_.items_[id];
    const bool is_counted = item.max != node::kUnbounded;
    if (item.min > kMaxCopies || (is_counted && item.max > kMaxCopies)) {
      refuse();
      return kNothing;
    }
    if (item.max == 0) return from == to ? kEmpty : kNothing;
    Item less = item;
    less.min -= std::min(less.min, 1U);
    if (is_counted) --less.max;
    // For `x*` the rest is the repetition itself.
    const ItemId rest = less.min == item.min && !is_counted ? id : shorter(id, std::move(less));
    // The result for a new item is not known yet.
    if (has_asked_ || !ends_.contains({rest, from})) {
      for (Place place = 0; place < places_.size(); ++place) ends(rest, place);
      find_ends();
    }
    const ItemId more = made_sequence({item.parts[0], rest}, from, to);
    return item.min == 0 && from == to ? one_of({kEmpty, more}) : more;
  }
  // One item for each repetition, with one copy less.
  ItemId shorter(ItemId id, Item less) {
    const auto [known, is_new] = shorter_.try_emplace(id, kNothing);
    if (is_new) known->second = adder_.add_item(std::move(less));
    return known->second;
  }

  Adder& adder_;
  ExprSet& exprs_;
  ItemId whole_ = kNothing;
  std::vector<std::string> stops_;
  std::vector<std::string> places_;  // in order; the first is ""
  std::size_t longest_ = 0;          // the longest of them
  std::map<std::pair<ItemId, Place>, Places> ends_;
  std::vector<std::pair<ItemId, Place>> asked_;  // of these
  bool has_asked_ = false;
  std::size_t settled_ = 0;  // of asked_
  std::size_t visits_ = 0;
  std::map<std::pair<Expr, Place>, Places> lexeme_ends_;
  std::map<Key, ItemId> made_;
  std::map<ItemId, ItemId> shorter_;
  std::vector<std::pair<RuleId, Key>> todo_;  // rules without a body yet
  int depth_ = 0;
};

void Adder::leave_out_stops() {
  for (std::size_t i = 0; i < texts_.size(); ++i) add_rule();
  for (const auto& [rule, id] : texts_) {
    if (!error_) bodies_[rule] = Stopping(*this, std::get<node::Both>(rules_.node(id))).item();
  }
}

}  // namespace tenon::grammar::adding
