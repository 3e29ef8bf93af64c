#include "tenon/grammar/json/json_frames.h"

#include <iterator>
#include <optional>
#include <utility>

#include "tenon/grammar/json/json_context.h"

// The frames that read the JSON values of a schema (docs/masks.md, "From values to a machine"). A
// schema is a set of terms (term.h), and Shapes says which shapes of each type a term has.
// RootFrame owns JsonContext, which all frames share: it makes one frame for each term, string or
// name when it is first read, so a recursive schema costs only what the text visits.
//
// ValueFrame (json_context.cc) enters the frames of all shapes of its term. ArrayFrame and
// ObjectFrame are state machines whose phase stands in Cell::local (see their enum Phase). What an
// array or object must remember beyond that (names seen, items taken) is a list of states in
// ArrayItems and ObjectMembers; the cell has the state's number, and equal states have equal
// numbers, so that masks are shared.
//
// Some decisions need the text itself: an item that must differ from earlier ones, a name that only
// a pattern knows. There the cell asks (Machine::ask), and answer() reads the member or item back
// from the text.
//
// Before a frame goes on it checks that the value can still come to an end (may_finish, can_differ,
// has_some), so no state leads to a dead end; where that cannot be known, CheckFrame compares the
// finished value with its term.

namespace tenon::grammar {
namespace {

// The frame of the whole value. It owns the JsonContext that its frames share.
class RootFrame final : public Frame {
 public:
  RootFrame(std::shared_ptr<JsonContext> context, FrameId value)
      : context_(std::move(context)), value_(value) {}
  void enter(Machine& machine, FrameId, CellId parent) override { machine.enter(value_, parent); }
  [[nodiscard]] std::uint32_t least(Machine& machine) override { return machine.least(value_); }
  [[nodiscard]] std::size_t memory_bytes() const override { return context_->memory_bytes(); }

 private:
  std::shared_ptr<JsonContext> context_;
  FrameId value_;
};

// A schema that is added when it is first read.
class KnownFrame final : public Frame {
 public:
  KnownFrame(std::shared_ptr<const schema::Schema> schema, const JsonOptions& options)
      : schema_(std::move(schema)), options_(options) {}
  void enter(Machine& machine, FrameId, CellId parent) override {
    if (const auto value = this->value(machine)) machine.enter(*value, parent);
  }
  [[nodiscard]] std::uint32_t least(Machine& machine) override {
    const auto value = this->value(machine);
    return value ? machine.least(*value) : Machine::kFar;
  }

 private:
  std::optional<FrameId> value(Machine& machine) {
    if (value_ || machine.error()) return value_;
    const auto added = add_json(machine, schema_, options_);
    if (added) {
      value_ = *added;
    } else {
      machine.fail(added.error());
    }
    return value_;
  }

  std::shared_ptr<const schema::Schema> schema_;
  JsonOptions options_;
  std::optional<FrameId> value_;
};

}  // namespace

Expected<FrameId> add_json(Machine& machine, std::shared_ptr<const schema::Schema> schema,
                           const JsonOptions& options, std::vector<Relaxed>* relaxed) {
  const schema::NodeId root = schema->root();
  const auto context = std::make_shared<JsonContext>(machine, schema, options);
  if (options.plain_integers) context->shapes.number_rules.spell_integers();
  if (options.declared_only) context->shapes.names.declared_only();
  if (options.lenient) {
    std::vector<Relaxed> left_out = context->shapes.relax();
    if (relaxed != nullptr) std::ranges::move(left_out, std::back_inserter(*relaxed));
  } else {
    context->shapes.check();
  }
  const Term term = context->shapes.terms().node(root);
  const bool satisfiable = context->shapes.is_satisfiable(term);
  if (context->shapes.error()) return Unexpected(*context->shapes.error());
  // Without undeclared names nothing fits, so they are allowed after all.
  if (!satisfiable && options.declared_only) {
    JsonOptions any_names = options;
    any_names.declared_only = false;
    return add_json(machine, std::move(schema), any_names);
  }
  if (!satisfiable) return Unexpected(context->shapes.satisfiable.error());
  return machine.add(std::make_unique<RootFrame>(context, context->value(term)));
}

FrameId add_known_json(Machine& machine, std::shared_ptr<const schema::Schema> schema,
                       const JsonOptions& options) {
  return machine.add(std::make_unique<KnownFrame>(std::move(schema), options));
}

}  // namespace tenon::grammar
