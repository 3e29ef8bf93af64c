#include "tenon/jinja/numbers.h"
#include "tenon/jinja/vm.h"

/// jinja2's tests: the words that follow `is`.
namespace tenon::jinja {

bool Vm::call_test(std::uint32_t number, const Value& value, const Args& args) {
  using T = TestId;
  const auto id = static_cast<TestId>(number);
  const auto none = [&] { bind(args, "test", {}, 0, nullptr); };
  const auto other = [&] {
    Value operand;
    bind(args, "test", {"other"}, 1, &operand);
    return operand;
  };
  const auto remainder = [&](const Value& divisor) { return binary(Op::modulo, value, divisor); };
  switch (id) {
    case T::defined:
      return none(), !value.is(Tag::undefined);
    case T::undefined:
      return none(), value.is(Tag::undefined);
    case T::none:
      return none(), value.is(Tag::none);
    case T::boolean:
      return none(), value.is(Tag::boolean);
    case T::true_:
      return none(), value.is(Tag::boolean) && value.boolean;
    case T::false_:
      return none(), value.is(Tag::boolean) && !value.boolean;
    case T::integer:
      return none(), value.is(Tag::integer) || value.is(Tag::big_integer);
    case T::float_:
      return none(), value.is(Tag::real);
    case T::number:
      return none(), value.is_number();
    case T::string:
      return none(), value.is_string();
    case T::mapping:
      return none(), value.is_mapping();
    case T::escaped:
      return none(), value.is_string() && value.is_markup();
    case T::sequence:
      none();
      return value.is_string() || value.is_list() || value.is(Tag::tuple) || value.is_mapping() ||
             value.is(Tag::range) || value.is(Tag::bytes) || value.is(Tag::undefined);
    case T::iterable:
      none();
      return value.is_string() || value.is_list() || value.is(Tag::tuple) || value.is_mapping() ||
             value.is(Tag::range) || value.is(Tag::bytes) || value.is(Tag::undefined) ||
             value.is(Tag::iterator) || value.is(Tag::view) || value.is(Tag::loop) ||
             value.is(Tag::self);
    case T::callable:
      none();
      return value.is(Tag::macro) || value.is(Tag::method) || value.is(Tag::function) ||
             value.is(Tag::loop) || value.is(Tag::joiner) || value.is(Tag::block) ||
             value.is(Tag::undefined);
    case T::odd:
      return none(), equal(remainder(make_int(2)), make_int(1));
    case T::even:
      return none(), equal(remainder(make_int(2)), make_int(0));
    case T::divisibleby: {
      Value divisor;
      bind(args, "divisibleby", {"num"}, 1, &divisor);
      return equal(remainder(divisor), make_int(0));
    }
    case T::eq:
    case T::equalto:
      return equal(value, other());
    case T::ne:
      return !equal(value, other());
    case T::lt:
    case T::lessthan:
      return less(value, other(), "<");
    case T::le:
      return less(value, other(), "<=");
    case T::gt:
    case T::greaterthan:
      return less(value, other(), ">");
    case T::ge:
      return less(value, other(), ">=");
    case T::in: {
      Value container;
      bind(args, "in", {"seq"}, 1, &container);
      return contains(container, value);
    }
    case T::sameas:
      return identical(value, other());
    case T::lower:
    case T::upper:
      none();
      return call_string_method(to_string(value),
                                id == T::lower ? MethodId::islower : MethodId::isupper, {})
          .boolean;
    case T::filter:
    case T::test: {
      none();
      static_cast<void>(hash(value));
      if (!value.is_string()) return false;
      const std::string_view name = text_of(value).bytes;
      return (id == T::filter ? filter_of_name(name, superset()) : test_of_name(name)) !=
             kNoBuiltin;
    }
  }
  return false;
}

}  // namespace tenon::jinja
