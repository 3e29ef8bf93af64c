// The vocabulary of any GGUF file is read or refused; what is read encodes any text within bounds.
#include "fuzz.h"

#include "tenon/vocab/tokenizer_file.h"

using tenon::fuzz::promise;
using tenon::vocab::Controls;
using tenon::vocab::TokenId;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = tenon::fuzz::text_of(data, size);
  const auto file = tenon::vocab::GgufFile::parse(bytes);
  if (!file) return 0;
  const auto tokenizer = tenon::vocab::read_gguf_tokenizer(*file);
  if (!tokenizer) {
    promise(!tokenizer.error().message.empty(), "a refusal says why");
    return 0;
  }
  std::vector<TokenId> ids;
  if (!(*tokenizer)->encode(bytes, Controls::off, true, ids)) {
    promise(ids.empty(), "a failure leaves the ids as they were");
  }
  for (const TokenId id : ids) {
    promise(id >= 0 && static_cast<std::size_t>(id) < (*tokenizer)->size(), "ids are in range");
  }
  static_cast<void>(tenon::vocab::check_tokenizer(**tokenizer));
  return 0;
}
