// The C functions that take JSON: the first byte says which, the rest is the request. Each gives a
// handle or an error with a sentence, and what it gives can be used and freed.
#include <array>
#include <string>
#include <vector>

#include "fuzz.h"
#include <tenon.h>

using tenon::fuzz::promise;

namespace {

constexpr tenon_text kNothing{nullptr, 0};

const tenon_vocab* vocab() {
  static const tenon_vocab* const made = [] {
    static std::array<char, 256> bytes;
    std::vector<tenon_token> tokens;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<char>(i);
      tokens.push_back({{&bytes[i], 1}, TENON_TOKEN_TEXT});
    }
    for (const char* name : {"<tool_call>", "</tool_call>", "<|im_end|>"}) {
      tokens.push_back({tenon_text_of(name), TENON_TOKEN_CONTROL});
    }
    const std::int32_t end = 258;
    tenon_vocab* table = nullptr;
    promise(tenon_vocab_new(tokens.data(), tokens.size(), &end, 1, &table) == nullptr, "a table");
    return table;
  }();
  return made;
}

const tenon_format* hermes() {
  static const tenon_format* const found = [] {
    tenon_format* format = nullptr;
    promise(tenon_format_find(tenon_text_of("hermes"), &format) == nullptr, "hermes is there");
    return format;
  }();
  return found;
}

// Whether there is a handle, which the call before this one has set. Otherwise there is an error
// that says something.
template <class Handle>
bool made(tenon_error* error, Handle* const& handle) {
  promise((error == nullptr) == (handle != nullptr), "a handle or an error");
  if (error == nullptr) return true;
  promise(tenon_error_code(error) != TENON_OK && tenon_error_code(error) != TENON_INTERNAL,
          "the input is to blame");
  promise(tenon_error_message(error).size > 0, "a sentence");
  tenon_error_free(error);
  return false;
}

void match(tenon_error* error, tenon_grammar* const& grammar) {
  if (!made(error, grammar)) return;
  tenon_matcher* matcher = nullptr;
  promise(tenon_matcher_new(grammar, &matcher) == nullptr, "a matcher");
  tenon_grammar_free(grammar);
  std::array<std::uint32_t, 9> mask;
  tenon_error_free(tenon_matcher_fill_mask(matcher, mask.data(), mask.size()));
  (void)tenon_matcher_accept_bytes(matcher, tenon_text_of("{\"a\": [1, "));
  tenon_matcher_free(matcher);
}

void parse(tenon_text options) {
  tenon_parser* parser = nullptr;
  if (!made(tenon_parser_new(hermes(), vocab(), options, &parser), parser)) return;
  const tenon_event* events = nullptr;
  std::size_t count = 0;
  tenon_error_free(tenon_parser_feed(parser, options, 0, &events, &count));
  promise(tenon_parser_finish(parser, 0, &events, &count) == nullptr, "it ends");
  tenon_parser_free(parser);
}

void repair(tenon_text tool) {
  tenon_mender* mender = nullptr;
  if (!made(tenon_mender_new(tool, kNothing, &mender), mender)) return;
  tenon_text repaired = kNothing;
  promise(tenon_mender_feed(mender, tool, &repaired) == nullptr, "it takes any text");
  promise(tenon_mender_finish(mender, 0, &repaired) == nullptr, "it ends");
  tenon_mender_free(mender);
}

void render(tenon_text request) {
  static const tenon_template* const compiled = [] {
    tenon_template* made = nullptr;
    const char* source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    promise(tenon_template_compile(tenon_text_of(source), kNothing, &made) == nullptr,
            "a template");
    return made;
  }();
  tenon_prompt* prompt = nullptr;
  if (made(tenon_template_render(compiled, request, &prompt), prompt)) tenon_prompt_free(prompt);
}

void detect(tenon_text clues) {
  tenon_format* format = nullptr;
  tenon_error* error = tenon_format_detect(clues, vocab(), &format, nullptr);
  promise(error == nullptr || format == nullptr, "no format beside an error");
  tenon_error_free(error);
  tenon_format_free(format);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(tenon::fuzz::text_of(data + 1, size - 1));
  const tenon_text request{text.data(), text.size()};
  tenon_grammar* grammar = nullptr;
  tenon_string* string = nullptr;
  switch (data[0]) {
    case 'g':
      match(tenon_grammar_compile(vocab(), request, &grammar), grammar);
      break;
    case 't':
      match(tenon_grammar_for_tools(vocab(), hermes(), request, &grammar), grammar);
      break;
    case 'l':
      if (made(tenon_grammar_print(request, tenon_text_of("gbnf"), &string, nullptr), string)) {
        tenon_string_free(string);
      }
      break;
    case 'p':
      parse(request);
      break;
    case 'm':
      repair(request);
      break;
    case 'r':
      render(request);
      break;
    case 'd':
      detect(request);
      break;
    case 'c':
      if (made(tenon_format_render_calls(hermes(), request, &string), string)) {
        tenon_string_free(string);
      }
      break;
    default:
      break;
  }
  return 0;
}
