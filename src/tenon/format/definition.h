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

/// What a definition (docs/formats.md) becomes: tables that the parser, the renderer and the
/// grammar read. Nothing here knows a format's name.
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
  /// Calls f with each number, ascending.
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
  /// Takes out those of `other`.
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
/// that lead to it, so what a parser holds back is its node and nothing else.
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
  /// How many bytes are held at `node`: the longest end of the text that begins a literal.
  [[nodiscard]] std::uint16_t depth(Node node) const { return depth_[node]; }
  /// The bytes held at `node`.
  [[nodiscard]] std::string held(Node node) const;
  /// Literals that end at `node`, as bits.
  [[nodiscard]] const LiteralSet& ends(Node node) const { return ends_[node]; }
  /// False: at the root, `byte` begins no literal.
  [[nodiscard]] bool begins(unsigned char byte) const { return next_[class_of_[byte]] != kRoot; }
  [[nodiscard]] std::size_t size() const { return depth_.size(); }

 private:
  std::array<std::uint8_t, 256> class_of_{};  // 0: in no literal
  std::size_t class_count_ = 1;
  std::vector<Node> next_;  // [node * class_count_ + class]
  std::vector<std::uint16_t> depth_;
  std::vector<Node> parent_;
  std::vector<char> byte_;        // by which parent_ leads here
  std::vector<LiteralSet> ends_;  // with those of all suffixes
};

struct Attribute;

/// One piece of a pattern.
struct Piece {
  enum class Kind : std::uint8_t {
    literal,     ///< `text`, to the byte
    space,       ///< written as `text`, read as any run of white space
    name,        ///< the tool's name, up to what comes next
    id,          ///< the call's id, up to what comes next
    skip,        ///< anything up to what comes next; written as `text`
    word,        ///< the same, without any of `<>{}"`
    again,       ///< the tool's name once more; anything is read
    index,       ///< the call's number in its answer, from 1; anything is read
    arguments,   ///< the arguments as a JSON object
    object,      ///< a JSON object with name and arguments inside
    keywords,    ///< the arguments as Python writes them, in parentheses
    members,     ///< the arguments as an object with bare keys and Syntax::string_quote
    parameters,  ///< the arguments one by one, each as `Syntax::parameter` says
    key,         ///< of a parameter: its name
    type,        ///< of a parameter: whether its value is text
    value,       ///< of a parameter: its value, raw text or JSON
    content,     ///< of a result: its text as it stands
    json,        ///< of a result: its text if that is JSON, else as a JSON string
    attributes,  ///< of what is read: the attributes of a tag, up to its end, which is `text`
  };
  Kind kind = Kind::literal;
  std::string text;
  std::vector<Attribute> attributes = {};
  bool operator==(const Piece&) const;
};
using Pattern = std::vector<Piece>;

/// Of a tag in a pattern, ` name="${slot}"`.
struct Attribute {
  std::string name;
  Piece::Kind kind = Piece::Kind::name;  ///< Of the slot.
  bool operator==(const Attribute&) const = default;
};
inline bool Piece::operator==(const Piece& other) const {
  return kind == other.kind && text == other.text && attributes == other.attributes;
}

/// A literal that is looked for in running text, and the white space that is part of it if it
/// comes.
struct Mark {
  LiteralId literal = 0;
  std::string space;
};

/// How a call begins in running text.
struct Start {
  LiteralSet literals;         ///< Any of these; with and without the white space before it.
  bool keeps_literal = false;  ///< It is part of the slot that follows: the brace of an object.
  Pattern rest;                ///< What follows the literal, up to and with the last slot.
};

/// Keys of a call that is a JSON object; the first of each is the one that is written.
struct ObjectKeys {
  std::vector<std::string> name = {"name"};
  std::vector<std::string> arguments = {"arguments", "parameters"};
  std::vector<std::string> id = {"id"};
  std::vector<std::string> wrapper = {"function"};  ///< Objects inside which the keys may be.
  bool name_is_key = false;                         ///< `{"the_tool": {...}}`
  bool writes_id = false;
  bool id_first = false;  ///< Written before the name.
  bool operator==(const ObjectKeys&) const = default;
};

/// White space in the JSON of the arguments.
enum class Layout : std::uint8_t {
  asked,    ///< As the caller of the grammar has it.
  compact,  ///< None.
  any,      ///< A line per member, say.
};

/// One way to write calls; a format may have several, of which the first is the one it writes.
struct Syntax {
  Pattern open;       ///< Begins a section of calls; empty: each call stands alone.
  Pattern separator;  ///< Between calls.
  Pattern close;      ///< Ends the section.
  Pattern call;
  Pattern parameter;       ///< One of `${parameters}`.
  std::string quote_open;  ///< A value may lie between these too, as in CDATA.
  std::string quote_close;
  std::string string_quote;  ///< What strings of `${members}` lie between.
  std::string item;          ///< A value may be parameters itself; of an array each is called so.
  bool entities = false;     ///< Names, keys and types have XML's entities.
  ObjectKeys object;
  bool section_optional = false;  ///< A call may come without its section.
  /// A parameter's value may end without its marker: at the next parameter of the tool, and where
  /// more than one marker ends the call at those, as the patterns have them to the byte. Where the
  /// key is in that marker, another may be: before the end of the call.
  bool parameter_end_optional = false;
  bool several = true;
  bool holds_call = false;   ///< Nothing is passed on until the call is whole: bare JSON.
  bool needs_tools = false;  ///< Names are a call's only evidence: without any there is none.
  std::size_t table = 0;     ///< Which [[syntax]] of the definition says it.
  bool borrowed = false;     ///< Another format's, which is itself a fallback if it is to be one.
  bool written = false;      ///< Some of its models write so: the grammar has it beside the first.

  // Of Format::forms: only the grammar reads these.
  std::string before;  ///< May come first, where the calls begin the answer: an empty message, say.
  std::string behind;  ///< May follow the last call and what closes its section.
  Layout layout = Layout::asked;

  // Of a format with fallbacks.
  std::size_t rank = 0;  ///< 0: the format's own; else that fallback's place in the order.
  std::string of;        ///< That fallback's name.
  /// Where it may begin, if it is a fallback's: the text before a call says whether it is one.
  Lead::Place place = Lead::Place::anywhere;
  /// Only its type and id may come before the name of an object: such a beginning is regular.
  bool name_first = false;

  // Compiled.
  Start first;                  ///< Of `open` and `call`, or of `call` where there is no section.
  Start next;                   ///< Of `call`.
  std::vector<Mark> call_tail;  ///< What follows the call's last slot.
  std::string tail_text;        ///< The first literal of it.
  std::vector<Mark> close_marks;
  std::vector<Mark> separator_marks;
  Pattern read_parameter;  ///< `parameter` as it is read.
  /// The control token that each marker of a parameter begins with: no value holds it.
  std::string guard;
  /// Another syntax begins alike up to the arguments, so what these begin with tells.
  bool shares_head = false;

  /// False: each call stands alone, with at most white space between two.
  [[nodiscard]] bool has_section() const {
    return !open.empty() || !close_marks.empty() || !separator_marks.empty();
  }
};

/// How ids look that are made here.
struct IdRule {
  std::optional<std::string> prefix;  ///< Absent: the request's own (`call_`).
  std::size_t length = 24;
  std::string name_before;  ///< The id holds the name: between this prefix ...
  std::string name_after;   ///< ... and the last place of this; empty: to the end.
  bool holds_name = false;
};

/// How results of calls are written into history where a template has no place for them.
struct ResultRule {
  std::string role = "user";  ///< Whose turn they are.
  Pattern open;               ///< Before the results of one turn; `separator` and `close` likewise.
  Pattern result;             ///< Empty: the definition does not say.
  Pattern error;              ///< Instead of `result` for a call that failed.
  Pattern separator;
  Pattern close;
  bool merge = true;  ///< Results beside each other are one turn.
};

/// Heads of messages that say in words what a message is: read whatever their order, and what is
/// in them beside. Nothing of a head is content.
struct HeadRule {
  std::vector<std::string> begin;        ///< Markers; a head may stand behind any text.
  std::vector<std::string> begin_first;  ///< Words, at the beginning of a message.
  std::string end;                       ///< Empty: the format has no such heads.
  std::string channel;                   ///< Before the word that names the channel.
  std::string recipient;                 ///< Before the word that names the recipient.
  std::vector<std::string> reasoning;    ///< Channels and recipients of what is no answer.
  std::vector<std::string> content;      ///< Channels whose messages are content.
  std::vector<std::string> readers;      ///< Recipients who are no tools.
  bool calls = false;                    ///< Another recipient is a tool, called as `syntax` says.

  // Compiled.
  LiteralSet openers;
  LiteralSet first_openers;
  LiteralSet between;  ///< Behind one of these a message begins ...
  LiteralSet closers;  ///< ... or behind one of these.
  LiteralId end_literal = 0;
};

/// How a format is known where no rendered call tells (detect.h).
struct DetectRule {
  std::vector<std::string> all;    ///< The template or the vocabulary has all of these ...
  std::vector<std::string> none;   ///< ... and none of these.
  std::vector<std::string> model;  ///< Or the model's name, in small letters, has one of these.
  bool tool_template = false;      ///< Or there is a template of its own for tools.
};

class Format : public std::enable_shared_from_this<Format> {
 public:
  FormatInfo info;
  std::string summary;
  std::vector<Syntax> syntaxes;
  /// Other forms in which models write the calls of `syntaxes`, which the parser takes without
  /// being told: other white space, another order of members, an id. Beside the first syntax the
  /// grammar has these. An object may be spelled out in them, so that `${name}` and `${id}` stand
  /// behind `${arguments}`.
  std::vector<Syntax> forms;
  /// What the model's template writes around calls is known: `before` and `behind`. False: any
  /// white space may be there.
  bool has_known_edges = false;
  std::vector<std::string> reasoning_open;  ///< The first is the one that is written.
  std::vector<std::string> reasoning_close;
  bool call_ends_reasoning = false;
  bool reasoning_starts_open = false;      ///< Even if the prompt does not show it.
  bool reasoning_anywhere = false;         ///< It may begin behind words too.
  std::vector<std::string> drop;           ///< Markers that are no content, at the turn's end say.
  std::vector<std::string> content_open;   ///< One of these may begin content ...
  std::vector<std::string> content_close;  ///< ... and then one of these ends it.
  HeadRule head;
  Pattern between;         ///< Comes between reasoning, content and calls; has no slots.
  std::string prompt_end;  ///< The prompt ends so, and what follows it begins behind that.
  std::vector<std::string> special;  ///< Markers that are control tokens of its models.
  std::vector<std::string> stop;     ///< Those that end the turn, beside the models' own.
  IdRule id;
  ResultRule result;
  bool fallback = false;           ///< For models whose templates know no tools.
  std::size_t fallback_order = 0;  ///< Where it is tried for answers in no other form; 0: nowhere.
  std::vector<DetectRule> detect;
  std::string toml;            ///< The definition's source.
  std::string alias_place;     ///< Where it says the aliases, as errors do: "act.toml:2:11: ".
  std::string fallback_place;  ///< And `fallback`.

  // Compiled.
  std::vector<std::string> literals;  ///< Everything that is looked for in running text.
  Automaton automaton;                ///< Over literals.
  LiteralSet strong;                  ///< Literals that do not occur in text by chance.
  LiteralSet reasoning_openers;
  LiteralSet reasoning_closers;
  LiteralSet content_openers;
  LiteralSet drops;
  // Of a format with fallbacks.
  bool has_gated = false;  ///< Some syntax is a fallback's.
  // The same; strong ones only.
  LiteralSet call_markers;  ///< All that stand around calls.
  LiteralSet stray_ends;    ///< Of them, those that end calls: behind one they are no content.
};

/// Keys of the arguments inside an object of a wrapper: not `parameters`, which is where a tool's
/// description has its schema.
[[nodiscard]] std::vector<std::string> wrapped_arguments(const ObjectKeys& keys);

/// Compiles the tables of `format` from its patterns once more. What is wrong: markers that cannot
/// stand beside each other.
[[nodiscard]] std::optional<std::string> relink(Format& format);

/// Whether an answer begins inside the reasoning: the prompt, which ends with `prompt_tail`, has
/// opened it, or the format's models do so by themselves and the prompt has not closed it.
[[nodiscard]] bool starts_in_reasoning(const Format& format, std::string_view prompt_tail);

/// As render_calls, in any syntax of the format.
[[nodiscard]] Expected<std::string> render_calls_in(const Format& format, const Syntax& syntax,
                                                    const std::vector<message::ToolCall>& calls,
                                                    const HistoryOptions& options);

}  // namespace tenon::format
