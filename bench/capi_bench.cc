// What a call through the C functions of libtenon.so takes beside the same call in C++, on the
// bundled model's vocabulary: a mask and a token, and a piece of a streamed call. The figure to
// watch is the difference of each pair; `allocations` are those of one call.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "count_allocations.h"
#include <benchmark/benchmark.h>
#include <tenon.h>

#include "tenon/format/fallbacks.h"
#include "tenon/format/registry.h"
#include "tenon/format/stream_parser.h"
#include "tenon/grammar/front/read_rules.h"
#include "tenon/grammar/machine/grammar.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/vocab/tokenizer_file.h"
#include "tenon/vocab/vocab.h"

namespace {

using namespace tenon;

constexpr const char* kModel = TENON_SOURCE_DIR "/models/tenon-tiny.gguf";
constexpr const char* kRegex = "[a-z]*";  // every state has its mask made before
constexpr const char* kRequest = R"({"grammar": "[a-z]*", "syntax": "regex"})";

void check(tenon_error* error) {
  if (error != nullptr) std::abort();
}

void count(benchmark::State& state, std::size_t before) {
  state.counters["allocations"] =
      static_cast<double>(allocations.load() - before) / static_cast<double>(state.iterations());
}

// ---- Matchers ----------------------------------------------------------------------------------

struct CMatcher {
  CMatcher() {
    tenon_vocab* vocab = nullptr;
    tenon_grammar* grammar = nullptr;
    check(tenon_vocab_load(tenon_text_of(kModel), &vocab));
    check(tenon_grammar_compile(vocab, tenon_text_of(kRequest), &grammar));
    check(tenon_matcher_new(grammar, &matcher));
    mask.resize(tenon_mask_words(tenon_vocab_size(vocab)));
    check(tenon_vocab_encode(vocab, tenon_text_of("a"), 0, &token, 1, &written));
    tenon_grammar_free(grammar);
    tenon_vocab_free(vocab);
  }
  ~CMatcher() { tenon_matcher_free(matcher); }
  CMatcher(const CMatcher&) = delete;
  CMatcher& operator=(const CMatcher&) = delete;

  tenon_matcher* matcher = nullptr;
  std::vector<std::uint32_t> mask;
  std::int32_t token = 0;
  std::size_t written = 0;
};

std::shared_ptr<grammar::Grammar> grammar_in_cxx() {
  const auto vocab = *vocab::Vocab::of(**vocab::load_tokenizer(kModel));
  const auto rules = *grammar::read_rules(kRegex, *grammar::syntax_named("regex"));
  return *grammar::Grammar::make(
      [rules, vocab](grammar::Machine& machine) {
        return grammar::add_rules(machine, rules, *vocab);
      },
      std::make_shared<grammar::VocabIndex>(vocab));
}

void accept_c(benchmark::State& state) {
  const CMatcher c;
  if (tenon_matcher_accept(c.matcher, c.token) != 1) std::abort();
  check(tenon_matcher_rollback(c.matcher, 1));
  const std::size_t before = allocations;
  for (auto unused : state) {
    benchmark::DoNotOptimize(tenon_matcher_accept(c.matcher, c.token));
    tenon_matcher_reset(c.matcher);
  }
  count(state, before);
}
BENCHMARK(accept_c);

void accept_cxx(benchmark::State& state) {
  const CMatcher c;  // for the same token
  grammar::Matcher matcher(grammar_in_cxx());
  if (!matcher.accept(c.token)) std::abort();
  matcher.rollback(1);
  const std::size_t before = allocations;
  for (auto unused : state) {
    benchmark::DoNotOptimize(matcher.accept(c.token));
    matcher.rollback(matcher.accepted_count());
  }
  count(state, before);
}
BENCHMARK(accept_cxx);

void fill_mask_c(benchmark::State& state) {
  CMatcher c;
  check(tenon_matcher_fill_mask(c.matcher, c.mask.data(), c.mask.size()));
  const std::size_t before = allocations;
  for (auto unused : state) {
    check(tenon_matcher_fill_mask(c.matcher, c.mask.data(), c.mask.size()));
    benchmark::DoNotOptimize(c.mask.data());
  }
  count(state, before);
}
BENCHMARK(fill_mask_c);

void fill_mask_cxx(benchmark::State& state) {
  const auto grammar = grammar_in_cxx();
  grammar::Matcher matcher(grammar);
  std::vector<std::uint32_t> mask(grammar::mask_words(grammar->index().vocab().size()));
  if (!matcher.fill_mask(mask)) std::abort();
  const std::size_t before = allocations;
  for (auto unused : state) {
    if (!matcher.fill_mask(mask)) std::abort();
    benchmark::DoNotOptimize(mask.data());
  }
  count(state, before);
}
BENCHMARK(fill_mask_cxx);

// ---- Parsers -----------------------------------------------------------------------------------

constexpr std::string_view kOpening = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"";
constexpr std::string_view kPiece = "word";  // in the middle of a string: passed on as it comes

void feed_c(benchmark::State& state) {
  tenon_format* format = nullptr;
  tenon_parser* parser = nullptr;
  check(tenon_format_find(tenon_text_of("hermes"), &format));
  check(tenon_parser_new(format, nullptr, tenon_text{nullptr, 0}, &parser));
  const tenon_event* events = nullptr;
  std::size_t events_count = 0;
  check(tenon_parser_feed(parser, {kOpening.data(), kOpening.size()}, 0, &events, &events_count));
  const std::size_t before = allocations;
  for (auto unused : state) {
    check(tenon_parser_feed(parser, {kPiece.data(), kPiece.size()}, 0, &events, &events_count));
    benchmark::DoNotOptimize(events);
  }
  count(state, before);
  if (events_count != 1 || events->type != TENON_EVENT_ARGUMENTS) std::abort();
  tenon_parser_free(parser);
  tenon_format_free(format);
}
BENCHMARK(feed_c);

void feed_cxx(benchmark::State& state) {
  format::StreamParser parser(format::with_fallbacks(*format::find("hermes")), {.any_tool = true});
  std::vector<message::ChatEvent> events;
  parser.feed(kOpening, false, events);
  const std::size_t before = allocations;
  for (auto unused : state) {
    events.clear();
    parser.feed(kPiece, false, events);
    benchmark::DoNotOptimize(events.data());
  }
  count(state, before);
}
BENCHMARK(feed_cxx);

}  // namespace
