#include "tenon/grammar/json/known_schemas.h"

#include <utility>

namespace tenon::grammar {
namespace {

// A millisecond in units of Machine::work(): a mask may take a few of them.
constexpr std::uint64_t kMostWork = 20'000;
// A compiled schema takes some times as much memory as its text.
constexpr std::size_t kBytesPerByte = 12;

// The options on which it depends whether a schema has a value.
std::string text_of(const json::Value& source, const JsonOptions& options) {
  std::string text = json::to_string(source);
  text += options.lenient ? 'l' : '-';
  text += options.plain_integers ? 'p' : '-';
  text += options.declared_only ? 'd' : '-';
  text += options.is_bounded ? '-' : 'u';
  text += static_cast<char>('0' + static_cast<int>(options.unicode_escapes));
  return text;
}

}  // namespace

std::shared_ptr<const KnownSchemas::Known> KnownSchemas::find(const json::Value& source,
                                                              const JsonOptions& options) const {
  return known_.find(regex::fingerprint_of(text_of(source, options)));
}

Expected<std::shared_ptr<const KnownSchemas::Known>> KnownSchemas::add(Machine& machine,
                                                                       const json::Value& source,
                                                                       const JsonOptions& options) {
  auto schema = schema::Schema::compile(source);
  if (!schema) return Unexpected(schema.error());
  Known known{.schema = *std::move(schema)};
  const std::uint64_t before = machine.work();
  const auto frame = add_json(machine, known.schema, options, &known.relaxed);
  if (!frame) return Unexpected(frame.error());
  known.may_wait = machine.work() - before <= kMostWork;
  const std::string text = text_of(source, options);
  auto kept = std::make_shared<const Known>(std::move(known));
  known_.keep(regex::fingerprint_of(text), kept, kBytesPerByte * text.size());
  return kept;
}

}  // namespace tenon::grammar
