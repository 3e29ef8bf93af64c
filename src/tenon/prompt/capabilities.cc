#include "tenon/prompt/capabilities.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/prompt/schema_shape.h"

// Finds out what a template can express. Each question is one small conversation whose texts are
// words that no template contains (kUser, kTool, ...): the template is rendered under tight limits,
// and the answer is whether all of these words came out (shows). A template that fails to render
// cannot express the conversation.
//
// The questions build on each other, so the order in probe() matters. First comes the form of
// content (contents), because every later message is written in that form, and last the parts that
// need calls and results to work. Members of `found_` that were set already decide how the next
// conversation is written: see content(), calling() and arguments().
//
// For JSON Schemas one tool has a probe word in every part of a schema at once. If the template
// fails, the set of parts is halved until the part that it fails at is found (schemas).
namespace tenon::prompt {
namespace {

// Words that no template contains, and ids that every template accepts.
constexpr std::string_view kUser = "probeuser";
constexpr std::string_view kSecond = "probesecond";
constexpr std::string_view kAnswer = "probeanswer";
constexpr std::string_view kSystem = "probesystem";
constexpr std::string_view kTool = "probetool";
constexpr std::string_view kKey = "probekey";
constexpr std::string_view kValue = "probevalue";
constexpr std::string_view kOther = "probeother";
constexpr std::string_view kResult = "proberesult";
constexpr std::string_view kLast = "probelast";
constexpr std::string_view kReasoning = "probereasoning";
constexpr std::string_view kPart = "probepart";
constexpr std::string_view kId = "probeid01";
constexpr std::string_view kSecondId = "probeid02";

json::Value parts(std::string_view text) {
  return json::Array{json::Object{{"type", "text"}, {"text", text}}};
}

// Some templates write only the first part of a list.
json::Value two_parts(std::string_view text) {
  json::Value list = parts(text);
  list.if_array()->push_back(json::Object{{"type", "text"}, {"text", kPart}});
  return list;
}

json::Object message(std::string_view role, json::Value content) {
  return {{"role", role}, {"content", std::move(content)}};
}

json::Value call(std::string_view id, std::string_view name, json::Value arguments) {
  return json::Object{
      {"id", id},
      {"type", "function"},
      {"function", json::Object{{"name", name}, {"arguments", std::move(arguments)}}}};
}

json::Value arguments_object(std::string_view value) {
  return json::Object{{std::string(kKey), value}};
}

json::Value tool(json::Object property) {
  json::Object parameters{
      {"type", "object"},
      {"properties", json::Object{{std::string(kKey), std::move(property)}}},
      {"required", json::Array{kKey}},
  };
  return json::Object{{"type", "function"},
                      {"function", json::Object{{"name", kTool},
                                                {"description", "probes"},
                                                {"parameters", std::move(parameters)}}}};
}

json::Value plain_tool() {
  return tool({{"type", "string"}, {"description", "what"}});
}

std::size_t count_of(std::string_view word, std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

class Prober {
 public:
  Prober(const jinja::Template& chat_template, const std::string& bos, const std::string& eos)
      : template_(chat_template), bos_(bos), eos_(eos) {}

  Capabilities probe();
  bool writes_role(std::string_view role) const {
    return shows(render({user(), assistant(), message(role, content(kResult))}), {kResult});
  }

 private:
  using Messages = json::Array;

  void contents();
  void roles();
  void developers();
  void tools();
  void schemas(std::span<const SchemaProbe> probes);
  void calls();
  void results(const json::Array& answered);
  void answers_to_results(const json::Array& answered);
  void ids();
  void alternation();
  void without_user();
  void reasoning();

  // The text; empty if the template fails.
  std::optional<std::string> render(Messages messages, json::Value tools = nullptr,
                                    json::Object more = {}) const;
  // True if there is a text and it contains all of `wanted`.
  bool shows(const std::optional<std::string>& output,
             std::initializer_list<std::string_view> wanted) const;

  json::Value content(std::string_view text) const {
    return found_.string_content ? json::Value(text) : parts(text);
  }
  json::Object user(std::string_view text = kUser) const { return message("user", content(text)); }
  json::Object assistant() const { return message("assistant", content(kAnswer)); }
  json::Object calling(json::Array calls) const {
    json::Object result =
        message("assistant", found_.null_beside_calls ? json::Value() : content(""));
    result.set("tool_calls", std::move(calls));
    return result;
  }
  json::Object result(std::string_view id, std::string_view text) const {
    json::Object result = message("tool", content(text));
    result.set("tool_call_id", id);
    result.set("name", kTool);
    return result;
  }
  // In the form that the template needs, once `found_.arguments` is known.
  json::Value arguments() const {
    json::Value object = arguments_object(kValue);
    return found_.arguments == Arguments::text ? json::to_string(object) : object;
  }
  json::Value offered() const { return json::Array{plain_tool()}; }
  // Whether a list of types is written, and not as Python prints lists in a declaration that the
  // template otherwise writes part by part.
  bool writes_type_lists() const {
    // In lower case, since some templates write types in capitals.
    const auto declared = [&](json::Value type) {
      json::Object property{{"type", std::move(type)}, {"description", "what"}};
      auto output = render({user()}, json::Array{tool(std::move(property))}).value_or("");
      std::ranges::transform(output, output.begin(),
                             [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
      return output;
    };
    const std::string two = declared(json::Array{"boolean", "number"});
    // The same tool with one type, for comparison: a word such as "number" may stand there anyway.
    const std::string one = declared("string");
    if (two.empty()) return false;
    if (one.find(kTool) == std::string::npos) return true;  // it declares nothing
    const bool is_printed = two.find("['boolean', 'number']") != std::string::npos &&
                            two.find("'type': ['boolean'") == std::string::npos;
    return !is_printed && count_of("bool", two) > count_of("bool", one) &&
           count_of("num", two) > count_of("num", one);
  }
  bool takes(json::Object property) const {
    return shows(render({user()}, json::Array{tool(std::move(property))}), {kTool});
  }

  const jinja::Template& template_;
  const std::string& bos_;
  const std::string& eos_;
  Capabilities found_;
};

// Templates are programs of others, so a probe has limits of its own, far below those of a request:
// many probes are rendered for each model.
std::optional<std::string> Prober::render(Messages messages, json::Value tools,
                                          json::Object more) const {
  json::Object context = std::move(more);
  context.set("messages", std::move(messages));
  context.set("tools", std::move(tools));
  context.set("documents", nullptr);
  context.set("add_generation_prompt", true);
  context.set("bos_token", bos_);
  context.set("eos_token", eos_);
  jinja::RenderOptions limits;
  limits.max_steps = 100'000;
  limits.max_output_bytes = std::size_t{1} << 20;
  limits.max_allocated_bytes = std::size_t{4} << 20;
  // A fixed time, so that two outputs differ only by what was asked.
  limits.now_unix_s = 1;
  Expected<jinja::Rendered> rendered = template_.render(context, limits);
  if (!rendered) return std::nullopt;
  return std::move(rendered->text);
}

bool Prober::shows(const std::optional<std::string>& output,
                   std::initializer_list<std::string_view> wanted) const {
  if (!output) return false;
  for (const std::string_view word : wanted) {
    if (output->find(word) == std::string::npos) return false;
  }
  return true;
}

// The template has printed a list of parts as Python does, so it does not know such lists.
bool is_dumped(const std::string& output) {
  return output.find("'text'") != std::string::npos || output.find("\"text\"") != std::string::npos;
}

void Prober::contents() {
  const auto list = render({message("user", parts(kUser))});
  const bool takes_list = shows(list, {kUser}) && !is_dumped(*list);
  // A template that takes no lists is taken to read text.
  found_.string_content = !takes_list || shows(render({message("user", kUser)}), {kUser});
  if (!takes_list) return;
  const auto all =
      render({message("system", two_parts(kSystem)), message("user", two_parts(kUser)),
              message("assistant", two_parts(kAnswer)), message("user", two_parts(kSecond))});
  if (!shows(all, {kUser, kAnswer, kSecond}) || is_dumped(*all)) return;
  // The second part must come out as often as the first parts do.
  const std::size_t messages = shows(all, {kSystem}) ? 4 : 3;
  found_.list_content = count_of(kPart, *all) >= messages;
}

// What happens to system messages and to the order of roles. A message counts as taken only if its
// text is in the output: many templates drop silently what they do not know.
void Prober::roles() {
  const json::Object system = message("system", content(kSystem));
  const json::Object second = message("system", content(kLast));
  found_.system = shows(render({system, user()}), {kSystem, kUser});
  found_.several_systems = shows(render({system, second, user()}), {kSystem, kLast, kUser});
  found_.middle_system =
      shows(render({user(), assistant(), second, user(kSecond)}), {kLast, kSecond}) &&
      (!found_.system || shows(render({system, user(), assistant(), second, user(kSecond)}),
                               {kSystem, kLast, kSecond}));
  // If the same conversation with text fails too, emptiness is not the reason.
  found_.empty_answers =
      shows(render({user(), message("assistant", content("")), user(kSecond)}), {kSecond}) ||
      !shows(render({user(), assistant(), user(kSecond)}), {kSecond});
  // Only a template that takes alternating roles can refuse others.
  if (render({user(), assistant(), user(kSecond)})) {
    found_.alternation = !render({user(), user(kSecond)});
    found_.assistant_first = render({assistant(), user()}).has_value();
  }
}

// A template that prints any role prints `developer` without knowing it; so the same is rendered
// with a role that cannot be known, and must differ.
void Prober::developers() {
  const json::Object said = message("developer", content(kSystem));
  const auto developer = render({said, user()});
  if (!shows(developer, {kSystem, kUser})) return;
  const json::Object system = message("system", content(kLast));
  // It must also work beside a system message.
  if (found_.system && !shows(render({system, said, user()}), {kSystem, kLast, kUser})) return;
  // A template that writes any word that stands in `role` does not know this role.
  constexpr std::string_view kRole = "developer";
  constexpr std::string_view kUnknown = "proberole";
  std::string replaced = *developer;
  for (std::size_t at = 0; (at = replaced.find(kRole, at)) != std::string::npos;) {
    replaced.replace(at, kRole.size(), kUnknown);
  }
  // Differs: the template does something with this role that it does not do with any word.
  found_.developer = render({message(kUnknown, content(kSystem)), user()}) != replaced;
}

// Which schemas the template can print. Some fail for a property without a description, for a list
// of types, or for an object within an object; the forms of a nested schema are tried until its
// inner name is printed.
void Prober::tools() {
  // null is the default; an empty list is used only if it works where null fails.
  found_.null_tools = render({user()}) || !render({user()}, json::Array{});
  found_.tools = shows(render({user()}, offered()), {kTool});
  if (!found_.tools) return;
  const json::Value bare =
      json::Array{json::Object{{"type", "function"}, {"function", json::Object{{"name", kTool}}}}};
  found_.bare_tools = shows(render({user()}, bare), {kTool});
  found_.bare_properties = takes({{"type", "string"}});
  // "Takes" is not enough: a template may print a list as Python does, or only its first type.
  found_.type_lists = takes({{"type", json::Array{"string", "null"}}, {"description", "what"}}) &&
                      writes_type_lists();
  found_.untyped = takes({{"description", "what"}});
  const json::Object nested{
      {"type", "object"},
      {"description", "what"},
      {"properties", json::Object{{std::string(kLast), json::Object{{"type", "string"}}}}}};
  for (const SchemaForm form : {SchemaForm::whole, SchemaForm::described_object,
                                SchemaForm::described_untyped, SchemaForm::described_text}) {
    found_.nested = form;
    json::Object property = nested;
    describe(property, form);
    if (shows(render({user()}, json::Array{tool(std::move(property))}), {kTool, kLast})) return;
  }
  found_.nested = SchemaForm::whole;  // nothing helps
}

// Renders a tool with all of `probes`. If the template fails, each half is tried by itself.
void Prober::schemas(std::span<const SchemaProbe> probes) {
  if (!found_.tools || probes.empty()) return;
  json::Value offer = plain_tool();
  offer.find("function")->if_object()->set("parameters", probed_parameters(probes));
  const auto output = render({user()}, json::Array{std::move(offer)});
  // Each failing part costs about twice the logarithm of the number of probes in renderings.
  if (!output && probes.size() > 1) {
    schemas(probes.first(probes.size() / 2));
    schemas(probes.subspan(probes.size() / 2));
    return;
  }
  for (const SchemaProbe& probe : probes) {
    if (shows(output, {probe.word})) continue;
    const auto place = static_cast<std::size_t>(probe.place);
    if (probe.is_name) {
      found_.losses.names[place] |= probe.bit;
    } else {
      found_.losses.parts[place] |= probe.bit;
      if (!output) found_.losses.failing[place] |= probe.bit;
    }
  }
}

std::string without_spaces(std::string_view text) {
  std::string kept;
  for (const char c : text) {
    if (std::string_view(" \t\r\n").find(c) == std::string_view::npos) kept += c;
  }
  return kept;
}

// The characters that jinja2 escapes beside Markup.
bool has_escapes(std::string_view text) {
  return text.find("&#34;") != std::string_view::npos ||
         text.find("&#39;") != std::string_view::npos ||
         text.find("&lt;") != std::string_view::npos;
}

// Whether arguments are wanted as an object or as text. Templates that take both print one of them
// wrongly now and then (twice encoded, or as Python prints a dict), so the outputs are compared.
void Prober::calls() {
  const auto turn = [&](const json::Value& arguments) {
    Messages messages{user(), calling({call(kId, kTool, arguments)}), result(kId, kResult)};
    auto output = render(messages, offered());
    if (output) return output;
    messages.pop_back();  // the template may know calls, but no results
    return render(std::move(messages), offered());
  };
  const std::string text = R"({"probekey": "probevalue"})";
  bool as_object = false;
  bool as_text = false;
  for (const bool null : {false, true}) {
    found_.null_beside_calls = null;
    const auto of_object = turn(arguments_object(kValue));
    const auto of_text = turn(text);
    as_object = shows(of_object, {kValue});
    as_text = shows(of_text, {text});
    // The template marks the object as Markup, and so jinja2 escapes the text around it.
    if (as_object && as_text && has_escapes(*of_object) && !has_escapes(*of_text)) {
      as_object = false;
    }
    // Both come out, but not alike: one of the two is written wrongly.
    if (as_object && as_text && without_spaces(*of_object) != without_spaces(*of_text)) {
      // Either text stands inside braces that the template writes, and then the template needs an
      // object; or an object is printed as Python prints it, and then the template needs text.
      as_text = of_object->find("{'" + std::string(kKey)) != std::string::npos;
      as_object = !as_text;
    }
    found_.calls = as_object || as_text;
    if (found_.calls) break;
  }
  found_.null_beside_calls = found_.null_beside_calls && found_.calls;
  if (as_object && as_text) {
    found_.arguments = Arguments::either;
  } else if (found_.calls) {
    found_.arguments = as_object ? Arguments::object : Arguments::text;
  }
  const auto arguments = [&](std::string_view value) -> json::Value {
    if (as_object) return arguments_object(value);
    return json::to_string(arguments_object(value));
  };
  const Messages one{user(), calling({call(kId, kTool, arguments(kValue))}), result(kId, kResult)};
  results(one);
  if (found_.calls) {
    Messages spoken = one;
    spoken[1].if_object()->set("content", content(kAnswer));
    if (!found_.tool_results) spoken.pop_back();
    found_.text_beside_calls = shows(render(spoken, offered()), {kAnswer, kValue});
  }
  const auto two = render(
      {user(),
       calling({call(kId, kTool, arguments(kValue)), call(kSecondId, kTool, arguments(kOther))}),
       result(kId, kResult), result(kSecondId, kLast)},
      offered());
  found_.parallel_calls = shows(two, {kValue, kOther});
  // The template takes two calls and writes one: does it write both in messages of their own?
  if (two && !found_.parallel_calls && found_.calls) {
    const auto apart =
        render({user(), calling({call(kId, kTool, arguments(kValue))}), result(kId, kResult),
                calling({call(kSecondId, kTool, arguments(kOther))}), result(kSecondId, kLast)},
               offered());
    found_.calls_apart = shows(apart, {kValue, kResult, kOther, kLast});
  }
  // Lists must work in results, too; contents() has tried the other roles.
  if (found_.list_content && found_.tool_results) {
    Messages listed = one;
    listed[2].if_object()->set("content", two_parts(kResult));
    const auto output = render(listed, offered());
    found_.list_content = shows(output, {kResult, kPart}) && !is_dumped(*output);
  }
}

// `answered` is a user's question, a call and its result.
void Prober::results(const json::Array& answered) {
  const auto output = render(answered, offered());
  found_.tool_results = shows(output, {kResult});
  // Once in the call, and once more in the result.
  found_.result_ids = found_.tool_results && count_of(kId, *output) > 1;
  if (!found_.tool_results) return;
  json::Object orphan = result(kId, kResult);
  found_.orphan_results = shows(render({user(), orphan}, offered()), {kResult});
  orphan.erase("name");
  found_.nameless_orphans = shows(render({user(), orphan}, offered()), {kResult});
  Messages nameless = answered;
  nameless[2].if_object()->erase("name");
  // Without the name, another prompt comes out, or none.
  found_.result_names = render(nameless, offered()) != output;
  answers_to_results(answered);
}

// Templates that need an answer between results and the user's next words: the shortest text that
// they take.
void Prober::answers_to_results(const json::Array& answered) {
  Messages asked = answered;
  asked.emplace_back(user(kSecond));
  if (render(asked, offered())) return;
  for (const std::string_view said : {"", " ", "."}) {
    asked.back() = message("assistant", content(said));
    asked.emplace_back(user(kSecond));
    if (shows(render(asked, offered()), {kSecond})) {
      found_.answer_to_results = said;
      return;
    }
    asked.pop_back();
  }
}

// Whether two answers count as neighbours although a turn of calls stands between them.
void Prober::alternation() {
  if (!found_.alternation || !found_.calls || !found_.tool_results) return;
  const json::Object calls = calling({call(kId, kTool, arguments())});
  const json::Object answer = result(kId, kResult);
  // If the turn of calls counted, an answer before it would be fine.
  found_.alternation_skips_calls =
      render({user(), calls, answer, assistant(), user(kSecond)}, offered()) &&
      !render({user(), assistant(), calls, answer, assistant(), user(kSecond)}, offered());
}

// What must be done if a conversation has no user's message: nothing, an empty one, or the system
// text in its place. Ways that also bring the tools into the prompt come first.
void Prober::without_user() {
  const json::Object system = message("system", content(kSystem));
  if (!found_.system) return;
  const json::Value offer = found_.tools ? offered() : json::Value();
  // What may follow the system message: nothing, an answer, or calls and their results.
  std::vector<Messages> ends{{}, {assistant()}};
  if (found_.calls && found_.tool_results) {
    ends.push_back({calling({call(kId, kTool, arguments())}), result(kId, kResult)});
  }
  // Whether a user's message would bring the tools.
  const auto may_show_tools = [&](const Messages& end) {
    Messages messages{system, user()};
    messages.insert(messages.end(), end.begin(), end.end());
    return found_.tools && shows(render(std::move(messages), offer), {kTool});
  };
  const auto takes = [&](WithoutUser way, bool wants_tools) {
    for (const Messages& end : ends) {
      Messages messages{system};
      if (way == WithoutUser::system_text) messages[0].if_object()->set("role", "user");
      // Shaping inserts such a message if the assistant may not come first.
      if (way == WithoutUser::empty_message || (!found_.assistant_first && !end.empty())) {
        if (way != WithoutUser::system_text) messages.emplace_back(user(""));
      }
      messages.insert(messages.end(), end.begin(), end.end());
      const auto output = render(std::move(messages), offer);
      if (!shows(output, {kSystem})) return false;
      if (wants_tools && may_show_tools(end) && !shows(output, {kTool})) return false;
    }
    return true;
  };
  for (const bool wants_tools : {true, false}) {
    for (const WithoutUser way :
         {WithoutUser::nothing, WithoutUser::empty_message, WithoutUser::system_text}) {
      if (!takes(way, wants_tools)) continue;
      found_.without_user = way;
      return;
    }
  }
}

// The form of ids that the template demands: one that fails for long ids checks for nine letters
// and digits, as Mistral's does; one whose output changes with the name makes ids of its own.
void Prober::ids() {
  if (!found_.calls) return;
  const auto turn = [&](std::string_view id, std::string_view name) {
    json::Value made = call(id, name, arguments());
    json::Object answer = result(id, kResult);
    if (id.empty()) {
      made.if_object()->erase("id");
      answer.erase("tool_call_id");
    }
    Messages messages{user(), calling({std::move(made)})};
    if (found_.tool_results) messages.emplace_back(std::move(answer));
    return render(std::move(messages), offered());
  };
  const auto short_id = turn(kId, kTool);
  if (!short_id) return;
  found_.absent_ids = turn("", kTool).has_value();
  // A long id with an underscore and a dash, as no template expects it.
  if (!turn("call_probe-0123456789", kTool)) {
    found_.ids = IdForm::nine_alphanumerics;
  } else if (!shows(short_id, {kId})) {
    found_.ids = IdForm::none;
  } else if (short_id == turn(kId, kOther)) {
    found_.ids = IdForm::function_and_index;
  }
}

// The marker at the end or at the beginning of `text`: <...>, [...] or <|...|>.
std::string marker_at_end(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos || (text[last] != '>' && text[last] != ']')) return {};
  const std::size_t first = text.substr(0, last).find_last_of(text[last] == '>' ? '<' : '[');
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, last + 1 - first));
}

std::string marker_at_start(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (text[first] != '<' && text[first] != '[')) return {};
  const std::size_t last = text.find(text[first] == '<' ? '>' : ']', first);
  if (last == std::string_view::npos) return {};
  return std::string(text.substr(first, last + 1 - first));
}

// Where the template writes reasoning, and between which markers: they are cut out of the output
// beside a text that is known.
void Prober::reasoning() {
  const auto thinks = [](json::Object message) {
    // Templates read one of the two names.
    message.set("reasoning_content", kReasoning);
    message.set("thinking", kReasoning);
    return message;
  };
  const json::Object calls = calling({call(kId, kTool, arguments())});
  // Some templates keep reasoning only beside calls, or only in the last turn.
  const std::pair<Messages, json::Value> turns[] = {
      {{user(), thinks(calls), result(kId, kResult)}, offered()},
      {{user(), thinks(assistant()), user(kSecond)}, nullptr},
      {{user(), thinks(assistant())}, nullptr},
  };
  for (const auto& [messages, offer] : turns) {
    const auto output = render(messages, offer);
    const std::size_t at = output ? output->find(kReasoning) : std::string::npos;
    if (at == std::string::npos) continue;
    found_.reasoning = true;
    found_.reasoning_open = marker_at_end(std::string_view(*output).substr(0, at));
    found_.reasoning_close =
        marker_at_start(std::string_view(*output).substr(at + kReasoning.size()));
    break;
  }
  if (found_.calls && found_.text_beside_calls) {
    json::Object spoken = thinks(calls);
    spoken.set("content", content(kAnswer));
    Messages messages{user(), std::move(spoken)};
    if (found_.tool_results) messages.emplace_back(result(kId, kResult));
    found_.reasoning_beside_text = shows(render(std::move(messages), offered()), {kAnswer, kValue});
  }
  for (const std::string_view name : {"enable_thinking", "thinking"}) {
    const auto set = [&](bool on) {
      return render({user()}, nullptr, json::Object{{std::string(name), on}});
    };
    const auto on = set(true);
    found_.thinking_switch |= on && on != set(false);
  }
}

Capabilities Prober::probe() {
  contents();
  roles();
  developers();
  tools();
  schemas(schema_probes());
  calls();
  ids();
  alternation();
  without_user();
  reasoning();
  return std::move(found_);
}

std::string_view name_of(Arguments arguments) {
  switch (arguments) {
    case Arguments::none:
      return "none";
    case Arguments::object:
      return "object";
    case Arguments::text:
      return "text";
    case Arguments::either:
      return "either";
  }
  return "";
}

std::string_view name_of(IdForm form) {
  switch (form) {
    case IdForm::none:
      return "none";
    case IdForm::any:
      return "any";
    case IdForm::nine_alphanumerics:
      return "nine_alphanumerics";
    case IdForm::function_and_index:
      return "function_and_index";
  }
  return "";
}

}  // namespace

Capabilities probe(const jinja::Template& chat_template, const std::string& bos_token,
                   const std::string& eos_token) {
  return Prober(chat_template, bos_token, eos_token).probe();
}

bool writes_role(const jinja::Template& chat_template, std::string_view role,
                 const std::string& bos_token, const std::string& eos_token) {
  return Prober(chat_template, bos_token, eos_token).writes_role(role);
}

json::Object to_json(const Capabilities& capabilities) {
  const Capabilities& c = capabilities;
  return {{"tools", c.tools},
          {"calls", c.calls},
          {"parallel", c.parallel_calls},
          {"text_beside_calls", c.text_beside_calls},
          {"null_beside_calls", c.null_beside_calls},
          {"tool_results", c.tool_results},
          {"orphan_results", c.orphan_results},
          {"result_ids", c.result_ids},
          {"user_after_results", !c.answer_to_results},
          {"arguments", name_of(c.arguments)},
          {"ids", name_of(c.ids)},
          {"absent_ids", c.absent_ids},
          {"system", c.system},
          {"several_systems", c.several_systems},
          {"middle_system", c.middle_system},
          {"developer", c.developer},
          {"alternation", c.alternation},
          {"assistant_first", c.assistant_first},
          {"empty_answers", c.empty_answers},
          {"system_alone", c.without_user == WithoutUser::nothing},
          {"string_content", c.string_content},
          {"list_content", c.list_content},
          {"null_tools", c.null_tools},
          {"bare_tools", c.bare_tools},
          {"bare_properties", c.bare_properties},
          {"type_lists", c.type_lists},
          {"untyped", c.untyped},
          {"nested_objects", c.nested == SchemaForm::whole},
          {"whole_schemas", !c.losses.any()},
          {"reasoning", c.reasoning},
          {"thinking_switch", c.thinking_switch}};
}

json::Object reasoning_of(const Capabilities& capabilities) {
  json::Object reasoning{{"history", capabilities.reasoning},
                         {"switch", capabilities.thinking_switch}};
  if (!capabilities.reasoning_open.empty()) reasoning.set("open", capabilities.reasoning_open);
  if (!capabilities.reasoning_close.empty()) reasoning.set("close", capabilities.reasoning_close);
  return reasoning;
}

}  // namespace tenon::prompt
