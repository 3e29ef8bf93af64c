#include "tenon/batch/mask.h"

#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.h"
#include "mask_session.h"
#include "rules_options.h"
#include "terminal.h"
#include <unistd.h>

#include "tenon/batch/grammar_request.h"
#include "tenon/batch/tool_request.h"
#include "tenon/config/files.h"
#include "tenon/grammar/machine/vocab_index.h"
#include "tenon/json/value.h"
#include "tenon/vocab/tokenizer_file.h"
#include "tenon/vocab/vocab.h"

// `tenon mask`: loads a vocabulary, compiles a schema or a grammar, and lets the user type a text
// piece by piece (MaskSession), or answers JSON lines (batch::MaskBatch).

namespace tenon::app {
namespace {

struct MaskOptions {
  bool batch = false;
  std::string vocab;                  // GGUF file or tokenizer.json
  std::optional<vocab::TokenId> end;  // ends a text, besides the file's own
  std::string property_order = "any";
  bool lenient = false;  // leave out what cannot be enforced
  RulesOptions rules;
};

struct Loaded {
  std::shared_ptr<const vocab::Tokenizer> tokenizer;
  std::shared_ptr<grammar::VocabIndex> index;
};

// The tokenizer, and the index over its tokens, which grammars need. Without an end of text there
// are no grammars: no text could end.
OrComplaint<Loaded> load(const MaskOptions& options) {
  const auto tokenizer = vocab::load_tokenizer(options.vocab);
  if (!tokenizer) return complaint(kBadInput, tokenizer.error().message);
  std::vector<vocab::TokenId> ends;
  if (options.end) ends.push_back(*options.end);
  auto tokens = vocab::Vocab::of(**tokenizer, std::move(ends));
  if (!tokens) return complaint(kBadInput, options.vocab + ": " + tokens.error().message);
  if ((*tokens)->ends().empty()) {
    return complaint(kBadInput, options.vocab +
                                    " does not say with which token a text ends: give its id "
                                    "with --eos");
  }
  return Loaded{*tokenizer, std::make_shared<grammar::VocabIndex>(*std::move(tokens))};
}

OrComplaint<json::Object> mask_request_of(const MaskOptions& options, App app) {
  const bool is_schema = options.rules.syntax.empty();
  if (!is_schema) {
    const auto refused = refuse_options(app, {"--property-order", "--lenient"},
                                        "with --syntax: it is about schemas");
    if (!refused) return Failure<Complaint>(refused.error());
  }
  auto request = request_of(options.rules, app);
  if (request && is_schema) {
    (*request)["property_order"] = options.property_order;
    (*request)["lenient"] = options.lenient;
  }
  return request;
}

OrComplaint<std::shared_ptr<grammar::Grammar>> compile(
    const MaskOptions& options, App app, const std::shared_ptr<grammar::VocabIndex>& index) {
  const auto request = mask_request_of(options, app);
  if (!request) return Failure<Complaint>(request.error());
  const auto refused = [&](const Error& error) {
    return complaint(kBadInput, options.rules.file + ": " + error.message);
  };
  auto read = batch::requested_rules(*request, {});
  if (!read) return refused(read.error());
  // The grammar may be evicted and made again long after this, with the same result.
  const auto relaxed = std::make_shared<std::vector<grammar::Relaxed>>();
  const auto build = [rules = *std::move(read), index, relaxed](grammar::Machine& machine) {
    relaxed->clear();
    return grammar::add_rules(machine, rules, index->vocab(), relaxed.get());
  };
  auto grammar = grammar::Grammar::make(build, index);
  if (!grammar) return refused(grammar.error());
  for (const grammar::Relaxed& one : *relaxed) {
    std::cerr << "relaxed: " << (one.schema_path.empty() ? "(root)" : one.schema_path) << ' '
              << one.keyword << ": " << one.message << '\n';
  }
  return *std::move(grammar);
}

// A pipe ends with status 1 if any line could not come; at a terminal trying is no failure.
int converse(std::shared_ptr<grammar::Grammar> grammar) {
  const bool is_terminal = isatty(STDIN_FILENO) == 1;
  MaskSession session(std::move(grammar));
  if (is_terminal) std::cout << MaskSession::kHelp;
  if (const Status shown = session.show(24, std::cout); !shown) {
    return complain({kBadInput, shown.error().message});
  }
  bool all_allowed = true;
  for (std::string line;;) {
    if (is_terminal) std::cout << "> " << std::flush;
    if (!std::getline(std::cin, line)) break;
    const auto allowed = session.feed(line, std::cout);
    if (!allowed) return complain({kBadInput, allowed.error().message});
    all_allowed = all_allowed && *allowed;
    std::cout << std::flush;
  }
  if (is_terminal) std::cout << '\n';
  return all_allowed || is_terminal ? kOk : kNegative;
}

int run_mask(const MaskOptions& options, App app) {
  if (options.batch) {
    constexpr std::string_view kWhy = "with --batch: each line of stdin says its own";
    auto refused = refuse_options(app, {"--property-order", "--lenient"}, kWhy);
    if (refused) refused = refuse_rules_options(app, kWhy);
    if (!refused) return complain(refused.error());
  } else if (options.rules.file.empty()) {
    return complain({kUsage, "mask: give the file of a schema or a grammar (or --batch)"});
  } else if (options.rules.file == "-") {
    return complain({kUsage, "mask: FILE must be a file, stdin is the text"});
  }
  auto loaded = load(options);
  if (!loaded) return complain(loaded.error());
  if (options.batch) {
    return batch::MaskBatch(loaded->tokenizer, loaded->index).run(std::cin, std::cout);
  }
  auto grammar = compile(options, app, loaded->index);
  if (!grammar) return complain(grammar.error());
  return converse(*std::move(grammar));
}

}  // namespace

Command add_mask(App tenon) {
  const App app = tenon.add_subcommand(
      "mask",
      "Which tokens may come next in JSON of a schema, or in a grammar, and why others not");
  auto options = std::make_shared<MaskOptions>();
  app.add_flag("--batch", options->batch, "One JSON request per line in, one answer per line out");
  app.add_option("--vocab", options->vocab, "GGUF file, or tokenizer.json").required();
  app.add_option("--eos", options->end, "Id of a token that ends a text, beside those of the file");
  app.add_option("--property-order", options->property_order, "any (the default) or schema")
      .one_of({"any", "schema"});
  app.add_flag("--lenient", options->lenient,
               "What cannot be enforced in a schema is left out, and listed on stderr");
  add_rules_options(app, options->rules,
                    "The schema or the grammar; lines of stdin are then the text, piece by piece");
  app.footer(
      "Examples:\n"
      "  printf '%s\\n' '{\"city\": ' ':why 5' | tenon mask --vocab models/tenon-tiny.gguf "
      "schema.json\n"
      "  echo '{\"schema\": {\"type\": \"integer\"}, \"tests\": [{\"text\": \"12\"}, {\"text\": "
      "\"x\"}]}' |\n"
      "    tenon mask --batch --vocab models/tenon-tiny.gguf\n"
      "A line :why TEXT asks why a text may not come next; :help lists the others.\n"
      "Exit status: 1 if a line of stdin may not come where it stands.");
  return {app, [options, app] { return run_mask(*options, app); }};
}

}  // namespace tenon::app
