#include "tenon/format/definition.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/format/answers_for_test.h"
#include "tenon/format/builtin_definitions.h"
#include "tenon/format/format.h"
#include "tenon/format/outcome_for_test.h"
#include "tenon/format/registry.h"
#include "tenon/format/render.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

namespace tenon::format {
namespace {

constexpr std::string_view kGood = R"(
name = "act"
aliases = ["act-7b"]
[[syntax]]
call = "<act>\n${object}\n</act>"
object = { name = ["tool"], arguments = ["input"] }
)";

TEST(Definition, Compiles) {
  const auto format = compile(kGood, "act.toml");
  ASSERT_TRUE(format) << format.error().message;
  EXPECT_EQ(info(**format).name, "act");
  EXPECT_EQ(info(**format).aliases, std::vector<std::string>{"act-7b"});
  EXPECT_EQ(markers(**format), (std::vector<std::string>{"<act>", "</act>"}));
  const auto text = render_calls(**format, {{"", "f", R"({"a": 1})"}});
  EXPECT_EQ(text.value_or(""), "<act>\n{\"tool\": \"f\", \"input\": {\"a\": 1}}\n</act>");
}

TEST(Definition, ErrorsNamePlaceAndKey) {
  const std::string many(257, 'm');
  const std::string long_marker = "name = 'a'\n[content]\ndrop = ['" + many + "']";
  const std::string long_literal = "name = 'a'\n[[syntax]]\ncall = '" + many + "${object}'";
  const std::string long_prompt_end = "name = 'a'\nprompt_end = '" + many + "'";
  const std::string long_prefix = "name = 'a'\n[id]\nprefix = '" + many + "'";
  std::string many_markers = "name = 'a'\n[content]\ndrop = [";
  std::string many_syntaxes = "name = 'a'";
  for (int i = 0; i < 65; ++i) {
    many_markers += "'" + std::to_string(i) + "',";
    many_syntaxes += "\n[[syntax]]\ncall = '<a" + std::to_string(i) + ">${object}'";
  }
  many_markers += "]";
  const struct {
    std::string_view name;
    std::string_view toml;
    std::string_view error;
  } rows[] = {
      {"NoToml", "name = ", "x.toml:1:8: "},
      {"NoName", "summary = 'x'", "x.toml:1:1: 'name' must be given"},
      {"UnknownKey", "name = 'a'\nnome = 'b'", "x.toml:2:8: 'nome' is not known here"},
      {"MisspeltName", "nome = 'a'\n[[syntax]]\ncall = '<a>${object}'",
       "x.toml:1:8: 'nome' is not known here"},
      {"MisspeltCall", "name = 'a'\n[[syntax]]\ncal = '<a>${object}'",
       "x.toml:3:7: 'cal' is not known here"},
      {"WrongType", "name = 'a'\naliases = 'b'",
       "x.toml:2:11: 'aliases' must be a list of strings"},
      {"UnknownSlot", "name = 'a'\n[[syntax]]\ncall = '<a>${objekt}'",
       "x.toml:3:8: 'call' has the unknown slot '${objekt}'"},
      {"OpenSlot", "name = 'a'\n[[syntax]]\ncall = '<a>${object'",
       "x.toml:3:8: 'call' has a '${' without its '}'"},
      {"NoCall", "name = 'a'\n[[syntax]]\nopen = '<a>'\nclose = '</a>'",
       "'call' must have either ${object}, or ${name}"},
      {"SyntaxTwice",
       "name = 'a'\n[[syntax]]\ncall = '<a>${object}'\n[[syntax]]\ncall = '<a>${object}'",
       "x.toml:5:8: 'call' is read by a [[syntax]] above"},
      {"TwoBodies", "name = 'a'\n[[syntax]]\ncall = '<a>${name}|${object}'",
       "x.toml:3:8: 'call' must have either"},
      {"FormWithoutBody",
       "name = 'a'\n[[syntax]]\ncall = '<a>${object}'\n[[syntax.form]]\ncall = '<a>${name}'",
       "'call' must have one of ${object}, ${arguments}"},
      {"FormThatIsNotRead",
       "name = 'a'\n[[syntax]]\ncall = '<a>${object}</a>'\n[[syntax.form]]\ncall = "
       "'<b>${object}</b>'",
       "'form' does not fit: a call cannot be read as written"},
      {"FormWithUnknownLayout",
       "name = 'a'\n[[syntax]]\ncall = '<a>${object}'\n[[syntax.form]]\nlayout = 'wide'",
       "'layout' must be \"asked\", \"compact\" or \"any\""},
      {"SlotInOpen",
       "name = 'a'\n[[syntax]]\nopen = '<s>${name}'\nclose = '</s>'\ncall = '<a>${object}'",
       "x.toml:3:8: 'open' cannot have slots"},
      {"OpenWithoutClose", "name = 'a'\n[[syntax]]\nopen = '<s>'\ncall = '<a>${object}'",
       "x.toml:3:8: 'open' begins a section"},
      {"BeginsWithName", "name = 'a'\n[[syntax]]\ncall = '${name}(${arguments})'",
       "x.toml:3:8: 'call' must begin with a literal"},
      {"OpenOfSpace", "name = 'a'\n[[syntax]]\nopen = ' '\nclose = '</s>'\ncall = '<a>${object}'",
       "x.toml:3:8: 'open' must have a literal"},
      {"SpaceBeforeName",
       "name = 'a'\n[[syntax]]\nopen = '<s>'\nseparator = ','\ncall = ' ${name}${keywords}'",
       "x.toml:5:8: 'call' must begin with a literal"},
      {"BeginsWithId",
       "name = 'a'\n[id]\nholds_name = true\n[[syntax]]\nopen = '<s>'\nclose = '</s>'\n"
       "call = '${id}:${arguments}'",
       "x.toml:7:8: 'call' must begin with a literal"},
      {"NothingBetweenNames",
       "name = 'a'\n[[syntax]]\nopen = '<s>'\nseparator = '${-}'\ncall = '${name}${keywords}'",
       "x.toml:4:13: 'separator' must be given"},
      {"SlotBehindArguments", "name = 'a'\n[[syntax]]\ncall = '<a>${name}${arguments}</a ${id}>'",
       "x.toml:3:8: 'call' cannot have slots behind the arguments"},
      {"NameBehindArguments", "name = 'a'\n[[syntax]]\ncall = '<a>${arguments}:${name}</a>'",
       "x.toml:3:8: 'call' cannot have slots behind the arguments"},
      {"QuoteIsABracket",
       "name = 'a'\n[[syntax]]\ncall = '<a>${name}${members}</a>'\nstring_quote = '{q}'",
       "x.toml:4:16: 'string_quote' cannot begin as"},
      {"WordsBetween", "name = 'a'\n[content]\nbetween = '<end> and then'",
       "x.toml:3:11: 'between' must be one marker"},
      {"LongMarker", long_marker, "x.toml:3:9: 'drop' has a marker that is too long"},
      {"LongPromptEnd", long_prompt_end, "x.toml:2:14: 'prompt_end' has a marker that is too long"},
      {"LongIdPrefix", long_prefix, "x.toml:3:10: 'prefix' has a marker that is too long"},
      {"LongLiteral", long_literal, "x.toml:3:8: 'call' has a marker that is too long"},
      {"NothingAfterName", "name = 'a'\n[[syntax]]\ncall = '<a>${id}${name}:${arguments}'",
       "x.toml:3:8: 'call' must have a literal after"},
      {"NoParameter", "name = 'a'\n[[syntax]]\ncall = '<a>${name}:${parameters}</a>'",
       "'parameter' must be given"},
      {"ParameterWithoutValue",
       "name = 'a'\n[[syntax]]\ncall = '<a>${name}:${parameters}</a>'\nparameter = '<p>${key}</p>'",
       "x.toml:4:13: 'parameter' must have ${key} and ${value}"},
      {"MembersWithoutQuote", "name = 'a'\n[[syntax]]\ncall = '<a>${name}${members}</a>'",
       "'string_quote' and ${members} in 'call' must be given together"},
      {"KeyTwiceBeforeValue",
       "name = 'a'\n[[syntax]]\ncall = '<a>${name}:${parameters}</a>'\n"
       "parameter = '<p>${key}=${key}>${value}</p>'",
       "x.toml:4:13: 'parameter' must have one ${key} before ${value}"},
      {"ReasoningWithoutClose", "name = 'a'\n[reasoning]\nopen = ['<t>']", "'close' must be given"},
      {"BadHold", "name = 'a'\n[[syntax]]\ncall = '<a>${object}'\nhold = 'all'",
       "x.toml:4:8: 'hold' must be"},
      {"BadNumber", "name = 'a'\n[id]\nlength = 0",
       "x.toml:3:10: 'length' must be an integer from 1 to 64"},
      {"ResultWithoutPattern", "name = 'a'\n[result]\nrole = 'tool'",
       "x.toml:2:1: 'result' must have ${content} or ${json} once"},
      {"ResultTwice", "name = 'a'\n[result]\nresult = '${content}${json}'",
       "x.toml:3:10: 'result' must have"},
      {"ResultWithArguments", "name = 'a'\n[result]\nresult = '${content}${arguments}'",
       "x.toml:3:10: 'result' must have"},
      {"ErrorWithoutContent", "name = 'a'\n[result]\nresult = '${content}'\nerror = 'failed'",
       "x.toml:4:9: 'error' must have"},
      {"SlotBeforeResults", "name = 'a'\n[result]\nopen = '${name}'\nresult = '${content}'",
       "x.toml:3:8: 'open' cannot have slots"},
      {"ResultOfNobody", "name = 'a'\n[result]\nrole = ''\nresult = '${content}'",
       "x.toml:3:8: 'role' must not be empty"},
      {"ContentInCall", "name = 'a'\n[[syntax]]\ncall = '<a>${name}${content}${arguments}'",
       "x.toml:3:8: 'call' cannot have slots of [result]"},
      {"EmptyName", "name = ''",
       "x.toml:1:8: 'name' must be small letters, digits, '_', '-' and '.'"},
      {"NameWithSpace", "name = 'my format'", "x.toml:1:8: 'name' must be small letters"},
      {"NameInCapitals", "name = 'Act'", "x.toml:1:8: 'name' must be small letters"},
      {"AliasWithSpace", "name = 'a'\naliases = ['b', 'c d']",
       "x.toml:2:17: 'aliases' must be small letters"},
      {"SpecialNowhere", "name = 'a'\nspecial = ['<a>', '<b>']\n[[syntax]]\ncall = '<a>${object}'",
       "x.toml:2:19: 'special' names '<b>', which stands nowhere else here"},
      {"ManyMarkers", many_markers, "x.toml:3:"},
      {"ManySyntaxes", many_syntaxes, "'syntax' has more than 64 of them"},
      {"StopInsideCall",
       "name = 'a'\nstop = ['<s>', '</c>']\n[[syntax]]\nopen = '<x>'\ncall = '<c>${object}</c>'\n"
       "close = '</x>'",
       "x.toml:2:16: 'stop' names '</c>', behind which answers of this format go on"},
      {"StopOfASeparator",
       "name = 'a'\nstop = [';']\n[[syntax]]\ncall = '<c>${object}</c>'\nseparator = ';'",
       "x.toml:2:9: 'stop' names ';', behind which answers of this format go on"},
      {"StopIsNoList", "name = 'a'\nstop = '<s>'", "x.toml:2:8: 'stop' must be a list of strings"},
      {"MarkerInsideMarker", "name = 'a'\n[content]\ndrop = ['<call', 'x<call>']\n",
       "x.toml:3:18: the marker '<call' lies inside 'x<call>'"},
      {"KnownKeysAreNamed", "name = 'a'\nsumary = 'b'",
       "x.toml:2:10: 'sumary' is not known here; there are name, aliases, summary, "},
      {"ShortMarkerInsideAMarker",
       "name = 'a'\n[[syntax]]\ncall = '<c>${object}<end>'\n[content]\ndrop = ['e']",
       "x.toml:3:8: 'call' does not fit: a call cannot be read as written: "},
      {"SecondSyntaxThatTheFirstReads",
       "name = 'a'\n[[syntax]]\ncall = '<c>${object}</c>'\n[[syntax]]\n"
       "call = '<c>${object}<end></c>'",
       "x.toml:5:8: 'call' does not fit: a call cannot be read as written: "},
      {"OneKeyForNameAndArguments",
       "name = 'a'\n[[syntax]]\ncall = '<c>${object}'\nobject = {name = ['f'], arguments = ['f']}",
       "x.toml:4:37: 'arguments' cannot have a key of both the name and the arguments"},
      {"NameAsTheArgumentsByDefault",
       "name = 'a'\n[[syntax]]\ncall = '<c>${object}'\nobject = {name = ['arguments']}",
       "x.toml:4:18: 'name' cannot have a key of both"},
      {"OneKeyForIdAndName",
       "name = 'a'\n[[syntax]]\ncall = '<c>${object}'\nobject = {id = ['name']}",
       "x.toml:4:16: 'id' cannot have a key of the name or the arguments"},
      {"TypeWithoutOthers",
       "name = 'a'\n[[syntax]]\ncall = '<c>${name}|${parameters}</c>'\n"
       "parameter = '<${key} ${type:str}>${value}</>'",
       "x.toml:4:13: 'parameter' must say ${type:word for text|word for others}"},
      {"CloseWithoutOpen", "name = 'a'\n[[syntax]]\ncall = '<c>${object}</c>'\nclose = '</s>'",
       "x.toml:4:9: 'close' ends a section that no 'open' begins"},
      {"ShortMarkerCannotEndReasoning",
       "name = 'a'\n[reasoning]\nopen = ['<r>']\nclose = ['</r>']\nends_with_call = true\n"
       "[[syntax]]\ncall = '<k>${object}</k>'",
       "x.toml:5:18: 'ends_with_call' needs calls that begin with a marker of 4 bytes or more"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const auto format = compile(row.toml, "x.toml");
    ASSERT_FALSE(format);
    EXPECT_EQ(format.error().code, Errc::invalid);
    EXPECT_NE(format.error().message.find(row.error), std::string::npos) << format.error().message;
  }
}

TEST(Definition, HasAtMost64Markers) {
  std::string definition = "name = 'a'\n[[syntax]]\ncall = '<a>${object}";
  for (int i = 0; i < 100'000; ++i) definition += " " + std::to_string(i);
  const auto format = compile(definition + "'", "x");
  ASSERT_FALSE(format);
  EXPECT_EQ(format.error().code, Errc::limit_exceeded);
  EXPECT_EQ(format.error().message, "x:1:1: there are more than 64 different markers");
}

// An empty one would stand everywhere.
TEST(Definition, HasNoEmptyMarkers) {
  const auto format = compile("name = 'a'\n[[syntax]]\ncall = \"\\n${-}<a>${object}</a>\"", "x");
  ASSERT_TRUE(format) << format.error().message;
  EXPECT_EQ(markers(**format), (std::vector<std::string>{"<a>", "\n<a>", "</a>"}));
}

TEST(Registry, HoldsEveryEmbeddedDefinition) {
  EXPECT_EQ(all().size(), builtin_definitions().size());
  for (const auto& file : builtin_definitions()) {
    const auto format = compile(file.bytes, file.name);
    ASSERT_TRUE(format) << format.error().message;
    EXPECT_EQ(info(**format).name + ".toml", file.name);
    EXPECT_NE(find(info(**format).name), nullptr);
    for (const std::string& alias : info(**format).aliases) {
      ASSERT_NE(find(alias), nullptr) << alias;
      EXPECT_EQ(info(*find(alias)).name, info(**format).name) << alias << " has two meanings";
    }
  }
}

TEST(Registry, TakesNewOnesAndPrefersNamesToAliases) {
  EXPECT_EQ(find("no such format"), nullptr);
  const auto format = compile("name = 'test_only'\naliases = ['test_alias']", "t");
  ASSERT_TRUE(format);
  EXPECT_TRUE(register_format(*format));
  EXPECT_EQ(find("test_only"), *format);
  EXPECT_EQ(find("test_alias"), *format);
  const auto again = compile("name = 'test_only'", "t");
  EXPECT_TRUE(register_format(*again));
  EXPECT_EQ(find("test_only"), *again);
  EXPECT_EQ(find("test_alias"), nullptr);

  const auto wins = compile("name = 'test_alias'", "t");  // were it an alias still
  EXPECT_TRUE(register_format(*format));
  EXPECT_TRUE(register_format(*wins));
  EXPECT_EQ(find("test_alias"), *wins);
}

TEST(Registry, HasOneFallback) {
  const auto format = compile("name = 'test_fallback'\nfallback = true", "t");
  const Status registered = register_format(*format);
  ASSERT_FALSE(registered);
  EXPECT_EQ(registered.error().message, "t:2:12: 'fallback' is set, and '" +
                                            info(*fallback()).name +
                                            "' is the fallback: there can be one");
  EXPECT_EQ(find("test_fallback"), nullptr);
}

TEST(Registry, RefusesAliasesThatAreTaken) {
  for (const std::string alias : {"hermes", "qwen3"}) {
    const auto format = compile("name = 'test_taken'\naliases = ['" + alias + "']", "t");
    const Status registered = register_format(*format);
    ASSERT_FALSE(registered);
    EXPECT_EQ(registered.error().code, Errc::invalid);
    EXPECT_EQ(registered.error().message, "t:2:11: the alias '" + alias + "' belongs to 'hermes'");
    EXPECT_EQ(find("test_taken"), nullptr);
  }
}

// parse(render(calls)) == calls, in every format.
TEST(Registry, NamesThoseThatAreMostLikeAnUnknownName) {
  const struct {
    std::string_view name;
    std::string_view near;
  } rows[] = {
      {"hermse", "; near it: hermes"},
      {"Hermes", "; near it: hermes"},
      {"GLM-4.5", "; near it: glm45, glm4"},
      {"mistral_v1", "; near it: mistral_v11, mistral_v3, mistral_small32"},
      {"llama", "; near it: llama3_json, llama4_json, llama4_pythonic"},
      {"qwen-25", "; near it: hermes, qwen3_coder"},  // aliases of them
      {"klingon", ""},
      {"x", ""},
      {"", ""},
  };
  for (const auto& row : rows) {
    const auto format = named(row.name);
    ASSERT_FALSE(format) << row.name;
    EXPECT_EQ(format.error().message, "unknown tool_call_format: " + std::string(row.name) +
                                          std::string(row.near) +
                                          "; `tenon formats` lists those that there are");
  }
  EXPECT_FALSE(named(std::string(1 << 20, 'h')));
}

TEST(RenderCalls, IsReadBack) {
  const std::vector<message::ToolCall> calls = {
      {"", "get_weather",
       R"({"city": "São \"Paulo\"\n<x>", "days": 3, "tags": ["a", {"b": null}],
           "map": {"": 1, "a>": true, "</b": [2]}})"},
      {"", "math.add-1", R"({})"},
      {"", "get_weather", R"({"city": "</tool_call>", "days": -1.5e3})"}};
  const auto schema =
      json::parse(R"({"type": "object", "properties": {"city": {"type": "string"}}})");
  for (const auto& format : all()) {
    if (format->syntaxes.empty()) continue;
    SCOPED_TRACE(info(*format).name);
    const std::size_t count = info(*format).parallel ? calls.size() : 1;
    const std::vector<message::ToolCall> some(calls.begin(),
                                              calls.begin() + static_cast<std::ptrdiff_t>(count));
    const auto text = render_calls(*format, some);
    ASSERT_TRUE(text) << text.error().message;
    StreamParser parser(format, {.tools = {"get_weather", "math.add-1"}, .schemas = {*schema, {}}});
    std::vector<message::ChatEvent> events;
    parser.feed(*text, false, events);
    parser.finish(false, events);
    message::Fold fold;
    for (const auto& event : events) fold.add(event);
    EXPECT_EQ(fold.message().text(), "") << *text;
    ASSERT_EQ(fold.message().tool_calls.size(), some.size()) << *text;
    for (std::size_t i = 0; i < some.size(); ++i) {
      EXPECT_EQ(fold.message().tool_calls[i].name, some[i].name);
      const auto got = json::parse(fold.message().tool_calls[i].arguments);
      ASSERT_TRUE(got) << fold.message().tool_calls[i].arguments;
      EXPECT_EQ(*got, *json::parse(some[i].arguments)) << *text;
      EXPECT_FALSE(fold.message().tool_calls[i].id.empty());
    }
  }
}

// Text that would be read as JSON is quoted where the tools do not say that the parameter is text
// alone, and only there; without tools nothing is known.
TEST(RenderCalls, QuotesTextThatReadsAsJsonWhereNothingSaysThatItIsText) {
  const std::vector<message::Tool> tools{
      {.name = "f", .parameters = *json::parse(R"({"properties": {"s": {"type": "string"},
         "n": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "i": {"type": ["string", "integer"]}}})")}};
  struct Row {
    std::string_view arguments;
    std::string_view written;
    bool knows_tools = true;
  };
  const Row rows[] = {
      {R"({"x": "12"})", R"(<parameter name="x">"12"</parameter>)"},
      {R"({"x": " null"})", R"(<parameter name="x">" null"</parameter>)"},
      {R"({"x": "\"12\""})", R"(<parameter name="x">"\"12\""</parameter>)"},
      {R"({"x": "12 a"})", R"(<parameter name="x">12 a</parameter>)"},
      {R"({"s": "12"})", R"(<parameter name="s">12</parameter>)"},
      {R"({"x": 12})", R"(<parameter name="x">12</parameter>)"},
      {R"({"n": "null"})", R"(<parameter name="n">"null"</parameter>)"},
      {R"({"n": null})", R"(<parameter name="n">null</parameter>)"},
      {R"({"n": "words"})", R"(<parameter name="n">words</parameter>)"},
      {R"({"i": "12"})", R"(<parameter name="i">"12"</parameter>)"},
      {R"({"i": "\"x\""})", R"(<parameter name="i">"\"x\""</parameter>)"},
      {R"({"x": "12"})", R"(<parameter name="x">12</parameter>)", false},
  };
  for (const Row& row : rows) {
    HistoryOptions options;
    if (row.knows_tools) options.tools = tools;
    const auto text =
        render_calls(*find("anthropic_xml"), {{"", "f", std::string(row.arguments)}}, options);
    ASSERT_TRUE(text);
    EXPECT_NE(text->find(row.written), std::string::npos) << *text;
  }
}

// Whatever the types beside text, and in every format.
TEST(RenderCalls, TextsAmongOtherTypesComeBack) {
  const std::vector<message::Tool> tools{
      {.name = "f", .parameters = *json::parse(R"({"properties": {
         "n": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "i": {"type": ["string", "integer"]},
         "b": {"type": ["boolean", "string"], "maxLength": 6}, "a": {"type": ["string", "array"]},
         "e": {"enum": ["12", 12, "null", "\"q\"", null]}}})")}};
  const ParseOptions options{.tools = {"f"}, .schemas = {tools[0].parameters}};
  for (const auto& format : all()) {
    if (format->syntaxes.empty()) continue;
    const Answers answers(*format, {.mode = message::ToolMode::required}, false, true, tools);
    for (const char* const arguments :
         {R"({"n": "null"})", R"({"n": null})", R"({"i": "12"})", R"({"i": 12})",
          R"({"i": "\"x\""})", R"({"b": "true"})", R"({"b": true})", R"({"b": "words"})",
          R"({"a": "[1]"})", R"({"a": [1]})", R"({"e": "12"})", R"({"e": 12})", R"({"e": "null"})",
          R"({"e": null})", R"({"e": "\"q\""})"}) {
      const auto text = render_calls(*format, {{"call00001", "f", arguments}}, {.tools = tools});
      ASSERT_TRUE(text);
      const Outcome outcome = parse(format, *text, options);
      ASSERT_EQ(outcome.calls.size(), 1U) << format->info.name << ": " << *text;
      EXPECT_EQ(json::parse(outcome.calls[0].second), json::parse(arguments))
          << format->info.name << ": " << *text;
      EXPECT_TRUE(answers.hold(*text)) << format->info.name << ": " << *text;
    }
  }
}

TEST(RenderCalls, RefusesArgumentsThatAreNoObject) {
  for (const std::string_view arguments : {"", "[1]", "{"}) {
    const auto text = render_calls(*find("hermes"), {{"", "f", std::string(arguments)}});
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, Errc::invalid);
  }
}

TEST(RenderCalls, QuotesItsOwnMarkersAndNothingElse) {
  const struct {
    std::string_view format;
    std::string_view text;
  } rows[] = {
      {"hermes",
       "(<tool_call>)\n{\"name\": \"f\", \"arguments\": {\"a\": \"<tool_call>\"}}\n(</tool_call>)"},
      {"generic_xml",
       "(<tool_call>)\n(<name>)f(</name>)\n(<arguments>){\"a\": \"<tool_call>\"}(</arguments>)\n"
       "(</tool_call>)"},
      {"qwen3_coder",
       "(<tool_call>)\n(<function=)f(>)\n(<parameter=)a(>)\n<tool_call>\n(</parameter>)\n"
       "(</function>)\n(</tool_call>)"},
  };
  for (const auto& row : rows) {
    const auto text = render_calls(*find(row.format), {{"", "f", R"({"a": "<tool_call>"})"}},
                                   {.own_begin = "(", .own_end = ")"});
    EXPECT_EQ(text.value_or(""), row.text);
  }
}

TEST(RenderCalls, CountsTheCallsOfTheConversation) {
  const auto text = render_calls(*find("kimi_k2"), {{"", "f", "{}"}}, {.calls_before = 3});
  EXPECT_NE(text.value_or("").find("functions.f:3"), std::string::npos) << text.value_or("");
}

TEST(RenderResults, AsTheFormatSays) {
  constexpr std::string_view kPlain = "name = 'a'\n[result]\nresult = '<r>${content}</r>'\n";
  const std::vector<ToolResult> one = {{"c1", "f", "sunny <r>"}};
  const std::vector<ToolResult> two = {{"c1", "f", "7"}, {"c2", "g", "a \"b\"", true}};
  const struct {
    std::string_view name;
    std::string toml;
    std::vector<ToolResult> results;
    std::vector<std::string> turns;
  } rows[] = {
      {"None", "name = 'a'", one, {}},
      {"NoResults", std::string(kPlain), {}, {}},
      {"ContentAsItStands", std::string(kPlain), one, {"(<r>)sunny <r>(</r>)"}},
      {"OneTurn",
       std::string(kPlain) + "separator = ','\nopen = '['\nclose = ']'",
       two,
       {"([)(<r>)7(</r>)(,)(<r>)a \"b\"(</r>)(])"}},
      {"TurnsOfTheirOwn",
       std::string(kPlain) + "open = '['\nclose = ']'\nmerge = false",
       two,
       {"([)(<r>)7(</r>)(])", "([)(<r>)a \"b\"(</r>)(])"}},
      {"JsonStaysJson",
       "name = 'a'\n[result]\nresult = '${id}:${json}'\nseparator = ' '",
       two,
       {"c1(:)7 c2(:)\"a \\\"b\\\"\""}},
      {"Failures",
       "name = 'a'\n[result]\nresult = '${content}'\nerror = '${name}! ${content}'",
       two,
       {"7g(!) a \"b\""}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const auto format = compile(row.toml, "x");
    ASSERT_TRUE(format) << format.error().message;
    EXPECT_EQ(result_role(**format) != nullptr, row.name != "None");
    EXPECT_EQ(render_results(**format, row.results, {.own_begin = "(", .own_end = ")"}), row.turns);
  }
}

TEST(RenderResults, OfEveryFormatHoldWhatTheToolsSaid) {
  for (const auto& format : all()) {
    if (result_role(*format) == nullptr) continue;
    SCOPED_TRACE(info(*format).name);
    std::string text;
    for (const std::string& turn :
         render_results(*format, {{"c1", "f", "sunny"}, {"c2", "g", R"({"wet": 1})", true}})) {
      text += turn;
    }
    EXPECT_NE(text.find("sunny"), std::string::npos) << text;
    EXPECT_NE(text.find(R"({"wet": 1})"), std::string::npos) << text;
  }
}

// The words are those of RuvLLM's ADR-010 (docs/requirements.md, 003).
TEST(DescribeTools, TeachesByExample) {
  ASSERT_NE(fallback(), nullptr);
  EXPECT_EQ(describe_tools(*fallback(), {{.name = "now"},
                                         {.name = "get_weather",
                                          .description = "Get current weather",
                                          .parameters = *json::parse(R"({"type":"object"})")}}),
            "You have access to the following tools. To use a tool, respond with:\n"
            "<tool_call>\n"
            "<name>function_name</name>\n"
            "<arguments>{\"arg1\": \"value1\"}</arguments>\n"
            "</tool_call>\n"
            "\n"
            "Available tools:\n"
            "- now\n"
            "- get_weather: Get current weather\n"
            "  Parameters: {\"type\": \"object\"}");
  for (const auto& format : all()) {
    if (format->syntaxes.empty()) continue;
    const std::string text = describe_tools(*format, {});
    EXPECT_NE(text.find("function_name"), std::string::npos) << text;
    EXPECT_EQ(text, describe_tools(*format, {})) << "no two prompts differ by chance";
  }
}

}  // namespace
}  // namespace tenon::format
