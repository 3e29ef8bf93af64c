#include "tenon/format/lead.h"

#include <algorithm>

#include "tenon/format/definition.h"

namespace tenon::format {
namespace {

// The last three bytes that are not blank: the longest end of a sentence is one character of three
// bytes in UTF-8.
constexpr std::uint32_t kLastThree = 0xFFFFFF;

bool is_blank(unsigned char byte) {
  return byte == ' ' || byte == '\t';
}
bool is_line_end(unsigned char byte) {
  return byte == '\n' || byte == '\r';
}

const Automaton& stop_automaton() {
  static const Automaton automaton(Lead::stops());
  return automaton;
}

/// The last bytes of a sentence, or of a phrase that introduces something.
bool ends_sentence(std::uint32_t last) {
  const auto byte = static_cast<std::uint8_t>(last);
  if (byte == ':' || byte == '.' || byte == '!' || byte == '?') return true;
  // U+FF1A, U+3002, U+FF01: the same marks in Chinese and Japanese.
  return last == 0xEFBC9A || last == 0xE38082 || last == 0xEFBC81;
}

}  // namespace

const std::vector<std::string>& Lead::stops() {
  // Words are cut where their case may differ. All begin with one of few bytes, so that a mask need
  // not look into tokens without these bytes (tool_masks_bench: with ten more first bytes a mask
  // cost twice as much).
  static const std::vector<std::string> kStops = {
      "```",  // another fence: a document, or a program around the object
      // Examples.
      // "example" as a part of an address or of a file's name is no such word.
      "xample ", "xample:", "xample,", "xample\n", "xample\r", "xample)", "xample*", "xample. ",
      "xample.\n", "xample.\r", "xamples ", "xamples:", "xamples,", "xamples\n", "xamples.",
      "XAMPLE", "e.g.", "E.g.", "or instance", "uch as:", "uch as\n", "uch as {", "uch as <",
      "uch as [", "uch as `", "uch as \"", "uch as this", "uch as the fol", "ooks like", "ook like",
      "omething like", "jemplo", "xemplo", "xemplu", "esempio", "eispiel", "xemple", "oorbeeld",
      "ład:", "říklad", "xempel", "eksempel", "esimerk", "eğin:", "ontohnya", "ράδειγ", "ример",
      "риклад", "例如", "例え", "比如", "示例", "範例", "예를", "예시", "उदाह", "مثال", "דוגמ",
      "ตัวอ",
      // The words of a file, a log or a program: its calls are not the model's.
      "ontains:", "ontains the fol", "ontains this", "og says", "e says", "e mail says",
      "email says", "ocument says", "ext says", "It says", "eads:", "eads the fol",
      "e shows:", "og shows:", "ows the fol",
      "e wrote:", "er wrote:", "odel wrote:", "It wrote:", "ote the fol", "odel printed",
      "ogram printed", "ommand printed", "It printed", "odel output", "It output", "utput was",
      "esult was", "ormat is", "erver sent", "eturned:", "eturned the fol",
      "eplied:", "esponded:", "ogged:", "The content", "ere are the con", "ere is the con",
      "ere made", "equest body",
      "ou are a helpful",  // the system prompt of another model
  };
  return kStops;
}

const char* Lead::unquoted() {
  return R"((?:[^`"]|`[^`]*`|"[^"]*")*)";
}

const char* Lead::pattern_of(Place place) {
  switch (place) {
    case Place::first:
      return R"([ \t\r\n]*)";
    case Place::anywhere:
      return R"((?:[\s\S]*[^'])?)";
    case Place::line:
      return R"([ \t\r\n]*|[\s\S]*[\r\n][ \t]*)";
    case Place::sentence:
      return R"([ \t\r\n]*|[^{]*[\r\n][ \t]*|(?:[^{]*[\r\n])?[ \t]*[-*+][ \t]+|)"
             R"([^{]*[:.!?\uFF1A\u3002\uFF01][ \t\r\n]*)";
  }
  return "";
}

void Lead::feed(std::string_view bytes) {
  const Automaton& stops = stop_automaton();
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (!is_explained_) {
      node_ = stops.next(node_, byte);
      is_explained_ = !stops.ends(node_).is_empty();
    }
    last_byte_ = byte;
    // A backtick inside quotation marks is text, and the other way round.
    if (quote_ == byte) {
      quote_ = 0;
    } else if (quote_ == 0 && (byte == '`' || byte == '"')) {
      quote_ = byte;
    }
    if (is_line_end(byte)) {
      is_line_begun_ = false;
      is_bullet_ = false;
    } else if (!is_blank(byte)) {
      is_bullet_ = !is_line_begun_ && (byte == '-' || byte == '*' || byte == '+');
      is_line_begun_ = true;
      // Between two calls a comma or a semicolon counts as no word: models write lists of calls.
      has_words_ = has_words_ || !is_behind_call_ || (byte != ',' && byte != ';');
      has_brace_ = has_brace_ || byte == '{';
      last_ = (last_ << 8 | byte) & kLastThree;
    }
  }
}

bool Lead::admits(Place place) const {
  if (is_explained_ || quote_ != 0) return false;
  // At the beginning every form may come.
  if (!has_words_) return true;
  switch (place) {
    case Place::first:
      return false;
    case Place::anywhere:
      return last_byte_ != '\'';
    case Place::line:
      return !is_line_begun_;
    case Place::sentence:
      return !has_brace_ &&
             (!is_line_begun_ || ends_sentence(last_) || (is_bullet_ && is_blank(last_byte_)));
  }
  return false;
}

}  // namespace tenon::format
