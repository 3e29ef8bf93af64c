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
/// definitions, and the stream parser, history renderer and grammar that all come from one
/// definition.
namespace tenon::toml {
struct Document;
struct Position;
class Table;
}  // namespace tenon::toml

namespace tenon::format {

class Format;  // immutable once compiled; definition.h has its parts

/// Compiles a definition (TOML, see docs/formats.md). Errors name the place and the key.
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

/// The format with this name or alias, from the embedded definitions and those registered since.
/// Null if no format has it. Thread-safe.
[[nodiscard]] std::shared_ptr<const Format> find(std::string_view name);
/// The same, but fails with `unsupported` and names similar formats: "unknown tool_call_format:
/// ...".
[[nodiscard]] Expected<std::shared_ptr<const Format>> named(std::string_view name);
/// Every known format, in the order of names.
[[nodiscard]] std::vector<std::shared_ptr<const Format>> all();
/// The texts of `format` that do not occur in text by chance: its control tokens and tags.
[[nodiscard]] std::vector<std::string> strong_markers(const Format& format);
/// The format for models whose templates know no tools; such a model learns it from the prompt
/// alone.
[[nodiscard]] std::shared_ptr<const Format> fallback();
/// Adds a format or replaces the one with that name, from any thread; running parsers keep theirs.
/// Fails with `invalid` if an alias is another format's name or alias, and if it would be a second
/// fallback. A name may be another format's alias, and wins.
[[nodiscard]] Status register_format(std::shared_ptr<const Format> format);

/// Which other forms are tried for calls that are not in the model's own form.
enum class Fallbacks : std::uint8_t { none, all };

/// How an answer is read: `free` as it comes, `held` as one that tool_grammar() of the same format
/// constrained.
enum class AnswerMode : std::uint8_t { free, held };

/// `own`, whose parser and grammar also accept calls in the forms of formats whose definitions have
/// a `fallback_order`; its own form comes first, then the others in that order. Once an earlier
/// form has claimed a call, later ones are off, and in reasoning all are off. The text before a
/// call decides whether it may begin there (lead.h). After a call, the end marker of any of these
/// forms is not content, whichever form began the call ("stray_marker"); any other marker that
/// belongs to no call stays content ("leaked_marker"). Rendering and description use the format's
/// own form only.
///
/// `held`: only beginnings decide, because a grammar knows only beginnings: the name comes before
/// the arguments, and a call is certain with its name. Formats whose text is in frames
/// (content.open, prompt_end) then have their own form only.
[[nodiscard]] std::shared_ptr<const Format> with_fallbacks(const Format& own,
                                                           Fallbacks which = Fallbacks::all,
                                                           AnswerMode mode = AnswerMode::free);

/// How text for a prompt is written.
struct HistoryOptions {
  /// The format's own markers are written between these, so that markers can become control tokens
  /// while names, arguments and results cannot (jinja::RenderOptions). Empty: nothing is written.
  std::string own_begin;
  std::string own_end;
  std::size_t calls_before = 0;  ///< Calls earlier in the conversation; some formats count them in
                                 ///< ids.
  /// Their schemas say which parameters are text: such texts are quoted if they would be read as
  /// JSON ("12", "null") in formats that write text and JSON alike.
  std::span<const message::Tool> tools;
};

/// The text that a model generates for `calls` in this format, with markers, without the end of the
/// turn. Fails with `invalid` if arguments are not a JSON object.
[[nodiscard]] Expected<std::string> render_calls(const Format& format,
                                                 const std::vector<message::ToolCall>& calls,
                                                 const HistoryOptions& options = {});

/// The result of a call.
struct ToolResult {
  std::string id;  ///< The call's id.
  std::string name;
  std::string content;
  bool is_error = false;
};

/// The role of results as text in a prompt whose template has no place for them. Null: the format
/// does not define how they are written.
[[nodiscard]] const std::string* result_role(const Format& format);

/// The texts of consecutive `results`, one for each turn. Nothing if the format does not define it.
[[nodiscard]] std::vector<std::string> render_results(const Format& format,
                                                      const std::vector<ToolResult>& results,
                                                      const HistoryOptions& options = {});

/// The description of tools for a model that was never trained for tools: how to call, with an
/// example, and each tool with its schema. It goes into the system message of a model whose
/// template knows no tools.
[[nodiscard]] std::string describe_tools(const Format& format,
                                         const std::vector<message::Tool>& tools,
                                         const HistoryOptions& options = {});

/// The form of ids that the model has learnt, if the format defines it: a prefix, then letters and
/// digits.
struct IdShape {
  std::string prefix;
  std::size_t length = 0;  ///< The length of the part after the prefix.
};
[[nodiscard]] std::optional<IdShape> id_shape(const Format& format);

/// The control tokens that end a turn of the format's models, whether or not the model's own file
/// lists them.
[[nodiscard]] const std::vector<std::string>& stop_markers(const Format& format);

/// Every literal that the format searches for in running text, and the control tokens that it
/// names. Those that are control tokens of the model's vocabulary go into
/// ParseOptions::control_markers.
[[nodiscard]] std::vector<std::string> markers(const Format& format);

/// A list of JSON Schemas whose copies share their data, so that many parsers can have it. Adding
/// to a shared list makes a copy.
class SchemaList {
 public:
  SchemaList() = default;
  SchemaList(std::vector<json::Value> schemas)  // NOLINT: it is one
      : list_(std::make_shared<std::vector<json::Value>>(std::move(schemas))) {}
  SchemaList(std::initializer_list<json::Value> schemas)
      : SchemaList(std::vector<json::Value>(schemas)) {}

  [[nodiscard]] std::size_t size() const { return list_ == nullptr ? 0 : list_->size(); }
  /// Valid as long as any copy of the list.
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
  std::vector<std::string> tools;  ///< Names that may be called; empty: the whole text is content.
  /// JSON Schemas of the tools' parameters, in the order of `tools`. They distinguish text from
  /// numbers in formats that write both alike. The list may be shorter; without a schema, a value
  /// that is valid JSON is JSON.
  SchemaList schemas;
  /// Every name is a call's (`on_unknown_tool = "forward"`), also without `tools`; the diagnostic
  /// "forwarded_tool" reports names that are not in `tools`. Calls that only a name distinguishes
  /// from text (bare JSON, a bracket) must have a name of `tools`, if there are any.
  bool any_tool = false;
  /// Returns the tool for which an unknown name stands, "" for none; asked inside markers only
  /// (`on_unknown_tool = "repair"`). A call that gets another name is reported (kNameFixed). Null:
  /// names are not corrected.
  std::function<std::string(const std::string& name)> corrected_name;
  /// Markers that the engine reports as control tokens; in ordinary text they are just text.
  std::vector<std::string> control_markers;
  std::string prompt_tail;  ///< The end of the prompt, which shows an open section.
  bool parse_reasoning = true;
  /// Calls in other forms (with_fallbacks()) count only before all words (Asked::of_tools).
  bool others_first = false;
  std::string id_prefix = "call_";  ///< The prefix of ids for calls whose format has no ids.
};

/// The code of the diagnostic that reports it.
inline constexpr std::string_view kNameFixed = "name_fixed";

/// Turns model output, cut anywhere, into events. fold(events) is the same for every cut, and every
/// byte that is not part of a call or a marker is content. Linear. The state is about 2 KB plus
/// copies of the options' names. While a call is uncertain its text is held too (kMaxHeld bytes,
/// perhaps twice), and so is a parameter's value whose type the schema leaves open, up to 1 MB. One
/// parser serves one answer, from one thread.
///
///     StreamParser parser(find("hermes"), {.tools = {"get_weather"}});
///     std::vector<message::ChatEvent> events;
///     for (std::string_view piece : pieces) parser.feed(piece, false, events);
///     parser.finish(/*truncated=*/false, events);
///
/// A call begins (CallBegin) once its name is complete and is one of the request's. Until then its
/// bytes are held, at most kMaxHeld, and become content if it turns out not to be a call
/// (diagnostic "unknown_tool" or "broken_call"). From then on its arguments are passed on as they
/// come. If they break off, they are kept (closed to valid JSON, unless the output was cut by
/// length) and the call is incomplete. If they become invalid JSON, they are closed, the text that
/// did not fit follows as content, and the diagnostic "spoilt_call" reports it. Small mistakes with
/// one possible meaning are repaired on the way (JsonFilter, diagnostic "mended_arguments").
class StreamParser {
 public:
  StreamParser(std::shared_ptr<const Format> format, ParseOptions options);
  ~StreamParser();
  StreamParser(StreamParser&&) noexcept;
  StreamParser& operator=(StreamParser&&) noexcept;

  static constexpr std::size_t kMaxHeld = std::size_t{64} << 10;

  /// Takes one token's bytes, or any piece of text. `is_control`: they are the whole text of a
  /// control token, which is the only way in which one of ParseOptions::control_markers is
  /// recognised. Pass `false` for engines that do not report control tokens: then markers match by
  /// text.
  void feed(std::string_view bytes, bool is_control, std::vector<message::ChatEvent>& out);

  /// Something that is part of the answer but not of the text comes here (a call that the engine
  /// reports by itself, for example). Text that was held back becomes content before it. A call
  /// that has begun goes on; if a call's name is complete and only its end uncertain, it begins.
  /// `is_marker`: what comes is a boundary like a marker, so white space beside it is not content.
  void interrupt(bool is_marker, std::vector<message::ChatEvent>& out);

  /// The output has ended; `truncated` if by length. Flushes what was held back, and closes open
  /// calls as incomplete. Finish is not among the events; the responder sends it.
  void finish(bool truncated, std::vector<message::ChatEvent>& out);

  /// The tool's schema in ParseOptions::schemas, valid while the parser lives; null if it has none.
  [[nodiscard]] const json::Value* schema_of(std::string_view tool) const;

  /// The number of calls begun so far.
  [[nodiscard]] std::size_t call_count() const;
  /// The name of the format of the first call, a fallback's or the parser's own; "" if there was no
  /// call.
  [[nodiscard]] const std::string& claimed_by() const;
  /// The last call has ended, but the marker that its format writes after it has not come yet.
  [[nodiscard]] bool awaits_end_marker() const;
  void reset();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::format
