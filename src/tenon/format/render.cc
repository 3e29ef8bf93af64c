#include "tenon/format/render.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tenon/base/ids.h"
#include "tenon/format/definition.h"
#include "tenon/format/entities.h"
#include "tenon/format/format.h"
#include "tenon/format/json_filter.h"
#include "tenon/format/schema_types.h"
#include "tenon/format/value_style.h"
#include "tenon/json/value.h"

// The patterns of a definition are written piece by piece: a literal as the format's own
// (append_own), a slot with what the call has for it. Text of the model or the client is never
// marked as own, so a "</tool_call>" in an argument stays text in the prompt. The parser must read
// what is written here as the same call; definition.cc checks that for each way to write calls when
// a definition is compiled.

namespace tenon::format {
namespace {

using message::ToolCall;

/// Writes a marker of the format.
void append_own(std::string& out, std::string_view text, const HistoryOptions& options) {
  if (text.empty()) return;
  out.append(options.own_begin).append(text).append(options.own_end);
}

// Formats whose ids hold the name ("functions.get_weather:0") always get one made here. Others keep
// the call's own, and get a new one only if it has none.
std::string id_of(const Format& format, const ToolCall& call, std::size_t index) {
  const IdRule& rule = format.id;
  if (rule.holds_name) {
    return rule.name_before + call.name + rule.name_after + std::to_string(index);
  }
  return call.id.empty() ? random_id(rule.prefix.value_or("call_"), rule.length) : call.id;
}

/// With the spacing of Python's json.dumps, which models have seen in training.
void append_object(std::string& out, const Format& format, const ObjectKeys& keys,
                   const ToolCall& call, std::size_t index) {
  if (keys.name_is_key) {
    out.append("{").append(json::quoted(call.name)).append(": ").append(call.arguments).append("}");
    return;
  }
  std::string id;
  if (keys.writes_id)
    id = json::quoted(keys.id.front()) + ": " + json::quoted(id_of(format, call, index));
  out += '{';
  if (keys.writes_id && keys.id_first) out.append(id).append(", ");
  out.append(json::quoted(keys.name.front())).append(": ").append(json::quoted(call.name));
  out.append(", ").append(json::quoted(keys.arguments.front())).append(": ").append(call.arguments);
  if (keys.writes_id && !keys.id_first) out.append(", ").append(id);
  out += '}';
}

// {"city": "Paris", "days": 3, "c": null} becomes (city="Paris", days=3, c=None).
void append_keywords(std::string& out, const json::Object& arguments) {
  const char* separator = "(";
  for (const json::Member& member : arguments) {
    out.append(std::exchange(separator, ", ")).append(member.key).append("=");
    append_value(out, member.value, ValueStyle::python());
  }
  out += arguments.empty() ? "()" : ")";
}

/// The place of parameters in a tool's schema.
struct TextPlace {
  const json::Value* schema = nullptr;  // of the object or array; null: unknown
  const json::Value* root = nullptr;    // null: the tool is unknown

  [[nodiscard]] TextPlace of(const json::Value* part) const { return {part, root}; }
  /// Items with a schema for each place: elements cannot express which is which, JSON can.
  [[nodiscard]] bool is_tuple() const {
    return schema != nullptr && schema->find("prefixItems") != nullptr;
  }
  /// A text there is read as JSON if possible, because the value may be text or something else.
  [[nodiscard]] bool is_mixed() const {
    if (root == nullptr) return false;
    const Types types = schema != nullptr ? types_of(*schema, *root) : kAnyType;
    return (types & kText) != 0 && types != kText;
  }
};

/// A key that is not a name could not be read back as an element, but can be in JSON.
bool may_be_elements(const json::Value& value) {
  const json::Object* const object = value.if_object();
  return object != nullptr && !object->empty() &&
         std::ranges::all_of(object->members(), [](const json::Member& member) {
           return is_element_name(member.key);
         });
}

void append_parameters(std::string& out, const Syntax& syntax, const json::Object& arguments,
                       const TextPlace& place, const HistoryOptions& options);

/// `place` is the place of `value`.
void append_parameter(std::string& out, const Syntax& syntax, const std::string& key,
                      const json::Value& value, const TextPlace& place,
                      const HistoryOptions& options) {
  const std::string* text = value.if_string();
  const auto is_type = [](const Piece& piece) { return piece.kind == Piece::Kind::type; };
  const bool is_typed = std::ranges::any_of(syntax.parameter, is_type);
  for (const Piece& piece : syntax.parameter) {
    switch (piece.kind) {
      case Piece::Kind::key:
        out += syntax.entities ? with_entities(key) : key;
        break;
      case Piece::Kind::type: {  // written as `text|json`
        const std::size_t bar = piece.text.find('|');
        const std::string_view other = std::string_view(piece.text).substr(bar + 1);
        if (text != nullptr) {
          out.append(piece.text, 0, bar);
        } else {
          out += other == "*" ? kind_name(value.kind()) : other;
        }
        break;
      }
      case Piece::Kind::value:
        if (text != nullptr) {
          // A text such as 12 would be read back as a number, where the schema allows both.
          const bool is_quoted = !is_typed && place.is_mixed() && whole_json(*text);
          out += is_quoted ? json::quoted(*text) : *text;
        } else if (!syntax.item.empty() && may_be_elements(value)) {
          append_parameters(out, syntax, *value.if_object(), place, options);
        } else if (value.if_array() != nullptr && !value.if_array()->empty() &&
                   !syntax.item.empty() && !place.is_tuple()) {
          const TextPlace items =
              place.of(place.root == nullptr ? nullptr : item_schema(place.schema, *place.root));
          for (const json::Value& item : *value.if_array()) {
            append_parameter(out, syntax, syntax.item, item, items, options);
          }
        } else {
          json::append_dumps(out, value, {.ensure_ascii = false, .keep_numbers = true});
        }
        break;
      case Piece::Kind::literal:
        append_own(out, piece.text, options);
        break;
      default:
        out += piece.text;
    }
  }
}

/// Each value as raw text if it is a string, as parameters if it may be nested, else as JSON.
void append_parameters(std::string& out, const Syntax& syntax, const json::Object& arguments,
                       const TextPlace& place, const HistoryOptions& options) {
  for (const json::Member& member : arguments) {
    const TextPlace of_member = place.of(
        place.root == nullptr ? nullptr : member_schema(place.schema, member.key, *place.root));
    append_parameter(out, syntax, member.key, member.value, of_member, options);
  }
}

// A tool that is not known gives no place: its texts are written as they are.
TextPlace place_of(const std::string& name, const HistoryOptions& options) {
  const auto tool = std::ranges::find(options.tools, name, &message::Tool::name);
  if (tool == options.tools.end()) return {};
  return {&tool->parameters, &tool->parameters};
}

// One call, piece by piece. Only literals of the definition are marked as the format's own; names
// and arguments come from the client or the model and must not become control tokens.
void append(std::string& out, const Pattern& pattern, const Format& format, const Syntax& syntax,
            const ToolCall& call, std::size_t index, const HistoryOptions& options) {
  // render_calls_in() has checked that they are an object.
  const auto arguments = [&call] { return *json::parse(call.arguments)->if_object(); };
  for (const Piece& piece : pattern) {
    switch (piece.kind) {
      case Piece::Kind::literal:
        append_own(out, piece.text, options);
        break;
      case Piece::Kind::space:
      case Piece::Kind::skip:
      case Piece::Kind::word:
        out += piece.text;
        break;
      case Piece::Kind::name:
      case Piece::Kind::again:
        out += syntax.entities ? with_entities(call.name) : call.name;
        break;
      case Piece::Kind::index:
        out += std::to_string(index + 1);
        break;
      case Piece::Kind::id:
        out += id_of(format, call, index);
        break;
      case Piece::Kind::arguments:
        out += call.arguments;
        break;
      case Piece::Kind::object:
        append_object(out, format, syntax.object, call, index);
        break;
      case Piece::Kind::keywords:
        append_keywords(out, arguments());
        break;
      case Piece::Kind::parameters:
        append_parameters(out, syntax, arguments(), place_of(call.name, options), options);
        break;
      case Piece::Kind::members: {
        std::string quote;
        append_own(quote, syntax.string_quote, options);
        append_value(out, arguments(), ValueStyle::members(quote));
        break;
      }
      case Piece::Kind::key:
      case Piece::Kind::type:
      case Piece::Kind::value:
      case Piece::Kind::content:
      case Piece::Kind::json:
      case Piece::Kind::attributes:
        break;  // of a parameter or a result; the definition has been checked
    }
  }
}

// The same for a result. What is no JSON becomes a JSON string where the pattern says ${json}.
void append(std::string& out, const Pattern& pattern, const ToolResult& result,
            const HistoryOptions& options) {
  for (const Piece& piece : pattern) {
    switch (piece.kind) {
      case Piece::Kind::literal:
        append_own(out, piece.text, options);
        break;
      case Piece::Kind::name:
        out += result.name;
        break;
      case Piece::Kind::id:
        out += result.id;
        break;
      case Piece::Kind::content:
        out += result.content;
        break;
      case Piece::Kind::json:
        out += json::parse(result.content) ? result.content : json::quoted(result.content);
        break;
      default:
        out += piece.text;
    }
  }
}

}  // namespace

Expected<std::string> render_calls(const Format& format, const std::vector<ToolCall>& calls,
                                   const HistoryOptions& options) {
  if (calls.empty()) return std::string();
  if (format.syntaxes.empty()) {
    return Unexpected(
        Error{Errc::unsupported, format.info.name + " has no way to write a call: no [[syntax]]"});
  }
  return render_calls_in(format, format.syntaxes.front(), calls, options);
}

Expected<std::string> render_calls_in(const Format& format, const Syntax& syntax,
                                      const std::vector<ToolCall>& calls,
                                      const HistoryOptions& options) {
  std::string out;
  append(out, syntax.open, format, syntax, {}, 0, options);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto arguments = json::parse(calls[i].arguments);
    if (!arguments || arguments->if_object() == nullptr) {
      return Unexpected(Error{Errc::invalid, "call " + std::to_string(i) + " ('" + calls[i].name +
                                                 "'): its arguments are not a JSON object"});
    }
    if (i > 0) append(out, syntax.separator, format, syntax, {}, 0, options);
    append(out, syntax.call, format, syntax, calls[i], options.calls_before + i, options);
  }
  append(out, syntax.close, format, syntax, {}, 0, options);
  // The prompt already has it.
  std::string own_end;
  append_own(own_end, format.prompt_end, options);
  if (!own_end.empty() && out.starts_with(own_end)) out.erase(0, own_end.size());
  return out;
}

const std::string* result_role(const Format& format) {
  return format.result.result.empty() ? nullptr : &format.result.role;
}

// A format that merges results writes one turn for all of them, with the opening and the closing
// once.
std::vector<std::string> render_results(const Format& format,
                                        const std::vector<ToolResult>& results,
                                        const HistoryOptions& options) {
  const ResultRule& rule = format.result;
  std::vector<std::string> turns;
  if (rule.result.empty()) return turns;
  for (const ToolResult& result : results) {
    if (turns.empty() || !rule.merge) {
      append(turns.emplace_back(), rule.open, result, options);
    } else {
      append(turns.back(), rule.separator, result, options);
    }
    append(turns.back(), result.is_error ? rule.error : rule.result, result, options);
    if (!rule.merge) append(turns.back(), rule.close, result, options);
  }
  if (rule.merge && !turns.empty()) append(turns.back(), rule.close, results.back(), options);
  return turns;
}

std::string describe_tools(const Format& format, const std::vector<message::Tool>& tools,
                           const HistoryOptions& options) {
  // The words are those of RuvLLM's ADR-010 (docs/requirements.md, 003).
  const auto example = render_calls(
      format, {{.id = "example01", .name = "function_name", .arguments = R"({"arg1": "value1"})"}},
      options);
  std::string text = "You have access to the following tools. To use a tool, respond with:\n";
  text += example.value_or("") + "\n\nAvailable tools:";
  for (const message::Tool& tool : tools) {
    text += "\n- " + tool.name + (tool.description.empty() ? "" : ": " + tool.description);
    if (!tool.parameters.is_null()) {
      text += "\n  Parameters: " +
              json::dumps(tool.parameters, {.ensure_ascii = false, .keep_numbers = true});
    }
  }
  return text;
}

}  // namespace tenon::format
