#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/format/format.h"
#include "tenon/format/schema_list.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

namespace tenon::format {

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
