// Shared by all questions about one schema. Steps are counted here and reported now and then, so
// that a schema that needs too many ends with an error at any depth of questions. A validation is
// counted as it goes: it is given few steps at first and 16 times as many at each try.

#include "tenon/grammar/json/shape_work.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tenon/regex/code_points.h"
#include "tenon/regex/spelling.h"

namespace tenon::grammar {

using regex::ExprSet;
using schema::NodeId;

namespace {

// What all expressions begin with. It is made once, because a set of tools has many schemas.
struct Begun {
  Begun() { exprs.set_text(any_text); }

  ExprSet exprs{{}};
  regex::Expr any_character =
      regex::utf8_spelling(exprs, regex::CodePointSet{{1, 0xD7FF}, {0xE000, 0x10FFFF}});
  regex::Expr any_text = exprs.repeat(any_character, 0, ExprSet::kUnbounded);
};

const Begun& begun() {
  static const Begun kBegun;
  return kBegun;
}

}  // namespace

ShapeWork::ShapeWork(std::shared_ptr<const schema::Schema> schema, const tenon::Limits& exprs,
                     const Limits& limits)
    : terms_(std::move(schema)),
      exprs_(std::make_shared<ExprSet>(begun().exprs)),
      limits_(limits),
      any_character_(begun().any_character),
      any_text_(begun().any_text) {
  exprs_->set_limits(exprs);
}

ShapeWork::Level::Level(ShapeWork& work) : work_(work) {
  if (++work_.depth_ > kMost) {
    work_.fail({Errc::limit_exceeded, "schema: more than " + std::to_string(kMost) +
                                          " schemas that refer to each other in a row"});
  }
}

void ShapeWork::fail(Error error) {
  if (error_) return;
  error_ = std::move(error);
  if (on_error_) on_error_(*error_);
}

// Includes the steps of the terms. They are reported in portions of more than a thousand.
bool ShapeWork::spend(std::uint64_t steps) {
  constexpr std::uint64_t kTellAfter = 1000;
  steps += terms_.take_steps();
  steps_ += steps;
  spent_ += steps;
  const bool is_enough = on_steps_ ? steps_ > kTellAfter && !on_steps_(std::exchange(steps_, 0))
                                   : steps_ > limits_.max_steps;
  if (is_enough) {
    fail({Errc::limit_exceeded, "schema: too many steps to find out which values fit"});
  }
  return !error_;
}

void ShapeWork::fail_by_limit() {
  if (const Status status = exprs_->status(); !status) fail(status.error());
}

Term ShapeWork::definition(Term node) {
  const Term meant = terms_.definition(terms_.node_of(node));
  if (terms_.error()) fail(*terms_.error());
  return meant;
}

// The cost of a validation is not known before, so it is given more and more steps.
bool ShapeWork::is_valid(NodeId id, const json::Value& value) {
  constexpr std::uint64_t kGrowth = 16;
  constexpr std::uint64_t kUsual = 20;
  schema::ValidateOptions options;
  const std::uint64_t most = options.limits.max_steps;
  for (options.limits.max_steps = kUsual * kGrowth; spend(options.limits.max_steps / kGrowth);
       options.limits.max_steps *= kGrowth) {
    options.limits.max_steps = std::min(options.limits.max_steps, most);
    const Expected<bool> valid = terms_.schema().is_valid(id, value, options);
    if (valid) return *valid;
    // A larger try could not help.
    if (valid.error().code != Errc::limit_exceeded || options.limits.max_steps == most) {
      fail(valid.error());
    }
  }
  return false;
}

// Recursion goes down the term only: a node is checked by the validator as a whole.
bool ShapeWork::fits(Term term, const json::Value& value) {
  switch (terms_.kind(term)) {
    case Terms::Kind::nothing:
      return false;
    case Terms::Kind::anything:
      return true;
    case Terms::Kind::node:
      return is_valid(terms_.node_of(term), value);
    case Terms::Kind::value:
      return terms_.value_of(term) == value;
    case Terms::Kind::negation:
      return !fits(terms_.parts_of(term)[0], value);
    case Terms::Kind::all_of:
      return std::ranges::all_of(terms_.parts_of(term),
                                 [&](Term part) { return fits(part, value); });
    case Terms::Kind::any_of:
      return std::ranges::any_of(terms_.parts_of(term),
                                 [&](Term part) { return fits(part, value); });
    case Terms::Kind::rules:
      break;  // within definitions only
  }
  return false;
}

}  // namespace tenon::grammar
