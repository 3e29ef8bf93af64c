#include "tenon/prompt/propose.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/format/detect.h"
#include "tenon/format/format.h"
#include "tenon/format/render.h"
#include "tenon/format/write_definition.h"
#include "tenon/json/object_end.h"
#include "tenon/json/value.h"

// Proposes a definition by looking at what a template writes for known calls.
//
// First the body of one call is found in the text of a turn with that call (body_of). Four forms
// are tried: a JSON object with name and arguments (object_body), a name followed by a JSON object
// (named_body), Python's keywords or bare keys (keyword_body), and parameters between markers
// (parameter_body). Each finds the probe words in the text and makes a pattern of what stands
// between them.
//
// Then definition() compares a turn with one call and a turn with two. The text before the first
// body, between the two and after the last gives the markers of a section, of a call and the
// separator (frame_of); they are cut only where a word, a tag or white space ends (is_border).
//
// At last check() compiles the definition, reads each sample back, and writes it again. A
// definition that does not read its own samples is refused; one that would write them in another
// way is given with a comment.
namespace tenon::prompt {
namespace {

using format::CallSample;
using message::ToolCall;

// No word is a part of another, and no template contains one.
const ToolCall kOne{.name = "probetool", .arguments = R"({"probekey": "probevalue"})"};
const ToolCall kOtherName{.name = "probeother", .arguments = R"({"probelast": "probesecond"})"};
const ToolCall kPair{.name = "probetool",
                     .arguments = R"({"probekey": "probevalue", "probelast": "probe second"})"};
const ToolCall kTyped{.name = "probetool",
                      .arguments = R"({"probekey": 17, "probelast": ["probeitem", true]})"};

Unexpected cannot(std::string what) {
  return Unexpected(Error{Errc::unsupported, std::move(what)});
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 200;
  return json::quoted(text.substr(0, kMost)) + (text.size() > kMost ? "..." : "");
}

// A part of a text.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct Found {
  Range at;
  json::Value value;
};

// The innermost JSON object around the place `before` for which `holds` is true.
template <class Holds>
std::optional<Found> object_around(std::string_view text, std::size_t before, const Holds& holds) {
  for (std::size_t begin = before; begin-- > 0;) {
    if (text[begin] != '{') continue;
    // object_end() stops there: the search from each brace costs no more than the text is long.
    std::size_t budget = text.size();
    const std::size_t end = json::object_end(text, begin, budget);
    if (end == std::string_view::npos || end <= before) continue;
    auto value = json::parse(text.substr(begin, end - begin));
    if (value && holds(*value)) return Found{{begin, end}, *std::move(value)};
  }
  return std::nullopt;
}

// Whether a marker may begin or end here: not within a word, a tag or a run of white space.
bool is_border(std::string_view text, std::size_t at) {
  if (at == 0 || at >= text.size()) return true;
  constexpr std::string_view kSpace = " \n\t";
  // A run of white space is not cut: it belongs to one of the two markers as a whole.
  const bool space_before = kSpace.find(text[at - 1]) != std::string_view::npos;
  const bool space_after = kSpace.find(text[at]) != std::string_view::npos;
  if (space_before != space_after) return true;
  return std::string_view(">])},").find(text[at - 1]) != std::string_view::npos ||
         std::string_view("<[({").find(text[at]) != std::string_view::npos;
}

// How many bytes both begin with, cut back to a border in both.
std::size_t common_begin(std::string_view a, std::string_view b) {
  std::size_t size = 0;
  while (size < a.size() && size < b.size() && a[size] == b[size]) ++size;
  while (size > 0 && !(is_border(a, size) && is_border(b, size))) --size;
  return size;
}

std::size_t common_end(std::string_view a, std::string_view b) {
  std::size_t size = 0;
  while (size < a.size() && size < b.size() && a[a.size() - size - 1] == b[b.size() - size - 1]) {
    ++size;
  }
  while (size > 0 && !(is_border(a, a.size() - size) && is_border(b, b.size() - size))) --size;
  return size;
}

// The text around each of several things, and the text around all of them.
struct Frame {
  std::string open;
  std::string before;
  std::string after;
  std::string separator;
  std::string close;
};

// Finds the frame from the text before the first thing, between two, and after the last.
// "<calls><c>A</c>,<c>B</c></calls>" with the things A and B: open "<calls>", before "<c>", after
// "</c>", separator ",", close "</calls>".
Frame frame_of(std::string_view first, std::string_view between, std::string_view last) {
  std::size_t after = common_begin(last, between);
  std::size_t before = common_end(first, between);
  // A marker that ends one thing and begins the next cannot be both; it counts as the end.
  if (after + before > between.size()) before = between.size() - after;
  while (before > 0 && !is_border(first, first.size() - before)) --before;
  return {.open = std::string(first.substr(0, first.size() - before)),
          .before = std::string(first.substr(first.size() - before)),
          .after = std::string(last.substr(0, after)),
          .separator = std::string(between.substr(after, between.size() - before - after)),
          .close = std::string(last.substr(after))};
}

// One call as a pattern, the part of the sample's text that it describes, and keys of the syntax.
struct Body {
  Range at;
  std::string call;                 // from the call's first slot to its last
  std::string end;                  // a literal that must follow the last slot
  std::vector<std::string> lines;   // keys of the syntax
  std::vector<std::string> tables;  // tables of the definition beside the syntax
};

class Proposer {
 public:
  Proposer(const ChatTemplate& chat_template, std::string_view name)
      : template_(chat_template), name_(format::as_name(name)) {}

  Expected<std::string> run();

 private:
  [[nodiscard]] std::optional<Body> object_body(const CallSample& sample) const;
  [[nodiscard]] std::optional<Body> named_body(const CallSample& sample) const;
  [[nodiscard]] std::optional<Body> keyword_body(const CallSample& sample) const;
  [[nodiscard]] std::optional<Body> parameter_body(const CallSample& sample) const;
  // A pattern of the name and the text between it and `arguments`; empty if there is no name.
  [[nodiscard]] std::optional<Body> head(const CallSample& sample, std::size_t arguments) const;
  [[nodiscard]] std::string definition(const CallSample& one, const Body& body) const;
  [[nodiscard]] std::optional<Body> body_of(const CallSample& sample) const;
  [[nodiscard]] std::optional<CallSample> sample_of(std::vector<ToolCall> calls) const;
  // Checks the definition. Returns notes about it as comments of TOML.
  [[nodiscard]] Expected<std::string> check(const std::string& toml_text) const;

  const ChatTemplate& template_;
  const std::string name_;
  std::string reasoning_open_ = template_.capabilities().reasoning_open;
  std::string reasoning_close_ = template_.capabilities().reasoning_close;
};

// The sample without reasoning before the calls: `<think>...</think>`, or only its end.
std::optional<CallSample> Proposer::sample_of(std::vector<ToolCall> calls) const {
  auto sample = template_.write_turn(std::move(calls));
  if (!sample || reasoning_close_.empty()) return sample;
  const std::size_t name = sample->text.find(kOne.name);
  const std::size_t close = sample->text.rfind(reasoning_close_, name);
  if (close == std::string::npos) return sample;
  const std::size_t begin =
      sample->text.find_first_not_of(" \n\t", close + reasoning_close_.size());
  sample->before += sample->text.substr(0, begin);
  sample->text.erase(0, begin);
  return sample;
}

// The object in the text that equals the arguments of the call.
std::optional<Found> arguments_in(const CallSample& sample) {
  const ToolCall& call = sample.calls.front();
  const auto wanted = json::parse(call.arguments);
  const std::size_t key = sample.text.find(wanted->if_object()->begin()->key);
  if (key == std::string::npos) return std::nullopt;
  return object_around(sample.text, key,
                       [&wanted](const json::Value& value) { return value == *wanted; });
}

// The key in `object` whose value is `wanted`; "" if no member has it.
std::string key_of(const json::Value& object, const json::Value& wanted) {
  for (const json::Member& member : *object.if_object()) {
    if (member.value == wanted) return member.key;
  }
  return "";
}

// {"name": ..., "arguments": {...}}, perhaps inside another object, or {"the_name": {...}}.
std::optional<Body> Proposer::object_body(const CallSample& sample) const {
  const auto arguments = arguments_in(sample);
  if (!arguments) return std::nullopt;
  const ToolCall& call = sample.calls.front();
  const auto holder = object_around(
      sample.text, arguments->at.begin,
      [&](const json::Value& value) { return !key_of(value, arguments->value).empty(); });
  if (!holder) return std::nullopt;
  const std::string arguments_key = key_of(holder->value, arguments->value);
  Body body{.at = holder->at, .call = "${object}"};
  // {"get_weather": {...}}: the name is the key.
  if (arguments_key == call.name) {
    body.lines.emplace_back("object = { name_is_key = true }");
    return body;
  }
  const std::string name_key = key_of(holder->value, json::Value(call.name));
  if (name_key.empty()) return std::nullopt;
  std::string object = "name = " + format::as_toml(std::vector<std::string>{name_key});
  object += ", arguments = " + format::as_toml(std::vector<std::string>{arguments_key});
  if (const std::string id_key = key_of(holder->value, json::Value(call.id)); !id_key.empty()) {
    object += ", id = " + format::as_toml(std::vector<std::string>{id_key}) + ", writes_id = true";
    if (holder->value.if_object()->begin()->key == id_key) object += ", id_first = true";
  }
  // An object around it, such as {"type": "function", "function": {...}}, is read, but not written.
  const auto wrapper = object_around(sample.text, body.at.begin, [&](const json::Value& value) {
    return !key_of(value, holder->value).empty();
  });
  if (wrapper) {
    body.at = wrapper->at;
    object += ", wrapper = " +
              format::as_toml(std::vector<std::string>{key_of(wrapper->value, holder->value)});
  }
  body.lines.push_back("object = { " + object + " }");
  return body;
}

std::optional<Body> Proposer::head(const CallSample& sample, std::size_t arguments) const {
  const ToolCall& call = sample.calls.front();
  const std::string_view text = std::string_view(sample.text).substr(0, arguments);
  const std::size_t name = text.rfind(call.name);
  if (name == std::string_view::npos) return std::nullopt;
  Body body;
  // "functions.probetool:0": the id holds the name.
  const bool has_index = text.substr(name + call.name.size()).starts_with(":0");
  if (has_index || template_.capabilities().ids == IdForm::function_and_index) {
    const std::size_t digits = name + call.name.size();
    // Behind the digits of the index.
    const std::size_t end = std::min(text.find_first_not_of("0123456789", digits + 1), text.size());
    const std::size_t begin = text.substr(0, name).find_last_of(" \n>]") + 1;
    if (end > digits + 1) {
      body.at.begin = begin;
      body.call = "${id}" + format::as_pattern(text.substr(end));
      body.tables.push_back("[id]\nholds_name = true\nname_before = " +
                            format::as_toml(text.substr(begin, name - begin)) +
                            "\nname_after = " + format::as_toml(text.substr(digits, 1)));
      return body;
    }
  }
  body.at.begin = name;
  body.call = "${name}";
  std::string_view rest = text.substr(name + call.name.size());
  const std::size_t id = rest.find(call.id);
  // The id stands between the name and the arguments.
  if (id != std::string_view::npos) {
    body.call += format::as_pattern(rest.substr(0, id)) + "${id}";
    rest.remove_prefix(id + call.id.size());
    body.tables.push_back("[id]\nprefix = \"\"\nlength = 9");
  }
  body.call += format::as_pattern(rest);
  return body;
}

// The name, followed by the arguments as a JSON object.
std::optional<Body> Proposer::named_body(const CallSample& sample) const {
  const auto arguments = arguments_in(sample);
  if (!arguments) return std::nullopt;
  auto body = head(sample, arguments->at.begin);
  if (!body) return std::nullopt;
  body->at.end = arguments->at.end;
  body->call += "${arguments}";
  return body;
}

// f(a=1), or f{a:<quote>text<quote>}.
std::optional<Body> Proposer::keyword_body(const CallSample& sample) const {
  const ToolCall& call = sample.calls.front();
  const std::string& text = sample.text;
  const std::string key = json::parse(call.arguments)->if_object()->begin()->key;
  const std::size_t name = text.find(call.name);
  const std::size_t open = name == std::string::npos ? name : name + call.name.size();
  if (open >= text.size()) return std::nullopt;
  const bool is_python = text.compare(open, key.size() + 2, "(" + key + "=") == 0;
  const bool has_members = text.compare(open, key.size() + 2, "{" + key + ":") == 0;
  if (!is_python && !has_members) return std::nullopt;
  const std::size_t close = text.find(is_python ? ')' : '}', open);
  if (close == std::string::npos) return std::nullopt;
  Body body{.at = {name, close + 1},
            .call = is_python ? "${name}${keywords}" : "${name}${members}"};
  if (has_members) {
    const std::size_t begin = open + key.size() + 2;
    // What stands between the colon and the value quotes strings.
    const std::size_t value = text.find("probe", begin);
    if (value == std::string::npos || value == begin) return std::nullopt;
    body.lines.push_back("string_quote = " + format::as_toml(text.substr(begin, value - begin)));
  }
  return body;
}

// Each argument between markers of its own.
std::optional<Body> Proposer::parameter_body(const CallSample& sample) const {
  const auto pair = sample_of({kPair});
  const auto typed = sample_of({kTyped});
  if (!pair || !typed) return std::nullopt;
  const std::string_view text = pair->text;
  // The four words must come in this order: key, value, key, value.
  const std::size_t key1 = text.find("probekey");
  const std::size_t value1 = text.find("probevalue");
  const std::size_t key2 = text.find("probelast");
  const std::size_t value2 = text.find("probe second");
  if (key1 == text.npos || value2 == text.npos) return std::nullopt;
  if (key1 > value1 || value1 > key2 || key2 > value2) return std::nullopt;
  const auto between = [](std::string_view of, std::size_t begin, std::size_t size,
                          std::size_t end) { return of.substr(begin + size, end - begin - size); };
  const std::string_view middle = between(text, key1, 8, value1);
  if (middle != between(text, key2, 9, value2)) return std::nullopt;

  const std::size_t name = text.substr(0, key1).rfind("probetool");
  if (name == text.npos) return std::nullopt;
  const Frame frame = frame_of(between(text, name, 9, key1), between(text, value1, 10, key2),
                               text.substr(value2 + std::string_view("probe second").size()));
  std::string_view typed_text = typed->text;
  const std::size_t typed_key = typed_text.find("probekey");
  const std::size_t typed_value = typed_text.find("17");
  if (typed_key == typed_text.npos || typed_value == typed_text.npos) return std::nullopt;
  const std::string_view other = between(typed_text, typed_key, 8, typed_value);
  std::string type(middle);
  if (other != middle) {  // words in the marker say whether the value is text
    const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    // The markers for text and for numbers differ in one word: `type="string"` and `type="number"`,
    // say.
    std::size_t begin = 0;
    while (begin < std::min(middle.size(), other.size()) && middle[begin] == other[begin]) ++begin;
    std::size_t end = 0;
    while (end < std::min(middle.size(), other.size()) - begin &&
           middle[middle.size() - 1 - end] == other[other.size() - 1 - end]) {
      ++end;
    }
    while (begin > 0 && is_word(middle[begin - 1])) --begin;
    while (end > 0 && is_word(middle[middle.size() - end])) --end;
    type = format::as_pattern(middle.substr(0, begin)) +
           "${type:" + std::string(middle.substr(begin, middle.size() - end - begin)) + "|" +
           std::string(other.substr(begin, other.size() - end - begin)) + "}" +
           format::as_pattern(middle.substr(middle.size() - end));
  } else {
    type = format::as_pattern(middle);
  }
  // `sample` has one parameter, with the same frame around it.
  const std::size_t begin = sample.text.find("probetool");
  const std::size_t value = sample.text.find("probevalue");
  if (begin == std::string::npos || value == std::string::npos) return std::nullopt;
  Body body{.at = {begin, value + std::string_view("probevalue").size() + frame.after.size()},
            .call = "${name}" + format::as_pattern(frame.open) + "${parameters}"};
  body.lines.push_back("parameter = " +
                       format::as_toml(format::as_pattern(frame.before) + "${key}" + type +
                                       "${value}" +
                                       format::as_pattern(frame.after + frame.separator)));
  return body;
}

std::optional<Body> Proposer::body_of(const CallSample& sample) const {
  for (const auto attempt : {&Proposer::object_body, &Proposer::named_body, &Proposer::keyword_body,
                             &Proposer::parameter_body}) {
    if (auto body = (this->*attempt)(sample)) return body;
  }
  return std::nullopt;
}

std::string Proposer::definition(const CallSample& one, const Body& body) const {
  // With one call, everything before and behind it is its own frame.
  const std::string_view text = one.text;
  Frame frame{.before = std::string(text.substr(0, body.at.begin)),
              .after = std::string(text.substr(body.at.end))};
  bool several = false;
  // Two calls with the same name and arguments, so the second is the first again, except for its
  // id.
  if (const auto two = sample_of({kOne, kOne})) {
    const std::string_view both = two->text;
    const std::string_view whole = text.substr(body.at.begin, body.at.end - body.at.begin);
    const std::size_t first = both.find(whole);
    std::size_t second = both.rfind(kOne.name);
    // The second body begins as many bytes before its name as the first body does.
    const std::size_t lead = whole.find(kOne.name);
    if (first != both.npos && second >= lead && second - lead > first) {
      second -= lead;
      // What follows the last call is as long as behind the only one.
      const std::size_t end = both.size() - (text.size() - body.at.end);
      if (end > second && second >= first + whole.size()) {
        frame = frame_of(both.substr(0, first),
                         both.substr(first + whole.size(), second - first - whole.size()),
                         both.substr(end));
        several = true;
      }
    }
  }
  std::string out = "name = " + format::as_toml(name_) + "\n";
  // The template did not write two calls, so the format allows only one.
  if (!several) out += "parallel = false\n";
  for (const std::string& table : body.tables) out += "\n" + table + "\n";
  if (!reasoning_open_.empty() && !reasoning_close_.empty()) {
    out += "\n[reasoning]\nopen = " + format::as_toml(std::vector{reasoning_open_}) +
           "\nclose = " + format::as_toml(std::vector{reasoning_close_}) + "\n";
  }
  // Text before the first call that does not come before each is the section's, if something ends
  // the section or separates its calls.
  const bool is_section = !frame.open.empty() && !(frame.close + frame.separator).empty();
  if (!is_section && several && !frame.close.empty()) {  // it ends the turn, not the calls
    out += "\n[content]\ndrop = " + format::as_toml(std::vector{frame.close}) + "\n";
    frame.close.clear();
  }
  out += "\n[[syntax]]\n";
  if (is_section) {
    out += "open = " + format::as_toml(format::as_pattern(frame.open)) + "\n";
  } else {
    frame.before = frame.open + frame.before;
    frame.after += frame.close;
    frame.close.clear();
  }
  out += "call = " +
         format::as_toml(format::as_pattern(frame.before) + body.call +
                         format::as_pattern(frame.after)) +
         "\n";
  if (!frame.separator.empty())
    out += "separator = " + format::as_toml(format::as_pattern(frame.separator)) + "\n";
  if (!frame.close.empty())
    out += "close = " + format::as_toml(format::as_pattern(frame.close)) + "\n";
  for (const std::string& line : body.lines) out += line + "\n";
  // Without a marker, such text may be an ordinary answer: it is held back until it is known to be
  // a call, and read so only if tools were offered.
  const bool is_bare = (frame.open + frame.before).find_first_not_of(" \n[{(") == std::string::npos;
  if (is_bare) out += "hold = \"call\"\nneeds_tools = true\n";
  return out;
}

Expected<std::string> Proposer::check(const std::string& toml_text) const {
  const auto compiled = format::compile(toml_text, name_);
  if (!compiled) {
    return cannot("the definition that was found is refused: " + compiled.error().message + "\n\n" +
                  toml_text);
  }
  std::string notes;
  for (const auto& calls : {std::vector{kOne}, std::vector{kPair}, std::vector{kTyped},
                            std::vector{kOne, kOtherName}}) {
    const auto sample = sample_of(calls);
    if (!sample) continue;
    auto read = format::read_back(*compiled, *sample);
    if (!read && calls.front() == kTyped) {  // some templates print values as Python does
      notes += "# Values that are not text are not read back as the template writes them:\n# " +
               shown(sample->text) + "\n";
      continue;
    }
    if (!read) {
      return cannot("the definition that was found does not read back " + shown(sample->text) +
                    "\n\n" + toml_text);
    }
    // Formats without ids cannot read them.
    for (std::size_t i = 0; i < read->size(); ++i) (*read)[i].id = sample->calls[i].id;
    const auto written = format::render_calls(**compiled, *read);
    if (notes.empty() && (!written || *written != sample->text)) {
      notes = "# It reads what the template writes, but would itself write it otherwise:\n# " +
              shown(sample->text) + "\n# " + shown(written.value_or("")) + "\n";
    }
  }
  return notes;
}

Expected<std::string> Proposer::run() {
  auto one = sample_of({kOne});
  // A template that writes an empty thought before calls, with its beginning in the prompt.
  if (one && reasoning_close_.empty() && one->text.starts_with("</")) {  // such as </think>
    const std::size_t end = one->text.find('>');
    if (end != std::string::npos) {
      reasoning_close_ = one->text.substr(0, end + 1);
      reasoning_open_ = "<" + reasoning_close_.substr(2);
      one = sample_of({kOne});
    }
  }
  if (!one) {
    return cannot("the template writes no calls into history: there is nothing to see a format by");
  }
  const auto body = body_of(*one);
  if (!body) {
    return cannot(
        "the arguments are neither a JSON object, nor Python's keywords, nor bare keys, "
        "nor parameters between markers of their own: " +
        shown(one->text));
  }
  std::string text = definition(*one, *body);
  auto notes = check(text);
  if (!notes) return Unexpected(notes.error());
  return *notes + text;
}

}  // namespace

Expected<std::string> propose(const ChatTemplate& chat_template, std::string_view name) {
  return Proposer(chat_template, name).run();
}

}  // namespace tenon::prompt
