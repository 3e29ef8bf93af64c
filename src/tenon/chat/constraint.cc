#include "tenon/chat/constraint.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "tenon/base/budget.h"
#include "tenon/base/log.h"
#include "tenon/format/definition.h"
#include "tenon/format/input_grammar.h"
#include "tenon/format/tool_grammar.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/json/known_schemas.h"
#include "tenon/grammar/machine/bounded_cache.h"
#include "tenon/grammar/machine/grammar_cache.h"
#include "tenon/grammar/print/print.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/schema/schema.h"
#include "tenon/vocab/vocab.h"

// How a request becomes a grammar
//
// Constraints::of() reduces the request to a Question: everything that the grammar depends on
// besides the model. Its text is the key of a cache, so the same tools have the same grammar. For a
// new question there are two steps:
//  1. judge() looks at each schema and each grammar alone. One that is invalid is refused, with its
//     path in the request; a keyword that cannot be enforced is left out (Relaxed), logged, and its
//     tool is `unenforced`. Alone, because in the whole grammar a tool that no value fits would be
//     one missing alternative that no one notices. All trials share one budget (Trials).
//  2. build() makes the whole from what is left: format::tool_grammar() writes rules with markers
//     and schemas, grammar::add_rules() makes a grammar of them. For an upstream the rules are
//     printed in its language (Printing); if that takes too many rules, the printed grammar is
//     looser, and no tool counts as constrained.
// Grammars may be evicted and made again; the result of judge() is kept beside them, so the log
// does not repeat.

namespace tenon::chat {
namespace {

using grammar::FrameId;
using grammar::JsonOptions;
using grammar::Machine;
using grammar::Relaxed;
using message::ArgumentOrder;
using message::ChatRequest;
using message::ResponseFormat;
using message::Tool;
using message::ToolMode;
using KnownSchema = std::shared_ptr<const grammar::KnownSchemas::Known>;

// Everything that a grammar depends on besides the model. `tools` are copied only if it is new.
struct Question {
  std::shared_ptr<const format::Format> format;  // null: the answer is text
  ResponseFormat response;
  ToolMode mode = ToolMode::automatic;
  std::vector<Tool> tools;          // those that may be called, as they came, without descriptions
  std::vector<std::size_t> places;  // their indices in the request
  format::ToolGrammarOptions options;
};

const json::Value& any_object() {
  static const json::Value kSchema = json::Object{{"type", "object"}};
  return kSchema;
}

// A function that declares no parameters has none, as in OpenAI's API.
const json::Value& no_arguments() {
  static const json::Value kSchema =
      json::Object{{"type", "object"}, {"additionalProperties", false}};
  return kSchema;
}

// `strict: false` asks for any object, so that nothing of the schema is enforced.
json::Value schema_of(json::Value parameters, std::optional<bool> strict) {
  if (strict == false) return any_object();
  const bool declares = !parameters.is_null() && parameters != json::Value(json::Object{});
  return declares ? std::move(parameters) : no_arguments();
}

// The indices of the tools that may be called.
std::vector<std::size_t> callable(const ChatRequest& request) {
  std::vector<std::size_t> places;
  if (request.tool_choice.mode == ToolMode::none) return places;
  const std::vector<std::string>& allowed = request.tool_choice.allowed;
  for (std::size_t i = 0; i < request.tools.size(); ++i) {
    if (allowed.empty() || std::ranges::find(allowed, request.tools[i].name) != allowed.end()) {
      places.push_back(i);
    }
  }
  return places;
}

// Copies the tools of the question out of the request, for a grammar that is made. Descriptions are
// left out.
void take_tools(const ChatRequest& request, Question& question) {
  question.tools.reserve(question.places.size());
  for (const std::size_t place : question.places) {
    const Tool& tool = request.tools[place];
    question.tools.push_back({.name = tool.name,
                              .parameters = tool.parameters,
                              .strict = tool.strict,
                              .grammar = tool.grammar});
  }
}

// Names and schemas are written as JSON text, so that no two questions have the same key. The tools
// are read in the request, since most questions are known.
std::string key_of(const Question& question, const ChatRequest& request) {
  std::string key = std::to_string(static_cast<int>(question.mode));
  const bool in_reasoning =
      question.format != nullptr &&
      format::starts_in_reasoning(*question.format, question.options.prompt_tail);
  key += question.format == nullptr ? 't' : in_reasoning ? 'r' : '-';
  if (question.format != nullptr && question.format->has_gated) {
    key += question.options.others_first ? 'f' : 'o';
  }
  if (question.options.max_reasoning_tokens) {
    key += '#' + std::to_string(*question.options.max_reasoning_tokens);
  }
  key += question.options.parallel ? 'p' : '1';
  key += question.options.json.property_order == JsonOptions::PropertyOrder::any ? 'a' : 's';
  key += question.options.json.is_bounded ? 'b' : 'u';
  if (question.response.kind == ResponseFormat::Kind::json) {
    key += question.response.strict == true ? '!' : '?';
    json::append(key, question.response.schema);
  } else if (question.response.kind == ResponseFormat::Kind::grammar) {
    const message::TextGrammar& grammar = question.response.grammar;
    key += '$' + std::to_string(static_cast<int>(grammar.syntax));
    json::append_quoted(key, grammar.definition);
  }
  for (const std::size_t place : question.places) {
    const Tool& tool = request.tools[place];
    json::append_quoted(key, tool.name);
    json::append(key, tool.parameters);
    if (tool.strict == false) key += '~';
    if (!tool.grammar) continue;
    key += tool.grammar->syntax == message::TextGrammar::Syntax::lark ? 'l' : 'x';
    json::append_quoted(key, tool.grammar->definition);
  }
  return key;
}

// Makes the schema demand an object, since arguments are always one.
Status take_objects_only(json::Value& schema) {
  json::Object* const members = schema.if_object();
  if (members == nullptr) return {};
  const json::Value* const type = members->find("type");
  const auto is_object = [](const json::Value& name) { return name == json::Value("object"); };
  const json::Array* const types = type == nullptr ? nullptr : type->if_array();
  if (type != nullptr && !is_object(*type) &&
      (types == nullptr || std::ranges::none_of(*types, is_object))) {
    return Unexpected(
        Error{Errc::invalid, "/type: must be object, since a call's arguments are one"});
  }
  (*members)["type"] = "object";
  return {};
}

// The schema is valid, but not something that can be enforced here.
bool is_our_limit(const Error& error) {
  return error.code == Errc::unsupported || error.code == Errc::limit_exceeded;
}

// Tries the schemas and grammars of one request, one after the other, each in a machine of its own.
// They share one budget, because a request can have a thousand tools.
class Trials {
 public:
  explicit Trials(grammar::KnownSchemas& known) : known_(known) {}

  // The schemas that were tried before, in this request or in another.
  [[nodiscard]] grammar::KnownSchemas& known() { return known_; }
  // Returns the result of `attempt`; if that is no error, the machine's expressions count as kept.
  template <class Attempt>
  auto run(const Attempt& attempt) {
    grammar::MachineLimits limits;
    limits.max_work = std::min(limits.max_work, steps_left_);
    limits.max_expression_steps = std::min(limits.max_expression_steps, steps_left_);
    limits.max_expression_bytes = std::min(limits.max_expression_bytes, bytes_left_);
    Machine machine(limits);
    auto made = attempt(machine);
    steps_left_ -= std::min(steps_left_, machine.work());
    if (made) bytes_left_ -= std::min(bytes_left_, machine.expression_bytes());
    return made;
  }
  // The budget for grammars that are printed for an upstream instead of run in a machine.
  [[nodiscard]] Allowance& printing() { return printing_; }

 private:
  grammar::KnownSchemas& known_;
  // The budget in units of Machine::work(). The whole grammar is then made in one machine, which
  // must have steps and bytes left for masks.
  std::uint64_t steps_left_ = 8'000'000;
  std::uint64_t bytes_left_ = std::uint64_t{32} << 20U;
  Allowance printing_{grammar::kLowerSteps, Limits::kUnlimited};
};

// Judges a schema alone: a grammar of several would just lack the one that no value fits, and would
// not tell whose keyword it leaves out.
Expected<KnownSchema> judged_alone(const json::Value& source, const JsonOptions& options,
                                   Trials& trials) {
  if (auto known = trials.known().find(source, options)) return known;
  return trials.run([&](Machine& machine) { return trials.known().add(machine, source, options); });
}

// Takes the keyword that `error.path` points at out of `schema`, which then allows more.
// No value if there is no such keyword, or if the schema might allow less without it.
std::optional<Relaxed> take_out(json::Value& schema, const Error& error) {
  const std::string& pointer = error.path;
  const std::size_t last = pointer.rfind('/');
  if (last == std::string::npos || pointer.front() != '/') return std::nullopt;
  for (const std::string_view narrows : {"/not/", "/if/", "/oneOf/"}) {
    if (pointer.find(narrows) != std::string::npos) return std::nullopt;
  }
  Relaxed out{pointer.substr(0, last), pointer.substr(last + 1), std::string(error.reason())};
  // `schema` is not const; only at_pointer() returns a pointer to const.
  auto* place = const_cast<json::Value*>(json::at_pointer(schema, out.schema_path));
  json::Object* members = place == nullptr ? nullptr : place->if_object();
  if (members == nullptr || !members->erase(out.keyword)) return std::nullopt;
  return out;
}

// A schema that can be enforced, and the keywords that are left out of it.
struct Enforced {
  KnownSchema schema;
  std::vector<Relaxed> left_out;
};

// Keywords that cannot even be read are removed from `source`.
Expected<Enforced> enforced(json::Value& source, const JsonOptions& options, Trials& trials) {
  constexpr std::size_t kMost = 16;
  std::vector<Relaxed> out;
  auto rest = judged_alone(source, options, trials);
  // If nothing can be taken out, the first error is told: it is about the schema as the client sent
  // it.
  const std::optional<Error> first = rest ? std::nullopt : std::optional(rest.error());
  while (!rest && is_our_limit(rest.error()) && out.size() < kMost) {
    auto taken = take_out(source, rest.error());
    if (!taken) break;
    out.push_back(*std::move(taken));
    rest = judged_alone(source, options, trials);
  }
  if (!rest) return Unexpected(*first);
  out.insert(out.end(), (*rest)->relaxed.begin(), (*rest)->relaxed.end());
  return Enforced{*std::move(rest), std::move(out)};
}

// Follows the tool's name in Relaxed::schema_path. No name has a '#'.
constexpr char kBehindName = '#';

// The paths of errors about the response format, or about one tool: `tools[3]` is followed by the
// rest of the path in the request. An error about all of them has no path.
constexpr std::string_view kResponseFormat = "response_format";
constexpr std::string_view kOfTool = "tools[";
constexpr std::string_view kGrammar = "].custom.format.grammar.definition";
constexpr std::string_view kParameters = "].function.parameters";

// "tools[3].function.parameters"
std::string path_of(std::size_t tool, std::string_view what) {
  return std::string(kOfTool) + std::to_string(tool) + std::string(what);
}

bool is_about_tool(const Error& error) {
  return error.path.starts_with(kOfTool);
}

// A place inside one of several schemas tells nothing about the place in the request.
Unexpected about_all(const Error& error) {
  return Unexpected(Error{error.code, error.message});
}

// Whether the engine can be constrained to these rules.
using Judge = std::function<Status(const grammar::Rules& rules, Trials& trials)>;

// By masks: a machine must be able to read the rules. The next one: the printer must be able to
// write them.
Judge judge_of_masks(const vocab::Vocab& vocab) {
  return [&vocab](const grammar::Rules& rules, Trials& trials) -> Status {
    const auto frame =
        trials.run([&](Machine& machine) { return grammar::add_rules(machine, rules, vocab); });
    if (!frame) return Unexpected(frame.error());
    return {};
  };
}

Expected<grammar::Printed> print(const grammar::Rules& rules, engine::ConstrainedBy constrained_by,
                                 Allowance& shared) {
  return constrained_by == engine::ConstrainedBy::gbnf ? grammar::print_gbnf(rules, shared)
                                                       : grammar::print_ebnf(rules, shared);
}

Judge judge_of_printed(engine::ConstrainedBy constrained_by) {
  return [constrained_by](const grammar::Rules& rules, Trials& trials) -> Status {
    const auto printed = print(rules, constrained_by, trials.printing());
    if (!printed) return Unexpected(printed.error());
    return {};
  };
}

// Judges the grammar of a tool's input alone, as left_out() does with a schema. A client that sends
// a grammar wants it enforced, so one that cannot be enforced is refused.
Status check_grammar(const Question& question, const Tool& tool, std::size_t place,
                     const Judge& holds, Trials& trials) {
  const auto failed = [&](const Error& error) {
    return Unexpected(Error::at(error.code, path_of(place, kGrammar), error.message));
  };
  const auto input = format::read_input_grammar(*tool.grammar);
  if (!input) return failed(input.error());
  format::ToolGrammarOptions options = question.options;
  options.required_in_any_form = false;  // other forms would hide a grammar that nothing fits
  const auto rules = format::tool_grammar(*question.format, std::span(&tool, 1),
                                          {.mode = ToolMode::required}, options);
  if (!rules) return failed(rules.error());
  if (const Status held = holds(*rules, trials); !held) return failed(held.error());
  return {};
}

// The result of judging a request's schemas and grammars. A grammar may be evicted and made again;
// this is kept.
struct Judged {
  // What the text must be: JSON, or a text in a grammar. Both null: any text.
  std::shared_ptr<const schema::Schema> content;
  std::shared_ptr<const grammar::Rules> content_grammar;
  std::vector<Tool> tools;         // without the keywords that cannot be enforced
  std::vector<KnownSchema> known;  // their schemas, as far as they were compiled
  std::vector<Relaxed> left_out;
};

// Notes what is not enforced, and logs it once for each question.
void leave_out(Judged& judged, Relaxed what) {
  log::warn(std::string(log::content(what.schema_path)) + ": " + what.keyword +
            " is not enforced: " + std::string(log::content(what.message)));
  judged.left_out.push_back(std::move(what));
}

// A response format that cannot be enforced whole is an error with `strict`, and otherwise enforced
// without the keywords that cannot, which the client is told.
Status judge_content(const Question& question, const Judge& holds, Trials& trials, Judged& judged) {
  const ResponseFormat& response = question.response;
  if (response.kind == ResponseFormat::Kind::text) return {};
  const auto failed = [](const Error& error) {
    return Unexpected(Error::at(error.code, std::string(kResponseFormat), error.message));
  };
  if (response.kind == ResponseFormat::Kind::grammar) {
    auto rules = format::read_text_grammar(response.grammar);
    if (!rules) return failed(rules.error());
    if (const Status held = holds(*rules, trials); !held) return failed(held.error());
    judged.content_grammar = std::make_shared<const grammar::Rules>(*std::move(rules));
    return {};
  }
  json::Value source = response.schema.is_null() ? any_object() : response.schema;
  const auto held = enforced(source, question.options.json, trials);
  if (!held) return failed(held.error());
  for (const Relaxed& one : held->left_out) {
    if (response.strict == true) {
      return failed({Errc::unsupported, one.schema_path + ": " + one.keyword +
                                            " cannot be enforced: " + one.message +
                                            ": leave it out, or strict"});
    }
    leave_out(judged, {kBehindName + one.schema_path, one.keyword, one.message});
  }
  judged.content = held->schema->schema;
  return {};
}

// Each tool is judged by itself, so that a schema that is refused names its tool, and one that only
// passes a limit of ours costs the guarantee of that tool and not the answer.
Expected<Judged> judge(const Question& question, std::vector<Tool> tools, const Judge& holds,
                       grammar::KnownSchemas& schemas) {
  Judged judged;
  Trials trials(schemas);
  if (Status done = judge_content(question, holds, trials, judged); !done) {
    return Unexpected(done.error());
  }
  judged.tools = std::move(tools);
  judged.known.resize(judged.tools.size());
  for (std::size_t i = 0; i < judged.tools.size(); ++i) {
    Tool& tool = judged.tools[i];
    tool.parameters = schema_of(std::move(tool.parameters), tool.strict);
    if (tool.grammar) {
      if (Status done = check_grammar(question, tool, question.places[i], holds, trials); !done) {
        return Unexpected(done.error());
      }
      continue;
    }
    const std::string place = tool.name + kBehindName;
    const auto in_tool = [&](const Error& error) {
      return Unexpected(Error::at(error.code, path_of(question.places[i], kParameters),
                                  "tool '" + tool.name + "': " + error.message));
    };
    if (Status done = take_objects_only(tool.parameters); !done) return in_tool(done.error());
    const auto held = enforced(tool.parameters, question.options.json, trials);
    if (held) {
      judged.known[i] = held->schema;
      for (const Relaxed& one : held->left_out) {
        leave_out(judged, {place + one.schema_path, one.keyword, one.message});
      }
    } else if (is_our_limit(held.error())) {
      leave_out(judged, {place, "parameters", held.error().message});
      tool.parameters = any_object();
    } else {
      return in_tool(held.error());
    }
  }
  return judged;
}

// The whole grammar as rules: the text alone (for a continuation), or the format with its tools.
Expected<grammar::Rules> rules_of(const Question& question, const Judged& judged) {
  if (question.format == nullptr) {
    if (judged.content_grammar != nullptr) return *judged.content_grammar;
    grammar::Rules rules;
    rules.set_root(rules.add(grammar::node::Json{judged.content, question.options.json}));
    return rules;
  }
  format::ToolGrammarOptions options = question.options;
  options.content = judged.content;
  options.content_grammar = judged.content_grammar;
  options.known = judged.known;
  return format::tool_grammar(*question.format, judged.tools, {.mode = question.mode}, options);
}

// Makes the whole grammar in `machine`. What was left out before is told as if it were left out
// now.
Expected<FrameId> build(const Question& question, const Judged& judged, Machine& machine,
                        const vocab::Vocab& vocab) {
  machine.relaxed().insert(machine.relaxed().end(), judged.left_out.begin(), judged.left_out.end());
  const auto rules = rules_of(question, judged);
  if (!rules) return about_all(rules.error());
  const auto frame = grammar::add_rules(machine, *rules, vocab);
  if (!frame) return about_all(frame.error());
  return frame;
}

// Returns a function that makes the grammar each time it is called, from one thread at a time.
auto builder_of(Question question, std::shared_ptr<grammar::VocabIndex> index,
                std::shared_ptr<grammar::KnownSchemas> schemas) {
  return [question = std::move(question), index = std::move(index), schemas = std::move(schemas),
          judged = std::make_shared<std::optional<Judged>>()](
             Machine& machine) mutable -> Expected<FrameId> {
    if (!*judged) {
      auto first =
          judge(question, std::move(question.tools), judge_of_masks(index->vocab()), *schemas);
      if (!first) return Unexpected(first.error());
      *judged = *std::move(first);
    }
    return build(question, **judged, machine, index->vocab());
  };
}

// The refusal of an error of this file: its path, if it has one, is the field of the request.
Failure<Refusal> refuse_tools(const Error& error, std::string_view code = "invalid_value") {
  if (error.path.empty())
    return chat::refuse(error.code, error.message, "tools", std::string(code));
  std::string reason(error.reason());
  // The message of a schema's error names the tool itself.
  if (error.path.ends_with(kParameters)) {
    return chat::refuse(error.code, std::move(reason), error.path, std::string(code));
  }
  return refuse_field(error.code, error.path, ": " + reason, std::string(code));
}

void add_name(std::vector<std::string>& names, std::string name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
}

// The names of the tools of which something is not enforced; "" for the response format.
void add_names(std::vector<std::string>& names, std::span<const Relaxed> relaxed) {
  for (const Relaxed& one : relaxed) {
    add_name(names, one.schema_path.substr(0, one.schema_path.find(kBehindName)));
  }
}

}  // namespace

// Some ten thousand tools.
constexpr std::size_t kKnownSchemaBytes = std::size_t{64} << 20U;

// What all grammars of the model share.
struct Constraints::Shared {
  explicit Shared(std::shared_ptr<grammar::VocabIndex> of, std::size_t cache_bytes)
      : index(std::move(of)), cache(index, cache_bytes) {}
  Expected<Constraint> constraint(Question question, const ChatRequest& request) {
    const std::string key = key_of(question, request);
    const auto made = [&]() -> Expected<std::shared_ptr<grammar::Grammar>> {
      if (auto known = cache.find(key)) return *std::move(known);
      take_tools(request, question);
      return cache.get(key, builder_of(std::move(question), index, schemas));
    }();
    if (!made) return Unexpected(made.error());
    Constraint constraint{.grammar = *made};
    add_names(constraint.unenforced, (*made)->relaxed());
    return constraint;
  }

  std::shared_ptr<grammar::VocabIndex> index;
  grammar::GrammarCache cache;
  // Shared with the makers of grammars, which the cache keeps and its users may keep longer.
  const std::shared_ptr<grammar::KnownSchemas> schemas =
      std::make_shared<grammar::KnownSchemas>(kKnownSchemaBytes);
};

// The grammars for an upstream, in the language that it reads.
struct Constraints::Printing {
  Printing(engine::ConstrainedBy of, std::size_t max_bytes)
      : constrained_by(of), cache(max_bytes) {}
  Expected<Constraint> constraint(Question question, const ChatRequest& request);

  const engine::ConstrainedBy constrained_by;
  grammar::BoundedCache<std::string, Constraint> cache;
  std::atomic<std::uint64_t> compilations = 0;
  std::atomic<std::uint64_t> hits = 0;
  grammar::KnownSchemas schemas{kKnownSchemaBytes};
};

// A grammar for an upstream, as text. It is kept by the question's text, because printing takes as
// long as compiling.
Expected<Constraint> Constraints::Printing::constraint(Question question,
                                                       const ChatRequest& request) {
  std::string key = key_of(question, request);
  if (const auto known = cache.find(key)) {
    ++hits;
    return *known;
  }
  take_tools(request, question);
  const auto judged = judge(question, question.tools, judge_of_printed(constrained_by), schemas);
  if (!judged) return Unexpected(judged.error());
  Allowance shared(grammar::kLowerSteps, Limits::kUnlimited);
  const auto print_of = [&](const Question& asked) -> Expected<grammar::Printed> {
    const auto rules = rules_of(asked, *judged);
    if (!rules) return about_all(rules.error());
    auto text = print(*rules, constrained_by, shared);
    if (!text) return about_all(text.error());
    return text;
  };
  auto printed = print_of(question);
  // Excluding the tools' names from text in every escaped spelling takes too many rules. Then only
  // the plain spelling is excluded, and a call in an escaped spelling is unconstrained.
  const bool is_loose = !printed && printed.error().code == Errc::limit_exceeded;
  if (is_loose) {
    Question plainer = question;
    plainer.options.bars_escapes = false;
    printed = print_of(plainer);
  }
  if (!printed) return Unexpected(std::move(printed.error()));
  ++compilations;
  Constraint constraint;
  constraint.printed = std::make_shared<const std::string>(std::move(printed->text));
  for (const Tool& tool : question.tools) constraint.schemas.push_back(tool.parameters);
  add_names(constraint.unenforced, judged->left_out);
  // A printed grammar does not tell from which tool's schema it leaves something out.
  if (is_loose || !printed->relaxed.empty()) {
    for (const Tool& tool : question.tools) add_name(constraint.unenforced, tool.name);
    add_name(constraint.unenforced, {});
  }
  // The key has the schemas as text; as values they take some three times as much.
  const std::size_t bytes = 5 * key.size() + constraint.printed->size();
  cache.keep(key, std::make_shared<const Constraint>(constraint), bytes);
  return constraint;
}

Constraints::Constraints(std::shared_ptr<const format::Format> format,
                         const vocab::Tokenizer& tokenizer, Options options)
    : format_(std::move(format)),
      tokenizer_(tokenizer),
      options_(std::move(options)),
      printing_(options_.constrained_by == engine::ConstrainedBy::masks
                    ? nullptr
                    : std::make_shared<Printing>(options_.constrained_by, options_.cache_bytes)) {}

// Made at the first request and not with the model: the index of 128,000 tokens takes 40 ms and 13
// MB.
const Expected<std::shared_ptr<Constraints::Shared>>& Constraints::shared() const {
  const std::lock_guard lock(mutex_);
  if (!shared_ && options_.index != nullptr) {
    shared_ = std::make_shared<Shared>(options_.index, options_.cache_bytes);
  }
  if (!shared_) {
    const auto vocab = vocab::Vocab::of(tokenizer_, options_.ends);
    if (vocab) {
      shared_ = std::make_shared<Shared>(std::make_shared<grammar::VocabIndex>(*vocab),
                                         options_.cache_bytes);
    } else {
      log::warn("answers are not constrained by grammars: " + vocab.error().message);
      shared_ = Unexpected(vocab.error());
    }
  }
  return *shared_;
}

// Whether the answer may have a reasoning section: the format has one, and the model uses it or the
// prompt has opened it.
bool Constraints::may_reason(std::string_view prompt_tail) const {
  return format_ != nullptr && format::has_reasoning_section(*format_) &&
         (options_.reasoning || format::starts_in_reasoning(*format_, prompt_tail));
}

// No constraint if nothing is asked for: text without tools. A request that only has tools is
// answered without a constraint, and a diagnostic, if the grammar of all of them is beyond our
// limits; a response format or a single faulty tool is refused.
Result<Constraint, Refusal> Constraints::of(const Ask& ask, std::string_view prompt_tail) const {
  const ChatRequest& request = ask.request;
  const bool holds_text = !ask.is_any_text();
  const bool has_tools =
      format_ != nullptr && format::writes_calls(*format_) && !request.tools.empty();
  // Printed grammars do not count tokens.
  const bool limits_reasoning = printing_ == nullptr && ask.max_reasoning_tokens &&
                                !request.continuation && may_reason(prompt_tail);
  if (!holds_text && !has_tools && !limits_reasoning) return Constraint{};
  if (printing_ == nullptr) {
    const auto& shared = this->shared();
    if (!shared && holds_text) {
      return refuse_tools(
          Error::at(Errc::unsupported, std::string(kResponseFormat),
                    "the model's answers cannot be constrained: " + shared.error().message),
          "unsupported_parameter");
    }
    if (!shared) return Constraint{};
  }

  const ArgumentOrder order = request.argument_order.value_or(options_.argument_order);
  const message::Bounds bounds = request.bounds.value_or(options_.bounds);
  const OtherForms others = printing_ == nullptr && options_.with_others != nullptr
                                ? ask.masked_other_forms(options_.required_in_others)
                                : OtherForms::nowhere;
  Question question{.format = request.continuation            ? nullptr
                              : others != OtherForms::nowhere ? options_.with_others
                                                              : format_,
                    .response = request.response_format,
                    .mode = has_tools ? request.tool_choice.mode : ToolMode::none,
                    .places = callable(request),
                    .options = {.parallel = request.parallel_tool_calls,
                                .json = {.property_order = order == ArgumentOrder::any
                                                               ? JsonOptions::PropertyOrder::any
                                                               : JsonOptions::PropertyOrder::schema,
                                         .is_bounded = bounds == message::Bounds::usual,
                                         .plain_integers = true,
                                         .declared_only = true,
                                         .lenient = true},
                                .tokenizer = printing_ == nullptr ? &tokenizer_ : nullptr,
                                .prompt_tail = std::string(prompt_tail),
                                .reasoning = options_.reasoning,
                                .required_in_any_form = options_.required_in_others,
                                .others_first = others == OtherForms::first}};
  if (limits_reasoning) question.options.max_reasoning_tokens = ask.max_reasoning_tokens;

  const auto held = printing_ == nullptr
                        ? (*this->shared())->constraint(std::move(question), request)
                        : printing_->constraint(std::move(question), request);
  if (!held && is_our_limit(held.error()) && !holds_text && !is_about_tool(held.error())) {
    const std::string message =
        "the answer is not constrained by the tools: " + held.error().message;
    log::warn(std::string(log::content(message)));
    return Constraint{.diagnostics = {{"not_held", message}}};
  }
  if (!held) return refuse_tools(held.error());
  Constraint constraint = *held;
  for (const Tool& tool : request.tools) {
    if (tool.strict == false) add_name(constraint.unenforced, tool.name);
  }
  return constraint;
}

GrammarCounts Constraints::counts() const {
  if (printing_ != nullptr) {
    return {.compilations = printing_->compilations,
            .cache_hits = printing_->hits,
            .cache_bytes = printing_->cache.memory_bytes()};
  }
  const std::lock_guard lock(mutex_);
  if (!shared_ || !*shared_) return {};
  const grammar::GrammarCache& cache = (**shared_)->cache;
  const auto counts = cache.counts();
  return {.compilations = counts.compilations,
          .cache_hits = counts.hits,
          .cache_bytes = cache.memory_bytes()};
}

// With limits of its own: it is called when tools are added, and not for a request.
Status check_parameters(const Tool& tool) {
  json::Value source = schema_of(tool.parameters, tool.strict);
  if (Status objects = take_objects_only(source); !objects) return objects;
  grammar::KnownSchemas schemas(0);
  Trials trials(schemas);
  const auto held = enforced(source, {}, trials);
  if (held || is_our_limit(held.error())) return {};
  return Unexpected(held.error());
}

}  // namespace tenon::chat
