#include "tenon/grammar/rules/rules.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/grammar/front/grammar_for_test.h"
#include "tenon/grammar/print/print.h"

namespace tenon::grammar {
namespace {

// Some random grammars are ambiguous without bounds.
constexpr MachineLimits kLimits{
    .max_cells = 200'000, .max_cells_per_state = 500, .max_steps = 20'000};

bool rules_accepts(const std::shared_ptr<Grammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return matcher.accept_bytes(text) && matcher.is_accepting();
}

// ---- Every text against another way to decide -----------------------------------------------

// The spans of a text that each node reads, extended until nothing changes: slow and simple.
class Recognizer {
 public:
  Recognizer(const Rules& rules, std::string_view text)
      : rules_(rules), text_(text), spans_(rules.node_count()) {
    for (bool changes = true; changes;) {
      changes = false;
      for (NodeId id = 0; id < rules_.node_count(); ++id) {
        const std::size_t before = spans_[id].size();
        extend(id);
        changes = changes || spans_[id].size() != before;
      }
    }
  }
  [[nodiscard]] bool accepts() const { return spans_[rules_.root()].contains({0, text_.size()}); }

 private:
  using Spans = std::set<std::pair<std::size_t, std::size_t>>;

  static Spans joined(const Spans& a, const Spans& b) {
    Spans result;
    for (const auto& [from, mid] : a) {
      for (auto it = b.lower_bound({mid, 0}); it != b.end() && it->first == mid; ++it) {
        result.emplace(from, it->second);
      }
    }
    return result;
  }
  [[nodiscard]] Spans empty() const {
    Spans spans;
    for (std::size_t i = 0; i <= text_.size(); ++i) spans.emplace(i, i);
    return spans;
  }
  void extend(NodeId id) {
    Spans& spans = spans_[id];
    const Node& node = rules_.node(id);
    if (const auto* literal = std::get_if<node::Literal>(&node)) {
      for (std::size_t i = 0; i + literal->bytes.size() <= text_.size(); ++i) {
        if (text_.substr(i).starts_with(literal->bytes))
          spans.emplace(i, i + literal->bytes.size());
      }
    } else if (const auto* sequence = std::get_if<node::Sequence>(&node)) {
      Spans all = empty();
      for (const NodeId part : sequence->parts) all = joined(all, spans_[part]);
      spans.merge(all);
    } else if (const auto* choice = std::get_if<node::Choice>(&node)) {
      for (const NodeId part : choice->parts)
        spans.insert(spans_[part].begin(), spans_[part].end());
    } else if (const auto* repeat = std::get_if<node::Repeat>(&node)) {
      // It is repeated more often than there are bytes only if some are empty, and then fewer
      // rounds do too.
      Spans all = empty();
      const std::uint32_t most = std::min<std::uint32_t>(
          repeat->max, repeat->min + static_cast<std::uint32_t>(text_.size()));
      for (std::uint32_t i = 0; i <= most; ++i) {
        if (i >= repeat->min) spans.insert(all.begin(), all.end());
        all = joined(all, spans_[repeat->part]);
      }
    } else if (const auto* rule = std::get_if<node::Rule>(&node)) {
      const Spans& body = spans_[*rules_.rule(rule->rule).body];
      spans.insert(body.begin(), body.end());
    } else if (const auto* lexeme = std::get_if<node::Lexeme>(&node)) {
      spans.insert(spans_[lexeme->part].begin(), spans_[lexeme->part].end());
    }
  }

  const Rules& rules_;
  std::string_view text_;
  std::vector<Spans> spans_;
};

Rules random_rules(std::mt19937& random) {
  Rules rules;
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  const std::uint32_t rule_count = 1 + below(4);
  for (std::uint32_t i = 0; i < rule_count; ++i) rules.declare("r" + std::to_string(i));
  std::vector<NodeId> nodes{rules.literal(""), rules.literal("a"), rules.literal("b"),
                            rules.literal("ab")};
  for (std::uint32_t i = 0; i < rule_count; ++i) {
    nodes.push_back(rules.add(node::Rule{i}));
    nodes.push_back(nodes.back());
  }
  const auto any = [&] { return nodes[below(static_cast<std::uint32_t>(nodes.size()))]; };
  const auto some = [&](std::uint32_t least) {
    std::vector<NodeId> parts(least + below(3));
    for (NodeId& part : parts) part = any();
    return parts;
  };
  const std::uint32_t more = 3 + below(8);
  for (std::uint32_t i = 0; i < more; ++i) {
    const std::uint32_t min = below(3);
    const std::uint32_t max = below(2) == 0 ? node::kUnbounded : below(5);
    const NodeId repeat = rules.add(node::Repeat{any(), min, max});
    nodes.push_back(below(4) == 0   ? repeat
                    : below(2) == 0 ? rules.add(node::Sequence{some(1)})
                                    : rules.add(node::Choice{some(1)}));
  }
  for (std::uint32_t i = 0; i < rule_count; ++i) {
    rules.define(i, rules.add(node::Choice{{nodes[nodes.size() - 1 - below(more)], any()}}));
  }
  rules.set_root(rules.add(node::Rule{0}));
  return rules;
}

std::vector<std::string> all_texts(std::size_t max_length) {
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == max_length) break;
    texts.push_back(texts[i] + "a");
    texts.push_back(texts[i] + "b");
  }
  return texts;
}

std::set<std::string> texts_of(const Rules& rules, const std::vector<std::string>& texts) {
  std::set<std::string> accepted;
  for (const std::string& text : texts) {
    if (Recognizer(rules, text).accepts()) accepted.insert(text);
  }
  return accepted;
}

struct RulesCounts {
  int with_texts = 0;
  int over_limits = 0;
};

// The grammar reads the `wanted` ones of `texts`, and each prefix can be completed: no mask is
// empty. Some random grammars are ambiguous without bounds.
void expect_texts(const Rules& rules, const std::vector<std::string>& texts,
                  const std::set<std::string>& wanted, RulesCounts& counts) {
  const auto grammar = grammar_for_test(rules, kLimits);
  if (!grammar) {
    ASSERT_TRUE(wanted.empty()) << grammar.error().message;
    ASSERT_EQ(grammar.error().code, Errc::unsatisfiable) << grammar.error().message;
    return;
  }
  ++counts.with_texts;
  std::vector<std::uint32_t> mask(mask_words(index_for_test()->vocab().size()));
  for (const std::string& text : texts) {
    Matcher matcher(*grammar);
    const bool is_beginning = matcher.accept_bytes(text);
    const Status filled = matcher.fill_mask(mask);
    if (!filled) {
      ASSERT_EQ(filled.error().code, Errc::limit_exceeded);
      ++counts.over_limits;
      return;
    }
    ASSERT_TRUE(!is_beginning ||
                std::ranges::any_of(mask, [](std::uint32_t word) { return word != 0; }))
        << '"' << text << '"';
  }
  for (const std::string& text : texts) {
    ASSERT_EQ(rules_accepts(*grammar, text), wanted.contains(text)) << '"' << text << '"';
  }
}

// These grammars often have left recursion, through rules and empty parts.
TEST(Rules, RandomGrammarsReadWhatTheySay) {
  const std::vector<std::string> texts = all_texts(4);
  std::mt19937 random(11 + proof_seed());
  RulesCounts counts;
  const int count = is_long_test() ? 100 : 30;
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE(i);
    const Rules rules = random_rules(random);
    expect_texts(rules, texts, texts_of(rules, texts), counts);
  }
  EXPECT_GT(counts.with_texts, count / 2);
  EXPECT_LT(counts.over_limits, count / 10);
}

// A stop may begin in one part and end in another.
TEST(Rules, RandomGrammarsReadWhatHasNoStop) {
  const std::vector<std::vector<std::string>> all_stops{{"ab"}, {"bb", "aab"}, {"baa", "b"}};
  const std::vector<std::string> texts = all_texts(5);
  std::mt19937 random(13 + proof_seed());
  RulesCounts counts;
  const int count = is_long_test() ? 60 : 15;
  for (int i = 0; i < count; ++i) {
    Rules rules = random_rules(random);
    const std::set<std::string> read = texts_of(rules, texts);
    const NodeId whole = rules.root();
    for (const std::vector<std::string>& stops : all_stops) {
      SCOPED_TRACE(std::to_string(i) + " without " + stops[0]);
      std::set<std::string> wanted = read;
      std::erase_if(wanted, [&](const std::string& text) {
        return std::ranges::any_of(
            stops, [&](const std::string& stop) { return text.find(stop) != text.npos; });
      });
      const NodeId text = rules.add(node::Text{stops});
      rules.set_root(rules.add(node::Lexeme{rules.add(node::Both{{text, whole}})}));
      expect_texts(rules, texts, wanted, counts);
    }
  }
  EXPECT_GT(counts.with_texts, count * 3 / 2);
  EXPECT_LT(counts.over_limits, count / 3);
}

struct StopRow {
  const char* name;
  std::string source;
  std::vector<std::string> yes;
  std::vector<std::string> no;
};
const StopRow kStopRows[] = {
    {"AcrossLexemes",
     "start: start \"<\" start | start \"/\" start | W \">\"?\nW: /[a-z]+/",
     {"a<b", "a/b>", "a<b>", "a/v>"},
     {"<a", "a</v>", "a<"}},
    {"WithinOne",
     "start: \"(\" start \")\" | T\nT: /.+/",
     {"x", "(x)", "((</v))"},
     {"(</v>)", "</v>"}},
    {"Counted",
     "start: \"(\" start \")\" | T~2..3\nT: \"<\" | \"/v\" | \">\"",
     {"<<", "(<>/v)", "/v>"},
     {"</v>", "<", "(</v>)"}},
    {"NothingIsLeftToComeBehind",
     "start: \"(\" start \")\" | \"<\" V | \"x\"\nV: \"/v>\"",
     {"x", "((x))"},
     {"<", "</v>", "(<"}},
};

TEST(Rules, TextOfRulesHasNoStop) {
  for (const StopRow& row : kStopRows) {
    SCOPED_TRACE(row.name);
    Rules rules = *read_rules(row.source, Syntax::lark);
    const NodeId free = rules.add(node::Text{{"</v>", std::string(1, '\0')}});
    const NodeId both = rules.add(node::Both{{free, rules.root()}});
    rules.set_root(rules.sequence({both, rules.literal("</v>")}));
    const auto grammar = grammar_for_test(rules);
    ASSERT_TRUE(grammar) << grammar.error().message;
    for (const std::string& text : row.yes)
      EXPECT_TRUE(rules_accepts(*grammar, text + "</v>")) << text;
    for (const std::string& text : row.no)
      EXPECT_FALSE(rules_accepts(*grammar, text + "</v>")) << text;
  }
  // A text that can only end in a stop is not begun.
  Rules rules = *read_rules(kStopRows[3].source, Syntax::lark);
  const NodeId text = rules.add(node::Text{{"</v>"}});
  rules.set_root(rules.add(node::Both{{text, rules.root()}}));
  Matcher matcher(*grammar_for_test(rules));
  EXPECT_FALSE(matcher.accept_bytes("<"));
}

// Which of the two forms is taken; in grammars that are meant so, both have the same texts.
TEST(Rules, OneFormIsReadAndTheOtherIsPrinted) {
  Rules rules;
  const NodeId read = rules.literal("read");
  const NodeId printed = rules.literal("printed");
  const NodeId forms = rules.add(node::Forms{.read = read, .printed = printed});
  rules.set_root(rules.sequence({rules.literal("<"), forms}));
  const auto grammar = grammar_for_test(rules);
  ASSERT_TRUE(grammar) << grammar.error().message;
  EXPECT_TRUE(rules_accepts(*grammar, "<read"));
  EXPECT_FALSE(rules_accepts(*grammar, "<printed"));
  for (const auto print : {print_lark, static_cast<Expected<Printed> (*)(const Rules&)>(print_gbnf),
                           static_cast<Expected<Printed> (*)(const Rules&)>(print_ebnf)}) {
    const auto text = print(rules);
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_NE(text->text.find("printed"), std::string::npos) << text->text;
    EXPECT_EQ(text->text.find("read"), std::string::npos) << text->text;
  }
}

// A printed grammar that is read again reads the same texts.
TEST(Rules, RandomGrammarsArePrintedAsTheyAre) {
  struct Dialect {
    const char* name;
    Expected<Printed> (*print)(const Rules&);
    Syntax syntax;
  };
  const Dialect dialects[] = {{"GBNF", print_gbnf, Syntax::gbnf},
                              {"EBNF", print_ebnf, Syntax::gbnf},
                              {"Lark", print_lark, Syntax::lark}};
  const std::vector<std::string> texts = all_texts(4);
  std::mt19937 random(12 + proof_seed());
  std::map<std::string, int> printed;
  const int count = is_long_test() ? 100 : 30;
  for (int i = 0; i < count; ++i) {
    const Rules rules = random_rules(random);
    const std::set<std::string> wanted = texts_of(rules, texts);
    for (const Dialect& dialect : dialects) {
      const auto text = dialect.print(rules);
      if (!text) continue;  // no value fits it, or it begins with itself
      ++printed[dialect.name];
      const auto again = read_rules(text->text, dialect.syntax);
      ASSERT_TRUE(again) << again.error().message << '\n' << text->text;
      ASSERT_EQ(texts_of(*again, texts), wanted) << i << ", " << dialect.name << '\n' << text->text;
    }
  }
  for (const Dialect& dialect : dialects)
    EXPECT_GT(printed[dialect.name], count / 10) << dialect.name;
}

}  // namespace
}  // namespace tenon::grammar
