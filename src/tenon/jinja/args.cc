#include "tenon/jinja/args.h"

#include <string>

namespace tenon::jinja {

void positional_only(const Budget& budget, const Args& args, std::string_view function,
                     std::size_t least, std::size_t most) {
  if (args.keyword_count != 0)
    budget.type_error(std::string(function) + "() takes no keyword arguments");
  if (args.size < least || args.size > most) {
    budget.type_error(std::string(function) + " expected " +
                      (least == most       ? ""
                       : args.size < least ? "at least "
                                           : "at most ") +
                      std::to_string(args.size < least ? least : most) + " arguments, got " +
                      std::to_string(args.size));
  }
}

void bind_arguments(const Budget& budget, const Args& args, std::string_view function,
                    std::span<const std::string_view> names, std::size_t required, Value* out) {
  if (args.size > names.size()) {
    budget.type_error(std::string(function) + "() takes at most " + std::to_string(names.size()) +
                      " arguments (" + std::to_string(args.size) + " given)");
  }
  // First by position; a keyword may then only name a place that is still missing.
  for (std::size_t i = 0; i < names.size(); ++i) out[i] = i < args.size ? args.items[i] : Value{};
  for (std::uint32_t i = 0; i < args.keyword_count; ++i) {
    const Value& key = args.keywords[i].key;
    std::size_t at = 0;
    for (const std::string_view name : names) {
      if (key.is(Tag::string) && key.bytes() == name) break;
      ++at;
    }
    if (at == names.size()) {
      budget.type_error(std::string(function) + "() got an unexpected keyword argument '" +
                        std::string(key.is(Tag::string) ? key.bytes() : "") + "'");
    }
    // By position and by name, or twice by name.
    if (!out[at].is(Tag::missing)) {
      budget.type_error(std::string(function) + "() got multiple values for argument '" +
                        std::string(key.bytes()) + "'");
    }
    out[at] = args.keywords[i].value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (out[i].is(Tag::missing)) {
      budget.type_error(std::string(function) + "() missing 1 required positional argument: '" +
                        std::string(names[i]) + "'");
    }
  }
}

}  // namespace tenon::jinja
