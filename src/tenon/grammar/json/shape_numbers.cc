// Shapes of numbers. A shape is a set that one scanner can follow digit by digit: bounds, divisors,
// excluded numbers, or a list of values. Numbers stay decimal text, as the schema has them, since
// doubles would round bounds and multiples. Integers and fractions are two types of the schema and
// one kind of shape: an integer is a multiple of 1, a fraction is not.

#include <algorithm>
#include <functional>
#include <iterator>

#include "tenon/grammar/json/shape_parts.h"
#include "tenon/grammar/json/shape_rules.h"
#include "tenon/json/decimal.h"

namespace tenon::grammar {

using schema::NodeId;
using schema::Type;

namespace {

// For a number that is read as a decimal.
constexpr std::uint64_t kStepsPerNumber = 4;

bool is_less_number(const std::string& a, const std::string& b) {
  return json::compare(json::decimal_of(a), json::decimal_of(b)) < 0;
}

bool is_integer(const std::string& text) {
  return text.find_first_of(".eE") == std::string::npos;
}

// Sorts, and removes duplicates.
void sort_numbers(std::vector<std::string>& numbers) {
  std::ranges::sort(numbers, is_less_number);
  const auto is_same = [](const std::string& a, const std::string& b) {
    return json::compare(json::decimal_of(a), json::decimal_of(b)) == 0;
  };
  numbers.erase(std::unique(numbers.begin(), numbers.end(), is_same), numbers.end());
}

}  // namespace

std::vector<NumberShape> NumberShapes::rules_of(NodeId id, bool negated) {
  const schema::Node& node = work_.node(id);
  const bool integers = node.types.contains(Type::integer);
  const bool fractions = node.types.contains(Type::fraction);
  bool is_left_out = false;
  if (node.numbers && is_relaxed_) {
    is_left_out = !too_long(*node.numbers).empty();
  } else if (node.numbers) {
    check_places(node);
  }
  const auto is_written = [&](const std::string& number) {
    return !is_left_out || grammar::check_places(number).has_value();
  };
  std::vector<NumberShape> result;
  std::vector<std::string> values;
  if (node.values) {
    for (const json::Value& value : node.values->values()) {
      if (value.if_number() != nullptr) values.push_back(value.if_number()->text);
    }
  }
  if (negated) {
    // A rule that is left out must not make its negation narrower: then any number breaks it.
    if ((!integers && !fractions) || is_left_out) return std::vector<NumberShape>(1);
    // Each alternative breaks one rule. A bound that is broken is the opposite bound, which has the
    // number itself if the rule excludes it, and the other way round.
    if (!integers) result.push_back({{.multiples = {"1"}}});
    if (!fractions) result.push_back({{.no_multiples = {"1"}}});
    if (node.values) result.push_back({{.excluded = std::move(values)}});
    if (node.numbers) {
      const schema::NumberRules& rules = *node.numbers;
      if (rules.minimum) {
        result.push_back(
            {{.maximum = NumberSet::Bound{rules.minimum->value.text, !rules.minimum->exclusive}}});
      }
      if (rules.maximum) {
        result.push_back(
            {{.minimum = NumberSet::Bound{rules.maximum->value.text, !rules.maximum->exclusive}}});
      }
      if (rules.multiple_of) result.push_back({{.no_multiples = {rules.multiple_of->text}}});
    }
    return result;
  }
  if (!integers && !fractions) return result;
  NumberShape shape;
  if (!fractions) shape.set.multiples.emplace_back("1");
  if (!integers) shape.set.no_multiples.emplace_back("1");
  const bool is_whole = !fractions || (!values.empty() && std::ranges::all_of(values, is_integer));
  shape.set.integers_are_spelled = node.integers_are_spelled() || (spells_integers_ && is_whole);
  if (node.numbers) {
    const schema::NumberRules& rules = *node.numbers;
    if (rules.minimum && is_written(rules.minimum->value.text)) {
      shape.set.minimum = {rules.minimum->value.text, rules.minimum->exclusive};
    }
    if (rules.maximum && is_written(rules.maximum->value.text)) {
      shape.set.maximum = {rules.maximum->value.text, rules.maximum->exclusive};
    }
    if (rules.multiple_of && is_written(rules.multiple_of->text)) {
      shape.set.multiples.push_back(rules.multiple_of->text);
    }
  }
  if (!node.values) return {std::move(shape)};
  if (auto met = meet(shape, {of_values(std::move(values))})) result.push_back(std::move(*met));
  return result;
}

std::vector<NumberShape> NumberShapes::value_of(const json::Value& value, bool negated) {
  const json::Number* number = value.if_number();
  if (negated) {
    NumberShape shape;
    if (number != nullptr) shape.set.excluded.push_back(number->text);
    return {std::move(shape)};
  }
  if (number == nullptr) return {};
  return {{of_values({number->text})}};
}

std::vector<std::pair<const char*, Error>> NumberShapes::too_long(
    const schema::NumberRules& rules) {
  std::vector<std::pair<const char*, Error>> result;
  const auto check = [&](const char* keyword, const std::string& number) {
    if (const Status checked = grammar::check_places(number); !checked) {
      result.emplace_back(keyword, checked.error());
    }
  };
  if (rules.minimum) {
    check(rules.minimum->exclusive ? "exclusiveMinimum" : "minimum", rules.minimum->value.text);
  }
  if (rules.maximum) {
    check(rules.maximum->exclusive ? "exclusiveMaximum" : "maximum", rules.maximum->value.text);
  }
  if (rules.multiple_of) check("multipleOf", rules.multiple_of->text);
  return result;
}

// Numbers that are written here have at most so many places.
void NumberShapes::check_places(const schema::Node& node) {
  for (const auto& [keyword, error] : too_long(*node.numbers)) {
    work_.fail(Error::at(error.code, node.location + "/" + keyword, error.message));
  }
}

// The numbers of `values` that can be written.
NumberSet NumberShapes::of_values(std::vector<std::string> values) {
  for (const std::string& value : values) {
    const Status checked = grammar::check_places(value);
    if (!checked)
      work_.fail({checked.error().code, "the value " + value + " " + checked.error().message});
  }
  work_.spend(kStepsPerNumber * values.size());
  sort_numbers(values);
  return {.values = std::move(values)};
}

// The tighter bounds, all multiples, and the values that are in both lists.
std::optional<NumberShape> NumberShapes::meet(const NumberShape& a, const NumberShape& b) {
  work_.spend(1 + a.set.excluded.size() + b.set.excluded.size());
  if (a.set.values && b.set.values) {
    work_.spend(kStepsPerNumber * (a.set.values->size() + b.set.values->size()));
  }
  NumberShape result = a;
  const auto tighter = [](std::optional<NumberSet::Bound>& into,
                          const std::optional<NumberSet::Bound>& from, bool is_minimum) {
    if (!from) return;
    if (!into) {
      into = from;
      return;
    }
    const auto order = json::compare(json::decimal_of(from->value), json::decimal_of(into->value));
    if (order == 0) {
      into->exclusive = into->exclusive || from->exclusive;
    } else if ((order > 0) == is_minimum) {
      into = from;
    }
  };
  tighter(result.set.minimum, b.set.minimum, true);
  tighter(result.set.maximum, b.set.maximum, false);
  merge_sorted(result.set.multiples, b.set.multiples);
  merge_sorted(result.set.no_multiples, b.set.no_multiples);
  if (result.set.no_multiples.size() > 1) {
    const std::size_t steps = result.set.no_multiples.size();
    if (!work_.spend(kStepsPerNumber * steps * steps)) return std::nullopt;
    drop_implied_steps(result.set);
  }
  merge_sorted(result.set.excluded, b.set.excluded);
  result.set.integers_are_spelled |= b.set.integers_are_spelled;
  result.needs_check |= b.needs_check;
  if (a.set.values && b.set.values) {
    result.set.values.emplace();
    std::ranges::set_intersection(*a.set.values, *b.set.values,
                                  std::back_inserter(*result.set.values), is_less_number);
  } else if (b.set.values) {
    result.set.values = b.set.values;
  }
  if (result.set.values) return settled(std::move(result));
  // Whether divisors leave any number between the bounds is asked by is_possible(), which costs
  // more.
  if (result.set.minimum && result.set.maximum) {
    const auto order = json::compare(json::decimal_of(result.set.minimum->value),
                                     json::decimal_of(result.set.maximum->value));
    if (order > 0) return std::nullopt;
    if (order == 0 && (result.set.minimum->exclusive || result.set.maximum->exclusive ||
                       !result.set.contains(result.set.minimum->value))) {
      return std::nullopt;
    }
  }
  return result;
}

// With a list of values, only the notation of integers still matters.
std::optional<NumberShape> NumberShapes::settled(NumberShape shape) {
  NumberSet rest = std::move(shape.set);
  std::vector<std::string> values = std::move(*rest.values);
  rest.values.reset();
  const std::size_t rules =
      1 + rest.excluded.size() + rest.multiples.size() + rest.no_multiples.size();
  if (!work_.spend(kStepsPerNumber * values.size() * rules)) return std::nullopt;
  std::erase_if(values, [&](const std::string& value) { return !rest.contains(value); });
  if (values.empty()) return std::nullopt;
  shape.set = {.values = std::move(values), .integers_are_spelled = rest.integers_are_spelled};
  if (rest.integers_are_spelled) shape.set.multiples = {"1"};
  return shape;
}

// Joins lists of values to one list; lists of integers that are spelled without a point are joined
// apart.
void NumberShapes::unite(std::vector<NumberShape>& shapes) {
  for (const bool are_spelled : {false, true}) {
    const auto is_list = [&](const NumberShape& shape) {
      return shape.set.values && !shape.needs_check &&
             shape.set.integers_are_spelled == are_spelled;
    };
    const auto lists = std::stable_partition(shapes.begin(), shapes.end(), std::not_fn(is_list));
    if (shapes.end() - lists < 2) continue;
    std::vector<std::string> values;
    for (auto list = lists; list != shapes.end(); ++list) {
      values.insert(values.end(), list->set.values->begin(), list->set.values->end());
    }
    NumberShape all = std::move(*lists);
    shapes.erase(lists, shapes.end());
    work_.spend(kStepsPerNumber * values.size());
    sort_numbers(values);
    all.set.values = std::move(values);
    shapes.push_back(std::move(all));
  }
}

void NumberShapes::list_few(std::vector<NumberShape>& shapes) {
  constexpr std::size_t kFew = 1000;
  for (NumberShape& shape : shapes) {
    if (shape.set.values) continue;
    const auto most = most_values(shape.set);
    if (!most || *most > kFew) continue;
    SomeNumbers found = some_numbers(shape.set, kFew);
    const std::size_t rules =
        1 + shape.set.excluded.size() + shape.set.multiples.size() + shape.set.no_multiples.size();
    if (!work_.spend(kStepsPerNumber * found.tried * rules)) return;
    if (!found.is_all) continue;
    sort_numbers(found.numbers);
    shape.set = {.values = std::move(found.numbers),
                 .integers_are_spelled = shape.set.integers_are_spelled};
    if (shape.set.integers_are_spelled) shape.set.multiples = {"1"};
  }
}

bool NumberShapes::covers(const NumberShape& a, const NumberShape& b) {
  if (a.needs_check || (a.set.integers_are_spelled && !b.set.integers_are_spelled)) return false;
  if (a.set.values) return a.set == b.set;
  if (b.set.values) {
    return std::ranges::all_of(*b.set.values,
                               [&](const std::string& value) { return a.set.contains(value); });
  }
  // The bound of `b` is the same or narrower.
  const auto holds = [](const std::optional<NumberSet::Bound>& of_a,
                        const std::optional<NumberSet::Bound>& of_b, bool is_minimum) {
    if (!of_a) return true;
    if (!of_b) return false;
    const auto order = json::compare(json::decimal_of(of_b->value), json::decimal_of(of_a->value));
    if (order == 0) return of_b->exclusive || !of_a->exclusive;
    return (order > 0) == is_minimum;
  };
  // The steps of `b` are finer or coarser ones.
  const auto has_multiple = [&](const std::string& step) {
    return std::ranges::any_of(
        b.set.multiples, [&](const std::string& of_b) { return is_implied_step(step, of_b); });
  };
  const auto has_divisor = [&](const std::string& step) {
    return std::ranges::any_of(
        b.set.no_multiples, [&](const std::string& of_b) { return is_implied_step(of_b, step); });
  };
  return holds(a.set.minimum, b.set.minimum, true) && holds(a.set.maximum, b.set.maximum, false) &&
         std::ranges::all_of(a.set.multiples, has_multiple) &&
         std::ranges::all_of(a.set.no_multiples, has_divisor) &&
         are_among(a.set.excluded, b.set.excluded);
}

bool NumberShapes::is_possible(const NumberShape& shape) {
  if (shape.set.values) return !shape.set.values->empty();
  if (const Status checked = check_steps(shape.set); !checked) {
    work_.fail(checked.error());
    return false;
  }
  constexpr std::uint64_t kStepsPerScanner = 50;
  if (!work_.spend(kStepsPerScanner + kStepsPerNumber * shape.set.excluded.size())) return true;
  return make_number_scanner(shape.set)->start() != Scanner::kDead;
}

}  // namespace tenon::grammar
