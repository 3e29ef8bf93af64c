#include "tenon/jinja/tests.h"

#include <cstddef>
#include <iterator>

#include "tenon/jinja/ast.h"
#include "tenon/jinja/builtins.h"
#include "tenon/jinja/filters.h"
#include "tenon/jinja/operators.h"
#include "tenon/jinja/string_methods.h"

/// The table of tests: what each is called, what it takes, and the function that computes it. The
/// number of a test is the number of its row, which the parser finds once.
namespace tenon::jinja {
namespace {

// `operand` is missing if the row has no parameter.
using Answer = bool (*)(Runtime& rt, const Value& value, const Value& operand);

struct TestRow {
  std::string_view name;
  std::string_view parameter;  // empty: the test takes none
  Answer holds;
  std::string_view called = "test";  // in errors
};

template <Tag... tags>
bool is_any(Runtime&, const Value& value, const Value&) {
  return (value.is(tags) || ...);
}

template <bool wanted>
bool is_boolean(Runtime&, const Value& value, const Value&) {
  return value.is(Tag::boolean) && value.boolean == wanted;
}

// The Vm answers this one itself where it has no arguments (vm.cc).
bool is_defined(Runtime&, const Value& value, const Value&) {
  return !value.is(Tag::undefined);
}

bool is_number(Runtime&, const Value& value, const Value&) {
  return value.is_number();
}

bool is_string(Runtime&, const Value& value, const Value&) {
  return value.is_string();
}

bool is_mapping(Runtime&, const Value& value, const Value&) {
  return value.is_mapping();
}

bool is_escaped(Runtime&, const Value& value, const Value&) {
  return value.is_string() && value.is_markup();
}

// jinja2 asks for len() and subscripts. Its Undefined has both, and can be called, too.
bool is_sequence(Runtime&, const Value& value, const Value&) {
  return value.is_string() || value.is_list() || value.is(Tag::tuple) || value.is_mapping() ||
         value.is(Tag::range) || value.is(Tag::bytes) || value.is(Tag::undefined);
}

bool is_iterable(Runtime& rt, const Value& value, const Value& none) {
  return is_sequence(rt, value, none) || value.is(Tag::iterator) || value.is(Tag::view) ||
         value.is(Tag::loop) || value.is(Tag::self);
}

bool is_divisible(Runtime& rt, const Value& value, const Value& divisor) {
  return rt.equal(binary(rt, Op::modulo, value, divisor), make_int(0));
}

bool is_even(Runtime& rt, const Value& value, const Value&) {
  return is_divisible(rt, value, make_int(2));
}

bool is_odd(Runtime& rt, const Value& value, const Value&) {
  return rt.equal(binary(rt, Op::modulo, value, make_int(2)), make_int(1));
}

bool is_equal(Runtime& rt, const Value& value, const Value& other) {
  return rt.equal(value, other);
}

bool is_not_equal(Runtime& rt, const Value& value, const Value& other) {
  return !rt.equal(value, other);
}

bool is_less(Runtime& rt, const Value& value, const Value& other) {
  return rt.less(value, other, "<");
}

bool is_less_or_equal(Runtime& rt, const Value& value, const Value& other) {
  return rt.less(value, other, "<=");
}

bool is_greater(Runtime& rt, const Value& value, const Value& other) {
  return rt.less(value, other, ">");
}

bool is_greater_or_equal(Runtime& rt, const Value& value, const Value& other) {
  return rt.less(value, other, ">=");
}

bool is_in(Runtime& rt, const Value& value, const Value& container) {
  return rt.contains(container, value);
}

bool is_same(Runtime&, const Value& value, const Value& other) {
  return identical(value, other);
}

// `x is upper` is str(x).isupper(), so a number can be asked, too.
template <MethodId method>
bool is_cased(Runtime& rt, const Value& value, const Value&) {
  return call_string_method(rt, rt.to_string(value), method, {}).boolean;
}

// The name to look up; "" for what is no string. In jinja2 it is looked up in a dict, so what
// cannot be hashed fails.
std::string_view key_text(Runtime& rt, const Value& value) {
  static_cast<void>(rt.hash(value));
  return value.is_string() ? rt.text_of(value).bytes : std::string_view();
}

bool is_filter(Runtime& rt, const Value& value, const Value&) {
  return filter_of_name(key_text(rt, value), rt.program().superset) != kNoBuiltin;
}

bool is_test(Runtime& rt, const Value& value, const Value&) {
  return test_of_name(key_text(rt, value)) != kNoBuiltin;
}

constexpr std::string_view kOther = "other";

// clang-format off: one row a line.
constexpr TestRow kTestRows[] = {
    {"defined", {}, is_defined},
    {"boolean", {}, is_any<Tag::boolean>},
    {"callable", {}, is_any<Tag::macro, Tag::method, Tag::function, Tag::loop, Tag::joiner, Tag::block, Tag::undefined>},
    {"divisibleby", "num", is_divisible, "divisibleby"},
    {"eq", kOther, is_equal},
    {"equalto", kOther, is_equal},
    {"escaped", {}, is_escaped},
    {"even", {}, is_even},
    {"false", {}, is_boolean<false>},
    {"filter", {}, is_filter},
    {"float", {}, is_any<Tag::real>},
    {"ge", kOther, is_greater_or_equal},
    {"greaterthan", kOther, is_greater},
    {"gt", kOther, is_greater},
    {"in", "seq", is_in, "in"},
    {"integer", {}, is_any<Tag::integer, Tag::big_integer>},
    {"iterable", {}, is_iterable},
    {"le", kOther, is_less_or_equal},
    {"lessthan", kOther, is_less},
    {"lower", {}, is_cased<MethodId::islower>},
    {"lt", kOther, is_less},
    {"mapping", {}, is_mapping},
    {"ne", kOther, is_not_equal},
    {"none", {}, is_any<Tag::none>},
    {"number", {}, is_number},
    {"odd", {}, is_odd},
    {"sameas", kOther, is_same},
    {"sequence", {}, is_sequence},
    {"string", {}, is_string},
    {"test", {}, is_test},
    {"true", {}, is_boolean<true>},
    {"undefined", {}, is_any<Tag::undefined>},
    {"upper", {}, is_cased<MethodId::isupper>},
    // jinja2 also knows the comparisons by their operators; select() can name them.
    {"==", kOther, is_equal},
    {"!=", kOther, is_not_equal},
    {">", kOther, is_greater},
    {">=", kOther, is_greater_or_equal},
    {"<", kOther, is_less},
    {"<=", kOther, is_less_or_equal},
};
// clang-format on
static_assert(kTestRows[kDefinedTest].name == "defined");

constexpr NameIndex<std::size(kTestRows)> kTestIndex(kTestRows,
                                                     [](const TestRow& row) { return row.name; });

}  // namespace

std::uint32_t test_of_name(std::string_view name) {
  return kTestIndex.find(name);
}

// A test takes one operand at most, which is required if the row names it.
bool call_test(Runtime& rt, std::uint32_t test, const Value& value, const Args& args) {
  const TestRow& row = kTestRows[test];
  Value operand;
  const std::size_t count = row.parameter.empty() ? 0 : 1;
  bind_arguments(rt, args, row.called, std::span(&row.parameter, count), count, &operand);
  return row.holds(rt, value, operand);
}

}  // namespace tenon::jinja
