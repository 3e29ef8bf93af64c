#include "tenon/grammar/chosen_grammar.h"

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "tenon/json/value.h"

// Random grammars in the languages of the front ends, for the walks of mask_walks.cc. Each class
// writes one language from few words, sets and patterns, chosen so that they overlap: common
// beginnings, ends that begin within a trigger, rules that contain themselves. Much of it is
// refused by the readers, with an error that says why; the rest must keep the promises of masks.
//
// A depth bounds how formats and groups nest. When the choices are used up, each draw is the first
// one, which ends every text soon.

namespace tenon::grammar {

namespace {

// Each draw is a statement of its own: an input is the same grammar with each compiler.
// One of the texts.
template <std::size_t count>
std::string drawn(Choices& choices, const std::array<const char*, count>& texts) {
  return texts[choices.pick(count)];
}

// `least` to `most` parts, made by `part`, with `between` among them.
template <class Part>
std::string drawn_list(Choices& choices, std::size_t least, std::size_t most, const char* between,
                       const Part& part) {
  const std::size_t count = least + choices.pick(most - least + 1);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += between;
    text += part();
  }
  return text;
}

std::string as_literal(const std::string& text) {
  return json::to_string(json::Value(text));
}
// Texts that begin like the marks below, or like JSON, so that free text and calls are hard to tell
// apart.
std::string drawn_word(Choices& choices) {
  return drawn(choices, std::array{"a", "b", "ab", "<a>", "</a>", "<ab", "<", "if ", "é", "\n",
                                   "{\"", "\"}", " ", "12", "get_", "get_it("});
}
// Triggers, ends and excluded texts. Some overlap ("<a>" and "<ab", "ab" and "b"), which is where a
// text can be divided in a wrong way.
std::string drawn_mark(Choices& choices) {
  return drawn(choices, std::array{"<a>", "<ab", "</a>", "<<", "ab", "b", "bd", "[x", "é>"});
}
std::string drawn_quantifier(Choices& choices) {
  return drawn(choices, std::array{"*", "+", "?", "{2}", "{1,3}", "{0,9}", "{3,}"});
}
std::string drawn_pattern(Choices& choices) {
  return drawn(choices,
               std::array{"[a-z]+", "[^<]*", "\\d{1,4}", "(a|ab)*c?", "\\w{1,8} ?", "a.{0,3}b",
                          "[^\\n]*", "(x|<a)+", "\\p{L}+", "(?:[a-z]+ ){0,4}", "<[^>]{1,9}>"});
}

// GBNF, and EBNF with its macros.
class BnfGrammar {
 public:
  BnfGrammar(Choices& choices, bool is_ebnf) : choices_(choices), is_ebnf_(is_ebnf) {}

  std::string text() {
    std::string result = "root ::= " + choice(2) + "\n";
    for (const char* const name : kNames) {
      result += std::string(name) + " ::= ";
      result += choice(2) + "\n";
    }
    return result;
  }

 private:
  static constexpr std::array kNames{"ra", "rb", "rc"};

  std::string choice(int depth) {
    return drawn_list(choices_, 1, 3, " | ", [&] { return sequence(depth); });
  }
  std::string sequence(int depth) {
    return drawn_list(choices_, 1, 4, " ", [&] { return item(depth); });
  }
  std::string item(int depth) {
    switch (choices_.pick(depth > 0 ? (is_ebnf_ ? 11 : 9) : 4)) {
      case 0:
      case 1:
        return as_literal(drawn_word(choices_));
      case 2:
      case 3:
        return drawn(choices_, std::array{"[a-z]", "[^<]", "[0-9]", "[a-zA-Z_]", "[^\"\\\\]",
                                          "[ \\n]", "[^ab]", "[à-ü]"});
      case 4:
        return drawn(choices_, kNames);
      case 5:
      case 6: {
        const std::string part = item(0);
        return part + drawn_quantifier(choices_);
      }
      case 7:
      case 8:
        return "(" + choice(depth - 1) + ")";
      case 9:
        return macro();
      default:
        return dispatch();
    }
  }
  std::string macro() {
    switch (choices_.pick(4)) {
      case 0:
        return "Regex(" + as_literal(drawn_pattern(choices_)) + ")";
      case 1:
        return "Substring(\"ab\", \"a\", \"c\", \"ab\")";
      case 2:
        return "Token(65, 98, 300)";
      default:
        return "ExcludeToken(98, 300)";
    }
  }
  std::string dispatch() {
    std::string result = "TagDispatch(" + drawn_list(choices_, 1, 4, ", ", [&] {
                           const std::string trigger = as_literal(drawn_mark(choices_));
                           return "(" + trigger + ", " + drawn(choices_, kNames) + ")";
                         });
    if (choices_.one_in(3)) result += ", loop_after_dispatch=false";
    if (choices_.one_in(3)) result += ", excludes=(" + as_literal(drawn_mark(choices_)) + ",)";
    return result + ")";
  }

  Choices& choices_;
  bool is_ebnf_;
};

// A start, three rules and two terminals, which refer to each other. A rule with an attribute has a
// pattern as its body, because its body must be regular.
class LarkGrammar {
 public:
  explicit LarkGrammar(Choices& choices) : choices_(choices) {}

  std::string text() {
    std::string result = "start: " + choice(2) + "\n";
    for (const char* const name : kRules) {
      const std::string attributes = this->attributes();
      result += name + attributes + ": ";
      result += (attributes.empty() ? choice(2) : "/" + drawn_pattern(choices_) + "/s") + "\n";
    }
    for (const char* const name : kTerminals) {
      result += std::string(name) + ": /" + drawn_pattern(choices_) + "/";
      if (choices_.one_in(4)) result += " & ~/.*" + drawn(choices_, std::array{"x", "ab"}) + ".*/";
      result += "\n";
    }
    if (choices_.one_in(4)) result += "%ignore / +/\n";
    return result;
  }

 private:
  static constexpr std::array kRules{"ra", "rb", "rc"};
  static constexpr std::array kTerminals{"TA", "TB"};

  std::string attributes() {
    switch (choices_.pick(8)) {
      case 5:
        return "[lazy]";
      case 6:
        return "[stop=" + as_literal(drawn_mark(choices_)) + "]";
      case 7:
        return choices_.one_in(2) ? "[max_tokens=3]"
                                  : "[suffix=" + as_literal(drawn_mark(choices_)) + "]";
      default:
        return {};
    }
  }
  std::string choice(int depth) {
    return drawn_list(choices_, 1, 3, " | ", [&] { return sequence(depth); });
  }
  std::string sequence(int depth) {
    return drawn_list(choices_, 1, 4, " ", [&] { return item(depth); });
  }
  std::string item(int depth) {
    switch (choices_.pick(depth > 0 ? 9 : 4)) {
      case 0:
        return as_literal(drawn_word(choices_));
      case 1:
        return "/" + drawn_pattern(choices_) + "/";
      case 2:
        return drawn(choices_, kTerminals);
      case 3:
      case 4:
        return drawn(choices_, kRules);
      case 5:
      case 6: {
        const std::string part = item(0);
        return part + drawn_quantifier(choices_);
      }
      case 7:
        return "%json {\"type\": [\"integer\", \"null\"]}";
      default:
        return "(" + choice(depth - 1) + ")";
    }
  }

  Choices& choices_;
};

// A format in formats, up to three deep.
class TagGrammar {
 public:
  explicit TagGrammar(Choices& choices) : choices_(choices) {}

  std::string text() { return R"({"type": "structural_tag", "format": )" + format(3) + "}"; }

 private:
  std::string format(int depth) {
    switch (choices_.pick(depth > 0 ? 15 : 5)) {
      case 0:
        return R"({"type": "const_string", "value": )" + as_literal(drawn_word(choices_)) + "}";
      case 1:
        return R"({"type": "any_text", "excludes": [)" + excludes() + "]}";
      case 2:
        return R"({"type": "regex", "pattern": )" + as_literal(drawn_pattern(choices_)) + "}";
      case 3:
        return R"({"type": "json_schema", "json_schema": )" +
               drawn(choices_,
                     std::array{R"({"type": "integer"})", R"({"enum": ["a", "ab", null]})",
                                R"({"type": "object", "properties": {"a": {"type": "string"}}})",
                                R"({"type": "array", "items": {"type": "boolean"}})"}) +
               "}";
      case 4:
        return R"({"type": "grammar", "grammar": "root ::= \"a\" root? | [0-9]+"})";
      case 5:
        return R"({"type": "or", "elements": [)" + formats(depth - 1) + "]}";
      case 6:
      case 7:
        return R"({"type": "sequence", "elements": [)" + formats(depth - 1) + "]}";
      case 8: {
        const std::string type = drawn(choices_, std::array{"optional", "plus", "star"});
        return R"({"type": ")" + type + R"(", "content": )" + format(depth - 1) + "}";
      }
      case 9:
        return R"({"type": "repeat", "min": 1, "max": 3, "content": )" + format(depth - 1) + "}";
      case 10:
        return tag(drawn_mark(choices_), depth - 1);
      case 11:
        return triggered(depth - 1);
      case 12:
        return R"({"type": "tags_with_separator", "separator": ",")" + flags() + R"(, "tags": [)" +
               drawn_list(choices_, 1, 2, ", ",
                          [&] { return tag(drawn_mark(choices_), depth - 1); }) +
               "]}";
      default:
        return R"({"type": "dispatch", "excludes": [)" + excludes() + R"(], "rules": [)" +
               drawn_list(choices_, 1, 4, ", ",
                          [&] {
                            const std::string trigger = as_literal(drawn_mark(choices_));
                            return "[" + trigger + ", " + format(depth - 1) + "]";
                          }) +
               "]}";
    }
  }
  std::string formats(int depth) {
    return drawn_list(choices_, 1, 3, ", ", [&] { return format(depth); });
  }
  std::string excludes() {
    return drawn_list(choices_, 0, 2, ", ", [&] { return as_literal(drawn_mark(choices_)); });
  }
  std::string flags() {
    std::string result;
    if (choices_.one_in(3)) result += R"(, "at_least_one": true)";
    if (choices_.one_in(3)) result += R"(, "stop_after_first": true)";
    return result;
  }
  std::string tag(const std::string& begin, int depth) {
    const std::string content = format(depth);
    return R"({"type": "tag", "begin": )" + as_literal(begin) + R"(, "content": )" + content +
           R"(, "end": )" + as_literal(drawn_mark(choices_)) + "}";
  }
  // Each tag begins with one trigger, as it must.
  std::string triggered(int depth) {
    std::string triggers;
    std::string tags;
    for (const char* const trigger : {"<a", "<b", "[x"}) {
      if (!tags.empty() && choices_.one_in(2)) break;
      triggers += (triggers.empty() ? "" : ", ") + as_literal(trigger);
      const std::string more = drawn(choices_, std::array{"", ">", "b ", "é"});
      tags += (tags.empty() ? "" : ", ") + tag(trigger + more, depth);
    }
    return R"({"type": "triggered_tags", "triggers": [)" + triggers + "]" + flags() +
           R"(, "tags": [)" + tags + "]}";
  }

  Choices& choices_;
};

}  // namespace

Syntax syntax_of(Dialect dialect) {
  if (dialect == Dialect::lark) return Syntax::lark;
  return dialect == Dialect::structural_tag ? Syntax::structural_tag : Syntax::gbnf;
}

std::string chosen_grammar(Choices& choices, Dialect dialect) {
  if (dialect == Dialect::lark) return LarkGrammar(choices).text();
  if (dialect == Dialect::structural_tag) return TagGrammar(choices).text();
  return BnfGrammar(choices, dialect == Dialect::ebnf).text();
}

}  // namespace tenon::grammar
