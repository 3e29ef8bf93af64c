#include <algorithm>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "command.h"

#include "tenon/batch/describe_format.h"
#include "tenon/batch/parse.h"
#include "tenon/config/files.h"
#include "tenon/format/format.h"
#include "tenon/format/registry.h"
#include "tenon/format/response_template.h"
#include "tenon/json/value.h"

// `tenon formats`: the list of formats, one format with an example of all that it writes (show),
// and a definition made from a response_template of Hugging Face (import).

namespace tenon::app {
namespace {

struct FormatsOptions {
  bool json = false;
  std::string name;
  std::string to = "gbnf";  // language of the grammar
  std::string part;         // print this part alone; "": all
  std::string file;         // for `import`
};

int print_table() {
  const json::Value formats = batch::formats_json();
  std::size_t width = 0;
  for (const json::Value& format : *formats.if_array()) {
    width = std::max(width, format.find("name")->if_string()->size());
  }
  for (const json::Value& format : *formats.if_array()) {
    std::cout << std::left << std::setw(static_cast<int>(width) + 2)
              << *format.find("name")->if_string()
              << (*format.find("parallel")->if_bool() ? "parallel  " : "single    ")
              << *format.find("summary")->if_string() << '\n';
    std::string aliases;
    for (const json::Value& alias : *format.find("aliases")->if_array()) {
      aliases += (aliases.empty() ? "" : ", ") + *alias.if_string();
    }
    if (!aliases.empty()) std::cout << std::string(width + 2, ' ') << "also: " << aliases << '\n';
  }
  return kOk;
}

// A heading and the texts below it; nothing if the format lacks the part.
void print_part(const json::Object& shown, const char* key, std::string_view title) {
  const json::Value* value = shown.find(key);
  if (value == nullptr) return;
  std::cout << "\n# " << title << "\n\n";
  const auto print_text = [](const std::string& text) {
    std::cout << text << (text.ends_with('\n') ? "" : "\n");
  };
  if (value->if_string() != nullptr) print_text(*value->if_string());
  if (value->if_array() != nullptr) {
    for (const json::Value& text : *value->if_array()) print_text(*text.if_string());
  }
}

// `--part` prints one part alone, so that it can go into a file.
int show(const FormatsOptions& options) {
  const auto format = format::named(options.name);
  if (!format) return complain({kBadInput, format.error().message});
  const auto shown = batch::describe(**format, options.to);
  if (!shown) return complain({kBadInput, shown.error().message});
  if (options.json) {
    std::cout << json::to_string(*shown) << '\n';
    return kOk;
  }
  if (!options.part.empty()) {
    const json::Value* part = shown->find(options.part);
    if (part == nullptr) {
      return complain(
          {kBadInput,
           options.name + ": the definition has no [[syntax]], so it has no " + "calls"});
    }
    const std::string& text = *part->if_string();
    std::cout << text << (text.ends_with('\n') ? "" : "\n");
    return kOk;
  }
  std::cout << *shown->find("name")->if_string() << ": " << *shown->find("summary")->if_string()
            << '\n';
  if (shown->find("call") == nullptr)
    std::cout << "\nNo calls: the definition has no [[syntax]].\n";
  print_part(*shown, "call", "A call");
  print_part(*shown, "calls", "Two calls");
  print_part(*shown, "results", "Results, where the chat template has no place for them");
  print_part(*shown, "grammar", "Grammar of a demanded call (" + options.to + ")");
  print_part(*shown, "definition", "Definition");
  return kOk;
}

int import(const FormatsOptions& options) {
  const auto config = config::read_json(options.file);
  if (!config) return complain({kBadInput, config.error().message});
  const json::Value* source = config->find("response_template");
  // `fields` is a member of every response_template, so a file with it is the template itself.
  if (source == nullptr && config->find("fields") == nullptr) {
    return complain(
        {kBadInput, config::input_name(options.file) + ": there is no response_template"});
  }
  const auto definition = format::definition_of(source == nullptr ? *config : *source,
                                                options.name.empty() ? "imported" : options.name);
  if (!definition) {
    return complain(
        {kBadInput, config::input_name(options.file) + ": " + definition.error().message});
  }
  // What is printed must load again, so it is compiled here.
  if (const auto format = format::compile(*definition, "the definition"); !format) {
    return complain({kBadInput, config::input_name(options.file) + ": response_template: " +
                                    format.error().message + "\n\n" + *definition});
  }
  std::cout << *definition;
  return kOk;
}

int run_formats(const FormatsOptions& options, App show_app, App import_app) {
  if (show_app.parsed()) return show(options);
  if (import_app.parsed()) return import(options);
  if (!options.json) return print_table();
  std::cout << json::to_string(batch::formats_json()) << '\n';
  return kOk;
}

}  // namespace

Command add_formats(App tenon) {
  const App app = tenon.add_subcommand("formats", "Lists the tool-call formats that Tenon knows");
  auto options = std::make_shared<FormatsOptions>();
  app.add_flag("--json", options->json, "As JSON, for programs");
  const App show = app.add_subcommand("show", "One format: example, grammar, definition");
  show.add_option("NAME", options->name, "Its name or alias").required();
  show.add_option("--to", options->to, "Language of the grammar: gbnf (the default), ebnf or lark")
      .one_of({"gbnf", "ebnf", "lark"});
  show.add_option("--part", options->part, "Only the call, the grammar or the definition")
      .one_of({"call", "grammar", "definition"});
  show.add_flag("--json", options->json, "As JSON, for programs");
  show.footer("Example:\n  tenon formats show hermes --to lark");
  const App import = app.add_subcommand(
      "import", "Prints a definition that says what a Hugging Face response_template says");
  import
      .add_option("FILE", options->file,
                  "tokenizer_config.json, or the response_template alone; '-' is stdin")
      .required();
  import.add_option("--name", options->name, "Name of the format (default: imported)");
  import.footer("Example:\n  tenon formats import model/tokenizer_config.json > mine.toml");
  app.footer("Example:\n  tenon formats --json\n  tenon formats show hermes");
  return {app, [options, show, import] { return run_formats(*options, show, import); }};
}

}  // namespace tenon::app
