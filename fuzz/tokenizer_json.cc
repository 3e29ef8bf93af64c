// Any bytes are a tokenizer.json or refused; what is read encodes any text within bounds.
#include "fuzz.h"

#include "tenon/vocab/tokenizer_file.h"

using tenon::fuzz::promise;
using tenon::vocab::Controls;
using tenon::vocab::TokenId;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = tenon::fuzz::text_of(data, size);
  const auto tokenizer = tenon::vocab::parse_tokenizer_json(bytes);
  if (!tokenizer) {
    promise(!tokenizer.error().message.empty(), "a refusal says why");
    return 0;
  }
  for (const Controls controls : {Controls::off, Controls::on}) {
    std::vector<TokenId> ids;
    if (!(*tokenizer)->encode(bytes, controls, true, ids)) {
      promise(ids.empty(), "a failure leaves the ids as they were");
    }
    for (const TokenId id : ids) {
      promise(id >= 0 && static_cast<std::size_t>(id) < (*tokenizer)->size(), "ids are in range");
    }
  }
  static_cast<void>(tenon::vocab::check_tokenizer(**tokenizer));
  return 0;
}
