#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tenon/format/attributes.h"
#include "tenon/format/definition.h"
#include "tenon/format/json_filter.h"
#include "tenon/format/parameter_reader.h"
#include "tenon/format/string_decoder.h"

namespace tenon::format {

/// The names that can be a call's.
struct KnownTools {
  const ToolSchemas* tools = nullptr;
  /// Returns the tool for which an unknown name stands, "" for none. Null: unknown names are not
  /// corrected.
  const std::function<std::string(const std::string&)>* corrected = nullptr;
  /// The call stands in markers: an unknown name is taken for the tool that it must mean.
  bool is_marked = false;
  bool any = false;  ///< Every name is a call's.
};

/// Reads the body of one call, from after its first literal to the end of its last slot, byte by
/// byte, by one pattern of one syntax. It knows nothing of text around calls, of holding back or of
/// events; the stream parser asks it what is known so far.
class CallReader {
 public:
  enum class Status : std::uint8_t {
    open,
    named,  ///< The name is complete and what follows fits. Ask `name`; the next feed continues.
    done,   ///< The call's last slot has ended.
    bad,    ///< The next byte does not fit, or it completes the name of an unknown tool.
  };

  /// `syntax`, `pattern`, `id_rule`, and what `known` points to, must outlive the reading.
  void start(const Syntax& syntax, const Pattern& pattern, const IdRule& id_rule,
             const KnownTools& known);

  /// Uses bytes until all are used or the status is no longer open. Returns the number of bytes
  /// used.
  std::size_t feed(std::string_view bytes);
  /// The arguments are complete (perhaps something after them is missing).
  [[nodiscard]] bool is_whole() const { return arguments_done_ || status_ == Status::done; }
  /// They are complete if the text ends now. `close` then gives bytes behind the call as unused().
  [[nodiscard]] bool may_be_whole() const { return parameters_.may_have_ended(); }
  [[nodiscard]] std::size_t bytes_in_doubt() const { return parameters_.bytes_in_doubt(); }
  /// Called if the text was cut off: what is held goes to `arguments` unchanged, so that they are
  /// the beginning of JSON. Returns the bytes that were used and are not in them, like `close`.
  std::string finish();
  /// Called if the text has ended otherwise. `arguments` and `completion` together are valid JSON.
  /// Returns the bytes that were used and are not in them.
  std::string close();
  /// What makes the arguments valid JSON after `close`.
  [[nodiscard]] const std::string& completion() const { return completion_; }
  /// The completion ends a value that the text has begun; it does not supply one.
  [[nodiscard]] bool completes_value() const { return completes_value_; }

  [[nodiscard]] Status status() const { return status_; }
  [[nodiscard]] bool has_name() const { return has_name_; }
  /// The arguments of a known tool have begun.
  [[nodiscard]] bool has_arguments() const {
    return has_name_ && has_arguments_ && status_ != Status::bad;
  }
  [[nodiscard]] bool is_unknown_tool() const { return is_unknown_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The name as it is written in the call; name() is the tool for which it stands.
  [[nodiscard]] const std::string& written_name() const { return written_name_; }
  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] bool is_repaired() const { return repaired_ || parameters_.is_repaired(); }
  /// What the call says beyond name and arguments, for people: the first member that is neither
  /// part of a call nor its type, or the text in place of a word of the format. Empty: nothing.
  [[nodiscard]] const std::string& ignored() const { return ignored_; }
  /// Some parameter has come twice.
  [[nodiscard]] bool has_repeated() const { return parameters_.has_repeated(); }
  /// After done: bytes that were fed and are no part of the call.
  [[nodiscard]] const std::string& unused() const { return parameters_.unused(); }
  /// The first literal of the call's tail has also been read.
  [[nodiscard]] bool has_used_tail() const { return used_tail_; }
  /// Argument text that has been read and not been taken yet.
  std::string& arguments() { return arguments_; }

 private:
  enum class Place : std::uint8_t {
    begin,
    first_key,
    key,
    in_key,
    colon,
    value,
    in_name,
    in_id,
    in_ignored,  // a string between apostrophes that says nothing
    in_arguments,
    in_coded,
    coded_start,
    in_other,
    after,
  };

  std::size_t feed_piece(std::string_view bytes);
  std::size_t feed_literal(std::string_view bytes, std::string_view literal);
  std::size_t feed_field(std::string_view bytes, Piece::Kind kind);
  std::size_t feed_attributes(std::string_view bytes);
  std::size_t feed_arguments(std::string_view bytes);
  std::size_t feed_parameters(std::string_view bytes);
  void begin_parameters();
  bool begins_parameters(char byte);
  void end_without_arguments();
  void settle_guess();
  std::size_t feed_object(std::string_view bytes);
  std::size_t feed_coded(std::string_view bytes);
  void begin_text();
  std::string end_coded();
  [[nodiscard]] std::string left_out() const;
  bool step_object(char byte);
  [[nodiscard]] bool may_come_before_name(char byte) const;
  [[nodiscard]] bool is_arguments_key() const;
  bool begins_string(char byte);
  bool begin_member_value(char byte);
  void end_arguments();
  void end_member();
  void end_object();
  void next_piece();
  void end_field(Piece::Kind kind);
  void note_word(char byte);
  [[nodiscard]] std::string_view value_close() const;
  [[nodiscard]] bool has_stray(std::string_view stray) const;
  [[nodiscard]] bool may_be_word(std::string_view end) const;
  [[nodiscard]] bool may_be_id(std::string_view end) const;
  void set_name(std::string name);
  void ignore(std::string what);
  void note_left_over();
  [[nodiscard]] bool is_in_strange_key() const;
  void fail() { status_ = Status::bad; }
  [[nodiscard]] const Piece& piece() const { return (*pattern_)[at_]; }
  [[nodiscard]] std::size_t after_spaces(std::size_t from) const;

  const Syntax* syntax_ = nullptr;  // belongs to the parser's format and outlives this
  const Pattern* pattern_ = nullptr;
  const IdRule* id_rule_ = nullptr;
  KnownTools known_;
  std::size_t at_ = 0;       // index in the pattern
  std::size_t matched_ = 0;  // bytes of the literal
  Status status_ = Status::open;
  Place place_ = Place::begin;
  std::uint8_t level_ = 0;  // open wrapper objects
  bool has_name_ = false;
  bool has_arguments_ = false;  // begun
  bool arguments_done_ = false;
  bool escaped_ = false;  // inside a collected JSON string, after a backslash
  bool has_escape_ = false;
  bool repaired_ = false;
  bool may_double_ = false;  // the brace of an object has come, and may come once more
  bool used_tail_ = false;
  bool is_unknown_ = false;
  bool is_guess_ = false;   // the only tool there is, so its arguments must be its own
  char name_quote_ = '\0';  // the quote with which the field begins
  char quote_ = '"';        // of the key, name or id that is read in an object
  JsonFilter filter_;
  AttributeReader attributes_;
  ParameterReader parameters_;
  StringDecoder decoder_;
  static constexpr std::size_t kNowhere = std::string::npos;
  std::size_t word_begin_ = kNowhere;   // for a field being read: where its word is in text_
  std::size_t word_end_ = kNowhere;     // one after its end
  std::size_t behind_word_ = kNowhere;  // text after the word and the white space there
  std::string text_;                    // a key, name, id, literal or escape that is being read
  std::string name_;
  std::string written_name_;
  std::string id_;
  std::string ignored_;
  std::string frame_;  // of an object: the text since its last complete member, without arguments
  std::string coded_;  // of arguments that are a string: what the filter holds, as it is written
  std::string arguments_;
  std::string completion_;
  bool completes_value_ = false;
};

}  // namespace tenon::format
