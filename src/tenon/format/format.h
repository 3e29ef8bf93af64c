#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

/// How a family of models writes tool calls: definitions as data (formats/*.toml), the registry of
/// them, and the stream parser, history renderer and grammar that all come from one
/// definition.
namespace tenon::toml {
struct Document;
struct Position;
class Table;
}  // namespace tenon::toml

namespace tenon::format {

class Format;  // immutable once compiled; definition.h has what it is made of

/// Compiles a definition (TOML, see docs/formats.md). Errors name place and key.
[[nodiscard]] Expected<std::shared_ptr<const Format>> compile(std::string_view text,
                                                              std::string_view source_name);
/// The same for a table of a document, at `position` in it: a definition in a model's config.
[[nodiscard]] Expected<std::shared_ptr<const Format>> compile(const toml::Document& document,
                                                              const toml::Table& table,
                                                              toml::Position position);

struct FormatInfo {
  std::string name;
  std::vector<std::string> aliases;
  bool parallel = true;  ///< Several calls in one answer.
};
[[nodiscard]] const FormatInfo& info(const Format& format);

/// The format called `name` or with that alias: the embedded definitions and those registered
/// since. Null if there is none. Thread-safe.
[[nodiscard]] std::shared_ptr<const Format> find(std::string_view name);
/// The same; fails with `unsupported`, naming those most like it: "unknown tool_call_format: ...".
[[nodiscard]] Expected<std::shared_ptr<const Format>> named(std::string_view name);
/// Every known format, by name.
[[nodiscard]] std::vector<std::shared_ptr<const Format>> all();
/// The format for models whose templates know no tools: they learn it from the prompt alone.
[[nodiscard]] std::shared_ptr<const Format> fallback();
/// Adds a format or replaces the one of that name, from any thread; parsers that run keep theirs.
/// Fails with `invalid` where an alias is another format's name or alias, and where it would be a
/// second fallback. A name may be another's alias, and wins.
[[nodiscard]] Status register_format(std::shared_ptr<const Format> format);

/// What is tried for calls that are not in the model's own form.
enum class Fallbacks : std::uint8_t { none, all };

/// How an answer is read: as it comes, or as one that tool_grammar() of the same format holds.
enum class AnswerMode : std::uint8_t { free, held };

/// `own` whose parser and grammar also take calls in the forms of those formats whose definitions
/// have a `fallback_order`, in that order, its own first. A later one is off once an earlier one
/// has claimed a call, and all are in reasoning. Where such a call may begin the text before it
/// says (lead.h). What ends a call in one of these forms is no content behind a call, whichever
/// form began it ("stray_marker"); a marker elsewhere that belongs to no call stays content
/// ("leaked_marker"). As it is rendered and described a format has its own form alone.
///
/// `held`: what only the end of an object could tell is not looked for, since its beginning is all
/// that a grammar knows: the name comes before the arguments, and a call is certain with its name.
/// Formats whose text lies in frames (content.open, prompt_end) have their own form alone then.
[[nodiscard]] std::shared_ptr<const Format> with_fallbacks(const Format& own,
                                                           Fallbacks which = Fallbacks::all,
                                                           AnswerMode mode = AnswerMode::free);

/// How text is written that goes into a prompt.
struct HistoryOptions {
  /// The format's own markers are written between these, so that they can become control tokens
  /// where names, arguments and results cannot (jinja::RenderOptions). Empty: nothing tells them.
  std::string own_begin;
  std::string own_end;
  std::size_t calls_before = 0;  ///< In the conversation: some formats count them in ids.
  /// Whose schemas tell of what parameters nothing is known: their texts are quoted where they
  /// would be read as JSON ("12", "null") in formats that write text and JSON alike.
  std::span<const message::Tool> tools;
};

/// The text that a model emits for `calls` in this format, markers included, end of turn left out.
/// Fails with `invalid` where arguments are not a JSON object.
[[nodiscard]] Expected<std::string> render_calls(const Format& format,
                                                 const std::vector<message::ToolCall>& calls,
                                                 const HistoryOptions& options = {});

/// What became of a call.
struct ToolResult {
  std::string id;  ///< Of the call.
  std::string name;
  std::string content;
  bool is_error = false;
};

/// Whose turn results are, as text in a prompt whose template has no place for them: a role. Null:
/// the format does not say how they are written.
[[nodiscard]] const std::string* result_role(const Format& format);

/// The text of `results` that stand beside each other: one for each turn that they are. Nothing
/// where the format does not say.
[[nodiscard]] std::vector<std::string> render_results(const Format& format,
                                                      const std::vector<ToolResult>& results,
                                                      const HistoryOptions& options = {});

/// How a model that was never trained for tools is told of them: how to call, by example, and each
/// tool with its schema. For the system message of a model whose template knows no tools.
[[nodiscard]] std::string describe_tools(const Format& format,
                                         const std::vector<message::Tool>& tools,
                                         const HistoryOptions& options = {});

/// How the ids look that the model has learnt, where the format says it: a prefix, and letters and
/// digits.
struct IdShape {
  std::string prefix;
  std::size_t length = 0;  ///< Of what follows the prefix.
};
[[nodiscard]] std::optional<IdShape> id_shape(const Format& format);

/// The control tokens that end a turn of the format's models, whether or not a model's own file
/// says so.
[[nodiscard]] const std::vector<std::string>& stop_markers(const Format& format);

/// Every literal that the format looks for in running text, and the control tokens that it names.
/// Those that are control tokens of the model's vocabulary go into ParseOptions::control_markers.
[[nodiscard]] std::vector<std::string> markers(const Format& format);

/// A list of JSON Schemas of which all copies are one, so that many parsers can have it. Whoever
/// adds to one that others have gets a list of its own.
class SchemaList {
 public:
  SchemaList() = default;
  SchemaList(std::vector<json::Value> schemas)  // NOLINT: it is one
      : list_(std::make_shared<std::vector<json::Value>>(std::move(schemas))) {}
  SchemaList(std::initializer_list<json::Value> schemas)
      : SchemaList(std::vector<json::Value>(schemas)) {}

  [[nodiscard]] std::size_t size() const { return list_ == nullptr ? 0 : list_->size(); }
  /// It lives as long as any copy of the list.
  [[nodiscard]] const json::Value& operator[](std::size_t at) const { return (*list_)[at]; }
  void push_back(json::Value schema) {
    if (list_.use_count() != 1) {
      list_ = list_ == nullptr ? std::make_shared<std::vector<json::Value>>()
                               : std::make_shared<std::vector<json::Value>>(*list_);
    }
    list_->push_back(std::move(schema));
  }

 private:
  std::shared_ptr<std::vector<json::Value>> list_;  // null: empty
};

struct ParseOptions {
  std::vector<std::string> tools;  ///< Names that may be called; empty: the text is content whole.
  /// JSON Schemas of the tools' parameters, in the order of `tools`: what tells text from numbers
  /// in formats that write both alike. May be shorter; where there is none, what reads as JSON is
  /// JSON.
  SchemaList schemas;
  /// Any name is a call's (`on_unknown_tool = "forward"`), also without `tools`; Diagnostic
  /// "forwarded_tool" tells of those that `tools` lacks. What only a name gives away (bare JSON, a
  /// bracket) is a call of `tools` alone, if there are any.
  bool any_tool = false;
  /// The tool that a name which is none of `tools` stands for, "" for none, asked inside markers
  /// only (`on_unknown_tool = "repair"`). A call that got another name so is told of
  /// (kNameFixed). Null: none.
  std::function<std::string(const std::string& name)> corrected_name;
  /// Markers that the engine reports as control tokens: their text fed otherwise is just text.
  std::vector<std::string> control_markers;
  std::string prompt_tail;  ///< End of the prompt, from which an open section is known.
  bool parse_reasoning = true;
  std::string id_prefix = "call_";  ///< Ids of calls whose format has none are made from it.
};

/// Of the Diagnostic that says so.
inline constexpr std::string_view kNameFixed = "name_fixed";

/// Turns a model's output, cut anywhere, into events. fold(events) is the same for every cut, and
/// every byte that is not part of a call or a marker is content. Linear. The state is about 2 KB
/// and copies of the options' names; while a call is uncertain what it has said so far
/// is held too (kMaxHeld bytes, perhaps twice), and so is a parameter's value whose type the schema
/// leaves open, up to 1 MB. One parser serves one answer, from one thread.
///
///     StreamParser parser(find("hermes"), {.tools = {"get_weather"}});
///     std::vector<message::ChatEvent> events;
///     for (std::string_view piece : pieces) parser.feed(piece, false, events);
///     parser.finish(/*truncated=*/false, events);
///
/// A call begins (CallBegin) once its name is whole and one of the request's; until then its bytes
/// are held, at most kMaxHeld, and are content if it comes to nothing (Diagnostic "unknown_tool" or
/// "broken_call"). From then on its arguments are passed on as they come. If they break off, they
/// are kept (closed so that they are JSON, unless by length) and the call is incomplete; if they
/// break JSON, they are closed so that they are JSON, what did not fit follows as content, and
/// Diagnostic "spoilt_call" says so. Small mistakes with one possible meaning are mended as they
/// pass (JsonFilter, Diagnostic "mended_arguments").
class StreamParser {
 public:
  StreamParser(std::shared_ptr<const Format> format, ParseOptions options);
  ~StreamParser();
  StreamParser(StreamParser&&) noexcept;
  StreamParser& operator=(StreamParser&&) noexcept;

  static constexpr std::size_t kMaxHeld = std::size_t{64} << 10;

  /// One token's bytes (or any piece of text). `is_control`: they are a whole control token's text,
  /// the only way in which one of ParseOptions::control_markers is recognised (`false` for text
  /// from engines that do not tell: then markers match by text).
  void feed(std::string_view bytes, bool is_control, std::vector<message::ChatEvent>& out);

  /// Something else comes here that is no part of the text, but of the answer (a call that the
  /// engine tells by itself, say): what was held back is content, before it. A call that has begun
  /// goes on; where one's name is whole and only its end uncertain, it begins. `is_marker`: what
  /// comes is a boundary of the text as a marker is one, so that white space beside it is none.
  void interrupt(bool is_marker, std::vector<message::ChatEvent>& out);

  /// The output has ended; `truncated` if by length. Flushes what was held back and closes open
  /// calls as incomplete. No Finish event: that is the responder's.
  void finish(bool truncated, std::vector<message::ChatEvent>& out);

  /// Of ParseOptions::schemas, while the parser lives; null for a tool without one.
  [[nodiscard]] const json::Value* schema_of(std::string_view tool) const;

  /// Calls begun so far.
  [[nodiscard]] std::size_t call_count() const;
  /// The name of the format in whose form the first call was, a fallback's or the parser's own; "":
  /// there was none.
  [[nodiscard]] const std::string& claimed_by() const;
  /// The last call has ended, and the marker that its format puts behind it has not come yet.
  [[nodiscard]] bool awaits_end_marker() const;
  void reset();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::format
