#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/format/call_reader.h"
#include "tenon/format/definition.h"
#include "tenon/format/stream_parser.h"
#include "tenon/format/stream_state.h"
#include "tenon/message/event.h"

namespace tenon::format {

/// The stream parser behind its face. Bytes go from the input (stream_parser.cc) to the one of
/// three readers whose mode it is: of text and its markers (stream_markers.cc), of a message's head
/// (stream_heads.cc) or of a call (stream_calls.cc). What is certain to be text leaves through
/// put() (stream_text.cc).
///
/// It is its state, so that its functions name the fields plainly; reset() replaces all of it.
struct StreamParser::Impl : AnswerState {
  Impl(std::shared_ptr<const Format> format_in, ParseOptions options_in);

  // Input.
  void reset();
  void feed(std::string_view bytes, bool is_control);
  void finish(bool truncated);
  void finish_call(bool truncated);
  void interrupt(bool is_marker);
  void settle_held();
  void begin_behind_prompt();
  void run(std::string_view bytes);
  std::size_t read(std::string_view bytes);
  std::size_t leave_out(std::string_view bytes);
  // The place of the next byte in the answer: bytes that are read again have an earlier one.
  [[nodiscard]] std::uint64_t place() const { return taken - (reread.bytes.size() - reread.at); }
  [[nodiscard]] bool has_its_controls(LiteralId id, std::uint64_t end) const;
  void forget_controls();
  void read_again(std::string held);

  // Markers.
  void refresh();
  [[nodiscard]] LiteralSet expected_markers() const;
  std::size_t read_text(std::string_view bytes);
  bool take(const LiteralSet& ended, std::size_t depth, std::uint64_t end);
  void note_leak(const LiteralSet& ended, std::uint64_t end);
  [[nodiscard]] bool is_at_retry(std::size_t before) const;
  [[nodiscard]] bool is_open_end_marker() const;
  void on_literal(LiteralId id);
  void act_on(LiteralId id);
  bool act_on_end(LiteralId id);
  bool begins_call(LiteralId id);
  void release_node(std::uint16_t keep);
  [[nodiscard]] bool waits_for_longer(LiteralId id) const;
  void put_held(std::string_view bytes);
  void at_marker(std::string_view space = {});
  // Whether something asks for the text before a call.
  [[nodiscard]] bool has_lead() const { return format->has_gated || !options.tools.empty(); }

  // Text.
  void put(std::string_view bytes);
  void put_answer(std::string_view bytes);
  void put_content(std::string_view bytes);
  void put_reasoning(std::string_view bytes);
  void on_junk();
  [[nodiscard]] bool may_have_stray_brackets() const;
  [[nodiscard]] bool may_reopen() const;
  void drop_space();
  void begin_reasoning();
  void end_reasoning();
  void flush_text();
  void diagnose(std::string code, std::string message);

  // Heads of messages.
  [[nodiscard]] bool is_head(LiteralId id) const {
    return format->head.openers.contains(id) ||
           (at_head && format->head.first_openers.contains(id));
  }
  // A literal that begins a head begins nothing else.
  [[nodiscard]] LiteralSet heads() const {
    return format->head.openers | format->head.first_openers;
  }
  void start_head(LiteralId id);
  std::size_t read_head(std::string_view bytes);
  [[nodiscard]] bool is_no_head() const;
  void end_head();
  void fail_head();
  void call_by_head(std::string_view recipient);

  // Calls.
  [[nodiscard]] bool may_call(const Syntax& syntax) const;
  [[nodiscard]] bool may_stand(const Syntax& syntax, const Lead& before) const {
    return syntax.rank == 0 ||
           before.admits(options.others_first ? Lead::Place::first : syntax.place);
  }
  [[nodiscard]] bool may_stand(LiteralId id, std::size_t before) const;
  [[nodiscard]] bool syntax_of(LiteralId id, std::size_t from, std::size_t& index) const;
  [[nodiscard]] bool shares_section(const Syntax& other) const;
  [[nodiscard]] bool syntax_in_section(LiteralId id, std::size_t from, std::size_t& index) const;
  [[nodiscard]] bool other_syntax(const CallState& failed, LiteralId id, std::size_t& from) const;
  void start_call(std::size_t syntax_index, LiteralId id, bool in_section);
  void start_reader(bool is_marked, bool is_tag);
  std::size_t read_call(std::string_view bytes);
  void settle_call();
  void commit();
  void tell_of_call();
  void end_call(bool incomplete);
  void tell_of_repairs();
  void spoil_call();
  void fail_call();
  void note_failure(CallState& failed, bool has_other);
  void flush_arguments();
  void send_arguments(std::string json);
  std::string complete_arguments();

  std::shared_ptr<const Format> format;
  ParseOptions options;
  // For each literal: its bytes that are control tokens.
  std::vector<std::vector<ControlPlace>> controls_of;
  ToolSchemas tools;  // pointers into options.schemas

  CallReader reader;  // start() prepares it for a call
  std::string clean;  // what the sanitizer made of the bytes that came last
  std::vector<message::ChatEvent>* out = nullptr;
};

}  // namespace tenon::format
