#include "tenon/grammar/json/array_items.h"

#include <algorithm>
#include <string>

#include "tenon/grammar/json/shapes.h"
#include "tenon/schema/values.h"

// Three conditions need a memory: `contains` counts the items that fit, `uniqueItems` asks for the
// values that have come, and an array that is excluded (a `not` of a `const`) must differ
// somewhere. choices() splits the term of the next item by them: an item that fits a `contains` and
// one that does not, an item that continues an excluded array and one that differs. A choice is
// offered only if it has a value that is not taken and the array can still come to an end behind
// it.

namespace tenon::grammar {
namespace {

// Decides by an item's text, perhaps with whitespace around it.
bool is_number(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \n\r\t");
  return first != std::string_view::npos &&
         std::string_view("-0123456789").find(text[first]) != std::string_view::npos;
}

}  // namespace

ArrayItems::ArrayItems(JsonContext& context, const ArrayShape& shape)
    : context_(context), shape_(shape), most_(context.shapes.satisfiable.most_items(shape)) {
  // Without a largest length, items are counted only as far as the count can still matter: beyond
  // the prefix, the least length, and the lengths of excluded arrays. So an array of any length has
  // a bounded number of states.
  if (most_ == schema::Counts::kUnbounded) {
    last_count_ = std::max<std::uint64_t>(shape_.prefix.size() + 1, shape_.length.least);
    for (const json::Value* value : shape_.excluded) {
      last_count_ = std::max<std::uint64_t>(last_count_, value->if_array()->size() + 1);
    }
    for (const auto& contained : shape_.contained) {
      last_count_ = std::max(last_count_, contained.from);
    }
  }
  (void)intern({.taken = &*taken_.emplace().first,
                .fitting = std::vector<std::uint64_t>(shape_.contained.size()),
                .like = shape_.excluded});
  seen_.emplace_back();
  for (std::size_t i = 0; i <= shape_.prefix.size() && shape_.unique; ++i) {
    takes_ = takes_ || !context_.shapes.values.is_boundless_but_for_numbers(item_term(i));
  }
}

ArrayItems::MemoryId ArrayItems::beginning(std::size_t at) {
  Memory memory = memories_[0];
  memory.before = memory.begin = at;
  return intern(memory);
}

ArrayItems::MemoryId ArrayItems::with_choice(MemoryId id, const Choice& choice) {
  Memory memory = memories_[id];
  memory.fitting = choice.fitting;
  memory.like = choice.like;
  return intern(memory);
}

std::size_t ArrayItems::memory_bytes() const {
  constexpr std::size_t kSeenBytes = 150;
  return bytes_of_memories_ + seen_.size() * kSeenBytes;
}

// A cell has 64 bits of local state, so what an array remembers of its items is a number here.
// Equal memories have equal numbers, which lets stacks that differ in nothing else become one.
ArrayItems::MemoryId ArrayItems::intern(const Memory& memory) {
  const auto [place, is_new] =
      memory_ids_.try_emplace(memory, static_cast<std::uint32_t>(memories_.size()));
  if (is_new) {
    memories_.push_back(memory);
    constexpr std::size_t kNodeBytes = 64;
    bytes_of_memories_ +=
        kNodeBytes + 2 * (sizeof(Memory) + memory.fitting.size() * sizeof(std::uint64_t) +
                          memory.like.size() * sizeof(json::Value*));
  }
  return place->second;
}

std::uint32_t ArrayItems::least_from(Machine& machine, std::uint64_t from, std::uint64_t to) const {
  to = std::max(to, shape_.length.least);
  std::uint64_t sum = 1;  // the closing bracket
  for (; from < to && sum < Machine::kFar; ++from) {
    const std::uint64_t one = machine.least(context_.value(item_term(from))) + (from > 0 ? 1 : 0);
    // From there on all items have the same term.
    const bool is_rest = from >= shape_.prefix.size();
    sum += one * std::min<std::uint64_t>(is_rest ? to - from : 1, Machine::kFar);
    if (is_rest) break;
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(sum, Machine::kFar));
}

// ---- What has been read ----------------------------------------------------------------------

// The item before the next one, if there is one.
std::optional<json::Value> ArrayItems::last_item(const Memory& memory, std::string_view text) {
  return context_.parsed(text.substr(memory.before, memory.begin - memory.before - 1));
}

// Whether the item at the end of `text` differs from all others.
bool ArrayItems::is_new(const Memory& memory, std::string_view text) {
  const auto value = context_.parsed(text.substr(memory.begin));
  if (!value) return false;
  if (memory.begin > memory.before) {
    const auto last = last_item(memory, text);
    if (!last || *last == *value) return false;
  }
  const auto [from, to] = seen_by_hash_.equal_range(schema::hash_of(*value));
  return std::none_of(from, to, [&](const auto& entry) {
    const std::uint32_t wanted = entry.second;
    if (seen_[wanted].value != *value) return false;
    std::uint32_t at = memory.seen;
    const std::uint32_t depth = seen_[wanted].depth;
    while (seen_[at].depth > depth) {
      const std::uint32_t jump = seen_[at].jump;
      at = seen_[jump].depth >= depth ? jump : seen_[at].before;
    }
    return at == wanted;
  });
}

// The memory after the comma at the end of `text`.
std::optional<ArrayItems::MemoryId> ArrayItems::with_item(MemoryId id, std::string_view text) {
  Memory memory = memories_[id];
  const std::string_view item = text.substr(memory.begin, text.size() - 1 - memory.begin);
  if (takes_ || is_number(item)) {
    const auto value = context_.parsed(item);
    if (!value) return std::nullopt;
    take(memory, *value);
  }
  if (memory.begin > memory.before) {
    const auto last = last_item(memory, text);
    if (!last) return std::nullopt;
    memory.seen = with(memory.seen, *last);
  }
  memory.before = std::exchange(memory.begin, text.size());
  return intern(memory);
}

// Remembers a value that must not come again. Numbers go into a trie, other values into a sorted
// list of terms, up to kMostTaken. A text with very many continuations needs no place, because
// excluding it never leaves nothing.
void ArrayItems::take(Memory& memory, const json::Value& value) {
  if (value.if_number() != nullptr) {
    memory.numbers = context_.with(memory.numbers, value);
  } else if (!takes_) {
    return;
  } else if (value.if_string() != nullptr && is_spare(*value.if_string())) {
    memory.all_taken = false;
  } else if (memory.taken->size() < kMostTaken) {
    memory.taken = with_taken(*memory.taken, context_.term_of(value));
  } else {
    memory.all_taken = false;
  }
}

// So many values begin with any text of an item that items cannot run out. So it is enough to
// check afterwards that the item does not come twice.
bool ArrayItems::is_spare(const std::string& text) {
  for (std::size_t i = 0; i <= shape_.prefix.size(); ++i) {
    if (!context_.shapes.strings.has_many_longer(item_term(i), text)) return false;
  }
  return true;
}

const std::vector<Term>* ArrayItems::with_taken(std::vector<Term> taken, Term term) {
  taken.insert(std::ranges::upper_bound(taken, term), term);
  const auto [place, is_new] = taken_.insert(std::move(taken));
  constexpr std::size_t kNodeBytes = 64;
  if (is_new) bytes_of_memories_ += kNodeBytes + place->size() * sizeof(Term);
  return &*place;
}

// Lists of values that share their beginnings. Each entry has a jump to an earlier one, so that a
// value is found in logarithmic time (a skip list that is only appended to, Myers 1983).
std::uint32_t ArrayItems::with(std::uint32_t seen, const json::Value& value) {
  const std::uint64_t hash = schema::hash_of(value);
  const auto [from, to] = seen_by_hash_.equal_range(hash);
  const auto known = std::find_if(from, to, [&](const auto& entry) {
    return seen_[entry.second].before == seen && seen_[entry.second].value == value;
  });
  if (known != to) return known->second;
  const auto id = static_cast<std::uint32_t>(seen_.size());
  const std::uint32_t jump = seen_[seen].jump;
  const std::uint32_t far = seen_[jump].jump;
  const bool is_even =
      seen_[seen].depth - seen_[jump].depth == seen_[jump].depth - seen_[far].depth;
  seen_.push_back({seen, is_even ? far : seen, seen_[seen].depth + 1, value});
  seen_by_hash_.emplace(hash, id);
  return id;
}

// ---- What may come ---------------------------------------------------------------------------

Term ArrayItems::item_term(std::uint64_t index) const {
  return index < shape_.prefix.size() ? shape_.prefix[index] : shape_.items;
}

// What the item may be without the values that are taken (except numbers) and those that must be
// left to other items. Nothing: no item can come. Objects are left out by the frames that read
// them where that is possible, because a term without them has frames of its own.
std::optional<ArrayItems::Rest> ArrayItems::next_rest(std::uint64_t count, const Memory& memory) {
  const Term item = item_term(count);
  const std::vector<Term>* const taken = memory.taken;
  if (!shape_.unique || (taken->empty() && count >= shape_.length.least)) return Rest{item};
  const bool is_last = count + 1 >= shape_.length.least;  // of the required ones
  const JsonContext::Numbers numbers = is_last ? JsonContext::kNoNumbers : memory.numbers;
  if (last_next_ && last_next_->count == count && last_next_->numbers == numbers &&
      last_next_->taken == taken) {
    return last_next_->rest;
  }
  Terms& terms = context_.shapes.terms();
  std::vector<const json::Value*> values = context_.values_of(numbers);
  for (const Term term : *taken) values.push_back(&terms.value_of(term));
  const auto spoilers = context_.shapes.values.spoilers(shape_, count, values);
  if (!spoilers) return std::nullopt;
  std::vector<Term> all{item};
  Objects objects;
  for (const Term term : *taken) {
    const json::Value& value = terms.value_of(term);
    if (value.if_object() != nullptr && shape_.contained.empty() && memory.like.empty()) {
      objects.push_back(&value);
    } else {
      all.push_back(terms.negation(term));
    }
  }
  for (const json::Value& value : *spoilers) {
    all.push_back(terms.negation(context_.term_of(value)));
  }
  Rest rest{terms.all_of(all), context_.id_of(objects)};
  if (!context_.can_leave_out(rest.term, rest.but)) {
    for (const json::Value* value : objects) {
      all.push_back(terms.negation(context_.term_of(*value)));
    }
    rest = {terms.all_of(std::move(all))};
  }
  last_next_ = Next{count, numbers, taken, rest};
  return rest;
}

// Whether the term has a value that is not taken.
bool ArrayItems::has_some(const Choice& choice, const Memory& memory) {
  Shapes& shapes = context_.shapes;
  const Term term = choice.term;
  if (memory.numbers == JsonContext::kNoNumbers && choice.but == JsonContext::kNoObjects) {
    return shapes.is_satisfiable(term);
  }
  return context_.has_number(term, memory.numbers) || shapes.constants.of(term).any() ||
         shapes.is_satisfiable(shapes.strings.text(term)) || !shapes.arrays.of(term).empty() ||
         context_.has_object(term, choice.but);
}

// The choices for an item: which of `contained` it fits, as far as that still matters, and which
// excluded arrays continue with it. `is_one_enough`: only the first one that is found.
std::vector<ArrayItems::Choice> ArrayItems::choices(std::uint64_t count, const Memory& memory,
                                                    bool is_one_enough) {
  std::vector<Choice> result;
  if (count >= most_ || !context_.shapes.spend(1 + memory.taken->size() + memory.like.size())) {
    return result;
  }
  const std::optional<Rest> next = next_rest(count, memory);
  if (!next) return result;
  std::vector<Choice> all{{next->term, memory.fitting, {}, next->but}};
  Terms& terms = context_.shapes.terms();
  for (std::size_t i = 0; i < shape_.contained.size(); ++i) {
    const ArrayShape::Contained& contained = shape_.contained[i];
    const bool is_settled = contained.counts.most == schema::Counts::kUnbounded &&
                            all[0].fitting[i] >= contained.counts.least;
    if (count < contained.from || is_settled) continue;
    const std::size_t size = all.size();
    for (std::size_t j = 0; j < size; ++j) {
      Choice fits{terms.all_of({all[j].term, contained.term}), all[j].fitting, {}};
      ++fits.fitting[i];
      all[j].term = terms.all_of({all[j].term, terms.negation(contained.term)});
      all.push_back(std::move(fits));
    }
  }
  if (!memory.like.empty()) all = by_excluded(all, count, memory);
  const bool is_plain = all.size() == 1 && next->term == item_term(count) &&
                        next->but == JsonContext::kNoObjects && memory.like.empty() &&
                        memory.numbers == JsonContext::kNoNumbers;
  // Those that differ from all excluded arrays come last, and need no further decision.
  if (is_one_enough) std::ranges::reverse(all);
  for (Choice& choice : all) {
    if (is_one_enough && !result.empty()) break;
    const bool is_possible = is_plain || (has_some(choice, memory) &&
                                          context_.shapes.satisfiable.can_end(
                                              shape_, most_, count + 1, choice.fitting) &&
                                          can_differ(count + 1, memory, choice));
    if (is_possible) result.push_back(std::move(choice));
  }
  return result;
}

// Splits each choice into one that differs from the next items of the excluded arrays that
// memory.like lists, and one for each of these items.
std::vector<ArrayItems::Choice> ArrayItems::by_excluded(const std::vector<Choice>& choices,
                                                        std::uint64_t count, const Memory& memory) {
  std::vector<std::pair<Term, std::vector<const json::Value*>>> groups;
  for (const json::Value* value : memory.like) {
    const json::Array& items = *value->if_array();
    if (items.size() <= count) continue;
    const Term item = context_.term_of(items[count]);
    const auto is_it = [&](const auto& group) { return group.first == item; };
    auto group = std::ranges::find_if(groups, is_it);
    if (group == groups.end()) group = groups.insert(groups.end(), {item, {}});
    group->second.push_back(value);
  }
  Terms& terms = context_.shapes.terms();
  std::vector<Choice> result;
  for (const Choice& choice : choices) {
    std::vector<Term> others{choice.term};
    for (const auto& [item, like] : groups) {
      others.push_back(terms.negation(item));
      result.push_back({terms.all_of({choice.term, item}), choice.fitting, like});
    }
    result.push_back({terms.all_of(std::move(others)), choice.fitting, {}});
  }
  return result;
}

// Whether, after the choice, the array can end as one that is not excluded.
bool ArrayItems::can_differ(std::uint64_t count, const Memory& before, const Choice& choice) {
  if (choice.like.empty()) return true;
  Memory memory = before;
  memory.fitting = choice.fitting;
  memory.like = choice.like;
  if (shape_.unique) take(memory, (*choice.like[0]->if_array())[count - 1]);
  if (may_end(count, memory)) return true;
  constexpr std::size_t kMostInARow = 500;  // because choices() asks this for the next item
  if (decisions_ == kMostInARow) {
    context_.machine.fail(
        {Errc::limit_exceeded, "schema: more than " + std::to_string(kMostInARow) +
                                   " items in a row leave no choice but to equal an array that is "
                                   "excluded"});
    return false;
  }
  ++decisions_;
  const bool has_choice = !choices(count, memory, true).empty();
  --decisions_;
  return has_choice;
}

// Whether the array may end after `count` items: conditions on their number are met, and it is
// none of the excluded arrays.
bool ArrayItems::may_end(std::uint64_t count, const Memory& memory) const {
  for (std::size_t i = 0; i < memory.fitting.size(); ++i) {
    const schema::Counts& counts = shape_.contained[i].counts;
    if (memory.fitting[i] < counts.least || memory.fitting[i] > counts.most) return false;
  }
  const auto is_it = [&](const json::Value* value) { return value->if_array()->size() == count; };
  context_.shapes.spend(memory.like.size() / kComparedPerStep);
  return count >= shape_.length.least && std::ranges::none_of(memory.like, is_it);
}

}  // namespace tenon::grammar
