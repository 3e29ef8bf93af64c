// Every way to fail, and NULL for each parameter that must not be NULL.
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenon/base/utf8.h"
#include "tenon/capi/handle.h"
#include "tenon/capi/handles_for_test.h"

namespace tenon::capi {
namespace {

constexpr std::string_view kSchema = R"({"type": "integer"})";
constexpr std::string_view kRequest = R"({"schema": {"type": "integer"}})";
constexpr std::string_view kTool =
    R"({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}})";

// One of each handle, for calls that need it.
struct Handles {
  Owned<tenon_schema> schema = made(tenon_schema_compile, text(kSchema), text(""));
  Owned<tenon_grammar> grammar = made(tenon_grammar_compile, bundled_vocab(), text(kRequest));
  Owned<tenon_matcher> matcher = made(tenon_matcher_new, grammar.get());
  Owned<tenon_mask_pool> pool = made(tenon_mask_pool_new, std::size_t{1});
  Owned<tenon_format> format = format_named("hermes");
  Owned<tenon_template> chat_template = made(
      tenon_template_compile, text("{{ messages[0].content }}{{ other.a.b if other }}"), text(""));
  Owned<tenon_prompt> prompt = made(tenon_template_render, chat_template.get(),
                                    text(R"({"messages": [{"role": "user", "content": "a"}]})"));
  Owned<tenon_parser> parser = made(tenon_parser_new, format.get(), nullptr, text(""));
  Owned<tenon_mender> mender = made(tenon_mender_new, text(kTool), text(""));
  Owned<tenon_vocab> tokens = table();  // without a tokenizer

  static Owned<tenon_vocab> table() {
    static const std::string bytes = [] {
      std::string all;
      for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
      return all;
    }();
    std::vector<tenon_token> tokens;
    for (const char& byte : bytes) tokens.push_back({{&byte, 1}, TENON_TOKEN_TEXT});
    return made(tenon_vocab_new, tokens.data(), tokens.size(), nullptr, std::size_t{0});
  }
};

struct Results {
  tenon_vocab* vocab = nullptr;
  tenon_schema* schema = nullptr;
  tenon_grammar* grammar = nullptr;
  tenon_matcher* matcher = nullptr;
  tenon_format* format = nullptr;
  tenon_template* chat_template = nullptr;
  tenon_prompt* prompt = nullptr;
  tenon_parser* parser = nullptr;
  tenon_mender* mender = nullptr;
  tenon_call* call = nullptr;
  tenon_conversation* conversation = nullptr;
  tenon_string* string = nullptr;
  tenon_text text{nullptr, 0};
  const tenon_event* events = nullptr;
  std::size_t count = 7;
  std::int32_t ids[4] = {};
  std::uint32_t mask[1] = {};
  int flag = 7;
};

using Call = std::function<tenon_error*(const Handles&, Results&)>;

// ---- NULL -----------------------------------------------------------------------------------

struct NullRow {
  const char* function;
  const char* parameter;
  Call call;
};

const NullRow kNulls[] = {
    {"tenon_vocab_load", "vocab",
     [](auto&, auto&) { return tenon_vocab_load(text("a"), nullptr); }},
    {"tenon_vocab_parse", "vocab",
     [](auto&, auto&) { return tenon_vocab_parse(text("{}"), text(""), nullptr); }},
    {"tenon_vocab_parse_tiktoken", "vocab",
     [](auto&, auto&) { return tenon_vocab_parse_tiktoken(text(""), text(""), nullptr); }},
    {"tenon_vocab_new", "tokens",
     [](auto&, auto& r) { return tenon_vocab_new(nullptr, 1, nullptr, 0, &r.vocab); }},
    {"tenon_vocab_new", "ends",
     [](auto&, auto& r) {
       const tenon_token token{text("a"), TENON_TOKEN_TEXT};
       return tenon_vocab_new(&token, 1, nullptr, 1, &r.vocab);
     }},
    {"tenon_vocab_with_ends", "vocab",
     [](auto&, auto& r) { return tenon_vocab_with_ends(nullptr, r.ids, 1, &r.vocab); }},
    {"tenon_vocab_with_ends", "ends",
     [](auto&, auto& r) { return tenon_vocab_with_ends(bundled_vocab(), nullptr, 1, &r.vocab); }},
    {"tenon_vocab_encode", "vocab",
     [](auto&, auto& r) { return tenon_vocab_encode(nullptr, text("a"), 0, r.ids, 4, &r.count); }},
    {"tenon_vocab_encode", "ids",
     [](auto&, auto& r) {
       return tenon_vocab_encode(bundled_vocab(), text("a"), 0, nullptr, 4, &r.count);
     }},
    {"tenon_vocab_encode", "count",
     [](auto&, auto& r) {
       return tenon_vocab_encode(bundled_vocab(), text("a"), 0, r.ids, 4, nullptr);
     }},
    {"tenon_vocab_decode", "vocab",
     [](auto&, auto& r) { return tenon_vocab_decode(nullptr, r.ids, 1, &r.string); }},
    {"tenon_vocab_decode", "ids",
     [](auto&, auto& r) { return tenon_vocab_decode(bundled_vocab(), nullptr, 1, &r.string); }},
    {"tenon_schema_compile", "compiled",
     [](auto&, auto&) { return tenon_schema_compile(text(kSchema), text(""), nullptr); }},
    {"tenon_schema_validate", "schema",
     [](auto&, auto& r) { return tenon_schema_validate(nullptr, text("1"), &r.string); }},
    {"tenon_schema_is_valid", "is_valid",
     [](auto& h, auto&) { return tenon_schema_is_valid(h.schema.get(), text("1"), nullptr); }},
    {"tenon_grammar_compile", "vocab",
     [](auto&, auto& r) { return tenon_grammar_compile(nullptr, text(kRequest), &r.grammar); }},
    {"tenon_grammar_for_tools", "format",
     [](auto&, auto& r) {
       return tenon_grammar_for_tools(bundled_vocab(), nullptr, text("{}"), &r.grammar);
     }},
    {"tenon_grammar_relaxed", "grammar",
     [](auto&, auto& r) { return tenon_grammar_relaxed(nullptr, &r.string); }},
    {"tenon_grammar_print", "text",
     [](auto&, auto&) {
       return tenon_grammar_print(text(kRequest), text("gbnf"), nullptr, nullptr);
     }},
    {"tenon_matcher_new", "grammar",
     [](auto&, auto& r) { return tenon_matcher_new(nullptr, &r.matcher); }},
    {"tenon_matcher_copy", "matcher",
     [](auto&, auto& r) { return tenon_matcher_copy(nullptr, &r.matcher); }},
    {"tenon_matcher_fill_mask", "matcher",
     [](auto&, auto& r) { return tenon_matcher_fill_mask(nullptr, r.mask, 1); }},
    {"tenon_matcher_fill_draft_masks", "matcher",
     [](auto&, auto& r) {
       return tenon_matcher_fill_draft_masks(nullptr, r.ids, r.ids, 1, r.mask, 1, &r.count);
     }},
    {"tenon_matcher_fill_draft_masks", "tokens",
     [](auto& h, auto& r) {
       return tenon_matcher_fill_draft_masks(h.matcher.get(), nullptr, r.ids, 1, r.mask, 1,
                                             &r.count);
     }},
    {"tenon_matcher_fill_draft_masks", "parents",
     [](auto& h, auto& r) {
       return tenon_matcher_fill_draft_masks(h.matcher.get(), r.ids, nullptr, 1, r.mask, 1,
                                             &r.count);
     }},
    {"tenon_matcher_fill_draft_masks", "masks",
     [](auto& h, auto& r) {
       return tenon_matcher_fill_draft_masks(h.matcher.get(), r.ids, r.ids, 1, nullptr, 1,
                                             &r.count);
     }},
    {"tenon_mask_pool_new", "pool", [](auto&, auto&) { return tenon_mask_pool_new(0, nullptr); }},
    {"tenon_mask_pool_fill_masks", "pool",
     [](auto& h, auto& r) {
       tenon_matcher* const one = h.matcher.get();
       return tenon_mask_pool_fill_masks(nullptr, &one, 1, r.mask, 1, 1, nullptr, nullptr);
     }},
    {"tenon_mask_pool_fill_masks", "matchers",
     [](auto& h, auto& r) {
       return tenon_mask_pool_fill_masks(h.pool.get(), nullptr, 1, r.mask, 1, 1, nullptr, nullptr);
     }},
    {"tenon_mask_pool_fill_masks", "masks",
     [](auto& h, auto&) {
       tenon_matcher* const one = h.matcher.get();
       return tenon_mask_pool_fill_masks(h.pool.get(), &one, 1, nullptr, 1, 1, nullptr, nullptr);
     }},
    {"tenon_matcher_fill_mask", "mask",
     [](auto& h, auto&) { return tenon_matcher_fill_mask(h.matcher.get(), nullptr, 1); }},
    {"tenon_matcher_rollback", "matcher",
     [](auto&, auto&) { return tenon_matcher_rollback(nullptr, 0); }},
    {"tenon_matcher_forced_tokens", "matcher",
     [](auto&, auto& r) { return tenon_matcher_forced_tokens(nullptr, r.ids, 4, &r.count); }},
    {"tenon_matcher_tokens_to_end", "matcher",
     [](auto&, auto& r) { return tenon_matcher_tokens_to_end(nullptr, r.ids, 4, &r.count); }},
    {"tenon_format_find", "format",
     [](auto&, auto&) { return tenon_format_find(text("hermes"), nullptr); }},
    {"tenon_format_compile", "format",
     [](auto&, auto&) { return tenon_format_compile(text(""), nullptr); }},
    {"tenon_format_import", "format",
     [](auto&, auto&) { return tenon_format_import(text("{}"), nullptr); }},
    {"tenon_format_register", "format",
     [](auto&, auto&) { return tenon_format_register(nullptr); }},
    {"tenon_format_info", "format",
     [](auto&, auto& r) { return tenon_format_info(nullptr, &r.string); }},
    {"tenon_format_names", "names", [](auto&, auto&) { return tenon_format_names(nullptr); }},
    {"tenon_format_detect", "format",
     [](auto&, auto& r) { return tenon_format_detect(text("{}"), nullptr, nullptr, &r.string); }},
    {"tenon_format_render_calls", "format",
     [](auto&, auto& r) { return tenon_format_render_calls(nullptr, text("[]"), &r.string); }},
    {"tenon_format_describe_tools", "format",
     [](auto&, auto& r) { return tenon_format_describe_tools(nullptr, text("[]"), &r.string); }},
    {"tenon_template_compile", "compiled",
     [](auto&, auto&) { return tenon_template_compile(text("a"), text(""), nullptr); }},
    {"tenon_template_load", "compiled",
     [](auto&, auto&) { return tenon_template_load(text("a"), nullptr); }},
    {"tenon_template_format", "chat_template",
     [](auto&, auto& r) { return tenon_template_format(nullptr, &r.format); }},
    {"tenon_template_capabilities", "chat_template",
     [](auto&, auto& r) { return tenon_template_capabilities(nullptr, &r.string); }},
    {"tenon_template_render", "chat_template",
     [](auto&, auto& r) { return tenon_template_render(nullptr, text("{}"), &r.prompt); }},
    {"tenon_prompt_shaping", "prompt",
     [](auto&, auto& r) { return tenon_prompt_shaping(nullptr, &r.string); }},
    {"tenon_prompt_tokenize", "vocab",
     [](auto& h, auto& r) {
       return tenon_prompt_tokenize(h.prompt.get(), nullptr, r.ids, 4, &r.count);
     }},
    {"tenon_parser_new", "format",
     [](auto&, auto& r) { return tenon_parser_new(nullptr, nullptr, text(""), &r.parser); }},
    {"tenon_parser_feed", "parser",
     [](auto&, auto& r) { return tenon_parser_feed(nullptr, text("a"), 0, &r.events, &r.count); }},
    {"tenon_parser_feed_token", "events",
     [](auto& h, auto& r) {
       return tenon_parser_feed_token(h.parser.get(), 0, nullptr, &r.count);
     }},
    {"tenon_parser_finish", "count",
     [](auto& h, auto& r) { return tenon_parser_finish(h.parser.get(), 0, &r.events, nullptr); }},
    {"tenon_mender_new", "mender",
     [](auto&, auto&) { return tenon_mender_new(text(kTool), text(""), nullptr); }},
    {"tenon_mender_feed", "mender",
     [](auto&, auto& r) { return tenon_mender_feed(nullptr, text("{"), &r.text); }},
    {"tenon_mender_finish", "repaired",
     [](auto& h, auto&) { return tenon_mender_finish(h.mender.get(), 0, nullptr); }},
    {"tenon_mender_repairs", "mender",
     [](auto&, auto& r) { return tenon_mender_repairs(nullptr, &r.string); }},
    {"tenon_service_open", "service",
     [](auto&, auto&) { return tenon_service_open(text(""), text(""), nullptr); }},
    {"tenon_service_load", "service",
     [](auto&, auto&) { return tenon_service_load(text("a"), nullptr); }},
    {"tenon_service_call", "service",
     [](auto&, auto& r) {
       return tenon_service_call(nullptr, text("GET"), text("/health"), text(""), nullptr, nullptr,
                                 &r.call);
     }},
    {"tenon_service_ask", "service",
     [](auto&, auto& r) {
       return tenon_service_ask(nullptr, text("GET"), text("/health"), text(""), &r.flag,
                                &r.string);
     }},
    {"tenon_service_listen", "service",
     [](auto&, auto& r) { return tenon_service_listen(nullptr, text(""), 0, &r.string); }},
    {"tenon_service_stop_listening", "service",
     [](auto&, auto&) { return tenon_service_stop_listening(nullptr, 0); }},
    {"tenon_service_add_engine", "service",
     [](auto&, auto&) {
       return tenon_service_add_engine(nullptr, text("a"), nullptr, nullptr, nullptr);
     }},
    {"tenon_conversation_new", "service",
     [](auto&, auto& r) { return tenon_conversation_new(nullptr, text(""), &r.conversation); }},
    {"tenon_conversation_restore", "service",
     [](auto&, auto& r) {
       return tenon_conversation_restore(nullptr, text(""), text("{}"), &r.conversation);
     }},
    {"tenon_conversation_copy", "conversation",
     [](auto&, auto& r) { return tenon_conversation_copy(nullptr, &r.conversation); }},
    {"tenon_conversation_send", "conversation",
     [](auto&, auto& r) {
       return tenon_conversation_send(nullptr, text("{}"), nullptr, text(""), nullptr, nullptr,
                                      &r.string);
     }},
    {"tenon_conversation_submit", "conversation",
     [](auto&, auto& r) {
       return tenon_conversation_submit(nullptr, text("[]"), nullptr, text(""), nullptr, nullptr,
                                        &r.string);
     }},
    {"tenon_conversation_pending", "conversation",
     [](auto&, auto& r) { return tenon_conversation_pending(nullptr, &r.string); }},
    {"tenon_conversation_dismiss", "conversation",
     [](auto&, auto&) { return tenon_conversation_dismiss(nullptr, text("")); }},
    {"tenon_conversation_save", "conversation",
     [](auto&, auto& r) { return tenon_conversation_save(nullptr, &r.string); }},
    {"tenon_toolbox_new", "toolbox",
     [](auto&, auto&) { return tenon_toolbox_new(text(""), nullptr); }},
    {"tenon_toolbox_add", "toolbox",
     [](auto&, auto&) { return tenon_toolbox_add(nullptr, text(kTool), nullptr, nullptr); }},
    {"tenon_toolbox_add_mcp", "toolbox",
     [](auto&, auto&) { return tenon_toolbox_add_mcp(nullptr, text("{}"), text("")); }},
    {"tenon_toolbox_tools", "toolbox",
     [](auto&, auto& r) { return tenon_toolbox_tools(nullptr, &r.string); }},
};

TEST(Capi, NullIsRefusedByName) {
  const Handles handles;
  for (const NullRow& row : kNulls) {
    Results results;
    EXPECT_EQ(told(row.call(handles, results)),
              std::string("invalid: ") + row.parameter + " is NULL")
        << row.function;
  }
}

std::string header() {
  std::ifstream file(TENON_SOURCE_DIR "/src/tenon/capi/include/tenon.h");
  return {std::istreambuf_iterator<char>(file), {}};
}

// A new function needs a new row.
TEST(Capi, EveryFunctionThatCanFailIsAskedWithNull) {
  std::set<std::string> asked;
  for (const NullRow& row : kNulls) asked.insert(row.function);
  const std::string text = header();
  const std::regex declared(R"(tenon_error\*\s+(tenon_\w+)\()");
  std::set<std::string> known;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), declared);
       it != std::sregex_iterator(); ++it) {
    known.insert((*it)[1]);
  }
  EXPECT_EQ(asked, known);
}

// Functions that cannot fail return 0 or nothing.
TEST(Capi, NullIsNothing) {
  EXPECT_EQ(read(tenon_string_text(nullptr)), "");
  EXPECT_EQ(tenon_error_code(nullptr), TENON_OK);
  EXPECT_EQ(read(tenon_error_message(nullptr)), "");
  EXPECT_EQ(tenon_vocab_size(nullptr), 0U);
  EXPECT_EQ(read(tenon_vocab_token(nullptr, 0).bytes), "");
  EXPECT_EQ(tenon_vocab_token(nullptr, 0).kind, TENON_TOKEN_UNUSED);
  std::size_t count = 7;
  EXPECT_EQ(tenon_vocab_ends(nullptr, &count), nullptr);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(tenon_vocab_bos(nullptr), -1);
  EXPECT_EQ(tenon_vocab_control(nullptr, text("a")), -1);
  EXPECT_EQ(tenon_matcher_accept(nullptr, 0), -1);
  EXPECT_EQ(tenon_matcher_accept_bytes(nullptr, text("a")), -1);
  EXPECT_EQ(read(tenon_matcher_error(nullptr)), "matcher is NULL");
  EXPECT_EQ(tenon_matcher_validate_draft(nullptr, nullptr, 1), 0U);
  EXPECT_EQ(tenon_matcher_accepted_count(nullptr), 0U);
  EXPECT_EQ(tenon_matcher_is_accepting(nullptr), 0);
  EXPECT_EQ(tenon_matcher_is_complete(nullptr), 0);
  EXPECT_EQ(tenon_matcher_is_finished(nullptr), 0);
  EXPECT_EQ(read(tenon_matcher_forced_bytes(nullptr, 0)), "");
  tenon_matcher_reset(nullptr);
  EXPECT_EQ(read(tenon_prompt_text(nullptr)), "");
  EXPECT_EQ(tenon_prompt_spans(nullptr, &count), nullptr);
  tenon_parser_reset(nullptr);
  tenon_string_free(nullptr);
  tenon_error_free(nullptr);
  tenon_vocab_free(nullptr);
  tenon_schema_free(nullptr);
  tenon_grammar_free(nullptr);
  tenon_matcher_free(nullptr);
  tenon_mask_pool_free(nullptr);
  tenon_format_free(nullptr);
  tenon_template_free(nullptr);
  tenon_prompt_free(nullptr);
  tenon_parser_free(nullptr);
  tenon_mender_free(nullptr);
  tenon_service_free(nullptr);
  tenon_call_free(nullptr);
  tenon_call_cancel(nullptr);
  int status = 7;
  tenon_string* piece = nullptr;
  EXPECT_EQ(tenon_call_next(nullptr, 0, &status, &piece), 2);
  EXPECT_EQ(status, 0);
  tenon_conversation_free(nullptr);
  tenon_conversation_cancel(nullptr);
  tenon_conversation_reset(nullptr);
  tenon_toolbox_free(nullptr);
  tenon_tool_call_end(nullptr, text(""), 0);
  EXPECT_EQ(tenon_tool_call_is_cancelled(nullptr), 0);
  EXPECT_NE(tenon_generation_is_cancelled(nullptr), 0) << "no token is wanted";
  EXPECT_NE(tenon_generation_token(nullptr, 0), 0);
  tenon_generation_end(nullptr, text("stop"), text(""));
}

// ---- the place of an error ----------------------------------------------------------------------

struct PlaceRow {
  const char* name;
  Call call;
  const char* path;
  std::uint32_t line;
};

const PlaceRow kPlaces[] = {
    {"KeywordOfASchema",
     [](auto&, auto& r) {
       return tenon_schema_compile(text(R"({"properties": {"a": {"type": "int"}}})"), text(""),
                                   &r.schema);
     },
     "/properties/a/type", 0},
    {"SchemaOfAGrammar",
     [](auto&, auto& r) {
       return tenon_grammar_compile(bundled_vocab(), text(R"({"schema": {"minLength": "a"}})"),
                                    &r.grammar);
     },
     "/minLength", 0},
    {"TextThatIsNoJson",
     [](auto&, auto& r) { return tenon_schema_compile(text("{\n\n1"), text(""), &r.schema); },
     "schema", 3},
    {"UnknownMemberOfOptions",
     [](auto&, auto& r) {
       return tenon_schema_compile(text(kSchema), text(R"({"drafts": 7})"), &r.schema);
     },
     "drafts", 0},
    {"MemberOfTheWrongKind",
     [](auto& h, auto& r) {
       return tenon_template_render(h.chat_template.get(), text(R"({"messages": 1})"), &r.prompt);
     },
     "messages", 0},
    {"ParametersOfATool",
     [](auto& h, auto& r) {
       return tenon_grammar_for_tools(
           bundled_vocab(), h.format.get(),
           text(R"({"tools": [{"type": "function", "function": {"name": "f", "parameters": 1}}]})"),
           &r.grammar);
     },
     "tools[0].function.parameters", 0},
    {"SchemaOfATool",
     [](auto& h, auto& r) {
       return tenon_grammar_for_tools(bundled_vocab(), h.format.get(),
                                      text(R"({"tools": [{"type": "function",
                               "function": {"name": "f", "parameters": {"type": "objekt"}}}]})"),
                                      &r.grammar);
     },
     "tools[0].function.parameters", 0},
    {"ToolThatIsCalledOtherwiseHere",
     [](auto&, auto& r) {
       return tenon_mender_new(text(R"({"type": "function", "function": {}})"), text(""),
                               &r.mender);
     },
     "tool.function.name", 0},
    {"LineOfALark",
     [](auto&, auto& r) {
       return tenon_grammar_compile(
           bundled_vocab(), text(R"({"grammar": "start: \"a\"\n  other", "syntax": "lark"})"),
           &r.grammar);
     },
     "", 2},
    {"LineOfATemplate",
     [](auto&, auto& r) {
       return tenon_template_compile(text("a\n{{ b"), text(""), &r.chat_template);
     },
     "", 2},
    {"LineOfADefinition",
     [](auto&, auto& r) { return tenon_format_compile(text("name = \"a\"\nb = 1"), &r.format); },
     "", 2},
    {"ParameterThatIsNull",
     [](auto&, auto& r) { return tenon_vocab_decode(nullptr, nullptr, 0, &r.string); }, "vocab", 0},
    {"NoPlace",
     [](auto& h, auto& r) {
       return tenon_vocab_encode(h.tokens.get(), text("a"), 0, r.ids, 4, &r.count);
     },
     "", 0},
};

TEST(Capi, ErrorsTellTheirPlace) {
  const Handles handles;
  for (const PlaceRow& row : kPlaces) {
    Results results;
    tenon_error* const error = row.call(handles, results);
    ASSERT_NE(error, nullptr) << row.name;
    EXPECT_EQ(read(tenon_error_path(error)), row.path) << row.name;
    EXPECT_EQ(tenon_error_line(error), row.line) << row.name;
    tenon_error_free(error);
  }
  EXPECT_EQ(read(tenon_error_path(nullptr)), "");
  EXPECT_EQ(tenon_error_line(nullptr), 0U);
}

// Exceptions end at the C function.
TEST(Capi, WhatIsThrownIsAnError) {
  const auto thrown = [](auto what) { return told(guarded({}, [&]() -> Status { throw what; })); };
  EXPECT_EQ(thrown(std::bad_alloc()), "internal: out of memory");
  EXPECT_EQ(thrown(std::runtime_error("a library's")), "internal: a library's");
  EXPECT_EQ(thrown(1), "internal: an unknown exception");
  EXPECT_EQ(guarded_or(7, []() -> int { throw std::bad_alloc(); }), 7);
}

// A message names the wrong text, but stays short.
TEST(Capi, MessagesThatQuoteMuchAreShortened) {
  const std::string pattern(100'000, '(');
  tenon_schema* schema = nullptr;
  const std::string error =
      told(tenon_schema_compile(text(R"({"pattern": ")" + pattern + "\"}"), text(""), &schema));
  EXPECT_TRUE(error.starts_with("invalid: ")) << error.substr(0, 100);
  EXPECT_LT(error.size(), 2'100U);
  EXPECT_NE(error.find(" bytes left out) ... "), std::string::npos) << error;
  const auto said = [](std::string message) {
    return told(error_of({Errc::invalid, std::move(message)}));
  };
  EXPECT_EQ(said(std::string(2'000, 'a')), "invalid: " + std::string(2'000, 'a'));
  // Characters stay whole: those at the two cuts are left out.
  std::string cut;
  for (int i = 0; i < 1'000; ++i) cut += "\u6f22";
  EXPECT_EQ(utf8::sanitized(said(cut)), said(cut));
}

// ---- what is wrong -------------------------------------------------------------------------

struct Row {
  const char* name;
  const char* told;  // the beginning of the error
  Call call;
};

Call compiles(std::string_view request) {
  return [request](auto&, auto& r) {
    return tenon_grammar_compile(bundled_vocab(), text(request), &r.grammar);
  };
}

Call asks_for_calls(std::string_view request, std::string_view format = "hermes") {
  return [request, format](auto&, auto& r) {
    return tenon_grammar_for_tools(bundled_vocab(), format_named(format).get(), text(request),
                                   &r.grammar);
  };
}

Call renders(std::string_view request) {
  return [request](auto& h, auto& r) {
    return tenon_template_render(h.chat_template.get(), text(request), &r.prompt);
  };
}

Call parses_with(std::string_view options) {
  return [options](auto& h, auto& r) {
    return tenon_parser_new(h.format.get(), nullptr, text(options), &r.parser);
  };
}

const Row kRows[] = {
    {"NoSuchFile", "unavailable: /no/such.gguf: No such file or directory",
     [](auto&, auto& r) { return tenon_vocab_load(text("/no/such.gguf"), &r.vocab); }},
    {"FolderWithoutTokenizer", "invalid: " TENON_SOURCE_DIR "/docs: there is neither",
     [](auto&, auto& r) { return tenon_vocab_load(text(TENON_SOURCE_DIR "/docs"), &r.vocab); }},
    {"NoPath", "invalid: path is empty: name a GGUF file, a tokenizer.json",
     [](auto&, auto& r) { return tenon_vocab_load({}, &r.vocab); }},
    {"TokenizerIsNoJson",
     "invalid: ", [](auto&, auto& r) { return tenon_vocab_parse(text("{"), text(""), &r.vocab); }},
    {"TiktokenWithoutPattern", "invalid: pattern: is missing",
     [](auto&, auto& r) { return tenon_vocab_parse_tiktoken(text(""), text(""), &r.vocab); }},
    {"TiktokenSpecialIsAList", "invalid: special: must be an object",
     [](auto&, auto& r) {
       return tenon_vocab_parse_tiktoken(text(""), text(R"({"pattern": "a", "special": []})"),
                                         &r.vocab);
     }},
    {"TiktokenIdIsNone", "invalid: special: must be ids",
     [](auto&, auto& r) {
       return tenon_vocab_parse_tiktoken(
           text(""), text(R"({"pattern": "a", "special": {"<s>": -1}})"), &r.vocab);
     }},
    {"TiktokenUnknownOption", "invalid: options: eot: is not known here",
     [](auto&, auto& r) {
       return tenon_vocab_parse_tiktoken(text(""), text(R"({"eot": 1})"), &r.vocab);
     }},
    {"NoTokens", "invalid: the vocabulary has no tokens",
     [](auto&, auto& r) {
       const tenon_token token{text("a"), TENON_TOKEN_TEXT};
       return tenon_vocab_new(&token, 0, nullptr, 0, &r.vocab);
     }},
    {"EndThatIsNoIdOfTheTable", "invalid: ends[1] is -5, and there are 1 tokens",
     [](auto&, auto& r) {
       const tenon_token token{text("a"), TENON_TOKEN_TEXT};
       const std::int32_t ends[] = {0, -5};
       return tenon_vocab_new(&token, 1, ends, 2, &r.vocab);
     }},
    {"PathWithANul", "invalid: path has a NUL behind 1 bytes",
     [](auto&, auto& r) { return tenon_vocab_load({"a\0b", 3}, &r.vocab); }},
    {"BytesThatNoTokenHas", "invalid: no token is the single byte",
     [](auto&, auto& r) {
       const tenon_token token{text("a"), TENON_TOKEN_TEXT};
       return tenon_vocab_new(&token, 1, nullptr, 0, &r.vocab);
     }},
    {"EndThatIsNoToken", "invalid: the end token 99999999",
     [](auto&, auto& r) {
       const std::int32_t end = 99999999;
       return tenon_vocab_with_ends(bundled_vocab(), &end, 1, &r.vocab);
     }},
    {"EncodeWithoutTokenizer", "unsupported: the vocabulary was made of tokens alone",
     [](auto& h, auto& r) {
       return tenon_vocab_encode(h.tokens.get(), text("a"), 0, r.ids, 4, &r.count);
     }},
    {"DecodeOfNoToken", "invalid: the token -1 is not in the vocabulary",
     [](auto&, auto& r) {
       const std::int32_t id = -1;
       return tenon_vocab_decode(bundled_vocab(), &id, 1, &r.string);
     }},
    {"GrammarWithoutEnd", "invalid: the vocabulary does not say with which token a text ends",
     [](auto& h, auto& r) {
       return tenon_grammar_compile(h.tokens.get(), text(kRequest), &r.grammar);
     }},
    {"CallsWithoutEnd", "invalid: the vocabulary does not say with which token a text ends",
     [](auto& h, auto& r) {
       return tenon_grammar_for_tools(h.tokens.get(), h.format.get(), text(""), &r.grammar);
     }},

    {"SchemaIsNoJson", "invalid: schema: line 1",
     [](auto&, auto& r) { return tenon_schema_compile(text("{"), text(""), &r.schema); }},
    {"SchemaIsNone", "invalid: ",
     [](auto&, auto& r) {
       return tenon_schema_compile(text(R"({"type": 5})"), text(""), &r.schema);
     }},
    {"SchemaOptionUnknown", "invalid: options: format: is not known here",
     [](auto&, auto& r) {
       return tenon_schema_compile(text(kSchema), text(R"({"format": true})"), &r.schema);
     }},
    {"SchemaOptionsAreAList", "invalid: options: must be a JSON object",
     [](auto&, auto& r) { return tenon_schema_compile(text(kSchema), text("[]"), &r.schema); }},
    {"SchemaOfUnknownDraft", "invalid: draft: must be one of",
     [](auto&, auto& r) {
       return tenon_schema_compile(text(kSchema), text(R"({"draft": "7"})"), &r.schema);
     }},
    {"InstanceIsNoJson", "invalid: instance: line 1",
     [](auto& h, auto& r) {
       return tenon_schema_validate(h.schema.get(), text("nope"), &r.string);
     }},
    {"InstanceIsMissing", "invalid: instance: line 1",
     [](auto& h, auto& r) { return tenon_schema_is_valid(h.schema.get(), text(""), &r.flag); }},

    {"RequestIsNoJson", "invalid: request: line 1", compiles("{")},
    {"RequestIsAList", "invalid: request: must be a JSON object", compiles("[]")},
    {"RequestSaysNothing", "invalid: schema: give either schema", compiles("{}")},
    {"RequestMemberUnknown", "invalid: tests: is not known here",
     compiles(R"({"schema": true, "tests": []})")},
    {"SyntaxUnknown", "invalid: syntax: must be one of",
     compiles(R"({"grammar": "a", "syntax": "peg"})")},
    {"GrammarIsWrong", "invalid: ", compiles(R"({"grammar": "root ::= other", "syntax": "gbnf"})")},
    {"NothingFits", "unsatisfiable: ", compiles(R"({"schema": false})")},
    {"NothingToHold", "invalid: request: there is nothing to hold", asks_for_calls("{}")},
    {"ToolsAreNoList", "invalid: tools must be of type array", asks_for_calls(R"({"tools": {}})")},
    {"ToolWithoutName", "invalid: tools[0].function",
     asks_for_calls(R"({"tools": [{"type": "function"}]})")},
    {"ToolChoiceOfNoTool", "invalid: ",
     asks_for_calls(
         R"({"tools": [], "tool_choice": {"type": "function", "function": {"name": "g"}}})")},
    {"ArgumentOrderUnknown", "invalid: ", asks_for_calls(R"({"argument_order": "random"})")},
    {"CallsMemberUnknown", "invalid: request: model: is not known here",
     asks_for_calls(R"({"model": "a"})")},
    {"PrintTo", "invalid: to: must be one of",
     [](auto&, auto& r) {
       return tenon_grammar_print(text(kRequest), text("peg"), &r.string, nullptr);
     }},
    {"PrintNothing", "invalid: ",
     [](auto&, auto& r) { return tenon_grammar_print({}, text("gbnf"), &r.string, nullptr); }},

    {"MaskTooSmall", "invalid: mask: has 1 words",
     [](auto& h, auto& r) { return tenon_matcher_fill_mask(h.matcher.get(), r.mask, 1); }},
    {"DraftMaskTooSmall", "invalid: mask: has 1 words",
     [](auto& h, auto& r) {
       const std::int32_t parents[] = {-1};
       return tenon_matcher_fill_draft_masks(h.matcher.get(), r.ids, parents, 1, r.mask, 1,
                                             &r.count);
     }},
    {"TooManyThreads", "invalid: threads: is 1025, and may be at most 1024",
     [](auto&, auto&) {
       tenon_mask_pool* pool = nullptr;
       return tenon_mask_pool_new(1'025, &pool);
     }},
    {"BatchMaskTooSmall", "invalid: mask: has 1 words",
     [](auto& h, auto& r) {
       tenon_matcher* const one = h.matcher.get();
       return tenon_mask_pool_fill_masks(h.pool.get(), &one, 1, r.mask, 1, 1, nullptr, nullptr);
     }},
    {"BatchOfNull", "invalid: matchers[0]: is NULL",
     [](auto& h, auto& r) {
       tenon_matcher* const one = nullptr;
       return tenon_mask_pool_fill_masks(h.pool.get(), &one, 1, r.mask, 1, 1, nullptr, nullptr);
     }},
    {"BatchWithAMatcherTwice", "invalid: matchers[0]: occurs twice, and a text has one row",
     [](auto& h, auto&) {
       tenon_matcher* const two[] = {h.matcher.get(), h.matcher.get()};
       std::vector<std::uint32_t> masks(2'000);
       return tenon_mask_pool_fill_masks(h.pool.get(), two, 2, masks.data(), 2, 1'000, nullptr,
                                         nullptr);
     }},
    {"BatchWithoutTheRow", "invalid: rows: there is no row 2 among 2",
     [](auto& h, auto&) {
       tenon_matcher* const one = h.matcher.get();
       const std::size_t row = 2;
       std::vector<std::uint32_t> masks(2'000);
       return tenon_mask_pool_fill_masks(h.pool.get(), &one, 1, masks.data(), 2, 1'000, &row,
                                         nullptr);
     }},
    {"BatchWithARowTwice", "invalid: rows: row 1 has two matchers",
     [](auto& h, auto&) {
       const auto copy = made(tenon_matcher_copy, h.matcher.get());
       tenon_matcher* const two[] = {h.matcher.get(), copy.get()};
       const std::size_t rows[] = {1, 1};
       std::vector<std::uint32_t> masks(2'000);
       return tenon_mask_pool_fill_masks(h.pool.get(), two, 2, masks.data(), 2, 1'000, rows,
                                         nullptr);
     }},
    {"RollbackBeforeTheStart", "invalid: count: is 1, and only 0 were accepted",
     [](auto& h, auto&) { return tenon_matcher_rollback(h.matcher.get(), 1); }},
    {"NoRoomToTheEnd", "limit_exceeded: the end takes 1 tokens, and there is room for 0",
     [](auto& h, auto& r) {
       return tenon_matcher_tokens_to_end(h.matcher.get(), nullptr, 0, &r.count);
     }},

    {"FormatUnknown", "unsupported: unknown tool_call_format",
     [](auto&, auto& r) { return tenon_format_find(text("no such"), &r.format); }},
    {"DefinitionIsWrong", "invalid: definition:1",
     [](auto&, auto& r) { return tenon_format_compile(text("name ="), &r.format); }},
    {"ResponseTemplateIsWrong",
     "invalid: ", [](auto&, auto& r) { return tenon_format_import(text("[]"), &r.format); }},
    {"ClueUnknown", "invalid: clues: template: is not known here",
     [](auto&, auto& r) {
       return tenon_format_detect(text(R"({"template": ""})"), nullptr, &r.format, nullptr);
     }},
    {"ClueIsNoTemplate", "invalid: chat_template",
     [](auto&, auto& r) {
       return tenon_format_detect(text(R"({"chat_template": "{% if %}"})"), nullptr, &r.format,
                                  nullptr);
     }},
    {"CallsAreNoList", "invalid: calls: must be a list",
     [](auto& h, auto& r) {
       return tenon_format_render_calls(h.format.get(), text("{}"), &r.string);
     }},
    {"CallWithoutName", "invalid: calls[0].function is required",
     [](auto& h, auto& r) {
       return tenon_format_render_calls(h.format.get(), text(R"([{"type": "function"}])"),
                                        &r.string);
     }},
    {"CallWithAMemberThatNoneHas", "invalid: \"name\" is not a field of calls[0]",
     [](auto& h, auto& r) {
       return tenon_format_render_calls(h.format.get(), text(R"([{"name": "a"}])"), &r.string);
     }},
    {"DescribedToolsAreNone", "invalid: tools: must be a list",
     [](auto& h, auto& r) {
       return tenon_format_describe_tools(h.format.get(), text("1"), &r.string);
     }},

    {"TemplateIsWrong", "invalid: mine, line 1",
     [](auto&, auto& r) {
       return tenon_template_compile(text("{% if %}"), text(R"({"name": "mine"})"),
                                     &r.chat_template);
     }},
    {"TemplateOfUnknownFormat", "unsupported: unknown tool_call_format",
     [](auto&, auto& r) {
       return tenon_template_compile(text("a"), text(R"({"format": "no such"})"), &r.chat_template);
     }},
    {"TemplateOptionIsNoFlag", "invalid: superset: must be true or false",
     [](auto&, auto& r) {
       return tenon_template_compile(text("a"), text(R"({"superset": 1})"), &r.chat_template);
     }},
    {"TemplateFileIsMissing", "unavailable: /no/such: No such file or directory",
     [](auto&, auto& r) { return tenon_template_load(text("/no/such"), &r.chat_template); }},
    {"TemplateFails", "invalid: chat template, line 1",
     renders(R"({"messages": [], "other": {"c": 1}})")},
    {"MessagesAreMissing", "invalid: messages: must be a list", renders("{}")},
    {"MessagesAreNoList", "invalid: messages: must be a list", renders(R"({"messages": "a"})")},
    {"TemplateToolsAreNoList", "invalid: tools: must be a list",
     renders(R"({"messages": [], "tools": {}})")},
    {"ControlTokenOfTheRequest", "invalid: bos_token: is the model's",
     renders(R"({"messages": [], "bos_token": "<s>"})")},
    {"NowIsNoTime", "invalid: now: not an ISO 8601 time",
     renders(R"({"messages": [], "now": "noon"})")},
    {"TokenizeWithoutTokenizer", "unsupported: the vocabulary was made of tokens alone",
     [](auto& h, auto& r) {
       return tenon_prompt_tokenize(h.prompt.get(), h.tokens.get(), r.ids, 4, &r.count);
     }},

    {"ParserOptionUnknown", "invalid: options: tool: is not known here",
     parses_with(R"({"tool": 1})")},
    {"ParserToolsAreNone", "invalid: tools", parses_with(R"({"tools": "all"})")},
    {"OnUnknownToolUnknown", "invalid: on_unknown_tool: must be one of",
     parses_with(R"({"on_unknown_tool": "drop"})")},
    {"PrefixIsNoText", "invalid: id_prefix: must be a string", parses_with(R"({"id_prefix": 1})")},
    {"TokenWithoutVocabulary", "invalid: the parser was made without a vocabulary",
     [](auto& h, auto& r) {
       return tenon_parser_feed_token(h.parser.get(), 1, &r.events, &r.count);
     }},
    {"TokenThatIsNone", "invalid: the token -1 is not in the vocabulary",
     [](auto& h, auto& r) {
       const auto parser = made(tenon_parser_new, h.format.get(), bundled_vocab(), text(""));
       return tenon_parser_feed_token(parser.get(), -1, &r.events, &r.count);
     }},
    {"FedBehindTheEnd", "invalid: the output has been finished",
     [](auto& h, auto& r) {
       EXPECT_EQ(told(tenon_parser_finish(h.parser.get(), 0, &r.events, &r.count)), "ok");
       return tenon_parser_feed(h.parser.get(), text("a"), 0, &r.events, &r.count);
     }},

    {"RepairedToolIsNone", "invalid: tool.type is required",
     [](auto&, auto& r) { return tenon_mender_new(text("{}"), text(""), &r.mender); }},
    {"RepairedToolIsNoJson", "invalid: tool: line 1",
     [](auto&, auto& r) { return tenon_mender_new(text(""), text(""), &r.mender); }},
    {"MendingRulesAreWrong", "invalid: rules:1",
     [](auto&, auto& r) { return tenon_mender_new(text(kTool), text("a ="), &r.mender); }},
    {"RepairedBehindTheEnd", "invalid: the arguments have been finished",
     [](auto& h, auto& r) {
       EXPECT_EQ(told(tenon_mender_finish(h.mender.get(), 0, &r.text)), "ok");
       return tenon_mender_feed(h.mender.get(), text("{"), &r.text);
     }},
};

class Refusals : public ::testing::TestWithParam<Row> {};

TEST_P(Refusals, SayWhatIsWrong) {
  const Handles handles;
  Results results;
  EXPECT_THAT(told(GetParam().call(handles, results)), ::testing::StartsWith(GetParam().told));
  EXPECT_EQ(results.vocab, nullptr);
  EXPECT_EQ(results.schema, nullptr);
  EXPECT_EQ(results.grammar, nullptr);
  EXPECT_EQ(results.format, nullptr);
  EXPECT_EQ(results.chat_template, nullptr);
  EXPECT_EQ(results.prompt, nullptr);
  EXPECT_EQ(results.parser, nullptr);
  EXPECT_EQ(results.mender, nullptr);
  EXPECT_EQ(results.string, nullptr);
  EXPECT_EQ(results.events, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Table, Refusals, ::testing::ValuesIn(kRows),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace tenon::capi
