#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "files.h"
#include <CLI/CLI.hpp>

#include "tenon/grammar/mask_batch.h"
#include "tenon/grammar/vocab_index.h"
#include "tenon/json/value.h"
#include "tenon/vocab/tokenizer_file.h"
#include "tenon/vocab/vocab.h"

namespace tenon::app {
namespace {

struct Options {
  bool batch = false;
  std::string vocab;
  std::optional<vocab::TokenId> end;
};

OrComplaint<grammar::MaskBatch> load(const Options& options) {
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
  return grammar::MaskBatch(*tokenizer, std::make_shared<grammar::VocabIndex>(*std::move(tokens)));
}

int run(const Options& options) {
  if (!options.batch) return complain({kUsage, "mask: give --batch"});
  auto batch = load(options);
  if (!batch) return complain(batch.error());
  return batch->run(std::cin, std::cout);
}

}  // namespace

Command add_mask(CLI::App& tenon) {
  CLI::App* app =
      tenon.add_subcommand("mask", "Which tokens may come next in JSON of a schema, and how fast");
  auto options = std::make_shared<Options>();
  app->add_flag("--batch", options->batch, "One JSON request per line in, one answer per line out");
  app->add_option("--vocab", options->vocab, "GGUF file, or tokenizer.json")->required();
  app->add_option("--eos", options->end,
                  "Id of a token that ends a text, beside those of the file");
  app->footer(
      "Example:\n"
      "  echo '{\"schema\": {\"type\": \"integer\"}, \"tests\": [{\"text\": \"12\"}, {\"text\": "
      "\"x\"}]}' |\n"
      "    tenon mask --batch --vocab models/tenon-tiny.gguf");
  return {app, [options] { return run(*options); }};
}

}  // namespace tenon::app
