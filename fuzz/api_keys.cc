// Key files: a line that is made is taken, whatever the key, and its key is found.
#include <algorithm>
#include <string>

#include "fuzz.h"

#include "tenon/api/keys.h"

using tenon::api::ApiKeys;
using tenon::fuzz::promise;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = tenon::fuzz::text_of(data, size);
  const auto keys = ApiKeys::parse(text);
  if (!keys) {
    promise(keys.error().message.starts_with("line "), "what is wrong has a line");
  } else {
    promise(keys->size() <= text.size() / 64, "a key has a line of its own");
  }
  std::string key(text.substr(0, 512));
  std::erase_if(key, [](char c) { return c <= ' ' || c > '~'; });
  if (key.empty()) return 0;
  const auto made = ApiKeys::parse(ApiKeys::line("ann", key, {.running = 1}));
  promise(made.has_value(), "a line that is made is taken");
  tenon::http::Request request;
  request.headers.push_back({"x-api-key", key});
  const auto owner = made->owner_of(request);
  promise(owner != nullptr && owner->name() == "ann", "its key is found");
  request.headers[0].value += 'x';
  promise(made->owner_of(request) == nullptr, "no other is");
  return 0;
}
