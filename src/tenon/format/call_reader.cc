#include "tenon/format/call_reader.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "tenon/format/entities.h"
#include "tenon/format/space.h"
#include "tenon/json/value.h"

// Reads one call after its first literal, by the pattern of its syntax: a list of pieces, `at_` is
// the current one. Literals are compared byte by byte (feed_literal). A field, which is a name, id
// or word, ends where the next piece begins: at a literal, or at the arguments, which feed_field
// recognises by their first byte. Arguments are read by JsonFilter, or by ParameterReader if each
// parameter has markers of its own; a JSON object that holds name and arguments is read member by
// member (step_object).
//
// A call is certain once the name is complete and is a known tool's, and what follows fits.
// `Status` tells the stream parser how far that is, so it knows what to hold back. Before that,
// small slips are corrected if only one tool can be meant: a namespace or quotes around the name, a
// tool's name in the id, a word behind the name.
//
// The work is constant per byte: word_begin_ and word_end_ keep where a field's word lies, so that
// text which is being collected is not read again at each byte.

namespace tenon::format {
namespace {

// The length of a name, an id or a key. A longer one is not a call's.
constexpr std::size_t kMaxField = 512;
constexpr std::uint8_t kMaxWrappers = 3;
// `"type": "function"` says nothing that the call does not say anyway.
constexpr std::string_view kTypeKey = "type";

bool holds(const std::vector<std::string>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// Characters around a tool's name in slips of models: a namespace before it, quotes around it.
constexpr std::string_view kNamespaceEnds = ":./";
constexpr std::string_view kAroundNames = " \t\r\n._:-";

std::string_view without_quotes(std::string_view text) {
  const bool is_quoted = text.size() > 2 && (text.front() == '"' || text.front() == '\'') &&
                         text.back() == text.front();
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

/// Brackets and quotes alone are no name of a tool.
bool is_word(std::string_view name) {
  return name.find_first_not_of("[]{}()\"':, \t\r\n") != std::string_view::npos;
}

/// The tool of `tools` for which `name` is another spelling; empty: none.
std::string_view spelled_name(std::string_view name, const ToolSchemas& tools) {
  name = without_quotes(name);
  if (tools.contains(name)) return name;
  const std::size_t end = name.find_last_of(kNamespaceEnds);
  if (end != std::string_view::npos && tools.contains(name.substr(end + 1))) {
    return name.substr(end + 1);
  }
  return {};
}

/// The same for an id that should contain the name and has lost the text around it: a number after
/// it, perhaps the text before it too.
std::string_view name_in_id(std::string_view id, const IdRule& rule, const ToolSchemas& tools) {
  std::string_view before = rule.name_before;
  before = before.substr(0, before.find_last_not_of(kAroundNames) + 1);
  if (id.starts_with(before)) id.remove_prefix(before.size());
  id.remove_prefix(std::min(id.find_first_not_of(kAroundNames), id.size()));
  while (!id.empty()) {
    if (tools.contains(id)) return id;
    const bool is_number = std::isdigit(static_cast<unsigned char>(id.back())) != 0;
    if (!is_number && kAroundNames.find(id.back()) == std::string_view::npos) break;
    id.remove_suffix(1);
  }
  return {};
}

/// An id that contains no name: letters and a number, or a number behind the text before the name.
bool is_plain_id(std::string_view id, const IdRule& rule) {
  std::string_view before = rule.name_before;
  before = before.substr(0, before.find_last_not_of(kAroundNames) + 1);
  if (!before.empty() && id.starts_with(before)) {
    id.remove_prefix(before.size());
    return id.find_first_not_of("0123456789._:-") == std::string_view::npos;
  }
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  };
  return std::ranges::all_of(id, is_plain) &&
         std::ranges::any_of(id, [](char c) { return c >= '0' && c <= '9'; });
}

/// The text of a JSON string whose inside is `raw`; nothing if it is not valid.
std::string unescaped(std::string_view raw) {
  StringDecoder decoder;
  std::string text;
  for (const char byte : raw) decoder.feed(byte, text);
  return text;
}

}  // namespace

// Everything that belongs to one call is set here. A reader serves all calls of an answer and keeps
// only its buffers.
void CallReader::start(const Syntax& syntax, const Pattern& pattern, const IdRule& id_rule,
                       const KnownTools& known) {
  known_ = known;
  used_tail_ = is_unknown_ = false;
  syntax_ = &syntax;
  pattern_ = &pattern;
  id_rule_ = &id_rule;
  at_ = matched_ = 0;
  status_ = pattern.empty() ? Status::done : Status::open;
  if (!pattern.empty() && pattern.front().kind == Piece::Kind::attributes) {
    attributes_.start(pattern.front());
  }
  place_ = Place::begin;
  level_ = 0;
  has_name_ = has_arguments_ = arguments_done_ = escaped_ = has_escape_ = repaired_ = false;
  is_guess_ = false;
  name_quote_ = '\0';
  filter_.restart(JsonFilter::Want::object);
  text_.clear();
  word_begin_ = word_end_ = behind_word_ = kNowhere;
  name_.clear();
  written_name_.clear();
  id_.clear();
  ignored_.clear();
  frame_.clear();
  coded_.clear();
  arguments_.clear();
  completion_.clear();
  completes_value_ = false;
  parameters_.restart();
}

std::size_t CallReader::feed(std::string_view bytes) {
  if (status_ == Status::named) status_ = Status::open;
  std::size_t used = 0;
  while (used < bytes.size() && status_ == Status::open) used += feed_piece(bytes.substr(used));
  return used;
}

// Each piece of the pattern reads as many bytes as it can. 0 with the same status means that the
// next piece begins at the same byte.
std::size_t CallReader::feed_piece(std::string_view bytes) {
  switch (piece().kind) {
    case Piece::Kind::literal:
      return feed_literal(bytes, piece().text);
    case Piece::Kind::space:
      if (is_space(bytes.front())) return 1;
      next_piece();
      return 0;
    case Piece::Kind::name:
    case Piece::Kind::id:
    case Piece::Kind::skip:
    case Piece::Kind::word:
    case Piece::Kind::index:
    case Piece::Kind::again:
      return feed_field(bytes, piece().kind);
    case Piece::Kind::attributes:
      return feed_attributes(bytes);
    case Piece::Kind::arguments:
    case Piece::Kind::keywords:
    case Piece::Kind::members:
      return feed_arguments(bytes);
    case Piece::Kind::object:
      return feed_object(bytes);
    case Piece::Kind::parameters:
      return feed_parameters(bytes);
    default:
      return 0;  // slots of a parameter; they do not occur in a call's pattern
  }
}

void CallReader::next_piece() {
  matched_ = 0;
  text_.clear();
  word_begin_ = word_end_ = behind_word_ = kNowhere;
  name_quote_ = '\0';
  place_ = Place::begin;
  if (++at_ == pattern_->size()) {
    status_ = Status::done;
  } else if (piece().kind == Piece::Kind::attributes) {
    attributes_.start(piece());
  }
}

// The attributes of the tag give the name and the id.
std::size_t CallReader::feed_attributes(std::string_view bytes) {
  const AttributeReader::Status status = attributes_.feed(bytes.front());
  if (status == AttributeReader::Status::bad) {
    fail();
    return 0;
  }
  if (status == AttributeReader::Status::open) return 1;
  for (const Attribute& attribute : piece().attributes) {
    const std::string* const value = attributes_.value(attribute.kind);
    if (value != nullptr) {
      text_ = *value;
      end_field(attribute.kind);
    } else if (attribute.kind == Piece::Kind::name) {
      fail();
    }
    if (status_ == Status::bad) return 0;
  }
  if (!attributes_.ignored().empty()) {
    ignore("the attribute " + json::quoted(attributes_.ignored()));
  }
  const bool closes_itself = attributes_.closes_itself();
  next_piece();
  const std::size_t body = after_spaces(at_);
  const bool may_be_empty =
      body < pattern_->size() && (*pattern_)[body].kind == Piece::Kind::parameters;
  if (closes_itself && !may_be_empty) fail();
  if (closes_itself && may_be_empty) end_without_arguments();
  return status_ == Status::bad ? 0 : 1;
}

// `<invoke name="f"/>`: the tag closes itself, which is a whole call.
void CallReader::end_without_arguments() {
  arguments_ = "{}";
  has_arguments_ = arguments_done_ = true;
  status_ = Status::done;
}

// White space before a literal may be missing or added, as long as nothing of the literal has been
// read.
std::size_t CallReader::feed_literal(std::string_view bytes, std::string_view literal) {
  if (bytes.front() == literal[matched_]) {
    if (++matched_ == literal.size()) next_piece();
    return 1;
  }
  if (matched_ == 0 && is_space(bytes.front())) return 1;
  fail();
  return 0;
}

std::size_t CallReader::after_spaces(std::size_t from) const {
  while (from < pattern_->size() && (*pattern_)[from].kind == Piece::Kind::space) ++from;
  return from;
}

// A field ends at the next literal, at the brace that begins the arguments, or where the first
// parameter begins or the call ends without parameters.
std::size_t CallReader::feed_field(std::string_view bytes, Piece::Kind kind) {
  const std::size_t next = after_spaces(at_ + 1);
  const Piece& follower = (*pattern_)[next];
  const bool before_parameters = follower.kind == Piece::Kind::parameters;
  std::string_view end = follower.kind == Piece::Kind::literal    ? std::string_view(follower.text)
                         : follower.kind == Piece::Kind::keywords ? "("
                                                                  : "{";
  if (before_parameters) end = syntax_->parameter.front().text;
  note_word(bytes.front());
  text_ += bytes.front();
  if (before_parameters && text_.ends_with(pattern_->back().text)) end = pattern_->back().text;
  // The end marker of a value that has not begun.
  const std::string_view stray = before_parameters ? value_close() : std::string_view();
  // A word that ends a field must stand alone, because a name may contain it.
  const bool is_word = std::isalnum(static_cast<unsigned char>(end.front())) != 0;
  const bool is_end =
      text_.ends_with(end) &&
      (!is_word || (text_.size() > end.size() && is_space(text_[text_.size() - end.size() - 1])));
  if (!is_end) {
    // In running text the name is the only evidence, so text that cannot be a name is not a call.
    const auto byte = static_cast<unsigned char>(bytes.front());
    const bool may_be_name =
        byte >= 0x80 || std::isalnum(byte) != 0 ||
        std::string_view("_-./:").find(bytes.front()) != std::string_view::npos ||
        word_begin_ == kNowhere;
    if (follower.kind == Piece::Kind::keywords && !may_be_name) fail();
    const bool is_of_words = byte < 0x80 && byte != '[' && byte != '(';
    if (kind == Piece::Kind::word && !is_of_words) fail();
    if (kind == Piece::Kind::id && !may_be_id(end)) fail();
    const bool may_go_on =
        (kind != Piece::Kind::name && kind != Piece::Kind::word) || may_be_word(end) ||
        (before_parameters &&
         (may_be_word(pattern_->back().text) || may_be_word(stray) || has_stray(stray)));
    if (!may_go_on || text_.size() > kMaxField) fail();
    return 1;
  }
  text_.resize(text_.size() - end.size());
  if (has_stray(stray)) text_.resize(text_.rfind(stray));
  end_field(kind);
  if (status_ == Status::bad) return 0;
  at_ = next - 1;
  next_piece();
  if (before_parameters) {
    begin_parameters();
    parameters_.feed(end, arguments_);
    if (parameters_.status() == ParameterReader::Status::done) {
      arguments_done_ = true;
      status_ = Status::done;
    }
    return 1;
  }
  if (follower.kind != Piece::Kind::literal) return 0;  // the brace belongs to the arguments
  next_piece();
  return 1;
}

// Whether the last byte of text_ may stand in an id or in `end` behind it. An id that ran on over
// brackets and markers would take arguments away.
bool CallReader::may_be_id(std::string_view end) const {
  if (std::string_view("<>{}[]").find(text_.back()) == std::string_view::npos) return true;
  for (std::size_t size = 1; size <= std::min(end.size(), text_.size()); ++size) {
    if (text_.ends_with(end.substr(0, size))) return true;
  }
  return false;
}

// The marker that ends a parameter's value, without its key.
std::string_view CallReader::value_close() const {
  const Pattern& parameter = syntax_->parameter;
  auto piece = std::ranges::find(parameter, Piece::Kind::value, &Piece::kind);
  while (piece != parameter.end() && piece->kind != Piece::Kind::literal) ++piece;
  return piece == parameter.end() ? std::string_view() : std::string_view(piece->text);
}

// Whether the field has `stray` after its word, and perhaps the beginning of what follows.
bool CallReader::has_stray(std::string_view stray) const {
  if (stray.empty() || behind_word_ == kNowhere) return false;
  const std::string_view behind = std::string_view(text_).substr(behind_word_);
  if (!behind.starts_with(stray)) return false;
  const std::string_view rest = trimmed(behind.substr(stray.size()));
  return pattern_->back().text.starts_with(rest) ||
         syntax_->parameter.front().text.starts_with(rest);
}

// `byte` comes after text_: records where its word begins and ends, so that nothing is read again.
void CallReader::note_word(char byte) {
  const std::size_t at = text_.size();
  if (word_begin_ == kNowhere && (byte == '"' || byte == '\'')) {
    word_begin_ = at;
    name_quote_ = byte;
    return;
  }
  if (name_quote_ != '\0' && word_end_ == kNowhere) {
    if (byte == name_quote_) word_end_ = at + 1;
    return;
  }
  if (word_begin_ == kNowhere && !is_space(byte)) word_begin_ = at;
  // White space written as two characters.
  if (at > 0 && text_[at - 1] == '\\' && is_space_code(byte)) {
    if (word_begin_ == at - 1) {
      word_begin_ = kNowhere;
    } else if (word_end_ == kNowhere) {
      word_end_ = at - 1;
    } else if (behind_word_ == at - 1) {
      behind_word_ = kNowhere;
    }
    return;
  }
  const bool ends = std::string_view("<>{}\" \t\r\n").find(byte) != std::string_view::npos;
  if (word_begin_ != kNowhere && word_end_ == kNowhere && ends) word_end_ = at;
  if (word_end_ != kNowhere && behind_word_ == kNowhere && !is_space(byte)) behind_word_ = at;
}

// Whether text_ may be the beginning of a name or word followed by `end`.
bool CallReader::may_be_word(std::string_view end) const {
  if (word_end_ == kNowhere || behind_word_ == kNowhere) return true;
  const std::string_view text = text_;
  if (end.starts_with(text.substr(behind_word_)) || text.substr(behind_word_) == "\\") return true;
  // `end` may begin with characters of a name.
  for (std::size_t from = word_end_; from-- > 0 && word_end_ - from < end.size();) {
    if (end.starts_with(text.substr(from))) return true;
  }
  return false;
}

void CallReader::begin_parameters() {
  const auto tool = known_.tools->find(name_);
  parameters_.start(*syntax_, pattern_->back().text, syntax_->tail_text,
                    tool != known_.tools->end() ? tool->second : nullptr);
  has_arguments_ = true;
  arguments_ = "{";
  status_ = Status::named;
}

// Two syntaxes may share the head of a call and differ in how arguments come; the first byte behind
// the head tells which one it is.
std::size_t CallReader::feed_parameters(std::string_view bytes) {
  if (!has_arguments_) {
    // JSON belongs to another syntax, which has its arguments after the same name.
    const bool is_json = bytes.front() == '{' && syntax_->parameter.front().text.front() != '{';
    if (is_json && pattern_->back().text.front() != '{') {
      fail();
      return 0;
    }
    if (syntax_->shares_head) return begins_parameters(bytes.front()) ? 1 : 0;
    begin_parameters();
    return 0;
  }
  const std::size_t used = parameters_.feed(bytes, arguments_);
  if (parameters_.status() == ParameterReader::Status::bad) fail();
  if (parameters_.status() == ParameterReader::Status::done) {
    note_left_over();
    used_tail_ = parameters_.has_used_outer();
    arguments_done_ = true;
    status_ = Status::done;
  }
  return used;
}

// Whether arguments of another kind may begin here too: `byte` fits a parameter, or the end of a
// call without parameters. The first of the two that is complete is the one.
bool CallReader::begins_parameters(char byte) {
  if (text_.empty() && is_space(byte)) return true;
  text_ += byte;
  const std::string_view open = syntax_->parameter.front().text;
  const std::string_view end = pattern_->back().text;
  if (!open.starts_with(text_) && !end.starts_with(text_)) {
    fail();
    return false;
  }
  if (text_ != open && text_ != end) return true;
  const std::string begun = std::exchange(text_, {});
  begin_parameters();
  feed_parameters(begun);
  return true;
}

// A field has ended at the literal behind it. For ids such as `functions.get_weather:0` the name is
// cut out of the id; if the id holds no known name but the request has a single tool, a plain id
// can only mean that one.
void CallReader::end_field(Piece::Kind kind) {
  std::string field(kind == Piece::Kind::name ? without_space_around(text_) : trimmed(text_));
  if (syntax_->entities) field = without_entities(field);
  if (kind == Piece::Kind::name) {
    set_name(std::move(field));
  } else if (kind == Piece::Kind::id) {
    id_ = std::move(field);
    if (!id_rule_->holds_name) return;
    std::string_view name = id_;
    if (name.starts_with(id_rule_->name_before)) name.remove_prefix(id_rule_->name_before.size());
    if (!id_rule_->name_after.empty()) {
      name = name.substr(0, std::min(name.rfind(id_rule_->name_after), name.size()));
    }
    if (known_.is_marked && !known_.tools->contains(name)) {
      const std::string_view meant = name_in_id(id_, *id_rule_, *known_.tools);
      is_guess_ = meant.empty() && known_.tools->size() == 1 && is_plain_id(id_, *id_rule_);
      if (!meant.empty()) name = meant;
      if (is_guess_) name = known_.tools->begin()->first;
    }
    set_name(std::string(name));
  } else if (kind == Piece::Kind::skip && !field.empty() && field != trimmed(piece().text)) {
    ignore("'" + field + "' in place of '" + std::string(trimmed(piece().text)) + "'");
  } else if (kind == Piece::Kind::word && piece().text.empty() && !field.empty() &&
             !known_.tools->contains(field)) {
    ignore("'" + field + "' before its name");
  } else if (kind == Piece::Kind::word && (field.ends_with('.') || field.ends_with(','))) {
    fail();  // it ends a sentence
  } else if (kind == Piece::Kind::again && !field.empty() && field != name_) {
    ignore("'" + field + "' for its name when it comes again");
  }
}

void CallReader::note_left_over() {
  const std::string_view text = trimmed(parameters_.left_over());
  if (!text.empty()) ignore("the text " + json::quoted(text));
}

void CallReader::ignore(std::string what) {
  if (ignored_.empty()) ignored_ = std::move(what);
}

// Known as written; else, in markers, with quotes or a namespace taken off; else any name, if every
// name is a call's; else the name that the caller's correction finds. A name that is left is that
// of an unknown tool, and no call.
void CallReader::set_name(std::string name) {
  if (name.empty()) return fail();
  has_name_ = true;
  written_name_ = name_ = std::move(name);
  if (known_.tools->contains(name_)) return;
  if (known_.is_marked) {
    const std::string spelled(spelled_name(name_, *known_.tools));
    if (!spelled.empty()) {
      name_ = spelled;
      return;
    }
  }
  if (known_.any) return;
  std::string meant = known_.corrected != nullptr ? (*known_.corrected)(name_) : std::string();
  if (meant.empty()) {
    is_unknown_ = is_word(name_);
    return fail();
  }
  name_ = std::move(meant);
}

std::size_t CallReader::feed_arguments(std::string_view bytes) {
  const bool is_keywords = piece().kind == Piece::Kind::keywords;
  if (is_keywords && !filter_.has_begun()) filter_.restart(JsonFilter::Want::keywords);
  if (piece().kind == Piece::Kind::members && !filter_.has_begun()) {
    filter_.restart(JsonFilter::Want::members, syntax_->string_quote, syntax_->tail_text);
  }
  // Byte by byte until the call is certain: its arguments have begun, or its first keyword has been
  // named.
  const std::size_t used = filter_.feed(has_arguments_ ? bytes : bytes.substr(0, 1), arguments_);
  if (filter_.status() == JsonFilter::Status::bad) fail();
  if (!has_arguments_ && status_ == Status::open &&
      (is_keywords ? filter_.has_keyword() : filter_.has_begun())) {
    has_arguments_ = !is_guess_;
    status_ = is_guess_ ? Status::open : Status::named;
    if (is_guess_) settle_guess();
  }
  if (filter_.status() == JsonFilter::Status::done) {
    used_tail_ = filter_.has_used_end();
    end_arguments();
    next_piece();
  }
  return used;
}

// The id names no tool. If the first argument is one of the only tool's, that tool is called.
void CallReader::settle_guess() {
  // Only when the key is complete, because this is called at each byte.
  if (!arguments_.ends_with(':') && !arguments_.ends_with('}')) return;
  const auto first = json::parse(arguments_ + (arguments_.ends_with(':') ? "0}" : ""));
  if (!first || first->if_object() == nullptr) return;
  is_guess_ = false;
  const json::Value* const schema = known_.tools->begin()->second;
  const json::Value* const properties = schema != nullptr ? schema->find("properties") : nullptr;
  for (const json::Member& member : *first->if_object()) {
    if (properties == nullptr || properties->find(member.key) == nullptr) {
      is_unknown_ = true;
      return fail();
    }
  }
  has_arguments_ = true;
  status_ = Status::named;
}

std::size_t CallReader::feed_object(std::string_view bytes) {
  if (place_ == Place::in_arguments || place_ == Place::in_other) {
    std::string other;
    std::string& copy = place_ == Place::in_arguments ? arguments_ : other;
    const std::size_t used = filter_.feed(bytes, copy);
    if (place_ == Place::in_other) frame_ += bytes.substr(0, used);
    if (filter_.status() == JsonFilter::Status::bad) fail();
    if (filter_.status() == JsonFilter::Status::done) {
      if (place_ == Place::in_arguments) end_arguments();
      end_member();
    }
    return used;
  }
  if (place_ == Place::in_coded || place_ == Place::coded_start) return feed_coded(bytes);
  const Place before = place_;
  if (!step_object(bytes.front())) {
    place_ = before;  // the byte that does not fit is the first byte of what follows
    if (status_ == Status::open) fail();
    return 0;
  }
  if (place_ != Place::after) frame_ += bytes.front();
  return 1;
}

// Reads one byte of the object outside its values. False: it does not fit, or it belongs to the
// value that it begins.
bool CallReader::step_object(char byte) {
  switch (place_) {
    case Place::in_key:
    case Place::in_name:
    case Place::in_id:
    case Place::in_ignored:
      if (byte != quote_ || escaped_) {
        escaped_ = byte == '\\' && !escaped_;
        has_escape_ = has_escape_ || escaped_;
        text_ += byte;
        return text_.size() <= kMaxField && static_cast<unsigned char>(byte) >= 0x20;
      }
      if (has_escape_ && quote_ == '"') text_ = unescaped(text_);
      if (place_ == Place::in_key) {
        place_ = Place::colon;
      } else if (place_ == Place::in_id || place_ == Place::in_ignored) {
        if (place_ == Place::in_id) id_ = text_;
        end_member();
      } else {
        set_name(text_);
        end_member();
        // With only a name it may be a description of the tool.
        if (status_ == Status::open && !syntax_->name_first) status_ = Status::named;
      }
      return status_ != Status::bad;
    default:
      break;
  }
  if (is_space(byte)) return true;
  switch (place_) {
    case Place::begin:
      place_ = Place::first_key;
      may_double_ = syntax_->rank == 0 && !syntax_->needs_tools;
      return byte == '{';
    case Place::first_key:
    case Place::key:
      if (byte == '}') {
        end_object();
        return status_ != Status::bad;
      }
      // Twice the same brace. Behind the call the other ones are brackets too many.
      if (byte == '{' && place_ == Place::first_key && may_double_) {
        may_double_ = false;
        repaired_ = true;
        return true;
      }
      may_double_ = false;
      place_ = Place::in_key;
      text_.clear();
      escaped_ = has_escape_ = false;
      quote_ = byte;
      return begins_string(byte);
    case Place::colon:
      place_ = Place::value;
      return byte == ':';
    case Place::value:
      return begin_member_value(byte);
    case Place::after:
      if (byte == ',') {
        place_ = Place::key;
        return true;
      }
      if (byte != '}') return false;
      end_object();
      return status_ != Status::bad;
    default:
      return false;
  }
}

// The strings of the object may stand between apostrophes in the model's own form. In other forms
// the mask takes such an object for text.
bool CallReader::begins_string(char byte) {
  if (byte == '\'' && syntax_->rank == 0) {
    repaired_ = true;
    return true;
  }
  return byte == '"';
}

bool CallReader::is_arguments_key() const {
  const bool may_be_schema = syntax_->rank > 0 && syntax_->needs_tools && level_ > 0;
  return may_be_schema ? holds(wrapped_arguments(syntax_->object), text_)
                       : holds(syntax_->object.arguments, text_);
}

// In a syntax with name_first, only some members may come before the name. Whether the member whose
// value begins with `byte` is one of them.
bool CallReader::may_come_before_name(char byte) const {
  const ObjectKeys& keys = syntax_->object;
  if (keys.name_is_key || (byte == '{' && holds(keys.wrapper, text_))) return true;
  const bool is_known = holds(keys.name, text_) || holds(keys.id, text_) || text_ == kTypeKey;
  return (byte == '"' || byte == '\'') && is_known;
}

bool CallReader::begin_member_value(char byte) {
  const ObjectKeys& keys = syntax_->object;
  if (syntax_->name_first && !has_name_ && !may_come_before_name(byte)) return false;
  const bool name_is_key = keys.name_is_key && !has_name_;
  const bool is_string = begins_string(byte);
  quote_ = byte;
  if (name_is_key) {
    set_name(text_);
    if (status_ == Status::bad) return false;
  }
  if (!has_arguments_ && (name_is_key || is_arguments_key())) {
    has_arguments_ = true;
    if (syntax_->name_first && has_name_) status_ = Status::named;
    filter_.restart(JsonFilter::Want::any);
    if (is_string) {
      place_ = Place::coded_start;
      decoder_.restart(byte);
      text_.clear();
      if (name_is_key) status_ = Status::named;
      return true;
    }
    // The filter decides whether the byte fits.
    place_ = Place::in_arguments;
    if (filter_.feed(std::string_view(&byte, 1), arguments_) == 0) return false;
    if (name_is_key) status_ = Status::named;
    return true;
  }
  if (!has_name_ && is_string && holds(keys.name, text_)) {
    place_ = Place::in_name;
  } else if (is_string && id_.empty() && holds(keys.id, text_)) {
    place_ = Place::in_id;
  } else if (!has_name_ && byte == '{' && level_ < kMaxWrappers && holds(keys.wrapper, text_)) {
    place_ = Place::first_key;
    ++level_;
    return true;
  } else {
    // A bare object with other members is not a call, so its end is not waited for.
    if ((syntax_->holds_call || syntax_->name_first) && text_ != kTypeKey) return false;
    place_ = is_string && byte == '\'' ? Place::in_ignored : Place::in_other;
    if (text_ != kTypeKey) ignore("the member '" + text_ + "'");
    text_.clear();
    escaped_ = has_escape_ = false;
    if (place_ == Place::in_ignored) return true;
    filter_.restart(JsonFilter::Want::any);
    std::string other;
    return filter_.feed(std::string_view(&byte, 1), other) == 1;
  }
  text_.clear();
  escaped_ = has_escape_ = false;
  return true;
}

// Arguments that are a JSON string: an object that was encoded twice is decoded twice; any other
// text stays the string that it is.
std::size_t CallReader::feed_coded(std::string_view bytes) {
  std::string decoded;
  const std::string raw = place_ == Place::in_coded ? text_ + bytes.front() : std::string();
  const bool ended = decoder_.feed(bytes.front(), decoded);
  if (place_ == Place::coded_start) {
    text_ += bytes.front();
    if (!ended && text_.size() < kMaxField && trimmed(decoded).empty()) return 1;
    if (ended || !trimmed(decoded).starts_with('{')) {
      if (quote_ == '\'') {
        fail();
        return 0;
      }
      begin_text();
      if (filter_.status() == JsonFilter::Status::done) {
        end_arguments();
        end_member();
      }
      return 1;
    }
    place_ = Place::in_coded;
    repaired_ = true;
  }
  std::string_view rest = decoded;
  const std::size_t size_before = arguments_.size();
  rest.remove_prefix(filter_.feed(rest, arguments_));
  if (!decoded.empty() && rest.empty()) {
    if (arguments_.size() != size_before || !filter_.is_holding()) coded_.clear();
    if (filter_.is_holding()) coded_ += raw;
  }
  const bool is_over = filter_.status() == JsonFilter::Status::done;
  const bool has_more = is_over ? !trimmed(rest).empty() : !rest.empty();
  if (has_more || (ended && !is_over)) {
    fail();
    return 0;
  }
  text_ = decoder_.held();
  if (ended) {
    end_arguments();
    end_member();
  }
  return 1;
}

// The string is not an encoded object: it is the argument itself.
void CallReader::begin_text() {
  filter_.feed("\"", arguments_);
  filter_.feed(text_, arguments_);
  place_ = Place::in_arguments;
}

// A string that does not end: its content is taken as it is written, as far as it fits. Returns the
// rest.
std::string CallReader::end_coded() {
  if (place_ == Place::coded_start && !text_.empty()) begin_text();
  if (place_ != Place::in_coded) return {};
  return text_.substr(filter_.feed(text_, arguments_));
}

void CallReader::end_member() {
  place_ = Place::after;
  frame_.clear();
}

void CallReader::end_arguments() {
  arguments_done_ = true;
  repaired_ = repaired_ || filter_.is_repaired();
  // A word is copied when it is complete, so there was nothing else.
  if (arguments_ != "null") return;
  arguments_ = "{}";
  repaired_ = true;
}

// The end of an object that holds name and arguments: either of a wrapper (`{"function": {...}}`),
// whose enclosing object goes on, or of the call.
void CallReader::end_object() {
  if (level_ > 0) {
    --level_;
    end_member();
    return;
  }
  // Bare JSON with only a name is likely to be about a tool.
  const bool needs_arguments = syntax_->holds_call || syntax_->name_first;
  if (!has_name_ || (needs_arguments && !has_arguments_)) return fail();
  if (!has_arguments_) arguments_ = "{}";
  arguments_done_ = has_arguments_ = true;
  next_piece();
}

// Inside an object: a key that is open or has no value yet, and that no call has.
bool CallReader::is_in_strange_key() const {
  if (place_ != Place::in_key && place_ != Place::colon && place_ != Place::value) return false;
  const ObjectKeys& keys = syntax_->object;
  const auto begins = [this](const std::vector<std::string>& known) {
    return std::ranges::any_of(known, [this](const auto& key) { return key.starts_with(text_); });
  };
  return !begins(keys.name) && !begins(keys.arguments) && !begins(keys.id) &&
         !begins(keys.wrapper) && !kTypeKey.starts_with(text_);
}

// What the filter holds and cannot use, as it is written.
std::string CallReader::left_out() const {
  const std::string bytes = filter_.left_out();
  return bytes.empty() || place_ != Place::in_coded ? bytes : coded_;
}

// The output ended within the call and the call stays open (cut by length): what was held is told
// as far as it is certain. Returns text that was no part of the call.
std::string CallReader::finish() {
  if (is_in_strange_key()) return frame_;
  if (is_whole() || !has_arguments_) return {};
  if (piece().kind == Piece::Kind::parameters) {
    parameters_.finish(arguments_);
    note_left_over();
    return {};
  }
  const std::string rest = end_coded();
  const std::string no_number = filter_.holds_no_number() ? left_out() : std::string();
  filter_.finish(arguments_);
  return no_number + rest;
}

// The same, but the arguments are closed to valid JSON. The completion is kept apart from the
// arguments, because a client that streams has already been sent those.
std::string CallReader::close() {
  if (arguments_done_) return frame_;
  arguments_done_ = true;
  if (has_arguments_ && piece().kind == Piece::Kind::parameters) {
    note_left_over();
    std::string left_out = parameters_.close(arguments_);
    used_tail_ = parameters_.has_used_outer();
    return left_out;
  }
  const std::string rest = end_coded();
  if (!has_arguments_ || !filter_.has_begun()) {
    arguments_ += "{}";
    return rest + frame_;
  }
  const std::string left_out = this->left_out() + rest;
  const bool is_spoilt = filter_.status() == JsonFilter::Status::bad;
  completes_value_ = filter_.is_holding() && filter_.left_out().empty();
  filter_.close(completion_);
  // It closes nothing, so there is nothing else.
  if (is_spoilt && completion_ == "null") completion_ = "{}";
  return left_out;
}

}  // namespace tenon::format
