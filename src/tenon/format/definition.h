#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/format/lead.h"
#include "tenon/format/render.h"

/// The tables that a definition (docs/formats.md) becomes, which the parser, the renderer and the
/// grammar read. No code here depends on a format's name.
namespace tenon::format {

using LiteralId = std::uint8_t;

/// A set of a format's literals.
class LiteralSet {
 public:
  static constexpr std::size_t kMax = 192;  ///< Numbers are below this.

  constexpr LiteralSet() = default;
  [[nodiscard]] static constexpr LiteralSet of(LiteralId id) {
    LiteralSet set;
    set.words_[id / 64] = std::uint64_t{1} << id % 64;
    return set;
  }
  [[nodiscard]] constexpr bool is_empty() const { return (words_[0] | words_[1] | words_[2]) == 0; }
  [[nodiscard]] constexpr bool contains(LiteralId id) const {
    return (words_[id / 64] >> id % 64 & 1) != 0;
  }
  [[nodiscard]] constexpr bool shares(const LiteralSet& other) const {
    return !(*this & other).is_empty();
  }
  /// Calls f with each number in ascending order.
  template <class F>
  constexpr void for_each(F f) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t word = words_[i]; word != 0; word &= word - 1) {
        f(static_cast<LiteralId>(64 * i + static_cast<std::size_t>(std::countr_zero(word))));
      }
    }
  }

  constexpr LiteralSet& operator|=(const LiteralSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }
  constexpr LiteralSet& operator&=(const LiteralSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    return *this;
  }
  /// Removes the numbers of `other`.
  constexpr LiteralSet& operator-=(const LiteralSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
    return *this;
  }
  friend constexpr LiteralSet operator|(LiteralSet a, const LiteralSet& b) { return a |= b; }
  friend constexpr LiteralSet operator&(LiteralSet a, const LiteralSet& b) { return a &= b; }
  friend constexpr LiteralSet operator-(LiteralSet a, const LiteralSet& b) { return a -= b; }
  constexpr bool operator==(const LiteralSet&) const = default;

 private:
  std::array<std::uint64_t, kMax / 64> words_{};
};

/// Finds all literals of a format in one pass (Aho and Corasick 1975). A node stands for the bytes
/// that lead to it, so the node alone is what a parser holds back.
class Automaton {
 public:
  using Node = std::uint16_t;
  static constexpr Node kRoot = 0;

  /// At most LiteralSet::kMax literals, none of them empty.
  Automaton() = default;
  explicit Automaton(const std::vector<std::string>& literals);

  [[nodiscard]] Node next(Node node, unsigned char byte) const {
    return next_[node * class_count_ + class_of_[byte]];
  }
  /// The number of bytes held at `node`: the longest suffix of the text that begins a literal.
  [[nodiscard]] std::uint16_t depth(Node node) const { return depth_[node]; }
  /// The bytes held at `node`.
  [[nodiscard]] std::string held(Node node) const;
  /// The literals that end at `node`.
  [[nodiscard]] const LiteralSet& ends(Node node) const { return ends_[node]; }
  /// False: at the root, `byte` begins no literal.
  [[nodiscard]] bool begins(unsigned char byte) const { return next_[class_of_[byte]] != kRoot; }
  [[nodiscard]] std::size_t size() const { return depth_.size(); }

 private:
  std::array<std::uint8_t, 256> class_of_{};  // 0: the byte is in no literal
  std::size_t class_count_ = 1;
  std::vector<Node> next_;  // [node * class_count_ + class]
  std::vector<std::uint16_t> depth_;
  std::vector<Node> parent_;
  std::vector<char> byte_;        // the byte by which parent_ leads here
  std::vector<LiteralSet> ends_;  // includes those of all suffixes
};

struct Attribute;

/// One piece of a pattern.
struct Piece {
  enum class Kind : std::uint8_t {
    literal,     ///< `text`, exactly
    space,       ///< written as `text`, read as any run of white space
    name,        ///< the tool's name, up to the next piece
    id,          ///< the call's id, up to the next piece
    skip,        ///< any text up to the next piece; written as `text`
    word,        ///< the same, without any of `<>{}"`
    again,       ///< the tool's name again; any text is read
    index,       ///< the call's number in its answer, from 1; any text is read
    arguments,   ///< the arguments as a JSON object
    object,      ///< a JSON object that contains name and arguments
    keywords,    ///< the arguments as Python writes them, in parentheses
    members,     ///< the arguments as an object with bare keys and Syntax::string_quote
    parameters,  ///< the arguments one by one, each as `Syntax::parameter` says
    key,         ///< of a parameter: its name
    type,        ///< of a parameter: whether its value is text
    value,       ///< of a parameter: its value, raw text or JSON
    content,     ///< of a result: its text unchanged
    json,        ///< of a result: its text if it is JSON, else as a JSON string
    attributes,  ///< for reading only: the attributes of a tag, up to the tag's end, which is
                 ///< `text`
  };
  Kind kind = Kind::literal;
  std::string text;
  std::vector<Attribute> attributes;
  bool operator==(const Piece&) const;
};
using Pattern = std::vector<Piece>;

/// An attribute of a tag in a pattern, ` name="${slot}"`.
struct Attribute {
  std::string name;
  Piece::Kind kind = Piece::Kind::name;  ///< The kind of the slot.
  bool operator==(const Attribute&) const = default;
};
inline bool Piece::operator==(const Piece& other) const {
  return kind == other.kind && text == other.text && attributes == other.attributes;
}

/// A literal that is searched for in running text, with the white space that belongs to it if it
/// comes.
struct Mark {
  LiteralId literal = 0;
  std::string space;
};

/// How a call begins in running text.
struct Start {
  LiteralSet literals;  ///< Any of these begins it, with and without the white space before it.
  bool keeps_literal = false;  ///< The literal is part of the slot after it, like the brace of an
                               ///< object.
  Pattern rest;                ///< What follows the literal, up to and including the last slot.
};

/// The keys of a call that is a JSON object. The first of each list is the one that is written.
struct ObjectKeys {
  std::vector<std::string> name = {"name"};
  std::vector<std::string> arguments = {"arguments", "parameters"};
  std::vector<std::string> id = {"id"};
  std::vector<std::string> wrapper = {"function"};  ///< Objects that may enclose the other keys.
  bool name_is_key = false;                         ///< `{"the_tool": {...}}`
  bool writes_id = false;
  bool id_first = false;  ///< Written before the name.
  bool operator==(const ObjectKeys&) const = default;
};

/// White space in the JSON of the arguments.
enum class Layout : std::uint8_t {
  asked,    ///< As the caller of the grammar wants it.
  compact,  ///< No white space.
  any,      ///< Any, such as one line per member.
};

/// How values that are no text are written, beside the way of the pattern's slot.
enum class Notation : std::uint8_t {
  own,     ///< In no other.
  python,  ///< As Python's repr has them; for parameters.
  json,    ///< As JSON; for Python's keywords.
};

/// One way to write calls; a format may have several, of which the first is the one it writes.
struct Syntax {
  Pattern open;       ///< Begins a section of calls; empty: each call stands alone.
  Pattern separator;  ///< Between calls.
  Pattern close;      ///< Ends the section.
  Pattern call;
  Pattern parameter;       ///< One parameter of `${parameters}`.
  std::string quote_open;  ///< A value may also be between these, like CDATA.
  std::string quote_close;
  std::string string_quote;  ///< Strings of `${members}` are between these.
  std::string item;  ///< A value may consist of parameters itself; the items of an array have this
                     ///< name.
  bool entities = false;  ///< Names, keys and types have XML's entities.
  ObjectKeys object;
  bool section_optional = false;  ///< A call may come without its section.
  /// A parameter's value may end without its marker: at the next parameter of the tool, and at the
  /// end of the call with what follows that, exactly as in the patterns. If that marker contains
  /// the key, another key may stand in it before the end of the call.
  bool parameter_end_optional = true;
  bool several = true;
  bool holds_call = false;   ///< Nothing is passed on until the call is complete: for bare JSON.
  bool needs_tools = false;  ///< Only known names make it a call.
  std::size_t table = 0;     ///< The index of its [[syntax]] in the definition.
  bool borrowed = false;  ///< It is from another format, which is itself a fallback if this one is
                          ///< to be a fallback.
  bool written = false;  ///< Some models of the format write this, so the grammar has it beside the
                         ///< first.

  // Only for Format::forms, and read only by the grammar.
  std::string before;  ///< May come before calls that begin the answer: an empty message, for
                       ///< example.
  std::string behind;  ///< May follow the last call and the end of its section.
  Layout layout = Layout::asked;
  Notation notation = Notation::own;

  // For a format with fallbacks.
  std::size_t rank = 0;  ///< 0: the format's own; else the place of its fallback in the order.
  std::string of;        ///< The name of that fallback.
  /// Where it may begin, if it belongs to a fallback: the text before a call decides whether it is
  /// one.
  Lead::Place place = Lead::Place::anywhere;
  /// Only type and id may come before the name of an object: such a beginning is regular.
  bool name_first = false;

  // Compiled.
  Start first;                  ///< For `open` and `call`, or for `call` if there is no section.
  Start next;                   ///< For `call`.
  std::vector<Mark> call_tail;  ///< What follows the last slot of the call.
  std::string tail_text;        ///< Its first literal.
  char bracket = '\0';          ///< With which the last slot of the call ends; 0: with no bracket.
  std::vector<Mark> close_marks;
  std::vector<Mark> separator_marks;
  Pattern read_parameter;  ///< `parameter` for reading.
  /// The end of the call's parameters and what follows it in the patterns, which together end a
  /// value that has no end marker.
  std::vector<std::string> value_breaks;
  /// The markers with which a call, and then its section, ends. One of them in a value ends the
  /// call if the text ends before the value does.
  std::vector<std::string> call_ends;
  /// What ends the call's parameters without their own end: the end of the turn, or the beginning
  /// of another call or message.
  std::vector<std::string> call_breaks;
  /// The control token with which each marker of a parameter begins, so no value contains it.
  std::string guard;
  /// Another syntax begins alike up to the arguments, whose beginning decides between the two.
  bool shares_head = false;

  /// False: each call stands alone, with at most white space between two calls.
  [[nodiscard]] bool has_section() const {
    return !open.empty() || !close_marks.empty() || !separator_marks.empty();
  }
};

/// The form of ids that are made here.
struct IdRule {
  std::optional<std::string> prefix;  ///< Absent: the prefix of the request (`call_`).
  std::size_t length = 24;
  std::string name_before;  ///< The id contains the name: between this prefix ...
  std::string name_after;   ///< ... and the last occurrence of this; empty: to the end.
  bool holds_name = false;
};

/// How results of calls are written into history if a template has no place for them.
struct ResultRule {
  std::string role = "user";  ///< The role of the message.
  Pattern open;    ///< Before the results of one turn; `separator` and `close` similarly.
  Pattern result;  ///< Empty: the definition does not define results.
  Pattern error;   ///< In place of `result` for a call that failed.
  Pattern separator;
  Pattern close;
  bool merge = true;  ///< Consecutive results are one turn.
};

/// Heads of messages that say in words what a message is. They are read in any order, with any
/// other words in them. A head is never content.
struct HeadRule {
  std::vector<std::string> begin;        ///< Markers that begin a head after any text.
  std::vector<std::string> begin_first;  ///< Words that begin a head at the beginning of a message.
  std::string end;                       ///< Empty: the format has no such heads.
  std::string channel;                   ///< Before the word that names the channel.
  std::string recipient;                 ///< Before the word that names the recipient.
  std::vector<std::string> reasoning;    ///< Channels and recipients of messages that are not the
                                         ///< answer.
  std::vector<std::string> content;      ///< Channels whose messages are content.
  std::vector<std::string> readers;      ///< Recipients that are not tools.
  bool calls = false;  ///< Any other recipient is a tool, called as `syntax` says.

  // Compiled.
  LiteralSet openers;
  LiteralSet first_openers;
  LiteralSet between;  ///< After one of these a message begins ...
  LiteralSet closers;  ///< ... and after one of these.
  LiteralId end_literal = 0;
};

/// How a format is recognised if no rendered call decides (detect.h).
struct DetectRule {
  std::vector<std::string> all;    ///< The template or the vocabulary has all of these ...
  std::vector<std::string> none;   ///< ... and none of these.
  std::vector<std::string> model;  ///< Or the model's name, in lower case, has one of these.
  bool tool_template = false;      ///< Or the model has a separate template for tools.
};

class Format : public std::enable_shared_from_this<Format> {
 public:
  FormatInfo info;
  std::string summary;
  std::vector<Syntax> syntaxes;
  /// Other forms in which models write the calls of `syntaxes`, which the parser reads anyway:
  /// other white space, another order of members, an id. The grammar has them beside the first
  /// syntax. An object may be written out in them, so `${name}` and `${id}` may come after
  /// `${arguments}`.
  std::vector<Syntax> forms;
  /// It is known what the model's template writes around calls: `before` and `behind`. False: any
  /// white space may be there.
  bool has_known_edges = false;
  std::vector<std::string> reasoning_open;  ///< The first is the one that is written.
  std::vector<std::string> reasoning_close;
  bool call_ends_reasoning = false;
  bool reasoning_starts_open = false;  ///< Also if the prompt does not show it.
  bool reasoning_anywhere = false;     ///< It may also begin after other text.
  std::vector<std::string> drop;  ///< Markers that are not content, such as the end of the turn.
  std::vector<std::string> content_open;   ///< One of these may begin content ...
  std::vector<std::string> content_close;  ///< ... and then one of these ends it.
  HeadRule head;
  Pattern between;         ///< Between reasoning, content and calls; it has no slots.
  std::string prompt_end;  ///< The prompt ends with this, and the answer continues after it.
  std::vector<std::string> special;  ///< Markers that are control tokens of its models.
  std::vector<std::string> stop;     ///< Markers that end the turn, in addition to the model's own.
  IdRule id;
  ResultRule result;
  bool fallback = false;           ///< For models whose templates know no tools.
  std::size_t fallback_order = 0;  ///< Its place among the other forms that are tried; 0: it is not
                                   ///< tried.
  std::vector<DetectRule> detect;
  std::string toml;            ///< The source of the definition.
  std::string alias_place;     ///< The place of the aliases, as in errors: "act.toml:2:11: ".
  std::string fallback_place;  ///< The place of `fallback`.

  // Compiled.
  std::vector<std::string> literals;  ///< All texts that are searched for in running text.
  Automaton automaton;                ///< Over literals.
  LiteralSet strong;                  ///< Literals that do not occur in text by chance.
  LiteralSet reasoning_openers;
  LiteralSet reasoning_closers;
  LiteralSet content_openers;
  LiteralSet drops;
  LiteralSet ends;  ///< The turn's ends: behind a call, nothing after one is part of the answer.
  // For a format with fallbacks.
  bool has_gated = false;  ///< Some syntax belongs to a fallback.
  // Also for such a format; strong literals only.
  LiteralSet call_markers;  ///< All markers around calls.
  LiteralSet stray_ends;    ///< Those of them that end calls; after a call they are not content.
};

/// The keys of arguments inside a wrapper object, without `parameters`, which in a tool's
/// description has the schema.
[[nodiscard]] std::vector<std::string> wrapped_arguments(const ObjectKeys& keys);

/// Compiles the tables of `format` from its patterns again. Returns an error if markers do not work
/// together.
[[nodiscard]] std::optional<std::string> relink(Format& format);

/// Whether an answer begins inside the reasoning: the prompt, which ends with `prompt_tail`, has
/// opened it, or the format's models open it by themselves and the prompt has not closed it.
[[nodiscard]] bool starts_in_reasoning(const Format& format, std::string_view prompt_tail);

/// Like render_calls, in any syntax of the format.
[[nodiscard]] Expected<std::string> render_calls_in(const Format& format, const Syntax& syntax,
                                                    const std::vector<message::ToolCall>& calls,
                                                    const HistoryOptions& options);

}  // namespace tenon::format
