// Every value of a text that is read stands somewhere in it, and errors name a place.
#include "tenon/base/toml.h"

#include "fuzz.h"

using tenon::fuzz::promise;
namespace toml = tenon::toml;

namespace {

void check(const toml::Value& value) {
  promise(value.position().line > 0 && value.position().column > 0, "values have a place");
  if (const toml::Array* items = value.if_array()) {
    for (const toml::Value& item : *items) check(item);
  }
  if (const toml::Table* table = value.if_table()) {
    for (const toml::Entry& entry : table->entries()) {
      promise(table->find(entry.key) == &entry.value, "keys are found and come once");
      check(entry.value);
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto document = toml::parse(tenon::fuzz::text_of(data, size), "x");
  if (!document) {
    promise(document.error().message.starts_with("x:"), "errors name their place");
    return 0;
  }
  for (const toml::Entry& entry : document->root.entries()) check(entry.value);
  return 0;
}
